"""What a tunnel's file works with: the network to start on, and what a started tunnel is."""

import json
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from subprocess import Popen, TimeoutExpired
from typing import Any

from gostlab.guest.network import Command, Network
from gostlab.install.locate import TunnelBinary
from gostlab.registry.tunnels import tunnel_kind
from gostlab.spec.flow import FlowSpec
from gostlab.spec.run_spec import RunSpec

# The thesis's ports: iperf3 listens on 80 on the target, both ends of the tunnel on 443.
SINK_PORT = 80
TUNNEL_PORT = 443
# The entries of further flows that share a pair's one connection, so many of each pair.
SHARED_PORT, MAX_SHARED = 2000, 100
JOIN_PORT = 1443  # within the middle of a chain
PAIRS_OWN = 0  # the port of a pair of ends
# How long an end may take until it listens: it may first talk to the other one.
LISTEN_TIMEOUT_S, LISTEN_ROUND_TRIPS = 10.0, 10
LOOPBACK = "127.0.0.1"
MAX_WORDS = 300  # of what an end said last


class TunnelError(Exception):
    """A tunnel end did not start, or did not live to the end of the run."""


@dataclass(frozen=True)
class TunnelLeg:
    """One TCP hop between application and sink: the near end connected to `port`, the far end
    accepted.
    """

    name: str  # app | wan | join | wan2 | exit | inner
    near: str  # node of the connecting socket
    far: str  # node of the accepting socket
    port: int  # the port connected to
    loopback: bool = False
    flow: str = "flow1"


class TunnelProcesses(dict[str, Popen[bytes]]):
    """A tunnel's processes by their ends' names: a node's, and what tells several on it apart."""

    def __init__(self, folder: Path) -> None:
        super().__init__()
        self.folder = folder  # where each one's output goes

    def log_of(self, end: str) -> Path:
        return self.folder / f"tunnel-{end}.log"

    def check_alive(self) -> None:
        """Raises TunnelError naming the end that is gone, with its last words."""
        for end, process in self.items():
            if process.poll() is not None:
                log = self.log_of(end)
                raise TunnelError(
                    f"the tunnel's end on {end} died (exit status {process.returncode})"
                    f"{last_words(log)}; its output is in {log.name}"
                )


@dataclass(frozen=True)
class Tunnel:
    """A running tunnel, or none: where each flow connects, and which TCP connections that makes."""

    entries: Mapping[str, tuple[str, int]]  # flow -> address and port to connect to
    legs: tuple[TunnelLeg, ...]  # of tcp and http flows
    ends: TunnelProcesses = field(default_factory=lambda: TunnelProcesses(Path()))


