# SPDX-License-Identifier: MIT
"""A path reorders, duplicates, corrupts and loses packets as asked, measured in the sandbox.

Each share is compared with the kernel's own count. A correct lab misses a bound of the binomial
distribution once in ten thousand runs, but the runs are seeded: each time the same.
"""

from __future__ import annotations

from typing import Any

import pytest

from tests.sandboxed import Lab, describe, direction, flow

pytestmark = pytest.mark.sandbox

UDP = [flow(kind="udp", cc=None, rate_bps=40_000_000, duration_s=4.0)]
BACK = direction(delay_ms=10.0)


def path_with(**impairments: Any) -> dict[str, Any]:
    return {**direction(rate_bps=100_000_000, delay_ms=10.0), **impairments}


def test_reordered_duplicated_and_corrupted_packets_are_the_asked_shares(lab: Lab) -> None:
    path = path_with(
        reorder={"share": 0.02, "distance": 5}, duplicate={"share": 0.03}, corrupt={"share": 0.01}
    )
    done = lab.run(describe(path, BACK, flows=UDP, duration_s=4.0))

    [counts] = done.json("env.json")["impairments"]
    passed = counts["sent_pkts"]
    assert passed > 10_000
    assert counts["duplicated"] / passed == pytest.approx(0.03 / 1.03, rel=0.15)
    assert counts["corrupted"] / passed == pytest.approx(0.01, rel=0.25)
    # After each reordered packet four are not: one of 4 + 1/0.02 packets.
    assert counts["reordered"] / passed == pytest.approx(1 / 54, rel=0.15)
    for what in ("reordered", "duplicated", "corrupted"):
        check = done.checks[f"{what}_forward"]
        assert check["verdict"] == "ok"
        assert check["asked"][0] <= check["got"] <= check["asked"][1]
        assert check["got"] == counts[what]


def test_packets_are_reordered_beside_jitter_that_keeps_the_order(lab: Lab) -> None:
    path = path_with(reorder={"share": 0.02}, jitter_ms=2.0, ordered=True)
    done = lab.run(describe(path, BACK, flows=UDP, duration_s=3.0))

    [counts] = done.json("env.json")["impairments"]
    assert counts["reordered"] / counts["sent_pkts"] == pytest.approx(0.02, rel=0.2)
    assert done.verdicts["reordered_forward"] == "ok"


@pytest.mark.parametrize(
    ("loss", "share"),
    [
        ({"model": "state", "p": 0.01, "r": 0.3, "p32": 0.2, "p23": 0.5, "p14": 0.002}, 0.0337),
        ({"model": "random", "p": 0.2, "correlation": 0.25}, 0.1019),
    ],
)
def test_losses_that_depend_on_each_other_are_their_models_share(
    lab: Lab, loss: dict[str, Any], share: float
) -> None:
    done = lab.run(describe(path_with(loss=loss), BACK, flows=UDP, duration_s=4.0))

    check = done.checks["delay_line_drops_forward"]
    assert check["verdict"] == "ok" and check["asked"][0] <= check["got"] <= check["asked"][1]
    last = done.queue("delay")[-1]
    assert last["drops"] / (last["drops"] + last["sent_pkts"]) == pytest.approx(share, rel=0.1)


def test_packets_of_a_slot_leave_together_and_no_faster_than_the_slots_send(lab: Lab) -> None:
    path = path_with(slot={"min_ms": 8.0, "max_ms": 8.0, "packets": 16})
    done = lab.run(describe(path, BACK, duration_s=4.0))

    # 16 packets of 1448 bytes each 8 ms, after the slow start.
    most_bps = 16 * 1448 * 8 / 0.008
    assert 0.95 * most_bps <= done.goodput_bps <= most_bps
    assert done.verdicts["slot_pkts_forward"] == "ok"
    # An idle packet waits for the next slot.
    assert done.verdicts["idle_rtt_before"] == "ok"
    assert done.checks["idle_rtt_before"]["got"] == pytest.approx(20.0 + 8.0, abs=0.3)


def test_in_an_outage_nothing_passes_and_after_a_handover_the_path_is_the_new_one(lab: Lab) -> None:
    lost, none = {"model": "random", "p": 1.0}, {"model": "random", "p": 0.0}
    changes = [
        {"at_s": 1.0, "direction": "forward", "loss": lost},
        {"at_s": 1.5, "direction": "forward", "loss": none, "delay_ms": 30.0},
    ]
    run = describe(path_with(), BACK, flows=UDP, duration_s=4.0, sample_ms=20.0, changes=changes)
    done = lab.run(run)

    check = done.checks["outage_forward"]
    assert (check["verdict"], check["got"]) == ("ok", 0)
    sent = {round(row["t_s"], 2): row["sent_pkts"] for row in done.queue("delay")}
    assert sent[1.04] == sent[1.5] < sent[1.54]
    assert done.checks["idle_rtt_after"]["asked"] == pytest.approx(40.0, abs=0.1)
    # Half a second of 40 Mbit/s is an eighth of what was sent.
    [result] = done.flows.values()
    assert result["lost_datagrams"] / result["sent_datagrams"] == pytest.approx(1 / 8, rel=0.05)


