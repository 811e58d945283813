# SPDX-License-Identifier: MIT
"""Run `ssh -L`: all streams are channels of one connection, each with its own window."""

from gostlab.guest.tunnel_context import LOOPBACK, Tunnel, TunnelLaunch
from gostlab.registry.tunnels import CHAIN_LEGS, SSH_WINDOWS_BYTES, TunnelKind
from gostlab.tunnels._forwarder_legs import forwarder_legs
from gostlab.tunnels._openssh import start_ssh_ends

TUNNEL = TunnelKind(
    name="ssh",
    says="ssh -L, channels of one connection",
    program="ssh",
    helpers=("sshd", "ssh-keygen"),
    unpacked=("openssh-client", "openssh-server"),
    version_words=("-V",),
    version_pattern=r"OpenSSH_(\d[\w.]*)",
    chain=CHAIN_LEGS,
    options=("shared",),
    one_connection=True,
    stream_windows=SSH_WINDOWS_BYTES,
    windows_by="SSH's channel window",
    frames=((32768, 44),),  # channel data: two lengths, type, channel, length, padding, tag
)


def start(launch: TunnelLaunch) -> Tunnel:
    """Start both ends. Raises TunnelError or NetworkError."""
    forwards = []
    for flow in launch.carried_flows:
        address, port = launch.sink_of(flow)
        forwards.append(("LocalForward", f"{LOOPBACK}:{launch.entry_port(flow)} {address}:{port}"))
    start_ssh_ends(launch, forwards)
    for flow in launch.carried_flows:
        launch.wait_until_listening(launch.near, launch.entry_port(flow))
    return forwarder_legs(launch)
