"""Make the TSC read 0 in programs of an older Go, so that runs through them repeat.

Until Go 1.22 the runtime seeds half of each thread's random numbers with the cycle counter
(runtime·cputicks in asm_amd64.s, mcommoninit in proc.go). No virtual clock covers it: it is the
host's. Trapping the instruction (prctl PR_SET_TSC) would cost each of the program's calls a change
of CR4 and back. So ptrace(2) stops the program at its exec, before its first instruction, and in
its memory the counter is made to read 0. Its file stays unchanged.
"""

import ctypes
import mmap
import os
import re
from collections.abc import Callable, Mapping
from pathlib import Path

from gostlab.guest.iperf3_hold import PTRACE_DETACH, WALL, can_hold, ptrace
from gostlab.install.landlock import libc
from gostlab.install.locate import version_tuple

FIRST_WITHOUT = (1, 22)  # the first Go whose random numbers all come from the kernel
# RDTSCP; SHLQ $32, DX; ADDQ DX, AX, and in place of the first XORL AX, AX; CLTD.
READS, READS_ZERO = bytes.fromhex("0f01f9 48c1e220 4801d0"), bytes.fromhex("31c099")
PTRACE_TRACEME, PTRACE_CONT = 0, 7  # <linux/ptrace.h>


def go_seeds_from_tsc(version: str) -> bool:
    """Return whether a Go program seeds random numbers from the TSC.

    `version` is like "gost 3.0.0-rc8, go1.19.8".
    """
    go = re.search(r"\bgo(\d+\.\d+)", version)
    return go is not None and version_tuple(go[1]) < FIRST_WITHOUT


def tsc_read_offset(program: Path) -> int | None:
    """Return the offset in a program's file at which the TSC is read, or None if unknown."""
    if not can_hold() or not program.stat().st_size:
        return None
    with program.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as text:
        offset = text.find(READS)
    return offset if offset >= 0 else None


def _stand_still() -> None:
    libc.ptrace(ctypes.c_long(PTRACE_TRACEME), 0, 0, 0)


# Options of a Popen whose process stops at each exec, until `release_at_exec` releases it.
STANDING_STILL: Mapping[str, Callable[[], None]] = {"preexec_fn": _stand_still}


def release_at_exec(pid: int, file_offset: int, *, execs: int) -> bool:
    """Continue to the last of `execs` execs, make the TSC read 0 there, and release the process.

    Returns whether the counter's read was where it is in the program's file. Raises OSError.
    """
    for left in reversed(range(execs)):
        # A program that has ended instead is handled by the code that waits for it.
        status = os.waitid(os.P_PID, pid, os.WEXITED | os.WSTOPPED | os.WNOWAIT)
        if status is None or status.si_code not in (os.CLD_TRAPPED, os.CLD_STOPPED):
            return False
        os.waitpid(pid, WALL)
        if left:
            ptrace(PTRACE_CONT, pid)
    try:
        return write_zero(pid, file_offset)
    finally:
        ptrace(PTRACE_DETACH, pid)


def write_zero(pid: int, file_offset: int) -> bool:
    """Make the counter read 0 in a stopped process. Raises OSError."""
    address = address_of(file_offset, Path(f"/proc/{pid}/maps").read_text(encoding="utf-8"))
    if address is None:
        return False
    with Path(f"/proc/{pid}/mem").open("r+b", buffering=0) as memory:
        memory.seek(address)
        if memory.read(len(READS)) != READS:
            return False
        memory.seek(address)
        memory.write(READS_ZERO)
    return True


def address_of(file_offset: int, maps: str) -> int | None:
    """Return the address of a file offset in a process's memory, from /proc/PID/maps."""
    for line in maps.splitlines():
        match = re.match(r"(\w+)-(\w+) \S*x\S* (\w+) \S+ [1-9]", line)
        if match:
            start, end, offset = (int(field, 16) for field in match.groups())
            if offset <= file_offset < offset + end - start:
                return start + file_offset - offset
    return None
