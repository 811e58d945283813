# SPDX-License-Identifier: MIT
"""Tunnels in the sandbox: iperf3's retransmissions, deaths noticed, topologies that mn loads."""

import re
from pathlib import Path
from shlex import quote

import pytest

from gostlab.sandbox import CHECKOUT, MachineError
from tests.sandboxed import FEW_OPEN_FILES, Lab, describe, direction

pytestmark = pytest.mark.sandbox

PATH = direction(rate_bps=20_000_000, delay_ms=20.0, buffer_pkts=120)


def test_retr_of_iperf3_is_the_loopback_sockets_not_the_wans(lab: Lab) -> None:
    lossy = direction(rate_bps=20_000_000, delay_ms=20.0, loss=0.02, buffer_pkts=120)

    done = lab.run(describe(lossy, PATH, tunnel="gost+ws", cc="bbr", duration_s=3.0))

    retr = done.json("iperf3.json")["end"]["sum_sent"]["retransmits"]
    # iperf3 looks at its sockets a moment before they close: a loss probe or two may still follow.
    assert 0 <= done.leg("app")["segments_retransmitted"] - retr <= 2
    assert done.leg("wan")["segments_retransmitted"] > 50 > retr


@pytest.mark.parametrize(
    ("script", "says", "logged"),
    [
        ("exec sleep 1000", "listens on", ""),
        (
            '{gost} "$@" &\nsleep 0.5\nexec {gost} "$@"',
            r"died \(exit status 1\)",
            "address already in use",
        ),
    ],
    ids=["never listens", "a port in use"],
)
def test_a_tunnel_that_cannot_listen_fails_the_run(
    lab: Lab, tmp_path: Path, script: str, says: str, logged: str
) -> None:
    told = script.format(gost=lab.handed["tunnel"]["path"])
    posing = lab.posing_gost(tmp_path, f"#!/bin/sh\n{told}\n")

    done = lab.run(describe(PATH, PATH, tunnel="gost+ws"), ends="failed", **posing)

    assert re.search(says, done.outcome["error"]), done.outcome
    assert logged in (done.folder / "tunnel-target.log").read_text()


# Of a ring three nodes would be a mesh.
BY_NODES = {"parking-lot": 3, "ring": 4, "mesh": 3}
MN = f"{FEW_OPEN_FILES} env -u PYTHONPATH mn --custom {quote(str(CHECKOUT))}/topo.py --controller none"
# Nodes and hosts, without the wires between nodes.
PING_EACH_OTHER = 'py net.ping([host for host in net.hosts if host.name[0] in "nrs"])'


def test_mn_loads_each_topology_by_itself_and_everybody_reaches_everybody(lab: Lab) -> None:
    asked = ["tunnel", "dumbbell,senders=1,receivers=2", "router", "star,sites=2"]
    by_nodes = [f"{topology},nodes={count}" for topology, count in BY_NODES.items()]
    words = [f"{MN} --test pingall --topo {each}" for each in asked]
    words += [f"{MN} --pre /tmp/pings --test none --topo {each}" for each in by_nodes]

    done = lab.command("; ".join(["cd /", f"echo '{PING_EACH_OTHER}' >/tmp/pings", *words]))

    *parts, _ = done.log.split("*** Done")
    assert all("Results: 0% dropped" in part for part in parts[: len(asked)]), done.log
    for part, count in zip(parts[len(asked) :], BY_NODES.values(), strict=True):
        reached = re.findall(r"^([rs]\d) -> (.*)$", part, re.MULTILINE)
        assert len(reached) == 2 * count, part
        named = [f"{kind}{n}" for kind in "nrs" for n in range(1, count + 1)]
        for host, others in reached:
            assert others.split() == [each for each in named if each != host]


def test_a_cc_that_nobody_has_is_refused_before_a_kernel_boots(lab: Lab) -> None:
    with pytest.raises(MachineError, match="no congestion control nobodys"):
        lab.run(describe(PATH, PATH, cc="nobodys"))


def test_a_vpns_own_interface_has_the_queueing_discipline_that_was_asked(lab: Lab) -> None:
    asked = {"tunnel": "openvpn+udp", "tunnel_options": {"tun_queue": "fq_codel"}}
    done = lab.run(describe(PATH, PATH, cc="cubic", duration_s=1.0, **asked))

    script = (done.folder / "commands.sh").read_text()
    assert script.count("tc qdisc replace dev vpn0 root fq_codel") == 2
