# SPDX-License-Identifier: MIT
"""Run GOST's relay protocol over each of its transports, by a real GOST or the lab's relay.

Both ends run the thesis's commands (sections 4.2 and 4.3). GOST's command lines write relay+ws for
gost+ws, and so may an experiment: both names run the same commands.
"""

from gostlab.guest.tunnel_context import LOOPBACK, Tunnel, TunnelLaunch
from gostlab.registry.tunnels import (
    HTTP2_CONNECTION_BYTES,
    HTTP2_WINDOWS_BYTES,
    QUIC_GO,
    SSH_WINDOWS_BYTES,
    gost_relay,
    tunnel_kind,
)
from gostlab.tunnels._forwarder_legs import forwarder_legs

TUNNEL = (
    gost_relay(transport="tcp", says="relay over TCP"),
    # TLS 1.3 records: header, type, tag
    gost_relay(transport="tls", says="relay over TLS", frames=((16384, 22),)),
    # WebSocket frames from the client: header, length, mask
    gost_relay(transport="ws", says="relay over WebSocket", frames=((4096, 8),)),
    # WebSocket frames, each in a TLS record
    gost_relay(
        transport="wss", says="relay over WebSocket with TLS", frames=((4096, 8), (4104, 22))
    ),
    # All streams share one WebSocket (smux, version 1): smux frames in WebSocket frames.
    gost_relay(
        transport="mws",
        says="relay over WebSocket, multiplexed",
        options=("nagle", "shared"),
        one_connection=True,
        frames=((32768, 8), (4096, 8)),
    ),
    gost_relay(
        transport="mwss",
        says="relay over WebSocket with TLS, multiplexed",
        options=("nagle", "shared"),
        one_connection=True,
        frames=((32768, 8), (4096, 8), (4104, 22)),
    ),
    # All streams share one TLS connection (smux, version 1).
    gost_relay(
        transport="mtls", says="relay over TLS, multiplexed", one_connection=True, since="2.11"
    ),
    # Streams are channels of one SSH connection.
    gost_relay(
        transport="ssh",
        says="relay over SSH",
        one_connection=True,
        stream_windows=SSH_WINDOWS_BYTES,
        windows_by="SSH's channel window",
        since="2.11",
    ),
    # Streams of one HTTP/2 connection. The end of a stream may overtake data sent before it, and
    # cut it off; this holds for h2, h2c and grpc.
    gost_relay(
        transport="h2",
        says="relay over HTTP/2 with TLS",
        one_connection=True,
        stream_windows=HTTP2_WINDOWS_BYTES,
        connection_windows=HTTP2_CONNECTION_BYTES,
        windows_by="HTTP/2's flow control",
        since="2.11",
    ),
    gost_relay(
        transport="h2c",
        says="relay over HTTP/2 without TLS",
        one_connection=True,
        stream_windows=HTTP2_WINDOWS_BYTES,
        connection_windows=HTTP2_CONNECTION_BYTES,
        windows_by="HTTP/2's flow control",
        since="2.11",
    ),
    gost_relay(
        transport="grpc", says="relay over gRPC with TLS", one_connection=True, since="3.0.0-rc8"
    ),
    # Streams of one QUIC connection. No option of GOST sets quic-go's congestion control.
    gost_relay(
        transport="quic",
        says="relay over QUIC",
        over="udp",
        sent_by=QUIC_GO,
        one_connection=True,
        most_streams=100,  # quic-go's default, which GOST does not change
        since="2.11",
        # QUIC's header, packet number, tag and STREAM frame; UDP, IP, Ethernet
        frames=((1424, 70),),
    ),
    # Streams of one HTTP/3 session (WebTransport).
    gost_relay(
        transport="wt",
        says="relay over WebTransport (HTTP/3)",
        over="udp",
        sent_by=QUIC_GO,
        one_connection=True,
        most_streams=100,
        since="3.0.0",
        frames=((1424, 70),),
    ),
    # Some requests push data, others pull it. A stream has one push in flight, of at most 32 KiB,
    # and so carries no more than that per round trip. The client does not notice when the target
    # has ended.
    gost_relay(
        transport="h3",
        says="relay over HTTP/3, by requests",
        over="udp",
        sent_by=QUIC_GO,
        one_connection=True,
        since="3.0.0-rc8",
        frames=((3, 1), (43692, 200), (1424, 70)),  # base64; request headers; QUIC packet
    ),
)

