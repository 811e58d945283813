"""gost+mws: GOST's relay over one WebSocket, which all streams share (smux, version 1)."""

from gostlab.declared.tunnels import gost_relay
from gostlab.guest.tunnels.gost import start_transport

TUNNEL = gost_relay(
    transport="mws",
    says="relay over WebSocket, multiplexed",
    options=("nagle", "shared"),
    one_connection=True,
    frames=((32768, 8), (4096, 8)),  # smux in WebSocket frames
)
start = start_transport
