# SPDX-License-Identifier: MIT
"""A part of a load is measured by bytes and seconds of one interval, below the link's rate."""

from typing import Any

import pytest

from gostlab.guest.flow_result import FlowResult
from gostlab.guest.network import Interface
from gostlab.guest.run_checks import check_rates
from gostlab.spec.run_spec import RunSpec
from gostlab.spec.verdict import Check
from tests.sandboxed import Done, Lab, describe, direction, flow

PAYLOAD = 1448 / 1514  # of a link's rate, behind the headers of TCP and Ethernet
UDP_PAYLOAD = 1448 / 1490  # datagrams of 1448 bytes
RATE_BPS = 20e6


def overrun(done: Done, rate_bps: float = RATE_BPS) -> float:
    """Return how many times what a link carries the flow's payload is."""
    [row] = done.flows.values()
    return float(row["goodput_bps"] / (rate_bps * PAYLOAD))


@pytest.mark.sandbox
@pytest.mark.parametrize("heading", ["upload", "download"])
@pytest.mark.parametrize(("tunnel", "rate"), [("direct", 5), ("gost+wss", 20), ("split", 20)])
def test_what_is_skipped_takes_its_bytes_and_seconds_with_it(
    lab: Lab, tunnel: str, heading: str, rate: int
) -> None:
    path = f"rate: {rate}mbit, rtt: 60ms, buffer: 4bdp, direction: {heading}, tunnel: {tunnel}"
    skipped, measured = (
        lab.run(f"{{{path}, duration: 5s, start_spread: 20ms, {part}}}")
        for part in ("skip: 2s", "measure: 2s..5s")
    )

    [row] = skipped.flows.values()
    assert (row["measured_from_s"], row["measured_to_s"], row["seconds"]) == (2.0, 5.0, 3.0)
    # What the queue holds when the load ends would be a quarter more.
    assert 0.7 < overrun(skipped, 1e6 * rate) < 1.01
    check = skipped.checks["rate_within_bottleneck"]
    assert (check["verdict"] == "ok") == (check["got"] <= 1.002 * check["asked"])
    assert skipped.flows == measured.flows and skipped.legs == measured.legs


@pytest.mark.sandbox
def test_flows_that_end_early_are_measured_until_then(lab: Lab) -> None:
    done = lab.run(
        "{rate: 20mbit, buffer: 2bdp, duration: 5s, skip: 1s, topology: dumbbell,"
        " flows: {long: {}, early: {duration: 2s}, back: {direction: download, duration: 3s},"
        " noise: {kind: udp, rate: 2mbit, duration: 4s},"
        " file: {kind: http, size: 1MB, direction: download},"
        " web: {kind: short, sizes: [20kB], start: 3s, duration: 1s}}}"
    )

    ends_s = {name: row["measured_to_s"] for name, row in done.flows.items()}
    assert ends_s["long"] == 5.0 and ends_s["early"] == 2.0 and ends_s["back"] == 3.0
    assert ends_s["noise"] == 4.0 and 1.0 < ends_s["file"] < 5.0 and 3.0 < ends_s["web"] <= 4.0
    for row in done.flows.values():
        assert row["seconds"] == pytest.approx(row["measured_to_s"] - row["measured_from_s"])
        assert row["goodput_bps"] == pytest.approx(8 * row["bytes"] / row["seconds"])
        assert row["bytes"] <= row["whole"]["bytes"] + 100_000
    assert done.flows["noise"]["goodput_bps"] == pytest.approx(2e6, rel=0.05)
    assert done.verdicts["rate_within_bottleneck"] == "ok"


@pytest.mark.sandbox
@pytest.mark.parametrize("iperf3", ["3.12", "3.18"])
@pytest.mark.parametrize("heading", ["upload", "download"])
@pytest.mark.parametrize("offered", [5, 12])
def test_a_udp_flow_got_what_arrived_while_data_could(
    lab: Lab, iperf3: str, heading: str, offered: int
) -> None:
    path = "rate: 10mbit, rtt: 100ms, buffer: 1bdp, duration: 3s"
    load = f"{{u: {{kind: udp, rate: {offered}mbit, direction: {heading}}}}}"
    done = lab.run(f"{{{path}, iperf3: '{iperf3}', flows: {load}}}")

    row = done.flows["u"]
    arrives_bps = min(1e6 * offered, 10e6 * UDP_PAYLOAD)
    assert row["goodput_bps"] == pytest.approx(arrives_bps, rel=0.01)
    assert row["offered_bps"] == pytest.approx(1e6 * offered, rel=0.01)
    arrived = row["sent_datagrams"] - row["lost_datagrams"]
    assert row["bytes"] == pytest.approx(1448 * arrived, abs=3 * 1448)
    assert {"rate_within_bottleneck", "udp_offered_u"}.isdisjoint(done.faults)


