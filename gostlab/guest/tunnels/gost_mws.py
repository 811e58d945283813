"""gost+mws: GOST's relay over one WebSocket, which all streams share (smux, version 1)."""

from gostlab.declared.tunnels import CHAIN_LEGS, GOST, TunnelKind
from gostlab.guest.tunnels.gost import start_relay
from gostlab.guest.tunnels.launch import Launch, Tunnel

TUNNEL = TunnelKind(
    name="gost+mws",
    spellings=("relay+mws",),
    says="relay over WebSocket, multiplexed",
    program=GOST,
    carries=("tcp", "udp"),
    chain=CHAIN_LEGS,
    options=("nagle", "shared"),
    one_connection=True,
    frames=((32768, 8), (4096, 8)),  # smux in WebSocket frames
)


def start(launch: Launch) -> Tunnel:
    """Both ends. Raises TunnelError."""
    return start_relay(launch, "relay+mws")
