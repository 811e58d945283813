# SPDX-License-Identifier: MIT
"""Bulk flows: thousands of connections by one process per end, counted as iperf3's are."""

import json
import math
import statistics
from dataclasses import replace
from pathlib import Path

import pytest

from gostlab.guest.flow_result import FlowRun, StreamShares, stream_shares
from gostlab.guest.probes import fidelity
from gostlab.spec import preflight
from gostlab.traffic import bulk
from tests.asked import run_of
from tests.sandboxed import Done, Lab, written

SEEDS = range(1, 6)
CLIENT = {"began_s": 100.0, "connected_s": 100.05, "from_s": 100.06, "ended_s": 104.06}
SERVER = {"from_s": 100.08, "ended_s": 104.06, "ended_early": 0, "received": [1000, 2000, 3000]}
ASKED = "{rate: 10mbit, loss: 0.3%%, duration: 6s, flows: {a: {kind: %s, streams: 4}}}"


IPERF3_BLOCK_BYTES = 128 * 1024


@pytest.mark.sandbox
def test_bulk_and_iperf3_get_the_same_goodput(lab: Lab) -> None:
    """The kernel's counts of both over five seconds differ by less than the seeds do.

    Their reports are what the kernel delivered, iperf3's less the last block of each stream: its
    receiver counts a block when all of it has arrived.
    """
    done = {
        kind: [lab.run(replace(written(ASKED % kind), seed=seed)) for seed in SEEDS]
        for kind in ("tcp", "bulk")
    }
    acked = {
        kind: [acked_bytes(run, 6.0) - acked_bytes(run, 1.0) for run in runs]
        for kind, runs in done.items()
    }

    spread = max(max(values) - min(values) for values in acked.values())
    difference = statistics.median(acked["bulk"]) - statistics.median(acked["tcp"])
    assert abs(difference) <= spread, acked
    for run in done["tcp"]:
        assert run.flows["a"]["bytes"] % IPERF3_BLOCK_BYTES == 0
        assert run.flows["a"]["bytes"] <= acked_bytes(run)
        assert acked_bytes(run) < run.flows["a"]["bytes"] + 4 * IPERF3_BLOCK_BYTES


def acked_bytes(done: Done, until_s: float = math.inf) -> int:
    """Return what the senders' sockets had delivered by a sample, from the kernel's tcp_info."""
    rows = [row for row in done.lines("sockets.jsonl") if row["end"] == "near"]
    last = {row["local"]: row["bytes_acked"] for row in rows if row["t_s"] <= until_s}
    return sum(last.values())


@pytest.mark.sandbox
def test_many_streams_in_both_directions_are_counted_and_repeat_to_the_bit(lab: Lab) -> None:
    asked = (
        "{rate: 20mbit, buffer: 6000pkts, duration: 4s,"
        " flows: {a: {kind: bulk, streams: 300, direction: both}}}"
    )
    first, second = lab.run(asked), lab.run(asked)

    assert first.faults == {} and first.unlike(second) == []
    for flow in ("a-up", "a-down"):
        row = first.flows[flow]
        by_stream = row["by_stream"]
        assert (by_stream["streams"], by_stream["ended_early"]) == (300, 0)
        assert by_stream["min_bps"] <= by_stream["median_bps"] <= by_stream["max_bps"]
        # The queue lasts for 3.6 s and a first timeout for one (RFC 6298): the path also carries
        # retransmissions of what still waits there.
        carried_bytes = row["bytes"] + 1448 * row["retransmits"]
        assert 8 * carried_bytes / row["seconds"] > 0.85 * 20e6
        assert row["goodput_bps"] < 20e6 * 1448 / 1514
        assert row["bytes"] <= by_stream["socket_bytes"] <= row["bytes"] + 300 * 64
    rows = first.lines("sockets.jsonl")
    assert len({(row["flow"], frozenset((row["local"], row["peer"]))) for row in rows}) == 600


