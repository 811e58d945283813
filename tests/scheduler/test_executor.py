# SPDX-License-Identifier: MIT
"""The matrix: what is finished stays, what is not is run, a failure stays a failure."""

from __future__ import annotations

import json
import os
import select
import threading
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from gostlab import results, sandbox
from gostlab.analysis.load.run_folder import RunFolder, load_run
from gostlab.results.run_result import RunResult
from gostlab.sandbox import MachineError
from gostlab.scheduler import executor
from gostlab.spec.expand import expand
from gostlab.spec.experiment import load_experiment
from gostlab.spec.run_spec import RunSpec


def runs(count: int, clock: str = "virtual") -> list[RunSpec]:
    base = expand(load_experiment("thesis-tunnel"), quick=True)[0]
    return [replace(base, repetition=number, clock=clock) for number in range(1, count + 1)]


class Job:
    """A run that ends after a few polls."""

    complaint: str | None = None
    from_outside = is_running = False

    def __init__(self, folder: Path, outcome: dict | None, polls: int = 2) -> None:
        self.folder, self.outcome, self.left, self.killed = folder, outcome, polls, False

    def poll(self) -> int | None:
        self.left -= 1
        if self.left > 0:
            return None
        if self.outcome is not None:
            (self.folder / "outcome.json").write_text(json.dumps(self.outcome))
            for name in results.needed_files():  # whatever of it has no content here
                (self.folder / name).touch()
        return 0

    def kill(self) -> None:
        self.killed = True


GOOD = {"outcome": "ok", "error": None, "guest_s": 1.0}


def well(run: RunSpec, folder: Path, slot: int) -> Job:
    """A run that ends well."""
    return Job(folder, GOOD)


def run_all(
    tmp_path: Path, todo: list[RunSpec], start: Callable, slots=(0, 1), **kw
) -> list[RunResult]:
    return executor.run_all(todo, tmp_path, slots, start, executor.RunObserver(), **kw)


def started_of(tmp_path: Path, todo: list[RunSpec]) -> list[int]:
    """The repetitions of the runs that are started, in that order."""
    started: list[int] = []
    run_all(tmp_path, todo, lambda run, *at: started.append(run.repetition) or well(run, *at))
    return started


def test_finished_runs_are_not_run_again(tmp_path: Path) -> None:
    run_all(tmp_path, runs(3), well)
    assert started_of(tmp_path, runs(5)) == [4, 5]


def test_the_longest_of_the_last_runs_does_not_end_up_alone(tmp_path: Path) -> None:
    todo = runs(20)
    todo[-1] = replace(todo[-1], flows=[replace(f, duration_s=90.0) for f in todo[-1].flows])
    started = started_of(tmp_path, todo)

    assert started[:7] == [1, 2, 3, 4, 5, 6, 7]
    assert started.index(20) < 10


@pytest.mark.parametrize(("clock", "is_complete"), [("virtual", False), ("real", True)])
def test_the_next_run_starts_before_the_folder_of_the_last_one_is_complete(
    tmp_path: Path, clock: str, is_complete: bool
) -> None:
    todo, complete = runs(2, clock), []

    def start(run: RunSpec, folder: Path, slot: int) -> Job:
        if run.repetition == 2:
            complete.append((executor.run_folder(todo[0], tmp_path) / "status.json").exists())
        return well(run, folder, slot)

    run_all(tmp_path, todo, start, slots=(0,))
    assert complete == [is_complete]


