# SPDX-License-Identifier: MIT
"""Every tunnel in the sandbox, from its start to its end: what it carries, by which connections,
and what it says of its programs.
"""

import os
import re
import shutil
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from gostlab.install.locate import RELAY, SYSTEM_PATH
from gostlab.registry.tunnels import GOST, tunnel_kind, tunnel_kinds
from tests.lab_command import Gost
from tests.sandboxed import Done, Lab, describe, direction, written

pytestmark = pytest.mark.sandbox

RATE_BPS = 10_000_000
SEED = 7
KINDS = {kind.name: kind for kind in tunnel_kinds().values() if not kind.is_direct}
NEWEST = "3.2.6"
# KCP sends its whole window into the queue and loses most of it; HTTP/3 waits for each answer.
MIN = {"gost+kcp": 0.4, "gost+h3": 0.5}


def sockets_of(name: str, streams: int, legs: tuple[str, ...]) -> dict[str, int]:
    """The sockets of each leg that a tunnel declares: one for each stream and one for iperf3's
    control connection, or the one across the path that all share.
    """
    shared = ("wan", "wan2") if KINDS[name].one_connection else ()
    return {leg: 1 if leg in shared else streams + 1 for leg in legs}


def short_run(tunnel: str, **changes: Any) -> Any:
    """A run of 3 s over 10 Mbit/s and 20 ms."""
    way = direction(rate_bps=RATE_BPS, delay_ms=10.0, buffer_pkts=50)
    changes = {"duration_s": 3.0, "streams": 2, "sample_ms": 100.0, "seed": SEED, **changes}
    return describe(way, way, tunnel=tunnel, **changes)


@pytest.fixture(scope="module")
def program(lab: Lab, gost: Gost) -> Any:
    """What a run through a tunnel is handed besides: the lab's relay, whatever GOST this machine
    has; the newest GOST where the relay has not its transport. Without one the test is skipped.
    """

    def handed(tunnel: str) -> dict[str, Any]:
        if not KINDS[tunnel].since:
            return {"tunnel": lab.handed["gosts"][RELAY]}
        return lab.by(gost(NEWEST))

    return handed


@pytest.fixture(scope="module")
def carried(lab: Lab, program: Any) -> Any:
    """A short run through a tunnel, once for all tests."""
    return cache(lambda tunnel: lab.run(short_run(tunnel), **program(tunnel)))


@pytest.mark.parametrize("name", ["wireguard", "gost+tcp"])
def test_nothing_is_larger_than_the_links_allow(lab: Lab, name: str) -> None:
    done = lab.run(short_run(name, mtu=1280, duration_s=1.0))

    [leg] = {"wireguard": ["inner"], "gost+tcp": ["wan"]}[name]
    inside = KINDS[name].inner_mtu(1280)
    assert {row["mss"] for row in done.lines("sockets.jsonl") if row["leg"] == leg} == {inside - 52}
    assert "mtu 1280" in done.commands


def sockets_by_leg(done: Done) -> dict[str, int]:
    return {leg["leg"]: leg["sockets"] for leg in done.legs}


# The rate of a chain's first path. OpenSSH's client is busy all the time that it waits for the one
# that leads it through the middle, with up to 2 MiB after the load's end: a fast path has that over
# soon.
CHAINED_BPS = dict.fromkeys(KINDS, 5_000_000) | {"ssh": 20_000_000}


@pytest.fixture(scope="module")
def chained(lab: Lab, program: Any) -> Any:
    """A short run through a tunnel over two paths, once for all tests."""

    def run(name: str) -> Done:
        cc = "{wan2: bbr}" if "wan2" in KINDS[name].chain else "bbr"
        mbit = CHAINED_BPS[name] // 1_000_000
        asked = written(
            f"{{tunnel: {name}, hops: 2, rate: {mbit}mbit, rtt: 20ms, duration: 2s, cc: {cc},"
            f" links: {{hop2: {{rtt: 40ms, rate: {max(mbit, 10)}mbit}}}}}}"
        )
        return lab.run(replace(asked, seed=SEED), **program(name))

    return cache(run)


# GOST's own are all started alike (gostlab/tunnels/gost.py): one of them stands for all that
# have as many connections, over as much.
ALIKE = {
    (kind.over, kind.one_connection, bool(kind.since)): name
    for name, kind in reversed(KINDS.items())
    if name.startswith("gost+")
}
UNLIKE = [name for name in KINDS if not name.startswith("gost+") or name in ALIKE.values()]


@pytest.mark.parametrize("name", [name for name in UNLIKE if KINDS[name].chain])
def test_a_chain_carries_the_load_over_two_paths_by_the_legs_it_declares(
    chained: Any, name: str
) -> None:
    by_tcp, done = "wan2" in KINDS[name].chain, chained(name)

    assert sockets_by_leg(done) == sockets_of(name, 1, KINDS[name].chain)
    assert done.goodput_bps > (0.1 if name in MIN else 0.6) * CHAINED_BPS[name]
    assert done.faults == {}
    if not by_tcp:
        return
    across = {leg["leg"]: (leg["sender"], leg["receiver"], leg["cc"]) for leg in done.legs}
    assert across["wan"] == ("client", "gost", ["cubic"])
    assert across["wan2"] == ("gost", "target", ["bbr"])
    srtt = {
        row["leg"]: row["min_rtt_ms"] for row in done.lines("sockets.jsonl") if row["cwnd_pkts"]
    }
    assert 19 < srtt["wan"] < 39 < srtt["wan2"] < 60


