"""The kinds of tunnel: what each file in gostlab/tunnels/ declares.

A tunnel is one file there: `TUNNEL = TunnelKind(...)` says what it is, `start(launch)` starts it.
Every other place takes the names from here.
"""

import math
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from gostlab.registry.folders import TUNNELS
from gostlab.registry.static_loader import declared_in, one_called

# The program that set-up provides: a real GOST where one is found, else the lab's own relay.
GOST = "gost"
# What controls congestion across the path where a program sends datagrams: the kernel's does not.
QUIC_GO = "quic-go (New Reno)"
KCP = "KCP (a window of its own, no congestion control)"
# The TCP connections that one stream of the application can be made of. A forwarder ends the
# application's and makes two more; a VPN carries packets, so the application's own connection goes
# from end to end inside it.
APP = "app"  # application to the near end
WAN = "wan"  # near end to far end, across the path
EXIT = "exit"  # far end to the sink
INNER = "inner"  # application to sink, inside a VPN
# Of a chain, whose middle end stands between two paths.
WAN2 = "wan2"  # middle end to far end, across the second path
JOIN = "join"  # within the middle, where one program takes it from the path and another goes on
LEGS = (APP, WAN, JOIN, WAN2, EXIT, INNER)
CHAIN_LEGS = (APP, WAN, WAN2, EXIT)  # of a middle end that dials on unasked
JOINED_LEGS = (APP, WAN, JOIN, WAN2, EXIT)  # of one that consists of two ends
DATAGRAM_LEGS = (APP, EXIT)  # of a forwarder whose own connection is in datagrams
# OpenSSH's CHAN_TCP_WINDOW_DEFAULT, and channelWindowSize of golang.org/x/crypto/ssh.
SSH_WINDOWS_BYTES = (2 * 2**20, 2 * 2**20)
# golang.org/x/net/http2: what a server takes before it grants more (MaxUploadBufferPerStream, and
# as much per connection), and a client of each stream (transportDefaultStreamFlow).
HTTP2_WINDOWS_BYTES = (2**20, 4 * 2**20)
HTTP2_CONNECTION_BYTES = (2**20, 2**30)
ETHERNET_BYTES = 14  # the header; what the kernel counts of a frame
IP_TCP_BYTES = 20 + 20 + 12  # IPv4 and TCP, with timestamps


