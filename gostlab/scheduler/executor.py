# SPDX-License-Identifier: MIT
"""Execute the missing runs of a matrix, one per slot, and keep the finished ones."""

from __future__ import annotations

import math
import time
from collections import Counter, deque
from collections.abc import (
    Callable,
    Collection,
    Generator,
    Hashable,
    Iterable,
    Iterator,
    Mapping,
    Sequence,
)
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

from gostlab import results
from gostlab.results.run_result import RunResult
from gostlab.safe_read import is_plain
from gostlab.sandbox import Job, MachineError, wait_for_end
from gostlab.scheduler.eta import GROWING, ActiveRun, Forecast, sampled_s
from gostlab.spec.run_spec import RunSpec

MANY_WAITING = 300  # with this many waiting runs, the forecast is not recomputed at every end
LAST_FEW = 6  # waiting runs per slot, from which on the longest one starts next
# After this many lost machines, the run is the cause and is not retried.
MAX_WORKER_LOSSES = 3
# Disk space reserved per run: iperf3's report and samples of 128 streams over 30 s take about
# 12 MB.
SPACE_PER_RUN_BYTES = 40_000_000
REPORT_INTERVAL_S = 0.5  # interval between two progress reports


class RunObserver:
    """Observe the progress of runs; this base class shows nothing."""

    def say(self, text: str) -> None:
        """Show a line outside the progress display."""

    def begin(
        self, total: int, already: int, expected_s: float, again: int, round_number: int = 1
    ) -> None:
        """Handle the begin of a block of runs; `again` of them were begun before."""

    def planned(self, runs: Sequence[RunSpec], done: Sequence[RunResult]) -> None:
        """Handle the list of a block's runs, and the ends of the finished ones."""

    def started(self, run: RunSpec) -> None:
        """Handle the start of a run."""

    def moved(self, moving: Sequence[ActiveRun], left_s: float) -> None:
        """Handle the passing of time: the active runs, and the time left."""

    def finished(self, done: RunResult, left_s: float) -> None:
        """Handle the end of a run."""


# A slot for one run at a time: the number of a CPU, or the name of a worker.
Slot = Hashable
Starter = Callable[[RunSpec, Path, Any], Job]  # the last argument is a slot


class WorkerLost(Exception):
    """Report that a run's machine went away or could not begin the run; raised by Job.poll.

    counts  whether the run may be the cause: the number of its retries is then limited
    """

    def __init__(self, why: str, *, counts: bool = True) -> None:
        super().__init__(why)
        self.counts = counts


# Matrix -> factor -> levels, in the order of the experiment's file.
Levels = Mapping[str, Mapping[str, Sequence[str]]]
# Returns the runs of the next block, given all ends so far; empty to stop.
More = Callable[[Sequence[RunResult]], Sequence[RunSpec]]


def missing_runs(runs: Sequence[RunSpec], folder: Path, *, retry_failed: bool) -> list[RunSpec]:
    """Return the runs that are not finished yet, in order."""
    settled = partial(results.is_settled, retry_failed=retry_failed)
    return [run for run in runs if not settled(run_folder(run, folder), run)]


def run_folder(run: RunSpec, results_folder: Path) -> Path:
    return results_folder / run.experiment / run.name


def run_all(*args: Any, **kwargs: Any) -> list[RunResult]:
    """Execute all runs as `execute_runs` does, and return their ends as a list."""
    return list(execute_runs(*args, **kwargs))


