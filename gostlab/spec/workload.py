# SPDX-License-Identifier: MIT
"""Compile the load of a run in two steps: hosts first, numbers second.

The topology decides who sends to whom. Once the congestion controls and the paths between the hosts
are known, each flow gets all of its numbers.
"""

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, cast

from gostlab.registry.file_copies import provide_copy
from gostlab.registry.topologies import Topology
from gostlab.registry.traffic import (
    BOTH_WAYS,
    DOWNLOAD,
    EITHER,
    TrafficKind,
    kind_of_fields,
    traffic_kind,
    traffic_kinds,
)
from gostlab.registry.tunnels import IP_TCP_BYTES, WAN, tunnel_kinds
from gostlab.spec.command_files import program_digests
from gostlab.spec.flow import DATAGRAM_BYTES, FlowSpec
from gostlab.spec.links_crossed import links_crossed, nodes_named, paths_crossed
from gostlab.spec.path_spec import PathSpec, combine_in_series, round_trip_ms
from gostlab.spec.run_request import RunRequest, topologies_with
from gostlab.spec.settings import NO_FLOW_NAMES, FlowFields
from gostlab.spec.units import show_time
from gostlab.spec.value_types import BOTH
from gostlab.spec.yaml_source import BadInput, Node, suggest_name
from gostlab.tcpmodel.socket_buffers import Buffers, resolve_buffers

# A video flow's rungs, segments and buffer; the rungs of Mao, Netravali, Alizadeh, SIGCOMM 2017.
DEFAULT_LADDER_BPS = (300_000, 750_000, 1_200_000, 1_850_000, 2_850_000, 4_300_000)
DEFAULT_SEGMENT_S, DEFAULT_PLAYBACK_BUFFER_S = 2.0, 20.0
DEFAULT_SIZES_BYTES = (10_000, 100_000, 1_000_000, 10_000_000)
# The fields that a flow may have only in topologies with several hosts or round trips.
TOPOLOGY_FIELDS: Mapping[str, Callable[[Topology], bool]] = {
    "sender": lambda topology: topology.numbers_hosts,
    "receiver": lambda topology: topology.numbers_hosts,
    "rtt": lambda topology: topology.own_rtts,
}


@dataclass(frozen=True)
class RequestedFlow:
    """Represent a flow as requested, and the hosts that it runs between."""

    name: str
    fields: FlowFields
    node: Node  # The node of the flows in the file.
    traffic: TrafficKind
    direction: str  # upload | download; before by_direction also both
    sender: str
    receiver: str

    @property
    def takes_tunnel(self) -> bool:
        return self.traffic.takes_tunnel or self.fields.get("through") == "tunnel"

    def bad(self, problem: str) -> BadInput:
        return self.node.bad(f"{self.name}: {problem}")


# -- who sends to whom


def resolve_hosts(request: RunRequest) -> list[RequestedFlow]:
    """Return the flows of a run with their hosts, in order. Raises BadInput if they do not fit."""
    check_topology(request)
    given: dict[str, FlowFields] = {"flow1": {}}
    if "flows" in request.written:
        given = {name: fields.copy() for name, fields in request.written["flows"].value.items()}
    for name, setting in request.written.items():
        owner, dot, field = name.partition(".")
        if dot and owner not in NO_FLOW_NAMES:
            if owner not in given:
                raise setting.node.bad(f"no flow is called {owner} ({suggest_name(owner, given)})")
            given[owner] = cast(FlowFields, {**given[owner], field: setting.value})
    node = request.node("flows" if "flows" in request.written else "topology")
    site = host_of_profile_site(request)
    flows_ = []
    for index, (name, fields) in enumerate(given.items(), 1):
        traffic = traffic_kind(fields["kind"]) if "kind" in fields else kind_of_fields(fields)
        direction = fields.get("direction", request["direction"])
        if traffic.direction == DOWNLOAD and not traffic.until_done:
            direction = fields.get("direction", DOWNLOAD)
        flow = RequestedFlow(name, fields, node, traffic, direction, request.topology.sender, site)
        check_fields(flow, request.topology)
        flow = flow if site else between_hosts(flow, index, request.topology)
        flows_ += split_directions(flow)
    check_names(flows_)
    for flow in flows_:
        if flow.fields.get("through") == "tunnel" and "udp" not in request.tunnel.carries:
            raise flow.bad(f"through: tunnel: {request.tunnel.name} carries no datagrams")
    if not request.tunnel.is_direct and not any(flow.takes_tunnel for flow in flows_):
        raise node.bad(
            f"{request.tunnel.name}: no flow goes through it (a udp flow does with through: tunnel)"
        )
    return flows_


