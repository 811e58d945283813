"""Read the kernel's view of sockets and queues by netlink, from one process.

A socket keeps the namespace in which it was opened. So one process holds a netlink socket per node
and reads every node without starting a command: cheap enough for a sample every few milliseconds.
Layouts are those of <linux/inet_diag.h>, <linux/tcp.h> (struct tcp_info, append-only) and
<linux/pkt_sched.h>.
"""

import os
import socket
import struct
from collections.abc import Container, Iterable, Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple, Self

from gostlab.guest.namespaces import entered_namespace
from gostlab.registry.plugin_loader import origin_of
from gostlab.registry.qdiscs import marking_kinds

NETLINK_ROUTE, NETLINK_SOCK_DIAG = 0, 4
NLM_F_REQUEST, NLM_F_DUMP = 1, 0x300
NLMSG_ERROR, NLMSG_DONE = 2, 3
TCPDIAG_GETSOCK, SOCK_DIAG_BY_FAMILY = 18, 20
RTM_GETQDISC = 38
HEADER = struct.Struct("=IH10x")  # struct nlmsghdr: length and type
MAX_DUMP_BYTES = 1 << 16  # the kernel sends 32 KiB of a dump at a time
SKNLGRP_INET_TCP_DESTROY = 1
SKNLGRP_INET6_TCP_DESTROY = 3
INET_DIAG_INFO, INET_DIAG_VEGASINFO, INET_DIAG_CONG, INET_DIAG_BBRINFO = 2, 3, 4, 16
READ_ATTRIBUTES = frozenset((INET_DIAG_INFO, INET_DIAG_CONG, INET_DIAG_BBRINFO))
TCP_ESTABLISHED, TCP_LISTEN = 1, 10
# All states that can still carry or owe data; not LISTEN, CLOSE or TIME_WAIT (which has no
# tcp_info).
LIVE_STATES = sum(1 << state for state in (1, 2, 3, 4, 5, 8, 9, 11))
# struct inet_diag_req: one dump returns both families, while inet_diag_req_v2 needs one per family.
OF_ALL_FAMILIES = struct.pack(
    "=3xB48xII",
    1 << (INET_DIAG_INFO - 1) | 1 << (INET_DIAG_VEGASINFO - 1) | 1 << (INET_DIAG_CONG - 1),
    LIVE_STATES,
    0,
)
BBR_UNIT = 256  # tcp_bbr_info: gains are fractions of 256
INFINITE_SSTHRESH, NOT_PACED = 0x7FFFFFFF, (1 << 64) - 1
# The fields of struct tcp_info in a socket's row, and their names there; those in µs become ms.
TCP_INFO = struct.Struct("=8xI4xI4xI4xI32x4I4xI8xIQ8x2QI8xI4xI4Q2I20xI4xI")
TCP_INFO_NAMES = (
    "rto_us mss unacked_pkts lost_pkts srtt_us rttvar_us ssthresh_pkts cwnd_pkts reordering"
    " segments_retransmitted pacing_rate_bps bytes_acked bytes_received segments_out min_rtt_us"
    " data_segments_out delivery_rate_bps busy_us rwnd_limited_us sndbuf_limited_us delivered_pkts"
    " marked_pkts reord_seen snd_wnd_bytes"
).split()
IN_MS = {name: f"{name[:-3]}_ms" for name in TCP_INFO_NAMES if name.endswith("_us")}
# The fields of struct tcp_info in Sending.
SENDING = struct.Struct("=16xI4xII12xI20xI48xQ20xI4xI8xQ")
NO_MIN_RTT = 0xFFFFFFFF


class SendingInfo(NamedTuple):
    """The tcp_info fields that are read of every socket at every sample."""

    mss: int
    unacked_pkts: int
    sacked_pkts: int
    since_sent_ms: int  # time since it last sent data
    srtt_us: int
    bytes_acked: int
    min_rtt_us: int
    data_segments_out: int
    busy_us: int

    @property
    def bytes_out(self) -> int:
        """Return the bytes sent, or slightly more.

        The last segments may be smaller than the MSS.
        """
        return self.bytes_acked + self.unacked_pkts * self.mss


