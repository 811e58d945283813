# SPDX-License-Identifier: MIT
"""Run `ssh -w`: a VPN over SSH (TCP inside TCP)."""

from gostlab.guest.tunnel_context import Tunnel, TunnelLaunch
from gostlab.registry.tunnels import TunnelKind
from gostlab.tunnels._openssh import start_ssh_ends
from gostlab.tunnels._vpn import device_of, give_addresses, vpn_legs, wait_for_device

TUNNEL = TunnelKind(
    name="ssh+tun",
    says="ssh -w, a VPN over TCP",
    program="ssh",
    helpers=("sshd", "ssh-keygen"),
    unpacked=("openssh-client", "openssh-server"),
    version_words=("-V",),
    version_pattern=r"OpenSSH_(\d[\w.]*)",
    legs=("inner", "wan"),
    carries=("tcp", "udp"),
    options=("tun_queue",),
    one_connection=True,
    charged_as="ssh",
    packet_bytes=38,  # two lengths, type, channel, length, family, padding (minimum), tag
    mtu_less=97,  # one packet inside is at most one segment outside
)


def start(launch: TunnelLaunch) -> Tunnel:
    """Start both ends and their devices. Raises TunnelError or NetworkError."""
    device = device_of(launch)
    tun_name = f"tun{launch.number}"
    start_ssh_ends(
        launch, [("Tunnel", "point-to-point"), ("TunnelDevice", f"{tun_name[3:]}:{tun_name[3:]}")]
    )
    for node in (launch.near, launch.far):
        wait_for_device(launch, node, tun_name)
        launch.on(node, "ip", "link", "set", tun_name, "name", device)
    give_addresses(launch)
    return vpn_legs(launch, launch.port)
