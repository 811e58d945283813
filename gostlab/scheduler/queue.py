"""A matrix of runs: what is finished stays, what is not is run, one per slot."""

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
from gostlab.sandbox import Job, MachineError
from gostlab.scheduler.eta import GROWING, Forecast, Moving, sampled_s
from gostlab.spec.experiment import Until
from gostlab.spec.run_spec import RunSpec

MANY = 300  # runs that wait
LAST_FEW = 6  # of them for each slot: from here on the longest comes next
# How often a run's machine may go away before the run is to blame.
MAX_LOST = 3
# What a run's folder may grow to: iperf3's report and samples of 128 streams over 30 s are about 12
# MB.
SPACE_PER_RUN_BYTES = 40_000_000
POLL_S = 0.02
TELL_S = 0.5  # between two looks at how far the runs are


@dataclass(frozen=True)
class Finished:
    """A run that has a status."""

    run: RunSpec
    folder: Path
    status: Mapping[str, Any]
    verdict: str | None  # fidelity.json's: ok, degraded or invalid

    @property
    def outcome(self) -> str | None:
        """How it ended: one of results.OUTCOMES."""
        return self.status.get("outcome")

    @property
    def state(self) -> str:
        """good, degraded (something else had a say), invalid (it answers something else than was
        asked), unsupported (this kernel cannot do it) or failed.
        """
        if self.outcome != "ok":
            return "unsupported" if self.outcome == "unsupported" else "failed"
        return {"ok": "good", "degraded": "degraded"}.get(self.verdict or "", "invalid")

    @property
    def counts(self) -> bool:
        """Whether it answers what was asked."""
        return self.state in ("good", "degraded")


class Quiet:
    """An observer of what happens; this one shows nothing."""

    def say(self, text: str) -> None:
        """A line outside the progress."""

    def begin(
        self, total: int, already: int, expected_s: float, again: int, round_number: int = 1
    ) -> None:
        """A block of runs begins; `again` of them were begun before."""

    def planned(self, runs: Sequence[RunSpec], done: Sequence[Finished]) -> None:
        """All runs of a block, and the ends of those that have one already."""

    def started(self, run: RunSpec) -> None:
        """A run starts."""

    def moved(self, moving: Sequence[Moving], left_s: float) -> None:
        """Some time has passed: the runs under way, and how long the rest will take."""

    def finished(self, done: Finished, left_s: float) -> None:
        """A run has ended."""


# Where a run may be started: a CPU's number, or a worker's name.
Slot = Hashable
Starter = Callable[[RunSpec, Path, Any], Job]  # the last: a slot


class Lost(Exception):
    """A run's machine went away under it, or could not begin it; said by Job.poll.

    counts  whether the run may be to blame: it is not run again for ever
    """

    def __init__(self, why: str, *, counts: bool = True) -> None:
        super().__init__(why)
        self.counts = counts


# Matrix -> factor -> levels, in the order in which people wrote them.
Levels = Mapping[str, Mapping[str, Sequence[str]]]
# What is to be run after what has been: one more block, or nothing.
More = Callable[[Sequence[Finished]], Sequence[RunSpec]]
# How wide a cell's values lie around their median, as a share of it; None of too few.
HalfWidth = Callable[[Sequence[float]], float | None]


def missing(runs: Sequence[RunSpec], folder: Path, *, retry_failed: bool) -> list[RunSpec]:
    """The runs that have no answer yet, in order."""
    settled = partial(results.is_settled, retry_failed=retry_failed)
    return [run for run in runs if not settled(place_of(run, folder), run)]


def place_of(run: RunSpec, results_folder: Path) -> Path:
    return results_folder / run.experiment / run.name


def run_all(*what: Any, **how: Any) -> list[Finished]:
    """All that `ends_of` gives, at once."""
    return list(ends_of(*what, **how))


