# SPDX-License-Identifier: MIT
"""Topologies of several links, in the sandbox: parking-lot, ring and mesh."""

import pytest

from tests.sandboxed import Lab, written

pytestmark = pytest.mark.sandbox

LONG_AND_SHORT = (
    "{topology: parking-lot, rate: 10mbit, rtt: 20ms, duration: 10s, cc: reno, flows: {long:"
    " {sender: 1, receiver: 3}, first: {sender: 1, receiver: 2}, second: {sender: 2, receiver: 3}}}"
)


def test_who_crosses_two_bottlenecks_gets_less_than_who_crosses_one(lab: Lab) -> None:
    done = lab.run(LONG_AND_SHORT)

    found = {name: row["goodput_bps"] for name, row in done.flows.items()}
    assert done.faults == {}
    assert found["long"] < 0.8 * min(found["first"], found["second"])
    # Each link is full: the long flow and one short one share it.
    for short in ("first", "second"):
        assert found["long"] + found[short] > 8e6
    assert done.checks["idle_rtt_before"]["got"] == pytest.approx(40, abs=0.7)
    assert done.checks["idle_rtt_before_first"]["got"] == pytest.approx(20, abs=0.5)


@pytest.mark.parametrize(("topology", "links"), [("ring", 2), ("mesh", 1)])
def test_a_round_trip_is_that_of_the_links_crossed(lab: Lab, topology: str, links: int) -> None:
    asked = "rate: 10mbit, rtt: 20ms, duration: 2s, flows: {one: {sender: 1, receiver: 4}, "
    asked += "two: {sender: 4, receiver: 2}}"
    run = written(f"{{topology: {topology}, {asked}}}")
    done = lab.run(run)

    assert done.flows["one"]["goodput_bps"] > 5e6
    assert done.checks["idle_rtt_before"]["got"] == pytest.approx(20, abs=0.5)
    assert run.flows[1].rtt_ms == 20 * links
    assert done.checks["idle_rtt_before_two"]["got"] == pytest.approx(20 * links, abs=0.9)


def test_a_change_is_made_where_its_link_is(lab: Lab) -> None:
    done = lab.run(
        "{hops: 2, rate: 10mbit, rtt: 20ms, duration: 6s, links: {hop2: {rate: 8mbit, rtt:"
        " 40ms}}, changes: [{at: 2s, rate: 4mbit, link: hop2}, {at: 4s, delay: 30ms}]}"
    )

    assert done.faults == {}
    rows = done.lines("changes.jsonl")
    assert [(row["at_s"], row.get("rate_bps"), row.get("delay_ms")) for row in rows] == [
        (2.0, 4_000_000, None),
        (4.0, None, 30.0),
    ]
    link_of = {row["dev"]: row["link"] for row in done.lines("queues.jsonl") if "link" in row}
    assert [link_of[row["dev"]] for row in rows] == ["hop2", "hop1"]
    # 8 Mbit/s for two seconds and 4 for as many more
    assert 4.0e6 < done.flows["flow1"]["goodput_bps"] < 5.4e6
    assert done.checks["idle_rtt_after"]["got"] == pytest.approx(80, abs=0.7)
