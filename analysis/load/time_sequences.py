# SPDX-License-Identifier: MIT
"""Read the time–sequence graphs of a run: of its captured connections, or of its ACKs.

Of a capture, the sender's side of the path is read (gostlab.results.capture_files.main_file).
Sequence numbers count from a connection's first byte; times count from the begin of the load.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from gostlab import safe_read
from gostlab.analysis.load.run_folder import RunFolder
from gostlab.results import BROKEN_RECORDS, pcapng, read_object, read_run
from gostlab.results.capture_files import main_file
from gostlab.results.samples import read_acks

if TYPE_CHECKING:
    import numpy as np

IPV4, TCP = 0x0800, 6
SYN, ACK = 0x02, 0x10
WINDOW_SCALE, SACK = 3, 5  # TCP options
MAX_CONNECTIONS = 4
MIN_DATA_BYTES = 100_000  # a connection with less payload is a control connection
Address = tuple[bytes, int]  # IPv4 address and port


@dataclass(frozen=True)
class TcpSegment:
    """The fields of a TCP segment that a time–sequence graph shows."""

    t_ns: int
    source: Address
    target: Address
    seq: int
    ack: int
    flags: int
    window: int
    payload: int
    scale: int | None  # the window scale, which only a SYN has
    sack: tuple[tuple[int, int], ...]


@dataclass
class ConnectionEnd:
    """Collect what one end of a connection sent: its data, and its answers to the other's."""

    scale: int = 0
    first_seq: int | None = None
    payload: int = 0
    data: list[tuple[int, int, int]] = field(default_factory=list)  # time, first byte, bytes
    answers: list[tuple[int, int, int]] = field(default_factory=list)  # time, ACK, window
    sacks: list[tuple[int, int, int]] = field(default_factory=list)  # time, first byte, end


@dataclass(frozen=True, eq=False)
class TimeSequence:
    """A connection's time–sequence graph: times in s, sequence numbers in bytes.

    Each row of `segments` and `retransmissions` is time, first byte and end; of `sacks` too.
    """

    name: str  # 10.0.1.1:40000 > 10.0.4.2:80
    segments: np.ndarray
    retransmissions: np.ndarray
    acks: np.ndarray  # time, first byte that is not acknowledged
    window: np.ndarray  # time, end of the receive window
    sacks: np.ndarray
    is_captured: bool = True  # False: from acks.csv.gz, which has neither segments nor SACK blocks


def join_bars(rows: np.ndarray, most: int) -> np.ndarray:
    """Return at most so many bars: of neighbours one, at the first's time, over all their bytes."""
    import numpy as np

    if len(rows) <= most:
        return rows
    starts = np.unique(np.linspace(0, len(rows), most, endpoint=False).astype(int))
    low, high = np.minimum.reduceat(rows[:, 1], starts), np.maximum.reduceat(rows[:, 2], starts)
    return np.column_stack([rows[starts, 0], low, high])


def thin_steps(rows: np.ndarray, most: int) -> np.ndarray:
    """Return at most so many steps of a line, evenly selected, with the last."""
    import numpy as np

    if len(rows) <= most:
        return rows
    return rows[np.unique(np.linspace(0, len(rows) - 1, most).astype(int))]


def parse_segment(packet: pcapng.Packet, linktype: int) -> TcpSegment | None:
    """Return a packet's TCP segment; None if it is another packet or cut off within a header."""
    data = packet.data
    at = 14 if linktype == pcapng.LINKTYPE_ETHERNET else 0
    if at and (len(data) < at or int.from_bytes(data[12:14], "big") != IPV4):
        return None
    if len(data) < at + 40 or data[at] >> 4 != 4 or data[at + 9] != TCP:
        return None
    tcp_at = at + 4 * (data[at] & 15)
    total = int.from_bytes(data[at + 2 : at + 4], "big") or packet.original_bytes - at
    if len(data) < tcp_at + 20:
        return None
    source_port, target_port, seq, ack, offset, flags, window = struct.unpack_from(
        ">HHIIBBH", data, tcp_at
    )
    header = 4 * (offset >> 4)
    scale, sack = parse_options(data[tcp_at + 20 : tcp_at + header])
    return TcpSegment(
        packet.t_ns,
        (data[at + 12 : at + 16], source_port),
        (data[at + 16 : at + 20], target_port),
        seq,
        ack,
        flags,
        window,
        total - (tcp_at - at) - header,
        scale,
        sack,
    )


def parse_options(options: bytes) -> tuple[int | None, tuple[tuple[int, int], ...]]:
    """Return the window scale and the SACK blocks in the options of a segment."""
    scale: int | None = None
    sack: tuple[tuple[int, int], ...] = ()
    at = 0
    while at < len(options) and options[at] != 0:
        if options[at] == 1:
            at += 1
            continue
        length = options[at + 1] if at + 1 < len(options) else 0
        if length < 2 or at + length > len(options):
            break
        if options[at] == WINDOW_SCALE:
            scale = options[at + 2]
        elif options[at] == SACK:
            edges = struct.iter_unpack(">II", options[at + 2 : at + length])
            sack = tuple((left, right) for left, right in edges)
        at += length
    return scale, sack


def segments_of(file: Path) -> Iterator[TcpSegment]:
    """Yield the TCP segments of a capture. Raises BadCapture, OSError."""
    data = safe_read.read_bytes(file)
    interfaces = pcapng.read_capture(data).interfaces
    for packet in pcapng.read_packets(data):
        if packet.interface < len(interfaces):
            segment = parse_segment(packet, interfaces[packet.interface].linktype)
            if segment is not None:
                yield segment


