# SPDX-License-Identifier: MIT
"""The table after a run: each cell's goodput, delays, verdict and why it is degraded."""

import io
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from gostlab import api, results
from gostlab.cli import common
from gostlab.results.metrics import Retransmissions, Spread
from gostlab.scheduler import executor as schedule
from gostlab.scheduler import summary
from gostlab.scheduler.experiment_result import ExperimentResult
from gostlab.scheduler.summary import MAX_REASONS, MAX_ROWS, Reason, print_summary
from gostlab.spec.expand import expand, levels_in_order
from gostlab.spec.experiment import load_experiment
from gostlab.spec.run_spec import RunSpec
from tests.cli.test_result_table import cell

EXPERIMENT = """name: mine
title: Mine
settings: {profile: plain-100ms, duration: 10s, rate: 100mbit}
matrices:
  - name: main
    factors: {streams: [4, 1], cc: [cubic, bbr]}
    repetitions: REPETITIONS
  - {name: alone, factors: {loss: [0%, 1%]}}
"""
BUSY = {"name": "cpu_idle_share", "reason": "the CPU was busy"}


def finish(
    folder: Path, run: RunSpec, mbit: float, verdict: str = "ok", *, distinct: bool = True
) -> None:
    """A run that ended well: `mbit`, an RTT of 120 ms and a queue of 125 kB (10 ms) throughout."""
    place = results.create_run_folder(folder, run)
    flow = {"name": run.flows[0].name, "kind": "tcp", "started_s": 0.0, "ended_s": 10.0}
    checks = [] if verdict == "ok" else [{**BUSY, "verdict": verdict}]
    socket = {"flow": flow["name"], "leg": "wan", "end": "near", "srtt_ms": 120.0}
    socket["delivered_pkts"] = run.repetition if distinct else 1
    queue = {"role": "bottleneck", "direction": "forward", "node": "a", "dev": "b"}
    for name, rows in {
        "flows.json": [{"flows": [{**flow, "goodput_bps": mbit * 1e6}]}],
        "fidelity.json": [{"verdict": verdict, "checks": checks}],
        "outcome.json": [{"outcome": "ok", "error": None}],
        "sockets.jsonl": [{"t_s": t_s, **socket} for t_s in (0.0, 5.0)],
        "queues.jsonl": [
            {"t_s": t_s, **queue, "sent_bytes": int(t_s), "backlog_bytes": 125_000}
            for t_s in (0.0, 5.0)
        ],
    }.items():
        (place / name).write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    results.finish_run_folder(place, 1.0, None)


def outcome_of(
    tmp_path: Path,
    repetitions: int = 1,
    broken: str = "",
    verdict: str = "degraded",
    *,
    distinct: bool = True,
) -> ExperimentResult:
    """The experiment, finished: CUBIC has 10 Mbit/s, BBR 20 and one more per repetition."""
    file = tmp_path / "mine.yaml"
    file.write_text(EXPERIMENT.replace("REPETITIONS", str(repetitions)))
    experiment = load_experiment(str(file))
    runs = expand(experiment)
    for run in runs:
        mbit = 10.0 if run.cc == "cubic" else 19.0 + run.repetition
        finish(tmp_path, run, mbit, verdict if run.cell == broken else "ok", distinct=distinct)
    ends = tuple(schedule.read_result(run, tmp_path) for run in runs)
    return ExperimentResult("mine", ends, levels=levels_in_order(experiment))


def printed(outcome: ExperimentResult) -> str:
    file = io.StringIO()
    print_summary(api.cell_results(outcome), outcome.first_cc, file)
    return file.getvalue()


def row(outcome: ExperimentResult, label: str) -> list[str]:
    return next(line for line in printed(outcome).splitlines() if label in line).split()


def test_cells_stand_in_the_order_of_their_file(tmp_path: Path) -> None:
    labels = [cell.label for cell in api.cell_results(outcome_of(tmp_path))]
    streams = [f"{count}, {cc}" for count in ("4 streams", "1 stream") for cc in ("cubic", "bbr")]
    assert labels == [*streams, "0\u00a0% loss", "1\u00a0% loss"]


def test_a_row_has_goodput_ratio_delays_and_verdict(tmp_path: Path) -> None:
    outcome = outcome_of(tmp_path)

    cells = row(outcome, "1 stream, bbr")
    assert cells[-9:] == ["1", "20.0", "–", "2.00", "120,", "120", "10,", "10", "ok"]
    assert "/ cubic" in printed(outcome)


def test_a_matrix_of_one_congestion_control_has_no_ratio(tmp_path: Path) -> None:
    assert row(outcome_of(tmp_path), "1\u00a0% loss")[-8:] == [
        *("1", "10.0", "–", "120,", "120", "10,", "10", "ok")
    ]


def test_a_short_time_keeps_two_digits_that_mean_something() -> None:
    spread = Spread(0.421, 0.0386)
    assert summary.format_delay(spread) == "0.42, 0.039"
    assert [summary.format_ms(value) for value in (0, 8.14, 9.96, 143.4)] == [
        "0",
        "8.1",
        "10",
        "143",
    ]


