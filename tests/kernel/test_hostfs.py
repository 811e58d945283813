# SPDX-License-Identifier: MIT
"""Files of the host as a guest reads them, where the host's reads return less than asked for."""

import hashlib
import os
from pathlib import Path

import pytest

from gostlab.install import locate
from gostlab.registry.kernels import SHIPPED, declared_kernels
from tests.sandboxed import Lab

pytestmark = pytest.mark.sandbox

# sysfs returns a page at a time, whatever is asked for; this file of it has some megabytes.
SHORT_READS = Path("/sys/kernel/btf/vmlinux")
INIT = """#!/bin/sh
mount -t proc proc /proc
sha256sum {file}
echo o >/proc/sysrq-trigger
sleep 10
"""
BOOT_ARGS = "mem=64M root=/dev/root rootfstype=hostfs rootflags=/ ro con=null con0=null,fd:1 quiet"


@pytest.mark.skipif(not SHORT_READS.is_file(), reason=f"this kernel has no {SHORT_READS}")
@pytest.mark.parametrize("name", [SHIPPED, *(n for n in declared_kernels() if n != "7.3")])
def test_a_file_whose_reads_are_short_is_read_whole(lab: Lab, tmp_path: Path, name: str) -> None:
    kernel = lab.kernel_named(name)
    with SHORT_READS.open("rb", buffering=0) as file:
        read = os.preadv(file.fileno(), [bytearray(4096) for _ in range(32)], 0)
    if read == 32 * 4096:
        pytest.skip("the host's reads are not short")
    init = tmp_path / "init"
    init.write_text(INIT.format(file=SHORT_READS), encoding="utf-8")
    init.chmod(0o755)
    environment = ["env", f"TMPDIR={tmp_path}"]
    argv = [*environment, kernel, *BOOT_ARGS.split(), f"init={init}", *locate.seccomp_args(kernel)]
    digest = hashlib.sha256(SHORT_READS.read_bytes()).hexdigest()
    assert digest in locate.read_output(argv, 60.0)