def read_connection_ends(
    segments: Iterator[TcpSegment],
) -> dict[tuple[Address, Address], ConnectionEnd]:
    """Return what each end of each connection sent, by its address and the other's."""
    directions: dict[tuple[Address, Address], ConnectionEnd] = {}
    for one in segments:
        sent = directions.setdefault((one.source, one.target), ConnectionEnd())
        if one.flags & SYN:
            sent.first_seq = (one.seq + 1) % 2**32
            sent.scale = one.scale or 0
            continue
        if sent.first_seq is None:
            sent.first_seq = one.seq
        if one.payload > 0:
            sent.payload += one.payload
            sent.data.append((one.t_ns, one.seq, one.payload))
        if one.flags & ACK:
            sent.answers.append((one.t_ns, one.ack, one.window << sent.scale))
            sent.sacks += [(one.t_ns, first, end) for first, end in one.sack]
    return directions


def time_sequences(run: RunFolder) -> list[TimeSequence]:
    """Return the graph of each connection with much data, the largest first.

    Without a capture they are of acks.csv.gz, and without that [].
    """
    return sequences_from_captures(run) or sequences_from_acks(run)


def sequences_from_acks(run: RunFolder) -> list[TimeSequence]:
    """Return the graph of each flow with one connection, from acks.csv.gz.

    A bar is what was sent between two ACKs, at the time of the second. Retransmissions cannot be
    seen. The rows of several connections are not told apart, so such flows have no graph.
    """
    import numpy as np

    columns = ("t_s", "flow", "cwnd_pkts", "acked_bytes", "inflight_bytes", "snd_wnd_bytes")
    table = read_acks(run.folder, columns).dropna(subset=list(columns))
    graphs = []
    for flow in run.flows:
        rows = table[table["flow"] == flow.name]
        if flow.streams != 1 or len(rows) < 2 or not rows["acked_bytes"].is_monotonic_increasing:
            continue
        t_s, acked, in_flight, window = (
            rows[name].to_numpy(float) for name in ("t_s", *columns[3:])
        )
        sent = np.maximum.accumulate(acked + in_flight)
        bars = np.column_stack([t_s, np.concatenate(([0.0], sent[:-1])), sent])
        nothing = np.empty((0, 3))
        graphs.append(
            TimeSequence(
                name=flow.name,
                segments=bars[bars[:, 2] > bars[:, 1]],
                retransmissions=nothing,
                acks=np.column_stack([t_s, acked]),
                window=np.column_stack([t_s, acked + window]),
                sacks=nothing,
                is_captured=False,
            )
        )
    graphs.sort(key=lambda graph: -float(graph.acks[-1, 1]))
    return graphs[:MAX_CONNECTIONS]


def sequences_from_captures(run: RunFolder) -> list[TimeSequence]:
    """Return the graph of each captured connection with much data; [] without a capture.

    A segment is a retransmission if none of its bytes lies beyond all that were sent before.
    """
    described = read_run(run.folder)
    file = described and main_file(run.folder, described)
    if not file:
        return []
    try:
        began_ns = int((read_object(run.folder / "env.json") or {})["capture"]["load_began_ns"])
        directions = read_connection_ends(segments_of(file))
    except (*BROKEN_RECORDS, pcapng.BadCapture, struct.error):
        return []
    by_size = [
        (
            sent.payload,
            build_time_sequence(ends, sent, directions.get(ends[::-1], ConnectionEnd()), began_ns),
        )
        for ends, sent in directions.items()
        if sent.payload >= MIN_DATA_BYTES
    ]
    by_size.sort(key=lambda pair: -pair[0])
    return [graph for _, graph in by_size[:MAX_CONNECTIONS]]


def build_time_sequence(
    ends: tuple[Address, Address], sent: ConnectionEnd, answers: ConnectionEnd, began_ns: int
) -> TimeSequence:
    """Return the graph of the data of one end and the other end's answers."""
    import numpy as np

    first = sent.first_seq or 0

    def unwrapped(values: np.ndarray) -> np.ndarray:
        """Return sequence numbers modulo 2^32 as bytes since the connection's first."""
        steps = np.diff(values.astype(np.int64), prepend=first)
        return np.cumsum((steps + 2**31) % 2**32 - 2**31)

    def table(rows: list[tuple[int, int, int]]) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        columns = np.array(rows, dtype=np.int64).reshape(-1, 3).T
        return (columns[0] - began_ns) / 1e9, columns[1], columns[2]

    t_s, seq, size = table(sent.data)
    start = unwrapped(seq)
    end = start + size
    before = np.maximum.accumulate(np.concatenate(([-1], end)))[:-1]
    is_again = end <= before
    rows = np.column_stack([t_s, start, end])
    ack_t_s, ack, window = table(answers.answers)
    acked = unwrapped(ack)
    sack_t_s, left, right = table(answers.sacks)
    sack_start = unwrapped(left)
    sacks = np.column_stack([sack_t_s, sack_start, sack_start + (right - left) % 2**32])
    return TimeSequence(
        name=" > ".join(f"{'.'.join(map(str, host))}:{port}" for host, port in ends),
        segments=rows[~is_again],
        retransmissions=rows[is_again],
        acks=np.column_stack([ack_t_s, acked]),
        window=np.column_stack([ack_t_s, acked + window]),
        sacks=sacks,
    )
