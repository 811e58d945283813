"""A matrix of runs: what is finished stays, what is not is run, one per slot, with progress and
time left.
"""

from __future__ import annotations

import math
import time
from collections import Counter, deque
from collections.abc import Callable, Collection, Hashable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from gostlab import results
from gostlab.ask.experiment import Until
from gostlab.ask.run_description import RunDescription
from gostlab.machine import Job, MachineError, cpu_by_group_s
from gostlab.matrix.pace import GROWING, Forecast, Guess, Moving, expected_s, sampled_s
from gostlab.measures import goodput_bps

MANY = 300  # runs that wait
# How often a run's machine may go away before the run is to blame.
MOST_LOST = 3
# What a run's folder may grow to: iperf3's report and samples of 128 streams over 30 s are about 12
# MB.
SPACE_PER_RUN_BYTES = 40_000_000
POLL_S = 0.02
TELL_S = 0.5  # between two looks at how far the runs are
LOOK_AT_WORK_S = 2.0  # between two at the CPU time that all processes have used


@dataclass(frozen=True)
class Finished:
    """A run that has a status."""

    run: RunDescription
    folder: Path
    status: Mapping[str, Any]
    verdict: str | None  # fidelity.json's: ok, degraded or invalid

    @property
    def outcome(self) -> str | None:
        """How it ended: one of results.OUTCOMES."""
        return self.status.get("outcome")

    @property
    def counts(self) -> bool:
        """Whether it answers what was asked."""
        return self.outcome == "ok" and self.verdict in ("ok", "degraded")


class Progress(Protocol):
    """Who is told what happens."""

    def say(self, text: str) -> None: ...
    def begin(
        self, total: int, already: int, expected_s: float, again: int, round_number: int = 1
    ) -> None: ...
    def planned(self, runs: Sequence[RunDescription], done: Sequence[Finished]) -> None: ...
    def started(self, run: RunDescription) -> None: ...
    def moved(self, moving: Sequence[Moving], left_s: float) -> None: ...
    def finished(self, done: Finished, left_s: float) -> None: ...


class Quiet:
    """Tells nobody."""

    def say(self, text: str) -> None:
        """A line outside the progress."""

    def begin(
        self, total: int, already: int, expected_s: float, again: int, round_number: int = 1
    ) -> None:
        """A block of runs begins; `again` of them were begun before."""

    def planned(self, runs: Sequence[RunDescription], done: Sequence[Finished]) -> None:
        """All runs of a block, and the ends of those that have one already."""

    def started(self, run: RunDescription) -> None:
        """A run starts."""

    def moved(self, moving: Sequence[Moving], left_s: float) -> None:
        """Some time has passed: the runs under way, and how long the rest will take."""

    def finished(self, done: Finished, left_s: float) -> None:
        """A run has ended."""


# Where a run may be started: a CPU's number, or a worker's name.
Slot = Hashable
Starter = Callable[[RunDescription, Path, Any], Job]  # the last: a slot


class Lost(Exception):
    """A run's machine went away under it, or could not begin it; said by Job.poll.

    counts  whether the run may be to blame: it is not run again for ever
    """

    def __init__(self, why: str, *, counts: bool = True) -> None:
        super().__init__(why)
        self.counts = counts


# What is to be run after what has been: one more block, or nothing.
More = Callable[[Sequence[Finished]], Sequence[RunDescription]]
# How wide a cell's values lie around their median, as a share of it; None of too few.
HalfWidth = Callable[[Sequence[float]], float | None]


def missing(
    runs: Sequence[RunDescription], folder: Path, *, retry_failed: bool
) -> list[RunDescription]:
    """The runs that have no answer yet, in order."""
    return [
        run
        for run in runs
        if not results.is_settled(place_of(run, folder), run, retry_failed=retry_failed)
    ]


def place_of(run: RunDescription, results_folder: Path) -> Path:
    """A run's place in a results folder."""
    return results_folder / run.experiment / run.name


def no_more(_done: Sequence[Finished]) -> Sequence[RunDescription]:
    """One block and no other."""
    return ()


def run_all(
    runs: Sequence[RunDescription],
    folder: Path,
    slots: Collection[Slot],
    start: Starter,
    clean: Callable[[Path], None],
    progress: Progress,
    *,
    retry_failed: bool = False,
    more: More = no_more,
    guess: Guess = expected_s,
    beside: bool = False,
) -> list[Finished]:
    """Run what is missing, block after block until `more` knows of none; returns every run's end,
    old and new.

    beside  make every run beside its place, so that others may write to the same results
    Raises ResultsError, OSError.
    """
    done: list[Finished] = []
    block, number = runs, 1
    while block:
        done += run_block(
            block,
            folder,
            slots,
            start,
            clean,
            progress,
            retry_failed=retry_failed,
            before=len(done),
            number=number,
            guess=guess,
            beside=beside,
        )
        block, number = more(done), number + 1
    return done