def split_directions(flow: RequestedFlow) -> list[RequestedFlow]:
    """Return a flow, or its two halves if its data go in both directions."""
    if flow.direction != BOTH:
        return [flow]
    if flow.traffic.direction != EITHER:  # requests and answers are one flow
        return [replace(flow, direction="upload")]
    return [
        replace(flow, name=f"{flow.name}-{suffix}", direction=direction)
        for suffix, direction in (("up", "upload"), ("down", "download"))
    ]


def check_names(flows: Sequence[RequestedFlow]) -> None:
    """Reject a flow that has the name of another one's half. Raises BadInput."""
    names = [flow.name for flow in flows]
    for flow in flows:
        if names.count(flow.name) > 1:
            raise flow.bad("two flows are called so (direction: both makes NAME-up and NAME-down)")


def check_topology(request: RunRequest) -> None:
    """Reject a tunnel or hops that the topology does not support. Raises BadInput."""
    topology, tunnel, hops = request.topology, request.tunnel, request["hops"]
    if not tunnel.is_direct and not topology.tunnel_near:
        supporting = topologies_with(lambda other: other.tunnel_near)
        raise request.node("tunnel").bad(
            f"{request['tunnel']}: tunnels run in topology {supporting}, not in {topology.name}"
        )
    if not tunnel.is_direct and request["placement"] == "gateway" and not topology.tunnel_gateway:
        raise request.node("placement").bad_value(
            f"topology {topology.name} has no gateway: a tunnel ends on its flow's own hosts"
        )
    if hops > topology.most_hops:
        supporting = topologies_with(lambda other: other.most_hops > 1)
        raise request.node("hops").bad_value(
            f"paths lie one behind the other in topology {supporting}, not in {topology.name}"
        )
    over_the_first = tunnel.is_vpn and request["placement"] == "gateway"
    if hops > 1 and not (tunnel.is_direct or tunnel.chain or over_the_first):
        chains = dict.fromkeys(other.name for other in tunnel_kinds().values() if other.chain)
        raise request.node("tunnel").bad(
            f"hops: {hops}: {tunnel.name} carries packets over the first path (placement: gateway),"
            f" and a chain is made of tunnels that end connections ({', '.join(chains)})"
        )


def host_of_profile_site(request: RunRequest) -> str:
    """Return the host of the site whose path is the run's; "" without sites. Raises BadInput."""
    topology, sites = request.topology, request.written.get("sites")
    if not topology.path_per_site:
        if sites is not None:
            supporting = topologies_with(lambda other: other.path_per_site)
            raise sites.node.bad(f"sites belong to topology {supporting}, not to {topology.name}")
        return ""
    if sites is None:
        raise request.node("topology").bad(
            f"a {topology.name} needs sites (a list of profiles, one of them the run's own)"
        )
    if request["profile"] not in sites.value:
        raise request.node("profile").bad_value(f"not one of the {topology.name}'s sites")
    return topology.receiver.format(1 + sites.value.index(request["profile"]))


