# SPDX-License-Identifier: MIT
"""Hold a system call of a child process until this process answers it (seccomp_unotify(2)).

A filter of system calls hands a truncate(2) to HELD_LENGTH bytes over to this process. Until the
answer the calling thread stands still in the kernel and uses no CPU time. The call is never carried
out: the child sees that it succeeded. No other call is affected, because no file system has files
of that length.

Processes that the child makes share its filter. Their calls come to the same listener, and are told
apart by the process.
"""

from __future__ import annotations

import ctypes
import errno
import fcntl
import os
import select
import socket
import struct
import threading
from dataclasses import dataclass
from functools import cache

from gostlab.install.landlock import gain_no_rights, libc, raise_on_failure

HELD_LENGTH = 0x676F73746C616221  # "gostlab!", in bytes: larger than any file
# <linux/audit.h>, and <asm/unistd.h>: the numbers of seccomp, truncate and ftruncate
NUMBERS = {"x86_64": (0xC000003E, 317, 76, 77)}
# <linux/filter.h>: load a word of struct seccomp_data, jump if equal, return
LOAD, JUMP_IF_EQUAL, RETURN = 0x20, 0x15, 0x06
NR, ARCH, LENGTH_LOW, LENGTH_HIGH = 0, 4, 24, 28  # offsets in struct seccomp_data
# <linux/seccomp.h>. Its struct seccomp_notif begins with the ID of the call; struct
# seccomp_notif_resp has ID, value, error and flags.
SET_MODE_FILTER, NEW_LISTENER = 1, 8
RET_ALLOW, RET_USER_NOTIF = 0x7FFF0000, 0x7FC00000
NOTIF_RECV, NOTIF_SEND = 0xC0502100, 0xC0182101
NOTIFICATION_BYTES = 80
PATH_ARGUMENT, THIRD_ARGUMENT = 32, 48  # offsets of arguments of the call
RESPONSE = struct.Struct("QqiI")


class BpfInstruction(ctypes.Structure):
    """struct sock_filter."""

    _fields_ = [
        ("code", ctypes.c_ushort),
        ("if_true", ctypes.c_ubyte),
        ("if_false", ctypes.c_ubyte),
        ("operand", ctypes.c_uint),
    ]


class BpfProgram(ctypes.Structure):
    """struct sock_fprog."""

    _fields_ = [("length", ctypes.c_ushort), ("instructions", ctypes.POINTER(BpfInstruction))]


def filter_instructions() -> list[BpfInstruction]:
    """Return the filter. Jumps are counted from the next instruction."""
    arch, _, truncate, ftruncate = NUMBERS[os.uname().machine]
    return [
        BpfInstruction(LOAD, 0, 0, ARCH),
        BpfInstruction(JUMP_IF_EQUAL, 0, 8, arch),
        BpfInstruction(LOAD, 0, 0, NR),
        BpfInstruction(JUMP_IF_EQUAL, 1, 0, truncate),
        BpfInstruction(JUMP_IF_EQUAL, 0, 5, ftruncate),
        BpfInstruction(LOAD, 0, 0, LENGTH_LOW),
        BpfInstruction(JUMP_IF_EQUAL, 0, 3, HELD_LENGTH & 0xFFFFFFFF),
        BpfInstruction(LOAD, 0, 0, LENGTH_HIGH),
        BpfInstruction(JUMP_IF_EQUAL, 0, 1, HELD_LENGTH >> 32),
        BpfInstruction(RETURN, 0, 0, RET_USER_NOTIF),
        BpfInstruction(RETURN, 0, 0, RET_ALLOW),
    ]


def install_filter() -> int:
    """Filter this process's calls; return the listener's descriptor. Raises OSError.

    Needs no_new_privs. EBUSY: a filter around this process has a listener already.
    """
    instructions = filter_instructions()
    program = BpfProgram(len(instructions), (BpfInstruction * len(instructions))(*instructions))
    number = NUMBERS[os.uname().machine][1]
    result = libc.syscall(number, SET_MODE_FILTER, NEW_LISTENER, ctypes.byref(program))
    return raise_on_failure(result, "seccomp")


@cache
def is_available() -> bool:
    """Return whether the host's kernel can hold a call of a child (Linux 5.0 and later).

    It is tried once, in a child process.
    """
    if os.uname().machine not in NUMBERS:
        return False
    child = os.fork()
    if child == 0:
        try:
            gain_no_rights()
            install_filter()
            os._exit(0)
        except OSError:
            os._exit(1)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


