# SPDX-License-Identifier: MIT
"""Run OpenVPN over UDP, or over TCP (TCP inside TCP): one peer at each end.

TLS uses certificates made per run.
"""

from collections.abc import Mapping

from gostlab.guest.tunnel_context import Tunnel, TunnelLaunch
from gostlab.registry.tunnels import TunnelKind, tunnel_kind
from gostlab.tunnels._vpn import (
    device_of,
    inner_addresses,
    route_behind_gateway,
    vpn_legs,
    wait_inside,
)
from gostlab.tunnels.certificate import make_certificate

TUNNEL = (
    TunnelKind(
        name="openvpn+udp",
        says="OpenVPN over UDP",
        program="openvpn",
        helpers=("openssl",),
        unpacked=("openvpn", "openssl"),
        legs=("inner",),
        over="udp",
        carries=("tcp", "udp"),
        options=("sndbuf", "rcvbuf", "tun_queue"),
        charged_as="openvpn",
        packet_bytes=52,  # IP, UDP, opcode and peer ID, packet ID, tag
        mtu_less=52,
    ),
    TunnelKind(
        name="openvpn+tcp",
        says="OpenVPN over TCP",
        program="openvpn",
        helpers=("openssl",),
        unpacked=("openvpn", "openssl"),
        legs=("inner", "wan"),
        carries=("tcp", "udp"),
        options=("sndbuf", "rcvbuf", "tun_queue"),
        one_connection=True,
        charged_as="openvpn",
        packet_bytes=26,  # length, opcode and peer ID, packet ID, tag
        mtu_less=78,  # one packet inside is one segment outside
    ),
)
CONFIG = """dev {device}
dev-type tun
{transport}
ifconfig {local} {peer}
tun-mtu {mtu}
mssfix 0
{role}
cert {folder}/{node}.crt
key {folder}/{node}.key
peer-fingerprint {fingerprint}
data-ciphers AES-256-GCM
script-security 1
disable-dco
verb 3
{options}"""


def start(launch: TunnelLaunch) -> Tunnel:
    """Start both ends, whose packets fit the link's MTU. Raises TunnelError or NetworkError."""
    over = tunnel_kind(launch.run.tunnel).over
    certificates = {node: make_certificate(launch, node) for node in (launch.near, launch.far)}
    far, inside = launch.far_address, inner_addresses(launch)
    ends: Mapping[str, Mapping[str, str]] = {
        launch.far: {
            "transport": f"proto {over}4{'-server' if over == 'tcp' else ''}\n"
            f"local {far}\nlport {launch.port}",
            "role": "tls-server\ndh none",
            "local": inside.far,
            "peer": inside.near,
        },
        launch.near: {
            "transport": f"proto {over}4{'-client' if over == 'tcp' else ''}\n"
            f"remote {far} {launch.port}\nnobind",
            "role": "tls-client",
            "local": inside.near,
            "peer": inside.far,
        },
    }
    options = "".join(f"{name} {value}\n" for name, value in launch.options("sndbuf", "rcvbuf"))
    for node, fields in ends.items():
        other = launch.far if node == launch.near else launch.near
        launch.write_file(f"{node}.key", certificates[node].key, 0o600)
        launch.write_file(f"{node}.crt", certificates[node].certificate)
        config = CONFIG.format(
            **fields,
            device=device_of(launch),
            mtu=launch.inner_mtu,
            folder=launch.scratch,
            node=node,
            fingerprint=certificates[other].fingerprint,
            options=options,
        )
        path = launch.write_file(f"{node}.ovpn", config)
        listens = over == "tcp" and node == launch.far
        launch.start_end(
            node,
            [launch.program_path, "--config", str(path)],
            port=launch.port if listens else None,
        )
        if node == launch.far:
            launch.wait_until_listening(node, launch.port, over)
    wait_inside(launch)
    route_behind_gateway(launch)
    return vpn_legs(launch, launch.port if over == "tcp" else None)
