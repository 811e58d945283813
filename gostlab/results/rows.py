# SPDX-License-Identifier: MIT
"""Declare the rows of a run's series and legs.json, as the guest writes them (format.toml).

They are plain JSON objects, as series may have millions of rows; the types are for readers of code
and for mypy.
"""

from typing import NotRequired, TypedDict


class QueueRow(TypedDict):
    """A sample of a queue: a row of queues.jsonl."""

    t_s: float
    node: str
    dev: str
    role: str  # bottleneck | delay | sender
    direction: str | None
    link: NotRequired[str]
    sent_bytes: int
    sent_pkts: int
    drops: int
    backlog_bytes: int
    backlog_pkts: int


class HostRow(TypedDict):
    """A sample of CPU and TCP memory: a row of hosts.jsonl."""

    t_s: float
    cpu_busy_s: float
    cpu_idle_s: float
    tcp_memory_mib: float
    host_tcp_memory_mib: NotRequired[dict[str, float]]
    host_busy_s: NotRequired[dict[str, float]]
    host_packets_s: NotRequired[dict[str, float]]


class BbrState(TypedDict):
    """BBR's model, of a row of sockets.jsonl."""

    bw_bps: int
    min_rtt_ms: float
    pacing_gain: float
    cwnd_gain: float


class SocketRow(TypedDict):
    """A sample of a socket: a row of sockets.jsonl. Counters are since the connection began."""

    t_s: float
    host: NotRequired[str]
    flow: NotRequired[str | None]
    leg: NotRequired[str]  # app | wan | exit | inner
    end: NotRequired[str]  # near | far
    local: NotRequired[str]
    peer: NotRequired[str]
    srtt_ms: NotRequired[float | None]
    cwnd_pkts: NotRequired[int]
    ssthresh_pkts: NotRequired[int | None]  # None: infinite
    mss: NotRequired[int]
    delivered_pkts: NotRequired[int]
    bytes_acked: NotRequired[int]
    unacked_pkts: NotRequired[int]
    segments_retransmitted: NotRequired[int]
    bbr: NotRequired[BbrState | None]


class RoundTripsRow(TypedDict):
    """The round trips of a ping flow."""

    over: str  # udp | tcp
    program: str
    sent: int
    lost: int
    min_ms: float
    mean_ms: float
    median_ms: float
    p95_ms: float
    p99_ms: float
    max_ms: float


class WholeFlow(TypedDict):
    """The counts of a flow over all of its time, if only a part is measured."""

    goodput_bps: float
    seconds: float
    bytes: int
    retransmits: int | None
    lost_datagrams: int | None
    sent_datagrams: int | None


class FlowRow(TypedDict):
    """The result of a flow: an entry of flows.json, of any type of traffic."""

    name: str
    kind: str
    started_s: float
    ended_s: float
    goodput_bps: float
    bytes: int
    seconds: float
    retransmits: int | None
    measured_from_s: NotRequired[float]
    measured_to_s: NotRequired[float]
    counted_by: NotRequired[str]
    lost_datagrams: NotRequired[int | None]
    sent_datagrams: NotRequired[int | None]
    round_trips: NotRequired[RoundTripsRow]
    whole: NotRequired[WholeFlow]


class LegRow(TypedDict):
    """The senders of a tunnel's leg: an entry of legs.json. It has their counters, too."""

    leg: str
    flow: str
    sender: str
    loopback: bool
    cc: list[str]
    receiver: str
    receiver_cc: list[str]
    segments_out: NotRequired[int]
    segments_retransmitted: NotRequired[int]
    bytes_acked: NotRequired[int]


class LegsFile(TypedDict):
    """The contents of legs.json."""

    legs: list[LegRow]
    nstat: dict[str, dict[str, int]]  # counters of `nstat` by host
    closed_sockets_missed: bool
