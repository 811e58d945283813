"""gost+h2c: GOST's relay over HTTP/2 without TLS, streams of one connection.

The end of a stream may overtake what was sent before it, and cut that off.
"""

from gostlab.declared.tunnels import gost_relay
from gostlab.guest.tunnels.gost import start_transport

TUNNEL = gost_relay(
    transport="h2c",
    says="relay over HTTP/2 without TLS",
    one_connection=True,
    since="2.11",
    options=("shared",),
)
start = start_transport