def open_in(namespace: int | Path, protocol: int, groups: int = 0) -> socket.socket:
    """Open a netlink socket in the network namespace of a process or a file. Raises OSError."""
    with entered_namespace(namespace):
        opened = socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, protocol)
        opened.bind((0, groups))
    return opened


@cache
def text_of(value: bytes) -> str:
    """Return an attribute's text: the name of a qdisc or a congestion control."""
    return value.rstrip(b"\0").decode()


def _messages(data: bytes) -> list[tuple[int, bytes]]:
    messages = []
    offset, last = 0, len(data) - 16
    while offset <= last:
        length, message_type = HEADER.unpack_from(data, offset)
        if length < 16:
            break
        messages.append((message_type, data[offset + 16 : offset + length]))
        offset += (length + 3) & ~3
    return messages


def parse_attributes(data: bytes, at: int) -> dict[int, bytes]:
    values: dict[int, bytes] = {}
    while at + 4 <= len(data):
        length, attribute_type = struct.unpack_from("=HH", data, at)
        if length < 4:
            break
        values[attribute_type & 0x3FFF] = data[at + 4 : at + length]
        at += (length + 3) & ~3
    return values


@cache
def _dump_request(kind: int, body: bytes) -> bytes:
    head = struct.pack("=IHHII", 16 + len(body), kind, NLM_F_REQUEST | NLM_F_DUMP, 1, 0)
    return head + body


def _dump(link: socket.socket, kind: int, body: bytes) -> list[bytes]:
    """Send a dump request and return the bodies of the answer.

    Raises OSError if the kernel refuses it.
    """
    link.send(_dump_request(kind, body))
    bodies: list[bytes] = []
    while True:
        for answer, payload in _messages(link.recv(MAX_DUMP_BYTES)):
            if answer == NLMSG_DONE:
                return bodies
            if answer == NLMSG_ERROR:
                number = -struct.unpack_from("=i", payload)[0]
                raise OSError(number, os.strerror(number), "netlink")
            bodies.append(payload)


@dataclass(slots=True)
class SocketMessage:
    """An inet_diag_msg with its tcp_info."""

    body: bytes
    attributes: dict[int, bytes]

    @property
    def identity(self) -> bytes:
        """Return the socket's ports and addresses."""
        return self.body[4:40]

    @property
    def ports(self) -> tuple[int, int]:
        """Return the local port and the peer's."""
        local, peer = struct.unpack_from("!HH", self.body, 4)
        return local, peer

    @property
    def cc(self) -> str | None:
        name = self.attributes.get(INET_DIAG_CONG)
        return text_of(name) if name else None

    @property
    def sending(self) -> SendingInfo:
        return SendingInfo(*SENDING.unpack_from(self.attributes[INET_DIAG_INFO]))


def read_tcp_sockets(link: socket.socket) -> Iterator[SocketMessage]:
    """Return every live TCP socket of a namespace. Dual-stack listeners have IPv4 peers as IPv6."""
    return socket_messages(_dump(link, TCPDIAG_GETSOCK, OF_ALL_FAMILIES))


def read_listening_ports(link: socket.socket) -> set[int]:
    """Return the ports on which TCP sockets of a namespace listen."""
    bodies = _dump(link, TCPDIAG_GETSOCK, struct.pack("=3xB48xII", 0, 1 << TCP_LISTEN, 0))
    return {struct.unpack_from("!H", body, 4)[0] for body in bodies}


@dataclass(frozen=True, slots=True)
class FixedParts:
    """Represent the parts of a message that are equal in all messages of its layout."""

    parts: struct.Struct
    expected: tuple[bytes, ...]

    @classmethod
    def of(cls, body: bytes, positions: Iterable[tuple[int, int]]) -> Self:
        """Return the parts between some positions, in their order."""
        pattern, expected, at = "=", [], 0
        for begin, end in positions:
            pattern += f"{begin - at}x{end - begin}s"
            expected.append(body[begin:end])
            at = end
        return cls(struct.Struct(pattern), tuple(expected))

    def are_in(self, body: bytes) -> bool:
        return self.parts.unpack_from(body) == self.expected


def attribute_positions(data: bytes, at: int, end: int) -> Iterator[tuple[int, int, int]]:
    """Yield the type of each attribute in a part of a message, and where its value begins, ends."""
    while at + 4 <= end:
        length, attribute_type = struct.unpack_from("=HH", data, at)
        if length < 4:
            return
        yield attribute_type & 0x3FFF, at + 4, min(at + length, end)
        at += (length + 3) & ~3


