# SPDX-License-Identifier: MIT
"""TCP Prague in the sandbox, with the state read from the socket at every ACK, against
draft-briscoe-iccrg-prague-congestion-control-04; and what it is for: a short queue and a full link.
"""

import gzip
import itertools
import json
from functools import cache
from typing import Any

import pytest

from gostlab.results.metrics import bottleneck_utilisation, queue_delay_ms
from tests.sandboxed import Done, Lab

pytestmark = pytest.mark.sandbox

Row = dict[str, Any]
L4S = "bottleneck: tbf, queue: dualpi2, ecn: l4s, rtt: 10ms, buffer: 10000pkts, offloads: off"
RUNS = {
    "marks": f"{{cc: prague, acks: on, rate: 50mbit, duration: 8s, {L4S}}}",
    "marks and losses": f"{{cc: prague, acks: on, duration: 4s, forward.loss: 0.1%, {L4S}}}",
    "losses alone": "{cc: prague, acks: on, rate: 50mbit, duration: 7s, rtt: 10ms, buffer: 1bdp, offloads: off}",
    "classic ECN": "{cc: {client: prague, target: cubic}, acks: on, duration: 1s, "
    f"{L4S.replace('ecn: l4s, ', '')}}}",
}
VIRTUAL_US = 25_000
ROUNDS = 500  # at their own round trip


@cache
def run(lab: Lab, name: str) -> Done:
    return lab.run(RUNS[name])


@cache
def rows(lab: Lab, name: str) -> list[Row]:
    """The state after each ACK."""
    done = run(lab, name)
    with gzip.open(done.folder / "cc_state.jsonl.gz", "rt") as file:
        return [json.loads(line) for line in file]


def cuts(lab: Lab, name: str) -> list[tuple[Row, Row]]:
    """The rows on both sides of each fall of the window that no loss made."""
    return [
        (one, other)
        for one, other in itertools.pairwise(rows(lab, name))
        if other["window_milli"] < one["window_milli"] and one["ca_state"] < 3 > other["ca_state"]
    ]


def test_alpha_is_the_moving_average_of_the_share_of_marks(lab: Lab) -> None:
    """Each round trip moves it by a sixteenth of what it lacks to the share of that round."""
    found = rows(lab, "marks")
    first = next(place for place, row in enumerate(found) if row["marked_pkts"])
    changes = [
        other
        for one, other in itertools.pairwise(found[first:])
        if one["alpha_ppm"] != other["alpha_ppm"]
    ]
    assert len(changes) > 200
    for before, after in itertools.pairwise(changes):
        delivered = after["delivered_pkts"] - before["delivered_pkts"]
        share = 1e6 * (after["marked_pkts"] - before["marked_pkts"]) / delivered
        moved = before["alpha_ppm"] + (share - before["alpha_ppm"]) / 16
        assert after["alpha_ppm"] == pytest.approx(moved, abs=5)
        was_virtual = before["virtual_rtt_us"] == VIRTUAL_US
        round_us = VIRTUAL_US if was_virtual else after["rtt_us"]
        assert after["t_s"] - before["t_s"] >= 0.99e-6 * round_us


def test_the_first_mark_halves_the_window_and_ends_slow_start(lab: Lab) -> None:
    before, after = cuts(lab, "marks")[0]
    assert before["ssthresh_pkts"] == -1 and before["alpha_ppm"] == 0
    # A sixteenth may be gone already, where the round is over at the same ACK.
    assert 0.93e6 <= after["alpha_ppm"] <= 1e6
    assert after["window_milli"] == pytest.approx(before["window_milli"] / 2, rel=0.05)


def test_marks_take_half_of_alpha_once_per_virtual_round_trip(lab: Lab) -> None:
    found = cuts(lab, "marks")
    assert len(found) > 100
    for before, after in found[1:]:
        # The ACK's own packets have added to the window first.
        left = before["window_milli"] * (1 - after["alpha_ppm"] / 2e6)
        assert left <= after["window_milli"] + 2 and after["window_milli"] <= left + 100, after
        assert after["ssthresh_pkts"] == after["window_milli"] // 1000
    for (_, one), (before, other) in itertools.pairwise(found):
        assert other["t_s"] - one["t_s"] >= 0.99e-6 * before["virtual_rtt_us"]


