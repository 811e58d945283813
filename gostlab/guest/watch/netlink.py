"""The kernel's own view of sockets and queues, asked by netlink from one process.

A socket keeps the namespace it was opened in, so one process holds a netlink socket per node and
reads every node without starting a command: cheap enough for a sample every few milliseconds.
Layouts are those of <linux/inet_diag.h>, <linux/tcp.h> (struct tcp_info, append-only) and
<linux/pkt_sched.h>.
"""

import os
import socket
import struct
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cache
from typing import NamedTuple

from gostlab.declared.qdiscs import marking_kinds
from gostlab.guest.namespaces import inside

NETLINK_ROUTE, NETLINK_SOCK_DIAG = 0, 4
NLM_F_REQUEST, NLM_F_DUMP = 1, 0x300
NLMSG_ERROR, NLMSG_DONE = 2, 3
TCPDIAG_GETSOCK, SOCK_DIAG_BY_FAMILY = 18, 20
RTM_GETLINK, RTM_GETQDISC = 18, 38
SKNLGRP_INET_TCP_DESTROY = 1
SKNLGRP_INET6_TCP_DESTROY = 3
INET_DIAG_INFO, INET_DIAG_VEGASINFO, INET_DIAG_CONG, INET_DIAG_BBRINFO = 2, 3, 4, 16
TCP_ESTABLISHED, TCP_LISTEN = 1, 10
# Everything that can still carry or owe data; not LISTEN, CLOSE or TIME_WAIT (which has no
# tcp_info).
LIVE_STATES = sum(1 << state for state in (1, 2, 3, 4, 5, 8, 9, 11))
# struct inet_diag_req, by which one dump tells of both families: the newer one asks for each.
OF_ALL_FAMILIES = struct.pack(
    "=3xB48xII",
    1 << (INET_DIAG_INFO - 1) | 1 << (INET_DIAG_VEGASINFO - 1) | 1 << (INET_DIAG_CONG - 1),
    LIVE_STATES,
    0,
)
BBR_UNIT = 256  # tcp_bbr_info: gains are fractions of 256
INFINITE_SSTHRESH = 0x7FFFFFFF
TCP_INFO = struct.Struct("=8x24I4Q6I4Q2I20x3I")  # struct tcp_info, as far as it is read here
SENDING = struct.Struct("=16xI4xI16xI20xI48xQ20xI4xI8xQ")  # and of that, what Sending has
NO_MIN_RTT = 0xFFFFFFFF


class Sending(NamedTuple):
    """What is asked of every socket at every sample, as tcp_info has it: of most, no more is."""

    mss: int
    unacked_pkts: int
    since_sent_ms: int  # when it last sent data
    srtt_us: int
    bytes_acked: int
    min_rtt_us: int
    data_segments_out: int
    busy_us: int

    @property
    def bytes_out(self) -> int:
        """What it has sent, or a little more: its last segments may be smaller than the others."""
        return self.bytes_acked + self.unacked_pkts * self.mss


@dataclass(frozen=True)
class TcpSocket:
    """One TCP socket as tcp_info has it: addresses "ip:port", counters since it was opened."""

    local: str
    peer: str
    state: int
    cc: str | None
    cwnd_pkts: int
    ssthresh_pkts: int | None
    srtt_ms: float
    rttvar_ms: float
    min_rtt_ms: float | None
    rto_ms: float
    mss: int
    unacked_pkts: int
    pacing_rate_bps: int | None
    delivery_rate_bps: int
    bytes_acked: int
    bytes_received: int
    segments_out: int
    data_segments_out: int
    segments_retransmitted: int
    lost_pkts: int
    reordering: int
    reord_seen: int
    busy_ms: float
    since_sent_ms: int  # when it last sent data
    rwnd_limited_ms: float
    sndbuf_limited_ms: float
    delivered_pkts: int
    marked_pkts: int  # of those, that carried a mark, as the other end says
    snd_wnd_bytes: int
    bbr_bw_bps: int | None
    bbr_min_rtt_ms: float | None
    bbr_pacing_gain: float | None
    bbr_cwnd_gain: float | None

    @property
    def local_port(self) -> int:
        return int(self.local.rpartition(":")[2])

    @property
    def peer_port(self) -> int:
        return int(self.peer.rpartition(":")[2])


