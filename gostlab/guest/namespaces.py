"""Provide Mininet nodes that are only namespaces, and enter a namespace temporarily.

Mininet gives each node a shell and configures it by typing into it: about twenty programs per node,
a second of every run. A run types nothing, so a thread that does nothing holds each node.
`gostlab.guest.network` sets up the links by netlink, as Mininet describes them. Mininet's prompt
(`./lab shell`) has nodes with shells.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import re
import subprocess
import threading
from collections.abc import Iterable, Iterator, Mapping
from functools import cache, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gostlab.guest import tc_batch
from gostlab.guest.tc_batch import TcPipe
from gostlab.install.landlock import libc, raise_on_failure

if TYPE_CHECKING:
    from mininet.topo import Topo

THIS_NAMESPACE = "/proc/thread-self/ns/net"
CLONE_NEWNET = 0x40000000  # <linux/sched.h>
TT_READ_ON = 0x676F7374  # the lab's prctl(2) option (arch/um/kernel/readon.c)
# As many nodes as the default topology and two flows of a dumbbell need.
HOSTS_AHEAD, ROUTERS_AHEAD = 4, 2
MAX_OF_A_SYSCTL = 4096  # maximum size of a sysctl's value in bytes
# The commands that Mininet types to set up links and addresses.
TYPED_FOR_LINKS = re.compile(
    r"ip link (add|del) .*|ifconfig \S+ (\S+/\d+ )?up|ip route del default; ip route add default .*"
)


# Open files of the namespaces that this process's threads hold, by thread.
held_namespaces: dict[int | Path, int] = {}


class EnteredNamespace(threading.local):
    """Hold the open file of the namespace that a thread is in, None before it enters another."""

    descriptor: int | None = None


entered = EnteredNamespace()


@contextlib.contextmanager
def entered_namespace(namespace: int | Path) -> Iterator[None]:
    """Enter the network namespace of a process or a file: this thread, and what it starts.

    A thread's own namespace stays open for the next time. Raises OSError.
    """
    if entered.descriptor is None:
        entered.descriptor = os.open(THIS_NAMESPACE, os.O_RDONLY)
    old_namespace = entered.descriptor
    with opened_namespace(namespace) as new_namespace:
        enter_namespace(new_namespace)
        entered.descriptor = new_namespace
        try:
            yield
        finally:
            enter_namespace(old_namespace)
            entered.descriptor = old_namespace


@contextlib.contextmanager
def opened_namespace(namespace: int | Path) -> Iterator[int]:
    """Yield an open file of the network namespace of a process or a file. Raises OSError."""
    if namespace in held_namespaces:
        yield held_namespaces[namespace]
        return
    path = namespace if isinstance(namespace, Path) else f"/proc/{namespace}/ns/net"
    descriptor = os.open(path, os.O_RDONLY)
    try:
        yield descriptor
    finally:
        os.close(descriptor)


def enter_namespace(descriptor: int) -> None:
    """Enter the network namespace of an open file. Raises OSError."""
    raise_on_failure(libc.setns(descriptor, CLONE_NEWNET), "setns")


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
    shaped = {
        info[f"node{end}"]
        for _, _, info in topology.links(withInfo=True)
        for end in (1, 2)
        if info.get(f"params{end}", {}).get("role")
    }
    for name in topology.hosts():
        info = topology.nodeInfo(name)
        info["cls"] = shellless_node_class(info["cls"])
        info["is_shaped"] = name in shaped
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
        """Start the thread that holds the namespace, where Mininet would start a shell."""
        ahead = namespaces_ahead[self.params["is_shaped"]]
        self.shell: Any = ahead.pop(0) if ahead else NamespaceThread()
        self.shell.show_name(f"mininet:{self.name}")
        self.tc_pipes: dict[tuple[str, ...], TcPipe] = self.shell.tc_pipes
        self.pid = self.shell.thread_id
        self.stdin = self.stdout = None
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
        if self.shell is not None:
            self.shell.end()
            self.shell = None


class NamespaceThread(threading.Thread):
    """A thread that does nothing in a network namespace of its own.

    A process would cost ten times as much of a short run, and would outlive one that is killed.
    The files of its /proc/thread_id are the namespace's.

    tc_pipes  processes of tc that wait in the namespace, by their options
    """

    def __init__(self) -> None:
        """Enter the namespace. Raises OSError."""
        super().__init__(name="namespace", daemon=True)
        self.tc_pipes: dict[tuple[str, ...], TcPipe] = {}
        self._entered, self._ended = threading.Event(), threading.Event()
        self._error: OSError | None = None
        self.start()
        self._entered.wait()
        if self._error is not None:
            raise self._error
        self.thread_id = self.native_id or 0

    def show_name(self, name: str) -> None:
        """Give the thread a name for `ps -eL`, in at most 15 bytes. Raises OSError."""
        Path(f"/proc/self/task/{self.thread_id}/comm").write_text(name[:15], encoding="utf-8")

    def run(self) -> None:
        """Hold the namespace until `end`."""
        try:
            raise_on_failure(libc.unshare(CLONE_NEWNET), "unshare")
            namespace = os.open(THIS_NAMESPACE, os.O_RDONLY)
        except OSError as error:
            self._error = error
            self._entered.set()
            return
        held_namespaces[threading.get_native_id()] = namespace
        self._entered.set()
        self._ended.wait()
        del held_namespaces[threading.get_native_id()]
        os.close(namespace)

    def end(self) -> None:
        """Leave the namespace soon; it ends with its interfaces and qdiscs."""
        self._ended.set()


# Namespaces for the next network's nodes, with (True) and without a qdisc of the path.
namespaces_ahead: dict[bool, list[NamespaceThread]] = {False: [], True: []}


def make_namespaces_ahead(environ: Mapping[str, str]) -> None:
    """Make the namespaces of a path between two routers, before it is known which network follows.

    The routers' have the processes of tc that they will need, in this environment: a sandbox that
    waits has them, and its copies do not start programs for them. Raises OSError.
    """
    namespaces_ahead[False] += [NamespaceThread() for _ in range(HOSTS_AHEAD)]
    for _ in range(ROUTERS_AHEAD):
        router = NamespaceThread()
        for options in (tc_batch.JSON, tc_batch.TEXT):
            with entered_namespace(router.thread_id):
                start: Any = partial(subprocess.Popen, env=environ)
                router.tc_pipes[options] = TcPipe(start, options)
        namespaces_ahead[True].append(router)


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