@pytest.mark.sandbox
def test_a_tunnel_carries_streams_with_their_own_congestion_control(lab: Lab) -> None:
    done = lab.run(
        "{rate: 10mbit, duration: 3s, tunnel: relay+wss, cc: bbr,"
        " flows: {a: {kind: bulk, streams: 5}}}"
    )

    assert done.flows["a"]["by_stream"]["streams"] == 5 and done.faults == {}


def reports(folder: Path, client: dict[str, object], server: dict[str, object]) -> FlowRun:
    (folder / "bulk.json").write_text(json.dumps(client), encoding="utf-8")
    (folder / "bulk-server-a.log").write_text(json.dumps(server) + "\n", encoding="utf-8")
    return FlowRun("a", "bulk", 1.0, 5.1, report=folder / "bulk.json")


def test_goodput_is_the_receivers_bytes_from_the_first_write_to_the_end(tmp_path: Path) -> None:
    flow = run_of(flows="{a: {kind: bulk, streams: 3}}").flows[0]
    client = CLIENT | {"ended_early": 1, "retransmitted": 7}

    row = bulk.read(flow, "", reports(tmp_path, client, SERVER))

    assert (row.bytes, row.seconds, row.retransmits, row.started_s) == (6000, 4.0, 7, 1.06)
    assert row.goodput_bps == pytest.approx(12_000) and row.by_stream is not None
    assert row.by_stream["jain"] == pytest.approx(36 / (3 * 14), abs=1e-6)
    assert row.by_stream["median_bps"] == pytest.approx(4000)
    assert row.by_stream["ended_early"] == 1

    download = replace(flow, direction="download")
    swapped = CLIENT | {"ended_early": 0, "received": [500, 500, 500]}
    row = bulk.read(download, "", reports(tmp_path, swapped, SERVER | {"retransmitted": 2}))
    assert (row.bytes, row.seconds, row.retransmits) == (1500, 3.98, 2)


@pytest.mark.parametrize(
    ("early", "counted", "verdicts"),
    [
        (0, 10_000, ["ok", "ok"]),
        (0, 10_099, ["ok", "ok"]),
        (2, 10_000, ["degraded", "ok"]),
        (0, 9_999, ["ok", "invalid"]),
        (0, 200_000, ["ok", "invalid"]),
    ],
)
def test_what_a_flow_reports_is_held_against_the_kernels_count(
    early: int, counted: int, verdicts: list[str]
) -> None:
    by_stream = StreamShares(
        streams=3,
        connected_s=0.1,
        ended_early=early,
        min_bps=1,
        median_bps=1,
        max_bps=1,
        jain=1,
        socket_bytes=counted,
    )
    result = FlowRun("a", "bulk", 0, 1).result(goodput_bps=80_000, size_bytes=10_000, seconds=1)

    checks = fidelity.check_streams([result, replace(result, by_stream=by_stream)])

    assert [check.name for check in checks] == ["streams_a", "received_a"]
    assert [check.verdict for check in checks] == verdicts


def test_first_windows_beyond_the_queue_are_warned_of() -> None:
    def warned(buffer: str) -> bool:
        run = run_of(rate="10mbit", buffer=buffer, flows="{a: {kind: bulk, streams: 512}}")
        return "first_windows" in {guard.name for guard in preflight.guards(run)}

    assert warned("1bdp") and not warned("6000pkts")


def test_memory_is_that_of_streams_that_share_a_path() -> None:
    few, many = (
        run_of(rate="200mbit", buffer="96000pkts", flows=f"{{a: {{kind: bulk, streams: {n}}}}}")
        for n in (1, 4000)
    )
    assert many.memory_mib - few.memory_mib < 4000


def test_streams_that_got_nothing_have_no_index() -> None:
    shares = stream_shares([0.0, 0.0], connected_s=0.1, ended_early=2)
    assert (shares["jain"], shares["max_bps"]) == (0.0, 0.0)
