"""GOST's relay protocol over any of its transports, by a real GOST or the lab's relay: the thesis's
own commands at both ends (sections 4.2 and 4.3).
"""

from __future__ import annotations

from gostlab.guest.tunnels.launch import Launch, Tunnel, TunnelError

# Go 1.24 and later listen with MPTCP, and another protocol than the one under study would carry the
# stream.
ENVIRON = {"GODEBUG": "multipathtcp=0"}


def start_relay(launch: Launch, scheme: str) -> Tunnel:
    """Both ends, as in `gost -L relay+wss://:443/127.0.0.1:80`. Raises TunnelError."""
    program = launch.program_path
    address, port = launch.sink
    nagle = "?nagle=true" if dict(launch.options("nagle")) else ""
    if nagle and launch.program is not None and launch.program.kind != "relay":
        raise TunnelError(
            f"nagle: {launch.program.version} has no switch for TCP_NODELAY: the lab's own relay"
            " has one"
        )
    far_argv = [program, "-L", f"{scheme}://:{launch.port}/{address}:{port}{nagle}"]
    # By default a session of GOST's ends with its first answer.
    keep = "?keepalive=true" if launch.carries_datagrams else ""
    near_argv = [
        program,
        *("-L", f"udp://:{launch.port}{keep}"),
        *("-L", f"tcp://:{launch.port}"),
        *("-F", f"{scheme}://{launch.far_address}:{launch.port}{nagle}"),
    ]
    launch.start_end(launch.far, far_argv, environ=ENVIRON)
    launch.start_end(launch.near, near_argv, environ=ENVIRON)
    launch.wait_until_listening(launch.far, launch.port)
    launch.wait_until_listening(launch.near, launch.port)
    launch.wait_until_listening(launch.near, launch.port, "udp")
    return launch.three_legs()
