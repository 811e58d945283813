"""The load of a run, decided in two steps: who sends to whom, which its topology says; and, once
the congestion controls and the paths between them are known, each flow with all of its numbers.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from gostlab.registry.topologies import Topology
from gostlab.registry.traffic import BOTH_WAYS, DOWNLOAD, TrafficKind, traffic_kind, traffic_kinds
from gostlab.registry.tunnels import IP_TCP_BYTES, WAN, tunnel_kinds
from gostlab.spec.flow import DATAGRAM_BYTES, FlowSpec
from gostlab.spec.link_paths import (
    Path,
    in_a_row,
    links_crossed,
    nodes_named,
    paths_crossed,
    round_trip_ms,
)
from gostlab.spec.request import RunRequest, topologies_with
from gostlab.spec.settings import NO_FLOW_NAMES
from gostlab.spec.yaml_source import BadInput, Node, meant
from gostlab.tcpmodel.buffer_sizing import Buffers, resolve_buffers

DEFAULT_SIZES_BYTES = (10_000, 100_000, 1_000_000, 10_000_000)
# What a flow may say only where its topology has several of it.
OF_TOPOLOGY: Mapping[str, Callable[[Topology], bool]] = {
    "sender": lambda one: one.numbers_hosts,
    "receiver": lambda one: one.numbers_hosts,
    "rtt": lambda one: one.own_rtts,
}


@dataclass(frozen=True)
class AskedFlow:
    """A flow as it is requested, and the hosts that it runs between."""

    name: str
    fields: Mapping[str, Any]  # its own, where they differ from the run's
    node: Node  # where flows are written
    traffic: TrafficKind
    direction: str  # upload | download
    sender: str
    receiver: str

    @property
    def takes_tunnel(self) -> bool:
        return self.traffic.takes_tunnel or self.fields.get("through") == "tunnel"

    def bad(self, problem: str) -> BadInput:
        return self.node.bad(f"{self.name}: {problem}")


# -- who sends to whom


def resolve_hosts(asked: RunRequest) -> list[AskedFlow]:
    """The flows of a run with their hosts, in order. Raises BadInput where they do not fit."""
    check_topology(asked)
    given: dict[str, dict[str, Any]] = {"flow1": {}}
    if "flows" in asked.written:
        given = {name: dict(fields) for name, fields in asked.written["flows"].value.items()}
    for name, setting in asked.written.items():
        owner, dot, field = name.partition(".")
        if dot and owner not in NO_FLOW_NAMES:
            if owner not in given:
                raise setting.node.bad(f"no flow is called {owner} ({meant(owner, given)})")
            given[owner][field] = setting.value
    node = asked.node("flows" if "flows" in asked.written else "topology")
    site = site_under_test(asked)
    found = []
    for number, (name, fields) in enumerate(given.items(), 1):
        traffic = traffic_kind(fields.get("kind", "tcp"))
        direction = fields.get("direction", asked["direction"])
        if traffic.direction == DOWNLOAD and not traffic.until_done:
            direction = fields.get("direction", DOWNLOAD)
        flow = AskedFlow(name, fields, node, traffic, direction, asked.topology.sender, site)
        check_fields(flow, asked.topology)
        found.append(flow if site else between_hosts(flow, number, asked.topology))
    for flow in found:
        if flow.fields.get("through") == "tunnel" and "udp" not in asked.tunnel.carries:
            raise flow.bad(f"through: tunnel: {asked.tunnel.name} carries no datagrams")
    if not asked.tunnel.is_direct and not any(flow.takes_tunnel for flow in found):
        raise node.bad(
            f"{asked.tunnel.name}: no flow goes through it (a udp flow does with through: tunnel)"
        )
    return found


def check_topology(asked: RunRequest) -> None:
    """What a topology cannot do with a tunnel, or with paths in a row. Raises BadInput."""
    topology, kind, hops = asked.topology, asked.tunnel, asked["hops"]
    if not kind.is_direct and not topology.tunnel_near:
        fitting = topologies_with(lambda one: one.tunnel_near)
        raise asked.node("tunnel").bad(
            f"{asked['tunnel']}: tunnels run in topology {fitting}, not in {topology.name}"
        )
    if not kind.is_direct and asked["placement"] == "gateway" and not topology.tunnel_gateway:
        raise asked.node("placement").bad_value(
            f"topology {topology.name} has no gateway: a tunnel ends on its flow's own hosts"
        )
    if hops > topology.most_hops:
        fitting = topologies_with(lambda one: one.most_hops > 1)
        raise asked.node("hops").bad_value(
            f"paths lie one behind the other in topology {fitting}, not in {topology.name}"
        )
    over_the_first = kind.is_vpn and asked["placement"] == "gateway"
    if hops > 1 and not (kind.is_direct or kind.chain or over_the_first):
        chains = dict.fromkeys(one.name for one in tunnel_kinds().values() if one.chain)
        raise asked.node("tunnel").bad(
            f"hops: {hops}: {kind.name} carries packets over the first path (placement: gateway),"
            f" and a chain is made of tunnels that end connections ({', '.join(chains)})"
        )


def site_under_test(asked: RunRequest) -> str:
    """The host of the site whose path is the run's; "" without sites. Raises BadInput."""
    topology, sites = asked.topology, asked.written.get("sites")
    if not topology.path_per_site:
        if sites is not None:
            fitting = topologies_with(lambda one: one.path_per_site)
            raise sites.node.bad(f"sites belong to topology {fitting}, not to {topology.name}")
        return ""
    if sites is None:
        raise asked.node("topology").bad(
            f"a {topology.name} needs sites (a list of profiles, one of them the run's own)"
        )
    if asked["profile"] not in sites.value:
        raise asked.node("profile").bad_value(f"not one of the {topology.name}'s sites")
    return topology.receiver.format(1 + sites.value.index(asked["profile"]))


