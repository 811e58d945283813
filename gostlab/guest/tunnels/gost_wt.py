"""gost+wt: GOST's relay over WebTransport, streams of one HTTP/3 session."""

from gostlab.declared.tunnels import DATAGRAM_LEGS, GOST, QUIC_GO, TunnelKind
from gostlab.guest.tunnels.gost import start_relay
from gostlab.guest.tunnels.launch import Launch, Tunnel

TUNNEL = TunnelKind(
    name="gost+wt",
    spellings=("relay+wt",),
    says="relay over WebTransport (HTTP/3)",
    program=GOST,
    legs=DATAGRAM_LEGS,
    chain=DATAGRAM_LEGS,
    over="udp",
    sent_by=QUIC_GO,
    carries=("tcp", "udp"),
    one_connection=True,
    most_streams=100,  # as quic-go has it, and GOST leaves it
    since="3.0.0",
    options=("shared",),
    # QUIC's header, number, tag, the stream's frame; UDP, IP, Ethernet
    frames=((1424, 70),),
)


def start(launch: Launch) -> Tunnel:
    """Both ends. Raises TunnelError."""
    return start_relay(launch, "relay+wt")
