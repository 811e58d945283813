"""A tunnel is one file and a topology one class: each, added to a copy of the lab, runs."""

import json
import os
import re
from pathlib import Path

import pytest

from tests.declared.contributed import FORWARDER, PAIRS, CopiedLab, copy_lab
from tests.sandboxed import FEW_OPEN_FILES, Lab

pytestmark = pytest.mark.sandbox

THROUGH_FORWARDER = """
name: mine
title: A tunnel of my own
settings: {profile: plain-100ms, rate: 20mbit, tunnel: forwarder, duration: 2s}
matrices: [{name: one}]
"""
PAIRED = """
name: mine
title: A topology of my own
settings:
  topology: pairs
  profile: plain-100ms
  rate: 20mbit
  buffer: 100pkts
  duration: 10s
  flows: {first: {rtt: 60ms}, second: {rtt: 80ms}}
matrices: [{name: one}]
"""


@pytest.fixture
def copied(tmp_path: Path) -> CopiedLab:
    return copy_lab(tmp_path / "lab")


def test_a_tunnel_in_a_file_of_its_own_carries_the_load(lab: Lab, copied: CopiedLab) -> None:
    copied.add_tunnel("forwarder", FORWARDER)

    done = copied.run(THROUGH_FORWARDER)

    assert done.json("status.json")["outcome"] == "ok"
    legs = [(leg["leg"], leg["sockets"]) for leg in done.legs]
    assert legs == [("app", 2), ("wan", 2), ("exit", 2)]
    program = done.json("env.json")["tunnel"]
    assert program["kind"] == "python3" and re.fullmatch(r"python3 3\.\d+\.\d+", program["version"])
    assert program["path"] == "/usr/bin/python3" and len(program["sha256"]) == 64
    # What it wrote for itself is no result, and commands.sh writes it again.
    assert not list(done.folder.glob("*.py"))
    assert "import json, socket, sys, threading" in done.commands and "chmod 600" in done.commands
    replayed = copied.lab("replay", str(done.folder))
    assert replayed.returncode == 0, replayed.stdout + replayed.stderr


def test_its_packages_are_the_set_ups_and_the_doctors(copied: CopiedLab) -> None:
    copied.add_tunnel("forwarder", FORWARDER)

    assert "python3-minimal" in copied.python(
        "from gostlab.setup.steps import wanted_packages; print(wanted_packages())"
    )
    doctor = json.loads(copied.lab("doctor", "--json").stdout)
    found = {finding["part"]: finding["state"] for finding in doctor["findings"]}
    # Who is not root has no use for this machine's programs.
    assert found.get("tunnel forwarder") == ("there" if os.geteuid() == 0 else None)


def test_a_tunnel_whose_program_is_missing_is_refused_before_anything_runs(
    copied: CopiedLab,
) -> None:
    copied.add_tunnel("forwarder", FORWARDER.replace("/usr/bin/python3", "no-such-program"))
    (copied.root / "mine.yaml").write_text(THROUGH_FORWARDER)

    done = copied.lab("run", "mine.yaml", "--machine", "sandbox", "--results", "mine")

    assert done.returncode == 2 and "no-such-program is not there" in done.stderr
    assert len(done.stderr.strip().splitlines()) == 1
    assert not list((copied.root / "mine").rglob("run.json"))


def test_a_topology_in_a_class_of_its_own_runs(lab: Lab, copied: CopiedLab) -> None:
    copied.add_topology(PAIRS)

    done = copied.run(PAIRED)

    assert done.faults == {} and done.checks
    rates = [flow["goodput_bps"] for flow in done.flows.values()]
    assert min(rates) > 1e6 and 15e6 < sum(rates) < 20e6  # they share the bottleneck, and fill it


ROUTE = "add_end(self, name, net)"
OWN_ROUTE = """add_end(self, name, net)
                if name == "s1":
                    self.setNodeInfo(name, {{**self.nodeInfo(name), "defaultRoute": "{}"}})"""


@pytest.mark.parametrize(
    ("old", "new", "says"),
    [
        # what Mininet gave to another link
        ('ip="10.0.0.2/', 'ip="10.1.1.2/', "right-eth0 has 10.1.1.2, its link says 10.0.0.2/24"),
        # what the kernel does not take
        (ROUTE, "via 10.9.9.9", "via 10.9.9.9: Nexthop has invalid gateway"),
        (ROUTE, "by 10.1.1.2", "by 10.1.1.2: a route goes via ADDRESS, dev NAME"),
        (ROUTE, "dev s1-eth7", "dev s1-eth7: no interface with this name"),
    ],
)
def test_an_address_or_a_route_that_cannot_be_is_named(
    lab: Lab, copied: CopiedLab, tmp_path: Path, old: str, new: str, says: str
) -> None:
    assert old in PAIRS
    wrong = OWN_ROUTE.format(new) if old == ROUTE else new
    copied.add_topology(PAIRS.replace(old, wrong))
    (copied.root / "mine.yaml").write_text(PAIRED)

    done = copied.lab("run", "mine.yaml", "--machine", "sandbox", "--results", str(tmp_path / "r"))

    said = f"topo.py: s1: ip route add default {says}" if old == ROUTE else says
    assert done.returncode == 1 and said in done.stdout + done.stderr


def test_mn_loads_the_new_topology_too(lab: Lab, copied: CopiedLab) -> None:
    copied.add_topology(PAIRS)

    done = lab.command(
        f"cd {copied.root};"
        f" {FEW_OPEN_FILES} mn --custom topo.py --topo pairs --controller none --test pingall",
        keep=[copied.root],
    )

    assert "Results: 0% dropped" in done.log, done.log
