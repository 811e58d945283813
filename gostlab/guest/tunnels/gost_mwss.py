"""gost+mwss: GOST's relay over one WebSocket with TLS that all streams share (smux, version 1)."""

from gostlab.declared.tunnels import CHAIN_LEGS, GOST, TunnelKind
from gostlab.guest.tunnels.gost import start_relay
from gostlab.guest.tunnels.launch import Launch, Tunnel

TUNNEL = TunnelKind(
    name="gost+mwss",
    spellings=("relay+mwss",),
    says="relay over WebSocket with TLS, multiplexed",
    program=GOST,
    carries=("tcp", "udp"),
    chain=CHAIN_LEGS,
    options=("nagle", "shared"),
    one_connection=True,
    frames=((32768, 8), (4096, 8), (4104, 22)),  # and each of those in a TLS 1.3 record
)


def start(launch: Launch) -> Tunnel:
    """Both ends. Raises TunnelError."""
    return start_relay(launch, "relay+mwss")
