# SPDX-License-Identifier: MIT
"""Several experiments' runs are made as if they were one's."""

import json
from collections import Counter
from collections.abc import Callable
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pytest

from gostlab import api
from gostlab.scheduler.executor import RunObserver
from gostlab.scheduler.experiment_result import ExperimentResult
from tests.lab_command import Typed
from tests.scheduler.test_executor import GOOD, Job
from tests.scheduler.test_stopping import noisy, over

FILE = """name: NAME
title: NAME
settings: {profile: plain-100ms, rate: 10mbit, duration: 1s}
matrices:
  - name: main
    factors: {cc: [cubic, reno]}
"""


@pytest.fixture
def files(tmp_path: Path) -> list[Path]:
    """Two experiments of the same two runs."""
    found = [tmp_path / "one.yaml", tmp_path / "two.yaml"]
    for file in found:
        file.write_text(FILE.replace("NAME", file.stem))
    return found


def experiments(files: list[Path]) -> list[api.Experiment]:
    return [api.Experiment.from_file(file, machine="sandbox") for file in files]


Start = Callable[[Any, Path, object], Job]


def run_at(place: Path, files: list[Path], start: Start) -> list[ExperimentResult]:
    """What became of some files' runs, which `start` starts."""
    return api.run_together(
        experiments(files),
        place,
        progress=RunObserver(),
        workers=lambda _say: nullcontext((range(2), start)),
        jobs=None,
        gost=None,
        retry_failed=False,
    )


@pytest.mark.usefixtures("no_machine")
def test_while_the_last_run_of_one_is_made_the_next_one_begins(
    files: list[Path], tmp_path: Path
) -> None:
    jobs: list[tuple[str, Job]] = []
    at_once: list[set[str]] = []  # whose runs are under way, at each start of one

    def start(run: Any, folder: Path, _slot: object) -> Job:
        jobs.append((run.experiment, Job(folder, GOOD, polls=3 + 20 * (len(jobs) == 0))))
        at_once.append({name for name, job in jobs if job.left > 0})
        return jobs[-1][1]

    one, two = run_at(tmp_path / "results", files, start)
    assert at_once == [{"one"}, {"one"}, {"one", "two"}, {"one", "two"}]
    assert [one.experiment, two.experiment] == ["one", "two"]
    assert [{end.run.experiment for end in each.runs} for each in (one, two)] == [{"one"}, {"two"}]
    assert all(
        (tmp_path / "results" / name / "experiment.yaml").exists() for name in ("one", "two")
    )


@pytest.mark.usefixtures("no_machine")
def test_each_goes_on_until_its_own_cells_are_narrow(files: list[Path], tmp_path: Path) -> None:
    """As if it were alone, whatever runs of the same names the other has already."""
    for file in files:
        until = "    until: {halfwidth: 5%, of: goodput, most: 12}\n"
        file.write_text(file.read_text().replace("    factors", until + "    factors"))

    def start(run: Any, folder: Path, _slot: object) -> Job:
        return over(folder, noisy(run))

    [alone] = run_at(tmp_path / "results", files[:1], start)
    counts = Counter(end.run.cc for end in alone.runs)
    assert 6 < counts["cubic"] < counts["reno"] == 12
    for both in run_at(tmp_path / "results", files, start):
        assert Counter(end.run.cc for end in both.runs) == counts


@pytest.mark.usefixtures("no_machine")
def test_interrupted_they_end_with_the_same_runs(files: list[Path], tmp_path: Path) -> None:
    started: list[str] = []

    def start(run: Any, folder: Path, _slot: object) -> Job:
        if len(started) == 3:
            started.append("interrupted")
            raise KeyboardInterrupt
        started.append(f"{run.experiment}/{run.name}")
        return Job(folder, GOOD, polls=0)

    with pytest.raises(KeyboardInterrupt):
        run_at(tmp_path / "results", files, start)
    both = run_at(tmp_path / "results", files, start)
    assert [[end.outcome for end in each.runs] for each in both] == [["ok"] * 2] * 2
    of_one = [name for name in started if name.startswith("one/")]
    assert len(of_one) == len(set(of_one)) == 2  # were over: what was under way is made again


@pytest.mark.sandbox
def test_several_are_run_by_one_command_and_each_has_its_table(
    files: list[Path], tmp_path: Path, typed: Typed
) -> None:
    place = tmp_path / "results"
    done = typed("run", *files, "--results", place, "--machine", "sandbox")
    assert done.returncode == 0, done.stderr
    heads = [line for line in done.stdout.splitlines() if line in ("one", "two")]
    assert heads == ["one", "two"] and done.stdout.count("2 runs: 2 good") == 2
    assert all(f"next: ./lab report {name}" in done.stdout for name in heads)
    assert "4 runs to do" in done.stderr and "two/main-reno" in done.stderr

    again = typed("run", *files, "--results", place, "--machine", "sandbox", "--json")
    found = json.loads(again.stdout)
    assert [len(found[name]["runs"]) for name in heads] == [2, 2]
    listed = typed("run", *files, "--results", place, "--machine", "sandbox", "--dry-run")
    assert len(listed.stdout.splitlines()) == 4 and "two/main-reno" in listed.stdout
    assert "one experiment" in typed("run", *files, "--results", place, "--live").stderr
