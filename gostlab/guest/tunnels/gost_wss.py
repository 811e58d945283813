"""gost+wss: GOST's relay over WebSocket with TLS.

GOST's own command lines say relay+wss, and so may an experiment: both names run the same commands.
"""

from gostlab.declared.tunnels import gost_relay
from gostlab.guest.tunnels.gost import start_transport

TUNNEL = gost_relay(
    transport="wss",
    says="relay over WebSocket with TLS",
    options=("nagle",),
    frames=((4096, 8), (4104, 22)),  # WebSocket frames, each in a TLS 1.3 record
)
start = start_transport
