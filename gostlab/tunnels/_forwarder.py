"""What forwarders share: the connections that a stream through one is made of."""

from gostlab.guest.host_config import leg_hosts
from gostlab.guest.tunnel_context import LOOPBACK, Launch, Tunnel, TunnelLeg, direct_entries


def forwarder_legs(launch: Launch) -> Tunnel:
    """A forwarder: the application connects to the near end on its own node, that to the far
    end, that to the sink, and of a chain its middle's besides. All listen on the pair's port.
    """
    found: list[TunnelLeg] = []
    flows = {flow.name: flow for flow in launch.flows}
    for flow in map(flows.__getitem__, launch.carried_all):
        ports = {
            "app": launch.entry_port(flow.name),
            "join": launch.join_port,
            "exit": launch.sink_of(flow.name)[1],
        }
        found += [
            TunnelLeg(leg, near, far, ports.get(leg, launch.port), near == far, flow.name)
            for leg, near, far in leg_hosts(launch.run, flow)
            if flow.name == launch.flow or leg in ("app", "exit")
        ]
    entries = {flow: (LOOPBACK, launch.entry_port(flow)) for flow in launch.carried_all}
    return Tunnel({**direct_entries(launch.network, launch.run), **entries}, tuple(found))
