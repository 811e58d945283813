# SPDX-License-Identifier: MIT
"""Start OpenSSH: a client at the near end and a server at the far end.

Keys and configurations are made per run. No user's ~/.ssh is read, and the machine's sshd is not
touched.
"""

from collections.abc import Sequence

from gostlab.guest.tunnel_context import TunnelLaunch

SERVER = """ListenAddress {address}:{port}
HostKey {folder}/{key}
AuthorizedKeysFile {folder}/client.pub
PidFile none
StrictModes no
UsePAM no
PasswordAuthentication no
KbdInteractiveAuthentication no
PermitRootLogin prohibit-password
AllowTcpForwarding local
PermitTunnel point-to-point
UseDNS no
LogLevel ERROR
"""
CLIENT = """Host {node}
HostName {address}
Port {port}
User root
IdentityFile {folder}/client
IdentitiesOnly yes
IdentityAgent none
UserKnownHostsFile {folder}/known_hosts
GlobalKnownHostsFile none
StrictHostKeyChecking yes
BatchMode yes
ExitOnForwardFailure yes
ControlPath none
LogLevel ERROR
"""
# sshd separates privileges by a user and a folder that only its installed package makes. The script
# gives them to sshd in a private mount namespace.
VIEW = """#!/bin/sh
set -e
mount --bind {folder}/passwd /etc/passwd
[ ! -e /etc/shadow ] || mount --bind {folder}/shadow /etc/shadow
[ -d /run/sshd ] || {{ mount -t tmpfs -o mode=755 tmpfs /run; mkdir /run/sshd; }}
exec {sshd} -D -e -f {config}
"""
PASSWD = "root:x:0:0:root:/:/bin/sh\nsshd:x:65533:65534::/run/sshd:/usr/sbin/nologin\n"
SHADOW = "root:*:19000:0:99999:7:::\nsshd:!:19000::::::\n"


def start_ssh_ends(launch: TunnelLaunch, forwarding: Sequence[tuple[str, str]]) -> None:
    """Start the servers, and then the client, which passes a chain's middle like `ssh -J`.

    `forwarding` holds further lines of the client's configuration. Raises TunnelError or
    NetworkError.
    """
    folder = launch.scratch
    launch.scratch.mkdir(mode=0o755, parents=True, exist_ok=True)
    make_key(launch, "client", launch.near)
    launch.write_file("passwd", PASSWD)
    launch.write_file("shadow", SHADOW, 0o600)
    known_hosts_text = ""
    for node in reversed(launch.nodes[1:]):
        address = launch.network.ip(node)
        key = "host" if node == launch.far else f"host-{node}"
        known_hosts_text += f"[{address}]:{launch.port} {make_key(launch, key, node)}"
        fields = {"address": address, "port": launch.port, "folder": folder, "key": key}
        config = launch.write_file(f"{key}.sshd_config", SERVER.format(**fields))
        text = VIEW.format(folder=folder, sshd=launch.helper("sshd"), config=config)
        script_path = launch.write_file(f"{key}.sh", text, 0o755)
        launch.start_end(node, ["unshare", "--mount", str(script_path)])
        launch.wait_until_listening(node, launch.port)
    launch.write_file("known_hosts", known_hosts_text)
    config = folder / "ssh_config"
    text = "".join(
        CLIENT.format(node=node, address=launch.network.ip(node), port=launch.port, folder=folder)
        for node in launch.middle
    )
    text += CLIENT.format(node="far", address=launch.far_address, port=launch.port, folder=folder)
    text += "".join(f"{name} {value}\n" for name, value in forwarding)
    for node in launch.middle:
        text += f"ProxyCommand {launch.program_path} -F {config} -W [%h]:%p {node}\n"
    launch.write_file(config.name, text)
    launch.start_end(launch.near, [launch.program_path, "-N", "-F", str(config), "far"], port=None)


def make_key(launch: TunnelLaunch, name: str, node: str) -> str:
    """Make a node's key in the tunnel's folder and return its public half. Raises NetworkError."""
    key_path = launch.scratch / f"{name}.made"
    keygen = launch.helper("ssh-keygen")
    launch.read_output(
        node, keygen, "-q", "-t", "ed25519", "-N", "", "-C", name, "-f", str(key_path)
    )
    launch.write_file(name, key_path.read_bytes(), 0o600)
    public_key = key_path.with_name(f"{key_path.name}.pub").read_bytes()
    launch.write_file(f"{name}.pub", public_key)
    return public_key.decode("ascii")
