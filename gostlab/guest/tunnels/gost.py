"""GOST's relay protocol over any of its transports, by a real GOST or the lab's relay: the thesis's
own commands at both ends (sections 4.2 and 4.3).
"""

from __future__ import annotations

from gostlab.guest.tunnels.launch import TUNNEL_PORT, Launch, Tunnel

# Go 1.24 and later listen with MPTCP, and another protocol than the one under study would carry the
# stream.
ENVIRON = {"GODEBUG": "multipathtcp=0"}


def start_relay(launch: Launch, scheme: str) -> Tunnel:
    """Both ends, as in `gost -L relay+wss://:443/127.0.0.1:80`. Raises TunnelError."""
    program = launch.program_path
    address, port = launch.sink
    far_argv = [program, "-L", f"{scheme}://:{TUNNEL_PORT}/{address}:{port}"]
    near_argv = [
        program,
        *("-L", f"udp://:{TUNNEL_PORT}"),
        *("-L", f"tcp://:{TUNNEL_PORT}"),
        *("-F", f"{scheme}://{launch.far_address}:{TUNNEL_PORT}"),
    ]
    launch.start_end(launch.far, far_argv, environ=ENVIRON)
    launch.start_end(launch.near, near_argv, environ=ENVIRON)
    launch.wait_until_listening(launch.far, TUNNEL_PORT)
    launch.wait_until_listening(launch.near, TUNNEL_PORT)
    launch.wait_until_listening(launch.near, TUNNEL_PORT, "udp")
    return launch.three_legs()
