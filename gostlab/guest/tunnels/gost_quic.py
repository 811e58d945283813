"""gost+quic: GOST's relay over streams of one QUIC connection.

Nothing of GOST's sets how quic-go controls congestion.
"""

from gostlab.declared.tunnels import QUIC_GO, gost_relay
from gostlab.guest.tunnels.gost import start_transport

TUNNEL = gost_relay(
    transport="quic",
    says="relay over QUIC",
    over="udp",
    sent_by=QUIC_GO,
    one_connection=True,
    most_streams=100,  # as quic-go has it, and GOST leaves it
    since="2.11",
    options=("shared",),
    # QUIC's header, number, tag, the stream's frame; UDP, IP, Ethernet
    frames=((1424, 70),),
)
start = start_transport
