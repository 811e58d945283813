"""gost+wt: GOST's relay over WebTransport, streams of one HTTP/3 session."""

from gostlab.declared.tunnels import QUIC_GO, gost_relay
from gostlab.guest.tunnels.gost import start_transport

TUNNEL = gost_relay(
    transport="wt",
    says="relay over WebTransport (HTTP/3)",
    over="udp",
    sent_by=QUIC_GO,
    one_connection=True,
    most_streams=100,  # as quic-go has it, and GOST leaves it
    since="3.0.0",
    options=("shared",),
    # QUIC's header, number, tag, the stream's frame; UDP, IP, Ethernet
    frames=((1424, 70),),
)
start = start_transport
