"""gost+tcp: GOST's relay over plain TCP: its protocol without encryption and without WebSocket."""

from gostlab.declared.tunnels import CHAIN_LEGS, GOST, TunnelKind
from gostlab.guest.tunnels.gost import start_relay
from gostlab.guest.tunnels.launch import Launch, Tunnel

TUNNEL = TunnelKind(
    name="gost+tcp",
    spellings=("relay+tcp",),
    says="relay over TCP",
    program=GOST,
    carries=("tcp", "udp"),
    chain=CHAIN_LEGS,
    options=("nagle",),
)


def start(launch: Launch) -> Tunnel:
    """Both ends. Raises TunnelError."""
    return start_relay(launch, "relay+tcp")
