#!/usr/bin/env bash
# Build a kernel of the sandbox: build.sh SOURCE_TREE OUTPUT_FILE [JOBS [VERSION]]
#
# SOURCE_TREE is an unpacked kernel source, built in place. The files of src/ are copied into it,
# and the patches of versions/VERSION/series (default: 7.3's) are applied; .gostlab-patched lists
# those that are in, so that an interrupted build goes on. gostlab/install/kernels.py may have put
# into the tree
#   .gostlab-series          other patches: those that a user's tree takes
#   .gostlab-options         the options, in place of kconfig.fragment
#   .gostlab-may-be-missing  the CONFIG_NAME=s that this version may not have; * is all
# Beside OUTPUT_FILE go headers.tar.xz (what a module of this kernel is compiled with), missing (the
# options that were not taken) and profile (which of profiles/ the code was arranged by).
# Exits with 3 if this source does not take a patch or an option: another version may.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
source_tree=$1 output=$2 jobs=${3:-$(nproc)} version=${4:-7.3}
beside=$(dirname "$output")
export ARCH=um KBUILD_BUILD_USER=gostlab KBUILD_BUILD_HOST=gostlab
# The kernel stirs its own version line into its random numbers: with the build's count and date in
# it a run would come out otherwise on every build of the same source.
export KBUILD_BUILD_VERSION=1 KBUILD_BUILD_TIMESTAMP="Thu Jan  1 00:00:00 UTC 1970"
# The compiler must not guess another sub-architecture from the environment.
unset SUBARCH CROSS_COMPILE MAKEFLAGS MFLAGS 2>/dev/null || true

cd "$source_tree"
# Without fuzz: a hunk whose context has changed may belong elsewhere. All of a patch or nothing of
# it, so that another source can be told apart from a half-patched one.
apply() {
    local patch=(patch --forward --fuzz=0 --no-backup-if-mismatch --silent -p1)
    if grep -qxF "$2" .gostlab-patched 2>/dev/null; then return; fi
    if ! { "${patch[@]}" --dry-run <"$1" && "${patch[@]}" <"$1"; }; then
        echo "kernel: $2 does not apply to this source" >&2
        exit 3
    fi
    echo "$2" >>.gostlab-patched
}
cp -r "$here"/src/. .
series=.gostlab-series
if ! [ -f $series ]; then series=$here/versions/$version/series; fi
while read -r name; do
    case $name in '' | '#'*) ;; *) apply "$here/versions/$name" "$name" ;; esac
done <"$series"
found=$(make --silent kernelversion)
if [ -n "${GOSTLAB_COUNT_BRANCHES-}" ]; then
    instrument=$here/profiles/instrument-${found%.*}.diff
    if ! [ -f "$instrument" ]; then instrument=$here/profiles/instrument.diff; fi
    apply "$instrument" "${instrument##*/}"
fi

# Nothing but what the fragment names, and what that needs. Where this machine can the shipped
# kernel is linked statically: the same file then runs on any Linux, whatever its C library is.
if ! [ -f .gostlab-options ]; then
    link=LD_SCRIPT_DYN_RPATH
    if gcc -static -x c -o .gostlab-static - <<<'int main(void) { return 0; }' 2>/dev/null; then
        link=STATIC_LINK
    fi
    sed -nE "s/^CONFIG_LD_SCRIPT_DYN_RPATH=/CONFIG_$link=/; /^CONFIG_/p" "$here/kconfig.fragment" \
        >.gostlab-options
fi
cp .gostlab-options .gostlab-asked
if [ -n "${GOSTLAB_COUNT_BRANCHES-}" ]; then echo CONFIG_GCOV=y >>.gostlab-asked; fi
rm -rf .gostlab-precompiled
cp -r "$here/precompiled" .gostlab-precompiled
cc=CC=$PWD/.gostlab-precompiled/cc
make --silent "$cc" KCONFIG_ALLCONFIG=.gostlab-asked allnoconfig
grep -vxFf .config .gostlab-asked >"$beside/missing" || true
if ! grep -qxF '*' .gostlab-may-be-missing 2>/dev/null; then
    wrong=$(cat "$beside/missing")
    if [ -s .gostlab-may-be-missing ]; then
        wrong=$(grep -vFf .gostlab-may-be-missing "$beside/missing" || true)
    fi
    if [ -n "$wrong" ]; then
        echo "kernel: this source does not take the options: ${wrong//$'\n'/ }" >&2
        exit 3
    fi
fi

# How often each branch was taken, for the version and the compiler that it was counted with. With
# another it would count for little, so the kernel is built without.
flags=()
found=linux-$found-gcc-$(gcc -dumpfullversion)
if [ -n "${GOSTLAB_COUNT_BRANCHES-}" ]; then
    echo "none: this kernel counts branches" >"$beside/profile"
elif [ -f "$here/profiles/$found.tar.xz" ]; then
    rm -rf .gostlab-profile
    mkdir .gostlab-profile
    tar --extract --file="$here/profiles/$found.tar.xz" --directory=.gostlab-profile
    if [ -f .gostlab-profile/hot ]; then mv .gostlab-profile/hot .gostlab-precompiled; fi
    # gcc looks for them by the whole path of what it compiles.
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

# What scripts/package/install-extmod-build packs, which older versions do not have, and the half
# of x86 that um includes and it leaves out.
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
# xz's own level would take eight times as long for a sixth less.
tar --create --sort=name --mtime=@0 --owner=0 --group=0 --numeric-owner \
    --files-from=.gostlab-headers |
    xz -1 --threads="$jobs" >"$beside/headers.tar.xz.part"
mv "$beside/headers.tar.xz.part" "$beside/headers.tar.xz"

strip --strip-debug --output-file="$output.part" linux
mv "$output.part" "$output"
