# SPDX-License-Identifier: MIT
"""Each check fires when what it looks for happens: an overloaded CPU, and a path or a load that is
changed behind the lab's back.

The path is changed by an iperf3 of the test's own, which the guest finds first and which becomes
the real one afterwards.
"""

import shutil
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from gostlab.sandbox import uml
from gostlab.spec.run_spec import RunSpec
from tests.sandboxed import BIG_BUFFERS, PLAIN, Done, Lab, describe, direction, flow

pytestmark = pytest.mark.sandbox

# What a CPU that is too slow shows in, whichever comes first on a given machine.
CPU_CHECKS = {"cpu_idle_share", "ticker_lateness", "sampler_lateness", "sampler_gap"}
CPU_CHECKS |= {"bottleneck_gaps", "bottleneck_rate"}


def verdict(done: Done) -> str:
    return str(done.json("fidelity.json")["verdict"])


def fast(clock: str, rate_bps: int = 1_000_000_000) -> RunSpec:
    """One second at 1 Gbit/s, packet by packet: ten times what a sandbox carries on the real clock
    of a slow machine.
    """
    path = direction(rate_bps=rate_bps, delay_ms=5.0, buffer_pkts=800)
    return describe(path, path, duration_s=1.0, buffers=BIG_BUFFERS, sample_ms=50.0, clock=clock)


@contextmanager
def busy(cpu: int) -> Iterator[None]:
    """A loop on a CPU."""
    loop = subprocess.Popen(["taskset", "-c", str(cpu), "sh", "-c", "while :; do :; done"])
    try:
        yield
    finally:
        loop.kill()
        loop.wait()


def sabotage(lab: Lab, folder: Path, *, before: str = ":", change: str = "") -> dict[str, Any]:
    """What to hand a run whose iperf3 clients first run a shell script, then start with arguments
    changed by a sed script.
    """
    own = lab.handed["iperf3"].get(PLAIN.iperf3)
    program = lab.posing(
        folder,
        f"""#!/bin/bash
in_node() {{
    thread=$(grep -lx "mininet:$1" /proc/[0-9]*/task/*/comm | head -n 1)
    nsenter --net="${{thread%comm}}ns/net" "${{@:2}}"
}}
case "$1" in -c)
    {before}
    set -- $(printf '%s ' "$@" | sed -E '{change}') ;;
esac
exec {own["path"] if own else shutil.which("iperf3")} "$@"
""",
        "iperf3",
    )
    return {
        "path_dirs": [str(folder), *lab.handed["path_dirs"]],
        "iperf3": {PLAIN.iperf3: {**own, "path": str(program)}} if own else {},
    }


def test_an_overloaded_cpu_is_caught_on_the_real_clock(lab: Lab) -> None:
    assert_blamed_on_the_cpu(lab.run(fast("real"), ends=""))


def test_a_neighbour_on_the_same_cpu_is_caught_on_the_real_clock(lab: Lab) -> None:
    guest, folder = lab.start(fast("real"))
    begun = folder / "changes.jsonl"  # written as the load begins
    while guest.poll() is None and not begun.exists():
        time.sleep(0.02)
    with busy(lab.cpu):
        time.sleep(1.0)  # as long as the load lasts
    guest.wait()

    assert_blamed_on_the_cpu(Done(folder))


def assert_blamed_on_the_cpu(done: Done) -> None:
    if done.outcome["outcome"] == "failed":  # a machine so busy that the run was not even begun
        assert "on the real clock a busy CPU adds to it" in done.outcome["error"]
        return
    found = done.checks
    assert any("CPU" in done.faults[name]["reason"] for name in {*done.faults} & CPU_CHECKS), found
    assert "virtual_clock" not in found


def test_the_virtual_clock_makes_the_same_run_of_it_with_and_without_the_hosts_load(
    lab: Lab,
) -> None:
    run = fast("virtual", rate_bps=400_000_000)
    alone = lab.run(run)
    guest, folder = lab.start(run)
    with busy(lab.cpu):
        guest.wait()

    loaded = Done(folder)
    for done in (alone, loaded):
        assert done.faults == {}
        assert "virtual_clock" in done.checks and "ticker_lateness" not in done.checks
    # Not a bound but the same run.
    assert alone.unlike(loaded) == [] and alone.goodput_bps > 340e6


def run_without_bytecode(lab: Lab, run: RunSpec) -> Done:
    """The run in a guest whose Python finds no bytecode and compiles all that it imports: hundreds
    of calls more before the load, and a larger environment.
    """
    environ = uml.guest_environ
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(
            uml,
            "guest_environ",
            lambda extra={}, root=None: environ(
                {**extra, "PYTHONPYCACHEPREFIX": "/nowhere", "PAD": 60 * "x"}, root
            ),
        )
        return lab.run(run)