def run_block(
    runs: Sequence[RunDescription],
    folder: Path,
    slots: Collection[Slot],
    start: Starter,
    clean: Callable[[Path], None],
    progress: Progress,
    *,
    retry_failed: bool,
    before: int = 0,
    number: int = 1,
    guess: Guess = expected_s,
    beside: bool = False,
) -> list[Finished]:
    """Run what is missing of a block, the n-th after so many runs, at most one run per slot (a
    CPU, a worker); returns every run's end.

    Runs on the real clock have the machine for themselves. A run whose machine went away is run
    again in another slot. On an interrupt or an error every running guest is ended and its folder
    left unfinished; what was finished stays. Raises ResultsError, OSError.
    """
    todo = missing(runs, folder, retry_failed=retry_failed)
    forecast = Forecast(guess, max(1, len(slots)))
    ahead = {run.name for run in todo}
    progress.planned(runs, [end_of(run, folder) for run in runs if run.name not in ahead])
    progress.begin(
        before + len(runs),
        before + len(runs) - len(todo),
        forecast.left_s((), todo),
        sum(place_of(run, folder).exists() for run in todo),
        number,
    )
    told_s = worked_s = -math.inf
    waiting = deque(todo)
    lost: Counter[str] = Counter()
    with running_jobs() as running:
        while waiting or running:
            while waiting and (slot := free_slot(slots, running, waiting[0])) is not None:
                run = waiting.popleft()
                results.check_space(folder, SPACE_PER_RUN_BYTES * (1 + len(running)))
                making = prepared(folder, run, beside=beside)
                progress.started(run)
                job = started(start, run, making.folder, slot)
                running[slot] = Running(run, making, job, time.monotonic())
            time.sleep(POLL_S)
            if time.monotonic() - told_s >= TELL_S:
                told_s = time.monotonic()
                if told_s - worked_s >= LOOK_AT_WORK_S:
                    worked_s = told_s
                    note_work(running.values())
                moving = [active.seen(slot) for slot, active in running.items()]
                left_s = forecast.left_s(moving, waiting)
                progress.moved(moving, left_s)
            for slot, active in list(running.items()):
                try:
                    if active.job.poll() is None:
                        continue
                    complaint = active.job.complaint
                except Lost as loss:
                    lost[active.run.name] += loss.counts
                    if lost[active.run.name] < MOST_LOST:
                        del running[slot]
                        active.making.discard()
                        progress.say(f"{active.run.name}: {loss}: it is run again")
                        waiting.appendleft(active.run)
                        continue
                    complaint = f"{loss}, for the {MOST_LOST}rd time: it is not run again"
                del running[slot]
                clean(active.making.folder)
                spent_s = time.monotonic() - active.started_s
                # A job on another machine comes back with its status.
                status = getattr(active.job, "status", None) or results.finish(
                    active.making.folder, spent_s, complaint
                )
                active.making.settle(active.run, retry_failed=retry_failed)
                if status.get("outcome") == "ok":  # what broke says nothing of the others
                    forecast.finished(active.run, spent_s, active.whole_cpu_s(spent_s))
                # Of thousands that wait, one more or less is soon enough when the next is told.
                if len(waiting) < MANY:
                    moving = [other.seen(slot) for slot, other in running.items()]
                    left_s = forecast.left_s(moving, waiting)
                place = place_of(active.run, folder)
                progress.finished(Finished(active.run, place, status, verdict(place)), left_s)
    return [end_of(run, folder) for run in runs]


def prepared(folder: Path, run: RunDescription, *, beside: bool) -> results.Making:
    """An empty folder for a run. Raises OSError."""
    if beside:
        return results.prepare_beside(place_of(run, folder), run)
    return results.InPlace(results.prepare(folder, run))


def end_of(run: RunDescription, results_folder: Path) -> Finished:
    """What became of a run, from its folder."""
    return end_in(place_of(run, results_folder), run)


def end_in(folder: Path, run: RunDescription) -> Finished:
    """What became of the run that a folder is of."""
    return Finished(run, folder, results.read_status(folder) or {}, verdict(folder))


@dataclass(frozen=True)
class Standing:
    """How far a cell is that repeats until it is narrow enough."""

    cell: str
    until: Until
    repetitions: int  # so far, whatever became of them
    values: tuple[float, ...]  # of the runs that count, in the order of repetition
    halfwidth: float | None  # relative; None: too few

    @property
    def narrow(self) -> bool:
        """Whether its runs are enough and agree."""
        return (
            len(self.values) >= self.until.least
            and self.halfwidth is not None
            and self.halfwidth <= self.until.halfwidth
        )

    @property
    def wants_more(self) -> bool:
        """Whether another repetition may help: not where none of the first ones counts."""
        return not self.narrow and bool(self.values) and self.repetitions < self.until.most

    @property
    def line(self) -> str:
        """For people, of a cell that is not narrow."""
        got = (
            f"± {100 * self.halfwidth:.2g} %"
            if self.halfwidth is not None
            else f"({len(self.values)} of its runs count)"
        )
        return f"not narrow enough after {self.repetitions}: {self.cell} {got}"

    def to_json(self) -> dict[str, Any]:
        """For programs."""
        known = self.halfwidth is not None and math.isfinite(self.halfwidth)
        return {
            "cell": self.cell,
            "repetitions": self.repetitions,
            "runs_that_count": len(self.values),
            "halfwidth": self.halfwidth if known else None,
            "asked": self.until.halfwidth,
        }


