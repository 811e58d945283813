"""Everything that a test has started, directly or not, alive or orphaned, whatever else runs on the
machine.
"""

import ctypes
import os
import re
import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

PR_SET_CHILD_SUBREAPER = 36
ADOPTED = (
    "linux",
    "uml-userspace",
    "python3",
    "iperf3",
)  # what may be left to us as an orphan, and is reaped then


@dataclass(frozen=True)
class Process:
    """A line of /proc."""

    pid: int
    parent: int
    name: str
    state: str

    @property
    def command(self) -> str:
        return _read(self.pid, "cmdline").replace("\0", " ")

    @property
    def is_sandbox(self) -> bool:
        return "rootfstype=hostfs" in self.command

    def namespaces(self) -> set[str]:
        found = set()
        with suppress(OSError):
            for entry in os.scandir(f"/proc/{self.pid}/ns"):
                with suppress(OSError):
                    found.add(os.readlink(entry.path))
        return found


def adopt_orphans() -> None:
    """From here on the orphans of this process's descendants become its own children, instead of
    process 1's.
    """
    ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def offspring() -> list[Process]:
    """The living descendants of this process; adopted ones that are dead are reaped."""
    everyone = {process.pid: process for process in _processes()}
    found = []
    for process in everyone.values():
        ancestor: Process | None = process
        while ancestor is not None and ancestor.parent != os.getpid():
            ancestor = everyone.get(ancestor.parent)
        if ancestor is None:
            continue
        if process.state in "ZX":
            if process.parent == os.getpid() and process.name in ADOPTED:
                with suppress(ChildProcessError):
                    os.waitpid(process.pid, os.WNOHANG)
        elif "multiprocessing.resource_tracker" not in process.command:  # Python's own, of a pool
            found.append(process)
    return found


def zombies_of_ours() -> list[Process]:
    """This process's dead children that nobody has waited for; others are not ours."""
    return [each for each in _processes() if each.parent == os.getpid() and each.state == "Z"]


def sandboxes() -> list[Process]:
    """The kernels among them."""
    return [process for process in offspring() if process.is_sandbox]


def all_gone(patience_s: float = 5.0) -> list[Process]:
    """Who is left when all should have ended: nobody, within the patience."""
    deadline = time.monotonic() + patience_s
    while (left := offspring()) and time.monotonic() < deadline:
        time.sleep(0.02)
    return left


def foreign_namespaces() -> set[str]:
    """The namespaces that descendants are in and this process is not."""
    mine = Process(os.getpid(), 0, "", "").namespaces()
    return {name for process in offspring() for name in process.namespaces()} - mine


def mounts_in(place: Path) -> list[str]:
    """The mounts in this process's namespace that have anything to do with a folder."""
    return [
        line
        for line in Path("/proc/self/mountinfo").read_text(encoding="utf-8").splitlines()
        if str(place) in line
    ]


def _processes() -> Iterator[Process]:
    for entry in os.scandir("/proc"):
        if entry.name.isdigit():
            found = re.match(r"\d+ \((.*)\) (\S) (\d+) ", _read(int(entry.name), "stat"), re.DOTALL)
            if found:
                yield Process(int(entry.name), int(found[3]), found[1], found[2])


def _read(pid: int, name: str) -> str:
    try:
        return Path(f"/proc/{pid}/{name}").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""
