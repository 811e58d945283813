"""gost+kcp: GOST's relay over KCP, a reliable stream in datagrams with forward error correction,
multiplexed (smux, version 1).

Without a word GOST 3.2.6 begins with a window of 32 packets: it reads options that nobody gave as
empty ones, which take the place of its defaults. GOST of version 2 and the first ones of version 3
read a file, in place of all defaults; so where anything is asked, everything is said in both forms.
"""

import json

from gostlab.guest.tunnel_context import Launch, Tunnel
from gostlab.registry.tunnels import KCP, gost_relay
from gostlab.tunnels.gost import start_relay

TUNNEL = gost_relay(
    transport="kcp",
    says="relay over KCP",
    over="udp",
    sent_by=KCP,
    one_connection=True,
    since="2.11",
    frames=((10, 3), (32768, 8), (1348, 94)),  # correction, smux, KCP's packet
    held_by="by default its window is 32 packets: any kcp_ setting brings 1024",
    options=("shared", "kcp_mode", "kcp_window", "kcp_parity"),
)
DEFAULTS = {
    "mode": "fast",
    "mtu": 1350,
    "sndwnd": 1024,
    "rcvwnd": 1024,
    "smuxver": 1,
    "smuxbuf": 4194304,
    "streambuf": 2097152,
    "keepalive": 10,
}
IN_FILE_ALONE = {"datashard": 10, "parityshard": 3, "sockbuf": 4194304}
CALLED = {"kcp_mode": ("mode",), "kcp_window": ("sndwnd", "rcvwnd"), "kcp_parity": ("parityshard",)}


def start(launch: Launch) -> Tunnel:
    """Both ends. Raises TunnelError."""
    own = {key: value for name, value in launch.options(*CALLED) for key in CALLED[name]}
    words = ""
    if own:
        asked = {**DEFAULTS, **IN_FILE_ALONE, **own}
        config = launch.write_file("kcp.json", json.dumps(asked, indent=2))
        said = "&".join(f"kcp.{key}={asked[key]}" for key in DEFAULTS)
        words = f"?c={config}&{said}"
    return start_relay(launch, "relay+kcp", words)