@dataclass(frozen=True, slots=True)
class SocketLayout:
    """Represent the offsets of an inet_diag_msg's attributes: one layout for most of a dump."""

    heads: FixedParts
    read: tuple[tuple[int, int, int], ...]  # type, begin and end of each of READ_ATTRIBUTES

    @classmethod
    def of(cls, body: bytes) -> Self:
        """Return the layout of a message."""
        positions = list(attribute_positions(body, 72, len(body)))
        heads = FixedParts.of(body, [(begin - 4, begin) for _, begin, _ in positions])
        return cls(heads, tuple(one for one in positions if one[0] in READ_ATTRIBUTES))


_socket_layouts: dict[int, SocketLayout] = {}  # the latest one by the length of the message


def socket_messages(bodies: Iterable[bytes]) -> Iterator[SocketMessage]:
    """Yield the messages with a tcp_info: not those of listeners and TIME_WAIT sockets."""
    for body in bodies:
        layout = _socket_layouts.get(len(body))
        if layout is None or not layout.heads.are_in(body):
            layout = _socket_layouts[len(body)] = SocketLayout.of(body)
        attributes = {attribute_type: body[begin:end] for attribute_type, begin, end in layout.read}
        if INET_DIAG_INFO in attributes and body[1] != TCP_LISTEN:
            yield SocketMessage(body, attributes)


TcpRow = dict[str, Any]  # The names of tcp_info, and of what sockets.jsonl has besides.


def is_app_limited(message: SocketMessage) -> bool:
    """Return tcp_info's tcpi_delivery_rate_app_limited: the lowest bit of its eighth byte."""
    return bool(message.attributes[INET_DIAG_INFO][7] & 1)


def tcp_info_of(message: SocketMessage) -> tuple[int, ...]:
    """Return the fields of TCP_INFO_NAMES; an older kernel's missing ones are 0."""
    info = message.attributes[INET_DIAG_INFO]
    if len(info) < TCP_INFO.size:
        info = info.ljust(TCP_INFO.size, b"\0")
    return TCP_INFO.unpack_from(info)


def parse_tcp_socket(message: SocketMessage) -> TcpRow:
    """Parse a message to a row of sockets.jsonl.

    Addresses are "ip:port", counters are since the socket was opened. None: not set, or not
    available.
    """
    row: TcpRow = dict(zip(TCP_INFO_NAMES, tcp_info_of(message), strict=True))
    for name, in_ms in IN_MS.items():
        row[in_ms] = row.pop(name) / 1000
    if row["min_rtt_ms"] == NO_MIN_RTT / 1000:
        row["min_rtt_ms"] = None
    if row["ssthresh_pkts"] >= INFINITE_SSTHRESH:
        row["ssthresh_pkts"] = None
    paced = row["pacing_rate_bps"]
    row["pacing_rate_bps"] = None if paced == NOT_PACED else paced * 8
    row["delivery_rate_bps"] *= 8
    body, (local_port, peer_port) = message.body, message.ports
    row["local"] = f"{_address(body[0], body[8:24])}:{local_port}"
    row["peer"] = f"{_address(body[0], body[24:40])}:{peer_port}"
    row["cc"], row["bbr"] = message.cc, bbr_state(message)
    return row


def bbr_state(message: SocketMessage) -> dict[str, float] | None:
    """Return BBR's model of a socket; None with another congestion control."""
    bbr = message.attributes.get(INET_DIAG_BBRINFO)
    if bbr is None or len(bbr) < 20:
        return None
    low, high, min_rtt_us, pacing_gain, cwnd_gain = struct.unpack_from("=5I", bbr)
    return {
        "bw_bps": (high << 32 | low) * 8,
        "min_rtt_ms": min_rtt_us / 1000,
        "pacing_gain": pacing_gain / BBR_UNIT,
        "cwnd_gain": cwnd_gain / BBR_UNIT,
    }


