"""How many bytes cross a link for each byte that an application hands to a tunnel, by the formats.

Pure: from what a tunnel declares of its frames. What is counted is the direction of the data, on an
Ethernet link, in full packets and without anything sent twice. Handshakes, keep-alives and the ACKs
of the other direction are left out.
"""

import math
from dataclasses import dataclass

from gostlab.declared.tunnels import TunnelKind

ETHERNET_BYTES = 14  # the header; what the kernel counts of a frame
IP_TCP_BYTES = 20 + 20 + 12  # IPv4 and TCP, with timestamps


@dataclass(frozen=True)
class Wire:
    """What one full packet of data is on the path."""

    payload_bytes: float  # the application's, in one packet of the innermost TCP connection
    link_bytes: float  # that this takes of the link, its headers included

    @property
    def ratio(self) -> float:
        return self.link_bytes / self.payload_bytes


def inner_mtu(kind: TunnelKind, link_mtu: int) -> int:
    """The MTU of a VPN's device, for a link's."""
    return link_mtu - kind.mtu_less


def wire_of(kind: TunnelKind, link_mtu: int) -> Wire:
    """What a tunnel makes of the application's bytes on a link with an MTU."""
    segment = link_mtu - IP_TCP_BYTES
    per_segment = (link_mtu + ETHERNET_BYTES) / segment
    if not kind.is_vpn:
        framed = math.prod(1 + around / most for most, around in kind.frames)
        return Wire(segment, segment * framed * (1 if kind.sent_by else per_segment))
    inside = inner_mtu(kind, link_mtu)
    outside = inside + kind.packet_bytes
    if kind.over == "tcp":
        return Wire(inside - IP_TCP_BYTES, outside * per_segment)
    return Wire(inside - IP_TCP_BYTES, outside + ETHERNET_BYTES)