def test_a_run_that_has_ended_is_kept_where_the_next_one_cannot_start(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    todo, checks = runs(2), iter([None, results.ResultsError("no space")])

    def require_free_space(*_: object) -> None:
        if (error := next(checks)) is not None:
            raise error

    monkeypatch.setattr(results, "require_free_space", require_free_space)
    with pytest.raises(results.ResultsError):
        run_all(tmp_path, todo, well, slots=(0,))
    assert results.is_finished(executor.run_folder(todo[0], tmp_path), todo[0])


def test_a_slot_that_stays_free_is_reported_at_each_end(tmp_path: Path) -> None:
    calls: list[None] = []
    run_all(tmp_path, runs(4), well, none_waits=lambda: calls.append(None))
    assert len(calls) == 3  # the fourth run has started, and none waits


def test_a_run_is_finished_before_others_are_made_ready(tmp_path: Path) -> None:
    finished: list[bool] = []
    [run] = runs(1)

    def note() -> None:
        finished.append(results.is_finished(executor.run_folder(run, tmp_path), run))

    run_all(tmp_path, [run], well, none_waits=note)
    assert finished == [True]


@pytest.mark.parametrize("damage", ["", "{", "null", '{"outcome": "splendid"}'])
def test_a_half_written_status_means_unfinished(tmp_path: Path, damage: str) -> None:
    first = run_all(tmp_path, runs(1), well)[0]
    (first.folder / "status.json").write_text(damage)

    again = run_all(tmp_path, runs(1), well)[0]

    assert again.status["outcome"] == "ok"


@pytest.mark.parametrize(
    ("outcome", "complaint", "is_answer", "words"),
    [
        ({"error": "iperf3 failed", "cause": None}, None, True, "iperf3 failed"),
        ({"error": "KeyError: 'x'", "cause": results.OWN_ERROR}, None, False, "KeyError: 'x'"),
        (None, "killed from outside", False, results.FROM_OUTSIDE),
        (None, None, False, "Kernel panic: no init"),  # its last words
    ],
)
def test_a_run_that_broke_is_run_again_when_asked_or_where_lab_or_machine_ended_it(
    tmp_path: Path, outcome: dict | None, complaint: str | None, is_answer: bool, words: str
) -> None:
    def start(run: RunSpec, folder: Path, slot: int) -> Job:
        (folder / "log.txt").write_text("all well\nKernel panic: no init\nreboot: Power down\n")
        job = Job(folder, outcome and {"outcome": "failed", "guest_s": 1, **outcome})
        job.complaint, job.from_outside = complaint, complaint is not None
        return job

    [first] = run_all(tmp_path, runs(1), start)
    assert first.status["outcome"] == "failed"
    assert results.is_finished(first.folder, first.run) == is_answer
    line = results.failure_line(first.folder, first.status)
    what_to_do = "--retry-failed" if is_answer else "the same command runs it again"
    assert all(each in line for each in (words, str(first.folder / "log.txt"), what_to_do))
    assert started_of(tmp_path, runs(1)) == ([] if is_answer else [1])
    [again] = run_all(tmp_path, runs(1), well, retry_failed=True)
    assert again.status["outcome"] == "ok"


@pytest.mark.parametrize(
    ("spoil", "says"),
    [
        (lambda file: file.unlink(), "not there any more"),
        (lambda file: file.write_text("{"), "not as long"),
        (lambda file: file.write_text(file.read_text().replace("1", "7")), "changed"),
    ],
)
def test_a_finished_folder_that_was_changed_is_damaged_for_every_verb(
    tmp_path: Path, spoil: Callable[[Path], None], says: str
) -> None:
    def start(run: RunSpec, folder: Path, slot: int) -> Job:
        (folder / "log.txt").write_text("1 line\n")
        return Job(folder, GOOD)

    [end] = run_all(tmp_path, runs(1), start)
    assert results.damage_of_folder(end.folder, end.status) is None

    spoil(end.folder / "log.txt")

    assert says in (results.damage_of_folder(end.folder, end.status) or "")
    assert not results.is_finished(end.folder, end.run)
    read = load_run(end.folder)
    assert isinstance(read, RunFolder) and read.state == "corrupt" and says in (read.error or "")


def test_a_run_that_cannot_start_fails_alone(tmp_path: Path) -> None:
    def start(run: RunSpec, folder: Path, slot: int) -> Job:
        if run.repetition == 1:
            raise MachineError("/dev/shm has 3 MiB free")
        return Job(folder, GOOD)

    done = run_all(tmp_path, runs(2), start)

    assert [end.status["outcome"] for end in done] == ["failed", "ok"]
    assert "/dev/shm" in done[0].status["error"]


def test_an_interrupt_ends_what_runs_and_keeps_what_is_finished(tmp_path: Path) -> None:
    jobs: list[Job] = []

    def start(run: RunSpec, folder: Path, slot: int) -> Job:
        if run.repetition == 3:
            raise KeyboardInterrupt
        jobs.append(Job(folder, GOOD, polls=2 if run.repetition == 1 else 1000))
        return jobs[-1]

    with pytest.raises(KeyboardInterrupt):
        run_all(tmp_path, runs(3), start)

    assert [job.killed for job in jobs] == [False, True]
    finished = [
        results.read_status(folder) for folder in sorted((tmp_path / "thesis-tunnel").iterdir())
    ]
    assert sum(status is not None for status in finished) == 1


def test_runs_on_the_real_clock_have_the_machine_for_themselves(tmp_path: Path) -> None:
    jobs: list[Job] = []

    def start(run: RunSpec, folder: Path, slot: int) -> Job:
        assert all(job.left <= 0 for job in jobs), "another is under way"
        jobs.append(Job(folder, GOOD))
        return jobs[-1]

    run_all(tmp_path, runs(4, clock="real"), start)
    assert len(jobs) == 4


def test_a_full_disk_is_said_before_a_run_starts(tmp_path: Path) -> None:
    with pytest.raises(results.ResultsError, match="MB free"):
        results.require_free_space(tmp_path, 10**18)


@pytest.mark.parametrize("beside", [False, True])
def test_what_an_older_lab_meant_is_run_again_and_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, beside: bool
) -> None:
    [before] = run_all(tmp_path, runs(1), well, beside=beside)
    assert before.status["epoch"] == results.EPOCH
    assert results.older_epoch_line(tmp_path, runs(1)) is None
    monkeypatch.setattr(results, "EPOCHS", (*results.EPOCHS, "the clock ticks twice as often"))
    monkeypatch.setattr(results, "EPOCH", results.EPOCH + 1)

    line = results.older_epoch_line(tmp_path, runs(1))
    [now] = run_all(tmp_path, runs(1), well, beside=beside)

    assert line is not None and line.startswith("1 finished runs are of another lab")
    assert "the clock ticks twice as often" in line and "0.1" not in line
    assert now.folder == before.folder and now.status["epoch"] == results.EPOCH
    kept = (
        now.folder.parent / results.ARCHIVE_FOLDER / f"epoch-{results.EPOCH - 1}" / now.folder.name
    )
    assert results.read_status(kept) == before.status


