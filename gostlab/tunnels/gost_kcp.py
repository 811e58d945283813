# SPDX-License-Identifier: MIT
"""gost+kcp: GOST's relay over KCP, a reliable datagram protocol with forward error correction.

Streams are multiplexed (smux, version 1).

Without options, GOST 3.2.6 begins with a window of 32 packets: it reads options that are not given
as empty ones, which override its defaults. GOST 2 and the first releases of GOST 3 read a file
instead, which replaces all defaults. So if any option is set, all of them are written in both
forms.
"""

import json

from gostlab.guest.tunnel_context import Tunnel, TunnelLaunch
from gostlab.registry.tunnels import KCP, KCP_DEFAULTS, KCP_NAMES, gost_relay, kcp_values
from gostlab.tunnels.gost import start_relay

TUNNEL = gost_relay(
    transport="kcp",
    says="relay over KCP",
    over="udp",
    sent_by=KCP,
    one_connection=True,
    since="2.11",
    frames=((10, 3), (32768, 8), (1348, 94)),  # error correction; smux; KCP packet
    held_by="by default its window is 32 packets: any kcp_ setting brings 1024",
    options=("shared", "kcp_mode", "kcp_window", "kcp_data", "kcp_parity", "kcp_mtu"),
)


def start(launch: TunnelLaunch) -> Tunnel:
    """Start both ends. Raises TunnelError."""
    values = kcp_values(dict(launch.options(*KCP_NAMES)))
    query = ""
    if values:
        config = launch.write_file("kcp.json", json.dumps(values, indent=2))
        kcp_query = "&".join(f"kcp.{key}={values[key]}" for key in KCP_DEFAULTS)
        query = f"?c={config}&{kcp_query}"
    return start_relay(launch, "relay+kcp", query)
