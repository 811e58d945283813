# SPDX-License-Identifier: MIT
"""Run Shadowsocks: ss-tunnel at the near end and ss-server at the far end.

Each stream has its own connection, encrypted by a password made per run.
"""

import json
from collections.abc import Mapping

from gostlab.guest.tunnel_context import LOOPBACK, Tunnel, TunnelLaunch
from gostlab.registry.tunnels import JOINED_LEGS, TunnelKind
from gostlab.tunnels._forwarder_legs import forwarder_legs

TUNNEL = TunnelKind(
    name="shadowsocks",
    says="Shadowsocks (AEAD)",
    program="ss-tunnel",
    helpers=("ss-server", "openssl"),
    unpacked=("shadowsocks-libev", "openssl"),
    version_words=("-h",),
    version_pattern=r"shadowsocks-libev (\d[\d.]*)",
    carries=("tcp", "udp"),
    chain=JOINED_LEGS,
    frames=((16383, 34),),  # AEAD chunks: length and its tag, payload's tag
    datagram_header_bytes=28 + 32 + 7 + 16,  # IPv4 and UDP, salt, destination, tag
)
METHOD = "chacha20-ietf-poly1305"


def start(launch: TunnelLaunch) -> Tunnel:
    """Start all ends; the middle of a chain is a server and a client.

    Raises TunnelError or NetworkError.
    """
    address, port = launch.sink
    password = launch.read_output(launch.near, launch.helper("openssl"), "rand", "-hex", "32")
    for position, node in reversed(list(enumerate(launch.nodes))):
        if node != launch.near:
            launch_part(launch, node, "", password, {"server": "0.0.0.0"})
        if node != launch.far:
            into_join = launch.nodes[position + 1] != launch.far
            destination = f"{LOOPBACK}:{launch.join_port}" if into_join else f"{address}:{port}"
            client: dict[str, str | int] = {
                "server": launch.next_address(node),
                "local_address": LOOPBACK,
                "local_port": launch.port if node == launch.near else launch.join_port,
                "tunnel_address": destination,
            }
            part = "" if node == launch.near else "join"
            launch_part(launch, node, part, password, client)
    return forwarder_legs(launch)


def launch_part(
    launch: TunnelLaunch, node: str, part: str, password: str, options: Mapping[str, str | int]
) -> None:
    """Start a server; with a local port a client. Raises TunnelError or NetworkError."""
    config = {
        **options,
        "server_port": launch.port,
        "password": password,
        "method": METHOD,
        "mode": "tcp_and_udp",
    }
    is_client = "local_port" in options
    program = launch.program_path if is_client else launch.helper("ss-server")
    port = int(options["local_port"]) if is_client else launch.port
    name = f"{node}{part and f'-{part}'}.json"
    path = launch.write_file(name, json.dumps(config, indent=1) + "\n", 0o600)
    launch.start_end(node, [program, "-c", str(path)], port=port, part=part)
    launch.wait_until_listening(node, port)
