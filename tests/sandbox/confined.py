# SPDX-License-Identifier: MIT
"""A place like a container's, for a command: mounts, limits, a user, and no right to namespaces.

python3 -m tests.sandbox.confined ORDERS.json COMMAND …     as root

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
import subprocess
import sys
from pathlib import Path

from seccomp import ALLOW, EQ, ERRNO, MASKED_EQ, Arg, SyscallFilter

from gostlab.install.landlock import CLONE_NEWNS, MS_REC, libc, raise_on_failure

MS_PRIVATE, PR_SET_SECCOMP = 1 << 18, 22
# CLONE_NEWNS, NEWCGROUP, NEWUTS, NEWIPC, NEWUSER, NEWPID, NEWNET
NEW_NAMESPACES = [CLONE_NEWNS, *(1 << bit for bit in range(25, 31))]


def filter_calls(*, namespaces: bool, seccomp: bool) -> None:
    """Put this process and all that comes of it under a filter of system calls as containers have
    it: no new namespaces; without `seccomp`, no filters within either. Raises OSError.
    """
    rules, refused = SyscallFilter(ALLOW), ERRNO(errno.EPERM)
    if not namespaces:
        rules.add_rule(refused, "unshare")
        rules.add_rule(refused, "setns")
        rules.add_rule(ERRNO(errno.ENOSYS), "clone3")  # its flags are in memory: use clone
        for flag in NEW_NAMESPACES:
            rules.add_rule(refused, "clone", Arg(0, MASKED_EQ, flag, flag))
    if not seccomp:
        rules.add_rule(refused, "seccomp")
        rules.add_rule(refused, "prctl", Arg(0, EQ, PR_SET_SECCOMP))
    rules.load()


def main(argv: list[str]) -> None:
    orders = json.loads(Path(argv[1]).read_text(encoding="utf-8"))
    raise_on_failure(libc.unshare(CLONE_NEWNS), "unshare")
    private = ctypes.c_ulong(MS_REC | MS_PRIVATE)
    raise_on_failure(libc.mount(None, b"/", None, private, None), "mount")
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
        filter_calls(namespaces=namespaces, seccomp=seccomp)
    os.execvpe(argv[2], argv[2:], {**os.environ, **orders.get("environ", {})})


if __name__ == "__main__":
    main(sys.argv)
