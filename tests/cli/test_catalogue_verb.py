# SPDX-License-Identifier: MIT
"""`./lab catalogue`: what every experiment costs, and what its results took; and how `run` ends."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from gostlab import results
from gostlab.cli import list_experiments
from gostlab.cli import run as run_verb
from gostlab.results.run_result import RunResult
from gostlab.scheduler.eta import expected_load_s, expected_s
from gostlab.scheduler.experiment_result import ExperimentResult
from gostlab.spec.expand import expand
from gostlab.spec.experiment import load_experiment
from gostlab.spec.run_spec import RunSpec


def finish(folder: Path, run: RunSpec, wall_s: float, ended_s: float | None) -> None:
    """A finished run's folder."""
    place = results.create_run_folder(folder, run)
    outcome = {"outcome": "ok" if ended_s else "unsupported", "error": None, "guest_s": 1.0}
    results.write_json(place / "outcome.json", outcome)
    if ended_s:
        results.write_json(place / "flows.json", {"flows": [{"name": "flow1", "ended_s": ended_s}]})
    results.finish_run_folder(place, wall_s, None)


def test_the_survey_adds_up_what_is_finished_and_guesses_the_rest(tmp_path: Path) -> None:
    runs = expand(load_experiment("download"), quick=True)
    assert [run.length_s for run in runs] == [14400.0] * 4
    for run, ended_s in zip(runs[:2], (30.0, None), strict=True):
        finish(tmp_path, run, 8.0, ended_s)

    form = list_experiments.survey_form(tmp_path, runs, True, 2)

    # of a download nobody takes the time that it may last for the time that it does
    loads = [expected_load_s(run) for run in runs]
    assert max(loads) < 600
    assert (form.runs, form.finished) == (4, 2)
    assert form.load_s == pytest.approx(sum(loads))
    weights = [expected_s(run) for run in runs]
    assert form.wall_s == pytest.approx(8.0 * sum(weights) / sum(weights[:2]))
    load = list_experiments.format_span(form.load_s)
    wall = list_experiments.format_span(form.wall_s or 0)
    assert form.sentence == f"4, {load} → about {wall} (2 done)"


def test_runs_on_the_real_clock_share_no_core(tmp_path: Path) -> None:
    virtual = expand(load_experiment("validation"), quick=True)[0]
    real = replace(virtual, clock="real", matrix="other")
    for run in (virtual, real):
        finish(tmp_path, run, 10.0, 20.0)

    assert list_experiments.survey_form(tmp_path, [virtual, real], True, 2).wall_s == pytest.approx(
        15.0
    )


def test_the_table_has_every_experiment_and_their_sum(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(list_experiments, "list_experiments", lambda: ["aqm", "download"])
    rows = list_experiments.to_markdown(list_experiments.survey(tmp_path, 2)).splitlines()[2:]

    assert [row.split("|")[1].strip() for row in rows] == ["`aqm`", "`download`", "all"]
    assert all(row.count("not run yet") == 2 for row in rows)


@pytest.mark.parametrize(
    ("seconds", "words"),
    [(0, "0 s"), (99, "99 s"), (150, "2.5 min"), (1020, "17 min"), (41760, "11.6 h")],
)
def test_spans(seconds: float, words: str) -> None:
    assert list_experiments.format_span(seconds) == words


ENDS: dict[str, dict[str, Any]] = {
    "good": {"outcome": "ok"},
    "invalid": {"outcome": "ok"},
    "failed": {"outcome": "failed", "error": "died"},
    "unsupported": {"outcome": "unsupported", "error": "congestion control bbr2: not built"},
}


@pytest.mark.parametrize(
    ("ends", "code", "says"),
    [
        ("good good", 0, "2 runs: 2 good (0 of them degraded), 0 invalid, 0 failed · "),
        ("good unsupported unsupported", 0, "3 runs: 1 good (0 of them degraded), 0 invalid, 0"),
        ("unsupported unsupported good", 0, "0 failed, 2 not possible here"),
        ("unsupported", 1, "1 run: 0 good"),
        ("good invalid", 3, "2 runs: 1 good (0 of them degraded), 1 invalid, 0 failed · "),
        ("failed invalid", 1, "2 runs: 0 good (0 of them degraded), 1 invalid, 1 failed · "),
        ("good failed unsupported", 1, "0 invalid, 1 failed, 1 not possible here"),
    ],
)
def test_what_the_kernel_lacks_is_said_and_is_no_failure_beside_others(
    ends: str, code: int, says: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    runs = expand(load_experiment("download"))
    done = [
        RunResult(run, tmp_path, ENDS[end], {"good": "ok", "invalid": "invalid"}.get(end))
        for run, end in zip(runs, ends.split(), strict=False)
    ]

    assert (
        run_verb.print_outcomes(
            [ExperimentResult("download", tuple(done))], tmp_path, {"download": []}, as_json=False
        )
        == code
    )

    printed = capsys.readouterr()
    assert says in printed.out
    told = printed.err.count("not possible here: congestion control bbr2")
    assert told == ("unsupported" in ends)