def ends_of(
    runs: Sequence[RunSpec],
    folder: Path,
    slots: Collection[Slot],
    start: Starter,
    progress: Quiet,
    *,
    retry_failed: bool = False,
    more: More = lambda _: (),
    beside: bool = False,
    look: Callable[[], None] = lambda: None,
) -> Generator[Finished, None, list[Finished]]:
    """Run what is missing, at most one run per slot (a CPU, a worker), block after block until
    `more` knows of none. Gives each run's end as it is known, first those that have one already;
    returns all of them in the order of the runs.

    beside  make every run beside its place, so that others may write to the same results
    look    called every now and then; what it raises ends all
    Runs on the real clock have the machine for themselves. A run whose machine went away is run
    again in another slot. On an interrupt, an error or `close` every running guest is ended and its
    folder left unfinished; what was finished stays. Raises ResultsError, OSError.
    """
    done: list[Finished] = []
    number = 1
    while runs:
        todo = missing(runs, folder, retry_failed=retry_failed)
        block = Block(folder, slots, start, progress, retry_failed, beside, todo, look)
        ahead = {run.name for run in todo}
        there = [end_of(run, folder) for run in runs if run.name not in ahead]
        progress.planned(runs, there)
        total = len(done) + len(runs)
        again = sum(place_of(run, folder).exists() for run in todo)
        progress.begin(total, total - len(todo), block.left_s(), again, number)
        yield from there
        yield from block.run()
        done += [end_of(run, folder) for run in runs]
        runs, number = more(done), number + 1
    return done


@dataclass
class Block:
    """Runs that are to be made, and those that are being made."""

    folder: Path
    slots: Collection[Slot]
    start: Starter
    progress: Quiet
    retry_failed: bool
    beside: bool
    todo: Sequence[RunSpec]
    look: Callable[[], None]
    running: dict[Slot, RunningJob] = field(default_factory=dict)
    lost: Counter[str] = field(default_factory=Counter)
    promised_s: float = math.inf

    def __post_init__(self) -> None:
        self.waiting = deque(self.todo)
        self.forecast = Forecast(self.todo, max(1, len(self.slots)))

    def run(self) -> Iterator[Finished]:
        """Make them all, and give each one's end; none is left running, however this ends."""
        told_s = -math.inf
        try:
            while self.waiting or self.running:
                self.look()
                self.start_what_fits()
                time.sleep(POLL_S)
                if time.monotonic() - told_s >= TELL_S:
                    told_s = time.monotonic()
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
            making: results.Making
            if self.beside:
                making = results.prepare_beside(place_of(run, self.folder), run)
            else:
                making = results.Making(results.prepare(self.folder, run))
            self.progress.started(run)
            try:
                job = self.start(run, making.folder, slot)
            except MachineError as error:  # too little memory for it, say: the rest goes on
                job = NeverStarted(str(error))
            except OSError as error:  # an open file or a process too many
                job = NeverStarted(f"{error.filename or 'it'}: {error.strerror or error}")
            self.running[slot] = RunningJob(run, making, job, time.monotonic())

    def bring_longest_forward(self) -> None:
        """Of the last few that wait the longest comes next, lest it run alone at the end."""
        if 1 < len(self.waiting) <= LAST_FEW * len(self.slots) and len(self.slots) > 1:
            longest = max(self.waiting, key=self.forecast.whole_s)
            self.waiting.remove(longest)
            self.waiting.appendleft(longest)

    def look_at(self, slot: Slot, active: RunningJob) -> Finished | None:
        """A run's end, if it has ended for good; what then is to be done."""
        try:
            if active.job.poll() is None:
                return None
            complaint = active.job.complaint
        except Lost as loss:
            self.lost[active.run.name] += loss.counts
            if self.lost[active.run.name] < MAX_LOST:
                del self.running[slot]
                active.making.discard()
                self.progress.say(f"{active.run.name}: {loss}: it is run again")
                self.waiting.appendleft(active.run)
                return None
            complaint = f"{loss}, for the {MAX_LOST}rd time: it is not run again"
        except MachineError:  # of every run
            raise
        except Exception as error:  # what a run's programs did to its folder ends no other run
            active.job.kill()
            complaint = f"it cannot be watched: {error}"
        del self.running[slot]
        return self.end(active, complaint)

    def end(self, active: RunningJob, complaint: str | None) -> Finished:
        """Settle a run that has ended, and tell of it."""
        folder, run = active.making.folder, active.run
        spent_s = time.monotonic() - active.started_s
        try:
            results.clean_folder(folder)
            # A job on another machine comes back with its status.
            status = getattr(active.job, "status", None) or results.finish(
                folder, spent_s, complaint, from_outside=active.job.from_outside, run=run
            )
        except Exception as error:  # what a run's programs left there ends no other run
            status = results.finish_anew(folder, run, spent_s, error)
        active.making.settle(active.run, retry_failed=self.retry_failed)
        if status.get("outcome") == "ok":  # what broke says nothing of the others
            self.forecast.finished(active.run, spent_s)
        # Of thousands that wait, one more or less is soon enough when the next is told.
        if len(self.waiting) < MANY:
            self.promised_s = self.left_s()
        place = place_of(active.run, self.folder)
        done = Finished(active.run, place, status, verdict(place))
        self.progress.finished(done, self.promised_s)
        return done

    def left_s(self) -> float:
        """How long all of it will still take."""
        moving = [active.as_moving() for active in self.running.values()]
        return self.forecast.left_s(moving, self.waiting)