def standings(
    done: Sequence[Finished], until: Mapping[str, Until], halfwidth: HalfWidth
) -> list[Standing]:
    """Every cell of the matrices that have a stopping rule. It depends on what their finished runs
    say, and on nothing else, so an interrupted matrix comes to the same end as any.
    """
    cells: dict[str, list[Finished]] = {}
    for end in sorted(done, key=lambda end: end.run.repetition):
        if end.run.matrix in until:
            cells.setdefault(end.run.cell, []).append(end)
    found = []
    for cell, ends in sorted(cells.items()):
        goodputs = [goodput_bps(end.folder) for end in ends if end.counts]
        values = tuple(value for value in goodputs if value is not None)
        found.append(
            Standing(cell, until[ends[0].run.matrix], len(ends), values, halfwidth(values))
        )
    return found


def more_repetitions(found: Sequence[Standing]) -> dict[str, int]:
    """The repetitions that cells are to have next: one more, of each that wants it."""
    return {standing.cell: standing.repetitions + 1 for standing in found if standing.wants_more}


class NeverStarted:
    """The job of a run that its machine could not start: over at once, with the machine's words."""

    def __init__(self, complaint: str) -> None:
        self.complaint: str | None = complaint

    def poll(self) -> int | None:
        return 1

    def kill(self) -> None:
        pass


def started(start: Starter, run: RunDescription, folder: Path, slot: Slot) -> Job:
    """Start a run; one that cannot start here (too little memory for it, say) fails alone, and the
    rest goes on.
    """
    try:
        return start(run, folder, slot)
    except MachineError as error:
        return NeverStarted(str(error))


@dataclass
class Running:
    """A run in a slot."""

    run: RunDescription
    making: results.Making
    job: Job
    started_s: float
    load_began_s: float | None = None  # when its samplers' files were first seen
    loaded_s: float | None = None  # its last sample's time, by its own clock
    sampled_at_s: float = 0.0  # when that was first seen
    worked: tuple[float, float] | None = None  # as last seen: CPU time, and wall time since begun

    def whole_cpu_s(self, wall_s: float) -> float | None:
        """The CPU time of the whole run, which goes on after the last look as before it; None where
        nobody looked.
        """
        if self.worked is None or not self.worked[1]:
            return None
        cpu_s, seen_s = self.worked
        return cpu_s * max(1.0, wall_s / seen_s)

    def seen(self, slot: Slot) -> Moving:
        """How far it is, from what its folder holds."""
        now_s = time.monotonic()
        if self.load_began_s is None and (self.making.folder / GROWING[0]).exists():
            self.load_began_s = now_s
        loaded_s = sampled_s(self.making.folder)
        if loaded_s != self.loaded_s:
            self.loaded_s, self.sampled_at_s = loaded_s, now_s
        known = self.loaded_s is not None and self.load_began_s is not None
        return Moving(
            self.run,
            slot,
            now_s - self.started_s,
            self.loaded_s,
            max(TELL_S, self.sampled_at_s - (self.load_began_s or 0.0)) if known else None,
            self.whole_cpu_s(now_s - self.started_s),
        )


def note_work(running: Iterable[Running]) -> None:
    """Note the CPU time of what runs here; a run elsewhere has no process group."""
    used_s = cpu_by_group_s()
    for active in running:
        cpu_s = used_s.get(getattr(active.job, "group", None) or -1)
        if cpu_s:
            active.worked = (cpu_s, time.monotonic() - active.started_s)


@contextmanager
def running_jobs() -> Iterator[dict[Slot, Running]]:
    """The jobs that run, by slot; all are ended on leaving."""
    running: dict[Slot, Running] = {}
    try:
        yield running
    finally:
        for active in running.values():
            active.job.kill()
            active.making.discard()


def free_slot(
    slots: Iterable[Slot], running: Mapping[Slot, Running], run: RunDescription
) -> Slot | None:
    """A slot for a run, if it may start now: what runs on the real clock tolerates no neighbour."""
    if running and (
        run.clock == "real" or any(active.run.clock == "real" for active in running.values())
    ):
        return None
    return next((slot for slot in slots if slot not in running), None)


def verdict(folder: Path) -> str | None:
    """A run's fidelity verdict; None if it has none."""
    found = (results.read_object(folder / "fidelity.json") or {}).get("verdict")
    return None if found is None else str(found)
