"""GOST's relay protocol over any of its transports, by a real GOST or the lab's relay: the thesis's
own commands at both ends (sections 4.2 and 4.3).
"""

from gostlab.declared.tunnels import tunnel_kind
from gostlab.guest.tunnels.launch import LOOPBACK, Launch, Tunnel

# Go 1.24 and later listen with MPTCP, and another protocol than the one under study would carry the
# stream.
ENVIRON = {"GODEBUG": "multipathtcp=0"}


def start_relay(launch: Launch, scheme: str, words: str = "") -> Tunnel:
    """All ends, as in `gost -L relay+wss://:443/127.0.0.1:80`; `words` stand behind each address
    across the path. Raises TunnelError.
    """
    words = words or nagle_words(launch)
    for node in reversed(launch.way):
        launch.start_end(node, end_argv(launch, scheme, node, words), environ=ENVIRON)
    over = tunnel_kind(launch.run.tunnel).over
    for node in reversed(launch.way):
        launch.wait_until_listening(node, launch.port, "tcp" if node == launch.near else over)
    launch.wait_until_listening(launch.near, launch.port, "udp")
    return launch.three_legs()


def start_transport(launch: Launch) -> Tunnel:
    """What `gost_relay` declares. Raises TunnelError."""
    return start_relay(launch, tunnel_kind(launch.run.tunnel).spellings[0])


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
    told = bool(launch.middle) or len(launch.carried_all) > 1
    forward = []
    if node != launch.far:
        forward = ["-F", f"{scheme}://{launch.next_address(node)}:{launch.port}{words}"]
    if node == launch.far:
        target = "" if told else f"/{address}:{port}"
        return [launch.program_path, "-L", f"{scheme}://:{launch.port}{target}{words}"]
    if node in launch.middle:
        target = f"/{address}:{port}" if len(launch.carried_all) == 1 else ""
        return [launch.program_path, "-L", f"{scheme}://:{launch.port}{target}{words}", *forward]
    # By default a session of GOST's ends with its first answer.
    keep = "?keepalive=true" if launch.carries_datagrams else ""
    listen = [f"udp://:{launch.port}{keep}"]
    if len(launch.carried_all) == 1:
        listen.append(f"tcp://:{launch.port}")
    else:
        listen[0] = f"udp://:{launch.port}/{address}:{port}{keep}"
    for flow in launch.carried_all if len(launch.carried_all) > 1 else ():
        to = ":".join(map(str, launch.sink_of(flow)))
        listen.append(f"tcp://:{launch.entry_port(flow)}/{to}")
    return [launch.program_path, *(word for each in listen for word in ("-L", each)), *forward]
