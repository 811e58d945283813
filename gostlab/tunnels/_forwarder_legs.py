# SPDX-License-Identifier: MIT
"""Describe the TCP connections that a stream through a forwarder consists of."""

from gostlab.guest.host_config import leg_hosts
from gostlab.guest.tunnel_context import LOOPBACK, Tunnel, TunnelLaunch, TunnelLeg, direct_entries


def forwarder_legs(launch: TunnelLaunch) -> Tunnel:
    """Return the entries and legs of a forwarder.

    The application connects to the near end on its own node, the near end to the far end, and the
    far end to the sink; a chain adds the connections of its middle. All ends listen on the pair's
    port.
    """
    legs: list[TunnelLeg] = []
    flows = {flow.name: flow for flow in launch.flows}
    for flow in map(flows.__getitem__, launch.carried_flows):
        ports = {
            "app": launch.entry_port(flow.name),
            "join": launch.join_port,
            "exit": launch.sink_of(flow.name)[1],
        }
        legs += [
            TunnelLeg(leg, near, far, ports.get(leg, launch.port), near == far, flow.name)
            for leg, near, far in leg_hosts(launch.run, flow)
            if flow.name == launch.flow or leg in ("app", "exit")
        ]
    entries = {flow: (LOOPBACK, launch.entry_port(flow)) for flow in launch.carried_flows}
    return Tunnel({**direct_entries(launch.network, launch.run), **entries}, tuple(legs))
