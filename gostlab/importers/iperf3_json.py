# SPDX-License-Identifier: MIT
"""Parse iperf3's JSON (`iperf3 -J`, `--json-stream`) of versions 3.1 to 3.20, of client or server.

Its `streams` are read, not its sums: 3.7 to 3.10 write the key `sum` twice for --bidir.
"""

import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from gostlab.importers.base import (
    LIMITED_SHARE,
    SLOW_START_S,
    DirectionRecording,
    Evidence,
    PathRecording,
    UnreadableRecording,
    json_format,
    parse_json,
    rate_evidence,
    weighted_midmean,
    wire_bps,
)
from gostlab.spec import units
from gostlab.spec.profile import share_text

# Ethernet, IP and UDP headers of a datagram, and what a fragment of it carries.
UDP_HEADER_BYTES, FRAGMENT_HEADER_BYTES, FRAGMENT_BYTES = 8, 14 + 20, 1480
IPV6_EXTRA_BYTES = 20
# Keys of which iperf3 3.7 to 3.10 write one for each direction.
DOUBLED = ("sum", "sum_sent", "sum_received")


class BothDirections(list[Any]):
    """The values of a key that is there once for each direction."""


def merge_repeated(name: str, first: Any, second: Any) -> Any:
    """Return both of the sums of --bidir; of settings, the last (3.9 to 3.18 repeat some)."""
    if name not in DOUBLED:
        return second
    return BothDirections([*(first if isinstance(first, BothDirections) else [first]), second])


@dataclass(frozen=True)
class IperfInterval:
    """Represent the bytes of one direction's streams in one interval."""

    begin_s: float  # since the begin of the flow, before -O's omitted part
    seconds: float
    omitted: bool
    payload_bytes: float
    retransmits: int
    lost: int
    datagrams: int
    jitter_ms: float | None
    rtts_us: tuple[float, ...]


@dataclass(frozen=True)
class IperfReport:
    """One report: who wrote it, and the intervals of each direction."""

    document: dict[str, Any]
    is_client: bool
    reverse: bool
    intervals: dict[str, list[IperfInterval]]

    def is_sender(self, direction: str) -> bool:
        return self.is_client == (direction == "forward")

    @property
    def longest(self) -> list[IperfInterval]:
        """Return the intervals of the direction that has most of them."""
        return max(self.intervals.values(), key=len)

    @property
    def test(self) -> dict[str, Any]:
        return dict(self.document["start"]["test_start"])


def parse_report(text: str) -> Any:
    """Return a report as `-J` writes it, also from the lines of `--json-stream`."""
    first = text.lstrip().split("\n", 1)[0]
    try:
        is_stream = "event" in json.loads(first)
    except (ValueError, TypeError, RecursionError):
        is_stream = False
    if not is_stream:
        return parse_json(text, merge_repeated)
    document: dict[str, Any] = {"intervals": []}
    lines = [line for line in text.splitlines() if line.strip()]
    for number, line in enumerate(lines, 1):
        try:
            event = parse_json(line, merge_repeated)
            name, data = event["event"], event["data"]
        except (UnreadableRecording, ValueError, LookupError, TypeError):
            if number == len(lines):  # iperf3 was killed while it wrote
                break
            raise UnreadableRecording(f"line {number} is no event of --json-stream") from None
        if name == "start" and "start" in document:
            raise UnreadableRecording(
                f"a second report begins in line {number}: keep one in the file"
            )
        if name == "interval":
            document["intervals"].append(data)
        else:
            document[name] = data
    return document


def read(document: Any) -> PathRecording:
    """Return the rate of each direction, the idle RTT, and UDP's loss and jitter."""
    if document.get("error") and not document.get("intervals"):
        raise UnreadableRecording(f"iperf3 failed: {document['error']}")
    report = to_report(document)
    protocol = str(report.test.get("protocol", "TCP")).upper()
    if protocol not in ("TCP", "UDP"):
        raise UnreadableRecording(
            f"a test of {protocol}: only TCP and UDP are read (leave its option out)"
        )
    directions, evidence, left_out = {}, list[Evidence](), list[str]()
    for direction, intervals in report.intervals.items():
        read_direction = read_tcp if protocol == "TCP" else read_udp
        directions[direction] = DirectionRecording()
        if protocol == "UDP" and report.is_sender(direction) and not report.is_client:
            # The server writes 0 lost: nobody told it.
            left_out += [f"{direction}'s rate and loss (in the client's report)"] * bool(intervals)
        elif intervals:
            directions[direction], streams_found = read_direction(report, direction, intervals)
            evidence += streams_found
    if not evidence and left_out:
        raise UnreadableRecording(
            "a UDP test's server does not know what of its data arrived: import the client's report"
        )
    if not evidence:
        raise UnreadableRecording("no interval in it, or none with data")
    rtts_us = [rtt for some in report.intervals.values() for one in some for rtt in one.rtts_us]
    if rtts_us:
        field = "intervals[].streams[].rtt"
        value = f"RTT {units.show_time(min(rtts_us) / 1e6)}"
        evidence.append(Evidence(value, field, "round trip", "minimum of the loaded socket's"))
    every = [one for some in report.intervals.values() for one in some]
    if omitted := sum(one.seconds for one in report.longest if one.omitted):
        left_out.append(f"{omitted:.3g} s omitted by -O")
    elif protocol == "TCP" and len(intervals_after_start(report.longest)) < len(report.longest):
        left_out.append(f"the first {SLOW_START_S:g} s (slow start)")
    if document.get("error") or "end" not in document:
        left_out.append("the end (iperf3 was interrupted)")
    retransmitted = sum(one.retransmits for one in every)
    if retransmitted:
        left_out.append(f"{retransmitted} retransmitted segments")
    return PathRecording(
        length_s=sum(one.seconds for one in report.longest if not one.omitted),
        forward=directions["forward"],
        reverse=directions["reverse"],
        rtt_ms=min(rtts_us) / 1000 if rtts_us else None,
        evidence=tuple(evidence),
        left_out=tuple(left_out),
        assumptions=assumptions(protocol, has_rtt=bool(rtts_us), retransmitted=retransmitted),
    )


