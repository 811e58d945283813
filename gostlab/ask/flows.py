"""A run's flows: who sends what to whom, from when to when, with which congestion control.

A run without `flows` has one, called flow1: the load of a tunnel matrix. Reading is
gostlab.ask.settings' business; here what was read becomes numbers and the names of a topology's
nodes.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from gostlab.ask.document import Node, meant
from gostlab.ask.ends import Ends, sent_with, wan_sender
from gostlab.ask.links import (
    Path,
    in_a_row,
    links_crossed,
    nodes_named,
    paths_crossed,
    round_trip_ms,
)
from gostlab.ask.record import later
from gostlab.ask.sizing import Buffers, resolve_buffers
from gostlab.declared.topologies import Topology, topologies, topology_of
from gostlab.declared.tunnels import WAN, tunnel_kind, tunnel_kinds

# A guest knows what has been settled, and not what may be asked: that takes a fifth of its start.
if TYPE_CHECKING:
    from gostlab.ask.settings import Settings

# Kinds that a congestion control sends; those that iperf3 carries; those that nginx serves.
TCP_KINDS = ("tcp", "http", "short")
IPERF3_KINDS = ("tcp", "udp")
WEB_KINDS = ("http", "short")
# What only some kinds have, and which of them must say it.
FIELDS_OF_KINDS: Mapping[str, tuple[str, ...]] = {
    "rate": ("udp",),
    "size": ("http",),
    "sizes": ("short",),
    "interval": ("ping",),
}
NEEDED = ("rate", "size")
DEFAULT_SIZES_BYTES = (10_000, 100_000, 1_000_000, 10_000_000)
DEFAULT_PING_INTERVAL_MS = 100.0


@dataclass(frozen=True)
class Flow:
    """One flow. It runs between `sender` and `receiver`; a download's data come from the
    receiver.
    """

    name: str
    kind: str  # tcp | udp | http | short | ping
    cc: str | None  # None: udp and ping have none
    streams: int
    direction: str  # upload | download
    start_s: float  # from the start of the load
    duration_s: float  # http: how long it may take at most
    sender: str  # node names
    receiver: str
    rtt_ms: float  # its own idle round trip
    buffers: Any  # "system" | {rmem, wmem}, bytes
    rate_bps: int | None = None  # udp: what it offers
    size_bytes: int | None = None  # http: what it fetches
    sizes_bytes: list[int] = later([])  # short: what it fetches, one after another, again and again
    interval_ms: float = later(0.0)  # ping: how far its requests are apart

    @property
    def is_tcp(self) -> bool:
        """Whether a congestion control sends its data."""
        return self.kind in TCP_KINDS

    @property
    def takes_tunnel(self) -> bool:
        """Whether it goes through the run's tunnel: background traffic takes the path alone."""
        return self.kind != "udp"

    @property
    def end_s(self) -> float:
        """When it is over, from the start of the load."""
        return self.start_s + self.duration_s

    @property
    def data_sender(self) -> str:
        """The node whose congestion control is at work."""
        return self.sender if self.direction == "upload" else self.receiver


