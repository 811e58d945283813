# SPDX-License-Identifier: MIT
"""A program of the user's own as a flow: counted by its sockets or its hosts' links, its output
kept, its end judged.
"""

import re
import shutil
from pathlib import Path
from typing import Any

import pytest

from tests.lab_command import Gost
from tests.sandboxed import Lab, written
from tests.skips import require_programs

pytestmark = pytest.mark.sandbox

PATH = "rate: 5mbit, rtt: 20ms, duration: 2s"
SERVER = "exec iperf3 -s -1 -p $PORT"
CLIENT = "iperf3 -c $HOST -p $PORT -t $SECONDS"
# rsync over ssh, with keys of its own; sshd wants a user and a folder that are not there.
SSHD = """
ssh-keygen -q -t ed25519 -N '' -f host; ssh-keygen -q -t ed25519 -N '' -f mine
echo 'root:x:0:0:root:/:/bin/sh' >passwd
echo 'sshd:x:65533:65534::/run/sshd:/bin/false' >>passwd
echo 'root:*:19000:0:99999:7:::' >shadow
exec unshare --mount /bin/sh -c 'mount --bind passwd /etc/passwd; mount --bind shadow /etc/shadow
mkdir -p /run/sshd
exec {sshd} -D -e -f /dev/null -p $PORT -h $PWD/host -o StrictModes=no -o UsePAM=no
-o AuthorizedKeysFile=$PWD/mine.pub -o PidFile=none'
"""
RSYNC = """
head -c 1000000 /dev/urandom >data; mkdir -p copy
rsync -e "ssh -p $PORT -i $PWD/mine -o StrictHostKeyChecking=no -o UserKnownHostsFile=/dev/null"
 data root@$HOST:$PWD/copy/ && cmp data copy/data && echo the same
"""
GTLS_SERVER = """
openssl ecparam -name prime256v1 -genkey -noout -out key
openssl req -x509 -key key -out crt -subj /CN=t -days 3650
head -c 1000000 /dev/zero >page; exec gtlsserver -q $HOST $PORT key crt
"""
GTLS_CLIENT = "gtlsclient -q --exit-on-all-streams-close $HOST $PORT https://$HOST:$PORT/page"


def mine(server: str, client: str, more: str = PATH, **fields: str) -> Any:
    """A run of one command flow."""
    own = {"kind": "command", "server": server, "client": client, **fields}
    flow = ", ".join(
        f"{name}: {text if text[0] == '[' else quoted(text)}" for name, text in own.items()
    )
    return written(f"{{{more}, flows: {{mine: {{{flow}}}}}}}")


def quoted(text: str) -> str:
    """A text as YAML has it between single quotes, on one line."""
    return "'" + "; ".join(text.strip().splitlines()).replace("'", "''") + "'"


def joined(script: str) -> str:
    """A script whose lines that go on are one."""
    return script.replace("\n-o", " -o").replace("\n ", " ").replace("\nexec {", "; exec {")


def needs(*programs: str) -> None:
    require_programs(*programs, path="/usr/bin:/usr/sbin")


@pytest.mark.parametrize("tunnel", ["direct", "gost+ws", "wireguard"])
def test_a_command_is_counted_by_its_own_sockets(lab: Lab, tunnel: str) -> None:
    done = lab.run(mine(SERVER, CLIENT, f"{PATH}, cc: bbr, tunnel: {tunnel}"))

    found = done.flows["mine"]
    assert found["counted_by"] == "sockets" and 3.5e6 < found["goodput_bps"] < 5e6
    assert done.faults == {}
    assert "receiver" in (done.folder / "command.log").read_text()
    assert "Accepted connection" in (done.folder / "command-server-mine.log").read_text()
    crossing = [leg for leg in done.legs if leg["leg"] in ("wan", "inner")]
    assert crossing[0]["cc"] == ["bbr"]
    again = [leg for leg in done.legs if leg["leg"] != "exit"]
    assert found["retransmits"] == again[0]["segments_retransmitted"]


def test_a_download_counts_what_the_client_gets(lab: Lab) -> None:
    done = lab.run(mine(SERVER, f"{CLIENT} -R", direction="download"))

    assert 3.5e6 < done.flows["mine"]["goodput_bps"] < 5e6


def test_datagrams_are_counted_by_the_links(lab: Lab) -> None:
    done = lab.run(mine(SERVER, f"{CLIENT} -u -b 10M -l 1400", f"{PATH}, buffer: 20pkts"))

    found = done.flows["mine"]
    assert found["counted_by"] == "links" and 4e6 < found["goodput_bps"] < 5e6
    lost = sum(int(done.queue(role)[-1]["drops"]) for role in ("bottleneck", "delay"))
    assert found["lost_datagrams"] == pytest.approx(lost, abs=30) and lost > 500
    assert done.checks["sent_by_mine"]["verdict"] == "ok"