def test_a_change_ends_what_a_path_did(lab: Lab) -> None:
    changes = [
        {"at_s": 1.0, "direction": "forward", "corrupt": {"share": 0.0}},
        {"at_s": 1.0, "direction": "forward", "reorder": {"share": 0.0}},
        {"at_s": 1.0, "direction": "forward", "slot": {"min_ms": 0.0, "max_ms": 0.0}},
    ]
    path = path_with(corrupt={"share": 0.05}, slot={"min_ms": 1.0, "max_ms": 1.0})
    run = describe(path, BACK, flows=UDP, duration_s=3.0, changes=changes)
    done = lab.run(run)

    [counts] = done.json("env.json")["impairments"]
    first_second = 40e6 / 8 / 1514
    assert counts["corrupted"] == pytest.approx(0.05 * first_second, rel=0.2)
    assert done.verdicts["idle_rtt_after"] == "ok"


@pytest.mark.parametrize("name", ["normal", "pareto", "paretonormal"])
def test_jitter_has_the_shape_that_tc_knows_by_name(lab: Lab, name: str) -> None:
    run = (
        f"{{rate: 100mbit, rtt: 100ms, jitter: 5ms, distribution: {name}, duration: 3s,"
        " flows: {p: {kind: ping, interval: 10ms}}}"
    )
    done = lab.run(run)

    assert done.verdicts["idle_rtt_before"] == "ok"
    assert "distribution gostlab-" in done.commands


def test_a_download_of_another_rate_and_loss_than_the_upload(lab: Lab) -> None:
    done = lab.run(
        "{rate: 20mbit/5mbit, loss: 1%/0%, rtt: 20ms, direction: download, duration: 3s}"
    )

    path = done.run.path
    assert (path.forward.rate_bps, path.reverse.rate_bps) == (5_000_000, 20_000_000)
    assert (path.forward.loss.p, path.reverse.loss.p) == (0.0, 0.01)
    assert 5e6 < done.goodput_bps < 20e6


@pytest.mark.parametrize("burst_bytes", [15_140, 151_400])
def test_a_policer_passes_its_rate_and_a_burst_and_queues_nothing(
    lab: Lab, burst_bytes: int
) -> None:
    path = path_with(policer={"rate_bps": 10_000_000, "burst_bytes": burst_bytes})
    udp = [flow(kind="udp", cc=None, rate_bps=40_000_000, duration_s=4.0)]
    done = lab.run(describe(path, BACK, flows=udp, duration_s=4.0, sample_ms=10.0))

    rows = [row for row in done.queue() if 1.0 <= row["t_s"] <= 3.9]
    passed_bps = 8 * (rows[-1]["sent_bytes"] - rows[0]["sent_bytes"])
    passed_bps /= rows[-1]["t_s"] - rows[0]["t_s"]
    assert passed_bps == pytest.approx(10e6, rel=0.005)
    assert max(row["backlog_pkts"] for row in rows) <= 2
    # The first packets have the whole bucket; the flow starts between two samples of 10 ms.
    start_s = next(row["t_s"] for row in done.queue() if row["sent_bytes"] > 10_000)
    second = next(row for row in done.queue() if row["t_s"] >= 1.0)
    by_rate = (second["t_s"] - start_s) * 10e6 / 8
    assert second["sent_bytes"] == pytest.approx(burst_bytes + by_rate, abs=25_000)
    assert done.verdicts["policer_rate_forward"] == "ok"
    [counts] = done.json("env.json")["impairments"]
    assert done.checks["policer_drops_forward"]["got"] == counts["policer_drops"]
    assert counts["policer_drops"] / counts["offered_pkts"] == pytest.approx(0.75, abs=0.02)


def test_a_policer_changes_and_goes_during_the_load(lab: Lab) -> None:
    rates = ((0.5, 8_000_000), (1.0, 5_000_000), (2.0, 0))
    changes = [
        {
            "at_s": at_s,
            "direction": "forward",
            "policer": {"rate_bps": rate_bps, "burst_bytes": 15_140 if rate_bps else 0},
        }
        for at_s, rate_bps in rates
    ]
    udp = [flow(kind="udp", cc=None, rate_bps=40_000_000, duration_s=3.0)]
    run = describe(path_with(), BACK, flows=udp, duration_s=3.0, sample_ms=100.0, changes=changes)
    done = lab.run(run)

    sent = {round(row["t_s"], 1): row["sent_bytes"] for row in done.queue()}
    assert 8 * (sent[1.9] - sent[1.1]) / 0.8 == pytest.approx(5e6, rel=0.01)
    assert 8 * (sent[2.9] - sent[2.1]) / 0.8 == pytest.approx(40e6, rel=0.05)
