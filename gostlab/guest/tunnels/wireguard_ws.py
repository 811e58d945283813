"""wireguard+ws: WireGuard, whose datagrams GOST's relay carries in WebSocket."""

from gostlab.declared.tunnels import GOST, TunnelKind
from gostlab.guest.tunnels.gost import relay_datagrams
from gostlab.guest.tunnels.launch import Launch, Tunnel
from gostlab.guest.tunnels.vpn import vpn_legs, wait_inside
from gostlab.guest.tunnels.wireguard import listen_port, make_devices

TUNNEL = TunnelKind(
    name="wireguard+ws",
    says="WireGuard in GOST's relay over WebSocket",
    program=GOST,
    helpers=("wg",),
    unpacked=("wireguard-tools",),
    legs=("inner", "wan"),
    carries=("tcp", "udp"),
    options=("nagle",),
    one_connection=True,
    charged_as="gost+ws",
    packet_bytes=42,  # WireGuard's 32, the relay's length, WebSocket's header and mask
    mtu_less=80,  # as wireguard has it
)


def start(launch: Launch) -> Tunnel:
    """GOST's ends, then both devices. Raises TunnelError or NetworkError."""
    address, port = relay_datagrams(launch, "relay+ws", listen_port(launch))
    make_devices(launch, launch.helper("wg"), {launch.near: f"{address}:{port}"})
    wait_inside(launch)
    return vpn_legs(launch, launch.port)
