# SPDX-License-Identifier: MIT
"""Copy a guest that waits at its held call, in place of another boot.

A kernel that can be copied (`RunBoot.can_copy`) waits in a call of its own
(kernel/src/arch/um/kernel/template.c). The answer to that call may order a copy: a process like the
kernel's, with a memory file and guest processes of its own, that waits at the same call in one of
the template's subfolders. A copy costs a tenth of a boot and of the guest's imports. It is a child
of this process and does not need its template any more.
"""

from __future__ import annotations

import os
import shutil
import signal
import threading
import time
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from gostlab.sandbox import held_syscall
from gostlab.sandbox.host_limits import available_memory
from gostlab.sandbox.uml import COPIES, Guest, RunBoot

MAX_COPIES = 100  # the folders that a template's sandbox may write are fixed at its boot
MAX_LIVING_COPIES = 16  # their memory is on the template's tmpfs
MAX_COPY_S = 10.0
MAX_BOOT_S = 10.0
IS_COPY = 1  # status of a copy's first call; above it is the process ID of the template's copy


class CopiedProcess:
    """A child process that subprocess has not started, with the interface of a Popen.

    Any thread may use it.
    """

    def __init__(self, pid: int) -> None:
        self.pid = pid
        self._mutex = threading.Lock()
        self.returncode: int | None = None

    def poll(self) -> int | None:
        """Return the exit status, None while the process runs."""
        return self._reap(os.WNOHANG)

    def wait(self) -> int:
        """Wait for the end, and return the exit status."""
        self._reap(0)
        assert self.returncode is not None
        return self.returncode

    def kill(self) -> None:
        """Kill the process, unless its end is known."""
        if self.returncode is None:
            with suppress(ProcessLookupError):
                os.kill(self.pid, signal.SIGKILL)

    def _reap(self, flags: int) -> int | None:
        if self.returncode is None:
            with self._mutex:  # without it the second of two threads would find no child
                self._reap_alone(flags)
        return self.returncode

    def _reap_alone(self, flags: int) -> None:
        if self.returncode is None:
            try:
                pid, status = os.waitpid(self.pid, flags)
            except ChildProcessError:  # somebody else has waited for it
                self.returncode = -signal.SIGKILL
            else:
                if pid:
                    self.returncode = os.waitstatus_to_exitcode(status)


def boot_template(
    boot: RunBoot, folder: Path, cpu: int, channel: held_syscall.ListenerChannel
) -> Template:
    """Boot a guest that is copied. Raises MachineError or OSError."""
    guest = boot.boot(folder, cpu, channel, copies=MAX_COPIES, living_copies=MAX_LIVING_COPIES)
    return Template(guest, boot, folder)


@dataclass
class Template:
    """A guest that is copied. Its folder has one subfolder for each copy."""

    guest: Guest
    boot: RunBoot
    folder: Path
    _made: int = 0
    _copies: list[Guest] = field(default_factory=list)

    @property
    def is_ready(self) -> bool:
        """Return whether the guest waits at its call."""
        return self.guest.held is not None and self.guest.held.has_come()

    def wait_until_ready(self) -> bool:
        """Wait while the guest boots; return whether it waits at its call."""
        deadline = time.monotonic() + MAX_BOOT_S
        while not self.is_ready:
            held = self.guest.held
            if held is None or not self.guest.is_running or time.monotonic() > deadline:
                return False
            held.listener.wait(0.01)
        return True

    @property
    def is_copyable(self) -> bool:
        """Return whether the call of a guest that is ready is one of its kernel."""
        call = self.guest.held.call() if self.guest.held else None
        return call is not None and call.path == 0

    @property
    def is_used_up(self) -> bool:
        """Return whether there is no folder left for a copy."""
        return self._made == MAX_COPIES

    def copy(self, cpu: int) -> Guest:
        """Return a copy that waits at its held call, pinned to a CPU. Raises OSError."""
        held = self.guest.held
        self._copies = [copy for copy in self._copies if copy.is_running]
        if held is None or self.is_used_up or len(self._copies) == MAX_LIVING_COPIES:
            raise OSError("no more copies of this guest")
        if available_memory().free_mib < self.boot.model.memory_mib:
            raise OSError("no memory left for a copy")
        self._made += 1
        folder = self.folder / COPIES / str(self._made)
        self._lay_out(folder)
        os.sched_setaffinity(self.guest.group, {cpu})
        process = order_copy(self.guest, held, self._made)
        memory = self.guest.memory.shared_by(folder)
        copy = self.guest.copied(process, folder, memory)
        copy.held = held_syscall.HeldCall(held.listener, process.pid)
        self._copies.append(copy)
        return copy

    def _lay_out(self, folder: Path) -> None:
        """Write what the guest's kernel and its programs find in the folder of a run."""
        assert self.boot.root is not None
        self.boot.root.lay_out(folder, self.boot.modules)
        shutil.copyfile(self.folder / "log.txt", folder / "log.txt")


def order_copy(template: Guest, held: held_syscall.HeldCall, number: int) -> CopiedProcess:
    """Let a template make a copy; return it once it waits at its call. Raises OSError."""
    deadline = time.monotonic() + MAX_COPY_S
    if not held.order(number):
        raise OSError("the template does not wait")
    while (call := held.call()) is None:
        if not template.is_running or time.monotonic() > deadline:
            raise OSError("the template has ended")
        held.listener.wait(0.01)
    if call.status <= IS_COPY:
        raise OSError(-call.status, os.strerror(-call.status))
    process = CopiedProcess(call.status)
    while held.listener.call_of(process.pid) is None:
        if process.poll() is not None or time.monotonic() > deadline:
            process.kill()
            raise OSError(f"the copy has ended: {process.wait()}")
        held.listener.wait(0.01)
    return process