@dataclass
class Launch:
    """The start of one run's tunnel."""

    network: Network
    run: RunSpec
    program: TunnelBinary | None
    way: tuple[str, ...]  # the nodes that its ends run on: near, a chain's middle, far
    ends: TunnelProcesses  # started so far; ended by the caller
    scratch: Path  # a folder of the tunnel's own, which ends with the run
    flow: str = ""  # that this pair of ends is made for, background traffic takes the path
    flows: Sequence[FlowSpec] = ()  # all whose packets take it, in the run's order
    number: int = 0  # of the pair
    mark: str = ""  # what its processes' names and logs end in, where a run has several pairs

    @property
    def patience_s(self) -> float:
        """How long an end may take until it is ready."""
        rtts_ms = [flow.rtt_ms for flow in self.run.flows]
        return LISTEN_TIMEOUT_S + LISTEN_ROUND_TRIPS * max(rtts_ms) / 1000

    @property
    def near(self) -> str:
        """The node that the application's connection is made on."""
        return self.way[0]

    @property
    def far(self) -> str:
        """The node that the last connection, to the sink, leaves."""
        return self.way[-1]

    @property
    def middle(self) -> tuple[str, ...]:
        """The nodes of a chain's ends between the two; () where it is none."""
        return self.way[1:-1]

    def next_address(self, node: str) -> str:
        """Where an end connects to: the one behind it."""
        return self.network.ip(self.way[self.way.index(node) + 1])

    @property
    def port(self) -> int:
        """Where this pair's ends listen: a forwarder has one sink, and so each pair its own."""
        return TUNNEL_PORT + self.number

    @property
    def join_port(self) -> int:
        """Where a second end of a chain's middle listens, for what the first one brings."""
        return JOIN_PORT + self.number

    @property
    def program_path(self) -> str:
        """The tunnel's program. Raises TunnelError if there is none."""
        if self.program is None:
            raise TunnelError(f"{self.run.tunnel} declares no program")
        return str(self.program.path)

    def helper(self, name: str) -> str:
        """Another program that the tunnel declares. Raises TunnelError if there is none."""
        if self.program is None or name not in self.program.helpers:
            raise TunnelError(f"{self.run.tunnel} declares no helper {name}")
        return self.program.helpers[name]["path"]

    def on(self, node: str, *argv: str) -> str:
        """Run a command on a node, as commands.sh will; what it prints. Raises NetworkError."""
        return self.network.read(node, list(argv))

    def ask(self, node: str, *argv: str, stdin: str = "") -> str:
        """What a command prints that only makes something up (a key): the file that it ends in is
        written into commands.sh, and so it is not. Raises NetworkError.
        """
        return self.network.read(node, list(argv), logged=False, stdin=stdin).strip()

    @property
    def inner_mtu(self) -> int:
        """The MTU of a VPN's device, which fits the links'."""
        return tunnel_kind(self.run.tunnel).inner_mtu(self.run.mtu)

    @property
    def receiver(self) -> str:
        """The node that the pair's flow runs to."""
        return next(flow.receiver for flow in self.flows if flow.name == self.flow)

    @property
    def sink(self) -> tuple[str, int]:
        """Where the far end connects to: address and port of the pair's flow's sink."""
        return self.sink_of(self.flow)

    def sink_of(self, flow: str) -> tuple[str, int]:
        """The same of another flow between the same hosts."""
        address = LOOPBACK if self.far == self.receiver else self.network.ip(self.receiver)
        return address, sink_ports(self.run)[flow]

    @property
    def carried_all(self) -> list[str]:
        """All flows that this pair carries as streams, the pair's own first."""
        return list(dict.fromkeys([self.flow, *(each.name for each in self.flows if each.is_tcp)]))

    def entry_port(self, flow: str) -> int:
        """Where the near end listens for a flow: the pair's port; for further flows one each."""
        place = self.carried_all.index(flow)
        return self.port if place == 0 else SHARED_PORT + self.number * MAX_SHARED + place

    @property
    def carries_datagrams(self) -> bool:
        """Whether a flow's datagrams take this pair, to the sink's port: a ping's, a udp flow's, or
        perhaps a command's.
        """
        return any(not flow.is_tcp or flow.traffic.is_counted for flow in self.flows)

    @property
    def far_address(self) -> str:
        """Where the far end listens."""
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
        """Start one end, one process a node, or a `part` of a node's that has several. Raises
        TunnelError if the port is taken on which it is to listen: the pair's own, another, or none.
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
        command = Command(node, argv, name, program, environ)
        counter_at = self.program.cycle_counter_at if self.program else None
        self.ends[end] = self.network.start(command, self.ends.folder, cycle_counter_at=counter_at)

    def write_file(self, name: str, content: str | bytes, mode: int = 0o644) -> Path:
        """A file in the tunnel's scratch folder; commands.sh writes the same one."""
        path = self.scratch / name
        self.network.write_file(path, content, mode)
        return path

    def wait_until_listening(self, node: str, port: int, protocol: str = "tcp") -> None:
        """Wait until an end listens. Raises TunnelError if it dies first, or loses patience."""
        wait_until_listening(
            self.network,
            node,
            port,
            protocol=protocol,
            alive=self.ends.check_alive,
            patience_s=self.patience_s,
        )

    def last_words(self, node: str) -> str:
        """The last that a node's end has said, to stand behind what went wrong."""
        return last_words(self.ends.log_of(f"{node}{self.mark}"))

    def options(self, *names: str) -> list[tuple[str, Any]]:
        """What the run sets of a tunnel's own options, of those named."""
        own = self.run.tunnel_options
        return [(name, own[name]) for name in names if name in own]


def direct_entries(network: Network, run: RunSpec) -> dict[str, tuple[str, int]]:
    """Where each flow connects without a tunnel: its sink."""
    ports = sink_ports(run)
    return {flow.name: (network.ip(flow.receiver), ports[flow.name]) for flow in run.flows}


