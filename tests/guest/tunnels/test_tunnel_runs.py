"""Tunnels in the sandbox: legs told apart, both placements, deaths noticed."""

import re

import pytest

from gostlab.machine import CHECKOUT, MachineError
from tests.sandboxed import Lab, describe, direction

pytestmark = pytest.mark.sandbox

PATH = direction(rate_bps=20_000_000, delay_ms=20.0, buffer_pkts=120)


@pytest.mark.parametrize(
    ("tunnel", "placement"),
    [("relay+ws", "endpoint"), ("relay+wss", "endpoint"), ("gost+ws", "gateway")],
)
def test_a_tunnel_carries_the_load_in_three_legs_by_the_same_commands_by_either_name(
    lab: Lab, tunnel: str, placement: str
) -> None:
    asked = {"tunnel": tunnel, "placement": placement, "streams": 2, "cc": "bbr"}
    done = lab.run(describe(PATH, PATH, duration_s=2.0, **asked))

    assert done.goodput_bps > 12e6
    far = "target" if placement == "endpoint" else "gost"
    legs = {leg["leg"]: (leg["sender"], leg["cc"]) for leg in done.legs}
    ends = {"app": "client", "wan": "client", "exit": far}
    assert legs == {leg: (end, ["bbr"]) for leg, end in ends.items()}
    assert done.json("env.json")["tunnel"]["sha256"]
    assert done.json("run.json")["tunnel"] == tunnel
    program, scheme = done.json("env.json")["tunnel"]["path"], tunnel.partition("+")[2]
    commands = done.commands
    if placement == "endpoint":
        assert f"{program} -L relay+{scheme}://:443/127.0.0.1:80\n" in commands
        assert f"-L udp://:443 -L tcp://:443 -F relay+{scheme}://10.0.4.2:443\n" in commands


def test_retr_of_iperf3_is_the_loopback_sockets_not_the_wans(lab: Lab) -> None:
    lossy = direction(rate_bps=50_000_000, delay_ms=20.0, loss=0.01, buffer_pkts=300)

    done = lab.run(describe(lossy, PATH, tunnel="gost+ws", cc="bbr", duration_s=3.0))

    retr = done.json("iperf3.json")["end"]["sum_sent"]["retransmits"]
    # iperf3 looks at its sockets a moment before they close: a loss probe or two may still follow.
    assert 0 <= done.leg("app")["segments_retransmitted"] - retr <= 2
    assert done.leg("wan")["segments_retransmitted"] > 50 > retr


def test_a_tunnel_that_never_listens_fails_the_run(lab: Lab) -> None:
    posing = {**lab.handed["tunnel"], "path": "/usr/bin/yes"}
    done = lab.run(describe(PATH, PATH, tunnel="gost+ws"), ends="failed", tunnel=posing)

    assert "listens on" in done.outcome["error"] or "died" in done.outcome["error"]


def test_a_port_in_use_fails_the_run(lab: Lab, tmp_path) -> None:
    twice = tmp_path / "twice"
    real = lab.handed["tunnel"]["path"]
    twice.write_text(f'#!/bin/sh\n{real} "$@" &\nsleep 0.5\nexec {real} "$@"\n')
    twice.chmod(0o755)
    lab.keep.append(tmp_path)

    posing = {**lab.handed["tunnel"], "path": str(twice)}
    done = lab.run(describe(PATH, PATH, tunnel="gost+ws"), ends="failed", tunnel=posing)

    assert "died (exit status 1)" in done.outcome["error"]
    assert "address already in use" in (done.folder / "tunnel-target.log").read_text()


# Of a ring three nodes would be a mesh.
BY_NODES = {"parking-lot": 3, "ring": 4, "mesh": 3}
MN = f"env -u PYTHONPATH mn --custom {CHECKOUT}/topo.py --controller none"
# Nodes and hosts, without the wires between nodes.
PING_EACH_OTHER = 'py net.ping([host for host in net.hosts if host.name[0] in "nrs"])'


def test_mn_loads_each_topology_by_itself_and_everybody_reaches_everybody(lab: Lab) -> None:
    asked = ["tunnel", "dumbbell,senders=3,receivers=2", "router", "star,sites=2"]
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
