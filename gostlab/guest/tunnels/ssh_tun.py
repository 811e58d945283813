"""ssh+tun: `ssh -w`, a VPN by SSH: TCP inside of TCP."""

from __future__ import annotations

from gostlab.declared.tunnels import TunnelKind
from gostlab.guest.tunnels.launch import Launch, Tunnel
from gostlab.guest.tunnels.openssh import start_ssh
from gostlab.guest.tunnels.vpn import DEVICE, give_addresses, vpn_legs, wait_for_device

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
    one_connection=True,
    charged_as="ssh",
    packet_bytes=38,  # two lengths, type, channel, length, family, padding (least), tag
    mtu_less=97,  # one packet inside is at most one segment outside
)


def start(launch: Launch) -> Tunnel:
    """Both ends and their devices. Raises TunnelError or NetworkError."""
    start_ssh(launch, {"Tunnel": "point-to-point", "TunnelDevice": "0:0"})
    for node in (launch.near, launch.far):
        wait_for_device(launch, node, "tun0")
        launch.on(node, "ip", "link", "set", "tun0", "name", DEVICE)
    give_addresses(launch)
    return vpn_legs(launch, launch.port)
