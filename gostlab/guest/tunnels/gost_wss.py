"""gost+wss: GOST's relay over WebSocket with TLS.

GOST's own command lines say relay+wss, and so may an experiment: both names run the same commands.
"""

from gostlab.declared.tunnels import CHAIN_LEGS, GOST, TunnelKind
from gostlab.guest.tunnels.gost import start_relay
from gostlab.guest.tunnels.launch import Launch, Tunnel

TUNNEL = TunnelKind(
    name="gost+wss",
    spellings=("relay+wss",),
    says="relay over WebSocket with TLS",
    program=GOST,
    carries=("tcp", "udp"),
    chain=CHAIN_LEGS,
    options=("nagle",),
    frames=((4096, 8), (4104, 22)),  # WebSocket frames, each in a TLS 1.3 record
)


def start(launch: Launch) -> Tunnel:
    """Both ends. Raises TunnelError."""
    return start_relay(launch, "relay+wss")