def execute_runs(
    runs: Sequence[RunSpec],
    folder: Path,
    slots: Collection[Slot],
    start: Starter,
    progress: RunObserver,
    *,
    retry_failed: bool = False,
    more: More = lambda _: (),
    beside: bool = False,
    look: Callable[[], None] = lambda: None,
    wake_fd: int | None = None,
    none_waits: Callable[[], None] = lambda: None,
) -> Generator[RunResult, None, list[RunResult]]:
    """Execute the missing runs block by block, one per slot (CPU or worker), and give every end.

    The ends of finished runs come first. `more` is called after each block with all ends so far and
    returns the runs of the next block. The generator's return value is the list of all ends in the
    order of the runs.

        beside  execute every run in a temporary folder, so that others may write there too
        look    called periodically; an exception that it raises ends everything
        wake_fd a file descriptor that is readable when `look` is to be called at once
        none_waits  called when a run of a block has ended, its folder is complete, and none is left
                    to start

    The next run starts before the folder of the one that has ended is completed. Runs on the real
    clock execute alone. A run whose machine went away is retried in another slot. On an interrupt,
    an error or `close` every active guest is ended and its folder left unfinished; finished runs
    are kept. Raises ResultsError, OSError.
    """
    done: list[RunResult] = []
    number = 1
    while runs:
        todo = missing_runs(runs, folder, retry_failed=retry_failed)
        block = RunBlock(
            folder, slots, start, progress, retry_failed, beside, todo, look, none_waits, wake_fd
        )
        ahead = {run.name for run in todo}
        there = [read_result(run, folder) for run in runs if run.name not in ahead]
        progress.planned(runs, there)
        total = len(done) + len(runs)
        again = sum(run_folder(run, folder).exists() for run in todo)
        progress.begin(total, total - len(todo), block.left_s(), again, number)
        yield from there
        yield from block.run()
        done += [read_result(run, folder) for run in runs]
        runs, number = more(done), number + 1
    return done


@dataclass
class RunBlock:
    """Represent the waiting and the active runs of a block."""

    folder: Path
    slots: Collection[Slot]
    start: Starter
    progress: RunObserver
    retry_failed: bool
    beside: bool
    todo: Sequence[RunSpec]
    look: Callable[[], None]
    none_waits: Callable[[], None]
    wake_fd: int | None = None
    running: dict[Slot, RunningJob] = field(default_factory=dict)
    lost: Counter[str] = field(default_factory=Counter)
    promised_s: float = math.inf

    def __post_init__(self) -> None:
        self.waiting = deque(self.todo)
        self.is_virtual = all(run.clock == "virtual" for run in self.todo)
        self.forecast = Forecast(self.todo, max(1, len(self.slots)))

    def run(self) -> Iterator[RunResult]:
        """Execute all runs and give every end; no run stays active, however this ends."""
        reported_s = -math.inf
        try:
            while self.waiting or self.running:
                self.look()
                self.start_what_fits()
                jobs = [active.job for active in self.running.values()]
                wait_for_end(jobs, REPORT_INTERVAL_S, self.wake_fd)
                if time.monotonic() - reported_s >= REPORT_INTERVAL_S:
                    reported_s = time.monotonic()
                    moving = [active.as_moving() for active in self.running.values()]
                    self.promised_s = self.forecast.left_s(moving, self.waiting)
                    self.progress.moved(moving, self.promised_s)
                for slot, active in list(self.running.items()):
                    if end := self.look_at(slot, active):
                        yield end
        finally:
            for active in self.running.values():
                active.job.kill()
                active.making.discard()

    def start_what_fits(self) -> None:
        while self.waiting:
            self.bring_longest_forward()
            slot = free_slot(self.slots, self.running, self.waiting[0])
            if slot is None:
                return
            run = self.waiting.popleft()
            results.require_free_space(self.folder, SPACE_PER_RUN_BYTES * (1 + len(self.running)))
            making: results.InPlaceRunFolder
            if self.beside:
                making = results.create_sibling_folder(run_folder(run, self.folder), run)
            else:
                making = results.InPlaceRunFolder(results.create_run_folder(self.folder, run))
            self.progress.started(run)
            try:
                job = self.start(run, making.folder, slot)
            except MachineError as error:  # e.g. too little memory: the other runs continue
                job = FailedStart(str(error))
            except OSError as error:  # too many open files or processes
                job = FailedStart(f"{error.filename or 'it'}: {error.strerror or error}")
            self.running[slot] = RunningJob(run, making, job, time.monotonic())

    def bring_longest_forward(self) -> None:
        """Move the longest of the last few waiting runs to the front, so it does not end alone."""
        if 1 < len(self.waiting) <= LAST_FEW * len(self.slots) and len(self.slots) > 1:
            longest = max(self.waiting, key=self.forecast.whole_s)
            self.waiting.remove(longest)
            self.waiting.appendleft(longest)

    def look_at(self, slot: Slot, active: RunningJob) -> RunResult | None:
        """Return a run's end, if it has ended; put it back in the queue if its worker was lost."""
        try:
            if active.job.poll() is None:
                return None
            complaint = active.job.complaint
        except WorkerLost as loss:
            self.lost[active.run.name] += loss.counts
            if self.lost[active.run.name] < MAX_WORKER_LOSSES:
                del self.running[slot]
                active.making.discard()
                self.progress.say(f"{active.run.name}: {loss}: it is run again")
                self.waiting.appendleft(active.run)
                return None
            complaint = f"{loss}, for the {MAX_WORKER_LOSSES}rd time: it is not run again"
        except MachineError:  # affects every run
            raise
        except Exception as error:  # damage by this run's programs must end no other run
            active.job.kill()
            complaint = f"it cannot be watched: {error}"
        del self.running[slot]
        try:
            self.start_next()
        finally:
            end = self.end(active, complaint)
        if not self.waiting:
            self.none_waits()
        return end

    def start_next(self) -> None:
        """Start the next run; one on the real clock only when nothing else is to do."""
        if self.is_virtual:
            self.start_what_fits()

    def end(self, active: RunningJob, complaint: str | None) -> RunResult:
        """Finish the folder of a run that has ended, report it, and return its end."""
        folder, run = active.making.folder, active.run
        spent_s = time.monotonic() - active.started_s
        try:
            results.clean_folder(folder)
            # A job on another machine has its status already.
            status = getattr(active.job, "status", None) or results.finish_run_folder(
                folder, spent_s, complaint, from_outside=active.job.from_outside, run=run
            )
        except Exception as error:  # damage by this run's programs must end no other run
            status = results.replace_unreadable(folder, run, spent_s, error)
        active.making.settle(active.run, retry_failed=self.retry_failed)
        if status.get("outcome") == "ok":  # the duration of a failed run predicts nothing
            self.forecast.finished(active.run, spent_s)
        # With many waiting runs the next periodic report is soon enough.
        if len(self.waiting) < MANY_WAITING:
            self.promised_s = self.left_s()
        target = run_folder(active.run, self.folder)
        done = replace(RunResult.read(target, active.run), status=status)
        self.progress.finished(done, self.promised_s)
        return done

    def left_s(self) -> float:
        """Return how long the block will still take, in seconds."""
        moving = [active.as_moving() for active in self.running.values()]
        return self.forecast.left_s(moving, self.waiting)


