"""gost+quic: GOST's relay over streams of one QUIC connection.

Nothing of GOST's sets how quic-go controls congestion.
"""

from gostlab.declared.tunnels import DATAGRAM_LEGS, GOST, QUIC_GO, TunnelKind
from gostlab.guest.tunnels.gost import start_relay
from gostlab.guest.tunnels.launch import Launch, Tunnel

TUNNEL = TunnelKind(
    name="gost+quic",
    spellings=("relay+quic",),
    says="relay over QUIC",
    program=GOST,
    legs=DATAGRAM_LEGS,
    chain=DATAGRAM_LEGS,
    over="udp",
    sent_by=QUIC_GO,
    carries=("tcp", "udp"),
    one_connection=True,
    most_streams=100,  # as quic-go has it, and GOST leaves it
    since="2.11",
    options=("shared",),
    # QUIC's header, number, tag, the stream's frame; UDP, IP, Ethernet
    frames=((1424, 70),),
)


def start(launch: Launch) -> Tunnel:
    """Both ends. Raises TunnelError."""
    return start_relay(launch, "relay+quic")
