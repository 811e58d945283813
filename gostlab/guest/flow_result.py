"""Define the results of flows: rows of flows.json, which traffic plugins make of their reports."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass, fields, replace
from pathlib import Path
from typing import NotRequired, TypedDict, cast

from gostlab.results.metrics import jain_index
from gostlab.results.rows import FlowRow, RoundTripsRow, WholeFlow
from gostlab.tcpmodel.mean_median import median

PING_BYTES = 64  # size of a ping flow's requests and replies
NO_OUTPUT = "it said nothing"
# Maximum size of a file that a user's command writes: its output goes to the run's folder.
MAX_FILE_MIB = 256
SERVER = "server"  # counted_by: iperf3's receiver, if its client had no results from it


class TrafficError(Exception):
    """A flow that failed; the message is the output of the program that carried it."""


@dataclass(frozen=True)
class FlowInterval:
    """The counts of a flow in a part of the load."""

    bytes: int
    retransmits: int | None = None
    lost_datagrams: int | None = None
    sent_datagrams: int | None = None


class FetchTimes(TypedDict):
    """The downloads of one size of a short flow, and how long they took."""

    size_bytes: int
    count: int
    median_s: float
    p95_s: float
    max_s: float


class Transfer(TypedDict):
    """A transfer of a number of bytes."""

    size_bytes: int  # requested
    completion_s: float | None  # from before the connection to the last byte; None: unfinished


class OnOff(TypedDict):
    """The bursts of an on-off source."""

    bursts: int
    on_s: float  # length of all bursts together
    max_late_s: float  # most that a burst's first write came after it was due
    on_bps: float  # goodput of the time in bursts


class StreamShares(TypedDict):
    """Represent what each stream of a bulk flow received."""

    streams: int
    connected_s: float  # time that it took to make all connections
    ended_early: int  # connections that ended before their time
    min_bps: float
    median_bps: float
    max_bps: float
    jain: float  # Jain's fairness index of their bytes
    socket_bytes: NotRequired[int]  # received, by the kernel's count


def stream_shares(
    rates_bps: Sequence[float], *, connected_s: float, ended_early: int
) -> StreamShares:
    """Return what streams of some goodputs got."""
    return StreamShares(
        streams=len(rates_bps),
        connected_s=round(connected_s, 6),
        ended_early=ended_early,
        min_bps=round(min(rates_bps), 3),
        median_bps=round(median(rates_bps), 3),
        max_bps=round(max(rates_bps), 3),
        jain=round(jain_index(rates_bps), 6) if any(rates_bps) else 0.0,
    )


class Playback(TypedDict):
    """The playback of a video."""

    segments: int
    startup_s: float  # from the start of the flow to the first segment's last byte
    stalls: int
    stalled_s: float
    mean_bitrate_bps: float | None  # mean of the segments' rungs
    switches: int  # changes of the rung between two segments


# Keys of flows.json that are not the names of a FlowResult's fields.
JSON_KEYS = {"traffic_type": "kind", "whole_flow": "whole"}


@dataclass(frozen=True)
class FlowResult:
    """The result of one flow: a row of flows.json.

    Times are seconds from the start of the load. Fields with a default exist for some types of
    traffic only.
    """

    name: str
    traffic_type: str
    started_s: float
    ended_s: float
    goodput_bps: float  # payload that the receiver got
    bytes: int
    seconds: float  # time over which the goodput is averaged
    retransmits: int | None  # iperf3's Retr: segments that its own sockets retransmitted
    lost_datagrams: int | None  # udp
    sent_datagrams: int | None  # datagrams of which lost_datagrams were lost
    offered_bps: float | None = None  # udp, tcp at a rate: rate of the payload that was sent
    round_trips: RoundTripsRow | None = None  # ping
    fetches: Sequence[FetchTimes] | None = None  # short, by size
    transfer: Transfer | None = None
    on_off: OnOff | None = None
    playback: Playback | None = None  # video
    by_stream: StreamShares | None = None  # bulk
    # Time of the first and the last byte sent by the sender's socket; None: no sample shows it.
    data_began_s: float | None = None
    data_ended_s: float | None = None
    # Part of the load that rate and counts are of; None: all of the flow's time.
    measured_from_s: float | None = None
    measured_to_s: float | None = None
    whole_flow: WholeFlow | None = None
    # tcp, onoff at a rate: share of its samples in which the application limited it (tcp_info's
    # tcpi_delivery_rate_app_limited); None: no sample shows it.
    app_limited_share: float | None = None
    counted_by: str | None = None  # tcp: server; command: sockets, or links (of the hosts)

    def over_interval(self, from_s: float, to_s: float, part: FlowInterval) -> FlowResult:
        """Return the result of a part of the load; zero where the flow did not run then."""
        seconds = max(0.0, round(to_s - from_s, 6))
        return replace(
            self,
            goodput_bps=8 * part.bytes / seconds if seconds else 0.0,
            seconds=seconds,
            measured_from_s=from_s,
            measured_to_s=max(from_s, round(to_s, 6)),
            whole_flow=WholeFlow(
                bytes=self.bytes,
                retransmits=self.retransmits,
                lost_datagrams=self.lost_datagrams,
                sent_datagrams=self.sent_datagrams,
                goodput_bps=self.goodput_bps,
                seconds=self.seconds,
            ),
            bytes=part.bytes,
            retransmits=part.retransmits,
            lost_datagrams=part.lost_datagrams,
            sent_datagrams=part.sent_datagrams,
        )

    def to_json(self) -> FlowRow:
        """Return the row; fields that only some types have are absent from others."""
        optional = {field_.name for field_ in fields(self) if field_.default is None}
        given = {
            JSON_KEYS.get(name, name): value
            for name, value in asdict(self).items()
            if value is not None or name not in optional
        }
        return cast("FlowRow", given)


@dataclass(frozen=True)
class FlowRun:
    """The time that a flow ran, and its report: the arguments of a plugin's read()."""

    name: str
    traffic_type: str
    started_s: float
    ended_s: float
    window_s: tuple[float, float] = (0.0, math.inf)  # measured part of the load
    report: Path = Path()  # the client's report

    def is_measured(self, at_s: float) -> bool:
        """Return whether an instant, counted from the flow's start, is in the measured part."""
        return self.window_s[0] <= self.started_s + at_s < self.window_s[1]

    def share_measured(self, at_s: float, seconds: float) -> float:
        """Return the share of a time, counted from the flow's start, in the measured part."""
        return share_inside(self.started_s + at_s, seconds, *self.window_s)

    def result(
        self, *, goodput_bps: float, size_bytes: int, seconds: float, retransmits: int | None = None
    ) -> FlowResult:
        """Return the flow's result from what every type of traffic reports."""
        return FlowResult(
            name=self.name,
            traffic_type=self.traffic_type,
            started_s=self.started_s,
            ended_s=self.ended_s,
            goodput_bps=goodput_bps,
            bytes=size_bytes,
            seconds=seconds,
            retransmits=retransmits,
            lost_datagrams=None,
            sent_datagrams=None,
        )

    def over_whole_time(self, size_bytes: int) -> FlowResult:
        """Return the result over all the flow's time, if its program reports no rate."""
        took_s = self.ended_s - self.started_s
        return self.result(
            goodput_bps=8 * size_bytes / took_s, size_bytes=size_bytes, seconds=round(took_s, 6)
        )


def share_inside(at_s: float, seconds: float, from_s: float, to_s: float) -> float:
    """Return the share (0 to 1) of `seconds` from an instant on that lies in a window."""
    if seconds <= 0:
        return float(from_s <= at_s < to_s)
    return max(0.0, min(at_s + seconds, to_s) - max(at_s, from_s)) / seconds


def server_report(report: Path) -> Path:
    """Return the path of the server's report, from that of an iperf3 client."""
    return report.with_stem(f"{report.stem}-server")


def percentile(values: Sequence[float], share: float) -> float:
    """Return the smallest value that at most 1 - share of all exceed (nearest rank)."""
    return sorted(values)[max(0, math.ceil(share * len(values)) - 1)]
