"""Nodes of a Mininet that are namespaces alone, and how to be inside of one for a moment.

Mininet gives each node a shell and configures it by typing into it: about twenty programs a node,
a second of every run. A run types nothing, so its nodes are held by a process that does nothing;
what Mininet would have typed to lay out links is left to `gostlab.guest.network`, which does the
same by netlink, from what Mininet knows. Mininet's prompt (`./lab shell`) has nodes
with shells.
"""

import contextlib
import ctypes
import os
import re
import signal
import subprocess
from collections.abc import Iterable, Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Any

from mininet.topo import Topo

from gostlab.install.landlock import CLONE_NEWNS, MS_REC, checked, libc

CLONE_NEWNET, MS_PRIVATE = 0x40000000, 1 << 18  # <linux/sched.h>, <linux/mount.h>
TT_READ_ON = 0x676F7374  # prctl(2) of the lab's own (arch/um/kernel/readon.c)
MAX_OF_A_SYSCTL = 4096  # bytes
# What Mininet types to lay out links and addresses.
TYPED_FOR_LINKS = re.compile(
    r"ip link (add|del) .*|ifconfig \S+ (\S+/\d+ )?up|ip route del default; ip route add default .*"
)


@contextlib.contextmanager
def inside(namespace: int | Path) -> Iterator[None]:
    """Be in the network namespace of a process, or of a file: this thread, and what it starts.
    Raises OSError.
    """
    own = os.open("/proc/thread-self/ns/net", os.O_RDONLY)
    try:
        file = namespace if isinstance(namespace, Path) else f"/proc/{namespace}/ns/net"
        other = os.open(file, os.O_RDONLY)
        try:
            checked(libc.setns(other, CLONE_NEWNET), "setns")
            try:
                yield
            finally:
                checked(libc.setns(own, CLONE_NEWNET), "setns")
        finally:
            os.close(other)
    finally:
        os.close(own)


@contextlib.contextmanager
def reading_on(size: int) -> Iterator[None]:
    """What is started meanwhile gets its reads of so many bytes made by the kernel until its buffer
    is full; 0: it makes them all itself. Saying so takes no time, and a kernel that does not know
    the word refuses it.
    """
    libc.prctl(TT_READ_ON, ctypes.c_ulong(size))
    try:
        yield
    finally:
        libc.prctl(TT_READ_ON, ctypes.c_ulong(0))


def without_shells(topology: Topo) -> Topo:
    """A topology whose nodes are to be namespaces alone."""
    for name in topology.hosts():
        info = topology.nodeInfo(name)
        info["cls"] = held(info["cls"])
    return topology


@cache
def held(kind: type) -> type:
    """A kind of node without its shell."""
    return type(f"Held{kind.__name__}", (NamespaceHolder, kind), {})


class NamespaceHolder:
    """A node's namespaces, held by a process that ends with its parent."""

    name: str
    params: dict[str, Any]

    @classmethod
    def checkSetup(cls) -> None:
        """Mininet looks for programs here that it then types."""

    def startShell(self, _mnopts: str | None = None) -> None:
        """Start what holds the namespaces, called as Mininet calls its shells. It hears no signal:
        Python asks for no handler of those, by a call each. And it needs no words of a language's.
        """
        before = signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())
        try:
            with inside_new_namespaces():
                self.shell: Any = subprocess.Popen(
                    [f"mininet:{self.name}"],
                    executable="/bin/cat",
                    stdin=subprocess.PIPE,
                    stdout=subprocess.DEVNULL,
                    start_new_session=True,
                    env={"LC_ALL": "C"},
                )
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, before)
        self.pid = self.shell.pid
        self.stdin = self.stdout = self.shell.stdin
        self.kept: list[str] = []

    def cmd(self, *words: object, **_options: object) -> str:
        """A command of the node's `config`, kept for `run_kept`; what lays out links is dropped."""
        command = " ".join(map(str, words))
        routes = {f"ip route add {to} via {via}" for to, via in self.params.get("routes", ())}
        if command not in routes and not TYPED_FOR_LINKS.fullmatch(command):
            self.kept.append(command)
        return ""

    def run_kept(self) -> None:
        """Run what a topology's own node requested. Raises OSError or CalledProcessError."""
        for command in self.kept:
            sysctl = re.fullmatch(r"sysctl -qw (\S+)=(\S+)", command)
            with inside(self.pid):
                if sysctl:
                    write_sysctls({sysctl[1]: sysctl[2]})
                else:
                    subprocess.run(["sh", "-c", command], stdin=subprocess.DEVNULL, check=True)
        self.kept = []

    def terminate(self) -> None:
        """End the node, and with it its interfaces and qdiscs."""
        if self.shell is None:
            return
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.pid, signal.SIGKILL)
        self.shell.stdin.close()
        self.shell.wait()
        self.shell = None


def sysctl_file(name: str) -> Path:
    """The file of a sysctl, of whichever namespace the caller is in."""
    return Path(f"/proc/sys/{name.replace('.', '/')}")


def write_sysctls(values: Mapping[str, str]) -> None:
    """Set sysctls of the caller's namespace. Raises OSError whose filename is the one refused."""
    for name, value in values.items():
        try:
            # Python's own way takes twice as many calls, and there are a hundred.
            file = os.open(sysctl_file(name), os.O_WRONLY)
            try:
                os.write(file, value.encode("ascii"))
            finally:
                os.close(file)
        except OSError as error:
            raise OSError(error.errno, error.strerror, name) from None


def read_sysctls(names: Iterable[str]) -> dict[str, str]:
    """Those of some sysctls that the kernel has, their values' blanks made one."""
    found = {}
    for name in names:
        with contextlib.suppress(FileNotFoundError):
            file = os.open(sysctl_file(name), os.O_RDONLY)
            try:
                found[name] = " ".join(os.read(file, MAX_OF_A_SYSCTL).decode("ascii").split())
            finally:
                os.close(file)
    return found


@contextlib.contextmanager
def inside_new_namespaces() -> Iterator[None]:
    """Be in a network and mounts of their own, for what is started there, and come back. A child
    that entered them itself, between fork and exec, would be a copy of all of this process first:
    eight times as long in the sandbox. This process must have one thread. Raises OSError.
    """
    folder = os.open(".", os.O_PATH)
    own = [
        (os.open(f"/proc/thread-self/ns/{kind}", os.O_RDONLY), flag)
        for kind, flag in (("mnt", CLONE_NEWNS), ("net", CLONE_NEWNET))
    ]
    try:
        try:
            # as `mnexec -n` makes them
            checked(libc.unshare(CLONE_NEWNET | CLONE_NEWNS), "unshare")
            private = ctypes.c_ulong(MS_REC | MS_PRIVATE)
            checked(libc.mount(b"none", b"/", None, private, None), "mount /")
            checked(libc.mount(b"sysfs", b"/sys", b"sysfs", ctypes.c_ulong(0), None), "mount /sys")
            yield
        finally:
            for namespace, flag in own:
                checked(libc.setns(namespace, flag), "setns")
            os.fchdir(folder)  # coming back to the mounts leads to their root
    finally:
        for descriptor in (folder, *(namespace for namespace, _ in own)):
            os.close(descriptor)