def assumptions(protocol: str, *, has_rtt: bool, retransmitted: int) -> tuple[str, ...]:
    """Return what a test's rate, RTT and loss may differ from."""
    sentences = []
    if protocol == "TCP":
        sentences.append(
            "The rate is what one TCP test got, the mean of the middle half of its intervals: the"
            " path's own may be higher, if something else held that test back."
        )
    if has_rtt:
        sentences.append(
            "The least smoothed round trip of the loaded socket stands for the idle path's: a queue"
            " that never emptied is in it."
        )
    if retransmitted:
        sentences.append(
            f"No loss, though {retransmitted} segments were retransmitted: the recording does not"
            " say whether a full queue or the line lost them (write the line's into loss)."
        )
    return tuple(sentences)


def to_report(document: Any) -> IperfReport:
    """Return the intervals of each direction. Raises what a missing key raises."""
    start = document["start"]
    is_client = "accepted_connection" not in start
    reverse = bool(start["test_start"].get("reverse"))
    intervals: dict[str, list[IperfInterval]] = {"forward": [], "reverse": []}
    begin_s = 0.0
    for interval in document["intervals"]:
        streams = interval["streams"]
        if not streams or "bytes" not in streams[0]:
            rtts_us = [stream["rtt"] for stream in streams if stream.get("rtt")]
            streams = [interval["sum"] | ({"rtt": min(rtts_us)} if rtts_us else {})]
        by_direction: dict[str, list[Any]] = {}
        for stream in streams:
            # Before 3.7 a stream does not name its sender, and there is one direction.
            sends = stream.get("sender", is_client != reverse)
            by_direction.setdefault("forward" if sends == is_client else "reverse", []).append(
                stream
            )
        for direction, some in by_direction.items():
            intervals[direction].append(to_interval(some, begin_s))
        begin_s += seconds_of(streams[0])
    return IperfReport(document, is_client, reverse, intervals)


def to_interval(streams: Sequence[Any], begin_s: float) -> IperfInterval:
    """Return the sum of the streams of one direction in an interval."""
    jitters_ms = [float(stream["jitter_ms"]) for stream in streams if "jitter_ms" in stream]
    return IperfInterval(
        begin_s,
        seconds=seconds_of(streams[0]),
        omitted=bool(streams[0].get("omitted")),
        payload_bytes=sum(map(bytes_of, streams)),
        retransmits=sum(int(stream.get("retransmits", 0)) for stream in streams),
        lost=sum(int(stream.get("lost_packets", 0)) for stream in streams),
        datagrams=sum(int(stream.get("packets", 0)) for stream in streams),
        jitter_ms=sum(jitters_ms) / len(jitters_ms) if jitters_ms else None,
        rtts_us=tuple(float(stream["rtt"]) for stream in streams if stream.get("rtt")),
    )


def seconds_of(stream: Any) -> float:
    return float(stream["seconds"] if "seconds" in stream else stream["end"] - stream["start"])


def bytes_of(stream: Any) -> float:
    if "bytes" in stream:
        return float(stream["bytes"])
    return float(stream["bits_per_second"]) * seconds_of(stream) / 8


def intervals_after_start(intervals: Sequence[IperfInterval]) -> list[IperfInterval]:
    """Return the intervals after -O's omitted part, or else after slow start."""
    complete = [one for one in intervals if one.seconds > 0 and not one.omitted]
    return [one for one in complete if one.begin_s >= SLOW_START_S * 0.95] or complete


def rate_of(intervals: Sequence[IperfInterval]) -> float:
    """Return the mean payload rate of the middle half of the time, in bit/s.

    A sender's intervals differ by whole blocks, of which a slow path carries few.
    """
    return weighted_midmean(
        [8 * one.payload_bytes / one.seconds for one in intervals],
        [one.seconds for one in intervals],
    )


def end_of(report: IperfReport, direction: str) -> str:
    end = "client" if report.is_client else "server"
    return f"sent by the {end}" if report.is_sender(direction) else f"received by the {end}"


