"""GOST's relay protocol over each of its transports, by a real GOST or the lab's relay: the
thesis's own commands at both ends (sections 4.2 and 4.3).

GOST's own command lines say relay+ws for gost+ws, and so may an experiment: both names run the same
commands.
"""

from gostlab.guest.tunnel_context import LOOPBACK, Launch, Tunnel
from gostlab.registry.tunnels import (
    HTTP2_CONNECTION_BYTES,
    HTTP2_WINDOWS_BYTES,
    QUIC_GO,
    SSH_WINDOWS_BYTES,
    gost_relay,
    tunnel_kind,
)
from gostlab.tunnels._forwarder import forwarder_legs

TUNNEL = (
    gost_relay(transport="tcp", says="relay over TCP"),
    # TLS 1.3 records: header, type, tag
    gost_relay(transport="tls", says="relay over TLS", frames=((16384, 22),)),
    # WebSocket frames from the client: header, length, mask
    gost_relay(transport="ws", says="relay over WebSocket", frames=((4096, 8),)),
    # the same, each in a TLS record
    gost_relay(
        transport="wss", says="relay over WebSocket with TLS", frames=((4096, 8), (4104, 22))
    ),
    # One WebSocket, which all streams share (smux, version 1): smux in WebSocket frames.
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
    # One TLS connection, multiplexed (smux, version 1).
    gost_relay(
        transport="mtls", says="relay over TLS, multiplexed", one_connection=True, since="2.11"
    ),
    # Channels of one connection.
    gost_relay(
        transport="ssh",
        says="relay over SSH",
        one_connection=True,
        stream_windows=SSH_WINDOWS_BYTES,
        windows_by="SSH's channel window",
        since="2.11",
    ),
    # Streams of one connection. The end of a stream may overtake what was sent before it, and cut
    # that off: so it is of h2, h2c and grpc.
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
    # Streams of one QUIC connection; nothing of GOST's sets how quic-go controls congestion.
    gost_relay(
        transport="quic",
        says="relay over QUIC",
        over="udp",
        sent_by=QUIC_GO,
        one_connection=True,
        most_streams=100,  # as quic-go has it, and GOST leaves it
        since="2.11",
        # QUIC's header, number, tag, the stream's frame; UDP, IP, Ethernet
        frames=((1424, 70),),
    ),
    # Streams of one HTTP/3 session.
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
    # Requests that push data and requests that pull it: a stream has one push under way, of 32 KiB
    # at most, and so carries no more than that in each round trip. Its client does not learn that
    # the target has ended.
    gost_relay(
        transport="h3",
        says="relay over HTTP/3, by requests",
        over="udp",
        sent_by=QUIC_GO,
        one_connection=True,
        since="3.0.0-rc8",
        frames=((3, 1), (43692, 200), (1424, 70)),  # base64, a request's headers, QUIC's packet
    ),
)

# Go 1.24 and later listen with MPTCP, and another protocol than the one under study would carry the
# stream.
ENVIRON = {"GODEBUG": "multipathtcp=0"}


def start(launch: Launch) -> Tunnel:
    """All ends, as in `gost -L relay+wss://:443/127.0.0.1:80`. Raises TunnelError."""
    return start_relay(launch, tunnel_kind(launch.run.tunnel).spellings[0])


def start_relay(launch: Launch, scheme: str, words: str = "") -> Tunnel:
    """The same over a scheme; `words` stand behind each address across the path. Raises
    TunnelError.
    """
    words = words or nagle_words(launch)
    for node in reversed(launch.way):
        launch.start_end(node, end_argv(launch, scheme, node, words), environ=ENVIRON)
    over = tunnel_kind(launch.run.tunnel).over
    for node in reversed(launch.way):
        launch.wait_until_listening(node, launch.port, "tcp" if node == launch.near else over)
    launch.wait_until_listening(launch.near, launch.port, "udp")
    return forwarder_legs(launch)


def nagle_words(launch: Launch) -> str:
    """What leaves Nagle's algorithm on across the path, if that is asked: the relay's own word."""
    return "?nagle=true" if dict(launch.options("nagle")) else ""


def relay_datagrams(launch: Launch, scheme: str, target_port: int) -> tuple[str, int]:
    """Ends that carry datagrams alone, to a port of the far end's own host; where the near one
    takes them. Raises TunnelError.
    """
    words = nagle_words(launch)
    across = f"{scheme}://{launch.far_address}:{launch.port}{words}"
    entry = f"udp://{LOOPBACK}:{launch.join_port}/{LOOPBACK}:{target_port}?keepalive=true"
    for node, argv in (
        (launch.far, ["-L", f"{scheme}://:{launch.port}{words}"]),
        (launch.near, ["-L", entry, "-F", across]),
    ):
        launch.start_end(node, [launch.program_path, *argv], environ=ENVIRON)
    launch.wait_until_listening(launch.far, launch.port, tunnel_kind(launch.run.tunnel).over)
    launch.wait_until_listening(launch.near, launch.join_port, "udp")
    return LOOPBACK, launch.join_port


def end_argv(launch: Launch, scheme: str, node: str, words: str) -> list[str]:
    """The command line of the end on a node.

    A far end alone has the sink as its fixed target. Behind others, or where flows share a
    connection, it is told where to go: by the last end before it that has a target of its own.
    """
    address, port = launch.sink
    shared = len(launch.carried_all) > 1
    forward = []
    if node != launch.far:
        forward = ["-F", f"{scheme}://{launch.next_address(node)}:{launch.port}{words}"]
    if node != launch.near:
        is_told = shared or (node == launch.far and launch.middle)
        target = "" if is_told else f"/{address}:{port}"
        return [launch.program_path, "-L", f"{scheme}://:{launch.port}{target}{words}", *forward]
    # By default a session of GOST's ends with its first answer.
    keep = "?keepalive=true" if launch.carries_datagrams else ""
    listen = [f"udp://:{launch.port}{keep}", f"tcp://:{launch.port}"]
    if shared:
        listen = [f"udp://:{launch.port}/{address}:{port}{keep}"]
        for flow in launch.carried_all:
            to = ":".join(map(str, launch.sink_of(flow)))
            listen.append(f"tcp://:{launch.entry_port(flow)}/{to}")
    return [launch.program_path, *(word for each in listen for word in ("-L", each)), *forward]
