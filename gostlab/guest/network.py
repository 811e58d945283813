"""Build the emulated network with Mininet from a topology, and run commands on its nodes.

Everything that runs on a node goes through `Network`, which records it in `commands.sh`, so that a
reader can build the same network by hand.
"""

from __future__ import annotations

import os
import shlex
import subprocess
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager, nullcontext
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gostlab.guest import tc_batch, tsc_trap
from gostlab.guest.command_log import CommandLog, ScriptRequirements
from gostlab.guest.ethtool import OFFLOADS, set_offloads_of
from gostlab.guest.namespaces import (
    continued_reads,
    entered_namespace,
    read_sysctls,
    shellless_topology,
    write_sysctls,
)
from gostlab.guest.rtnetlink import LinkError, links_of
from gostlab.guest.tc_batch import TcError, TcPipe
from gostlab.registry.topologies import topology_classes, topology_of
from gostlab.spec.cpu_model import format_cost
from gostlab.spec.flow import topology_size
from gostlab.spec.run_spec import RunSpec

if TYPE_CHECKING:
    from mininet.net import Mininet

NO_REQUIREMENTS = ScriptRequirements()
CHECKED_OFFLOADS = tuple(OFFLOADS)[:3]  # not every kernel has the last of OFFLOADS


class NetworkError(Exception):
    """A command that failed on a node, or a setting that the kernel did not install."""


@dataclass(frozen=True)
class Interface:
    """One end of a link.

    `role` is the part of the path that it emulates, if any; `hosts` are those whose flows it is
    for, if it is not for all.
    """

    node: str
    name: str
    ip: str
    role: str | None  # bottleneck | delay
    direction: str | None  # forward | reverse
    hosts: tuple[str, ...] = ()  # dumbbell: the host behind a delay line; star: the path's site
    link: str = ""  # name of the link, if there are several, each of which may have its own path


def make_interface(node: str, intf: Any) -> Interface:
    """Return an end of a link, with its role in topo.py (role, direction[, hosts[, link]])."""
    role, direction, *more = intf.params.get("role") or (None, None)
    hosts = more[0] if more else ()
    hosts = (hosts,) if isinstance(hosts, str) else hosts
    link = more[1] if len(more) > 1 else ""
    return Interface(node, intf.name, intf.ip, role, direction, hosts, link)


@dataclass(frozen=True)
class BackgroundCommand:
    """A process that stays, or runs in parallel with others."""

    node: str
    argv: Sequence[str]
    report: str  # file of its output
    charged_as: str = ""  # program whose costs apply to the process and its children
    environ: Mapping[str, str] = field(default_factory=dict)
    flow: str | None = None  # flow whose client it is; None: a server, or a tunnel's end