def test_one_seed_gives_one_run_and_what_came_before_its_load_hardly_moves_it(lab: Lab) -> None:
    path = direction(rate_bps=20_000_000, delay_ms=20.0, loss=0.002, buffer_pkts=100)
    run = describe(
        path, direction(rate_bps=20_000_000), cc="bbr", duration_s=3.0, acks=True, sample_ms=100.0
    )

    one, two, other = lab.run(run), lab.run(run), run_without_bytecode(lab, run)

    assert one.unlike(two) == []
    # Another number of calls before the load: its instants are some microseconds apart, so that
    # now and then a packet leaves before an ACK in one run and after it in the other.
    assert other.goodput_bps == pytest.approx(one.goodput_bps, rel=0.005)
    assert len(other.acks) == pytest.approx(len(one.acks), rel=0.005)
    for ours, others in zip(one.acks[:10], other.acks[:10], strict=True):
        assert float(ours["t_s"]) == pytest.approx(float(others["t_s"]), abs=50e-6)
        assert ours["flow"] == others["flow"] and ours["cwnd_pkts"] == others["cwnd_pkts"]


def test_a_path_or_a_load_that_is_not_the_asked_one_is_invalid(lab: Lab, tmp_path: Path) -> None:
    path = direction(rate_bps=20_000_000, delay_ms=10.0, buffer_pkts=100)
    spoil = sabotage(
        lab,
        tmp_path,
        change="s/-t 5/-t 1 -C reno/",
        before=(
            "in_node wan_b tc qdisc change dev wan_b-eth1 root netem limit 1000000 delay 25ms"
            " loss 5%"
        ),
    )

    done = lab.run(describe(path, path), **spoil)

    found = done.checks
    assert {name for name, check in found.items() if check["verdict"] == "invalid"} == {
        "idle_rtt_after",
        "cc_on_wan_sockets",
        "run_length",
        "delay_line_drops_forward",
    }
    assert found["idle_rtt_after"]["got"] == pytest.approx(35.08, abs=0.2)
    assert found["cc_on_wan_sockets"]["got"] == ["reno"]
    assert found["run_length"]["reason"] == "the load ended early"
    assert found["delay_line_drops_forward"]["got"] > 0
    assert verdict(done) == "invalid"


def test_loss_beside_its_interval_and_a_rate_above_the_bottlenecks_are_invalid(
    lab: Lab, tmp_path: Path
) -> None:
    path = direction(rate_bps=5_000_000, delay_ms=5.0, loss=0.002, buffer_pkts=100)
    spoil = sabotage(
        lab,
        tmp_path,
        change="s/-t 3/-t 3 -b 20M/",
        before=(
            "in_node wan_b tc qdisc change dev wan_b-eth1 root netem limit 1000000 delay 5ms loss"
            " 2%; in_node wan_a tc qdisc change dev wan_a-eth1 root netem limit 100 rate 40mbit"
        ),
    )

    done = lab.run(describe(path, direction(delay_ms=5.0), cc="bbr", duration_s=3.0), **spoil)

    found = done.checks
    assert found["delay_line_drops_forward"]["verdict"] == "invalid"
    assert found["delay_line_drops_forward"]["got"] > found["delay_line_drops_forward"]["asked"][1]
    assert found["rate_within_bottleneck"]["verdict"] == "invalid"
    assert found["rate_within_bottleneck"]["got"] > 5_000_000


def test_a_udp_flow_short_of_its_offer_degrades_and_one_of_100_kbit_that_was_sent_whole_is_good(
    lab: Lab, tmp_path: Path
) -> None:
    def udp(name: str, rate_bps: int) -> dict[str, Any]:
        return flow(name, kind="udp", cc=None, rate_bps=rate_bps, duration_s=5.0)

    run = describe(flows=[flow(), udp("short", 10_000_000), udp("slow", 100_000)])

    done = lab.run(run, **sabotage(lab, tmp_path, change="s/-b 10000000/-b 5000000/"))

    assert done.verdicts["udp_offered_short"] == "degraded"
    assert done.checks["udp_offered_short"]["got"] == pytest.approx(5e6, rel=0.05)
    assert done.verdicts["udp_offered_slow"] == "ok"
    assert done.checks["udp_offered_slow"]["got"] == pytest.approx(100_000, rel=0.2)


def test_a_tunnel_that_dies_is_an_invalid_check_too(lab: Lab, tmp_path: Path) -> None:
    dying = f'#!/bin/sh\ntimeout 1 {lab.handed["tunnel"]["path"]} "$@"\nexit 3\n'

    posing = lab.posing_gost(tmp_path, dying)
    done = lab.run(describe(tunnel="gost+ws"), ends="failed", **posing)

    assert "exit status 3" in done.outcome["error"]
    bad = [name for name, verdict in done.verdicts.items() if verdict == "invalid"]
    assert bad == ["tunnel_alive"]
