"""wireguard: the kernel's own, configured by wg, with a pair of keys for each end made per run."""

from gostlab.declared.tunnels import TunnelKind
from gostlab.guest.tunnels.launch import Launch, Tunnel
from gostlab.guest.tunnels.vpn import device_of, give_addresses, vpn_legs

TUNNEL = TunnelKind(
    name="wireguard",
    says="WireGuard, by the kernel",
    program="wg",
    unpacked=("wireguard-tools",),
    version_pattern=r"v(\d[\d.]*\d)",
    legs=("inner",),
    over="udp",
    carries=("tcp", "udp"),
    packet_bytes=60,  # IP, UDP, and WireGuard's type, receiver, counter and tag
    mtu_less=80,  # as wg-quick, which allows for IPv6 below
)
PORT = 51820
CONFIG = """[Interface]
PrivateKey = {own}
ListenPort = {port}

[Peer]
PublicKey = {peer}
AllowedIPs = 0.0.0.0/0
Endpoint = {address}:{port}
"""


def start(launch: Launch) -> Tunnel:
    """Both devices. Raises TunnelError or NetworkError."""
    wg, device, listen = launch.program_path, device_of(launch), PORT + launch.number
    keys = {node: launch.ask(node, wg, "genkey") for node in (launch.near, launch.far)}
    for node, peer in ((launch.near, launch.far), (launch.far, launch.near)):
        config = CONFIG.format(
            own=keys[node],
            peer=launch.ask(peer, wg, "pubkey", stdin=f"{keys[peer]}\n"),
            address=launch.network.ip(peer),
            port=listen,
        )
        path = launch.write_file(f"{node}.conf", config, 0o600)
        launch.on(node, "ip", "link", "add", device, "type", "wireguard")
        launch.on(node, wg, "setconf", device, str(path))
    give_addresses(launch)
    return vpn_legs(launch)