@cache
def _address(family: int, raw: bytes) -> str:
    """Format an address; an IPv4 address mapped into IPv6 is formatted as IPv4."""
    if family == socket.AF_INET:
        return socket.inet_ntop(socket.AF_INET, raw[:4])
    if raw[:12] == b"\0" * 10 + b"\xff\xff":
        return socket.inet_ntop(socket.AF_INET, raw[12:])
    return socket.inet_ntop(socket.AF_INET6, raw)


def watch_closed_sockets(pid: int) -> socket.socket:
    """Open a socket that receives the last tcp_info of TCP sockets as they close."""
    groups = 1 << (SKNLGRP_INET_TCP_DESTROY - 1) | 1 << (SKNLGRP_INET6_TCP_DESTROY - 1)
    link = open_in(pid, NETLINK_SOCK_DIAG, groups)
    # SO_RCVBUFFORCE: a burst of closes must not overflow it
    link.setsockopt(socket.SOL_SOCKET, 33, 1 << 23)
    link.setblocking(False)
    return link


def read_closed_sockets(link: socket.socket) -> list[SocketMessage]:
    """Return the sockets destroyed since the last call.

    Raises OSError (ENOBUFS) if some were missed.
    """
    messages: list[SocketMessage] = []
    while True:
        try:
            data = link.recv(1 << 18)
        except BlockingIOError:
            return messages
        messages += socket_messages(
            body for message_type, body in _messages(data) if message_type == SOCK_DIAG_BY_FAMILY
        )


def marks_of(name: str, statistics: bytes) -> int | None:
    """Return the packets that a qdisc marked, from its statistics as its plugin declares them.

    Returns None for a qdisc that marks none. Raises ValueError if the statistics are shorter than
    declared.
    """
    declaration = marking_kinds().get(name)
    if declaration is None:
        return None
    parts, offsets = [statistics], (declaration.marks_at, *declaration.marks_also)
    if declaration.marks_in:
        outer, inner = declaration.marks_in
        lists = parse_attributes(parse_attributes(statistics, 0).get(outer, b""), 0)
        parts = [parse_attributes(queue, 0).get(inner, bytes(4)) for queue in lists.values()]
        offsets = (0,)
    if any(len(part) < max(offsets) + 4 for part in parts):
        raise ValueError(
            f"qdisc {name}: this kernel's statistics of it have {len(statistics)} bytes, and no"
            f" marks where {origin_of(declaration)} says (marks_at, marks_in)"
        )
    return sum(
        int(struct.unpack_from("=I", part, part_offset)[0])
        for part in parts
        for part_offset in offsets
    )


class QdiscStatistics(NamedTuple):
    """The statistics of a root qdisc, as queues.jsonl has them."""

    backlog_bytes: int
    backlog_pkts: int
    drops: int
    sent_bytes: int
    sent_pkts: int
    marks: int | None = None  # packets marked by the root and those under it; None: none can mark


@dataclass(frozen=True, slots=True)
class QdiscLayout:
    """Represent the offsets in a qdisc's message: one layout for each qdisc of a namespace."""

    fixed: FixedParts
    name: str
    can_mark: bool
    basic_at: int | None
    wide_pkts_at: int | None  # packets in 64 bits
    queue_at: int | None
    application: slice

    @classmethod
    def of(cls, body: bytes) -> Self:
        """Return the layout of a message."""
        fixed: list[tuple[int, int]] = []
        name, begins, application = "?", dict[int, int](), slice(0, 0)
        for attribute_type, begin, end in attribute_positions(body, 20, len(body)):
            fixed.append((begin - 4, begin))
            if attribute_type == TCA_KIND:
                fixed[-1] = (begin - 4, end)
                name = text_of(body[begin:end])
            elif attribute_type == TCA_STATS2:
                for inner, inner_begin, inner_end in attribute_positions(body, begin, end):
                    fixed.append((inner_begin - 4, inner_begin))
                    begins[inner] = inner_begin
                    if inner == TCA_STATS_APP:
                        application = slice(inner_begin, inner_end)
        return cls(
            FixedParts.of(body, fixed),
            name,
            name in marking_kinds(),
            begins.get(TCA_STATS_BASIC),
            begins.get(TCA_STATS_PKT64),
            begins.get(TCA_STATS_QUEUE),
            application,
        )

    def read(self, body: bytes, marks: int | None) -> QdiscStatistics:
        """Return the statistics of a root qdisc, given the marks of all qdiscs there."""
        sent_bytes, sent_pkts, backlog_pkts, backlog_bytes, drops = 0, 0, 0, 0, 0
        if self.basic_at is not None:
            sent_bytes, sent_pkts = BASIC.unpack_from(body, self.basic_at)
        if self.wide_pkts_at is not None:
            sent_pkts = struct.unpack_from("=Q", body, self.wide_pkts_at)[0]
        if self.queue_at is not None:
            backlog_pkts, backlog_bytes, drops = QUEUE.unpack_from(body, self.queue_at)
        return QdiscStatistics(backlog_bytes, backlog_pkts, drops, sent_bytes, sent_pkts, marks)


