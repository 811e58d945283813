#!/usr/bin/env bash
# Build the sandbox's kernel: build.sh SOURCE_TREE OUTPUT_FILE [JOBS]
#
# Beside OUTPUT_FILE goes headers.tar.xz: what a module of this kernel is compiled with (about
# 11 MB, for a tree of 2 GB). It is made first: a kernel that is there has its headers. Into
# `profile` beside them goes which of profiles/ the code was arranged by (profiles/README.md), or
# why by none.
# SOURCE_TREE is an unpacked kernel source (>= 6.16), built in place and patched with
# patches/*.patch (what is in is noted in .gostlab-patched, so that a build that was cut off goes
# on).
# Exits with 3 if this source takes a patch or an option no more: another version may.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
source_tree=$1 output=$2 jobs=${3:-$(nproc)}
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
    local name
    name=$(basename "$1")
    if grep -qxF "$name" .gostlab-patched 2>/dev/null; then return; fi
    local patch=(patch --forward --fuzz=0 --no-backup-if-mismatch --silent -p1)
    if ! { "${patch[@]}" --dry-run <"$1" && "${patch[@]}" <"$1"; }; then
        echo "kernel: $name does not apply to this source" >&2
        exit 3
    fi
    echo "$name" >>.gostlab-patched
}
for file in "$here"/patches/*.patch; do apply "$file"; done
if [ -n "${GOSTLAB_COUNT_BRANCHES-}" ]; then apply "$here/profiles/instrument.diff"; fi

# Nothing but what options names, and what that needs. Where this machine can it is linked
# statically: the same file then runs on any Linux, whatever its C library is.
link=LD_SCRIPT_DYN_RPATH
if gcc -static -x c -o .gostlab-static - <<<'int main(void) { return 0; }' 2>/dev/null; then
    link=STATIC_LINK
fi
sed -nE "s/^LD_SCRIPT_DYN_RPATH=/$link=/; s/^[A-Z0-9]/CONFIG_&/p" "$here/options" \
    >.gostlab-options
if [ -n "${GOSTLAB_COUNT_BRANCHES-}" ]; then echo CONFIG_GCOV=y >>.gostlab-options; fi
rm -rf .gostlab-precompiled
cp -r "$here/precompiled" .gostlab-precompiled
cc=CC=$PWD/.gostlab-precompiled/cc
make --silent "$cc" KCONFIG_ALLCONFIG=.gostlab-options allnoconfig

missing=$(grep -vxFf .config .gostlab-options || true)
if [ -n "$missing" ]; then
    echo "kernel: this source does not take the options: ${missing//$'\n'/ }" >&2
    exit 3
fi

# How often each branch was taken, for the version and the compiler that it was counted with. With
# another it would count for little, so the kernel is built without.
flags=()
found=linux-$(make --silent kernelversion)-gcc-$(gcc -dumpfullversion)
if [ -n "${GOSTLAB_COUNT_BRANCHES-}" ]; then
    echo "none: this kernel counts branches" >"$(dirname "$output")/profile"
elif [ -f "$here/profiles/$found.tar.xz" ]; then
    rm -rf .gostlab-profile
    mkdir .gostlab-profile
    tar --extract --file="$here/profiles/$found.tar.xz" --directory=.gostlab-profile
    # gcc looks for them by the whole path of what it compiles.
    for counts in .gostlab-profile/*; do
        mv "$counts" ".gostlab-profile/${PWD//\//#}#${counts##*/}"
    done
    unfitting="-Wno-missing-profile -Wno-coverage-mismatch -Wno-error"
    flags+=("KCFLAGS=-fprofile-use=$PWD/.gostlab-profile $unfitting")
    echo "$found" >"$(dirname "$output")/profile"
else
    echo "none: there is none for $found" >"$(dirname "$output")/profile"
fi

make --jobs="$jobs" "$cc" "${flags[@]}" modules_prepare linux

# The kernel's own script takes the headers of arch/um and leaves out those of x86, which it
# includes.
cp vmlinux.symvers Module.symvers
rm -rf .gostlab-headers
pack='$(srctree)/scripts/package/install-extmod-build'
make --silent "$cc" run-command KBUILD_RUN_COMMAND="srctree=. $pack .gostlab-headers"
find arch/x86 -maxdepth 1 -name 'Makefile*' >.gostlab-more
find arch/x86/include arch/x86/um -type f \
    \( -name generated -prune -o -name '*.[ch]' -o -name 'Makefile*' \) >>.gostlab-more
find arch/x86/include/generated -type f >>.gostlab-more
tar --create --files-from=.gostlab-more | tar --extract --directory=.gostlab-headers
# xz's own level would take eight times as long for a sixth less.
tar --create --sort=name --mtime=@0 --owner=0 --group=0 --numeric-owner \
    --directory=.gostlab-headers . |
    xz -1 --threads="$jobs" >"$(dirname "$output")/headers.tar.xz.part"
mv "$(dirname "$output")/headers.tar.xz.part" "$(dirname "$output")/headers.tar.xz"

strip --strip-debug --output-file="$output.part" linux
mv "$output.part" "$output"
