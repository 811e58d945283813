"""A place like a container's, for a command: mounts, limits, a user, and no right to namespaces.

python3 -m tests.machine.confined ORDERS.json COMMAND …     as root

ORDERS.json: {"mounts": [[options for mount(8)] …], "namespaces": bool, "seccomp": bool,
              "uid": int or null, "memory_mib": address space or null, "cgroup": [files to write
              this process's id to], "session": bool: no controlling terminal}
Everything is made in a mount namespace that ends with the command.
"""

import ctypes
import errno
import json
import os
import resource
import struct
import subprocess
import sys
from pathlib import Path

from gostlab.setup.landlock import CLONE_NEWNS, MS_REC, UNUSED, checked, gain_no_rights, libc

# CLONE_NEWNS, NEWCGROUP, NEWUTS, NEWIPC, NEWUSER, NEWPID, NEWNET
CLONE_NEW_ANY = 0x7E020000
MS_PRIVATE, PR_SET_SECCOMP, SECCOMP_MODE_FILTER = 1 << 18, 22, 2
SECCOMP_RET_ALLOW, SECCOMP_RET_ERRNO = 0x7FFF0000, 0x00050000
# x86-64's numbers; User-Mode Linux is for x86-64 here.
SYS_CLONE, SYS_UNSHARE, SYS_SETNS, SYS_CLONE3, SYS_SECCOMP, SYS_PRCTL = 56, 272, 308, 435, 317, 157
LOAD, JUMP_EQUAL, JUMP_ANY_BIT, RETURN = 0x20, 0x15, 0x45, 0x06


def refuse(number: int, error: int) -> list[tuple[int, int, int, int]]:
    """Instructions that let a system call fail."""
    return [(JUMP_EQUAL, 0, 1, number), (RETURN, 0, 0, SECCOMP_RET_ERRNO | error)]


def filter_program(*, namespaces: bool, seccomp: bool) -> list[tuple[int, int, int, int]]:
    """A filter of system calls as containers have it: no new namespaces; without `seccomp`, no
    filters within either.
    """
    program = [(LOAD, 0, 0, 0)]  # the number of the system call
    if not namespaces:
        program += refuse(SYS_UNSHARE, errno.EPERM) + refuse(SYS_SETNS, errno.EPERM)
        program += refuse(SYS_CLONE3, errno.ENOSYS)  # its flags are in memory: use clone
        program += [
            (JUMP_EQUAL, 0, 4, SYS_CLONE),
            (LOAD, 0, 0, 16),  # its flags
            (JUMP_ANY_BIT, 0, 1, CLONE_NEW_ANY),
            (RETURN, 0, 0, SECCOMP_RET_ERRNO | errno.EPERM),
            (LOAD, 0, 0, 0),
        ]
    if not seccomp:
        program += refuse(SYS_SECCOMP, errno.EPERM)
        program += [
            (JUMP_EQUAL, 0, 4, SYS_PRCTL),
            (LOAD, 0, 0, 16),
            (JUMP_EQUAL, 0, 1, PR_SET_SECCOMP),
            (RETURN, 0, 0, SECCOMP_RET_ERRNO | errno.EPERM),
            (LOAD, 0, 0, 0),
        ]
    return [*program, (RETURN, 0, 0, SECCOMP_RET_ALLOW)]


def install(program: list[tuple[int, int, int, int]]) -> None:
    """Put this process and all that comes of it under a filter. Raises OSError."""
    code = b"".join(struct.pack("=HBBI", *instruction) for instruction in program)
    buffer = ctypes.create_string_buffer(code, len(code))
    head = ctypes.create_string_buffer(
        struct.pack("=H6xQ", len(program), ctypes.addressof(buffer)), 16
    )
    gain_no_rights()
    mode = ctypes.c_ulong(SECCOMP_MODE_FILTER)
    checked(libc.prctl(PR_SET_SECCOMP, mode, head, *UNUSED[:2]), "seccomp")


def main(argv: list[str]) -> None:
    orders = json.loads(Path(argv[1]).read_text(encoding="utf-8"))
    checked(libc.unshare(CLONE_NEWNS), "unshare")
    private = ctypes.c_ulong(MS_REC | MS_PRIVATE)
    checked(libc.mount(None, b"/", None, private, None), "mount")
    for words in orders.get("mounts", ()):
        Path(words[-1]).mkdir(parents=True, exist_ok=True)
        subprocess.run(["mount", *words], check=True)
    for file in orders.get("cgroup", ()):
        Path(file).write_text(str(os.getpid()), encoding="ascii")
    if orders.get("session"):
        os.setsid()
    if orders.get("memory_mib"):
        size = orders["memory_mib"] * 2**20
        resource.setrlimit(resource.RLIMIT_AS, (size, size))
    os.chdir(orders.get("cwd", "/"))
    if orders.get("uid") is not None:
        os.setgroups([])
        os.setgid(orders["uid"])
        os.setuid(orders["uid"])
    namespaces, seccomp = orders.get("namespaces", True), orders.get("seccomp", True)
    if not (namespaces and seccomp):
        install(filter_program(namespaces=namespaces, seccomp=seccomp))
    os.execvpe(argv[2], argv[2:], {**os.environ, **orders.get("environ", {})})


if __name__ == "__main__":
    main(sys.argv)
