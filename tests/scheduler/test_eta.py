# SPDX-License-Identifier: MIT
"""The time that is promised: a guess from what is asked, set right by the runs that ended."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from gostlab.results.run_result import RunResult
from gostlab.scheduler import eta, executor
from gostlab.scheduler.eta import ActiveRun, Forecast, expected_s, sampled_s
from gostlab.spec.expand import expand
from gostlab.spec.experiment import load_experiment
from gostlab.spec.path_spec import PathSpec
from gostlab.spec.run_spec import RunSpec
from tests.scheduler.test_executor import GOOD, Job

RUNS = expand(load_experiment("thesis-tunnel"), quick=True)
SWEPT = expand(load_experiment("thesis-tunnel"))


@pytest.fixture
def thirty(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every run is expected to take 30 s."""
    monkeypatch.setattr(eta, "expected_s", lambda run: 30.0)


def test_before_anything_has_ended_a_run_is_promised_what_it_asks() -> None:
    assert Forecast(RUNS, 1).left_s((), RUNS[:1]) == expected_s(RUNS[0])


def test_a_machine_that_takes_three_times_as_long_is_promised_three_times_as_much() -> None:
    forecast = Forecast(SWEPT, 1)
    for run in SWEPT[:2]:
        forecast.finished(run, 3 * expected_s(run))
    other = next(run for run in SWEPT if run.matrix != SWEPT[0].matrix and run.clock == "virtual")
    assert forecast.left_s((), [other]) == pytest.approx(3 * expected_s(other))


def test_runs_of_a_kind_say_more_of_a_run_than_others(thirty: None) -> None:
    forecast = Forecast(RUNS, 1)
    alike = [run for run in RUNS if (run.matrix, run.tunnel) == ("main", RUNS[0].tunnel)]
    slow, fast = ([run for run in alike if run.streams == streams] for streams in (16, 1))
    forecast.finished(slow[0], 90.0)
    forecast.finished(fast[0], 15.0)
    assert forecast.left_s((), slow[1:2]) == 90.0 and forecast.left_s((), fast[1:2]) == 15.0


def test_what_the_real_clock_takes_is_not_learned_from_a_slow_machine(thirty: None) -> None:
    alone = replace(RUNS[5], clock="real")
    forecast = Forecast([*RUNS, alone], 1)
    forecast.finished(RUNS[0], 150.0)
    assert forecast.left_s((), [alone]) == 30.0 and forecast.left_s((), RUNS[1:2]) == 150.0


def test_what_needs_the_machine_for_itself_is_not_dealt_to_slots(thirty: None) -> None:
    alone = [replace(run, clock="real") for run in RUNS[:3]]
    forecast = Forecast([*RUNS, *alone], 8)
    assert forecast.left_s((), alone) == 90.0 and forecast.left_s((), RUNS[:3]) == 30.0


def test_a_run_under_way_is_promised_the_rest_first_by_its_kind_then_by_its_pace(
    thirty: None,
) -> None:
    forecast = Forecast(RUNS, 1)
    unseen = ActiveRun(RUNS[0], 10.0, None, None)
    assert forecast.left_s([unseen], RUNS[1:3]) == 80.0
    almost = ActiveRun(RUNS[0], 90.0, 0.9 * RUNS[0].length_s, 90.0)
    assert forecast.left_s([almost], ()) == pytest.approx(0.9 * 10.0)


def test_more_packets_are_expected_to_take_longer_and_the_real_clock_its_length() -> None:
    half = PathSpec(*(replace(way, rate_bps=(way.rate_bps or 0) // 2) for way in RUNS[0].path))
    whole_s, half_s = (expected_s(run) for run in (RUNS[0], replace(RUNS[0], path=half)))
    around_s = 1.5 + 0.04 * RUNS[0].length_s
    assert whole_s - around_s == pytest.approx(2 * (half_s - around_s))
    assert expected_s(replace(RUNS[0], clock="real")) == RUNS[0].length_s + 5


def test_how_far_a_run_is_is_read_from_its_last_whole_sample(tmp_path: Path) -> None:
    assert sampled_s(tmp_path) is None
    (tmp_path / "hosts.jsonl").write_text('{"t_s": 1.0}\n{"t_s": 2.0}\n{"t_s": 3')
    (tmp_path / "queues.jsonl").write_text("x" * 9000 + '\n{"t_s": 2.5}\nnot json\n')
    assert sampled_s(tmp_path) == 2.5
    of_all_hosts = {f"h{number}": 0.123456 for number in range(512)}
    row = json.dumps({"t_s": 3.0, "host_busy_s": of_all_hosts})
    (tmp_path / "hosts.jsonl").write_text(f"{row}\n{row[:-9]}")
    assert sampled_s(tmp_path) == 3.0


def test_progress_hears_of_every_run_and_how_far_it_is(tmp_path: Path) -> None:
    heard: list[str] = []
    loading_s: list[float | None] = []
    promised_s: list[float] = []

    class Told(executor.RunObserver):
        def planned(self, runs: Sequence[object], done: Sequence[object]) -> None:
            heard.append(f"planned {len(runs)} {len(done)}")

        def moved(self, moving: Sequence[ActiveRun], left_s: float) -> None:
            heard.extend(f"{each.share}" for each in moving)
            loading_s.extend(each.load_elapsed_s for each in moving)

        def finished(self, done: RunResult, left_s: float) -> None:
            promised_s.append(left_s)

    class Slow(Job):
        def poll(self) -> int | None:
            half_s = RUNS[0].length_s / 2
            (self.folder / "hosts.jsonl").write_text(json.dumps({"t_s": half_s}) + "\n")
            return super().poll()

    def start(run: RunSpec, folder: Path, slot: int) -> Slow:
        return Slow(folder, GOOD, polls=40)

    executor.run_all(RUNS[:2], tmp_path, (0,), start, Told())
    assert heard[0] == "planned 2 0" and "0.5" in heard
    assert any(each is not None for each in loading_s)
    # what the first took is what the second will
    assert promised_s[0] < expected_s(RUNS[1]) / 2 and promised_s[1] == 0.0