def resolve_flows(
    settings: Settings,
    explicit: Settings,
    path: Mapping[str, Any],
    site: str | None,
    ends: Ends,
    links: Mapping[str, Path] = {},
) -> list[Flow]:
    """The flows of a run, in the order of their names' writing.

    settings  every setting of the run, defaults included
    asked     what was written, for fields like `flow2.rtt`
    path      its path, for the round trip
    site      a star's node under test
    ends      the congestion control of each end
    links     the paths of the links that have one of their own
    Raises BadInput where a flow does not fit its topology.
    """
    from gostlab.ask.settings import NO_FLOW_NAMES

    given: dict[str, dict[str, Any]] = {"flow1": {}}
    if "flows" in explicit:
        given = {name: dict(fields) for name, fields in explicit["flows"].value.items()}
    for name, setting in explicit.items():
        flow, dot, field = name.partition(".")
        if dot and flow not in NO_FLOW_NAMES:
            if flow not in given:
                raise setting.node.bad(f"no flow is called {flow} ({meant(flow, given)})")
            given[flow][field] = setting.value
    node = (explicit.get("flows") or settings["topology"]).node
    # Buffers in bdp are of the longest round trip among the flows, whoever shares a host with it.
    rtts_ms = [float(fields["rtt"] * 500) for fields in given.values() if "rtt" in fields]
    crossed = ways_of(given, settings, path, site, links, node)
    longest = in_a_row(max(crossed.values(), key=round_trip_ms))
    longest = {
        way: {**longest[way], "delay_ms": max([longest[way]["delay_ms"], *rtts_ms])}
        for way in ("forward", "reverse")
    }
    flows = [
        resolve_flow(name, number, fields, settings, crossed[name], longest, site, ends, node)
        for number, (name, fields) in enumerate(given.items(), 1)
    ]
    check_fit(flows, settings, node)
    return flows


def ways_of(
    given: Mapping[str, Mapping[str, Any]],
    settings: Settings,
    path: Path,
    site: str | None,
    links: Mapping[str, Path],
    node: Node,
) -> dict[str, list[Path]]:
    """The paths that each flow crosses one after the other. Raises BadInput for one that crosses
    no link.
    """
    topology, hops = topology_of(settings["topology"].value), settings["hops"].value
    hosts = {
        name: hosts_of(name, number, fields, topology, site, node)
        for number, (name, fields) in enumerate(given.items(), 1)
    }
    nodes = nodes_named(host for pair in hosts.values() for host in pair) if topology.shape else 0
    found = {}
    for name, (sender, receiver) in hosts.items():
        crossed = links_crossed(topology, hops, nodes, sender, receiver)
        if topology.shape and not crossed:
            raise node.bad(
                f"{name}: {sender} and {receiver} are at one node and no link is between them"
                f" ({name}: {{sender: 1, receiver: 2}})"
            )
        found[name] = paths_crossed(path, links, crossed)
    return found


def resolve_flow(
    name: str,
    number: int,
    fields: Mapping[str, Any],
    settings: Settings,
    crossed: Sequence[Path],
    longest: Path,
    site: str | None,
    ends: Ends,
    node: Node,
) -> Flow:
    """One flow: its own fields, else the run's settings. `crossed`: the paths on its way;
    `longest`: the longest flow's, as one. Raises BadInput.
    """
    topology = topology_of(settings["topology"].value)
    kind = fields.get("kind", "tcp")
    for field, kinds in FIELDS_OF_KINDS.items():
        needed = field in NEEDED and kind in kinds
        if needed and field not in fields:
            raise node.bad(f"{name}: a {kind} flow needs {field}")
        if field in fields and kind not in kinds:
            raise node.bad(f"{name}: a {kind} flow has no {field}")
    if kind not in TCP_KINDS and {"cc", "buffers"} & set(fields):
        raise node.bad(f"{name}: a {kind} flow has no congestion control and no TCP buffers")
    if kind in ("short", "ping") and "streams" in fields:
        raise node.bad(f"{name}: a {kind} flow has no streams: it does one thing after another")
    if kind == "ping" and "direction" in fields:
        raise node.bad(f"{name}: a ping flow has no direction: it goes there and back")
    check_fields(name, fields, topology, node)
    sender, receiver = hosts_of(name, number, fields, topology, site, node)

    def own(field: str) -> Any:
        return fields[field] if field in fields else settings[field].value

    direction = fields.get("direction", "download") if kind == "short" else own("direction")
    if kind in WEB_KINDS and direction != "download":
        article = "an" if kind == "http" else "a"
        raise node.bad(f"{name}: {article} {kind} flow is a download (direction: download)")
    rtt_ms = float(fields["rtt"] * 1000) if "rtt" in fields else round_trip_ms(crossed)
    if "cc" in fields and ends.by_end:
        raise node.bad(f"{name}: cc of its own, and cc by end besides (one of them)")
    flow = Flow(
        name=name,
        kind=kind,
        cc=None,
        streams=1 if kind in ("short", "ping") else own("streams"),
        direction=direction,
        start_s=fields.get("start", 0.0),
        duration_s=own("duration"),
        sender=sender,
        receiver=receiver,
        rtt_ms=rtt_ms,
        buffers=resolve_buffers(own("buffers"), longest) if kind in TCP_KINDS else "system",
        rate_bps=fields.get("rate"),
        size_bytes=fields.get("size"),
        sizes_bytes=list(fields.get("sizes", DEFAULT_SIZES_BYTES)) if kind == "short" else [],
        interval_ms=fields.get("interval", DEFAULT_PING_INTERVAL_MS) if kind == "ping" else 0.0,
    )
    if not flow.is_tcp:
        return flow
    return replace(flow, cc=fields.get("cc") or sent_with(ends, flow, settings))


