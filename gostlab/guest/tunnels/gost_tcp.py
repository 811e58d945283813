"""gost+tcp: GOST's relay over plain TCP: its protocol without encryption and without WebSocket."""

from gostlab.declared.tunnels import gost_relay
from gostlab.guest.tunnels.gost import start_transport

TUNNEL = gost_relay(transport="tcp", says="relay over TCP", options=("nagle",))
start = start_transport