class Qdisc(NamedTuple):
    """A root qdisc's statistics."""

    ifindex: int
    kind: str
    sent_bytes: int
    sent_pkts: int
    drops: int
    overlimits: int
    backlog_bytes: int
    backlog_pkts: int
    marks: int | None = None  # of it and what stands under it; None: nothing there can mark


def open_in(pid: int, protocol: int, groups: int = 0) -> socket.socket:
    """A netlink socket in the network namespace of a process. Raises OSError."""
    with inside(pid):
        opened = socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, protocol)
        opened.bind((0, groups))
    return opened


def _messages(data: bytes) -> Iterator[tuple[int, bytes]]:
    at = 0
    while at + 16 <= len(data):
        length, kind = struct.unpack_from("=IH", data, at)
        if length < 16:
            return
        yield kind, data[at + 16 : at + length]
        at += (length + 3) & ~3


def attributes_of(data: bytes, at: int) -> dict[int, bytes]:
    found: dict[int, bytes] = {}
    while at + 4 <= len(data):
        length, kind = struct.unpack_from("=HH", data, at)
        if length < 4:
            break
        found[kind & 0x3FFF] = data[at + 4 : at + length]
        at += (length + 3) & ~3
    return found


def _dump(link: socket.socket, kind: int, body: bytes) -> Iterator[bytes]:
    """Send a dump request and yield the answer's bodies. Raises OSError if the kernel refuses."""
    link.send(struct.pack("=IHHII", 16 + len(body), kind, NLM_F_REQUEST | NLM_F_DUMP, 1, 0) + body)
    while True:
        for answer, payload in _messages(link.recv(1 << 18)):
            if answer == NLMSG_DONE:
                return
            if answer == NLMSG_ERROR:
                number = -struct.unpack_from("=i", payload)[0]
                raise OSError(number, os.strerror(number), "netlink")
            yield payload


@dataclass(slots=True)
class SocketMessage:
    """An inet_diag_msg with its tcp_info."""

    body: bytes
    attributes: dict[int, bytes]

    @property
    def identity(self) -> bytes:
        """The socket's ports and addresses."""
        return self.body[4:40]

    @property
    def cc(self) -> str | None:
        name = self.attributes.get(INET_DIAG_CONG)
        return name.rstrip(b"\0").decode() if name else None

    @property
    def sending(self) -> Sending:
        return Sending._make(SENDING.unpack_from(self.attributes[INET_DIAG_INFO]))


def tcp_sockets(link: socket.socket) -> Iterator[SocketMessage]:
    """Every live TCP socket of a namespace (dual-stack listeners have IPv4 peers as IPv6)."""
    return socket_messages(_dump(link, TCPDIAG_GETSOCK, OF_ALL_FAMILIES))


def socket_messages(bodies: Iterable[bytes]) -> Iterator[SocketMessage]:
    """Those that have a tcp_info: not a listener's, nor a time-wait's."""
    for body in bodies:
        attributes = attributes_of(body, 72)
        if INET_DIAG_INFO in attributes and body[1] != TCP_LISTEN:
            yield SocketMessage(body, attributes)


