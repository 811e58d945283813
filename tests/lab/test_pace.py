"""The time that is promised: a model of the work, and what this machine's own runs took."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from gostlab import results
from gostlab.ask.experiment import load_experiment
from gostlab.ask.resolve import expand
from gostlab.ask.run_description import RunDescription
from gostlab.machine.sandbox import host_facts
from gostlab.matrix import schedule
from gostlab.matrix.pace import expected_s, learned, remembered

RUNS = expand(load_experiment("thesis-tunnel"), quick=True)
HERE = host_facts("none")


def finish(folder: Path, run: RunDescription, wall_s: float, **changes: object) -> None:
    """A run that ended well, here unless `host` says otherwise."""
    place = results.prepare(folder, run)
    (place / "env.json").write_text(json.dumps({"host": changes.pop("host", HERE)}))
    (place / "outcome.json").write_text(json.dumps({"outcome": "ok", "error": None, **changes}))
    results.finish(place, wall_s, None)


def guess(folder: Path, run: RunDescription) -> float:
    return learned(remembered(folder))(run)


def test_without_a_past_the_model_is_all_there_is(tmp_path: Path) -> None:
    assert guess(tmp_path, RUNS[0]) == expected_s(RUNS[0])


def test_a_machine_that_took_three_times_as_long_is_promised_three_times_as_much(
    tmp_path: Path,
) -> None:
    first, second, other = RUNS[0], RUNS[1], RUNS[2]
    for run in (first, second):
        finish(tmp_path, run, 3 * expected_s(run))

    assert guess(tmp_path, other) == pytest.approx(3 * expected_s(other), rel=1e-3)


def test_another_repetition_of_the_same_cell_takes_what_the_first_took(tmp_path: Path) -> None:
    finish(tmp_path, RUNS[0], 3 * expected_s(RUNS[0]))
    finish(tmp_path, RUNS[1], 77.0)

    assert guess(tmp_path, replace(RUNS[1], repetition=2, seed=5)) == 77.0


def test_the_same_experiment_tells_more_than_others(tmp_path: Path) -> None:
    finish(tmp_path, RUNS[0], 2 * expected_s(RUNS[0]))
    for run in expand(load_experiment("validation"), quick=True)[:5]:
        finish(tmp_path, run, 50 * expected_s(run))

    assert guess(tmp_path, RUNS[1]) == pytest.approx(2 * expected_s(RUNS[1]), rel=1e-3)


@pytest.mark.parametrize(
    "changes",
    [{"host": {**HERE, "cpu": "another"}}, {"host": None}, {"outcome": "failed"}],
    ids=["another machine", "unknown machine", "failed"],
)
def test_what_says_nothing_of_this_machine_is_not_learned_from(
    changes: dict[str, object], tmp_path: Path
) -> None:
    finish(tmp_path, RUNS[0], 1000.0, **changes)
    (tmp_path / "x/torn").mkdir(parents=True)
    (tmp_path / "x/torn/status.json").write_text("{")

    assert guess(tmp_path, RUNS[1]) == expected_s(RUNS[1])


def test_only_the_newest_are_remembered(tmp_path: Path) -> None:
    for run in RUNS[:4]:
        finish(tmp_path, run, 10.0)

    assert len(remembered(tmp_path, most=3)) == 3


def test_the_scheduler_promises_what_it_learned(tmp_path: Path) -> None:
    promised: list[float] = []

    class Told(schedule.Quiet):
        def begin(
            self, total: int, already: int, expected_s: float, again: int, round_number: int = 1
        ) -> None:
            promised.append(expected_s)

    def start(run: RunDescription, folder: Path, slot: int) -> schedule.NeverStarted:
        return schedule.NeverStarted("no")

    schedule.run_all(
        RUNS[:4], tmp_path, (0, 1), start, results.clean_folder, Told(), guess=lambda run: 30.0
    )

    assert promised == [60.0]