TC_MESSAGE = struct.Struct("=4xi4xI4x")  # struct tcmsg: the interface and the parent
TCA_KIND, TCA_STATS2 = 1, 7
TCA_STATS_BASIC, TCA_STATS_QUEUE, TCA_STATS_APP, TCA_STATS_PKT64 = 1, 3, 4, 8
BASIC, QUEUE = (
    struct.Struct("=QI"),
    struct.Struct("=3I"),
)  # sent bytes, packets; qlen, backlog, drops
TC_H_ROOT = 0xFFFFFFFF
# the latest layout by the length of the message, and the interface and the handle in it
_qdisc_layouts: dict[tuple[int, bytes], QdiscLayout] = {}


def read_qdisc_statistics(
    link: socket.socket, interfaces: Container[int] | None = None
) -> dict[int, QdiscStatistics]:
    """Return the statistics of the root qdiscs of a namespace, by interface index.

    interfaces: the indexes to read; None: all.
    """
    roots: dict[int, tuple[QdiscLayout, bytes]] = {}
    marked: dict[int, int] = {}
    for body in _dump(link, RTM_GETQDISC, bytes(20)):
        ifindex, parent = TC_MESSAGE.unpack_from(body)
        if interfaces is not None and ifindex not in interfaces:
            continue
        key = len(body), body[4:12]
        layout = _qdisc_layouts.get(key)
        if layout is None or not layout.fixed.are_in(body):
            layout = _qdisc_layouts[key] = QdiscLayout.of(body)
        if layout.can_mark:
            marks = marks_of(layout.name, body[layout.application])
            marked[ifindex] = marked.get(ifindex, 0) + (marks or 0)
        if parent == TC_H_ROOT:
            roots[ifindex] = layout, body
    return {
        ifindex: layout.read(body, marked.get(ifindex)) for ifindex, (layout, body) in roots.items()
    }


# What netem of Linux 7.3 counts (struct tc_netem_xstats), each in 64 bits.
NETEM_COUNTS = ("delayed", "dropped", "corrupted", "duplicated", "reordered", "ecn_marked")


def read_netem_counts(link: socket.socket) -> dict[int, dict[str, int]]:
    """Return the counts of every netem at a root of a namespace, by interface index.

    An older kernel counts reordered packets alone, as those that were queued again.
    """
    counts_by_index: dict[int, dict[str, int]] = {}
    for body in _dump(link, RTM_GETQDISC, bytes(20)):
        _family, ifindex, _handle, parent, _info = struct.unpack_from("=BxxxiIII", body)
        attributes = parse_attributes(body, 20)
        if parent != 0xFFFFFFFF or attributes.get(1, b"").rstrip(b"\0") != b"netem":
            continue
        statistics = parse_attributes(attributes.get(7, b""), 0)  # TCA_STATS2
        sent_pkts = struct.unpack_from("=QI", statistics.get(1, bytes(16)))[1]
        queue = struct.unpack_from("=4I", statistics.get(3, bytes(20)))  # TCA_STATS_QUEUE
        backlog_pkts, _backlog, drops, requeues = queue
        counts = {
            "sent_pkts": sent_pkts,
            "backlog_pkts": backlog_pkts,
            "drops": drops,
            "reordered": requeues,
        }
        qdisc_stats = statistics.get(4, b"")  # TCA_STATS_APP
        if len(qdisc_stats) >= 8 * len(NETEM_COUNTS):
            counts |= zip(NETEM_COUNTS, struct.unpack_from("=6Q", qdisc_stats), strict=True)
        counts_by_index[ifindex] = counts
    return counts_by_index