def check_fields(flow: AskedFlow, topology: Topology) -> None:
    """A flow has the fields of its kind and of its topology. Raises BadInput."""
    kind, fields = flow.traffic, flow.fields
    own_fields = {field for each in traffic_kinds().values() for field in (*each.must, *each.may)}
    for field in sorted(own_fields - {*kind.must, *kind.may}):
        if field in fields:
            raise flow.bad(f"a {kind.name} flow has no {field}")
    for field in kind.must:
        if field not in fields:
            raise flow.bad(f"a {kind.name} flow needs {field}")
    if not kind.is_tcp and {"cc", "buffers", "ecn"} & set(fields):
        raise flow.bad(f"a {kind.name} flow has no congestion control, TCP buffers or ECN")
    if not kind.has_streams and "streams" in fields:
        raise flow.bad(f"a {kind.name} flow has no streams: it does one thing at a time")
    if kind.direction == BOTH_WAYS and "direction" in fields:
        raise flow.bad(f"a {kind.name} flow has no direction: it goes there and back")
    for field, fits in OF_TOPOLOGY.items():
        if field in fields and not fits(topology):
            raise flow.bad(
                f"{field} belongs to topology {topologies_with(fits)}; in {topology.name} every"
                " flow takes the one path"
            )
    if kind.direction == DOWNLOAD and flow.direction != DOWNLOAD:
        raise flow.bad(f"a flow of kind {kind.name} is a download (direction: download)")


def between_hosts(flow: AskedFlow, number: int, topology: Topology) -> AskedFlow:
    """A flow with its hosts' names: its own number's, unless it says another. Raises BadInput."""
    hosts: list[str] = []
    for end, pattern in (("sender", topology.sender), ("receiver", topology.receiver)):
        usual = number
        if topology.shape and end == "receiver":  # at the next node
            usual = int(hosts[0].removeprefix(topology.sender.partition("{}")[0])) + 1
        number_of_host = flow.fields.get(end, usual)
        if "{}" in pattern and number_of_host > topology.most_hosts:
            raise flow.bad(
                f"there is no {pattern.format(number_of_host)} in topology {topology.name}"
                f" ({pattern.format(topology.most_hosts)} is the last)"
            )
        hosts.append(pattern.format(number_of_host))
    return replace(flow, sender=hosts[0], receiver=hosts[1])