class Network:
    """A built Mininet. Nodes are named as in the topology."""

    def __init__(
        self,
        mininet: Mininet,
        log: CommandLog,
        environ: Mapping[str, str],
        program_costs: Mapping[str, Mapping[str, int]] = {},
    ) -> None:
        self.mininet = mininet
        self.program_costs = program_costs
        self.log = log
        self.environ = dict(environ)
        # A node with Mininet's shell has no tc made ahead.
        self._tc_pipes: dict[str, dict[tuple[str, ...], TcPipe]] = {
            host.name: getattr(host, "tc_pipes", {}) for host in mininet.hosts
        }
        self.nodes: tuple[str, ...] = tuple(host.name for host in mininet.hosts)
        self.interfaces: tuple[Interface, ...] = tuple(
            make_interface(host.name, intf)
            for host in mininet.hosts
            for intf in host.intfList()
            if intf.name != "lo"
        )

    def close(self) -> None:
        """End the `tc` processes of the nodes."""
        for pipes in self._tc_pipes.values():
            while pipes:
                pipes.popitem()[1].close()

    def pid(self, node: str) -> int:
        """Return the thread, or the shell, that holds the node's network namespace."""
        return int(self.mininet[node].pid)

    def ip(self, node: str) -> str:
        """Return the node's first IPv4 address."""
        return str(self.mininet[node].IP())

    def links_between(self, one: str, other: str) -> list[tuple[str, str, str, str]]:
        """Return the links of the shortest path from a node to another.

        Each is a node, the next node, and the addresses of both on their link.
        """
        ends = [(link.intf1, link.intf2) for link in self.mininet.links]
        reached: dict[str, list[tuple[str, str, str, str]]] = {one: []}
        waiting = [one]
        for node in waiting:  # the loop appends to it
            for near, far in (
                pair for pair_of_ends in ends for pair in (pair_of_ends, pair_of_ends[::-1])
            ):
                if near.node.name == node and far.node.name not in reached:
                    link = (node, far.node.name, str(near.ip), str(far.ip))
                    reached[far.node.name] = [*reached[node], link]
                    waiting.append(far.node.name)
        return reached[other]

    @property
    def shaped(self) -> tuple[Interface, ...]:
        """Return the interfaces that emulate the path, or paths."""
        return tuple(interface for interface in self.interfaces if interface.role)

    def start(
        self,
        command: BackgroundCommand,
        folder: Path,
        *,
        recorded: bool = True,
        reads_on: int | None = None,
        cycle_counter_at: int | None = None,
    ) -> subprocess.Popen[bytes]:
        """Start a process and leave it running, in a new session. Raises NetworkError.

        folder    folder of its report
        recorded  whether commands.sh records it
        reads_on  size of its reads that the kernel continues; None: no setting
        cycle_counter_at  file offset of the RDTSC to replace, so that it reads 0; None: none
        """
        cost = format_cost(self.program_costs, command.charged_as)
        with (folder / command.report).open("wb") as output:
            if recorded:
                self.record(command)
            with nullcontext() if reads_on is None else continued_reads(reads_on):
                process = self._popen(
                    command.node,
                    charged_argv(command.argv, cost),
                    command.environ,
                    stdout=output,
                    stderr=subprocess.STDOUT,
                    start_new_session=True,
                    **({} if cycle_counter_at is None else tsc_trap.STANDING_STILL),
                )
            if cycle_counter_at is not None:
                execs = 1 if cost is None else 2
                tsc_trap.release_at_exec(process.pid, cycle_counter_at, execs=execs)
            return process

    def record(self, command: BackgroundCommand) -> None:
        """Record the start of a process in commands.sh."""
        self.log.charge(format_cost(self.program_costs, command.charged_as))
        if command.flow is None:
            self.log.serve(command.node, command.argv, command.report, command.environ)
        else:
            self.log.flow(command.flow, command.node, command.argv, command.report)

    def _popen(
        self, node: str, argv: Sequence[str], environ: Mapping[str, str], **options: Any
    ) -> subprocess.Popen[bytes]:
        """Start a process in a node's network. Raises NetworkError if there is no such program."""
        try:
            with entered_namespace(self.pid(node)):
                return subprocess.Popen(
                    list(argv),
                    env={**self.environ, **environ},
                    **{"stdin": subprocess.DEVNULL, **options},
                )
        except OSError as error:
            raise NetworkError(f"{node}: {shlex.join(argv)}: {error.strerror}") from error

    def write_file(self, path: Path, content: str | bytes, mode: int = 0o644) -> None:
        """Write a file that a program on a node reads, and record it in commands.sh."""
        data = content.encode() if isinstance(content, str) else content
        path.parent.mkdir(mode=0o755, parents=True, exist_ok=True)
        path.write_bytes(data)
        path.chmod(mode)
        self.log.write_file(path, data, mode)

    def read(
        self,
        node: str,
        argv: Sequence[str],
        *,
        check: bool = True,
        logged: bool = True,
        environ: Mapping[str, str] = {},
        stdout_name: str | None = None,
        stdin: str = "",
    ) -> str:
        """Run a command on a node to its end and return its standard output.

        stdout_name   file in which commands.sh saves the output
        stdin         standard input (commands.sh does not record it)
        Raises NetworkError with the command's output if it fails (unless `check` is off).
        """
        if logged:
            self.log.run(node, argv, environ=environ, stdout=stdout_name, may_fail=not check)
        pipe = subprocess.PIPE
        stdin_option = {"stdin": pipe} if stdin else {}
        process = self._popen(node, argv, environ, stdout=pipe, stderr=pipe, **stdin_option)
        out, err = process.communicate(stdin.encode() or None)
        if check and process.returncode != 0:
            message = (err or out).decode(errors="replace").strip().replace("\n", "; ")
            raise NetworkError(
                f"{node}: {shlex.join(argv)}: {message or f'exit status {process.returncode}'}"
            )
        return str(out.decode(errors="replace"))

    def change_qdiscs(
        self, node: str, commands: Sequence[Sequence[str]], shows: Sequence[Sequence[str]]
    ) -> str:
        """Run tc commands in a tc that stays; return the output of `shows`. Raises NetworkError."""
        for argv in commands:
            self.log.run(node, argv)
        try:
            return self._tc_pipe(node, tc_batch.JSON).show_after(commands, shows)
        except TcError as error:
            raise NetworkError(f"{node}: {error}") from None

    def show_with_counts(self, node: str, shows: Mapping[str, Sequence[str]]) -> str:
        """Return the text of some `tc -s` commands, which commands.sh writes to the files named.

        Raises NetworkError.
        """
        for file_name, argv in shows.items():
            self.log.run(node, argv, stdout=file_name)
        argvs = [[arg for arg in argv if arg != "-s"] for argv in shows.values()]
        try:
            return self._tc_pipe(node, tc_batch.TEXT).show_text(argvs)
        except TcError as error:
            raise NetworkError(f"{node}: {error}") from None

    def _tc_pipe(self, node: str, options: tuple[str, ...]) -> TcPipe:
        """Return a node's tc that stays. Raises NetworkError."""
        pipes = self._tc_pipes[node]
        if options not in pipes:
            pipes[options] = TcPipe(partial(self._popen, node, environ={}), options)
        return pipes[options]


