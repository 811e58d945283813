# SPDX-License-Identifier: MIT
"""A tunnel is one file and a topology one class: each, added to a copy of the lab, runs."""

import json
import os
import re
from pathlib import Path

import pytest

from tests.registry.contributed import FORWARDER, PAIRS, CopiedLab, copy_lab
from tests.sandboxed import FEW_OPEN_FILES, Done, Lab

pytestmark = pytest.mark.sandbox

MINE = """
name: mine
title: A tunnel and a topology of my own
settings: {profile: plain-100ms, duration: 2s}
matrices:
"""
THROUGH_FORWARDER = """
  - name: forwarder
    settings: {rate: 5mbit, tunnel: forwarder}
"""
PAIRED = """
  - name: NAME
    settings:
      topology: NAME
      rate: 20mbit
      buffer: 100pkts
      duration: 5s
      flows: {first: {rtt: 60ms}, second: {rtt: 80ms}}
"""


ROUTE = "add_end(self, name, net)"
OWN_ROUTE = """add_end(self, name, net)
                if name == "s1":
                    self.setNodeInfo(name, {{**self.nodeInfo(name), "defaultRoute": "{}"}})"""
# What a topology's text has, what in its place is wrong, and what is said of that.
WRONG = [
    # what Mininet gave to another link
    ('ip="10.0.0.2/', 'ip="10.1.1.2/', "right-eth0 has 10.1.1.2, its link says 10.0.0.2/24"),
    # what the kernel does not take
    (ROUTE, "via 10.9.9.9", "via 10.9.9.9: Nexthop has invalid gateway"),
    (ROUTE, "by 10.1.1.2", "by 10.1.1.2: a route goes via ADDRESS, dev NAME"),
    (ROUTE, "dev s1-eth7", "dev s1-eth7: no interface with this name"),
]


@pytest.fixture(scope="module")
def copied(tmp_path_factory: pytest.TempPathFactory) -> CopiedLab:
    """With a tunnel and another whose program is missing, a topology and others that are wrong."""
    made = copy_lab(tmp_path_factory.mktemp("copied") / "lab")
    made.add_tunnel("forwarder", FORWARDER)
    absent = FORWARDER.replace("/usr/bin/python3", "no-such-program")
    made.add_tunnel("absent", absent.replace('"forwarder"', '"absent"'))
    made.add_topology(PAIRS)
    for number, (old, new, _) in enumerate(WRONG):
        assert old in PAIRS
        wrong = PAIRS.replace(old, OWN_ROUTE.format(new) if old == ROUTE else new)
        wrong = wrong.replace("PairsTopo", f"Wrong{number}Topo")
        made.add_topology(wrong.replace('"pairs"', f'"wrong{number}"'))
    return made


@pytest.fixture(scope="module")
def ran(lab: Lab, copied: CopiedLab) -> dict[str, Done]:
    """A run through the tunnel and one of the topology."""
    folders = copied.runs(MINE + THROUGH_FORWARDER + PAIRED.replace("NAME", "pairs"))
    return {each.json("run.json")["matrix"]: each for each in map(Done, folders)}


def test_a_tunnel_in_a_file_of_its_own_carries_the_load(
    ran: dict[str, Done], copied: CopiedLab
) -> None:
    done = ran["forwarder"]

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
    assert "python3-minimal" in copied.python(
        "from gostlab.install.main import wanted_packages; print(wanted_packages())"
    )
    doctor = json.loads(copied.lab("doctor", "--json").stdout)
    found = {finding["part"]: finding["state"] for finding in doctor["findings"]}
    # Who is not root has no use for this machine's programs.
    assert found.get("tunnel forwarder") == ("there" if os.geteuid() == 0 else None)


def test_a_tunnel_whose_program_is_missing_is_refused_before_anything_runs(
    copied: CopiedLab, tmp_path: Path
) -> None:
    mine = tmp_path / "mine.yaml"
    mine.write_text(MINE + THROUGH_FORWARDER.replace("tunnel: forwarder", "tunnel: absent"))

    done = copied.lab("run", str(mine), "--machine", "sandbox", "--results", str(tmp_path / "r"))

    assert done.returncode == 2 and "no-such-program is not there" in done.stderr
    assert len(done.stderr.strip().splitlines()) == 1
    assert not list((tmp_path / "r").rglob("run.json"))


def test_a_topology_in_a_class_of_its_own_runs(ran: dict[str, Done]) -> None:
    done = ran["pairs"]

    assert done.faults == {} and done.checks
    rates = [flow["goodput_bps"] for flow in done.flows.values()]
    assert min(rates) > 1e6 and 15e6 < sum(rates) < 20e6  # they share the bottleneck, and fill it


def test_an_address_or_a_route_that_cannot_be_is_named(
    lab: Lab, copied: CopiedLab, tmp_path: Path
) -> None:
    mine = tmp_path / "mine.yaml"
    wrong = (PAIRED.replace("NAME", f"wrong{number}") for number in range(len(WRONG)))
    mine.write_text(MINE + "".join(wrong))

    done = copied.lab("run", str(mine), "--machine", "sandbox", "--results", str(tmp_path / "r"))

    assert done.returncode == 1
    for number, (old, _, says) in enumerate(WRONG):
        said = f"failed: topo.py: {'s1: ip route add default ' if old == ROUTE else ''}{says}"
        of_it = [line for line in done.stderr.splitlines() if f" wrong{number}-" in line]
        assert of_it and all(said in line for line in of_it), done.stderr


def test_mn_loads_the_new_topology_too(lab: Lab, copied: CopiedLab) -> None:
    done = lab.command(
        f"cd {copied.root};"
        f" {FEW_OPEN_FILES} mn --custom topo.py --topo pairs --controller none --test pingall",
        keep=[copied.root],
    )

    assert "Results: 0% dropped" in done.log, done.log
