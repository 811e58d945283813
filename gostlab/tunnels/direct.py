# SPDX-License-Identifier: MIT
"""Use no tunnel: each flow's own connections cross the WAN."""

from gostlab.guest.tunnel_context import Tunnel, TunnelLaunch, TunnelLeg, direct_entries
from gostlab.registry.tunnels import TunnelKind

TUNNEL = TunnelKind(name="direct", says="no tunnel", legs=("wan",), over="", carries=("tcp", "udp"))


def start(launch: TunnelLaunch) -> Tunnel:
    """Return the sinks as entries; nothing is started."""
    entries = direct_entries(launch.network, launch.run)
    legs = tuple(
        TunnelLeg("wan", flow.sender, flow.receiver, entries[flow.name][1], flow=flow.name)
        for flow in launch.run.flows
        if flow.is_tcp
    )
    return Tunnel(entries, legs)
