# SPDX-License-Identifier: MIT
"""Run WireGuard whose datagrams GOST's relay carries in WebSocket or in QUIC."""

from gostlab.guest.tunnel_context import Tunnel, TunnelLaunch
from gostlab.registry.tunnels import GOST, QUIC_GO, TunnelKind, tunnel_kind
from gostlab.tunnels._vpn import vpn_legs, wait_inside
from gostlab.tunnels.gost import relay_datagrams
from gostlab.tunnels.wireguard import listen_port, make_devices

TUNNEL = (
    TunnelKind(
        name="wireguard+ws",
        says="WireGuard in GOST's relay over WebSocket",
        program=GOST,
        helpers=("wg",),
        unpacked=("wireguard-tools",),
        legs=("inner", "wan"),
        carries=("tcp", "udp"),
        options=("nagle", "tun_queue"),
        one_connection=True,
        charged_as="gost+ws",
        packet_bytes=42,  # WireGuard's 32, the relay's length, WebSocket's header and mask
        mtu_less=80,  # equal to tunnel wireguard's
    ),
    TunnelKind(
        name="wireguard+quic",
        says="WireGuard in GOST's relay over QUIC",
        program=GOST,
        helpers=("wg",),
        unpacked=("wireguard-tools",),
        legs=("inner",),
        over="udp",
        sent_by=QUIC_GO,
        since="2.11",
        carries=("tcp", "udp"),
        options=("tun_queue",),
        one_connection=True,
        charged_as="gost+quic",
        packet_bytes=170,  # a WireGuard packet and its length do not fit in one QUIC packet
        mtu_less=80,
    ),
)


def start(launch: TunnelLaunch) -> Tunnel:
    """Start GOST's ends, and then both devices. Raises TunnelError or NetworkError."""
    tunnel_type = tunnel_kind(launch.run.tunnel)
    scheme = tunnel_type.charged_as.replace("gost+", "relay+")
    address, port = relay_datagrams(launch, scheme, listen_port(launch))
    make_devices(launch, launch.helper("wg"), {launch.near: f"{address}:{port}"})
    wait_inside(launch)
    return vpn_legs(launch, launch.port if tunnel_type.over == "tcp" else None)
