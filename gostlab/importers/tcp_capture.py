# SPDX-License-Identifier: MIT
"""Parse a capture of a TCP connection (pcap, pcapng) by tshark: rates, RTT, retransmissions.

A rate is the progress of acknowledgements, which is what the receiver got, wherever it was
captured. The RTT is the sum of two parts, from the place of the capture to each end and back: the
least time between a packet with a timestamp and the first that echoes it (RFC 7323).
"""

import itertools
import shutil
import subprocess
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from gostlab.importers.base import (
    SLOW_START_S,
    DirectionRecording,
    Evidence,
    ImportFormat,
    PathRecording,
    Recording,
    UnreadableRecording,
    rate_evidence,
    weighted_midmean,
    wire_bps,
)

FIELDS = (
    "frame.time_relative",
    "tcp.stream",
    "tcp.srcport",
    "ip.src",
    "ipv6.src",
    "tcp.flags.syn",
    "tcp.flags.ack",
    "tcp.ack_raw",
    "tcp.len",
    "tcp.options.timestamp.tsval",
    "tcp.options.timestamp.tsecr",
    "tcp.analysis.retransmission",
)
MAGIC = (b"\xd4\xc3\xb2\xa1", b"\xa1\xb2\xc3\xd4", b"\x4d\x3c\xb2\xa1", b"\xa1\xb2\x3c\x4d")
MAGIC_NG = b"\x0a\x0d\x0d\x0a"
TIMEOUT_S = 120
WINDOW_S = 0.2
# One connection is the capture's if it has this share of the payload.
MAIN_SHARE = 0.9
# A direction with less payload carries requests: its rate is not the path's.
MIN_BULK_BYTES = 200_000
TRUE = ("1", "True")


@dataclass(frozen=True)
class CapturedSegment:
    at_s: float
    stream: str
    source: str  # address and port
    is_syn: bool
    ack: int | None
    payload: int
    timestamp: str
    echo: str
    is_retransmission: bool


def read(recordings: Sequence[Recording]) -> PathRecording:
    """Return the rates, the RTT and the retransmissions of a connection.

    Raises UnreadableRecording, also where tshark is not installed.
    """
    [recording] = recordings
    if not recognises(recording.text):
        raise UnreadableRecording(f"{recording.label}: neither pcap nor pcapng")
    segments, is_cut = run_tshark(recording)
    left_out = ["the end (the capture is cut off)"] if is_cut else []
    payload: Counter[str] = Counter()
    for segment in segments:
        payload[segment.stream] += segment.payload
    main, main_bytes = payload.most_common(1)[0]
    if main_bytes < MAIN_SHARE * payload.total():
        raise UnreadableRecording(
            f"{recording.label}: {len(payload)} TCP connections share the path: keep one (tshark -r"
            f" FILE -Y 'tcp.stream == {main}' -w ONE.pcap)"
        )
    if len(payload) > 1:
        left_out.append(f"{len(payload) - 1} other TCP connections")
    segments = [segment for segment in segments if segment.stream == main]
    client, server, sentences = find_ends(segments, recording.label)
    evidence, directions = [], {}
    for direction, sender, receiver in (("forward", client, server), ("reverse", server, client)):
        rate_bps = acknowledged_bps(segments, sender, receiver)
        directions[direction] = DirectionRecording()
        if rate_bps:
            directions[direction] = DirectionRecording(rate_bps=wire_bps(rate_bps))
            evidence.append(
                rate_evidence(rate_bps, "TCP's acknowledgements", direction, "what was received")
            )
    if not evidence:
        raise UnreadableRecording(
            f"{recording.label}: no direction carried {MIN_BULK_BYTES // 1000} kB: capture a"
            " transfer that fills the path"
        )
    rtt_ms = idle_rtt_ms(segments, client, server)
    if rtt_ms is not None:
        evidence.append(Evidence(f"RTT {rtt_ms:.4g} ms", "TCP's timestamps", "round trip", "least"))
        left_out.append("the RTT over time (the connection's own queue)")
    data = [segment for segment in segments if segment.payload]
    if retransmitted := sum(segment.is_retransmission for segment in data):
        left_out.append(f"{retransmitted} retransmissions of {len(data)} segments")
        sentences.append(
            f"No loss, though {retransmitted} of {len(data)} segments were retransmitted: a capture"
            " does not say whether a full queue or the line lost them (write the line's into loss)."
        )
    sentences.append("The rate is what one TCP connection got: the path's own may be higher.")
    return PathRecording(
        segments[-1].at_s - segments[0].at_s,
        forward=directions["forward"],
        reverse=directions["reverse"],
        rtt_ms=rtt_ms,
        evidence=tuple(evidence),
        left_out=tuple(left_out),
        assumptions=tuple(sentences),
    )


def run_tshark(recording: Recording) -> tuple[list[CapturedSegment], bool]:
    """Return a capture's TCP segments, and whether it is cut off. Raises UnreadableRecording."""
    if shutil.which("tshark") is None:
        raise UnreadableRecording(
            f"{recording.label}: a capture is read by tshark, which is not on this machine: install"
            " the package tshark"
        )
    argv = ["tshark", "-n", "-r", "-", "-Y", "tcp", "-T", "fields", "-E", "occurrence=f"]
    argv += [word for field in FIELDS for word in ("-e", field)]
    data = recording.text.encode("utf-8", "surrogateescape")
    try:
        process = subprocess.run(argv, input=data, capture_output=True, timeout=TIMEOUT_S)
    except subprocess.TimeoutExpired:
        raise UnreadableRecording(
            f"{recording.label}: tshark took more than {TIMEOUT_S} s: take a shorter part (editcap"
            " -i 60)"
        ) from None
    rows = [line.split("\t") for line in process.stdout.decode("utf-8", "replace").splitlines()]
    segments = [to_segment(dict(zip(FIELDS, row, strict=True))) for row in rows]
    if not segments:
        problem = process.stderr.decode("utf-8", "replace").strip().rpartition("\n")[2]
        reason = f" (tshark: {problem:.120})" if process.returncode else ""
        raise UnreadableRecording(f"{recording.label}: no TCP segment in it{reason}")
    return segments, process.returncode != 0


