"""gost+ws: GOST's relay over WebSocket.

GOST's own command lines say relay+ws, and so may an experiment: both names run the same commands.
"""

from gostlab.declared.tunnels import gost_relay
from gostlab.guest.tunnels.gost import start_transport

TUNNEL = gost_relay(
    transport="ws",
    says="relay over WebSocket",
    options=("nagle",),
    frames=((4096, 8),),  # WebSocket frames from the client: header, length, mask
)
start = start_transport
