"""stunnel: TLS around a forwarder and nothing else, a connection for each stream."""

from gostlab.guest.tunnel_context import LOOPBACK, Launch, Tunnel
from gostlab.registry.tunnels import JOINED_LEGS, TunnelKind
from gostlab.tunnels._forwarder import forwarder_legs
from gostlab.tunnels.certificate import make_certificate

TUNNEL = TunnelKind(
    name="stunnel",
    says="TLS alone",
    program="stunnel4",
    helpers=("openssl",),
    unpacked=("stunnel4", "openssl"),
    version_words=("-version",),
    version_pattern=r"stunnel (\d+\.\d+)",
    chain=JOINED_LEGS,
    frames=((16384, 22),),  # TLS 1.3 records: header, type, tag
)
COMMON = "foreground = yes\npid =\ndebug = notice\nsyslog = no\n"
FAR = """[far]
accept = {port}
connect = {target}
cert = {folder}/{node}.crt
key = {folder}/{node}.key
"""
NEAR = """[near]
client = yes
accept = {loopback}:{entry}
connect = {behind}:{port}
CAfile = {folder}/{next}.crt
verifyPeer = yes
"""


def start(launch: Launch) -> Tunnel:
    """All ends; a chain's middle is both a far and a near one. Raises TunnelError, NetworkError."""
    address, port = launch.sink
    for node in reversed(launch.way):
        text, place = COMMON, launch.way.index(node)
        if node != launch.near:
            made = make_certificate(launch, node)
            launch.write_file(f"{node}.key", made.key, 0o600)
            launch.write_file(f"{node}.crt", made.certificate)
            onward = f"{address}:{port}" if node == launch.far else f"{LOOPBACK}:{launch.join_port}"
            text += FAR.format(port=launch.port, target=onward, folder=launch.scratch, node=node)
        if node != launch.far:
            text += NEAR.format(
                loopback=LOOPBACK,
                entry=launch.port if node == launch.near else launch.join_port,
                behind=launch.next_address(node),
                port=launch.port,
                folder=launch.scratch,
                next=launch.way[place + 1],
            )
        path = launch.write_file(f"{node}.conf", text)
        launch.start_end(node, [launch.program_path, str(path)])
        launch.wait_until_listening(node, launch.port)
    return forwarder_legs(launch)
