# SPDX-License-Identifier: MIT
"""Represent a run's flows: sender, receiver, traffic, times and congestion control.

A run without `flows` has one flow, flow1: the load of a tunnel matrix.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field

from gostlab.registry.topologies import Topology
from gostlab.registry.traffic import TrafficKind, traffic_kind
from gostlab.spec.compatible_json import added_later
from gostlab.spec.links_crossed import nodes_named
from gostlab.spec.path_spec import PathSpec, direction_of_data
from gostlab.tcpmodel.socket_buffers import Buffers

# A udp flow's datagrams fill the MTU like a TCP segment with timestamps.
DATAGRAM_BYTES = 1448


@dataclass(frozen=True)
class FlowSpec:
    """Represent a flow from `sender` to `receiver`; a download's data come from the receiver."""

    name: str
    traffic_type: str = field(metadata={"json_key": "kind"})  # tcp, udp, …
    cc: str | None  # None for udp and ping, which have no congestion control.
    streams: int
    direction: str  # upload | download
    start_s: float  # The start after the load's start.
    duration_s: float  # The duration; for http, its maximum.
    sender: str  # The sender and the receiver are node names.
    receiver: str
    rtt_ms: float  # The idle round trip of this flow.
    buffers: Buffers
    rate_bps: int | None = None  # The sending rate of a udp flow; tcp: its application's rate.
    size_bytes: int | None = None  # The size of an http flow's download, or of a transfer.
    sizes_bytes: list[int] = added_later([])  # The download sizes of a short flow, in turn.
    interval_ms: float = added_later(0.0)  # The interval between requests of ping and short flows.
    through_tunnel: bool = added_later(False)  # Whether a udp flow goes through the run's tunnel.
    # Whether a tcp flow connects at its start; otherwise before the load, if the run has several
    # flows.
    connects_at_start: bool = added_later(False)
    datagram_bytes: int = added_later(DATAGRAM_BYTES)  # The payload of a udp flow's datagrams.
    server: str = added_later("")  # The programs of a command flow's two ends.
    client: str = added_later("")
    # The digests of what the commands run: programs by their words, and the flow's files by their
    # names (spec.command_files).
    programs: Mapping[str, str] = added_later({})
    files: Mapping[str, str] = added_later({})
    # Whether the flow's hosts negotiate ECN: off | on | l4s; "" means the run's setting.
    ecn: str = added_later("")
    # The times that an onoff flow sends and pauses.
    on_s: float = added_later(0.0)
    off_s: float = added_later(0.0)
    # A video flow's bit rates in rising order, the length of its segments, and its player's buffer.
    ladder_bps: list[int] = added_later([])
    segment_s: float = added_later(0.0)
    playback_buffer_s: float = added_later(0.0)

    @property
    def traffic(self) -> TrafficKind:
        return traffic_kind(self.traffic_type)

    @property
    def is_tcp(self) -> bool:
        """Return whether a congestion control sends the flow's data."""
        return self.traffic.is_tcp

    @property
    def pauses(self) -> bool:
        """Return whether the flow's application, not TCP alone, decides when data are sent."""
        return self.traffic.pauses or (self.is_tcp and self.rate_bps is not None)

    @property
    def takes_tunnel(self) -> bool:
        """Return whether the flow goes through the run's tunnel; background traffic bypasses it."""
        return self.traffic.takes_tunnel or self.through_tunnel

    @property
    def end_s(self) -> float:
        """Return the end of the flow, after the load's start."""
        return self.start_s + self.duration_s

    @property
    def data_direction(self) -> str:
        """Return the direction of the path that carries the flow's data."""
        return direction_of_data(self.direction)

    @property
    def data_sender(self) -> str:
        """Return the node whose congestion control sends the data."""
        return self.sender if self.direction == "upload" else self.receiver


def cc_at(of_the_rest: str, by_end: Mapping[str, str], host: str, leg: str) -> str:
    """Return a socket's congestion control: its leg's, else its host's, else the default."""
    return by_end.get(leg) or by_end.get(host) or of_the_rest


def delays_before_hosts_ms(flows: Sequence[FlowSpec], path: PathSpec) -> dict[str, float]:
    """Return the delay in front of each host if flows have their own round trips.

    A receiver's delay is its share of its shortest round trip; the rest is in front of the sender.
    Raises ValueError if a sender would need two delays.
    """
    host_delays: dict[str, float] = {}
    share = path.forward.delay_ms / path.rtt_ms if path.rtt_ms else 0.5
    for flow in flows:
        host_delays[flow.receiver] = min(
            host_delays.get(flow.receiver, flow.rtt_ms * share), flow.rtt_ms * share
        )
    for flow in flows:
        rest = flow.rtt_ms - host_delays[flow.receiver]
        if abs(host_delays.setdefault(flow.sender, rest) - rest) > 1e-9:
            raise ValueError(
                f"{flow.sender}: its flows' rtt would need two different delays in front of it"
            )
    return host_delays


def topology_size(
    topology: Topology, flows: Sequence[FlowSpec], sites: Collection[str] | None, hops: int = 1
) -> dict[str, int]:
    """Return the numbers that a topology is built with for a run: `senders=3, receivers=2`."""

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
    return {name: counts[name]() for name in topology.size}