def check_fields(flow: RequestedFlow, topology: Topology) -> None:
    """Reject fields that the flow's traffic or its topology does not support. Raises BadInput."""
    traffic, fields = flow.traffic, flow.fields
    a_flow = f"{'an' if traffic.name.startswith('o') else 'a'} {traffic.name} flow"
    specific = {field for other in traffic_kinds().values() for field in (*other.must, *other.may)}
    for field in sorted(specific - {*traffic.must, *traffic.may}):
        if field in fields:
            raise flow.bad(f"{a_flow} has no {field}")
    for field in traffic.must:
        if field not in fields:
            raise flow.bad(f"{a_flow} needs {field}")
    if not traffic.is_tcp and {"cc", "buffers", "ecn"} & set(fields):
        raise flow.bad(f"{a_flow} has no congestion control, TCP buffers or ECN")
    if not traffic.has_streams and "streams" in fields:
        raise flow.bad(f"{a_flow} has no streams: it does one thing at a time")
    if traffic.is_counted and flow.direction == BOTH:
        raise flow.bad(
            f"direction: both is of programs that the lab starts twice; a {traffic.name} flow says"
            " whose data count (upload or download)"
        )
    if traffic.direction == BOTH_WAYS and "direction" in fields:
        raise flow.bad(f"a {traffic.name} flow has no direction: it goes there and back")
    for field, fits in TOPOLOGY_FIELDS.items():
        if field in fields and not fits(topology):
            raise flow.bad(
                f"{field} belongs to topology {topologies_with(fits)}; in {topology.name} every"
                " flow takes the one path"
            )
    if traffic.direction == DOWNLOAD and flow.direction != DOWNLOAD:
        raise flow.bad(f"a flow of kind {traffic.name} is a download (direction: download)")


def between_hosts(flow: RequestedFlow, index: int, topology: Topology) -> RequestedFlow:
    """Return a flow with its hosts' names, numbered like the flow by default. Raises BadInput."""
    hosts: list[str] = []
    for pattern, written in (
        (topology.sender, flow.fields.get("sender")),
        (topology.receiver, flow.fields.get("receiver")),
    ):
        default = index
        if topology.shape and hosts:  # The default receiver is at the next node.
            default = int(hosts[0].removeprefix(topology.sender.partition("{}")[0])) + 1
        host_number = default if written is None else written
        if "{}" in pattern and host_number > topology.most_hosts:
            raise flow.bad(
                f"there is no {pattern.format(host_number)} in topology {topology.name}"
                f" ({pattern.format(topology.most_hosts)} is the last)"
            )
        hosts.append(pattern.format(host_number))
    return replace(flow, sender=hosts[0], receiver=hosts[1])


# -- derived from the hosts alone


def flow_endpoints(flows: Sequence[RequestedFlow]) -> list[str]:
    """Return the hosts that flows run between, one entry per flow and end."""
    return [host for flow in flows for host in (flow.sender, flow.receiver)]


def hosts_of_run(request: RunRequest, flows: Sequence[RequestedFlow]) -> tuple[str, ...]:
    """Return a run's machines, which are the ends of flows and tunnel, without forwarding nodes."""
    return tuple(dict.fromkeys([*flow_endpoints(flows), *tunnel_hosts(request, flows)]))


def tunnel_hosts(request: RunRequest, flows: Sequence[RequestedFlow]) -> tuple[str, ...]:
    """Return the hosts that some flows' tunnels end on, in path order; () without a tunnel."""
    if request.tunnel.is_direct:
        return ()
    hops = request.tunnel.ends_over(request["hops"])
    paths = (
        request.topology.tunnel_ends(request["placement"], hops, flow.sender, flow.receiver)
        for flow in flows
        if flow.takes_tunnel
    )
    return tuple(dict.fromkeys(host for path in paths for host in path))


def wan_sender(flow: RequestedFlow, request: RunRequest) -> str:
    """Return the host that sends a flow's data across the WAN, or a chain's first path."""
    if flow.direction == "upload":
        return flow.sender
    # The inner connection of a VPN goes from end to end.
    behind = tunnel_hosts(request, [flow])[1:] if request.tunnel.path_leg == WAN else ()
    return behind[0] if behind else flow.receiver


def link_names(request: RunRequest, flows: Sequence[RequestedFlow]) -> tuple[str, ...]:
    """Return the names of the run's links; () if there is only one path."""
    topology, hops = request.topology, request["hops"]
    nodes = nodes_named(flow_endpoints(flows)) if topology.shape else 0
    return topology.link_names(hops, nodes) if topology.shape or hops > 1 else ()


# -- the numbers of flows


