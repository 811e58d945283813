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
from dataclasses import asdict, dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from gostlab import results
from gostlab.results.duplicate_runs import copies
from gostlab.results.metrics import RunCluster, goodput_bps, states_words
from gostlab.safe_read import is_plain
from gostlab.sandbox import Job, MachineError, wait_for_end
from gostlab.scheduler.eta import GROWING, Forecast, Moving, sampled_s
from gostlab.spec.experiment import Until
from gostlab.spec.run_spec import RunSpec

MANY_WAITING = 300  # with this many waiting runs, the forecast is not recomputed at every end
LAST_FEW = 6  # waiting runs per slot, from which on the longest one starts next
# After this many lost machines, the run is the cause and is not retried.
MAX_WORKER_LOSSES = 3
# Disk space reserved per run: iperf3's report and samples of 128 streams over 30 s take about
# 12 MB.
SPACE_PER_RUN_BYTES = 40_000_000
REPORT_INTERVAL_S = 0.5  # interval between two progress reports


@dataclass(frozen=True)
class Finished:
    """Represent a run that has a status."""

    run: RunSpec
    folder: Path
    status: Mapping[str, Any]
    verdict: str | None  # the verdict of fidelity.json: ok, degraded or invalid

    @property
    def outcome(self) -> str | None:
        """Return how the run ended: one of results.OUTCOMES."""
        return self.status.get("outcome")

    @property
    def state(self) -> str:
        """Return good, degraded, invalid, unsupported or failed.

        degraded: something else influenced the result; invalid: the result does not answer the
        question; unsupported: this kernel cannot execute the run.
        """
        if self.outcome != "ok":
            return "unsupported" if self.outcome == "unsupported" else "failed"
        return {"ok": "good", "degraded": "degraded"}.get(self.verdict or "", "invalid")

    @property
    def counts(self) -> bool:
        """Return whether the run's result counts: it is good or degraded."""
        return self.state in ("good", "degraded")


class RunObserver:
    """Observe the progress of runs; this base class shows nothing."""

    def say(self, text: str) -> None:
        """Show a line outside the progress display."""

    def begin(
        self, total: int, already: int, expected_s: float, again: int, round_number: int = 1
    ) -> None:
        """Handle the begin of a block of runs; `again` of them were begun before."""

    def planned(self, runs: Sequence[RunSpec], done: Sequence[Finished]) -> None:
        """Handle the list of a block's runs, and the ends of the finished ones."""

    def started(self, run: RunSpec) -> None:
        """Handle the start of a run."""

    def moved(self, moving: Sequence[Moving], left_s: float) -> None:
        """Handle the passing of time: the active runs, and the time left."""

    def finished(self, done: Finished, left_s: float) -> None:
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
More = Callable[[Sequence[Finished]], Sequence[RunSpec]]
# Returns the relative half-width of the confidence interval of a cell's values, or None if it has
# too few values.
HalfWidth = Callable[[Sequence[float]], float | None]


def missing(runs: Sequence[RunSpec], folder: Path, *, retry_failed: bool) -> list[RunSpec]:
    """Return the runs that are not finished yet, in order."""
    settled = partial(results.is_settled, retry_failed=retry_failed)
    return [run for run in runs if not settled(run_folder(run, folder), run)]


def run_folder(run: RunSpec, results_folder: Path) -> Path:
    return results_folder / run.experiment / run.name


def run_all(*args: Any, **kwargs: Any) -> list[Finished]:
    """Execute all runs as `ends_of` does, and return their ends as a list."""
    return list(ends_of(*args, **kwargs))


