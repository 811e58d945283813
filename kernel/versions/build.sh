#!/usr/bin/env bash
# Build one of the other kernels: build.sh SOURCE_TREE OUTPUT_FILE [JOBS]
#
# gostlab/setup/kernels.py has patched SOURCE_TREE, and has put into it
#   .gostlab-options         what is set on top of allnoconfig, CONFIG_NAME=value
#   .gostlab-may-be-missing  the CONFIG_NAMEs of those that this version may not have; * is all
#   .gostlab-profiles        the folder that the version's profiles are in (kernel/profiles)
# Beside OUTPUT_FILE go headers.tar.xz (what a module of this kernel is compiled with), missing
# (the options that were not taken) and profile (by which the code was arranged, or why by none).
# Exits with 3 if the source does not take an option that it must.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
source_tree=$1 output=$2 jobs=${3:-$(nproc)}
beside=$(dirname "$output")
# As kernel/build.sh: what the kernel stirs into its random numbers is the same in every build.
export ARCH=um KBUILD_BUILD_USER=gostlab KBUILD_BUILD_HOST=gostlab
export KBUILD_BUILD_VERSION=1 KBUILD_BUILD_TIMESTAMP="Thu Jan  1 00:00:00 UTC 1970"
unset SUBARCH CROSS_COMPILE MAKEFLAGS MFLAGS 2>/dev/null || true

cd "$source_tree"
version=$(make --silent kernelversion)
if [ -n "${GOSTLAB_COUNT_BRANCHES-}" ] && ! grep -qx CONFIG_GCOV=y .gostlab-options; then
    patch --forward --fuzz=0 --no-backup-if-mismatch --silent -p1 \
        <"$here/../profiles/instrument-${version%.*}.diff"
    echo CONFIG_GCOV=y >>.gostlab-options
fi
rm -rf .gostlab-precompiled
cp -r "$here/../precompiled" .gostlab-precompiled
cc=CC=$PWD/.gostlab-precompiled/cc
make --silent "$cc" KCONFIG_ALLCONFIG=.gostlab-options allnoconfig
grep -vxFf .config .gostlab-options >"$beside/missing" || true
if ! grep -qxF '*' .gostlab-may-be-missing; then
    wrong=$(grep -vFf .gostlab-may-be-missing "$beside/missing" || true)
    if [ -n "$wrong" ]; then
        echo "kernel: this source does not take the options: ${wrong//$'\n'/ }" >&2
        exit 3
    fi
fi

# As kernel/build.sh: how often each branch was taken, by the whole path of what is compiled.
flags=()
found=linux-$version-gcc-$(gcc -dumpfullversion)
profile=$(cat .gostlab-profiles 2>/dev/null || true)/$found.tar.xz
if [ -n "${GOSTLAB_COUNT_BRANCHES-}" ]; then
    echo "none: this kernel counts branches" >"$beside/profile"
elif [ -f "$profile" ]; then
    rm -rf .gostlab-profile
    mkdir .gostlab-profile
    tar --extract --file="$profile" --directory=.gostlab-profile
    for counts in .gostlab-profile/*; do
        mv "$counts" ".gostlab-profile/${PWD//\//#}#${counts##*/}"
    done
    unfitting="-Wno-missing-profile -Wno-coverage-mismatch -Wno-error"
    flags+=("KCFLAGS=-fprofile-use=$PWD/.gostlab-profile $unfitting")
    echo "$found" >"$beside/profile"
else
    echo "none: there is none for $found" >"$beside/profile"
fi

make --jobs="$jobs" "$cc" "${flags[@]}" modules_prepare linux

# What install-extmod-build packs where there is one, and the half of x86 that um includes.
if [ -f vmlinux.symvers ]; then cp vmlinux.symvers Module.symvers; fi
{
    find . -maxdepth 1 \( -name Makefile -o -name Kbuild -o -name .config -o -name Module.symvers \)
    find arch/um arch/x86 -maxdepth 1 \( -name 'Makefile*' -o -name Kbuild -o -name Kconfig \)
    find include scripts arch/um/include arch/um/scripts arch/x86/include arch/x86/um \
        -type f ! -name '*.o' ! -name '*.cmd' ! -name '*.a'
    find arch/um/os-Linux arch/um/kernel -name 'Makefile*'
    find scripts -type l
    if [ -f scripts/module.lds ]; then echo scripts/module.lds; fi
} | sort -u >.gostlab-headers
# As kernel/build.sh: xz's own level would take eight times as long for a sixth less.
tar --create --sort=name --mtime=@0 --owner=0 --group=0 --numeric-owner \
    --files-from=.gostlab-headers |
    xz -1 --threads="$jobs" >"$beside/headers.tar.xz.part"
mv "$beside/headers.tar.xz.part" "$beside/headers.tar.xz"

strip --strip-debug --output-file="$output.part" linux
mv "$output.part" "$output"