def check_fields(name: str, fields: Mapping[str, Any], topology: Topology, node: Node) -> None:
    """A flow may say its hosts and its round trip only where its topology has several. Raises
    BadInput.
    """
    fitting: dict[str, Callable[[Topology], bool]] = {
        "sender": lambda one: one.numbers_hosts,
        "receiver": lambda one: one.numbers_hosts,
        "rtt": lambda one: one.own_rtts,
    }
    for field, fits in fitting.items():
        if field in fields and not fits(topology):
            others = " or ".join(one.name for one in topologies().values() if fits(one))
            raise node.bad(
                f"{name}: {field} belongs to topology {others}; in {topology.name} every flow"
                " takes the one path"
            )


def hosts_of(
    name: str,
    number: int,
    fields: Mapping[str, Any],
    topology: Topology,
    site: str | None,
    node: Node,
) -> tuple[str, str]:
    """The names of the hosts that a flow runs between: where a topology has several, its own number
    is theirs unless it says another. Raises BadInput.
    """
    if topology.path_per_site:
        return topology.sender, site or ""
    hosts: list[str] = []
    for end, pattern in (("sender", topology.sender), ("receiver", topology.receiver)):
        usual = number
        if topology.shape and end == "receiver":  # at the next node
            usual = int(hosts[0].removeprefix(topology.sender.partition("{}")[0])) + 1
        number_of_host = fields.get(end, usual)
        if "{}" in pattern and number_of_host > topology.most_hosts:
            raise node.bad(
                f"{name}: there is no {pattern.format(number_of_host)} in topology {topology.name}"
                f" ({pattern.format(topology.most_hosts)} is the last)"
            )
        hosts.append(pattern.format(number_of_host))
    return hosts[0], hosts[1]


def check_fit(flows: Sequence[Flow], settings: Settings, node: Node) -> None:
    """What flows together must not ask of one tunnel or one host. Raises BadInput."""
    topology, tunnel = topology_of(settings["topology"].value), settings["tunnel"]
    if not tunnel_kind(tunnel.value).is_direct:
        if not topology.tunnel_near:
            fitting = " or ".join(one.name for one in topologies().values() if one.tunnel_near)
            raise tunnel.node.bad(
                f"{tunnel.value}: tunnels run in topology {fitting}, not in {topology.name}"
            )
        placement = settings["placement"]
        if placement.value == "gateway" and not topology.tunnel_gateway:
            raise placement.node.bad_value(
                f"topology {topology.name} has no gateway: a tunnel ends on its flow's own hosts"
            )
        check_tunnel_carries(flows, settings, node)
    check_hops(settings)
    for receiver in sorted({flow.receiver for flow in flows}):
        ways = {(flow.sender, flow.rtt_ms) for flow in flows if flow.receiver == receiver}
        if len(ways) > len({sender for sender, _ in ways}):
            raise node.bad(f"two flows between the same hosts with different rtt ({receiver})")
    buffers: dict[str, Buffers] = {}
    for flow in flows:
        for host in (flow.sender, flow.receiver) if flow.is_tcp else ():
            if buffers.setdefault(host, flow.buffers) != flow.buffers:
                raise node.bad(
                    f"{flow.name}: {host} has other buffers already (a host's flows share its"
                    " buffers)"
                )


