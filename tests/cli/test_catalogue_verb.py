"""`./lab catalogue`: what every experiment costs, and what its results took; and how `run` ends."""

import random
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from gostlab import results
from gostlab.cli import list_experiments
from gostlab.cli import run as run_verb
from gostlab.cli.list_experiments import Stratum, estimated, take_sample
from gostlab.scheduler.batch_result import Outcome
from gostlab.scheduler.eta import expected_load_s, expected_s
from gostlab.scheduler.queue import Finished
from gostlab.spec.expand import expand
from gostlab.spec.experiment import load_experiment
from gostlab.spec.run_spec import RunSpec


def finish(folder: Path, run: RunSpec, wall_s: float, ended_s: float | None) -> None:
    """A finished run's folder."""
    place = results.prepare(folder, run)
    outcome = {"outcome": "ok" if ended_s else "unsupported", "error": None, "guest_s": 1.0}
    results.write_json(place / "outcome.json", outcome)
    if ended_s:
        results.write_json(place / "flows.json", {"flows": [{"name": "flow1", "ended_s": ended_s}]})
    results.finish(place, wall_s, None)


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
    assert form.load_s == pytest.approx(30.0 + 0.0 + 30.0 / loads[0] * sum(loads[2:]))
    weights = [expected_s(run) for run in runs]
    assert form.wall_s == pytest.approx(8.0 * sum(weights) / sum(weights[:2]))
    load, wall = list_experiments.span(form.load_s), list_experiments.span(form.wall_s or 0)
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


def stratum(expected_s: list[float], took_s: dict[int, float], name: str = "one") -> Stratum:
    return Stratum(name, "main", expected_s, took_s)


def test_what_a_sample_took_over_its_guess_is_what_the_rest_takes() -> None:
    found = estimated([stratum([10.0, 20.0, 30.0, 40.0], {0: 5.0, 2: 15.0})])

    assert [each.name for each in found] == ["one", "all"]
    assert (found[0].cpu_s, found[0].half_s) == (pytest.approx(50.0), pytest.approx(0.0))
    assert (found[0].runs, found[0].taken, found[0].guessed) == (4, 2, 0)


def test_a_sample_that_has_all_runs_is_exact_and_one_of_one_run_has_no_interval() -> None:
    [whole, _] = estimated([stratum([10.0, 10.0], {0: 5.0, 1: 9.0})])
    [single, _] = estimated([stratum([10.0, 10.0], {0: 5.0})])

    assert (whole.cpu_s, whole.half_s) == (pytest.approx(14.0), pytest.approx(0.0))
    assert (single.cpu_s, single.half_s) == (pytest.approx(10.0), None)


def test_the_interval_has_what_all_runs_take() -> None:
    rng = random.Random(1)
    expected_s = [rng.uniform(1, 100) for _ in range(200)]
    takes_s = [each * rng.uniform(0.3, 0.9) for each in expected_s]
    within = 0
    for _ in range(100):
        strata = [
            stratum(expected_s, {n: takes_s[n] for n in rng.sample(range(200), 5)}, name)
            for name in ("one", "other")
        ]
        [*_, all_of_it] = estimated(strata)
        assert all_of_it.half_s is not None
        within += abs(all_of_it.cpu_s - 2 * sum(takes_s)) <= all_of_it.half_s
    assert within >= 85


def test_a_matrix_that_cannot_be_taken_is_reckoned_by_the_others_and_said() -> None:
    found = estimated([stratum([10.0], {0: 5.0}), stratum([10.0, 30.0], {}, "other")])

    assert [each.cpu_s for each in found] == pytest.approx([5.0, 20.0, 25.0])
    assert found[1].guessed == 2 and "2 by the others" in found[1].row(2)


def test_a_sample_is_drawn_by_its_seed_and_what_was_taken_is_not_run_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made: list[str] = []

    runs = expand(load_experiment("ccs"), quick=True)

    def execute(_file: str, folder: Path) -> Finished:
        made.append(folder.name)
        return Finished(runs[0], folder, {"outcome": "ok"}, "ok")

    monkeypatch.setattr(list_experiments.api, "execute", execute)

    def drawn(count: int, seed: int) -> list[str]:
        made.clear()
        take_sample(["ccs"], tmp_path, count, quick=True, seed=seed, say=str)
        return list(made)

    first = drawn(2, 1)
    assert len(first) == 2 * len({run.matrix for run in runs})
    assert drawn(2, 1) == []
    assert drawn(2, 2) != []


@pytest.mark.parametrize(
    ("seconds", "words"),
    [(0, "0 s"), (99, "99 s"), (150, "2.5 min"), (1020, "17 min"), (41760, "11.6 h")],
)
def test_spans(seconds: float, words: str) -> None:
    assert list_experiments.span(seconds) == words


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
        Finished(run, tmp_path, ENDS[end], {"good": "ok", "invalid": "invalid"}.get(end))
        for run, end in zip(runs, ends.split(), strict=False)
    ]

    assert run_verb.conclude([Outcome("download", tuple(done))], tmp_path, as_json=False) == code

    printed = capsys.readouterr()
    assert says in printed.out
    told = printed.err.count("not possible here: congestion control bbr2")
    assert told == ("unsupported" in ends)
