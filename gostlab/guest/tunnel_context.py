"""Provide what a tunnel plugin works with: the launch context and the started tunnel."""

import json
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from subprocess import Popen, TimeoutExpired
from typing import Any

from gostlab.guest.network import BackgroundCommand, Network
from gostlab.guest.probes import netlink
from gostlab.install.locate import TunnelBinary
from gostlab.registry.tunnels import tunnel_kind
from gostlab.spec.flow import FlowSpec
from gostlab.spec.run_spec import RunSpec

# The thesis's ports: iperf3 listens on 80 on the target, both ends of the tunnel on 443.
SINK_PORT = 80
TUNNEL_PORT = 443
# Further flows that share a pair's connection enter at these ports, at most this many per pair.
SHARED_PORT, MAX_SHARED = 2000, 100
JOIN_PORT = 1443  # port between the two ends of a chain's middle
PAIRS_OWN = 0  # stands for the port of a pair of ends
# An end may take this long until it listens: it may have to talk to the other end first.
LISTEN_TIMEOUT_S, LISTEN_ROUND_TRIPS = 10.0, 10
LOOPBACK = "127.0.0.1"
MAX_OUTPUT = 300  # maximum length of an end's last output in a message


class TunnelError(Exception):
    """A tunnel end that did not start, or did not live to the end of the run."""


@dataclass(frozen=True)
class TunnelLeg:
    """One TCP hop between application and sink.

    The near end connected to `port`, and the far end accepted.
    """

    name: str  # app | wan | join | wan2 | exit | inner
    near: str  # node of the connecting socket
    far: str  # node of the accepting socket
    port: int  # the port connected to
    loopback: bool = False
    flow: str = "flow1"


class TunnelProcesses(dict[str, Popen[bytes]]):
    """A tunnel's processes by the names of their ends.

    A name is the node's, with a suffix if a node has several ends.
    """

    def __init__(self, folder: Path) -> None:
        super().__init__()
        self.folder = folder  # folder of the ends' output files

    def log_of(self, end: str) -> Path:
        return self.folder / f"tunnel-{end}.log"

    def check_alive(self) -> None:
        """Raise TunnelError with the end that is gone and its last output."""
        for end, process in self.items():
            if process.poll() is not None:
                log = self.log_of(end)
                raise TunnelError(
                    f"the tunnel's end on {end} died (exit status {process.returncode})"
                    f"{last_line_note(log)}; its output is in {log.name}"
                )


@dataclass(frozen=True)
class Tunnel:
    """A running tunnel, or none: the entry of each flow, and the TCP connections (legs)."""

    entries: Mapping[str, tuple[str, int]]  # flow -> address and port to connect to
    legs: tuple[TunnelLeg, ...]  # legs of tcp and http flows
    ends: TunnelProcesses = field(default_factory=lambda: TunnelProcesses(Path()))


