"""gost+ssh: GOST's relay over SSH, channels of one connection."""

from gostlab.declared.tunnels import CHAIN_LEGS, GOST, TunnelKind
from gostlab.guest.tunnels.gost import start_relay
from gostlab.guest.tunnels.launch import Launch, Tunnel

TUNNEL = TunnelKind(
    name="gost+ssh",
    spellings=("relay+ssh",),
    says="relay over SSH",
    program=GOST,
    chain=CHAIN_LEGS,
    carries=("tcp", "udp"),
    one_connection=True,
    since="2.11",
    options=("shared",),
)


def start(launch: Launch) -> Tunnel:
    """Both ends. Raises TunnelError."""
    return start_relay(launch, "relay+ssh")