def first_carried(flows: Sequence[FlowSpec]) -> str:
    """The flow that the first pair of a tunnel's ends carries: what loads it, if anything does."""
    taking = [flow for flow in flows if flow.takes_tunnel]
    return min(taking, key=lambda flow: not flow.is_tcp).name


def pair_of(run: RunSpec, flow: FlowSpec) -> str:
    """The flow whose pair of ends a flow's packets take: its own, but datagrams take that of the
    first flow between the same hosts, as everything does through a VPN, or through a tunnel of one
    connection that is asked to (`shared`).
    """
    kind = tunnel_kind(run.tunnel)
    datagrams = flow.traffic.prefers_udp and "udp" in kind.carries
    if not (kind.is_vpn or datagrams or run.tunnel_options.get("shared") == "on"):
        return flow.name
    way = run.tunnel_way(flow)
    return first_carried([each for each in run.flows if run.tunnel_way(each) == way])


def pairs_of(run: RunSpec) -> dict[str, list[FlowSpec]]:
    """The flows that need a pair of a tunnel's ends each, the first pair's first, and all that take
    that pair.
    """
    taking = [flow for flow in run.flows if flow.takes_tunnel]
    if tunnel_kind(run.tunnel).is_direct or not taking:
        return {}
    found: dict[str, list[FlowSpec]] = {first_carried(taking): []}
    for flow in taking:
        found.setdefault(pair_of(run, flow), []).append(flow)
    return found


def sink_ports(run: RunSpec) -> dict[str, int]:
    """The port of each flow's sink: 80, and one more for each further flow to the same host, the
    tunnel's left out; datagrams have that of the stream whose forwarder brings them.
    """
    ports: dict[str, int] = {}
    last: dict[str, int] = {}
    taken: dict[str, set[int]] = {}
    kind = tunnel_kind(run.tunnel)
    forwards = not kind.is_direct and not kind.is_vpn
    shared = {
        flow.name: pair
        for flow in run.flows
        if forwards and flow.traffic.prefers_udp and (pair := pair_of(run, flow)) != flow.name
    }
    for flow in run.flows:
        if flow.name in shared:
            continue
        port = last.get(flow.receiver, SINK_PORT - 1) + 1
        # The samplers tell a sender's connections apart by the port that they lead to.
        while port == TUNNEL_PORT or port in taken.get(flow.sender, ()):
            port += 1
        taken.setdefault(flow.sender, set()).add(port)
        ports[flow.name] = last[flow.receiver] = port
    return ports | {flow: ports[pair] for flow, pair in shared.items()}


def last_words(log: Path) -> str:
    """The last line of a log that says anything, in brackets; of GOST's JSON its `msg`."""
    try:
        text = log.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    if not lines:
        return ""
    try:
        said = str(json.loads(lines[-1])["msg"])
    except (ValueError, KeyError, TypeError):
        said = lines[-1]
    return f" ({said[:MAX_WORDS]})"


def listening_ports(network: Network, node: str, protocol: str) -> set[int]:
    """The ports of a protocol (tcp or udp) that anything on a node listens on."""
    waiting = " 0A " if protocol == "tcp" else " 07 "
    tables = [Path(f"/proc/{network.pid(node)}/net/{name}") for name in (protocol, f"{protocol}6")]
    return {
        int(line.split()[1].rpartition(":")[2], 16)
        for table in tables
        for line in table.read_text(encoding="ascii").splitlines()
        if waiting in line
    }


def wait_until_listening(
    network: Network,
    node: str,
    *ports: int,
    protocol: str = "tcp",
    alive: Callable[[], None] = lambda: None,
    patience_s: float = LISTEN_TIMEOUT_S,
) -> None:
    """Wait until a node listens there. Raises TunnelError if it does not in time, or what `alive`
    raises.
    """
    deadline = time.monotonic() + patience_s
    while missing := set(ports) - listening_ports(network, node, protocol):
        if time.monotonic() >= deadline:
            raise TunnelError(
                f"{node}: nothing listens on {protocol} port {min(missing)} after"
                f" {patience_s:.0f} s"
            )
        alive()
        time.sleep(0.02)
    for port in ports:
        network.log.listening(node, protocol, port)


def stop(process: Popen[bytes], patience_s: float = 3.0) -> None:
    """SIGTERM, then SIGKILL; always reaped."""
    if process.poll() is None:
        process.terminate()
        try:
            process.wait(patience_s)
        except TimeoutExpired:
            process.kill()
    process.wait()