def resolve_flows(
    request: RunRequest,
    flows: Sequence[RequestedFlow],
    path: PathSpec,
    links: Mapping[str, PathSpec],
    sent_with: Callable[[RequestedFlow], str],
) -> list[FlowSpec]:
    """Return the flows of a run with their numbers. Raises BadInput.

    `links` are the paths of links with their own, `sent_with` returns the congestion control with
    which a flow's data cross the path.
    """
    topology = request.topology
    nodes = nodes_named(flow_endpoints(flows)) if topology.shape else 0
    crossed: dict[str, list[PathSpec]] = {}
    for flow in flows:
        links_on_path = links_crossed(topology, request["hops"], nodes, flow.sender, flow.receiver)
        if topology.shape and not links_on_path:
            raise flow.bad(
                f"{flow.sender} and {flow.receiver} are at one node and no link is between them"
                f" ({flow.name}: {{sender: 1, receiver: 2}})"
            )
        crossed[flow.name] = paths_crossed(path, links, links_on_path)
    # Buffers in bdp refer to the longest round trip among all flows, even if flows share a host.
    rtts_ms = [float(flow.fields["rtt"] * 500) for flow in flows if "rtt" in flow.fields]
    longest = combine_in_series(max(crossed.values(), key=round_trip_ms))
    longest = PathSpec(
        *(replace(state, delay_ms=max([state.delay_ms, *rtts_ms])) for state in longest)
    )
    resolved = [
        resolve_flow(request, flow, round_trip_ms(crossed[flow.name]), longest, sent_with(flow))
        for flow in flows
    ]
    check_flows(request, flows, resolved)
    return resolved


def resolve_flow(
    request: RunRequest, flow: RequestedFlow, rtt_ms: float, longest: PathSpec, cc: str
) -> FlowSpec:
    """Return one flow from its own fields and the run's settings.

    `longest` is the longest flow's path as one, `cc` the congestion control that its data are sent
    with by default.
    """
    traffic, fields = flow.traffic, flow.fields

    def field_or_setting(field: str) -> Any:
        return dict(fields).get(field, request[field])

    sizes = fields.get("sizes", DEFAULT_SIZES_BYTES) if "sizes" in traffic.may else ()
    video = video_of(flow) if "ladder" in traffic.may else VideoPlan()
    return FlowSpec(
        name=flow.name,
        traffic_type=traffic.name,
        cc=(fields.get("cc") or cc) if traffic.is_tcp else None,
        streams=resolve_streams(request, flow),
        direction=flow.direction,
        start_s=fields.get("start", 0.0),
        duration_s=field_or_setting("duration"),
        sender=flow.sender,
        receiver=flow.receiver,
        rtt_ms=float(fields["rtt"] * 1000) if "rtt" in fields else rtt_ms,
        buffers=resolve_buffers(field_or_setting("buffers"), longest.content_bytes)
        if traffic.is_tcp
        else "system",
        rate_bps=fields.get("rate"),
        size_bytes=fields.get("bytes", fields.get("size")),
        sizes_bytes=list(sizes),
        interval_ms=fields.get("interval", traffic.interval_ms),
        ecn="" if fields.get("ecn", request["ecn"]) == request["ecn"] else fields["ecn"],
        through_tunnel=fields.get("through") == "tunnel",
        connects_at_start=fields.get("connect") == "at-start",
        datagram_bytes=datagram_bytes(request, flow),
        server=fields.get("server", ""),
        client=fields.get("client", ""),
        programs=program_digests(commands_of(flow)) if traffic.of_the_host else {},
        files=files_of(flow),
        on_s=fields.get("on", 0.0),
        off_s=fields.get("off", 0.0),
        ladder_bps=list(video.ladder_bps),
        segment_s=video.segment_s,
        playback_buffer_s=video.playback_buffer_s,
    )


def commands_of(flow: RequestedFlow) -> list[str]:
    return [flow.fields.get("server", ""), flow.fields.get("client", "")]


def files_of(flow: RequestedFlow) -> dict[str, str]:
    """Return the digests of a flow's own files, which are cached. Raises BadInput."""
    paths = []
    for node in flow.fields.get("files", ()):
        path = Path(node.text or "")
        beside = Path(node.origin).parent / path if node.line is not None else path
        paths.append(Path(os.path.abspath(beside if beside.exists() else path)))
    try:
        return provide_copy(paths) if paths else {}
    except (BadInput, OSError) as error:
        raise flow.bad(f"files: {error}") from None