# -- what follows from that alone


def flow_endpoints(flows: Sequence[AskedFlow]) -> list[str]:
    """The hosts that flows run between, each as often as a flow names it."""
    return [host for flow in flows for host in (flow.sender, flow.receiver)]


def hosts_of_run(asked: RunRequest, flows: Sequence[AskedFlow]) -> tuple[str, ...]:
    """A run's machines: where flows and tunnel end. What only forwards is the network."""
    return tuple(dict.fromkeys([*flow_endpoints(flows), *tunnel_hosts(asked, flows)]))


def tunnel_hosts(asked: RunRequest, flows: Sequence[AskedFlow]) -> tuple[str, ...]:
    """The hosts that some flows' tunnels end on, along each one's way; () without a tunnel."""
    if asked.tunnel.is_direct:
        return ()
    hops = asked.tunnel.ends_over(asked["hops"])
    ways = (
        asked.topology.tunnel_way(asked["placement"], hops, flow.sender, flow.receiver)
        for flow in flows
        if flow.takes_tunnel
    )
    return tuple(dict.fromkeys(host for way in ways for host in way))


def wan_sender(flow: AskedFlow, asked: RunRequest) -> str:
    """The host that sends a flow's data across the WAN: of a chain, across its first path."""
    if flow.direction == "upload":
        return flow.sender
    # The connection inside a VPN goes from end to end.
    behind = tunnel_hosts(asked, [flow])[1:] if asked.tunnel.path_leg == WAN else ()
    return behind[0] if behind else flow.receiver


def link_names(asked: RunRequest, flows: Sequence[AskedFlow]) -> tuple[str, ...]:
    """What the run's links are called; () where there is but one path."""
    topology, hops = asked.topology, asked["hops"]
    nodes = nodes_named(flow_endpoints(flows)) if topology.shape else 0
    return topology.link_names(hops, nodes) if topology.shape or hops > 1 else ()


# -- every number of each


def resolve_flows(
    asked: RunRequest,
    flows: Sequence[AskedFlow],
    path: Path,
    links: Mapping[str, Path],
    sent_with: Callable[[AskedFlow], str],
) -> list[FlowSpec]:
    """The flows of a run with their numbers; `links`: the paths of links with one of their own,
    `sent_with`: what a flow's data meet the path with. Raises BadInput.
    """
    topology = asked.topology
    nodes = nodes_named(flow_endpoints(flows)) if topology.shape else 0
    crossed: dict[str, list[Path]] = {}
    for flow in flows:
        way = links_crossed(topology, asked["hops"], nodes, flow.sender, flow.receiver)
        if topology.shape and not way:
            raise flow.bad(
                f"{flow.sender} and {flow.receiver} are at one node and no link is between them"
                f" ({flow.name}: {{sender: 1, receiver: 2}})"
            )
        crossed[flow.name] = paths_crossed(path, links, way)
    # Buffers in bdp are of the longest round trip among the flows, also where they share a host.
    rtts_ms = [float(flow.fields["rtt"] * 500) for flow in flows if "rtt" in flow.fields]
    longest = in_a_row(max(crossed.values(), key=round_trip_ms))
    longest = {
        way: {**longest[way], "delay_ms": max([longest[way]["delay_ms"], *rtts_ms])}
        for way in ("forward", "reverse")
    }
    found = [
        resolve_flow(asked, flow, round_trip_ms(crossed[flow.name]), longest, sent_with(flow))
        for flow in flows
    ]
    check_flows(asked, flows, found)
    return found


