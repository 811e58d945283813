"""Go's random numbers without the CPU's cycle counter, so that a run through a program of an older
Go repeats.

Until Go 1.22 its runtime seeds half of each thread's random numbers with the cycle counter
(runtime·cputicks in asm_amd64.s, mcommoninit in proc.go). No virtual clock covers that one: it is
the host's. To trap the instruction (prctl PR_SET_TSC) would cost each of the program's calls a
change of CR4 and back. So the program stands still at its exec by ptrace(2), before its first
instruction, and in its memory the counter then reads 0. Its file stays as it is.
"""

import ctypes
import mmap
import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from gostlab.guest.iperf3_barrier import PTRACE_DETACH, WALL, can_hold, ptrace
from gostlab.install.landlock import libc
from gostlab.install.locate import version_tuple

FIRST_WITHOUT = (1, 22)  # the first Go whose random numbers are all of the kernel's making
# RDTSCP; SHLQ $32, DX; ADDQ DX, AX, and in place of the first XORL AX, AX; CLTD.
READS, READS_ZERO = bytes.fromhex("0f01f9 48c1e220 4801d0"), bytes.fromhex("31c099")
PTRACE_TRACEME, PTRACE_CONT = 0, 7  # <linux/ptrace.h>


def go_seeds_from_tsc(version: str) -> bool:
    """Whether a program of Go ("gost 3.0.0-rc8, go1.19.8") has random numbers of the counter's."""
    go = re.search(r"\bgo(\d+\.\d+)", version)
    return go is not None and version_tuple(go[1]) < FIRST_WITHOUT


def place_in(program: Path) -> int | None:
    """Where in a program's file the counter is read; None: nowhere that is known here."""
    if not can_hold() or not program.stat().st_size:
        return None
    with program.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as text:
        found = text.find(READS)
    return found if found >= 0 else None


def _stand_still() -> None:
    libc.ptrace(ctypes.c_long(PTRACE_TRACEME), 0, 0, 0)


# Options of a Popen whose process stands still at each exec, until it is `let_go`.
STANDING_STILL: Mapping[str, Any] = {"preexec_fn": _stand_still}


def let_go(pid: int, place: int, *, execs: int) -> bool:
    """Go on to the last of so many execs, let the counter read 0 in what runs then, and let it go
    on; whether the counter was where it is in the program's file. Raises OSError.
    """
    for left in reversed(range(execs)):
        # A program that has ended instead is found by the code that waits for it.
        seen = os.waitid(os.P_PID, pid, os.WEXITED | os.WSTOPPED | os.WNOWAIT)
        if seen is None or seen.si_code not in (os.CLD_TRAPPED, os.CLD_STOPPED):
            return False
        os.waitpid(pid, WALL)
        if left:
            ptrace(PTRACE_CONT, pid)
    try:
        return write_zero(pid, place)
    finally:
        ptrace(PTRACE_DETACH, pid)


def write_zero(pid: int, place: int) -> bool:
    """The counter reads 0 in a process that stands still. Raises OSError."""
    address = address_of(place, Path(f"/proc/{pid}/maps").read_text(encoding="utf-8"))
    if address is None:
        return False
    with Path(f"/proc/{pid}/mem").open("r+b", buffering=0) as memory:
        memory.seek(address)
        if memory.read(len(READS)) != READS:
            return False
        memory.seek(address)
        memory.write(READS_ZERO)
    return True


def address_of(place: int, maps: str) -> int | None:
    """Where a place of a program's file is in its memory, by /proc/PID/maps."""
    for line in maps.splitlines():
        found = re.match(r"(\w+)-(\w+) \S*x\S* (\w+) \S+ [1-9]", line)
        if found:
            begins, ends, offset = (int(word, 16) for word in found.groups())
            if offset <= place < offset + ends - begins:
                return begins + place - offset
    return None
