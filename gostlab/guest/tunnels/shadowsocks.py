"""shadowsocks: ss-tunnel at the near end and ss-server at the far one, a connection for each
stream, encrypted by a password made per run.
"""

from __future__ import annotations

import json
from typing import Any

from gostlab.declared.tunnels import TunnelKind
from gostlab.guest.tunnels.launch import LOOPBACK, Launch, Tunnel

TUNNEL = TunnelKind(
    name="shadowsocks",
    says="Shadowsocks (AEAD)",
    program="ss-tunnel",
    helpers=("ss-server", "openssl"),
    unpacked=("shadowsocks-libev", "openssl"),
    version_words=("-h",),
    version_pattern=r"shadowsocks-libev (\d[\d.]*)",
    carries=("tcp", "udp"),
    frames=((16383, 34),),  # AEAD chunks: length and its tag, the chunk's tag
)
METHOD = "chacha20-ietf-poly1305"


def start(launch: Launch) -> Tunnel:
    """Both ends. Raises TunnelError or NetworkError."""
    address, port = launch.sink
    password = launch.ask(launch.near, launch.helper("openssl"), "rand", "-hex", "32")
    ends: dict[str, tuple[str, dict[str, Any]]] = {
        launch.far: (launch.helper("ss-server"), {"server": "0.0.0.0"}),
        launch.near: (
            launch.program_path,
            {
                "server": launch.far_address,
                "local_address": LOOPBACK,
                "local_port": launch.port,
                "tunnel_address": f"{address}:{port}",
            },
        ),
    }
    for node, (program, own) in ends.items():
        config = {
            **own,
            "server_port": launch.port,
            "password": password,
            "method": METHOD,
            "mode": "tcp_and_udp",
        }
        path = launch.write_file(f"{node}.json", json.dumps(config, indent=1) + "\n", 0o600)
        launch.start_end(node, [program, "-c", str(path)])
        launch.wait_until_listening(node, launch.port)
    return launch.three_legs()