def test_a_tunnels_key_is_its_owners_alone_and_follows_from_the_seed(
    carried: Any, chained: Any
) -> None:
    """Whatever was called before the tunnel's start: another path is laid out by other calls."""
    made = re.compile(r"(-+BEGIN PRIVATE KEY.*?)END_OF_FILE\nchmod (\d+) ", re.DOTALL)
    scripts = [(run("stunnel").folder / "commands.sh").read_text() for run in (carried, chained)]

    [(key, mode)], [(same, _), (another, _)] = map(made.findall, scripts)

    assert (key, mode) == (same, "600")
    assert key != another


PAIRS = (
    "{topology: parking-lot, rate: 10mbit, rtt: 10ms, duration: 2s, links: {n2-n3: {rtt: 30ms}},"
    " flows: {long: {sender: 1, receiver: 3}, first: {sender: 1, receiver: 2}, lag: {kind: ping,"
    " sender: 1, receiver: 2}}, tunnel: "
)


@pytest.mark.parametrize("name", ["gost+ws", "wireguard", "openvpn+tcp"])
def test_tunnels_run_between_each_pair_of_hosts(lab: Lab, name: str) -> None:
    done = lab.run(f"{PAIRS}{name}}}")

    assert done.faults == {}
    crossing = tunnel_kind(name).path_leg
    ends = {
        (leg["flow"], leg["sender"], leg["receiver"]) for leg in done.legs if leg["leg"] == crossing
    }
    assert ends == {("long", "s1", "r3"), ("first", "s1", "r2")}
    idle = {row["name"]: row["got"] for row in done.json("fidelity.json")["checks"]}
    assert idle["idle_rtt_before"] == pytest.approx(40, abs=0.7)
    assert idle["idle_rtt_before_first"] == pytest.approx(10, abs=0.5)


@pytest.mark.parametrize("name", ["gost+mws", "ssh"])
def test_flows_share_a_tunnels_one_connection_where_that_is_asked(lab: Lab, name: str) -> None:
    flows = "rate: 10mbit, rtt: 20ms, duration: 2s, flows: {a: {}, b: {streams: 2}}"
    done = lab.run(f"{{tunnel: {name}, shared: 'on', {flows}}}")

    assert [(leg["leg"], leg["flow"], leg["sockets"]) for leg in done.legs] == [
        ("app", "a", 2),
        ("wan", "a", 1),
        ("exit", "a", 2),
        ("app", "b", 3),
        ("exit", "b", 3),
    ]
    assert done.faults == {}


@pytest.mark.parametrize(
    "name",
    [
        name
        for name in KINDS
        if name == "gost+ws" or ("gost+" not in name and not KINDS[name].since)
        if name not in ("openvpn+udp", "ssh+tun")  # started as openvpn+tcp and ssh are
    ],
)
def test_a_tunnel_that_cannot_start_fails_its_run_in_one_line_with_its_own_last_words(
    lab: Lab, tmp_path: Path, name: str
) -> None:
    script = "#!/bin/sh\necho warming up\necho 'Cannot find my keys' >&2\nexit 7\n"
    if KINDS[name].program == GOST:
        handed = lab.posing_gost(tmp_path, script)
    else:
        lab.require_programs_of_the_host()
        folders = f"{os.environ['PATH']}:{SYSTEM_PATH}"
        mine_alone = [each for each in KINDS[name].programs if not shutil.which(each, path=folders)]
        if not mine_alone:
            pytest.skip("this machine has its programs, which go first")
        program = mine_alone[0]
        mine = lab.handed["programs"]
        fake = {**mine[program], "path": str(lab.posing(tmp_path, script))}
        handed = {"programs": {**mine, program: fake}}

    done = lab.run(short_run(name, duration_s=1.0), ends="failed", **handed)

    assert "Cannot find my keys" in done.outcome["error"], done.outcome
    assert "\n" not in done.outcome["error"]
    assert done.outcome["cause"] is None  # the tunnel's fault, and no error of the lab's own


BEHIND = ", hops: 2, links: {hop2: {rtt: 80ms}}"
# wireguard+quic is started as wireguard+ws is.
BY_OWN_START = [name for name, kind in KINDS.items() if kind.is_vpn and not kind.since]
ON_THE_GATEWAY = [("wireguard", "", 20), *((name, BEHIND, 100) for name in BY_OWN_START)]


@pytest.mark.parametrize(("name", "behind", "rtt_ms"), ON_THE_GATEWAY)
def test_a_vpn_may_end_on_the_gateway_with_the_target_behind_it(
    lab: Lab, program: Any, name: str, behind: str, rtt_ms: float
) -> None:
    """At once, or behind the second of two paths."""
    done = lab.run(
        f"{{tunnel: {name}, placement: gateway, rate: 5mbit, buffer: 50pkts, rtt: 20ms,"
        f" duration: 2s{behind}}}",
        **program(name),
    )

    assert done.faults == {}
    ends = {leg["leg"]: (leg["sender"], leg["receiver"]) for leg in done.legs}
    assert ends["inner"] == ("client", "target")
    assert ends.get("wan", ("client", "gost")) == ("client", "gost")
    inner = [row for row in done.lines("sockets.jsonl") if row["leg"] == "inner"]
    assert -1 < min(row["min_rtt_ms"] for row in inner if row["min_rtt_ms"]) - rtt_ms < 15
    assert done.goodput_bps > 2.5e6
    assert "10.9.1.2/32 dev lo" in done.commands
