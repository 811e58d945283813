"""Provide Mininet nodes that are only namespaces, and enter a namespace temporarily.

Mininet gives each node a shell and configures it by typing into it: about twenty programs per node,
a second of every run. A run types nothing, so a process that does nothing holds its nodes.
`gostlab.guest.network` sets up the links by netlink, as Mininet describes them. Mininet's prompt
(`./lab shell`) has nodes with shells.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import re
import signal
import subprocess
from collections.abc import Iterable, Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gostlab.install.landlock import CLONE_NEWNS, MS_REC, libc, raise_on_failure

if TYPE_CHECKING:
    from mininet.topo import Topo

CLONE_NEWNET, MS_PRIVATE = 0x40000000, 1 << 18  # <linux/sched.h>, <linux/mount.h>
TT_READ_ON = 0x676F7374  # the lab's prctl(2) option (arch/um/kernel/readon.c)
MAX_OF_A_SYSCTL = 4096  # maximum size of a sysctl's value in bytes
# The commands that Mininet types to set up links and addresses.
TYPED_FOR_LINKS = re.compile(
    r"ip link (add|del) .*|ifconfig \S+ (\S+/\d+ )?up|ip route del default; ip route add default .*"
)


@contextlib.contextmanager
def entered_namespace(namespace: int | Path) -> Iterator[None]:
    """Enter the network namespace of a process or a file: this thread, and what it starts.

    Raises OSError.
    """
    old_namespace = os.open("/proc/thread-self/ns/net", os.O_RDONLY)
    try:
        path = namespace if isinstance(namespace, Path) else f"/proc/{namespace}/ns/net"
        new_namespace = os.open(path, os.O_RDONLY)
        try:
            raise_on_failure(libc.setns(new_namespace, CLONE_NEWNET), "setns")
            try:
                yield
            finally:
                raise_on_failure(libc.setns(old_namespace, CLONE_NEWNET), "setns")
        finally:
            os.close(new_namespace)
    finally:
        os.close(old_namespace)


@contextlib.contextmanager
def continued_reads(size: int) -> Iterator[None]:
    """Let the kernel continue the reads, of this size, of processes started meanwhile.

    It reads until their buffer is full; with 0 processes make all reads themselves. The call takes
    no time, and a kernel that does not know the option refuses it.
    """
    libc.prctl(TT_READ_ON, ctypes.c_ulong(size))
    try:
        yield
    finally:
        libc.prctl(TT_READ_ON, ctypes.c_ulong(0))


def shellless_topology(topology: Topo) -> Topo:
    """Return a topology whose nodes are only namespaces."""
    for name in topology.hosts():
        info = topology.nodeInfo(name)
        info["cls"] = shellless_node_class(info["cls"])
    return topology


@cache
def shellless_node_class(kind: type) -> type:
    """Return a Mininet node class without its shell."""
    return type(f"Held{kind.__name__}", (NamespaceHolder, kind), {})


class NamespaceHolder:
    """A node's namespaces, held by a process that ends with its parent."""

    name: str
    params: dict[str, Any]

    @classmethod
    def checkSetup(cls) -> None:
        """Skip Mininet's search for the programs that it types."""

    def startShell(self, _mnopts: str | None = None) -> None:
        """Start the process that holds the namespaces, as Mininet starts its shells.

        It blocks all signals: Python would otherwise query each signal's handler by a call. It
        needs no locale.
        """
        old_mask = signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())
        try:
            with entered_new_namespaces():
                self.shell: Any = subprocess.Popen(
                    [f"mininet:{self.name}"],
                    executable="/bin/cat",
                    stdin=subprocess.PIPE,
                    stdout=subprocess.DEVNULL,
                    start_new_session=True,
                    env={"LC_ALL": "C"},
                )
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, old_mask)
        self.pid = self.shell.pid
        self.stdin = self.stdout = self.shell.stdin
        self.saved: list[str] = []

    def cmd(self, *args: object, **_options: object) -> str:
        """Save a command of the node's `config` for `run_saved`; drop those that set up links."""
        command = " ".join(map(str, args))
        routes = {f"ip route add {to} via {via}" for to, via in self.params.get("routes", ())}
        if command not in routes and not TYPED_FOR_LINKS.fullmatch(command):
            self.saved.append(command)
        return ""

    def run_saved(self) -> None:
        """Run the commands that a topology's node saved. Raises OSError or CalledProcessError."""
        for command in self.saved:
            sysctl = re.fullmatch(r"sysctl -qw (\S+)=(\S+)", command)
            with entered_namespace(self.pid):
                if sysctl:
                    write_sysctls({sysctl[1]: sysctl[2]})
                else:
                    subprocess.run(["sh", "-c", command], stdin=subprocess.DEVNULL, check=True)
        self.saved = []

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
    """Return the file of a sysctl, for the namespace that the caller is in."""
    return Path(f"/proc/sys/{name.replace('.', '/')}")


def write_sysctls(values: Mapping[str, str]) -> None:
    """Set sysctls of the caller's namespace. Raises OSError with the refused one as filename."""
    for name, value in values.items():
        try:
            # Path.write_text() makes twice as many calls, and there are a hundred sysctls.
            file = os.open(sysctl_file(name), os.O_WRONLY)
            try:
                os.write(file, value.encode("ascii"))
            finally:
                os.close(file)
        except OSError as error:
            raise OSError(error.errno, error.strerror, name) from None


def read_sysctls(names: Iterable[str]) -> dict[str, str]:
    """Return the sysctls that the kernel has among those named, whitespace normalised."""
    values = {}
    for name in names:
        with contextlib.suppress(FileNotFoundError):
            file = os.open(sysctl_file(name), os.O_RDONLY)
            try:
                values[name] = " ".join(os.read(file, MAX_OF_A_SYSCTL).decode("ascii").split())
            finally:
                os.close(file)
    return values


@contextlib.contextmanager
def entered_new_namespaces() -> Iterator[None]:
    """Enter new network and mount namespaces, and come back on leaving.

    A child that entered them itself, between fork and exec, would first be a copy of this whole
    process: in the sandbox that takes eight times as long. This process must have one thread.
    Raises OSError.
    """
    folder = os.open(".", os.O_PATH)
    old_namespaces = [
        (os.open(f"/proc/thread-self/ns/{namespace}", os.O_RDONLY), flag)
        for namespace, flag in (("mnt", CLONE_NEWNS), ("net", CLONE_NEWNET))
    ]
    try:
        try:
            # `mnexec -n` makes the same namespaces
            raise_on_failure(libc.unshare(CLONE_NEWNET | CLONE_NEWNS), "unshare")
            private = ctypes.c_ulong(MS_REC | MS_PRIVATE)
            raise_on_failure(libc.mount(b"none", b"/", None, private, None), "mount /")
            raise_on_failure(
                libc.mount(b"sysfs", b"/sys", b"sysfs", ctypes.c_ulong(0), None), "mount /sys"
            )
            yield
        finally:
            for namespace, flag in old_namespaces:
                raise_on_failure(libc.setns(namespace, flag), "setns")
            os.fchdir(folder)  # entering a mount namespace changes to its root
    finally:
        for descriptor in (folder, *(namespace for namespace, _ in old_namespaces)):
            os.close(descriptor)
