#!/usr/bin/env bash
# Build the sandbox's kernel: build.sh SOURCE_TREE OUTPUT_FILE [JOBS]
#
# SOURCE_TREE is an unpacked kernel source (>= 6.16), built in place and patched with
# patches/*.patch (a patch that is already in is passed over, so that a build that was cut off goes on).
# Exits with 3 if this source takes a patch or an option no more: another version may.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
source_tree=$1 output=$2 jobs=${3:-$(nproc)}
export ARCH=um KBUILD_BUILD_USER=gostlab KBUILD_BUILD_HOST=gostlab
# The compiler must not guess another sub-architecture from the environment.
unset SUBARCH CROSS_COMPILE MAKEFLAGS MFLAGS 2>/dev/null || true

cd "$source_tree"
for file in "$here"/patches/*.patch; do
    if patch --dry-run --reverse --force --silent -p1 <"$file" >/dev/null 2>&1; then
        continue
    fi
    patch --forward --no-backup-if-mismatch --silent -p1 <"$file" ||
        { echo "kernel: $(basename "$file") does not apply to this source" >&2; exit 3; }
done

# Nothing but what options names, and what that needs.
sed -nE 's/^[A-Z0-9]/CONFIG_&/p' "$here/options" >.gostlab-options
make --silent KCONFIG_ALLCONFIG=.gostlab-options allnoconfig

missing=$(grep -vxFf .config .gostlab-options || true)
if [ -n "$missing" ]; then
    echo "kernel: this source does not take the options: ${missing//$'\n'/ }" >&2
    exit 3
fi

make --jobs="$jobs" linux
strip --strip-debug --output-file="$output.part" linux
mv "$output.part" "$output"
