"""Hold iperf3's server where it would start the data, so that a flow starts on time.

iperf3 opens a control connection and one per stream, and then sends "start": behind a full queue
that takes many round trips. A run of several flows has all of these connections made before its
load begins. Each server is stopped before it accepts its last stream's connection (UDP: receives
its datagram), by ptrace(2), and continues when its flow is to begin.
"""

import ctypes
import os
import platform
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Self

from gostlab.install.landlock import libc, raise_on_failure

PTRACE_PEEKUSER, PTRACE_DETACH, PTRACE_SYSCALL = 3, 17, 24  # <linux/ptrace.h>
PTRACE_SEIZE, PTRACE_INTERRUPT = 0x4206, 0x4207
PTRACE_O_TRACESYSGOOD = 1
SYSCALL_STOP = signal.SIGTRAP | 0x80
WALL = 0x40000000  # <linux/wait.h>: threads, too
# Offset of a call's number for PTRACE_PEEKUSER, and the numbers of the calls that accept
# connections or receive datagrams.
ORIG_RAX, ACCEPTS, RECEIVES = 15 * 8, frozenset({43, 288}), frozenset({45})
CHECK_S = 0.05  # interval between two checks while nothing happens

libc.ptrace.restype = ctypes.c_long


def can_hold() -> bool:
    """Return whether the numbers of this machine's system calls are known here."""
    return platform.machine() == "x86_64"


def ptrace(request: int, pid: int, address: int = 0, data: int = 0) -> int:
    """Call ptrace(2). Raises OSError."""
    ctypes.set_errno(0)
    result: int = libc.ptrace(
        ctypes.c_long(request), ctypes.c_long(pid), ctypes.c_void_p(address), ctypes.c_void_p(data)
    )
    if result == -1 and ctypes.get_errno():
        raise_on_failure(result, "ptrace")
    return result


@contextmanager
def blocked_signal(number: signal.Signals) -> Iterator[None]:
    """Keep a signal pending for this thread, which may wait for it."""
    old_mask = signal.pthread_sigmask(signal.SIG_BLOCK, [number])
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, old_mask)


@dataclass
class HeldServer:
    """A server on its way to the call at which it is held."""

    pid: int
    calls: frozenset[int]  # numbers of the calls that are counted
    left: int  # number of calls to let through; the next one is held
    traced: bool = True

    @classmethod
    def seize(cls, pid: int, streams: int, *, by_datagrams: bool) -> Self:
        """Trace each of a server's calls from now on.

        The server accepts its control connection first, by TCP. Raises OSError.
        """
        ptrace(PTRACE_SEIZE, pid, data=PTRACE_O_TRACESYSGOOD)
        ptrace(PTRACE_INTERRUPT, pid)
        calls = RECEIVES if by_datagrams else ACCEPTS
        return cls(pid, calls, streams - 1 if by_datagrams else streams)

    def hold(self, check: Callable[[], None]) -> None:
        """Continue to the call that is held.

        `check` may raise an error that ends the waiting. Raises OSError, or ProcessLookupError if
        the server ends before.
        """
        with blocked_signal(signal.SIGCHLD):
            self._continue_to_call(check)

    def _continue_to_call(self, check: Callable[[], None]) -> None:
        entering = True
        while True:
            stopped_pid, status = os.waitpid(self.pid, os.WNOHANG | WALL)
            if not stopped_pid:
                if signal.sigtimedwait([signal.SIGCHLD], CHECK_S) is None:
                    check()
                continue
            if not os.WIFSTOPPED(status):
                self.traced = False
                raise ProcessLookupError(f"process {self.pid} has ended")
            delivered_signal = 0
            if os.WSTOPSIG(status) == SYSCALL_STOP:
                if entering and ptrace(PTRACE_PEEKUSER, self.pid, ORIG_RAX) in self.calls:
                    if not self.left:
                        return
                    self.left -= 1
                entering = not entering
            elif status >> 16 == 0:
                delivered_signal = os.WSTOPSIG(status)
            ptrace(PTRACE_SYSCALL, self.pid, data=delivered_signal)

    def release(self) -> None:
        """Release the server and stop tracing it; does nothing if that is done.

        A server that has not reached the held call cannot be released, and is killed.
        """
        if self.traced:
            self.traced = False
            try:
                ptrace(PTRACE_DETACH, self.pid)
            except ProcessLookupError:
                with suppress(ProcessLookupError):
                    os.kill(self.pid, signal.SIGKILL)