def test_packets_without_a_mark_add_their_part_of_the_increase(lab: Lab) -> None:
    for one, other in itertools.pairwise(rows(lab, "marks")):
        if other["window_milli"] < one["window_milli"] or one["ssthresh_pkts"] == -1:
            continue
        acked = other["delivered_pkts"] - one["delivered_pkts"]
        acked -= other["marked_pkts"] - one["marked_pkts"]
        more = 1e-3 * acked * other["increase_ppm"] / (one["window_milli"] / 1e3)
        assert other["window_milli"] - one["window_milli"] <= more + 2


def test_a_short_round_trip_counts_as_25_ms_after_500_of_them(lab: Lab) -> None:
    found = rows(lab, "marks")
    early = [row for row in found if row["t_s"] < 0.95 * ROUNDS * 0.010]
    assert {row["increase_ppm"] for row in early} == {10**6}
    assert all(row["virtual_rtt_us"] == row["rtt_us"] for row in early)
    late = [row for row in found if row["t_s"] > 1.3 * ROUNDS * 0.010]
    assert {row["virtual_rtt_us"] for row in late} == {VIRTUAL_US}
    for row in late:
        ratio = row["rtt_us"] / VIRTUAL_US
        assert row["increase_ppm"] == pytest.approx(1e6 * ratio**2, rel=0.001)


def test_it_is_paced_at_the_window_per_round_trip(lab: Lab) -> None:
    for row in rows(lab, "marks")[10:]:
        gain = 2 if row["ssthresh_pkts"] * 1000 > row["window_milli"] else 1
        gain = 2 if row["ssthresh_pkts"] == -1 else gain
        if abs(row["ssthresh_pkts"] * 1000 - row["window_milli"]) >= 1000:
            rate = gain * row["window_milli"] / 1e3 * 1448 * 8 / row["rtt_us"] * 1e6
            assert row["pacing_bps"] == pytest.approx(rate, rel=0.002)


@pytest.mark.parametrize("name", ["marks and losses", "losses alone"])
def test_a_loss_halves_the_window_and_counts_what_marks_just_took(lab: Lab, name: str) -> None:
    cut_at, before_marks, seen = -1.0, 0, 0
    for one, other in itertools.pairwise(rows(lab, name)):
        if one["ca_state"] < 3 == other["ca_state"]:
            since_us = 1e6 * (other["t_s"] - cut_at)
            counted = before_marks if since_us < one["virtual_rtt_us"] else 0
            half = max(one["window_milli"], counted) / 2
            left = min(one["window_milli"], half)
            assert other["window_milli"] == pytest.approx(left, abs=0.02 * left), other
            seen += 1
        elif other["window_milli"] < one["window_milli"] and other["ca_state"] < 3:
            cut_at, before_marks = other["t_s"], one["window_milli"]
    assert seen > 5


def test_without_marks_alpha_stays_at_zero(lab: Lab) -> None:
    found = rows(lab, "losses alone")
    assert {row["alpha_ppm"] for row in found} == {0} and {row["mode"] for row in found} == {"L4S"}


def test_a_receiver_without_accurate_ecn_makes_it_reno(lab: Lab) -> None:
    done = run(lab, "classic ECN")
    assert done.flows["flow1"]["goodput_bps"] > 5e7
    assert done.leg("wan")["cc"] == ["prague-reno"]
    assert {row["mode"] for row in rows(lab, "classic ECN")} == {"RENO"}
    assert done.queue()[-1]["marks"] == 0 and done.counter("target", "IpExtInCEPkts") == 0


def test_it_fills_the_link_and_its_queue_stays_at_the_step(lab: Lab) -> None:
    done = run(lab, "marks")
    queues = done.lines("queues.jsonl")
    delay = queue_delay_ms(done.run, done.json("flows.json")["flows"], queues)
    used = bottleneck_utilisation(done.run, queues)
    assert delay is not None and delay.median <= 1.2 and delay.p95 <= 2.5
    assert used is not None and used >= 0.95
    assert done.queue()[-1]["drops"] == 0 and done.leg("wan")["marked_pkts"] > 1000