@dataclass(frozen=True)
class TunnelKind:
    """What a tunnel says of itself.

    name  as an experiment writes it
    says  what it is, in a few words, for tables and legends
    """

    name: str
    says: str
    module: str = ""  # the file in gostlab/tunnels/, without .py
    # GOST (found or built by set-up), the name of a program on PATH, or a path; "": no tunnel
    program: str = ""
    helpers: tuple[str, ...] = ()  # further programs that its ends are started with
    packages: tuple[str, ...] = ()  # of Debian's, that its program is in: set-up installs them
    # the same where the machine lacks a program: set-up unpacks them for the lab alone
    unpacked: tuple[str, ...] = ()
    version_words: tuple[str, ...] = ("--version",)  # what prints its version
    version_pattern: str = r"\d+(?:\.\w+)+"  # of what it prints: the first group, or all
    # which TCP connections one stream is made of: app, wan and exit of a forwarder; of a VPN inner,
    # and wan as well where it runs over TCP
    legs: tuple[str, ...] = (APP, WAN, EXIT)
    chain: tuple[str, ...] = ()  # the same over two paths with an end between; (): no chain
    over: str = "tcp"  # what carries it across the path: tcp | udp
    # what controls congestion across the path, if it sends datagrams of its own pace
    sent_by: str = ""
    since: str = ""  # of GOST's: the first version that has it, where the lab's relay has not
    carries: tuple[str, ...] = ("tcp",)  # what the application may send through it: tcp, udp
    # settings that are its own: sndbuf, rcvbuf, tun_queue, nagle, shared, kcp_mode
    options: tuple[str, ...] = ()
    held_by: str = ""  # what of its program's defaults holds its rate, and which settings end that
    # of a forwarder: what frames the data across the path, the innermost first: at most so many
    # bytes, so many around them; over UDP the last is the whole packet with Ethernet's header
    frames: tuple[tuple[int, int], ...] = ()
    # of a VPN: what a packet inside has around it: over UDP all headers from the outer IP's on,
    # over TCP what it adds to the stream
    packet_bytes: int = 0
    mtu_less: int = 0  # of a VPN: by how much its device's MTU is less than the link's
    most_streams: int = 0  # how many of them it carries at once; 0: any number
    one_connection: bool = False  # whether all streams share one across the path
    # what one stream may have in flight by its program's own flow control, bytes from the near end
    # to the far one and back (0: as much as the path holds), and the name of that flow control
    stream_windows: tuple[int, int] = (0, 0)
    connection_windows: tuple[int, int] = (0, 0)  # of all streams of a flow together
    windows_by: str = ""
    spellings: tuple[str, ...] = ()  # further names by which an experiment may ask for it
    charged_as: str = ""  # whose costs in machines/ its ends have; "": its own name's

    @property
    def cost_name(self) -> str:
        """The program under which a machine's table has its costs."""
        return self.charged_as or self.name

    @property
    def is_direct(self) -> bool:
        return not self.program

    @property
    def programs(self) -> tuple[str, ...]:
        """Every program of the machine's, or of Debian's, that it runs."""
        return (self.program, *self.helpers) if self.program not in ("", GOST) else self.helpers

    def legs_over(self, hops: int) -> tuple[str, ...]:
        """Which TCP connections one stream is made of over so many paths in a row."""
        return self.chain if hops > 1 and self.chain else self.legs

    def ends_over(self, hops: int) -> int:
        """How many of so many paths in a row lie between its ends: of a VPN's the first alone."""
        return 1 if self.is_vpn else hops

    @property
    def path_leg(self) -> str:
        """The leg that meets the path by TCP, of a VPN over UDP the inner one; "" for none."""
        return next((leg for leg in (WAN, INNER) if leg in self.legs), "")

    @property
    def is_vpn(self) -> bool:
        """Whether it carries the application's own packets, and ends none of its connections."""
        return INNER in self.legs

    def inner_mtu(self, link_mtu: int) -> int:
        """The MTU of a VPN's device, for a link's."""
        return link_mtu - self.mtu_less

    def wire_ratio(self, link_mtu: int) -> float:
        """How many bytes cross a link for each that an application hands over, by the formats: in
        the direction of the data, on Ethernet, in full packets and without anything sent twice.
        Handshakes, keep-alives and the ACKs of the other direction are left out.
        """
        by_tcp = (link_mtu + ETHERNET_BYTES) / (link_mtu - IP_TCP_BYTES)  # of a byte in a segment
        if not self.is_vpn:
            framed = math.prod(1 + around / most for most, around in self.frames)
            return framed * (1 if self.sent_by else by_tcp)
        inside = self.inner_mtu(link_mtu)
        outside = inside + self.packet_bytes
        on_link = outside * by_tcp if self.over == "tcp" else outside + ETHERNET_BYTES
        return on_link / (inside - IP_TCP_BYTES)

    @property
    def wrong(self) -> str:
        """What of it no tunnel can have; "" if nothing."""
        for leg in (*self.legs, *self.chain):
            if leg not in LEGS:
                return f"legs: {leg!r} is none of {', '.join(LEGS)}"
        if self.program and self.over not in ("tcp", "udp"):
            return f"over: {self.over!r} is neither tcp nor udp"
        if self.over == "tcp" and WAN not in self.legs:
            return f"it runs over tcp, and has no leg {WAN}"
        if self.program and not self.path_leg and not self.sent_by:
            return "no TCP crosses the path: sent_by must say what sends there"
        return ""


def gost_relay(transport: str, **said: Any) -> TunnelKind:
    """GOST's relay over one of its transports; what is said is TunnelKind's, the rest follows."""
    legs: dict[str, Any] = {"chain": CHAIN_LEGS}
    if said.get("over") == "udp":
        legs = {"legs": DATAGRAM_LEGS, "chain": DATAGRAM_LEGS}
    usual: dict[str, Any] = {
        "name": f"gost+{transport}",
        "spellings": (f"relay+{transport}",),
        "program": GOST,
        "carries": ("tcp", "udp"),
        "options": ("shared",) if said.get("one_connection") else ("nagle",),
        **legs,
    }
    return TunnelKind(**{**usual, **said})


@cache
def tunnel_kinds(folder: Path = TUNNELS) -> dict[str, TunnelKind]:
    """Every tunnel by each of its names, direct first. Raises BadInput for half a declaration."""
    kinds = declared_in(folder, "TUNNEL", TunnelKind, "start", globals())
    return dict(sorted(kinds.items(), key=lambda pair: not pair[1].is_direct))


def tunnel_kind(name: str) -> TunnelKind:
    """The tunnel of a name. Raises BadInput if there is none."""
    return one_called(name, tunnel_kinds(), "tunnel")


def tunnel_packages() -> tuple[str, ...]:
    return tuple(
        dict.fromkeys(package for kind in tunnel_kinds().values() for package in kind.packages)
    )
