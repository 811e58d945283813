# SPDX-License-Identifier: MIT
"""What stands on a terminal while a matrix runs: a grid that fills, a line per run under way."""

import io
from dataclasses import replace
from pathlib import Path

import pytest
from rich.console import Console

from gostlab.results.run_result import RunResult
from gostlab.scheduler import progress
from gostlab.scheduler.eta import ActiveRun
from gostlab.spec.expand import expand
from gostlab.spec.experiment import load_experiment

RUNS = expand(load_experiment("thesis-tunnel"), quick=True)
MAIN = sorted((run for run in RUNS if run.matrix == "main"), key=lambda run: run.name)


def ended(index: int, verdict: str | None = "ok", outcome: str = "ok") -> RunResult:
    return RunResult(MAIN[index], Path(), {"outcome": outcome, "error": "died"}, verdict)


def board(width: int = 100) -> tuple[progress.ProgressBoard, io.StringIO]:
    file = io.StringIO()
    console = Console(file=file, width=width, force_terminal=True, color_system=None)
    return progress.ProgressBoard("thesis-tunnel", console), file


def shown(made: progress.ProgressBoard, width: int = 100) -> list[str]:
    file = io.StringIO()
    Console(file=file, width=width).print(made.picture())
    return file.getvalue().splitlines()


def test_the_grid_fills_with_what_became_of_each_run() -> None:
    made, file = board()
    made.planned(MAIN[:6], [ended(0)])
    made.begin(6, 1, 60.0, 0)
    made.started(MAIN[1])
    made.finished(ended(2, "degraded"), 40.0)
    made.finished(ended(3, None, "failed"), 30.0)
    made.stop()

    lines = shown(made)
    assert lines[0] == "thesis-tunnel · 3 of 6 · about 30 s left"
    assert lines[1].split() == ["main", "█▸▒✗··", "3/6"]
    assert f"{MAIN[3].name}: failed: died" in file.getvalue()  # stays above the picture


def test_a_line_per_run_says_what_it_is_how_far_and_how_fast() -> None:
    run = next(run for run in MAIN if run.streams == 16 and run.tunnel == "gost+ws")
    moving = ActiveRun(run, 9.0, 6.2, 4.0)
    words = progress.active_run_line(moving, of="main")
    assert "16 streams" in words and "gost+ws" in words
    assert words.endswith(", run 1 · 6 of 30 s · 1.6 × real time")
    assert progress.active_run_line(replace(moving, loaded_s=None), of="main").endswith(
        "· starting"
    )


def test_no_line_is_wider_than_the_terminal() -> None:
    made, _ = board(width=40)
    runs = [replace(run, repetition=n) for n in range(1, 9) for run in RUNS]
    made.planned(runs, [])
    made.moved([ActiveRun(run, 9.0, 1.0, 1.0) for run in RUNS[:3]], 1.0)
    assert max(map(len, shown(made, 40))) <= 40


@pytest.mark.parametrize(
    "state", [progress.NO_ANSWER, progress.RUNNING, progress.DEGRADED, progress.WAITING]
)
def test_a_sign_for_several_runs_hides_none_that_needs_a_look(state: int) -> None:
    states = [progress.OK] * 99 + [state]
    signs = progress.squeeze_states(states, 10)
    assert len(signs) == 10 and signs.count(state) == 1


def test_many_matrices_share_a_row() -> None:
    made, _ = board()
    made.planned([replace(run, matrix=f"m{n}") for n, run in enumerate(RUNS[:16])], [])
    assert "16 matrices" in shown(made)[1] and len(shown(made)) == 2


def test_of_several_experiments_each_has_a_row_and_a_run_says_whose_it_is(
    capsys: pytest.CaptureFixture[str],
) -> None:
    runs = [replace(run, experiment=name) for name in ("one", "two") for run in MAIN[:2]]
    end = RunResult(runs[2], Path(), {"outcome": "ok"}, "degraded")
    made, file = board()
    made.planned(runs, [])
    made.moved([ActiveRun(runs[0], 1.0, 1.0, 1.0)], 90.0)
    made.finished(end, 60.0)
    assert [line.split()[0] for line in shown(made)[1:]] == ["one", "two", "one:"]
    assert f"two/{runs[2].name}: degraded" in file.getvalue()

    lines = progress.LineProgress()
    lines.planned(runs, [])
    lines.finished(end, 60.0)
    assert f"two/{runs[2].name}: degraded" in capsys.readouterr().err


def test_elsewhere_than_on_a_terminal_there_are_plain_lines(
    capsys: pytest.CaptureFixture[str],
) -> None:
    with progress.progress_on_stderr("x", quiet=False) as told:
        assert type(told) is progress.LineProgress
        told.planned(MAIN[:2], [])
        told.begin(2, 0, 125.0, 0)
        told.moved([ActiveRun(MAIN[0], 1.0, 1.0, 1.0)], 90.0)
        told.finished(ended(0), 60.0)
    lines = capsys.readouterr().err.splitlines()
    assert lines[0] == "2 runs to do, about 2 min 05 s" and len(lines) == 2
    assert lines[1].startswith("[1/2] ") and lines[1].endswith("1 min 00 s left")
    assert "\x1b" not in "".join(lines)