def read_tcp(
    report: IperfReport, direction: str, intervals: Sequence[IperfInterval]
) -> tuple[DirectionRecording, list[Evidence]]:
    """Return the rate of a TCP test in one direction."""
    some = intervals_after_start(intervals)
    if not any(one.payload_bytes for one in some):
        raise UnreadableRecording(f"no data in the {direction} direction: measure it again")
    payload_bps = rate_of(some)
    limit_bps = float(report.test.get("target_bitrate") or report.test.get("fqrate") or 0)
    limit_bps *= int(report.test.get("num_streams", 1))
    evidence = rate_evidence(
        payload_bps, "intervals[].streams[].bytes", direction, end_of(report, direction)
    )
    offered_bps = wire_bps(limit_bps) if limit_bps else None
    return DirectionRecording(rate_bps=wire_bps(payload_bps), offered_bps=offered_bps), [evidence]


def read_udp(
    report: IperfReport, direction: str, intervals: Sequence[IperfInterval]
) -> tuple[DirectionRecording, list[Evidence]]:
    """Return what arrived of a UDP test in one direction, with its loss and jitter."""
    if report.is_sender(direction):
        field, received_bps, share, jitter_ms = udp_end(report, direction)
    else:
        some = [one for one in intervals if one.seconds > 0 and not one.omitted]
        datagrams = sum(one.datagrams for one in some)
        if not datagrams:
            raise UnreadableRecording(f"no datagram arrived in the {direction} direction")
        field, received_bps = "intervals[].streams[].bytes", rate_of(some)
        share = sum(one.lost for one in some) / datagrams
        jitters = [(one.jitter_ms, one.seconds) for one in some if one.jitter_ms is not None]
        jitter_ms = weighted_midmean(*zip(*jitters, strict=True)) if jitters else 0.0
    if not 0 <= share <= 1:
        raise UnreadableRecording(f"{direction}: more datagrams lost than sent: measure it again")
    wire = round(received_bps * headers_factor(report))
    offered = round(wire / (1 - share)) if share < 1 else wire
    end = f"{field}, received by the {'server' if direction == 'forward' else 'client'}"
    loss = f"{share_text(share)} lost of {units.show_rate(offered)} offered"
    evidence = [
        Evidence(f"rate {units.show_rate(wire)}", end, direction, f"UDP with headers; {loss}")
    ]
    recording = DirectionRecording(
        rate_bps=wire,
        offered_bps=offered,
        loss_share=share,
        jitter_ms=1.5 * jitter_ms if wire >= LIMITED_SHARE * offered else 0.0,
    )
    return recording, evidence


def udp_end(report: IperfReport, direction: str) -> tuple[str, float, float, float]:
    """Return what the sender was told at the end: field, rate received, loss share, jitter."""
    end = report.document.get("end") or {}
    streams = [stream["udp"] for stream in end.get("streams", ()) if "udp" in stream]
    sent = [one for one in streams if one.get("sender", True)]
    field = "end.streams[].udp"
    if not sent:
        candidates = end.get("sum_received") or end.get("sum") or {}
        sent = [one for one in as_list(candidates) if one.get("packets")]
        field = "end.sum_received" if end.get("sum_received") else "end.sum"
    datagrams = sum(int(one["packets"]) for one in sent)
    if not datagrams:
        raise UnreadableRecording(
            f"what arrived in the {direction} direction is not in it (iperf3 was interrupted, or"
            " got no report of the server's): import the server's report"
        )
    share = sum(int(one["lost_packets"]) for one in sent) / datagrams
    intervals = [one for one in report.intervals[direction] if one.seconds and not one.omitted]
    jitter_ms = sum(float(one["jitter_ms"]) for one in sent) / len(sent)
    return f"what was sent and {field}'s loss", rate_of(intervals) * (1 - share), share, jitter_ms


def as_list(value: Any) -> list[Any]:
    return value if isinstance(value, BothDirections) else [value]


def headers_factor(report: IperfReport) -> float:
    """Return the size of a datagram on the wire, divided by its payload's."""
    payload = int(report.test["blksize"])
    connected = report.document["start"].get("connected") or [{}]
    is_ipv6 = ":" in str(connected[0].get("remote_host", "")).removeprefix("::ffff:")
    fragments = -(-(payload + UDP_HEADER_BYTES) // FRAGMENT_BYTES)
    headers = UDP_HEADER_BYTES + fragments * (
        FRAGMENT_HEADER_BYTES + (IPV6_EXTRA_BYTES if is_ipv6 else 0)
    )
    return (payload + headers) / payload


DESCRIPTION = "iperf3's JSON, client's or server's, TCP or UDP: a rate of each direction and an RTT"
FORMAT = replace(
    json_format("iperf3", DESCRIPTION, "what `iperf3 -J` writes", [], read, parse_report),
    recognises=lambda text: (
        text.lstrip().startswith("{") and ('"test_start"' in text or '"iperf 3' in text)
    ),
)
