"""OpenSSH: a client at the near end and a server at the far one, with the run's own keys and
configurations; nobody's ~/.ssh is read, and the machine's sshd is not touched.
"""

from __future__ import annotations

from collections.abc import Mapping

from gostlab.guest.tunnels.launch import Launch

SERVER = """ListenAddress {address}:{port}
HostKey {folder}/host
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
CLIENT = """Host far
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
exec {sshd} -D -e -f {folder}/sshd_config
"""
PASSWD = "root:x:0:0:root:/:/bin/sh\nsshd:x:65533:65534::/run/sshd:/usr/sbin/nologin\n"
SHADOW = "root:*:19000:0:99999:7:::\nsshd:!:19000::::::\n"


def start_ssh(launch: Launch, forwarding: Mapping[str, str]) -> None:
    """Server, then client. `forwarding`: what the client's configuration says besides. Raises
    TunnelError or NetworkError.
    """
    folder, address = launch.scratch, launch.far_address
    for name, node in (("host", launch.far), ("client", launch.near)):
        launch.scratch.mkdir(mode=0o755, parents=True, exist_ok=True)
        made = folder / f"{name}.made"
        keygen = launch.helper("ssh-keygen")
        launch.ask(node, keygen, "-q", "-t", "ed25519", "-N", "", "-C", name, "-f", str(made))
        launch.write_file(name, made.read_bytes(), 0o600)
        launch.write_file(f"{name}.pub", made.with_name(f"{made.name}.pub").read_bytes())
    host = (folder / "host.pub").read_text(encoding="ascii")
    launch.write_file("known_hosts", f"[{address}]:{launch.port} {host}")
    launch.write_file("passwd", PASSWD)
    launch.write_file("shadow", SHADOW, 0o600)
    values = {"address": address, "port": launch.port, "folder": folder}
    launch.write_file("sshd_config", SERVER.format(**values))
    view = launch.write_file(
        "sshd.sh", VIEW.format(folder=folder, sshd=launch.helper("sshd")), 0o755
    )
    more = "".join(f"{name} {value}\n" for name, value in forwarding.items())
    config = launch.write_file("ssh_config", CLIENT.format(**values) + more)
    launch.start_end(launch.far, ["unshare", "--mount", str(view)])
    launch.wait_until_listening(launch.far, launch.port)
    launch.start_end(launch.near, [launch.program_path, "-N", "-F", str(config), "far"], port=None)
