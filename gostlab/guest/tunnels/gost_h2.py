"""gost+h2: GOST's relay over HTTP/2 with TLS, streams of one connection.

The end of a stream may overtake what was sent before it, and cut that off.
"""

from gostlab.declared.tunnels import CHAIN_LEGS, GOST, TunnelKind
from gostlab.guest.tunnels.gost import start_relay
from gostlab.guest.tunnels.launch import Launch, Tunnel

TUNNEL = TunnelKind(
    name="gost+h2",
    spellings=("relay+h2",),
    says="relay over HTTP/2 with TLS",
    program=GOST,
    chain=CHAIN_LEGS,
    carries=("tcp", "udp"),
    one_connection=True,
    since="2.11",
    options=("shared",),
)


def start(launch: Launch) -> Tunnel:
    """Both ends. Raises TunnelError."""
    return start_relay(launch, "relay+h2")