def test_its_own_files_are_at_a_folder_that_it_is_told(lab: Lab, tmp_path: Path) -> None:
    (tmp_path / "start").write_text(f"#!/bin/sh\n{SERVER}\n")
    (tmp_path / "start").chmod(0o755)

    done = lab.run(mine("$FILES/start", CLIENT, files=f"[{tmp_path}/start]"))

    assert done.faults == {} and 3.5e6 < done.flows["mine"]["goodput_bps"] < 5e6
    assert done.json("run.json")["flows"][0]["files"].keys() == {"start"}


def test_rsync_over_ssh(lab: Lab) -> None:
    needs("rsync", "ssh")
    sshd = lab.handed["programs"].get("sshd", {"path": shutil.which("sshd")})["path"]
    done = lab.run(mine(joined(SSHD).format(sshd=sshd), joined(RSYNC)))

    found = done.flows["mine"]
    assert (done.folder / "command.log").read_text().rstrip().endswith("the same")
    assert found["counted_by"] == "sockets" and 1e6 < found["bytes"] < 1.1e6
    assert done.faults == {}


@pytest.mark.parametrize("tunnel", ["direct", "gost+ws"])
def test_http3_by_ngtcp2(lab: Lab, tunnel: str) -> None:
    needs("gtlsclient", "gtlsserver", "openssl")
    more = f"{PATH}, tunnel: {tunnel}"
    done = lab.run(mine(GTLS_SERVER, GTLS_CLIENT, more, direction="download"))

    found = done.flows["mine"]
    assert found["counted_by"] == "links" and 1e6 < found["bytes"] < 1.2e6
    assert found["retransmits"] is None and found["goodput_bps"] < 5e6
    assert done.faults == {}


NOBODY = "nothing listens on port 80 .* of target: its server"


@pytest.mark.parametrize(
    ("server", "client", "says"),
    [
        ("no-such-program", CLIENT, rf"mine: {NOBODY} ended with exit status 127: .*not found"),
        ("sleep 30", CLIENT, f"mine: {NOBODY} still runs"),
        (SERVER, "sleep 1", "mine: its client ended after 1 s and its upload carried nothing"),
        (SERVER, "sleep 1000", r"mine .command. did not end within 6\d s of the run's clock"),
        ("timeout 2 iperf3 -s -p $PORT", "sleep 9", "mine: its server ended with exit status 124"),
        (
            SERVER,
            "dd if=/dev/zero bs=1M seek=255 count=2",
            "mine: its client wrote a file of more than 256 MiB",
        ),
        (SERVER, "echo a; echo b; exit 3", "mine: its client ended with exit status 3: b$"),
    ],
)
def test_a_program_that_fails_is_told_in_one_line(
    lab: Lab, server: str, client: str, says: str
) -> None:
    done = lab.run(mine(server, client), ends="failed")

    assert re.search(says, done.outcome["error"]), done.outcome
    assert "\n" not in done.outcome["error"] and done.outcome["cause"] is None


def test_commands_that_share_hosts_are_told_apart_by_tcp_alone(lab: Lab) -> None:
    two = "{rate: 5mbit, rtt: 20ms, duration: 2s, flows: {a: {}, mine: {kind: command,"
    done = lab.run(f"{two} server: '{SERVER}', client: '{CLIENT}'}}}}}}")
    counted = {name: row.get("counted_by") for name, row in done.flows.items()}
    assert counted == {"a": None, "mine": "sockets"}

    done = lab.run(f"{two} server: '{SERVER}', client: '{CLIENT} -u'}}}}}}", ends="failed")
    assert "give it hosts of its own" in done.outcome["error"]


@pytest.mark.parametrize(
    ("tunnel", "version", "entry"),
    [
        ("gost+ws", None, "127.0.0.1 -p 443"),
        ("shadowsocks", None, "127.0.0.1 -p 443"),
        ("wireguard", None, "10.9.0.2"),
        pytest.param("gost+ws", "3.2.6", "127.0.0.1 -p 443", marks=pytest.mark.real_gost),
        pytest.param("gost+quic", "3.2.6", "127.0.0.1 -p 443", marks=pytest.mark.real_gost),
    ],
)
def test_a_udp_flow_may_take_the_tunnel(
    lab: Lab, gost: Gost, tunnel: str, version: str | None, entry: str
) -> None:
    asked = f"{PATH}, flows: {{u: {{kind: udp, rate: 2mbit, through: tunnel}}}}"
    done = lab.run(f"{{tunnel: {tunnel}, {asked}}}", **lab.by(gost(version)) if version else {})

    found = done.flows["u"]
    assert found["lost_datagrams"] == 0 and found["goodput_bps"] == pytest.approx(2e6, rel=0.05)
    assert done.faults == {}
    assert f"-c {entry}" in done.commands
