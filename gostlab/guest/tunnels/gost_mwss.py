"""gost+mwss: GOST's relay over one WebSocket with TLS that all streams share (smux, version 1)."""

from gostlab.declared.tunnels import gost_relay
from gostlab.guest.tunnels.gost import start_transport

TUNNEL = gost_relay(
    transport="mwss",
    says="relay over WebSocket with TLS, multiplexed",
    options=("nagle", "shared"),
    one_connection=True,
    frames=((32768, 8), (4096, 8), (4104, 22)),  # and each of those in a TLS 1.3 record
)
start = start_transport