def check_hops(settings: Settings) -> None:
    """What paths that lie one behind the other do not go with. Raises BadInput."""
    hops, topology = settings["hops"], topology_of(settings["topology"].value)
    kind = tunnel_kind(settings["tunnel"].value)
    if hops.value > topology.most_hops:
        fitting = " or ".join(one.name for one in topologies().values() if one.most_hops > 1)
        raise hops.node.bad_value(
            f"paths lie one behind the other in topology {fitting}, not in {topology.name}"
        )
    if hops.value > 1 and not kind.is_direct and not kind.chain:
        chains = [one.name for one in tunnel_kinds().values() if one.chain]
        raise settings["tunnel"].node.bad(
            f"hops: {hops.value}: {kind.name} carries packets from end to end, and a chain is made"
            f" of tunnels that end connections ({', '.join(dict.fromkeys(chains))})"
        )


def check_tunnel_carries(flows: Sequence[Flow], settings: Settings, node: Node) -> None:
    """What goes through tunnels together. A tunnel's own connections have the congestion control of
    their host's, whichever flow they carry. Raises BadInput.
    """
    kind = tunnel_kind(settings["tunnel"].value)
    taking = [flow for flow in flows if flow.takes_tunnel]
    if not taking:
        raise node.bad(f"{kind.name}: no flow goes through it (udp flows take the path alone)")
    sent: dict[str, Flow] = {}
    for flow in taking if WAN in kind.legs else ():
        if not flow.is_tcp:
            continue
        host = wan_sender(flow, settings)
        other = sent.setdefault(host, flow)
        if other.cc != flow.cc:
            raise node.bad(
                f"{other.name} ({other.cc}) and {flow.name} ({flow.cc}) both leave {host} through"
                f" {kind.name}, and a tunnel's connections have their host's congestion control:"
                " one for both"
            )


def delays_ms(flows: Sequence[Flow], path: Mapping[str, Any]) -> dict[str, float]:
    """The one-way delay in front of each host where flows have round trips of their own: half the
    least RTT of a receiver's flows before it, what is left of a flow's RTT before its sender.

    Raises ValueError if a sender's flows would need two different delays.
    """
    own: dict[str, float] = {}
    base = path["forward"]["delay_ms"] + path["reverse"]["delay_ms"]
    share = path["forward"]["delay_ms"] / base if base else 0.5
    for flow in flows:
        own[flow.receiver] = min(own.get(flow.receiver, flow.rtt_ms * share), flow.rtt_ms * share)
    for flow in flows:
        back = flow.rtt_ms - own[flow.receiver]
        if abs(own.setdefault(flow.sender, back) - back) > 1e-9:
            raise ValueError(
                f"{flow.sender}: its flows' rtt would need two different delays in front of it"
            )
    return own


def topology_size(
    topology: Topology, flows: Sequence[Flow], sites: Mapping[str, Any] | None, hops: int = 1
) -> dict[str, int]:
    """The numbers that a topology is built with for a run: `senders=3, receivers=2`."""

    def largest(pattern: str, hosts: list[str]) -> int:
        return max(int(host.removeprefix(pattern.partition("{}")[0])) for host in hosts)

    counts = {
        "senders": lambda: largest(topology.sender, [flow.sender for flow in flows]),
        "receivers": lambda: largest(topology.receiver, [flow.receiver for flow in flows]),
        "sites": lambda: len(sites or ()),
        "nodes": lambda: nodes_named(
            host for flow in flows for host in (flow.sender, flow.receiver)
        ),
        "hops": lambda: hops,
    }
    return {word: counts[word]() for word in topology.size}


__all__ = (
    "Flow",
    "check_fit",
    "delays_ms",
    "resolve_flows",
    "topology_size",
)
