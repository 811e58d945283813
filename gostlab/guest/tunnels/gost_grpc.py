"""gost+grpc: GOST's relay over gRPC with TLS, streams of one connection.

The end of a stream may overtake what was sent before it, and cut that off.
"""

from gostlab.declared.tunnels import gost_relay
from gostlab.guest.tunnels.gost import start_transport

TUNNEL = gost_relay(
    transport="grpc",
    says="relay over gRPC with TLS",
    one_connection=True,
    since="3.0.0-rc8",
    options=("shared",),
)
start = start_transport
