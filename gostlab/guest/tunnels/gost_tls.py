"""gost+tls: GOST's relay over TLS: what `gost+wss` is without WebSocket."""

from gostlab.declared.tunnels import CHAIN_LEGS, GOST, TunnelKind
from gostlab.guest.tunnels.gost import start_relay
from gostlab.guest.tunnels.launch import Launch, Tunnel

TUNNEL = TunnelKind(
    name="gost+tls",
    spellings=("relay+tls",),
    says="relay over TLS",
    program=GOST,
    carries=("tcp", "udp"),
    chain=CHAIN_LEGS,
    options=("nagle",),
    frames=((16384, 22),),  # TLS 1.3 records: header, type, tag
)


def start(launch: Launch) -> Tunnel:
    """Both ends. Raises TunnelError."""
    return start_relay(launch, "relay+tls")