def test_a_result_of_before_epochs_is_of_the_first(tmp_path: Path) -> None:
    [done] = run_all(tmp_path, runs(1), well)
    status = dict(done.status)
    del status["epoch"]
    results.write_json(done.folder / "status.json", status)

    assert results.epoch_of(status) == 1
    assert results.is_finished(done.folder, done.run) == (results.EPOCH == 1)


def test_results_of_several_builds_are_kept_and_said(tmp_path: Path) -> None:
    def start(run: RunSpec, folder: Path, slot: int) -> Job:
        made = {"version": results.__version__, "commit": "bbb" if run.repetition == 3 else "aaa"}
        results.write_json(folder / "env.json", {"lab": made, "kernel": "6.12"})
        return well(run, folder, slot)

    run_all(tmp_path, runs(3), start)

    assert results.builds_line(tmp_path, runs(2)) is None
    line = results.builds_line(tmp_path, runs(3))
    assert line is not None and f"2 by {results.__version__} (aaa, kernel 6.12), 1 by" in line


def test_relay_runs_that_a_gost_made_are_kept_and_said(tmp_path: Path) -> None:
    made = [replace(run, tunnel="relay+ws") for run in runs(2)]
    for run, kind in zip(made, ("gost", "relay"), strict=True):
        folder = tmp_path / run.experiment / run.name
        folder.mkdir(parents=True)
        results.write_json(folder / "env.json", {"tunnel": {"kind": kind}})

    assert results.relay_line(tmp_path, [replace(run, gost="3.2.6") for run in made]) is None
    line = results.relay_line(tmp_path, made)
    assert line is not None and "kept: 1 of relay+… by a GOST" in line


# -- how it waits


class EndingJob(Job):
    """A run that ends when a byte is written to its pipe, as a process does to its pidfd."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder, GOOD)
        self.end_fd, self.end = os.pipe()
        self.polls = 0

    def poll(self) -> int | None:
        self.polls += 1
        self.left = 1 - bool(select.select([self.end_fd], [], [], 0)[0])
        return super().poll() if self.left == 0 else None


def test_the_end_of_a_process_is_noticed_by_an_event_and_not_by_polling(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sandbox, "POLL_S", 0.0)  # whoever polls does so a thousand times here
    jobs: list[EndingJob] = []

    def start(_run: RunSpec, folder: Path, _slot: object) -> EndingJob:
        jobs.append(EndingJob(folder))
        threading.Timer(0.1, os.write, (jobs[-1].end, b"x")).start()
        return jobs[-1]

    [end] = executor.run_all(runs(1), tmp_path, [0], start, executor.RunObserver())

    assert end.outcome == "ok" and jobs[0].polls < 5


def test_a_wake_up_from_another_thread_is_noticed_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(executor, "REPORT_INTERVAL_S", 60.0)
    wake_fd, waker = os.pipe()
    stop = threading.Event()

    def start(_run: RunSpec, folder: Path, _slot: object) -> EndingJob:
        threading.Timer(0.1, lambda: (stop.set(), os.write(waker, b"x"))).start()
        return EndingJob(folder)

    def look() -> None:
        if stop.is_set():
            raise InterruptedError

    with pytest.raises(InterruptedError):
        executor.run_all(
            *(runs(1), tmp_path, [0], start, executor.RunObserver()), look=look, wake_fd=wake_fd
        )
