"""gost+ws: GOST's relay over WebSocket.

GOST's own command lines say relay+ws, and so may an experiment: both names run the same commands.
"""

from gostlab.declared.tunnels import CHAIN_LEGS, GOST, TunnelKind
from gostlab.guest.tunnels.gost import start_relay
from gostlab.guest.tunnels.launch import Launch, Tunnel

TUNNEL = TunnelKind(
    name="gost+ws",
    spellings=("relay+ws",),
    says="relay over WebSocket",
    program=GOST,
    carries=("tcp", "udp"),
    chain=CHAIN_LEGS,
    options=("nagle",),
    frames=((4096, 8),),  # WebSocket frames from the client: header, length, mask
)


def start(launch: Launch) -> Tunnel:
    """Both ends. Raises TunnelError."""
    return start_relay(launch, "relay+ws")