def resolve_streams(request: RunRequest, flow: RequestedFlow) -> int:
    """Return the number of a flow's parallel connections. Raises BadInput."""
    traffic = flow.traffic
    if not traffic.has_streams:
        return 1
    streams = flow.fields.get("streams", request["streams"])
    if streams > traffic.max_streams:
        node = flow.node if "streams" in flow.fields else request.node("streams")
        most = max(traffic_kinds().values(), key=lambda kind: kind.max_streams)
        raise node.bad(
            f"{flow.name}: {streams} streams, and a {traffic.name} flow has {traffic.max_streams}"
            f" at most (kind: {most.name} has up to {most.max_streams})"
        )
    return streams


@dataclass(frozen=True)
class VideoPlan:
    """Represent what a video flow plays; empty for other flows."""

    ladder_bps: Sequence[int] = ()
    segment_s: float = 0.0
    playback_buffer_s: float = 0.0


def video_of(flow: RequestedFlow) -> VideoPlan:
    """Return a video flow's ladder, segments and buffer. Raises BadInput."""
    segment_s = flow.fields.get("segment", DEFAULT_SEGMENT_S)
    default_s = max(DEFAULT_PLAYBACK_BUFFER_S, 2 * segment_s)
    buffer_s = flow.fields.get("playback_buffer", default_s)
    if buffer_s < 2 * segment_s:
        raise flow.bad(
            f"playback_buffer: {show_time(buffer_s)} is less than two segments of"
            f" {show_time(segment_s)}: it would be empty while the next one comes"
        )
    return VideoPlan(flow.fields.get("ladder", DEFAULT_LADDER_BPS), segment_s, buffer_s)


def datagram_bytes(request: RunRequest, flow: RequestedFlow) -> int:
    """Return the payload of a udp flow's datagrams: at most what the tunnel carries.

    Within a VPN they fill its MTU.
    """
    tunnel = request.tunnel
    if flow.fields.get("through") != "tunnel":
        return DATAGRAM_BYTES
    if tunnel.is_vpn:
        return min(DATAGRAM_BYTES, tunnel.inner_mtu(request["mtu"]) - IP_TCP_BYTES)
    if tunnel.datagram_header_bytes:
        return min(DATAGRAM_BYTES, request["mtu"] - tunnel.datagram_header_bytes)
    return DATAGRAM_BYTES


def check_flows(
    request: RunRequest, flows: Sequence[RequestedFlow], resolved: Sequence[FlowSpec]
) -> None:
    """Reject flows that contradict each other on one tunnel or one host. Raises BadInput."""
    node, tunnel = flows[0].node, request.tunnel
    for requested, flow in zip(flows, resolved, strict=True):
        needed = flow.streams + flow.traffic.by_iperf3  # iperf3 adds a control connection.
        if flow.takes_tunnel and 0 < tunnel.most_streams < needed:
            raise requested.bad(
                f"{tunnel.name} carries {tunnel.most_streams} connections, not {needed}"
            )
    sent_by_host: dict[str, FlowSpec] = {}
    rtts_ms: dict[tuple[str, str], float] = {}
    buffers: dict[str, Buffers] = {}
    ecn: dict[str, str] = {}
    for requested, flow in zip(flows, resolved, strict=True):
        if WAN in tunnel.legs and flow.is_tcp and flow.takes_tunnel and not tunnel.is_direct:
            host = wan_sender(requested, request)
            other = sent_by_host.setdefault(host, flow)
            if other.cc != flow.cc:
                raise node.bad(
                    f"{other.name} ({other.cc}) and {flow.name} ({flow.cc}) both leave {host}"
                    f" through {tunnel.name}, and a tunnel's connections have their host's"
                    " congestion control: one for both"
                )
        if rtts_ms.setdefault((flow.sender, flow.receiver), flow.rtt_ms) != flow.rtt_ms:
            raise node.bad(f"two flows between the same hosts with different rtt ({flow.receiver})")
        for host in (flow.sender, flow.receiver) if flow.is_tcp else ():
            if buffers.setdefault(host, flow.buffers) != flow.buffers:
                raise requested.bad(
                    f"{host} has other buffers already (a host's flows share its buffers)"
                )
            if ecn.setdefault(host, flow.ecn) != flow.ecn:
                raise requested.bad(f"{host} has another ecn already (a host's flows share it)")
