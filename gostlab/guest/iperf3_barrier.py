"""iperf3's server held where it would let the data begin, so that a flow begins when it was asked.

iperf3 opens a control connection and one for each stream, and then says "start": behind a full
queue that takes many round trips. A run of several flows has all of these made before its load
begins. Each server stands still before it takes its last stream's connection (a datagram of UDP's),
by ptrace(2), and goes on from there when its flow is to begin.
"""

import ctypes
import os
import platform
import signal
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import Self

from gostlab.install.landlock import checked, libc

PTRACE_PEEKUSER, PTRACE_DETACH, PTRACE_SYSCALL = 3, 17, 24  # <linux/ptrace.h>
PTRACE_SEIZE, PTRACE_INTERRUPT = 0x4206, 0x4207
PTRACE_O_TRACESYSGOOD = 1
SYSCALL_STOP = signal.SIGTRAP | 0x80
WALL = 0x40000000  # <linux/wait.h>: threads, too
# Where PTRACE_PEEKUSER finds the number of a call, and the numbers of those that take what comes.
ORIG_RAX, ACCEPTS, RECEIVES = 15 * 8, frozenset({43, 288}), frozenset({45})
LOOK_S = 0.0005

libc.ptrace.restype = ctypes.c_long


def can_hold() -> bool:
    """Whether this machine's calls are known here by their numbers."""
    return platform.machine() == "x86_64"


def ptrace(request: int, pid: int, address: int = 0, data: int = 0) -> int:
    """Raises OSError."""
    ctypes.set_errno(0)
    found: int = libc.ptrace(
        ctypes.c_long(request), ctypes.c_long(pid), ctypes.c_void_p(address), ctypes.c_void_p(data)
    )
    if found == -1 and ctypes.get_errno():
        checked(found, "ptrace")
    return found


@dataclass
class HeldServer:
    """A server on its way to where it is held."""

    pid: int
    calls: frozenset[int]  # of these
    left: int  # so many are let through, the next one is held
    traced: bool = True

    @classmethod
    def seize(cls, pid: int, streams: int, *, by_datagrams: bool) -> Self:
        """From now on each of a server's calls is looked at. It takes its control connection first,
        by TCP. Raises OSError.
        """
        ptrace(PTRACE_SEIZE, pid, data=PTRACE_O_TRACESYSGOOD)
        ptrace(PTRACE_INTERRUPT, pid)
        calls = RECEIVES if by_datagrams else ACCEPTS
        return cls(pid, calls, streams - 1 if by_datagrams else streams)

    def hold(self, check: Callable[[], None]) -> None:
        """Go on to the call that is held. `check` may raise what ends the waiting. Raises OSError;
        ProcessLookupError if the server ends before.
        """
        entering = True
        while True:
            found, status = os.waitpid(self.pid, os.WNOHANG | WALL)
            if not found:
                check()
                time.sleep(LOOK_S)
                continue
            if not os.WIFSTOPPED(status):
                self.traced = False
                raise ProcessLookupError(f"process {self.pid} has ended")
            signal_of_its_own = 0
            if os.WSTOPSIG(status) == SYSCALL_STOP:
                if entering and ptrace(PTRACE_PEEKUSER, self.pid, ORIG_RAX) in self.calls:
                    if not self.left:
                        return
                    self.left -= 1
                entering = not entering
            elif status >> 16 == 0:
                signal_of_its_own = os.WSTOPSIG(status)
            ptrace(PTRACE_SYSCALL, self.pid, data=signal_of_its_own)

    def release(self) -> None:
        """Let it go on, and look no more; nothing if that is done. A server that has not come to
        where it is held cannot be let go, and is ended.
        """
        if self.traced:
            self.traced = False
            try:
                ptrace(PTRACE_DETACH, self.pid)
            except ProcessLookupError:
                with suppress(ProcessLookupError):
                    os.kill(self.pid, signal.SIGKILL)