def end_of(run: RunSpec, results_folder: Path) -> Finished:
    return end_in(place_of(run, results_folder), run)


def end_in(folder: Path, run: RunSpec) -> Finished:
    return Finished(run, folder, results.read_status(folder) or {}, verdict(folder))


def rank_of(run: RunSpec, levels: Levels) -> tuple[int, ...]:
    """Where a run stands in its matrix: by its factors' levels as people wrote them."""
    written = levels.get(run.matrix, {})
    said = [(str(run.factors.get(name)), known) for name, known in written.items()]
    return tuple(known.index(one) if one in known else len(known) for one, known in said)


def by_cell(ends: Iterable[Finished]) -> dict[str, list[Finished]]:
    """The runs of each cell, in order."""
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
    """How far a cell is that repeats until it is narrow enough."""

    cell: str
    until: Until
    repetitions: int  # so far, whatever became of them
    values: tuple[float, ...]  # of the distinct runs that count, in the order of repetition
    halfwidth: float | None  # relative; None: too few, or in several states
    states: tuple[RunCluster, ...]  # (): one
    copies: int = 0  # more runs that would count, with the samples of another

    @property
    def narrow(self) -> bool:
        """Whether its runs are enough and agree."""
        agree = self.halfwidth is not None and self.halfwidth <= self.until.halfwidth
        return agree and len(self.values) >= self.until.least

    @property
    def wants_more(self) -> bool:
        """Whether another repetition may help: not where none of the first ones counts, or all are
        copies of one.
        """
        copied = self.copies > 0 and len(self.values) == 1 and self.repetitions >= self.until.least
        may_help = bool(self.values) and not copied
        return not self.narrow and may_help and self.repetitions < self.until.most

    @property
    def line(self) -> str:
        """For people, of a cell that is not narrow."""
        if self.states:
            got = states_words(self.states, lambda bps: f"{bps / 1e6:.3g} Mbit/s")
            return f"in {len(self.states)} states after {self.repetitions}: {self.cell}: {got}"
        got = f"({len(self.values)} of its runs count)"
        if self.halfwidth is not None:
            got = f"± {100 * self.halfwidth:.2g} %"
        return f"not narrow enough after {self.repetitions}: {self.cell} {got}"

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
    """Every cell of the matrices that have a stopping rule. It depends on what their finished runs
    say, and on nothing else, so an interrupted matrix comes to the same end as any.
    """
    repeated = [end for end in done if end.run.matrix in until]
    cells = by_cell(sorted(repeated, key=lambda end: end.run.repetition))
    found = []
    for cell, ends in sorted(cells.items()):
        counted = distinct(ends)
        goodputs = [goodput_bps(end.folder) for end in counted]
        values = tuple(value for value in goodputs if value is not None)
        fallen = states(values)
        width = None if fallen else halfwidth(values)
        rule = until[ends[0].run.matrix]
        copied = sum(end.counts for end in ends) - len(counted)
        found.append(Standing(cell, rule, len(ends), values, width, fallen, copied))
    return found


class NeverStarted:
    """The job of a run that its machine could not start: over at once, with the machine's words."""

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
    making: results.Making
    job: Job
    started_s: float
    load_began_s: float | None = None  # when its samplers' files were first seen
    loaded_s: float | None = None  # its last sample's time, by its own clock
    sampled_at_s: float = 0.0  # when that was first seen

    def as_moving(self) -> Moving:
        """How far it is, from what its folder holds."""
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
            max(TELL_S, self.sampled_at_s - (self.load_began_s or 0.0)) if known else None,
        )


def free_slot(
    slots: Iterable[Slot], running: Mapping[Slot, RunningJob], run: RunSpec
) -> Slot | None:
    """A slot for a run, if it may start now: what runs on the real clock tolerates no neighbour."""
    if running and (
        run.clock == "real" or any(active.run.clock == "real" for active in running.values())
    ):
        return None
    return next((slot for slot in slots if slot not in running), None)


def verdict(folder: Path) -> str | None:
    found = (results.read_object(folder / "fidelity.json") or {}).get("verdict")
    return None if found is None else str(found)