def ends_of(
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
) -> Generator[Finished, None, list[Finished]]:
    """Execute the missing runs block by block, one per slot (CPU or worker), and give every end.

    The ends of finished runs come first. `more` is called after each block with all ends so far and
    returns the runs of the next block. The generator's return value is the list of all ends in the
    order of the runs.

        beside  execute every run in a temporary folder, so that others may write there too
        look    called periodically; an exception that it raises ends everything
        wake_fd a file descriptor that is readable when `look` is to be called at once

    Runs on the real clock execute alone. A run whose machine went away is retried in another slot.
    On an interrupt, an error or `close` every active guest is ended and its folder left unfinished;
    finished runs are kept. Raises ResultsError, OSError.
    """
    done: list[Finished] = []
    number = 1
    while runs:
        todo = missing(runs, folder, retry_failed=retry_failed)
        block = Block(folder, slots, start, progress, retry_failed, beside, todo, look, wake_fd)
        ahead = {run.name for run in todo}
        there = [end_of(run, folder) for run in runs if run.name not in ahead]
        progress.planned(runs, there)
        total = len(done) + len(runs)
        again = sum(run_folder(run, folder).exists() for run in todo)
        progress.begin(total, total - len(todo), block.left_s(), again, number)
        yield from there
        yield from block.run()
        done += [end_of(run, folder) for run in runs]
        runs, number = more(done), number + 1
    return done


