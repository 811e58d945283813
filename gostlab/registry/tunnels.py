# SPDX-License-Identifier: MIT
"""Declare the types of tunnels, from the files in gostlab/tunnels/.

A tunnel is one file: `TUNNEL = TunnelKind(...)` describes it, `start(launch)` starts it. All other
modules get the names from here.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from gostlab.registry.folders import TUNNELS
from gostlab.registry.plugin_loader import PluginDeclaration, declarations_by_name, find_by_name

# The program provided by the installation: a real GOST if one is found, else the bundled relay.
GOST = "gost"
# The congestion control across the path if a program sends datagrams, which the kernel's does not
# control.
QUIC_GO = "quic-go (New Reno)"
KCP = "KCP (a window of its own, no congestion control)"
# The options of KCP in GOST, with its defaults: those that an address may have, and those that only
# a file of options may have; then the options that each setting sets.
KCP_DEFAULTS = {
    "mode": "fast",
    "mtu": 1350,
    "sndwnd": 1024,
    "rcvwnd": 1024,
    "smuxver": 1,
    "smuxbuf": 4194304,
    "streambuf": 2097152,
    "keepalive": 10,
}
KCP_FILE_DEFAULTS = {"datashard": 10, "parityshard": 3, "sockbuf": 4194304}
KCP_NAMES = {
    "kcp_mode": ("mode",),
    "kcp_window": ("sndwnd", "rcvwnd"),
    "kcp_data": ("datashard",),
    "kcp_parity": ("parityshard",),
    "kcp_mtu": ("mtu",),
}
# The TCP connections that one stream of the application may consist of. A forwarder ends the
# application's connection and makes two more; a VPN carries packets, so the application's
# connection goes from end to end inside it.
APP = "app"  # The leg from the application to the near end.
WAN = "wan"  # The leg from the near end to the far end, across the path.
EXIT = "exit"  # The leg from the far end to the sink.
INNER = "inner"  # The leg from application to sink, inside a VPN.
# The further legs of a chain, whose middle end is between two paths.
WAN2 = "wan2"  # The leg from the middle end to the far end, across the second path.
# The leg within the middle, if one program receives from the path and another continues.
JOIN = "join"
LEGS = (APP, WAN, JOIN, WAN2, EXIT, INNER)
CHAIN_LEGS = (APP, WAN, WAN2, EXIT)  # The legs of a chain whose middle end connects by itself.
JOINED_LEGS = (APP, WAN, JOIN, WAN2, EXIT)  # The legs of a chain whose middle consists of two ends.
DATAGRAM_LEGS = (APP, EXIT)  # The legs of a forwarder whose own connection uses datagrams.
# The windows of OpenSSH's CHAN_TCP_WINDOW_DEFAULT, and channelWindowSize of
# golang.org/x/crypto/ssh.
SSH_WINDOWS_BYTES = (2 * 2**20, 2 * 2**20)
# The windows of golang.org/x/net/http2: what a server accepts before it grants more
# (MaxUploadBufferPerStream, and as much per connection), and a client per stream
# (transportDefaultStreamFlow).
HTTP2_WINDOWS_BYTES = (2**20, 4 * 2**20)
HTTP2_CONNECTION_BYTES = (2**20, 2**30)
ETHERNET_BYTES = 14  # The Ethernet header, as far as the kernel counts it.
IP_TCP_BYTES = 20 + 20 + 12  # The headers of IPv4 and TCP, with timestamps.


@dataclass(frozen=True)
class TunnelKind(PluginDeclaration):
    r"""Represent the declaration of a tunnel.

    name  as an experiment writes it
    says  what it is, in a few words, for tables and legends
    """

    name: str
    says: str
    module: str = ""  # The module, in dotted form.
    # GOST (found or built by the installation), the name of a program on PATH, or a path; "" means
    # no tunnel.
    program: str = ""
    # The programs, besides `program`, that its ends are started with.
    helpers: tuple[str, ...] = ()
    # The Debian packages of its program, which the installation installs.
    packages: tuple[str, ...] = ()
    # The Debian packages that the installation unpacks for gostlab alone if the machine lacks a
    # program.
    unpacked: tuple[str, ...] = ()
    # The arguments with which the program prints its version.
    version_words: tuple[str, ...] = ("--version",)
    # The version in the program's output is the first group, or the whole match.
    version_pattern: str = r"\d+(?:\.\w+)+"
    # The TCP connections that one stream consists of: app, wan and exit of a forwarder; inner of a
    # VPN, and wan as well if it runs over TCP.
    legs: tuple[str, ...] = (APP, WAN, EXIT)
    # The legs over two paths with an end between them; () means no chain.
    chain: tuple[str, ...] = ()
    over: str = "tcp"  # The transport across the path: tcp | udp.
    # The congestion control across the path, if the tunnel sends datagrams at its own pace.
    sent_by: str = ""
    since: str = ""  # The first version of GOST that has the tunnel, if the bundled relay lacks it.
    # The protocols that the application may send through the tunnel: tcp, udp.
    carries: tuple[str, ...] = ("tcp",)
    # The settings that are options of the tunnel: sndbuf, rcvbuf, tun_queue, nagle, shared,
    # kcp_mode.
    options: tuple[str, ...] = ()
    # The default of its program that limits the rate, and the settings that lift the limit.
    held_by: str = ""
    # The framing of a forwarder across the path, innermost first: the maximum payload and the
    # overhead, in bytes; over UDP the last frame is the whole packet with Ethernet's header.
    frames: tuple[tuple[int, int], ...] = ()
    # The overhead of a VPN per inner packet: over UDP all headers from the outer IP header on, over
    # TCP what is added to the stream.
    packet_bytes: int = 0
    # The headers of each datagram across the path, from IPv4 on, if the program drops datagrams
    # that exceed the link's MTU with them; 0: it carries datagrams of any length.
    datagram_header_bytes: int = 0
    mtu_less: int = 0  # The difference of the link's MTU and the MTU of a VPN's device.
    most_streams: int = 0  # The maximum number of streams at once; 0 means any number.
    one_connection: bool = False  # Whether all streams share one connection across the path.
    # The data that one stream may have in flight by the program's own flow control, in bytes from
    # the near end to the far end and back (0: unlimited); windows_by names that flow control.
    stream_windows: tuple[int, int] = (0, 0)
    connection_windows: tuple[int, int] = (0, 0)  # The windows of all streams of a flow together.
    windows_by: str = ""
    spellings: tuple[str, ...] = ()  # The aliases by which an experiment may name the tunnel.
    # The tunnel whose costs in machines/ its ends have; "" means the tunnel itself.
    charged_as: str = ""

    @property
    def cost_name(self) -> str:
        """Return the program under which a machine's table has the tunnel's costs."""
        return self.charged_as or self.name

    @property
    def is_direct(self) -> bool:
        return not self.program

    @property
    def programs(self) -> tuple[str, ...]:
        """Return every program of the machine, or of Debian, that the tunnel runs."""
        return (self.program, *self.helpers) if self.program not in ("", GOST) else self.helpers

    def is_relay_spelling(self, name: str) -> bool:
        """Return whether a name of the tunnel, relay+TRANSPORT, asks for the lab's own relay."""
        return self.program == GOST and name in self.spellings

    def legs_over(self, hops: int) -> tuple[str, ...]:
        """Return the TCP connections that one stream consists of over paths in series."""
        return self.chain if hops > 1 and self.chain else self.legs

    def ends_over(self, hops: int) -> int:
        """Return the number of paths between the tunnel's ends; a VPN spans only one."""
        return 1 if self.is_vpn else hops

    @property
    def path_leg(self) -> str:
        """Return the leg that crosses the path by TCP (the inner leg of a VPN over UDP), or ""."""
        return next((leg for leg in (WAN, INNER) if leg in self.legs), "")

    @property
    def is_vpn(self) -> bool:
        """Return whether the tunnel carries the application's packets and ends no connections."""
        return INNER in self.legs

    def inner_mtu(self, link_mtu: int) -> int:
        """Return the MTU of a VPN's device for a link's MTU."""
        return link_mtu - self.mtu_less

    def wire_ratio(self, link_mtu: int) -> float:
        """Return the bytes on a link per byte of the application, computed from the formats.

        The ratio holds in the direction of the data, on Ethernet, for full packets and without
        retransmissions. Handshakes, keep-alives and the ACKs of the other direction are omitted.
        """
        # The ratio of a byte in a TCP segment.
        by_tcp = (link_mtu + ETHERNET_BYTES) / (link_mtu - IP_TCP_BYTES)
        if not self.is_vpn:
            framed = math.prod(1 + overhead / payload for payload, overhead in self.frames)
            return framed * (1 if self.sent_by else by_tcp)
        inner_bytes = self.inner_mtu(link_mtu)
        outer_bytes = inner_bytes + self.packet_bytes
        on_link = outer_bytes * by_tcp if self.over == "tcp" else outer_bytes + ETHERNET_BYTES
        return on_link / (inner_bytes - IP_TCP_BYTES)

    @property
    def wrong(self) -> str:
        """Return a contradiction in the declaration, or ""."""
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