def parse_tcp_socket(message: SocketMessage) -> TcpSocket:
    """All that a message tells of its socket."""
    body, attributes = message.body, message.attributes
    family, state = body[0], body[1]
    local_port, peer_port = struct.unpack_from("!HH", body, 4)
    (
        rto_us,
        _ato,
        snd_mss,
        _rcv_mss,
        unacked,
        _sacked,
        lost,
        _retrans,
        _fackets,
        since_sent_ms,
        _last_ack_sent,
        _last_recv,
        _last_ack,
        _pmtu,
        _rcv_ssthresh,
        srtt_us,
        rttvar_us,
        ssthresh,
        cwnd,
        _advmss,
        reordering,
        _rcv_rtt,
        _rcv_space,
        total_retrans,
        pacing,
        _max_pacing,
        bytes_acked,
        bytes_received,
        segs_out,
        _segs_in,
        _notsent,
        min_rtt_us,
        _data_in,
        data_out,
        delivery,
        busy_us,
        rwnd_us,
        sndbuf_us,
        delivered,
        delivered_ce,
        reord_seen,
        _out_of_order,
        snd_wnd,
    ) = TCP_INFO.unpack_from(attributes[INET_DIAG_INFO].ljust(TCP_INFO.size, b"\0"))
    bbr_bw = bbr_min_rtt = bbr_pacing = bbr_cwnd = None
    bbr = attributes.get(INET_DIAG_BBRINFO)
    if bbr is not None and len(bbr) >= 20:
        low, high, min_rtt, pacing_gain, cwnd_gain = struct.unpack_from("=5I", bbr)
        bbr_bw, bbr_min_rtt = (high << 32 | low) * 8, min_rtt / 1000
        bbr_pacing, bbr_cwnd = pacing_gain / BBR_UNIT, cwnd_gain / BBR_UNIT
    parsed = object.__new__(TcpSocket)
    # As TcpSocket(...) does, by one call and not one for each field: half of what parsing takes.
    vars(parsed).update(
        local=f"{_address(family, body[8:24])}:{local_port}",
        peer=f"{_address(family, body[24:40])}:{peer_port}",
        state=state,
        cc=message.cc,
        cwnd_pkts=cwnd,
        ssthresh_pkts=None if ssthresh >= INFINITE_SSTHRESH else ssthresh,
        srtt_ms=srtt_us / 1000,
        rttvar_ms=rttvar_us / 1000,
        min_rtt_ms=None if min_rtt_us == NO_MIN_RTT else min_rtt_us / 1000,
        rto_ms=rto_us / 1000,
        mss=snd_mss,
        unacked_pkts=unacked,
        pacing_rate_bps=None if pacing == (1 << 64) - 1 else pacing * 8,
        delivery_rate_bps=delivery * 8,
        bytes_acked=bytes_acked,
        bytes_received=bytes_received,
        segments_out=segs_out,
        data_segments_out=data_out,
        segments_retransmitted=total_retrans,
        lost_pkts=lost,
        reordering=reordering,
        reord_seen=reord_seen,
        busy_ms=busy_us / 1000,
        since_sent_ms=since_sent_ms,
        rwnd_limited_ms=rwnd_us / 1000,
        sndbuf_limited_ms=sndbuf_us / 1000,
        delivered_pkts=delivered,
        marked_pkts=delivered_ce,
        snd_wnd_bytes=snd_wnd,
        bbr_bw_bps=bbr_bw,
        bbr_min_rtt_ms=bbr_min_rtt,
        bbr_pacing_gain=bbr_pacing,
        bbr_cwnd_gain=bbr_cwnd,
    )
    return parsed


@cache
def _address(family: int, raw: bytes) -> str:
    """A printable address; an IPv4 address mapped into IPv6 is printed as IPv4."""
    if family == socket.AF_INET:
        return socket.inet_ntop(socket.AF_INET, raw[:4])
    if raw[:12] == b"\0" * 10 + b"\xff\xff":
        return socket.inet_ntop(socket.AF_INET, raw[12:])
    return socket.inet_ntop(socket.AF_INET6, raw)


def watch_closed_sockets(pid: int) -> socket.socket:
    """A socket that receives the last tcp_info of a namespace's TCP sockets as they close."""
    groups = 1 << (SKNLGRP_INET_TCP_DESTROY - 1) | 1 << (SKNLGRP_INET6_TCP_DESTROY - 1)
    link = open_in(pid, NETLINK_SOCK_DIAG, groups)
    # SO_RCVBUFFORCE: a burst of closes must not overflow it
    link.setsockopt(socket.SOL_SOCKET, 33, 1 << 23)
    link.setblocking(False)
    return link