def charged_argv(argv: Sequence[str], cost: str | None) -> list[str]:
    """Return a command that sets its system-call cost and then executes another one."""
    if cost is None:
        return list(argv)
    script = 'echo "$0" >/proc/self/net/program_cost && exec "$@"'
    return ["/bin/sh", "-c", script, cost, *argv]


@contextmanager
def build_network(
    run: RunSpec,
    folder: Path,
    environ: Mapping[str, str],
    needs: ScriptRequirements = NO_REQUIREMENTS,
    *,
    shells: bool = False,
) -> Iterator[Network]:
    """Build the run's topology; on leaving, end all nodes with their interfaces and qdiscs.

    `shells` gives nodes a shell, for Mininet's prompt. Raises NetworkError if Mininet cannot build
    it.
    """
    from mininet.log import setLogLevel
    from mininet.net import Mininet
    from mininet.util import numCores

    setLogLevel("warning")
    # Mininet.init() would raise the host's socket-buffer and neighbour sysctls. The lab must not do
    # that, as it would change every namespace's defaults. The machine checks for root.
    Mininet.inited = True
    numCores.ncores = os.cpu_count()  # Mininet would count CPUs with grep
    size = topology_size(topology_of(run.topology), run.flows, run.sites, run.hops)
    layout = topology_classes()[run.topology](**size)
    mininet = Mininet(
        topo=layout if shells else shellless_topology(layout), controller=None, build=False
    )
    try:
        try:
            mininet.build()
        except Exception as error:  # Mininet raises bare Exception
            raise NetworkError(f"Mininet cannot build topology {run.topology}: {error}") from error
        check_addresses(mininet)
        if not shells:
            join_nodes(mininet)
        names = [host.name for host in mininet.hosts]
        needs = replace(needs, nodes=names, environ=environ)
        with closing(CommandLog(folder / "commands.sh", run.name, needs)) as log:
            network = Network(mininet, log, environ, run.program_costs)
            with closing(network):
                record_layout(network)
                yield network
    finally:
        mininet.stop()


def join_nodes(mininet: Mininet) -> None:
    """Set up links, addresses and routes of nodes without shells. Raises NetworkError."""
    position = "links"
    try:
        with links_of(os.getpid()) as links:
            for link in mininet.links:
                one, two = link.intf1, link.intf2
                links.add_veth(one.name, one.node.pid, two.name, two.node.pid)
        for host in mininet.hosts:
            position = host.name
            with links_of(host.pid) as links:
                links.set_up("lo")
                for end in (intf for intf in host.intfList() if intf.name != "lo"):
                    links.add_address(end.name, f"{end.ip}/{end.prefixLen}")
                    links.set_up(end.name)
                for to, via in host.params.get("routes", ()):
                    links.add_route(to, f"via {via}")
                if "defaultRoute" in host.params:
                    links.add_route("default", host.params["defaultRoute"])
            host.run_saved()
    except (LinkError, OSError, subprocess.CalledProcessError) as error:
        raise NetworkError(f"topo.py: {position}: {error}") from error


