"""openvpn+udp: OpenVPN over UDP."""

from gostlab.declared.tunnels import TunnelKind
from gostlab.guest.tunnels.launch import Launch, Tunnel
from gostlab.guest.tunnels.openvpn import start_openvpn

TUNNEL = TunnelKind(
    name="openvpn+udp",
    says="OpenVPN over UDP",
    program="openvpn",
    helpers=("openssl",),
    unpacked=("openvpn", "openssl"),
    legs=("inner",),
    over="udp",
    carries=("tcp", "udp"),
    options=("sndbuf", "rcvbuf"),
    charged_as="openvpn",
    packet_bytes=52,  # IP, UDP, opcode and peer, packet's number, tag
    mtu_less=52,
)


def start(launch: Launch) -> Tunnel:
    """Both ends. Raises TunnelError or NetworkError."""
    return start_openvpn(launch, "udp")
