# SPDX-License-Identifier: MIT
"""Run the kernel's WireGuard, configured by wg, with a key pair per end made per run."""

from collections.abc import Mapping

from gostlab.guest.tunnel_context import Tunnel, TunnelLaunch
from gostlab.registry.tunnels import TunnelKind
from gostlab.tunnels._vpn import device_of, give_addresses, vpn_legs

TUNNEL = TunnelKind(
    name="wireguard",
    says="WireGuard, by the kernel",
    program="wg",
    unpacked=("wireguard-tools",),
    version_pattern=r"v(\d[\d.]*\d)",
    legs=("inner",),
    over="udp",
    carries=("tcp", "udp"),
    options=("tun_queue",),
    packet_bytes=60,  # IP, UDP, and WireGuard's type, receiver, counter and tag
    mtu_less=80,  # wg-quick's choice, which leaves room for IPv6 outside
)
PORT = 51820
CONFIG = """[Interface]
PrivateKey = {private_key}
ListenPort = {port}

[Peer]
PublicKey = {peer}
AllowedIPs = 0.0.0.0/0
"""


def start(launch: TunnelLaunch) -> Tunnel:
    """Start both devices. Raises TunnelError or NetworkError."""
    port = listen_port(launch)
    ends = {node: f"{launch.network.ip(node)}:{port}" for node in (launch.near, launch.far)}
    make_devices(
        launch, launch.program_path, {launch.near: ends[launch.far], launch.far: ends[launch.near]}
    )
    return vpn_legs(launch)


def listen_port(launch: TunnelLaunch) -> int:
    """Return the UDP port of both devices; each pair has its own."""
    return PORT + launch.number


def make_devices(launch: TunnelLaunch, wg: str, peers: Mapping[str, str]) -> None:
    """Make both devices, bring them up and set their addresses.

    `peers` holds the endpoint that each node sends to first; a node that is not listed learns it.
    Raises TunnelError or NetworkError.
    """
    device = device_of(launch)
    keys = {node: launch.read_output(node, wg, "genkey") for node in (launch.near, launch.far)}
    for node, peer in ((launch.near, launch.far), (launch.far, launch.near)):
        config = CONFIG.format(
            private_key=keys[node],
            peer=launch.read_output(peer, wg, "pubkey", stdin=f"{keys[peer]}\n"),
            port=listen_port(launch),
        )
        if node in peers:
            config += f"Endpoint = {peers[node]}\n"
        path = launch.write_file(f"{node}.conf", config, 0o600)
        launch.on(node, "ip", "link", "add", device, "type", "wireguard")
        launch.on(node, wg, "setconf", device, str(path))
    give_addresses(launch)
