# SPDX-License-Identifier: MIT
"""Everything that a test has started, directly or not, alive or orphaned, whatever else runs on the
machine.
"""

import ctypes
import os
import time
from collections.abc import Set
from contextlib import suppress
from pathlib import Path

import psutil

PR_SET_CHILD_SUBREAPER = 36
# What may be left to us as an orphan, and is reaped then.
ADOPTED = ("linux", "uml-userspace", "python3", "iperf3")
BROWSER = "chrom"  # chromedriver, chromium: the session's own, which stays for the next page
DEAD = (psutil.STATUS_ZOMBIE, psutil.STATUS_DEAD)


def adopt_orphans() -> None:
    """From here on the orphans of this process's descendants become its own children, instead of
    process 1's.
    """
    ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def offspring(doing: str = "") -> list[psutil.Process]:
    """The living descendants of this process that have these words in their command; adopted ones
    that are dead are reaped.
    """
    found = []
    for process in psutil.Process().children(recursive=True):
        with suppress(psutil.NoSuchProcess):
            if process.status() in DEAD:
                if process.ppid() == os.getpid() and process.name() in ADOPTED:
                    with suppress(ChildProcessError):
                        os.waitpid(process.pid, os.WNOHANG)
                continue
            if process.name().startswith(BROWSER):
                continue
            command = " ".join(process.cmdline())
            # Python's own, of a pool
            if doing in command and "multiprocessing.resource_tracker" not in command:
                found.append(process)
    return found


def zombies_of_ours() -> list[psutil.Process]:
    """This process's dead children that nobody has waited for; others are not ours."""
    found = []
    for process in psutil.Process().children():
        with suppress(psutil.NoSuchProcess):
            if process.status() in DEAD:
                found.append(process)
    return found


def sandboxes() -> list[psutil.Process]:
    """The kernels among them, without the child of one that has yet to become another program."""
    kernels = offspring("rootfstype=hostfs")
    pids = {kernel.pid for kernel in kernels}
    roots = []
    for kernel in kernels:
        with suppress(psutil.NoSuchProcess):
            if kernel.ppid() not in pids:
                roots.append(kernel)
    return roots


def all_gone(patience_s: float = 5.0, besides: Set[int] = frozenset()) -> list[psutil.Process]:
    """Who is left when all but some process IDs should have ended: nobody, within the patience."""
    deadline = time.monotonic() + patience_s
    while left := [process for process in offspring() if process.pid not in besides]:
        if time.monotonic() > deadline:
            break
        time.sleep(0.02)
    return left


def namespaces_of(pid: int) -> set[str]:
    """The namespaces that a process is in."""
    found = set()
    with suppress(OSError):
        for entry in os.scandir(f"/proc/{pid}/ns"):
            with suppress(OSError):
                found.add(os.readlink(entry.path))
    return found


def foreign_namespaces() -> set[str]:
    """The namespaces that descendants are in and this process is not."""
    theirs = [namespaces_of(process.pid) for process in offspring()]
    return set().union(*theirs) - namespaces_of(os.getpid())


def mounts_in(place: Path) -> list[str]:
    """The mounts in this process's namespace that have anything to do with a folder."""
    mounts = Path("/proc/self/mountinfo").read_text(encoding="utf-8").splitlines()
    return [line for line in mounts if str(place) in line]
