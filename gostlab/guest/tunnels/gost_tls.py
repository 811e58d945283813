"""gost+tls: GOST's relay over TLS: what `gost+wss` is without WebSocket."""

from gostlab.declared.tunnels import gost_relay
from gostlab.guest.tunnels.gost import start_transport

TUNNEL = gost_relay(
    transport="tls",
    says="relay over TLS",
    options=("nagle",),
    frames=((16384, 22),),  # TLS 1.3 records: header, type, tag
)
start = start_transport
