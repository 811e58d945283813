# SPDX-License-Identifier: MIT
"""Loads in both directions at once: two flows, each near the link's rate in its direction."""

import pytest

from tests.sandboxed import Lab

pytestmark = pytest.mark.sandbox

PAYLOAD_SHARE = 1448 / 1514


@pytest.mark.parametrize("more", ["", ", tunnel: gost+wss", ", topology: dumbbell"])
def test_each_direction_is_near_the_links_rate(lab: Lab, more: str) -> None:
    done = lab.run(
        f"{{rate: 20mbit, buffer: 2bdp, duration: 10s, direction: both, queue: fq_codel{more}}}"
    )

    assert done.flows.keys() == {"flow1-up", "flow1-down"}
    for row in done.flows.values():
        # The other direction's ACKs take their share of the rate.
        assert 0.85 * 20e6 * PAYLOAD_SHARE < row["goodput_bps"] < 20e6 * PAYLOAD_SHARE
        assert row["data_began_s"] == pytest.approx(0.0, abs=0.1)
    assert done.faults == {}


def test_a_slower_direction_has_its_own_rate(lab: Lab) -> None:
    done = lab.run(
        "{forward.rate: 5mbit, reverse.rate: 20mbit, duration: 10s, direction: both,"
        " queue: fq_codel}"
    )

    up, down = (done.flows[f"flow1-{name}"]["goodput_bps"] for name in ("up", "down"))
    # The ACKs of 20 Mbit/s take up to a tenth of 5 Mbit/s.
    assert 0.8 * 5e6 * PAYLOAD_SHARE < up < 5e6 * PAYLOAD_SHARE
    assert 0.85 * 20e6 * PAYLOAD_SHARE < down < 20e6 * PAYLOAD_SHARE


def test_rrul_measures_round_trips_under_load_of_both_directions(lab: Lab) -> None:
    done = lab.run("{rate: 20mbit, buffer: 2bdp, duration: 8s, flows: rrul}")

    assert done.flows.keys() == {"tcp-up", "tcp-down", "ping"}
    trips = done.flows["ping"]["round_trips"]
    # Both queues have 40 ms each.
    assert 60 < trips["median_ms"] < 125 and trips["sent"] == pytest.approx(80, abs=2)
    assert len({(row["local"], row["peer"]) for row in done.lines("sockets.jsonl")}) == 8