def closed_sockets(link: socket.socket) -> list[SocketMessage]:
    """What has been destroyed since the last call. Raises OSError (ENOBUFS) if some were missed."""
    found: list[SocketMessage] = []
    while True:
        try:
            data = link.recv(1 << 18)
        except BlockingIOError:
            return found
        found += socket_messages(
            body for kind, body in _messages(data) if kind == SOCK_DIAG_BY_FAMILY
        )


def marks_of(name: str, statistics: bytes) -> int | None:
    """The packets that a qdisc marked, from its own statistics, by what its file declares of them;
    None of one that marks none. Raises ValueError for one that does not keep what is declared.
    """
    kind = marking_kinds().get(name)
    if kind is None:
        return None
    parts, at = [statistics], (kind.marks_at, *kind.marks_also)
    if kind.marks_in:
        outer, inner = kind.marks_in
        lists = attributes_of(attributes_of(statistics, 0).get(outer, b""), 0)
        parts, at = [attributes_of(each, 0).get(inner, bytes(4)) for each in lists.values()], (0,)
    if any(len(part) < max(at) + 4 for part in parts):
        raise ValueError(
            f"qdisc {name}: this kernel's statistics of it have {len(statistics)} bytes, and no"
            f" marks where gostlab/guest/qdiscs/{kind.module}.py says (marks_at, marks_in)"
        )
    return sum(int(struct.unpack_from("=I", part, each)[0]) for part in parts for each in at)


def qdiscs(link: socket.socket) -> list[Qdisc]:
    """Every root qdisc of a namespace with its statistics, and what those under it have marked."""
    found: list[Qdisc] = []
    marked: dict[int, int] = {}
    for body in _dump(link, RTM_GETQDISC, bytes(20)):
        _family, ifindex, _handle, parent, _info = struct.unpack_from("=BxxxiIII", body)
        attributes = attributes_of(body, 20)
        statistics = attributes_of(attributes.get(7, b""), 0)  # TCA_STATS2
        kind = attributes.get(1, b"?").rstrip(b"\0").decode()
        marks = marks_of(kind, statistics.get(4, b""))  # TCA_STATS_APP
        if marks is not None:
            marked[ifindex] = marked.get(ifindex, 0) + marks
        if parent != 0xFFFFFFFF:  # TC_H_ROOT
            continue
        sent_bytes, sent_pkts = struct.unpack_from(
            "=QI", statistics.get(1, bytes(16))
        )  # TCA_STATS_BASIC
        if 8 in statistics:  # TCA_STATS_PKT64
            sent_pkts = struct.unpack_from("=Q", statistics[8])[0]
        qlen, backlog, drops, _requeues, overlimits = struct.unpack_from(
            "=5I", statistics.get(3, bytes(20))
        )  # TCA_STATS_QUEUE
        found.append(
            Qdisc(
                ifindex=ifindex,
                kind=kind,
                sent_bytes=sent_bytes,
                sent_pkts=sent_pkts,
                drops=drops,
                overlimits=overlimits,
                backlog_bytes=backlog,
                backlog_pkts=qlen,
            )
        )
    return [
        qdisc._replace(marks=marked[qdisc.ifindex]) if qdisc.ifindex in marked else qdisc
        for qdisc in found
    ]


def interface_index(link: socket.socket, name: str) -> int:
    """The index of an interface, by a route socket of its namespace. Raises KeyError."""
    for body in _dump(link, RTM_GETLINK, bytes(16)):
        if attributes_of(body, 16).get(3, b"").rstrip(b"\0").decode() == name:  # IFLA_IFNAME
            return int(struct.unpack_from("=i", body, 4)[0])
    raise KeyError(name)
