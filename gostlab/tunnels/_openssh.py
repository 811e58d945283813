"""OpenSSH: a client at the near end and a server at the far one, with the run's own keys and
configurations; nobody's ~/.ssh is read, and the machine's sshd is not touched.
"""

from collections.abc import Sequence

from gostlab.guest.tunnel_context import Launch

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
# sshd separates its privileges by a user and a folder that only its installed package makes: it
# gets them in a view of the file system that is its own.
VIEW = """#!/bin/sh
set -e
mount --bind {folder}/passwd /etc/passwd
[ ! -e /etc/shadow ] || mount --bind {folder}/shadow /etc/shadow
[ -d /run/sshd ] || {{ mount -t tmpfs -o mode=755 tmpfs /run; mkdir /run/sshd; }}
exec {sshd} -D -e -f {config}
"""
PASSWD = "root:x:0:0:root:/:/bin/sh\nsshd:x:65533:65534::/run/sshd:/usr/sbin/nologin\n"
SHADOW = "root:*:19000:0:99999:7:::\nsshd:!:19000::::::\n"


def start_ssh(launch: Launch, forwarding: Sequence[tuple[str, str]]) -> None:
    """Servers, then the client, which reaches the far one through a chain's middle as `ssh -J`
    does. `forwarding`: what its configuration says besides. Raises TunnelError or NetworkError.
    """
    folder = launch.scratch
    launch.scratch.mkdir(mode=0o755, parents=True, exist_ok=True)
    make_key(launch, "client", launch.near)
    launch.write_file("passwd", PASSWD)
    launch.write_file("shadow", SHADOW, 0o600)
    known = ""
    for node in reversed(launch.way[1:]):
        address = launch.network.ip(node)
        key = "host" if node == launch.far else f"host-{node}"
        known += f"[{address}]:{launch.port} {make_key(launch, key, node)}"
        values = {"address": address, "port": launch.port, "folder": folder, "key": key}
        config = launch.write_file(f"{key}.sshd_config", SERVER.format(**values))
        text = VIEW.format(folder=folder, sshd=launch.helper("sshd"), config=config)
        view = launch.write_file(f"{key}.sh", text, 0o755)
        launch.start_end(node, ["unshare", "--mount", str(view)])
        launch.wait_until_listening(node, launch.port)
    launch.write_file("known_hosts", known)
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


def make_key(launch: Launch, name: str, node: str) -> str:
    """A key of a node's, in the tunnel's folder; its public half. Raises NetworkError."""
    made = launch.scratch / f"{name}.made"
    keygen = launch.helper("ssh-keygen")
    launch.ask(node, keygen, "-q", "-t", "ed25519", "-N", "", "-C", name, "-f", str(made))
    launch.write_file(name, made.read_bytes(), 0o600)
    public = made.with_name(f"{made.name}.pub").read_bytes()
    launch.write_file(f"{name}.pub", public)
    return public.decode("ascii")
