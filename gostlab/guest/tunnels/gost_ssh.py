"""gost+ssh: GOST's relay over SSH, channels of one connection."""

from gostlab.declared.tunnels import gost_relay
from gostlab.guest.tunnels.gost import start_transport

TUNNEL = gost_relay(
    transport="ssh", says="relay over SSH", one_connection=True, since="2.11", options=("shared",)
)
start = start_transport