# Go 1.24 and later listen with MPTCP. Then MPTCP and not the TCP under study would carry the
# stream.
ENVIRON = {"GODEBUG": "multipathtcp=0"}


def start(launch: TunnelLaunch) -> Tunnel:
    """Start all ends, as in `gost -L relay+wss://:443/127.0.0.1:80`. Raises TunnelError."""
    return start_relay(launch, tunnel_kind(launch.run.tunnel).spellings[0])


def start_relay(launch: TunnelLaunch, scheme: str, query: str = "") -> Tunnel:
    """Start all ends of a relay over a scheme.

    `query` is appended to each address across the path. Raises TunnelError.
    """
    query = query or nagle_query(launch)
    for node in reversed(launch.nodes):
        launch.start_end(node, end_argv(launch, scheme, node, query), environ=ENVIRON)
    over = tunnel_kind(launch.run.tunnel).over
    for node in reversed(launch.nodes):
        launch.wait_until_listening(node, launch.port, "tcp" if node == launch.near else over)
    launch.wait_until_listening(launch.near, launch.port, "udp")
    return forwarder_legs(launch)


def nagle_query(launch: TunnelLaunch) -> str:
    """Return the query that keeps Nagle's algorithm enabled across the path, if requested.

    The parameter is an extension of the lab's relay.
    """
    return "?nagle=true" if dict(launch.options("nagle")) else ""


def relay_datagrams(launch: TunnelLaunch, scheme: str, target_port: int) -> tuple[str, int]:
    """Start ends that carry only datagrams, to a port on the far end's host.

    Returns the address and port where the near end receives them. Raises TunnelError.
    """
    query = nagle_query(launch)
    across = f"{scheme}://{launch.far_address}:{launch.port}{query}"
    entry = f"udp://{LOOPBACK}:{launch.join_port}/{LOOPBACK}:{target_port}?keepalive=true"
    for node, argv in (
        (launch.far, ["-L", f"{scheme}://:{launch.port}{query}"]),
        (launch.near, ["-L", entry, "-F", across]),
    ):
        launch.start_end(node, [launch.program_path, *argv], environ=ENVIRON)
    launch.wait_until_listening(launch.far, launch.port, tunnel_kind(launch.run.tunnel).over)
    launch.wait_until_listening(launch.near, launch.join_port, "udp")
    return LOOPBACK, launch.join_port


def end_argv(launch: TunnelLaunch, scheme: str, node: str, query: str) -> list[str]:
    """Return the command line of the end on a node.

    A far end without a middle has the sink as its fixed target. In a chain, or where flows share a
    connection, the last end before it that has a target requests the destination.
    """
    address, port = launch.sink
    shared = len(launch.carried_flows) > 1
    forward = []
    if node != launch.far:
        forward = ["-F", f"{scheme}://{launch.next_address(node)}:{launch.port}{query}"]
    if node != launch.near:
        takes_target = shared or (node == launch.far and launch.middle)
        target = "" if takes_target else f"/{address}:{port}"
        return [launch.program_path, "-L", f"{scheme}://:{launch.port}{target}{query}", *forward]
    # By default GOST ends a UDP session after its first answer.
    keepalive = "?keepalive=true" if launch.carries_datagrams else ""
    listen = [f"udp://:{launch.port}{keepalive}", f"tcp://:{launch.port}"]
    if shared:
        listen = [f"udp://:{launch.port}/{address}:{port}{keepalive}"]
        for flow in launch.carried_flows:
            to = ":".join(map(str, launch.sink_of(flow)))
            listen.append(f"tcp://:{launch.entry_port(flow)}/{to}")
    return [launch.program_path, *(arg for address in listen for arg in ("-L", address)), *forward]
