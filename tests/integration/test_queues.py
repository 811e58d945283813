"""What stands at the bottleneck: netem's own queue, or a token bucket over a queue that acts."""

from __future__ import annotations

import pytest

from tests.integration.sandboxed import Done, Lab, describe, direction

# 10 times the path's own 250 packets: with the plain queue CUBIC keeps it full.
DEEP = direction(rate_bps=50_000_000, delay_ms=30.0, buffer_pkts=1000)
BACK = direction(rate_bps=50_000_000, delay_ms=30.0)


def median_srtt_ms(done: Done) -> float:
    """Of the sender's socket in the second half of the run."""
    rows = [
        row["srtt_ms"]
        for row in done.lines("sockets.jsonl")
        if row["leg"] == "wan" and row["end"] == "near" and row["t_s"] > 3 and row["unacked_pkts"]
    ]
    return sorted(rows)[len(rows) // 2]


@pytest.mark.parametrize("bottleneck", ["netem", "tbf"])
def test_either_bottleneck_carries_its_rate_and_keeps_its_buffer(lab: Lab, bottleneck: str) -> None:
    done = lab.run(describe(DEEP, BACK, bottleneck=bottleneck, duration_s=10.0))

    assert done.outcome == {**done.outcome, "outcome": "ok", "error": None}
    assert 40e6 < done.goodput_bps < 50e6
    most = max(
        row["backlog_pkts"]
        for row in done.lines("queues.jsonl")
        if (row["role"], row["direction"]) == ("bottleneck", "forward")
    )
    assert 500 < most <= 1002
    assert {check["verdict"] for check in done.json("fidelity.json")["checks"]} == {"ok"}
    assert f"qdisc {bottleneck} " in done.json("env.json")["qdiscs_before"]["wan_a-eth1"]


def test_a_queue_discipline_under_the_token_bucket_shortens_the_queue(lab: Lab) -> None:
    runs = {
        queue: lab.run(describe(DEEP, BACK, bottleneck="tbf", queue=queue, duration_s=6.0))
        for queue in ("fifo", "bfifo", "sfq", "codel", "fq_codel", "pie", "fq_pie", "cake")
    }

    assert {done.outcome["outcome"] for done in runs.values()} == {"ok"}
    srtt_ms = {queue: median_srtt_ms(done) for queue, done in runs.items()}
    # A thousand packets at 50 Mbit/s are 240 ms; CoDel lets 5 ms stand, PIE 15. sfq has no more
    # than 127 packets for a flow, 31 ms.
    assert srtt_ms["fifo"] > 150 and srtt_ms["bfifo"] > 150
    assert all(srtt_ms[queue] < 90 for queue in ("codel", "fq_codel", "cake"))
    assert all(srtt_ms[queue] < 110 for queue in ("pie", "fq_pie", "sfq"))
    assert "fq_codel" in (runs["fq_codel"].folder / "commands.sh").read_text()


def test_a_change_of_rate_keeps_the_queue_and_its_limit(lab: Lab) -> None:
    change = {"at_s": 4.0, "direction": "forward", "rate_bps": 10_000_000}

    done = lab.run(describe(DEEP, BACK, bottleneck="tbf", duration_s=8.0, changes=[change]))

    assert done.outcome["outcome"] == "ok"
    assert done.lines("changes.jsonl")[0]["installed"]["rate_bps"] == 10_000_000
    shown = done.json("env.json")["qdiscs_after"]["wan_a-eth1"]
    assert "rate 10Mbit" in shown and "limit 1000p" in shown
