"""gost+wss: GOST's relay over WebSocket with TLS.

GOST's own command lines say relay+wss, and so may an experiment: both names run the same commands.
"""

from __future__ import annotations

from gostlab.declared.tunnels import GOST, TunnelKind
from gostlab.guest.tunnels.gost import start_relay
from gostlab.guest.tunnels.launch import Launch, Tunnel

TUNNEL = TunnelKind(
    name="gost+wss",
    spellings=("relay+wss",),
    says="relay over WebSocket with TLS",
    program=GOST,
    carries=("tcp", "udp"),
)


def start(launch: Launch) -> Tunnel:
    """Both ends. Raises TunnelError."""
    return start_relay(launch, "relay+wss")
