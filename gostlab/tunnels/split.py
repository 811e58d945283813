# SPDX-License-Identifier: MIT
"""Run a forwarder at each end, without encryption, framing or handshake.

Only the splitting of the connection remains of a tunnel: near and far end accept, connect onward
and copy. The lab's relay and a real GOST both do it, with the same arguments.
"""

from gostlab.guest.tunnel_context import Tunnel, TunnelLaunch
from gostlab.registry.tunnels import CHAIN_LEGS, GOST, TunnelKind
from gostlab.tunnels._forwarder_legs import forwarder_legs
from gostlab.tunnels.gost import ENVIRON

TUNNEL = TunnelKind(
    name="split", says="split connections, nothing else", program=GOST, chain=CHAIN_LEGS
)


def start(launch: TunnelLaunch) -> Tunnel:
    """Start both ends, as in `gost -L tcp://:443/HOST:443`. Raises TunnelError."""
    address, port = launch.sink
    for node in reversed(launch.nodes):
        is_far = node == launch.far
        target = f"{address}:{port}" if is_far else f"{launch.next_address(node)}:{launch.port}"
        launch.start_end(
            node, [launch.program_path, "-L", f"tcp://:{launch.port}/{target}"], environ=ENVIRON
        )
        launch.wait_until_listening(node, launch.port)
    return forwarder_legs(launch)