@dataclass
class Block:
    """Represent the waiting and the active runs of a block."""

    folder: Path
    slots: Collection[Slot]
    start: Starter
    progress: RunObserver
    retry_failed: bool
    beside: bool
    todo: Sequence[RunSpec]
    look: Callable[[], None]
    wake_fd: int | None = None
    running: dict[Slot, RunningJob] = field(default_factory=dict)
    lost: Counter[str] = field(default_factory=Counter)
    promised_s: float = math.inf

    def __post_init__(self) -> None:
        self.waiting = deque(self.todo)
        self.forecast = Forecast(self.todo, max(1, len(self.slots)))

    def run(self) -> Iterator[Finished]:
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
            results.check_space(self.folder, SPACE_PER_RUN_BYTES * (1 + len(self.running)))
            making: results.InPlaceRunFolder
            if self.beside:
                making = results.prepare_beside(run_folder(run, self.folder), run)
            else:
                making = results.InPlaceRunFolder(results.prepare(self.folder, run))
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

    def look_at(self, slot: Slot, active: RunningJob) -> Finished | None:
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
        return self.end(active, complaint)

    def end(self, active: RunningJob, complaint: str | None) -> Finished:
        """Finish the folder of a run that has ended, report it, and return its end."""
        folder, run = active.making.folder, active.run
        spent_s = time.monotonic() - active.started_s
        try:
            results.clean_folder(folder)
            # A job on another machine has its status already.
            status = getattr(active.job, "status", None) or results.finish(
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
        done = Finished(active.run, target, status, verdict(target))
        self.progress.finished(done, self.promised_s)
        return done

    def left_s(self) -> float:
        """Return how long the block will still take, in seconds."""
        moving = [active.as_moving() for active in self.running.values()]
        return self.forecast.left_s(moving, self.waiting)


def end_of(run: RunSpec, results_folder: Path) -> Finished:
    return end_in(run_folder(run, results_folder), run)


def end_in(folder: Path, run: RunSpec) -> Finished:
    return Finished(run, folder, results.read_status(folder) or {}, verdict(folder))


def rank_of(run: RunSpec, levels: Levels) -> tuple[int, ...]:
    """Return a run's sort key: the positions of its levels in the experiment's file."""
    written = levels.get(run.matrix, {})
    pairs = [(str(run.factors.get(name)), ordered) for name, ordered in written.items()]
    return tuple(
        ordered.index(level) if level in ordered else len(ordered) for level, ordered in pairs
    )


def by_cell(ends: Iterable[Finished]) -> dict[str, list[Finished]]:
    """Group the runs by cell, in order."""
    cells: dict[str, list[Finished]] = {}
    for end in ends:
        cells.setdefault(end.run.cell, []).append(end)
    return cells


def distinct(ends: Iterable[Finished]) -> list[Finished]:
    """Return the runs of a cell that count and are no copies of an earlier one."""
    good = [end for end in ends if end.counts]
    copied = copies((end.folder, goodput_bps(end.folder)) for end in good)
    return [end for end in good if end.folder not in copied]


@dataclass(frozen=True)
class Standing:
    """Represent the progress of a cell that repeats until its interval is narrow enough."""

    cell: str
    until: Until
    repetitions: int  # repetitions so far, of any outcome
    values: tuple[float, ...]  # values of the distinct runs that count, by repetition
    halfwidth: float | None  # relative half-width; None: too few runs, or several clusters
    states: tuple[RunCluster, ...]  # clusters of the runs; empty if there is only one
    copies: int = 0  # number of runs that would count but duplicate another run

    @property
    def narrow(self) -> bool:
        """Return whether the cell has enough runs and they agree."""
        agree = self.halfwidth is not None and self.halfwidth <= self.until.halfwidth
        return agree and len(self.values) >= self.until.least

    @property
    def wants_more(self) -> bool:
        """Return whether another repetition may help.

        It does not if none of the first runs counts, or if all of them are copies of one.
        """
        copied = self.copies > 0 and len(self.values) == 1 and self.repetitions >= self.until.least
        may_help = bool(self.values) and not copied
        return not self.narrow and may_help and self.repetitions < self.until.most

    @property
    def line(self) -> str:
        """Return a line on a cell that is not narrow enough."""
        if self.states:
            detail = states_words(self.states, lambda bps: f"{bps / 1e6:.3g} Mbit/s")
            return f"in {len(self.states)} states after {self.repetitions}: {self.cell}: {detail}"
        detail = f"({len(self.values)} of its runs count)"
        if self.halfwidth is not None:
            detail = f"± {100 * self.halfwidth:.2g} %"
        return f"not narrow enough after {self.repetitions}: {self.cell} {detail}"

    def to_json(self) -> dict[str, Any]:
        known = self.halfwidth is not None and math.isfinite(self.halfwidth)
        return {
            "cell": self.cell,
            "repetitions": self.repetitions,
            "runs_that_count": len(self.values),
            "halfwidth": self.halfwidth if known else None,
            "states": [asdict(state) for state in self.states],
            "asked": self.until.halfwidth,
        }


def standings(
    done: Sequence[Finished],
    until: Mapping[str, Until],
    halfwidth: HalfWidth,
    states: Callable[[Sequence[float]], tuple[RunCluster, ...]],
) -> list[Standing]:
    """Return the standing of every cell of the matrices that have a stopping rule.

    It depends only on the finished runs, so an interrupted matrix reaches the same end as an
    uninterrupted one.
    """
    repeated = [end for end in done if end.run.matrix in until]
    cells = by_cell(sorted(repeated, key=lambda end: end.run.repetition))
    result = []
    for cell, ends in sorted(cells.items()):
        counted = distinct(ends)
        goodputs = [goodput_bps(end.folder) for end in counted]
        values = tuple(value for value in goodputs if value is not None)
        clusters = states(values)
        width = None if clusters else halfwidth(values)
        rule = until[ends[0].run.matrix]
        copied = sum(end.counts for end in ends) - len(counted)
        result.append(Standing(cell, rule, len(ends), values, width, clusters, copied))
    return result


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

    def as_moving(self) -> Moving:
        """Return the run's progress, from the contents of its folder."""
        now_s = time.monotonic()
        if self.load_began_s is None and is_plain(self.making.folder / GROWING[0]):
            self.load_began_s = now_s
        loaded_s = sampled_s(self.making.folder)
        if loaded_s != self.loaded_s:
            self.loaded_s, self.sampled_at_s = loaded_s, now_s
        known = self.loaded_s is not None and self.load_began_s is not None
        return Moving(
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
    """Return a free slot for a run, or None.

    A run on the real clock starts only when no other run is active.
    """
    if running and (
        run.clock == "real" or any(active.run.clock == "real" for active in running.values())
    ):
        return None
    return next((slot for slot in slots if slot not in running), None)


def verdict(folder: Path) -> str | None:
    value = (results.read_object(folder / "fidelity.json") or {}).get("verdict")
    return None if value is None else str(value)