def read_result(run: RunSpec, results_folder: Path) -> RunResult:
    return RunResult.read(run_folder(run, results_folder), run)


def rank_of(run: RunSpec, levels: Levels) -> tuple[int, ...]:
    """Return a run's sort key: the positions of its levels in the experiment's file."""
    written = levels.get(run.matrix, {})
    pairs = [(str(run.factors.get(name)), ordered) for name, ordered in written.items()]
    return tuple(
        ordered.index(level) if level in ordered else len(ordered) for level, ordered in pairs
    )


class FailedStart:
    """Represent the job of a run that its machine could not start; it has ended already."""

    def __init__(self, complaint: str) -> None:
        self.complaint: str | None = complaint
        self.from_outside = True

    def poll(self) -> int | None:
        return 1

    def kill(self) -> None:
        pass


@dataclass
class RunningJob:
    run: RunSpec
    making: results.InPlaceRunFolder
    job: Job
    started_s: float
    load_began_s: float | None = None  # when the samplers' files were first observed
    loaded_s: float | None = None  # time of the last sample, on the run's clock
    sampled_at_s: float = 0.0  # when that sample was first observed

    def as_moving(self) -> ActiveRun:
        """Return the run's progress, from the contents of its folder."""
        now_s = time.monotonic()
        if self.load_began_s is None and is_plain(self.making.folder / GROWING[0]):
            self.load_began_s = now_s
        loaded_s = sampled_s(self.making.folder)
        if loaded_s != self.loaded_s:
            self.loaded_s, self.sampled_at_s = loaded_s, now_s
        known = self.loaded_s is not None and self.load_began_s is not None
        return ActiveRun(
            self.run,
            now_s - self.started_s,
            self.loaded_s,
            max(REPORT_INTERVAL_S, self.sampled_at_s - (self.load_began_s or 0.0))
            if known
            else None,
        )


def free_slot(
    slots: Iterable[Slot], running: Mapping[Slot, RunningJob], run: RunSpec
) -> Slot | None:
    """Return a free slot for a run, or None. One on the real clock starts only alone."""
    if running and (
        run.clock == "real" or any(active.run.clock == "real" for active in running.values())
    ):
        return None
    return next((slot for slot in slots if slot not in running), None)