def test_six_runs_have_an_interval(tmp_path: Path) -> None:
    cells = {cell.label: cell for cell in api.cell_results(outcome_of(tmp_path, repetitions=6))}
    cell = cells["1 stream, bbr"]
    assert cell.goodput_bps == 22.5e6 and cell.interval_bps == (20e6, 25e6)
    assert [each.interval_bps for each in api.cell_results(outcome_of(tmp_path, 5))] == [None] * 6


@pytest.mark.parametrize("verdict", ["degraded", "invalid"])
def test_a_cell_that_is_not_ok_says_why_once(verdict: str, tmp_path: Path) -> None:
    outcome = outcome_of(tmp_path, repetitions=2)
    cell = next(end.run.cell for end in outcome.runs if end.run.cc == "bbr")
    outcome = outcome_of(tmp_path, repetitions=2, broken=cell, verdict=verdict)

    said = [line for line in printed(outcome).splitlines() if line.startswith(f"{verdict}: ")]
    assert len(said) == 1 and said[0].endswith(", bbr: the CPU was busy")


def test_what_failed_counts_for_nothing(tmp_path: Path) -> None:
    outcome = outcome_of(tmp_path)
    failed: dict[str, Any] = {"status": {"outcome": "failed"}, "verdict": None}
    ends = [
        replace(end, **failed) if (end.run.cc, end.run.streams) == ("bbr", 1) else end
        for end in outcome.runs
    ]

    cells = row(replace(outcome, runs=tuple(ends)), "1 stream, bbr")
    assert cells[-9:] == ["0", "of", "1", "–", "–", "–", "–", "–", "failed"]


def test_a_long_table_says_how_much_is_left_out() -> None:
    file = io.StringIO()

    print_summary([cell("cubic")] * (MAX_ROWS + 3), {}, file)

    assert "and 3 more cells" in file.getvalue()


@pytest.mark.parametrize(("more", "left_out"), [(0, False), (3, True)])
def test_reasons_are_said_up_to_a_number_and_then_counted(more: int, left_out: bool) -> None:
    why = tuple(Reason("degraded", f"reason {n}") for n in range(MAX_REASONS + more))
    file = io.StringIO()

    print_summary([cell("cubic", verdict="degraded", reasons=why)], {}, file)

    assert file.getvalue().count("reason ") == MAX_REASONS
    assert (
        ("and 3 more reasons" in file.getvalue()) == left_out == ("more reasons" in file.getvalue())
    )


def test_what_the_path_lost_stands_in_where_no_socket_counts_what_was_sent_again(
    tmp_path: Path,
) -> None:
    outcome = outcome_of(tmp_path)
    queue = {"t_s": 9.0, "role": "bottleneck", "direction": "forward", "dev": "b"}
    leg = {"leg": "wan", "segments_retransmitted": 3, "segments_out": 90}
    for end in outcome.runs:
        row = {**queue, "drops": 5, "sent_pkts": 95}
        (end.folder / "queues.jsonl").write_text(json.dumps(row))
        if end.run.cc == "bbr":
            legs = {"legs": [leg, {**leg, "leg": "loopback"}]}
            (end.folder / "legs.json").write_text(json.dumps(legs))

    found = {(cell.wan_resent, cell.path_lost) for cell in api.cell_results(outcome)}

    assert found == {(Retransmissions(3, 90), None), (None, Retransmissions(5, 100))}


def test_programs_get_the_same_table(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    common.print_json(api.cell_results(outcome_of(tmp_path))[1])

    cell = json.loads(capsys.readouterr().out)
    assert cell["srtt_ms"] == {"median": 120.0, "p95": 120.0} and cell["runs"] == 1
    assert cell["verdict"] == "ok" and cell["factors"] == {"streams": 4, "cc": "bbr"}


@pytest.mark.parametrize("damage", ["{", "[]", '{"checks": [3]}'])
def test_a_damaged_verdict_is_no_verdict(damage: str, tmp_path: Path) -> None:
    outcome = outcome_of(tmp_path)
    for end in outcome.runs:
        (end.folder / "fidelity.json").write_text(damage)
    ends = tuple(schedule.read_result(end.run, tmp_path) for end in outcome.runs)

    assert {cell.verdict for cell in api.cell_results(replace(outcome, runs=ends))} == {
        "no verdict"
    }


def test_copies_count_once_and_have_no_interval(tmp_path: Path) -> None:
    outcome = outcome_of(tmp_path, 6, distinct=False)

    text = " ".join(printed(outcome).split())
    cubic = next(each for each in api.cell_results(outcome) if each.label.endswith("cubic"))
    assert (len(cubic.runs), len(cubic.counted), cubic.copies) == (6, 1, 5)
    assert (cubic.goodputs_bps, cubic.interval_bps, summary.format_spread(cubic)) == (
        (10e6,),
        None,
        "",
    )
    assert "n = 1: 4 streams, cubic: 5 more of its runs are copies, sample by sample" in text
    assert row(outcome, "4 streams, cubic")[3:6] == ["1", "of", "6"]
