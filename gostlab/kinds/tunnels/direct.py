"""direct: no tunnel, each flow's own connections cross the WAN."""

from gostlab.declared.tunnels import TunnelKind
from gostlab.guest.launch import Launch, Leg, Tunnel, direct_entries

TUNNEL = TunnelKind(name="direct", says="no tunnel", legs=("wan",), over="", carries=("tcp", "udp"))


def start(launch: Launch) -> Tunnel:
    """Nothing to start: the entries are the sinks."""
    entries = direct_entries(launch.network, launch.run)
    legs = tuple(
        Leg("wan", flow.sender, flow.receiver, entries[flow.name][1], flow=flow.name)
        for flow in launch.run.flows
        if flow.is_tcp
    )
    return Tunnel(entries, legs)
