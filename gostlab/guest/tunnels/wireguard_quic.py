"""wireguard+quic: WireGuard, whose datagrams GOST's relay carries in QUIC."""

from gostlab.declared.tunnels import GOST, QUIC_GO, TunnelKind
from gostlab.guest.tunnels.gost import relay_datagrams
from gostlab.guest.tunnels.launch import Launch, Tunnel
from gostlab.guest.tunnels.vpn import vpn_legs, wait_inside
from gostlab.guest.tunnels.wireguard import listen_port, make_devices

TUNNEL = TunnelKind(
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
    one_connection=True,
    charged_as="gost+quic",
    packet_bytes=170,  # with its length it does not fit in one packet of QUIC
    mtu_less=80,  # as wireguard has it
)


def start(launch: Launch) -> Tunnel:
    """GOST's ends, then both devices. Raises TunnelError or NetworkError."""
    address, port = relay_datagrams(launch, "relay+quic", listen_port(launch))
    make_devices(launch, launch.helper("wg"), {launch.near: f"{address}:{port}"})
    wait_inside(launch)
    return vpn_legs(launch)