@dataclass
class TunnelLaunch:
    """The context in which one run's tunnel is started."""

    network: Network
    run: RunSpec
    program: TunnelBinary | None
    nodes: tuple[str, ...]  # nodes that the tunnel's ends run on: near, a chain's middle, far
    ends: TunnelProcesses  # ends started so far; the caller ends them
    scratch: Path  # folder of this tunnel, removed at the end of the run
    flow: str = ""  # flow that this pair of ends carries; background traffic takes the path
    flows: Sequence[FlowSpec] = ()  # all flows whose packets take this pair, in the run's order
    number: int = 0  # number of the pair
    mark: str = ""  # suffix of process names and logs, if a run has several pairs

    @property
    def patience_s(self) -> float:
        """Return the maximum time until an end is ready."""
        rtts_ms = [flow.rtt_ms for flow in self.run.flows]
        return LISTEN_TIMEOUT_S + LISTEN_ROUND_TRIPS * max(rtts_ms) / 1000

    @property
    def near(self) -> str:
        """Return the node on which the application's connection is made."""
        return self.nodes[0]

    @property
    def far(self) -> str:
        """Return the node from which the last connection leaves to the sink."""
        return self.nodes[-1]

    @property
    def middle(self) -> tuple[str, ...]:
        """Return the nodes of a chain between near and far end; () without a chain."""
        return self.nodes[1:-1]

    def next_address(self, node: str) -> str:
        """Return the address of the next end, to which a node's end connects."""
        return self.network.ip(self.nodes[self.nodes.index(node) + 1])

    @property
    def port(self) -> int:
        """Return the port on which this pair's ends listen.

        A forwarder has one sink, so each pair has its own port.
        """
        return TUNNEL_PORT + self.number

    @property
    def join_port(self) -> int:
        """Return the port between the two ends of a chain's middle."""
        return JOIN_PORT + self.number

    @property
    def program_path(self) -> str:
        """Return the path of the tunnel's program. Raises TunnelError if there is none."""
        if self.program is None:
            raise TunnelError(f"{self.run.tunnel} declares no program")
        return str(self.program.path)

    def helper(self, name: str) -> str:
        """Return the path of another declared program. Raises TunnelError if there is none."""
        if self.program is None or name not in self.program.helpers:
            raise TunnelError(f"{self.run.tunnel} declares no helper {name}")
        return self.program.helpers[name]["path"]

    def on(self, node: str, *argv: str) -> str:
        """Run a command on a node, kept in commands.sh; return its output. Raises NetworkError."""
        return self.network.read(node, list(argv))

    def read_output(self, node: str, *argv: str, stdin: str = "") -> str:
        """Return the output of a command that only generates something (a key).

        It is not recorded: commands.sh has the file that the output is written to. Raises
        NetworkError.
        """
        return self.network.read(node, list(argv), logged=False, stdin=stdin).strip()

    @property
    def inner_mtu(self) -> int:
        """Return the MTU of a VPN's device, which fits the links' MTU."""
        return tunnel_kind(self.run.tunnel).inner_mtu(self.run.mtu)

    @property
    def receiver(self) -> str:
        """Return the receiver of the pair's flow."""
        return next(flow.receiver for flow in self.flows if flow.name == self.flow)

    @property
    def sink(self) -> tuple[str, int]:
        """Return the address and port of the pair's sink, to which the far end connects."""
        return self.sink_of(self.flow)

    def sink_of(self, flow: str) -> tuple[str, int]:
        """Return the address and port of the sink of another flow between the same hosts."""
        address = LOOPBACK if self.far == self.receiver else self.network.ip(self.receiver)
        return address, sink_ports(self.run)[flow]

    @property
    def carried_flows(self) -> list[str]:
        """Return all flows that this pair carries as streams, the pair's own flow first."""
        return list(dict.fromkeys([self.flow, *(flow.name for flow in self.flows if flow.is_tcp)]))

    def entry_port(self, flow: str) -> int:
        """Return the port on which the near end listens for a flow.

        The pair's first flow has the pair's port, and each further flow its own.
        """
        position = self.carried_flows.index(flow)
        return self.port if position == 0 else SHARED_PORT + self.number * MAX_SHARED + position

    @property
    def carries_datagrams(self) -> bool:
        """Return whether datagrams of a flow take this pair to the sink's port.

        They are a ping's, a udp flow's, or possibly a command's.
        """
        return any(not flow.is_tcp or flow.traffic.is_counted for flow in self.flows)

    @property
    def far_address(self) -> str:
        """Return the address on which the far end listens."""
        return self.network.ip(self.far)

    def start_end(
        self,
        node: str,
        argv: list[str],
        *,
        port: int | None = PAIRS_OWN,
        environ: Mapping[str, str] = {},
        part: str = "",
    ) -> None:
        """Start one end, one process per node, or a `part` of a node that has several.

        `port` is where it listens: by default the pair's port; None for no port. Raises TunnelError
        if the port is in use.
        """
        port = self.port if port == PAIRS_OWN else port
        if port in listening_ports(self.network, node, "tcp"):
            raise TunnelError(
                f"{node}: port {port} is in use already, the tunnel cannot listen there"
            )
        end = f"{node}{part and f'-{part}'}{self.mark}"
        name, near = self.ends.log_of(end).name, "near" if node == self.near else "far"
        time.sleep(self.run.start_offset_s(end))
        program = f"{tunnel_kind(self.run.tunnel).cost_name}/{near}"
        command = BackgroundCommand(node, argv, name, program, environ)
        counter_at = self.program.cycle_counter_at if self.program else None
        self.ends[end] = self.network.start(command, self.ends.folder, cycle_counter_at=counter_at)

    def write_file(self, name: str, content: str | bytes, mode: int = 0o644) -> Path:
        """Write a file into the tunnel's scratch folder; commands.sh writes the same one."""
        path = self.scratch / name
        self.network.write_file(path, content, mode)
        return path

    def wait_until_listening(self, node: str, port: int, protocol: str = "tcp") -> None:
        """Wait until an end listens. Raises TunnelError if it dies first, or on a timeout."""
        wait_until_listening(
            self.network,
            node,
            port,
            protocol=protocol,
            alive=self.ends.check_alive,
            patience_s=self.patience_s,
        )

    def last_output(self, node: str) -> str:
        """Return the last output of a node's end, for an error message."""
        return last_line_note(self.ends.log_of(f"{node}{self.mark}"))

    def options(self, *names: str) -> list[tuple[str, Any]]:
        """Return the tunnel options that the run sets, among those named."""
        tunnel_options = self.run.tunnel_options
        return [(name, tunnel_options[name]) for name in names if name in tunnel_options]


def direct_entries(network: Network, run: RunSpec) -> dict[str, tuple[str, int]]:
    """Return the entry of each flow without a tunnel: its sink."""
    ports = sink_ports(run)
    return {flow.name: (network.ip(flow.receiver), ports[flow.name]) for flow in run.flows}