@dataclass(frozen=True)
class Notification:
    """A call that waits for its answer.

    path    the address of the path: 0 in calls of the guest's kernel itself (tt_hold)
    status  the third argument, which truncate(2) does not have
    """

    call_id: int
    process: int
    path: int
    status: int


class Listener:
    """The calls of a child, and of processes that it has made, which this process answers.

    Any number of HeldCall share it, in any threads; the last one closes it.
    """

    def __init__(self, descriptor: int) -> None:
        self.descriptor = descriptor
        self._users = 0
        self._mutex = threading.Lock()
        self._calls: dict[int, Notification] = {}

    def add_user(self) -> None:
        with self._mutex:
            self._users += 1

    def remove_user(self) -> None:
        """Close the listener after its last user. A child that still waits gets ENOSYS."""
        with self._mutex:
            self._users -= 1
            is_unused = self._users == 0
        if is_unused:
            os.close(self.descriptor)

    def call_of(self, process: int) -> Notification | None:
        """Return the call that a process has made, None if it has not."""
        # Of two threads that received the same call, one would wait for the next.
        with self._mutex:
            self._receive()
        return self._calls.get(process)

    def wait(self, max_s: float) -> None:
        """Wait until a call comes, at most so long."""
        self._poll(max_s)

    def answer(self, call: Notification, value: int = 0) -> bool:
        """Let the call return a value. False: a signal interrupted it; the child makes it again."""
        self._calls.pop(call.process, None)
        response = bytearray(RESPONSE.pack(call.call_id, value, 0, 0))
        try:
            fcntl.ioctl(self.descriptor, NOTIF_SEND, response)
        except FileNotFoundError:
            return False
        return True

    def _receive(self) -> None:
        """Receive the calls that have come."""
        while self._poll(0):
            notification = bytearray(NOTIFICATION_BYTES)
            try:
                fcntl.ioctl(self.descriptor, NOTIF_RECV, notification)
            except FileNotFoundError:  # a signal interrupted the call; the child makes it again
                continue
            call_id, process = struct.unpack_from("QI", notification)
            path, status = (
                struct.unpack_from("q", notification, offset)[0]
                for offset in (PATH_ARGUMENT, THIRD_ARGUMENT)
            )
            self._calls[process] = Notification(call_id, process, path, status)

    def _poll(self, max_s: float) -> bool:
        """Return whether a call has come, or comes within so long."""
        poller = select.poll()
        poller.register(self.descriptor, select.POLLIN)
        # POLLHUP without POLLIN: the child has ended. Receiving would then wait for ever.
        return any(event & select.POLLIN for _, event in poller.poll(round(max_s * 1000)))


class ListenerChannel:
    """Pass the listener from a child, between fork and exec, to this process."""

    def __init__(self) -> None:
        self._here, self._child = socket.socketpair()

    def install(self) -> None:
        """Install the filter in the child, and send the listener. Raises OSError."""
        listener = install_filter()
        socket.send_fds(self._child, [b"x"], [listener])
        os.close(listener)

    def receive(self, process: int) -> HeldCall:
        """Return the held call of the child, once it has executed its program. Raises OSError."""
        self._child.close()
        _, descriptors, _, _ = socket.recv_fds(self._here, 1, 1)
        self.close()
        if not descriptors:
            raise OSError(errno.EPIPE, os.strerror(errno.EPIPE), "seccomp listener")
        return HeldCall(Listener(descriptors[0]), process)

    def close(self) -> None:
        """Close both ends; may be called twice."""
        self._here.close()
        self._child.close()


class HeldCall:
    """The call of one process that this process answers."""

    def __init__(self, listener: Listener, process: int) -> None:
        self.listener, self._process = listener, process
        self._is_open = True
        listener.add_user()

    @property
    def descriptor(self) -> int:
        """Return the listener's descriptor, readable when a process has made the call."""
        return self.listener.descriptor

    def call(self) -> Notification | None:
        """Return the call, None if the process has not made it."""
        return self.listener.call_of(self._process) if self._is_open else None

    def has_come(self) -> bool:
        """Return whether the process has made the call."""
        return self.call() is not None

    def answer(self) -> bool:
        """Let the process continue, if it has made the call; return whether it has."""
        while (call := self.call()) is not None:
            if self.listener.answer(call):
                self.close()
                return True
        return False

    def order(self, value: int) -> bool:
        """Let the call return a value, after which the process makes it again.

        Returns whether it had made it.
        """
        while (call := self.call()) is not None:
            if self.listener.answer(call, value):
                return True
        return False

    def close(self) -> None:
        """Give up the call; may be called twice."""
        if self._is_open:
            self._is_open = False
            self.listener.remove_user()
