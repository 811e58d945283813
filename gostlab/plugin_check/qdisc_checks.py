# SPDX-License-Identifier: MIT
"""Check a queueing discipline: its rate or its queue, its statistics, its marks."""

from itertools import pairwise

from gostlab.plugin_check.check_runs import (
    PluginBench,
    bottleneck_rows,
    check_description,
    reject_stray_files,
    require,
    require_identical_runs,
    require_ok_checks,
)
from gostlab.registry.qdiscs import BOTTLENECK, qdisc_kinds
from gostlab.results import read_object, read_series
from gostlab.results.run_result import RunResult

PATH = {"rate": "10mbit", "rtt": "30ms", "cc": "cubic", "sample": "100ms", "duration": "6s"}
BUFFER_PKTS, RATE_BPS, RTT_MS = 200, 10e6, 30.0
BUFFER_MS = 242.0  # the time that a full buffer takes to send
SETTLED_S = 3.0
RATE_BOUND = 0.005


def load_of(bench: PluginBench, **more: str) -> dict[str, object]:
    role = "bottleneck" if bench.declared.use == BOTTLENECK else "queue"
    usual = next(declaration.name for declaration in qdisc_kinds().values() if declaration.usual)
    shaped = {**PATH, "buffer": f"{BUFFER_PKTS}pkts", "bottleneck": usual}
    return {**shaped, role: bench.name, **more}


def declares(bench: PluginBench) -> None:
    check_description(bench, bench.name, bench.declared.says)
    require(bench.declared.option.startswith("NET_SCH"), f"option: {bench.declared.option!r}")


def starts(bench: PluginBench) -> None:
    run = bench.run(load_of(bench))
    qdiscs = str((read_object(run.folder / "env.json") or {})["qdiscs_before"])
    require(f"qdisc {bench.declared.in_kernel} " in qdiscs, "tc does not show it at the bottleneck")


def carries(bench: PluginBench) -> None:
    run = bench.run(load_of(bench))
    require_ok_checks(run)
    rows = bottleneck_rows(run)
    backlog = max(row["backlog_pkts"] for row in rows)
    require(1 < backlog <= BUFFER_PKTS + 2, f"{backlog} packets in a buffer of {BUFFER_PKTS}")
    if bench.declared.use == BOTTLENECK:
        # Between samples that both see a queue it was busy all the time.
        busy = [pair for pair in pairwise(rows) if min(row["backlog_pkts"] for row in pair) > 1]
        sent_bytes = sum(end["sent_bytes"] - start["sent_bytes"] for start, end in busy)
        sent_bps = 8 * sent_bytes / sum(end["t_s"] - start["t_s"] for start, end in busy)
        require(abs(sent_bps / RATE_BPS - 1) < RATE_BOUND, f"it sent {sent_bps:.0f} bit/s")
        return
    require(rows[-1]["drops"] > 0, "CUBIC fills it, and its statistics count no drop")
    rtt_ms = median_rtt_ms(run)
    most_ms = RTT_MS + (BUFFER_MS / 2 if bench.declared.marks else 1.1 * BUFFER_MS)
    require(RTT_MS <= rtt_ms < most_ms, f"round trip {rtt_ms:.0f} ms, not up to {most_ms:.0f}")
    if bench.declared.marks:
        marked = bench.run(load_of(bench, ecn="on"))
        marks = bottleneck_rows(marked)[-1]["marks"] or 0
        require(marks > 0, "it declares marks, and its statistics count none (marks_at, marks_in)")


def median_rtt_ms(run: RunResult) -> float:
    values = sorted(
        float(row["srtt_ms"] or 0)
        for row in read_series(run.folder, "sockets")
        if row["leg"] == "wan" and row["end"] == "near" and row["t_s"] > SETTLED_S
    )
    return values[len(values) // 2]


def ends(bench: PluginBench) -> None:
    reject_stray_files(bench.run(load_of(bench)))


def refuses(bench: PluginBench) -> None:
    declaration = bench.declared
    bench.refuses("a buffer without a unit", {**load_of(bench), "buffer": "200"})
    if not declaration.has_target:
        bench.refuses("a target", load_of(bench, target="5ms"))
    if declaration.use != BOTTLENECK and not declaration.marks:
        bench.refuses("ecn", load_of(bench, ecn="on"))
    few = bench.run({**load_of(bench), "buffer": "3pkts", "duration": "1s"})
    require((few.goodput_bps or 0) > 0, "nothing passes a buffer of three packets")


def repeats(bench: PluginBench) -> None:
    require_identical_runs(bench.run(load_of(bench)), bench.run(load_of(bench), again=True))
