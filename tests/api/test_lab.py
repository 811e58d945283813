# SPDX-License-Identifier: MIT
"""A lab that keeps sandboxes booted from one run to the next."""

from pathlib import Path

import pytest

import gostlab
from gostlab.api import run as runs
from gostlab.sandbox import held_syscall
from tests.asked import refusal
from tests.offspring import sandboxes
from tests.skips import require_root_tree

SETTINGS = {"cc": "cubic", "rate": "10mbit", "rtt": "20ms", "duration": "1s"}


@pytest.mark.sandbox
def test_runs_and_experiments_are_executed_by_waiting_sandboxes(tmp_path: Path) -> None:
    require_root_tree()
    if not held_syscall.is_available():
        pytest.skip("no seccomp listener here")
    experiment = gostlab.Experiment.of(**SETTINGS, seed=2, repeat=3, machine="sandbox")
    with gostlab.Lab(tmp_path, jobs=1) as lab:
        assert lab.kept.standby.waiting == 1  # before any run is known
        one = lab.run(**SETTINGS)
        several = list(lab.execute(experiment))
        again = lab.run(gostlab.Run(**SETTINGS, machine="sandbox"))
        taken = lab.kept.standby.taken

    assert [result.outcome for result in (one, *several)] == 4 * ["ok"]
    assert taken == 4 and again == one  # which was finished
    assert sandboxes() == [] and not list(tmp_path.glob(".*"))


@pytest.mark.sandbox
def test_a_closed_lab_and_a_run_that_is_named_twice_are_refused(tmp_path: Path) -> None:
    with gostlab.Lab(tmp_path) as lab:
        run = gostlab.Run(**SETTINGS, machine="sandbox")
        assert "not both" in refusal(lambda: lab.run(run, cc="bbr"))
    assert "closed" in refusal(lambda: lab.run(run))
    assert "at least 1" in refusal(lambda: gostlab.Lab(tmp_path, jobs=0))


def test_what_starts_runs_is_kept_until_the_sources_change(monkeypatch: pytest.MonkeyPatch) -> None:
    """They are looked for once for each run."""
    digests = ["one", "one", "other"]
    made: list[int] = []

    def run_starter(*_: object) -> object:
        made.append(len(made))
        number = made[-1]
        return lambda run, target, cpu, sources: (number, sources)

    monkeypatch.setattr(runs, "sources_digest", lambda: digests.pop(0))
    monkeypatch.setattr(runs, "run_starter", run_starter)
    start = runs.PartsAndStandby(parts=None, standby=None).starter("sandbox")
    assert [start(None, None, 0) for _ in range(3)] == [(0, "one"), (0, "one"), (1, "other")]