def to_segment(row: Mapping[str, str]) -> CapturedSegment:
    address = row["ip.src"] or row["ipv6.src"]
    return CapturedSegment(
        at_s=float(row["frame.time_relative"]),
        stream=row["tcp.stream"],
        source=f"{address} {row['tcp.srcport']}",
        is_syn=row["tcp.flags.syn"] in TRUE,
        ack=int(row["tcp.ack_raw"]) if row["tcp.flags.ack"] in TRUE else None,
        payload=int(row["tcp.len"] or 0),
        timestamp=row["tcp.options.timestamp.tsval"],
        echo=row["tcp.options.timestamp.tsecr"],
        is_retransmission=bool(row["tcp.analysis.retransmission"]),
    )


def find_ends(segments: Sequence[CapturedSegment], label: str) -> tuple[str, str, list[str]]:
    """Return client, server, and what that is assumed from. Raises UnreadableRecording."""
    sources = list(dict.fromkeys(segment.source for segment in segments))
    if len(sources) != 2:
        raise UnreadableRecording(f"{label}: only one end of the connection is in the capture")
    syn = next((one for one in segments if one.is_syn), None)
    if syn is not None:
        # A SYN/ACK is the server's.
        client = syn.source
        if syn.ack is not None:
            client = next(source for source in sources if source != syn.source)
        sentences = list[str]()
    else:
        client = max(sources, key=lambda source: int(source.split()[-1]))
        sentences = [
            f"The client is {client.split()[0]}, whose port is the higher: the capture has no SYN."
        ]
    return client, next(source for source in sources if source != client), sentences


def acknowledged_bps(
    segments: Sequence[CapturedSegment], sender: str, receiver: str
) -> float | None:
    """Return the rate of what `receiver` acknowledged, None if that was little.

    It is the mean of the middle half of the time, after slow start.
    """
    times_s: list[float] = []
    acked: list[int] = []
    for segment in segments:
        if segment.source != receiver or segment.ack is None:
            continue
        if not acked:
            first, total = segment.ack, 0
        # The distance from the highest so far, modulo 2^32.
        advance = (segment.ack - first - total + 2**31) % 2**32 - 2**31
        total += max(0, advance)
        times_s.append(segment.at_s)
        acked.append(total)
    carried = sum(one.payload for one in segments if one.source == sender)
    if not acked or min(acked[-1], carried) < MIN_BULK_BYTES:
        return None
    begin_s = next(one.at_s for one in segments if one.source == sender and one.payload)
    end_s = next(at_s for at_s, count in zip(times_s, acked, strict=True) if count >= acked[-1])
    if end_s - begin_s > 2 * SLOW_START_S * 0.9:
        begin_s += SLOW_START_S
    windows = max(1, int((end_s - begin_s) / WINDOW_S))
    edges_s = [begin_s + (end_s - begin_s) * n / windows for n in range(windows + 1)]
    counts, position, count = [], 0, 0
    for edge_s in edges_s:
        while position < len(times_s) and times_s[position] <= edge_s + 1e-9:
            count = acked[position]
            position += 1
        counts.append(count)
    width_s = (end_s - begin_s) / windows
    steps = (after - before for before, after in itertools.pairwise(counts))
    rates = [8 * step / width_s for step in steps]
    return weighted_midmean(rates, [width_s] * windows)


def idle_rtt_ms(segments: Sequence[CapturedSegment], client: str, server: str) -> float | None:
    """Return the least RTT between the ends, None if there are too few timestamps."""
    parts_s = [half_rtt_s(segments, client), half_rtt_s(segments, server)]
    if None in parts_s:
        return None
    return 1000 * sum(part_s or 0.0 for part_s in parts_s)


def half_rtt_s(segments: Sequence[CapturedSegment], source: str) -> float | None:
    """Return the least time from the capture to the end other than `source`, and back."""
    sent_s: dict[str, float] = {}
    shortest_s: float | None = None
    for segment in segments:
        if segment.source == source:
            if segment.timestamp:
                sent_s.setdefault(segment.timestamp, segment.at_s)
        elif segment.echo in sent_s:
            elapsed_s = segment.at_s - sent_s.pop(segment.echo)
            # A later echo of the same timestamp says nothing.
            sent_s[segment.echo] = float("-inf")
            if 0 <= elapsed_s < float("inf"):
                shortest_s = min(elapsed_s, shortest_s if shortest_s is not None else elapsed_s)
    return shortest_s


def recognises(text: str) -> bool:
    """Return whether a file begins as pcap or pcapng."""
    return text[:8].encode("utf-8", "surrogateescape").startswith((*MAGIC, MAGIC_NG))


DESCRIPTION = "a capture of one TCP connection (pcap, pcapng), read by tshark"
FORMAT = ImportFormat("pcap", DESCRIPTION, ("the capture",), recognises, read, any_bytes=True)
