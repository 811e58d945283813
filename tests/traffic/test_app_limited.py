# SPDX-License-Identifier: MIT
"""A tcp flow at a rate: its application limits it, and where something else does, that is said."""

import itertools

import pytest

from tests.sandboxed import Lab

pytestmark = pytest.mark.sandbox


@pytest.mark.parametrize(
    ("more", "run"),
    [
        ("streams: 4", ""),
        *itertools.product(
            ("", "direction: download", "cc: bbr"), ("", "tunnel: gost+wss", "iperf3: 3.12")
        ),
    ],
)
def test_an_application_that_offers_less_than_the_path_carries_gets_its_rate(
    lab: Lab, more: str, run: str
) -> None:
    flow = f"{{rate: 4mbit, {more}}}"
    done = lab.run(f"{{rate: 10mbit, duration: 6s, flows: {{a: {flow}}}, {run or 'acks: off'}}}")

    row = done.flows["a"]
    assert row["goodput_bps"] == pytest.approx(4e6, rel=0.03)
    assert row["offered_bps"] == pytest.approx(4e6, rel=0.02)
    assert row["app_limited_share"] > 0.9
    assert row["retransmits"] == 0
    assert done.checks["app_rate_a"]["verdict"] == "ok" and done.faults == {}


def test_its_writes_are_no_bursts(lab: Lab) -> None:
    done = lab.run("{rate: 100mbit, duration: 4s, acks: on, flows: {a: {rate: 4mbit}}}")

    at_s = [float(row["t_s"]) for row in done.acks if 1.5 < float(row["t_s"]) < 3.5]
    gaps_ms = [1000 * (after - before) for before, after in itertools.pairwise(at_s)]
    # A segment each 2.9 ms, acknowledged one by one or by two.
    assert max(gaps_ms) < 10
    assert max(row["backlog_pkts"] for row in done.queue()) <= 2


def test_an_application_that_offers_more_than_the_path_carries_is_no_longer_its_limit(
    lab: Lab,
) -> None:
    done = lab.run("{rate: 10mbit, duration: 6s, flows: {a: {rate: 20mbit}}}")

    assert done.flows["a"]["goodput_bps"] < 10e6
    assert done.flows["a"]["app_limited_share"] < 0.2
    check = done.checks["app_rate_a"]
    assert check["verdict"] == "degraded" and check["asked"] == 20_000_000
    assert "of the 20 Mbit/s that its application offers" in check["reason"]
    assert "application-limited in" in check["reason"]


def test_a_slow_application_beside_a_greedy_flow_starts_on_time(lab: Lab) -> None:
    done = lab.run(
        "{topology: dumbbell, rate: 10mbit, buffer: 2bdp, duration: 6s,"
        " flows: {a: {rate: 100kbit}, b: {}}}"
    )

    assert done.flows["a"]["goodput_bps"] == pytest.approx(1e5, rel=0.15)
    assert "data_start_a" not in done.checks and done.faults == {}