@pytest.mark.sandbox
@pytest.mark.parametrize("heading", ["upload", "download"])
def test_udp_through_a_tunnel_and_in_a_part_is_its_receivers(lab: Lab, heading: str) -> None:
    load = "kind: udp, rate: 5mbit, through: tunnel"
    path = "rate: 10mbit, rtt: 100ms, duration: 4s, measure: 1s..3s, tunnel: gost+wss"
    done = lab.run(f"{{{path}, direction: {heading}, flows: {{u: {{{load}}}}}}}")

    row = done.flows["u"]
    assert row["goodput_bps"] == pytest.approx(5e6, rel=0.01) and row["seconds"] == 2.0
    assert done.verdicts["rate_within_bottleneck"] == "ok"


# -- the check of rates


def queues() -> list[Interface]:
    return [
        Interface("wan_a", "a", "", "bottleneck", "forward"),
        Interface("wan_b", "b", "", "bottleneck", "reverse"),
    ]


def got(name: str, mbit: float, from_s: float = 0.0, seconds: float = 5.0) -> FlowResult:
    size = round(1e6 * mbit * seconds / 8)
    counts = {"retransmits": None, "lost_datagrams": None, "sent_datagrams": None}
    ended_s = from_s + seconds
    return FlowResult(name, "tcp", from_s, ended_s, 1e6 * mbit, size, seconds, **counts)


def two_flows(second: str = "upload", **more: Any) -> RunSpec:
    flows = [flow("a"), flow("b", direction=second)]
    return describe(
        direction(10_000_000), direction(5_000_000, buffer_pkts=50), flows=flows, **more
    )


def judged(run: RunSpec, *results: FlowResult) -> Check:
    return check_rates(run, results, queues())


def test_each_flow_and_their_sum_stay_below_the_link_in_their_own_direction() -> None:
    most = 10 * PAYLOAD
    assert judged(two_flows(), got("a", most / 2), got("b", most / 2)).verdict == "ok"
    sum_of_both = judged(two_flows(), got("a", most * 0.6), got("b", most * 0.6))
    assert (sum_of_both.verdict, "a and b" in sum_of_both.reason) == ("invalid", True)
    # A flow alone, in half of the time of both: 60 % of the link's rate over all of it.
    alone = judged(two_flows(), got("a", 12, seconds=2.5), got("b", 0.1))
    assert (alone.verdict, "payload of a came" in alone.reason) == ("invalid", True)
    # The reverse link is the slower one.
    back = judged(two_flows("download"), got("a", most), got("b", 5.1 * PAYLOAD))
    assert (back.verdict, "payload of b came" in back.reason) == ("invalid", True)
    assert judged(two_flows("download"), got("a", most), got("b", 5 * PAYLOAD)).verdict == "ok"


def test_a_link_whose_rate_falls_carries_what_its_rates_add_up_to() -> None:
    fall = {"at_s": 2.5, "direction": "forward", "rate_bps": 2_000_000}
    run = two_flows(changes=[fall])
    assert judged(run, got("a", 6 * PAYLOAD), got("b", 0)).verdict == "ok"
    assert judged(run, got("a", 8 * PAYLOAD), got("b", 0)).verdict == "invalid"


@pytest.mark.parametrize(
    ("mbit", "verdict"),
    # What the path held before: 40 ms of 10 Mbit/s and a queue of 1000 packets, within 4 s.
    [(10 * PAYLOAD, "ok"), (10.5 * PAYLOAD, "degraded"), (14 * PAYLOAD, "invalid")],
)
def test_above_the_link_in_a_part_is_never_ok(mbit: float, verdict: str) -> None:
    run = two_flows(measure_from_s=1.0)
    rows = [got("a", mbit, seconds=4.0), got("b", 0, seconds=4.0)]
    assert judged(run, *rows).verdict == verdict


def test_without_a_rate_nothing_is_above_it() -> None:
    free = {**direction(), "rate_bps": None}
    run = describe(free, free, flows=[flow("a"), flow("b")])
    assert judged(run, got("a", 1e5), got("b", 1e5)).verdict == "ok"
