"""A run's flows: who sends what to whom, from when to when, with which congestion control.

A run without `flows` has one, called flow1: the load of a tunnel matrix.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from gostlab.registry.topologies import Topology
from gostlab.registry.traffic import TrafficKind, traffic_kind
from gostlab.spec.link_paths import nodes_named
from gostlab.spec.versioned_json import later

# A udp flow's datagrams fill the MTU like a TCP segment with timestamps.
DATAGRAM_BYTES = 1448


@dataclass(frozen=True)
class FlowSpec:
    """One flow, from `sender` to `receiver`; a download's data come from the receiver."""

    name: str
    kind: str  # tcp | udp | http | short | ping | command
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
    interval_ms: float = later(0.0)  # ping, short: how far its requests are apart
    through_tunnel: bool = later(False)  # udp: through the run's tunnel, not beside it
    connects_at_start: bool = later(False)  # tcp: else before the load, where a run has several
    datagram_bytes: int = later(DATAGRAM_BYTES)  # udp: payload of each
    server: str = later("")  # command: what its two ends run
    client: str = later("")
    ecn: str = later("")  # whether its hosts ask for ECN: off | on | l4s; "": as the run's do

    @property
    def traffic(self) -> TrafficKind:
        return traffic_kind(self.kind)

    @property
    def is_tcp(self) -> bool:
        """Whether a congestion control sends its data."""
        return self.traffic.is_tcp

    @property
    def takes_tunnel(self) -> bool:
        """Whether it goes through the run's tunnel: background traffic takes the path alone."""
        return self.traffic.takes_tunnel or self.through_tunnel

    @property
    def end_s(self) -> float:
        """When it is over, from the start of the load."""
        return self.start_s + self.duration_s

    @property
    def data_way(self) -> str:
        """The direction of the path that carries its data."""
        return "forward" if self.direction == "upload" else "reverse"

    @property
    def data_sender(self) -> str:
        """The node whose congestion control is at work."""
        return self.sender if self.direction == "upload" else self.receiver


def cc_at(of_the_rest: str, by_end: Mapping[str, str], host: str, leg: str) -> str:
    """A socket's congestion control: its leg's, else its host's, else that of the rest."""
    return by_end.get(leg) or by_end.get(host) or of_the_rest


def delays_ms(flows: Sequence[FlowSpec], path: Mapping[str, Any]) -> dict[str, float]:
    """The delay in front of each host where flows have own round trips: half the least of a
    receiver's, and what is left before a sender. Raises ValueError if a sender would need two
    delays.
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
    topology: Topology, flows: Sequence[FlowSpec], sites: Mapping[str, Any] | None, hops: int = 1
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
