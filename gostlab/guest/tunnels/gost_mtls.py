"""gost+mtls: GOST's relay over one TLS connection, multiplexed (smux, version 1)."""

from gostlab.declared.tunnels import CHAIN_LEGS, GOST, TunnelKind
from gostlab.guest.tunnels.gost import start_relay
from gostlab.guest.tunnels.launch import Launch, Tunnel

TUNNEL = TunnelKind(
    name="gost+mtls",
    spellings=("relay+mtls",),
    says="relay over TLS, multiplexed",
    program=GOST,
    chain=CHAIN_LEGS,
    carries=("tcp", "udp"),
    one_connection=True,
    since="2.11",
    options=("shared",),
)


def start(launch: Launch) -> Tunnel:
    """Both ends. Raises TunnelError."""
    return start_relay(launch, "relay+mtls")