def first_carried_flow(flows: Sequence[FlowSpec]) -> str:
    """Return the flow that the tunnel's first pair carries: a TCP flow if there is one."""
    taking = [flow for flow in flows if flow.takes_tunnel]
    return min(taking, key=lambda flow: not flow.is_tcp).name


def pair_of(run: RunSpec, flow: FlowSpec) -> str:
    """Return the flow whose pair of ends a flow's packets take.

    That is the flow's own pair, except for datagrams: they take the pair of the first flow between
    the same hosts. So does everything in a VPN, and in a tunnel of one connection with `shared:
    on`.
    """
    declaration = tunnel_kind(run.tunnel)
    datagrams = flow.traffic.prefers_udp and "udp" in declaration.carries
    if not (declaration.is_vpn or datagrams or run.tunnel_options.get("shared") == "on"):
        return flow.name
    nodes = run.tunnel_ends(flow)
    return first_carried_flow([other for other in run.flows if run.tunnel_ends(other) == nodes])


def pairs_of(run: RunSpec) -> dict[str, list[FlowSpec]]:
    """Return the flows that need a pair of ends each, with all flows that take it.

    The first pair is the first entry.
    """
    taking = [flow for flow in run.flows if flow.takes_tunnel]
    if tunnel_kind(run.tunnel).is_direct or not taking:
        return {}
    pairs: dict[str, list[FlowSpec]] = {first_carried_flow(taking): []}
    for flow in taking:
        pairs.setdefault(pair_of(run, flow), []).append(flow)
    return pairs


def sink_ports(run: RunSpec) -> dict[str, int]:
    """Return the port of each flow's sink.

    It is 80, and one more for each further flow to the same host; the tunnel's port is left out.
    Datagrams have the port of the stream whose forwarder carries them.
    """
    ports: dict[str, int] = {}
    last_port: dict[str, int] = {}
    taken: dict[str, set[int]] = {}
    declaration = tunnel_kind(run.tunnel)
    forwards = not declaration.is_direct and not declaration.is_vpn
    shared = {
        flow.name: pair
        for flow in run.flows
        if forwards and flow.traffic.prefers_udp and (pair := pair_of(run, flow)) != flow.name
    }
    for flow in run.flows:
        if flow.name in shared:
            continue
        port = last_port.get(flow.receiver, SINK_PORT - 1) + 1
        # The samplers tell a sender's connections apart by the port that they lead to.
        while port == TUNNEL_PORT or port in taken.get(flow.sender, ()):
            port += 1
        taken.setdefault(flow.sender, set()).add(port)
        ports[flow.name] = last_port[flow.receiver] = port
    return ports | {flow: ports[pair] for flow, pair in shared.items()}


def last_line_note(log: Path) -> str:
    """Return the last non-empty line of a log in brackets; of GOST's JSON its `msg`."""
    try:
        text = log.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    if not lines:
        return ""
    try:
        text = str(json.loads(lines[-1])["msg"])
    except (ValueError, KeyError, TypeError):
        text = lines[-1]
    return f" ({text[:MAX_OUTPUT]})"


def listening_ports(network: Network, node: str, protocol: str) -> set[int]:
    """Return the ports of a protocol (tcp or udp) on which a node listens."""
    pid = network.pid(node)
    if protocol == "tcp":
        # The kernel goes through all of its sockets for a line of /proc/net/tcp.
        with closing(netlink.open_in(pid, netlink.NETLINK_SOCK_DIAG)) as link:
            return netlink.read_listening_ports(link)
    return {
        int(line.split()[1].rpartition(":")[2], 16)
        for table in (Path(f"/proc/{pid}/net/{name}") for name in (protocol, f"{protocol}6"))
        for line in table.read_text(encoding="ascii").splitlines()
        if " 07 " in line
    }


def wait_until_listening(
    network: Network,
    node: str,
    *ports: int,
    protocol: str = "tcp",
    alive: Callable[[], None] = lambda: None,
    patience_s: float = LISTEN_TIMEOUT_S,
) -> None:
    """Wait until a node listens on all ports. Raises TunnelError, also what `alive` raises."""
    deadline = time.monotonic() + patience_s
    while ports and (missing := set(ports) - listening_ports(network, node, protocol)):
        if time.monotonic() >= deadline:
            raise TunnelError(
                f"{node}: nothing listens on {protocol} port {min(missing)} after"
                f" {patience_s:.0f} s"
            )
        alive()
        time.sleep(0.02)
    for port in ports:
        network.log.listening(node, protocol, port)


def stop_process(process: Popen[bytes], patience_s: float = 3.0) -> None:
    """End a process by SIGTERM, then by SIGKILL, and reap it."""
    if process.poll() is None:
        process.terminate()
        try:
            process.wait(patience_s)
        except TimeoutExpired:
            process.kill()
    process.wait()