def check_addresses(mininet: Mininet) -> None:
    """Check that every interface has the address that its link declares.

    Mininet gives a node's own address to its first link's end. Raises NetworkError with the first
    that differs.
    """
    for host in mininet.hosts:
        for intf in host.intfList():
            declared = intf.params.get("ip")
            if declared and declared.partition("/")[0] != intf.ip:
                raise NetworkError(
                    f"topo.py: {intf.name} has {intf.ip}, its link says {declared}: the ip= of"
                    f" addHost({host.name!r}) must be that of the node's first link"
                )


def record_layout(network: Network) -> None:
    """Record the namespaces, links, addresses and routes that Mininet made in commands.sh."""
    log = network.log
    for node in network.nodes:
        log.write(f"namespace {node}")
    for link in network.mininet.links:
        one, two = link.intf1, link.intf2
        log.write(
            f"ip link add {one.name} netns {one.node.name} type veth peer name {two.name} netns"
            f" {two.node.name}"
        )
        for end in (one, two):
            log.write(
                f"ip -n {end.node.name} addr add {end.ip}/{end.prefixLen} dev {end.name}; "
                f"ip -n {end.node.name} link set {end.name} up"
            )
    for host in network.mininet.hosts:
        for destination, gateway in host.params.get("routes", ()):
            log.write(f"ip -n {host.name} route add {destination} via {gateway}")
        if "defaultRoute" in host.params:
            log.write(f"ip -n {host.name} route add default {host.params['defaultRoute']}")
        if getattr(host, "forwards", False):
            log.run(host.name, ["sysctl", "-qw", "net.ipv4.ip_forward=1"])


def set_mtu(network: Network, mtu: int) -> None:
    """Set the MTU of both ends of every link. Raises NetworkError."""
    for node in network.nodes:
        devices = [interface.name for interface in network.interfaces if interface.node == node]
        for name in devices:
            network.log.run(node, ["ip", "link", "set", name, "mtu", str(mtu)])
        try:
            with links_of(network.pid(node)) as links:
                for name in devices:
                    links.set_mtu(name, mtu)
        except LinkError as error:
            raise NetworkError(f"{node}: {error}") from None


def set_sysctls(
    network: Network, node: str, values: Mapping[str, str], *, of_this_kernel_alone: bool = False
) -> dict[str, str]:
    """Set sysctls in a node's namespace, and return the values read back from the kernel.

    of_this_kernel_alone  commands.sh skips them on a kernel without such sysctls
    Raises NetworkError with the first one that differs from the requested value.
    """
    flags = "-eqw" if of_this_kernel_alone else "-qw"
    assignments = [f"{key}={value}" for key, value in values.items()]
    network.log.run(node, ["sysctl", flags, *assignments])
    try:
        with entered_namespace(network.pid(node)):
            write_sysctls(values)
            installed = read_sysctls(values)
    except OSError as error:
        refused = next(
            (word for word in assignments if word.startswith(f"{error.filename}=")), "sysctl"
        )
        raise NetworkError(f"{node}: {refused}: {error.strerror}") from error
    for key, requested in values.items():
        if installed[key] != requested:
            raise NetworkError(
                f"{node}: {key}: requested {requested}, the kernel has {installed[key]}"
            )
    return installed


def set_offloads(
    network: Network, on: bool, nodes: Collection[str] | None = None
) -> dict[str, dict[str, bool]]:
    """Switch segmentation and receive offloads on every interface (of some nodes).

    Returns the state of each interface read back. Raises NetworkError with the interface that did
    not accept it.
    """
    requested, opposite = ("on", "off") if on else ("off", "on")
    switches = [word for switch, _ in OFFLOADS.values() for word in (switch, requested)]
    installed: dict[str, dict[str, bool]] = {}
    for interface in network.interfaces:
        if nodes is not None and interface.node not in nodes:
            continue
        network.log.run(interface.node, ["ethtool", "-K", interface.name, *switches])
        try:
            with entered_namespace(network.pid(interface.node)):
                state = set_offloads_of(interface.name, on)
        except OSError as error:
            raise NetworkError(f"{interface.node}: {interface.name}: offloads: {error}") from error
        installed[interface.name] = state
        for name in CHECKED_OFFLOADS:
            if state[name] != on:
                position = f"{interface.node}: {interface.name}"
                raise NetworkError(f"{position}: {name} is {opposite}, requested {requested}")
    return installed