def gost_relay(transport: str, **given: Any) -> TunnelKind:
    """Return the declaration of GOST's relay over a transport; keywords override its defaults."""
    legs: dict[str, object] = {"chain": CHAIN_LEGS}
    if given.get("over") == "udp":
        legs = {"legs": DATAGRAM_LEGS, "chain": DATAGRAM_LEGS}
    defaults: dict[str, object] = {
        "name": f"gost+{transport}",
        "spellings": (f"relay+{transport}",),
        "program": GOST,
        "carries": ("tcp", "udp"),
        "options": ("shared",) if given.get("one_connection") else ("nagle",),
        **legs,
    }
    return TunnelKind(**{**defaults, **given})


def kcp_values(options: Mapping[str, object]) -> dict[str, object]:
    """Return all options of KCP if some tunnel options set one of them, else {}."""
    requested = {
        key: options[name] for name, keys in KCP_NAMES.items() if name in options for key in keys
    }
    return {**KCP_DEFAULTS, **KCP_FILE_DEFAULTS, **requested} if requested else {}


@cache
def tunnel_kinds(folder: Path = TUNNELS) -> dict[str, TunnelKind]:
    """Return every tunnel by each of its names, direct first. Raises BadInput."""
    kinds = declarations_by_name(folder, "TUNNEL", TunnelKind, "start")
    return dict(sorted(kinds.items(), key=lambda pair: not pair[1].is_direct))


def tunnel_kind(name: str) -> TunnelKind:
    """Return the tunnel of a name. Raises BadInput if there is none."""
    return find_by_name(name, tunnel_kinds(), "tunnel")


def tunnel_packages() -> tuple[str, ...]:
    return tuple(
        dict.fromkeys(
            package for declaration in tunnel_kinds().values() for package in declaration.packages
        )
    )
