"""stunnel: TLS around a forwarder and nothing else, a connection for each stream."""

from __future__ import annotations

from gostlab.declared.tunnels import TunnelKind
from gostlab.guest.tunnels.certificate import make_certificate
from gostlab.guest.tunnels.launch import LOOPBACK, Launch, Tunnel

TUNNEL = TunnelKind(
    name="stunnel",
    says="TLS alone",
    program="stunnel4",
    helpers=("openssl",),
    unpacked=("stunnel4", "openssl"),
    version_words=("-version",),
    version_pattern=r"stunnel (\d+\.\d+)",
    frames=((16384, 22),),  # TLS 1.3 records: header, type, tag
)
COMMON = "foreground = yes\npid =\ndebug = notice\nsyslog = no\n"
FAR = """[far]
accept = {port}
connect = {target}
cert = {folder}/far.crt
key = {folder}/far.key
"""
NEAR = """[near]
client = yes
accept = {loopback}:{port}
connect = {far}:{port}
CAfile = {folder}/far.crt
verifyPeer = yes
"""


def start(launch: Launch) -> Tunnel:
    """Both ends. Raises TunnelError or NetworkError."""
    made = make_certificate(launch, launch.far)
    launch.write_file("far.key", made.key, 0o600)
    launch.write_file("far.crt", made.certificate)
    address, port = launch.sink
    for node, config in ((launch.far, FAR), (launch.near, NEAR)):
        text = config.format(
            port=launch.port,
            target=f"{address}:{port}",
            far=launch.far_address,
            loopback=LOOPBACK,
            folder=launch.scratch,
        )
        path = launch.write_file(f"{node}.conf", COMMON + text)
        launch.start_end(node, [launch.program_path, str(path)])
        launch.wait_until_listening(node, launch.port)
    return launch.three_legs()
