"""gost+h3: GOST's relay over HTTP/3: requests that push data and requests that pull it.

A stream has one push under way, of 32 KiB at most, and so carries no more than that in each round
trip. Its client does not learn that the target has ended.
"""

from gostlab.declared.tunnels import QUIC_GO, gost_relay
from gostlab.guest.tunnels.gost import start_transport

TUNNEL = gost_relay(
    transport="h3",
    says="relay over HTTP/3, by requests",
    over="udp",
    sent_by=QUIC_GO,
    one_connection=True,
    since="3.0.0-rc8",
    options=("shared",),
    frames=((3, 1), (43692, 200), (1424, 70)),  # base64, a request's headers, QUIC's packet
)
start = start_transport