def resolve_flow(
    asked: RunRequest, flow: AskedFlow, rtt_ms: float, longest: Path, cc: str
) -> FlowSpec:
    """One flow: its own fields, else the run's settings; `longest`: the longest flow's way as one
    path, `cc`: what its data are sent with, unless it says so itself.
    """
    kind, fields = flow.traffic, flow.fields

    def own(field: str) -> Any:
        return fields[field] if field in fields else asked[field]

    sizes = fields.get("sizes", DEFAULT_SIZES_BYTES) if "sizes" in kind.may else ()
    return FlowSpec(
        name=flow.name,
        kind=kind.name,
        cc=(fields.get("cc") or cc) if kind.is_tcp else None,
        streams=own("streams") if kind.has_streams else 1,
        direction=flow.direction,
        start_s=fields.get("start", 0.0),
        duration_s=own("duration"),
        sender=flow.sender,
        receiver=flow.receiver,
        rtt_ms=float(fields["rtt"] * 1000) if "rtt" in fields else rtt_ms,
        buffers=resolve_buffers(own("buffers"), longest) if kind.is_tcp else "system",
        rate_bps=fields.get("rate"),
        size_bytes=fields.get("size"),
        sizes_bytes=list(sizes),
        interval_ms=fields.get("interval", kind.interval_ms),
        ecn="" if fields.get("ecn", asked["ecn"]) == asked["ecn"] else fields["ecn"],
        through_tunnel=fields.get("through") == "tunnel",
        connects_at_start=fields.get("connect") == "at-start",
        datagram_bytes=datagram_bytes(asked, flow),
        server=fields.get("server", ""),
        client=fields.get("client", ""),
    )


def datagram_bytes(asked: RunRequest, flow: AskedFlow) -> int:
    """The payload of a udp flow's datagrams: within a VPN they fill its MTU."""
    if not (flow.fields.get("through") == "tunnel" and asked.tunnel.is_vpn):
        return DATAGRAM_BYTES
    return min(DATAGRAM_BYTES, asked.tunnel.inner_mtu(asked["mtu"]) - IP_TCP_BYTES)


def check_flows(asked: RunRequest, flows: Sequence[AskedFlow], found: Sequence[FlowSpec]) -> None:
    """What flows together must not ask of one tunnel or one host. Raises BadInput."""
    node, kind = flows[0].node, asked.tunnel
    for each, flow in zip(flows, found, strict=True):
        needed = flow.streams + flow.traffic.by_iperf3  # and its control connection
        if flow.takes_tunnel and 0 < kind.most_streams < needed:
            raise each.bad(f"{kind.name} carries {kind.most_streams} connections, not {needed}")
    sent: dict[str, FlowSpec] = {}
    rtts_ms: dict[tuple[str, str], float] = {}
    buffers: dict[str, Buffers] = {}
    ecn: dict[str, str] = {}
    for each, flow in zip(flows, found, strict=True):
        if WAN in kind.legs and flow.is_tcp and flow.takes_tunnel and not kind.is_direct:
            host = wan_sender(each, asked)
            other = sent.setdefault(host, flow)
            if other.cc != flow.cc:
                raise node.bad(
                    f"{other.name} ({other.cc}) and {flow.name} ({flow.cc}) both leave {host}"
                    f" through {kind.name}, and a tunnel's connections have their host's"
                    " congestion control: one for both"
                )
        if rtts_ms.setdefault((flow.sender, flow.receiver), flow.rtt_ms) != flow.rtt_ms:
            raise node.bad(f"two flows between the same hosts with different rtt ({flow.receiver})")
        for host in (flow.sender, flow.receiver) if flow.is_tcp else ():
            if buffers.setdefault(host, flow.buffers) != flow.buffers:
                raise each.bad(
                    f"{host} has other buffers already (a host's flows share its buffers)"
                )
            if ecn.setdefault(host, flow.ecn) != flow.ecn:
                raise each.bad(f"{host} has another ecn already (a host's flows share it)")
