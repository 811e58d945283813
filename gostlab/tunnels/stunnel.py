# SPDX-License-Identifier: MIT
"""Run stunnel: TLS around a forwarder and nothing else, one connection per stream."""

from gostlab.guest.tunnel_context import LOOPBACK, Tunnel, TunnelLaunch
from gostlab.registry.tunnels import JOINED_LEGS, TunnelKind
from gostlab.tunnels._forwarder_legs import forwarder_legs
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


def start(launch: TunnelLaunch) -> Tunnel:
    """Start all ends; the middle of a chain is both a far and a near end.

    Raises TunnelError or NetworkError.
    """
    address, port = launch.sink
    for node in reversed(launch.nodes):
        text, position = COMMON, launch.nodes.index(node)
        if node != launch.near:
            certificate = make_certificate(launch, node)
            launch.write_file(f"{node}.key", certificate.key, 0o600)
            launch.write_file(f"{node}.crt", certificate.certificate)
            target = f"{address}:{port}" if node == launch.far else f"{LOOPBACK}:{launch.join_port}"
            text += FAR.format(port=launch.port, target=target, folder=launch.scratch, node=node)
        if node != launch.far:
            text += NEAR.format(
                loopback=LOOPBACK,
                entry=launch.port if node == launch.near else launch.join_port,
                behind=launch.next_address(node),
                port=launch.port,
                folder=launch.scratch,
                next=launch.nodes[position + 1],
            )
        path = launch.write_file(f"{node}.conf", text)
        launch.start_end(node, [launch.program_path, str(path)])
        launch.wait_until_listening(node, launch.port)
    return forwarder_legs(launch)
