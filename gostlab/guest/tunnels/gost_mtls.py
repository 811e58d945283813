"""gost+mtls: GOST's relay over one TLS connection, multiplexed (smux, version 1)."""

from gostlab.declared.tunnels import gost_relay
from gostlab.guest.tunnels.gost import start_transport

TUNNEL = gost_relay(
    transport="mtls",
    says="relay over TLS, multiplexed",
    one_connection=True,
    since="2.11",
    options=("shared",),
)
start = start_transport
