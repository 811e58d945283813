# SPDX-License-Identifier: MIT
"""What a run on another kernel says of it."""

import pytest

from gostlab.guest.delay_line import build_delay_line
from gostlab.guest.probes.fidelity import check_kernel, check_wakeups
from gostlab.guest.probes.timer_lateness import DepartureGap
from gostlab.guest.qdisc import shaped_direction
from gostlab.guest.shaping import takes_seeds, without_seed
from tests.asked import run_of


def test_a_run_says_what_its_kernel_lacks_and_is_degraded_where_that_decides() -> None:
    run = run_of(profile="la-hamina", kernel="5.10")
    known = {"version": "5.10.262", "lacks": ["host memory", "netem seed", "idle"]}
    kernel, lacks = check_kernel(run, known, "5.10.262")
    assert (kernel.verdict, lacks.verdict) == ("ok", "ok")
    assert lacks.reason.startswith("what this kernel lacks: no TCP memory of each host's own")
    assert "wake-ups" not in lacks.reason  # that is the real clock's
    assert check_kernel(run, {**known, "lacks": ["seeds"]}, "5.10.262")[1].verdict == "degraded"
    assert check_kernel(run, known, "7.3.4")[0].verdict == "invalid"
    assert check_kernel(run_of(profile="la-hamina"), None, "7.3.4") == []


def test_netem_is_given_no_seed_by_a_kernel_whose_netem_has_none() -> None:
    assert not takes_seeds(run_of(profile="la-hamina", kernel="5.10"), "5.10.262")
    assert takes_seeds(run_of(profile="la-hamina", kernel="6.12"), "6.12.117")
    assert takes_seeds(
        run_of(profile="la-hamina"), "6.1.0-40-amd64"
    )  # there it is a difference, and said
    run = run_of(profile="la-hamina")
    line = build_delay_line(shaped_direction(run.path.forward, run), seed=7)
    assert "seed" in line.tc_options()
    assert "seed" not in without_seed(line).tc_options()


IN_TIME, LATE = [0.1] * 500, [0.1] * 450 + [30.0] * 50
SLOW = [DepartureGap(got_s=0.0012, due_s=0.00024)] * 200
FULL = [DepartureGap(got_s=0.00024, due_s=0.00024)] * 200


@pytest.mark.parametrize(
    ("late_ms", "gaps", "idle_share", "known_to_lose", "verdict"),
    [
        (IN_TIME, SLOW, 0.9, False, "invalid"),
        # Linux 5.10 without um-idle-lost-wakeup, on the real clock: half of its ticks came 0.46 s
        # late.
        (LATE, SLOW, 0.98, True, "invalid"),
        (LATE, FULL, 0.98, True, "ok"),
        # A sound bottleneck, a busy CPU, a busy host.
        (IN_TIME, FULL, 0.9, False, "ok"),
        (IN_TIME, SLOW, 0.1, False, "ok"),
        (LATE, SLOW, 0.9, False, "ok"),
        (IN_TIME, SLOW[:50], 0.9, False, "not measured"),
        (IN_TIME, "no tracepoints", 0.9, False, "not measured"),
    ],
)
def test_a_slow_bottleneck_beside_an_idle_cpu_is_a_kernel_that_loses_wake_ups(
    late_ms: list[float],
    gaps: list[DepartureGap] | str,
    idle_share: float,
    known_to_lose: bool,
    verdict: str,
) -> None:
    check = check_wakeups(late_ms, gaps, idle_share, known_to_lose=known_to_lose)
    if verdict == "invalid":
        assert check.got == 0.2 and "sleeps through timers" in check.reason
        assert ("its idle is known for it" in check.reason) == known_to_lose
    assert verdict in (check.verdict, check.got)
