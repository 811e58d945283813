"""openvpn+tcp: OpenVPN over TCP: TCP inside of TCP."""

from gostlab.declared.tunnels import TunnelKind
from gostlab.guest.tunnels.launch import Launch, Tunnel
from gostlab.guest.tunnels.openvpn import start_openvpn

TUNNEL = TunnelKind(
    name="openvpn+tcp",
    says="OpenVPN over TCP",
    program="openvpn",
    helpers=("openssl",),
    unpacked=("openvpn", "openssl"),
    legs=("inner", "wan"),
    over="tcp",
    carries=("tcp", "udp"),
    options=("sndbuf", "rcvbuf"),
    one_connection=True,
    charged_as="openvpn",
    packet_bytes=26,  # length, opcode and peer, packet's number, tag
    mtu_less=78,  # one packet inside is one segment outside
)


def start(launch: Launch) -> Tunnel:
    """Both ends. Raises TunnelError or NetworkError."""
    return start_openvpn(launch, "tcp")
