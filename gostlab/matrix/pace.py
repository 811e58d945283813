"""How long runs take on this machine: a model of the work, corrected by what finished runs took."""

from __future__ import annotations

import heapq
import json
import math
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from statistics import median

from gostlab import results
from gostlab.ask.document import BadInput
from gostlab.ask.run_description import RunDescription
from gostlab.declared.tunnels import tunnel_kind
from gostlab.machine.sandbox import host_facts

# Newer runs tell more of how busy the machine is now, and reading more takes longer than a guess
# is worth.
MOST_REMEMBERED = 300

Guess = Callable[[RunDescription], float]

# Series that grow while a run's load lasts, and how much of their ends is read.
GROWING = ("hosts.jsonl", "queues.jsonl", "sockets.jsonl")
TAIL_BYTES = 4096
# From this share of its load on, what a run has taken says more than what others took.
TELLING_SHARE = 0.15


def expected_s(run: RunDescription) -> float:
    """A guess of a run's wall time from what it asks, on a machine that nobody has measured.

    Virtual clock: about 19 µs per packet that path and windows can carry (docs/speed.md), 7 µs with
    offloads, half as much again through a tunnel, and 3.5 s around it; loss and other flows make it
    less or more, by 3 times. Real clock: its length.
    """
    if run.clock == "real":
        return run.length_s + 5
    per_packet_s = 7e-6 if run.offloads else 19e-6
    if not tunnel_kind(run.tunnel).is_direct:
        per_packet_s *= 1.5
    return 3.5 + packets_carried(run) * per_packet_s


def packets_carried(run: RunDescription) -> float:
    """How many full packets path, windows and sizes let through at most."""
    ways = [run.path[name] for name in ("forward", "reverse")]
    rtt_s = max(0.001, sum(way["delay_ms"] for way in ways) / 1000)
    windows_bps = 0.0
    for flow in run.flows:
        known = isinstance(flow.buffers, Mapping)
        windows_bps += flow.streams * flow.buffers["rmem"][2] * 4 / rtt_s if known else 1e10
    rate_bps = min(windows_bps, *(way["rate_bps"] or 1e10 for way in ways))
    asked_bits = 8 * sum(flow.size_bytes or 1e15 for flow in run.flows)
    return min(rate_bps * run.length_s, asked_bits) / 12000


@dataclass(frozen=True)
class Past:
    """A run that this machine has finished."""

    run: RunDescription
    wall_s: float


def remembered(folder: Path, most: int = MOST_REMEMBERED) -> list[Past]:
    """The newest runs in a results folder that ended well on a machine like this one."""
    facts = host_facts("")
    here = {name: facts[name] for name in ("cpu", "cpus", "kernel")}
    found = (past_run(status.parent, here) for status in newest_first(folder))
    return list(islice((past for past in found if past is not None), most))


def newest_first(folder: Path) -> list[Path]:
    """Every finished run's status.json, the youngest first."""
    dated = []
    for status in folder.glob("*/*/status.json"):
        try:
            dated.append((status.stat().st_mtime, status))
        except OSError:  # taken away meanwhile
            continue
    return [status for _, status in sorted(dated, reverse=True)]


def past_run(folder: Path, here: Mapping[str, object]) -> Past | None:
    """What a finished run took; None if it did not end well, or on another machine."""
    status = results.read_object(folder / "status.json") or {}
    host = (results.read_object(folder / "env.json") or {}).get("host")
    if status.get("outcome") != "ok" or not results.is_number(status.get("wall_s")):
        return None
    if not isinstance(host, dict) or any(host.get(name) != here[name] for name in here):
        return None
    try:
        run = RunDescription.from_json(results.read_object(folder / "run.json") or {})
    except BadInput:  # an older lab's
        return None
    return Past(run, float(status["wall_s"]))


def learned(past: Sequence[Past]) -> Guess:
    """The model, corrected by finished runs: those of the same cell say what it takes; else those
    of the same experiment, else all on the same clock, say how far the model is off.
    """
    by_cell = grouped(past, cell_digest)
    by_experiment = grouped(past, lambda run: (run.experiment, run.clock))
    by_clock = grouped(past, lambda run: run.clock)

    def guess(run: RunDescription) -> float:
        if alike := by_cell.get(cell_digest(run)):
            return median(one.wall_s for one in alike)
        alike = by_experiment.get((run.experiment, run.clock)) or by_clock.get(run.clock) or []
        return expected_s(run) * (how_far_off(alike) if alike else 1.0)

    return guess


def grouped(
    past: Sequence[Past], key: Callable[[RunDescription], Hashable]
) -> dict[Hashable, list[Past]]:
    """Finished runs by what they have in common."""
    found: dict[Hashable, list[Past]] = {}
    for one in past:
        found.setdefault(key(one.run), []).append(one)
    return found


def cell_digest(run: RunDescription) -> str:
    """What two repetitions of a cell have in common, whatever order their factors were read in."""
    return run.cell.rpartition("-")[2]


def how_far_off(past: Sequence[Past]) -> float:
    """What some runs took together, over what the model said: the sum is what is promised."""
    return sum(one.wall_s for one in past) / sum(expected_s(one.run) for one in past)


# -- while they run


@dataclass(frozen=True)
class Moving:
    """A run under way, as it looks from outside."""

    run: RunDescription
    slot: Hashable
    elapsed_s: float  # of wall time since its machine was started
    loaded_s: float | None  # of its load, by its own clock, as of its last written sample
    load_elapsed_s: float | None  # wall time from the beginning of its load to that sample

    @property
    def share(self) -> float | None:
        """How much of its load is over; None before its first sample."""
        if self.loaded_s is None or self.run.length_s <= 0:
            return None
        return min(1.0, self.loaded_s / self.run.length_s)

    @property
    def speed(self) -> float | None:
        """Seconds of its own clock per second of wall time, while its load lasts."""
        if self.loaded_s is None or not self.load_elapsed_s:
            return None
        return self.loaded_s / self.load_elapsed_s


def sampled_s(folder: Path) -> float | None:
    """The time of the last sample that a run's folder holds, in seconds since its load began; None
    where none is written yet. Samples are written in blocks, so this may lag by some of them.
    """
    found = [at_s for name in GROWING if (at_s := last_instant_s(folder / name)) is not None]
    return max(found, default=None)


def last_instant_s(file: Path) -> float | None:
    """The `t_s` of a series' last whole line."""
    try:
        with file.open("rb") as series:
            series.seek(0, 2)
            series.seek(max(0, series.tell() - TAIL_BYTES))
            tail = series.read()
    except OSError:  # not there yet, or on another machine
        return None
    for line in reversed(tail[: tail.rfind(b"\n") + 1].splitlines()):
        try:
            at_s = json.loads(line)["t_s"]
        except (ValueError, KeyError, TypeError):
            continue
        return float(at_s) if results.is_number(at_s) else None
    return None


@dataclass
class Forecast:
    """How long a block of runs will still take, corrected by everything that ends or moves in it.

    A run whose cell has finished here takes what that took; any other what was guessed, times how
    far off the guesses of this block have been; one under way what its own pace says. Then the
    runs are dealt to the slots as the scheduler does it.
    """

    guess: Guess
    slots: int
    # walls, with what was guessed of them
    ended: list[tuple[float, float]] = field(default_factory=list)
    ended_by_cell: dict[str, list[float]] = field(default_factory=dict)
    # a cell's median, and of how many: every run that waits asks for it at every end of another
    median_of: dict[str, tuple[int, float]] = field(default_factory=dict)
    # A cell's digest and a guess take longer than all else, and are asked for twice a second.
    known: dict[int, tuple[RunDescription, str, float]] = field(default_factory=dict)

    def known_of(self, run: RunDescription) -> tuple[RunDescription, str, float]:
        """A run, its cell's digest, and what was guessed of it."""
        if id(run) not in self.known:
            self.known[id(run)] = (run, cell_digest(run), self.guess(run))
        return self.known[id(run)]

    def finished(self, run: RunDescription, wall_s: float) -> None:
        """A run of the block has ended."""
        _, cell, guessed_s = self.known_of(run)
        self.ended.append((wall_s, guessed_s))
        self.ended_by_cell.setdefault(cell, []).append(wall_s)

    def factor(self, moving: Iterable[Moving] = ()) -> float:
        """How far the guesses are off: what has ended, what is under way as far as it has come,
        and one run's worth of trust in the guesses themselves.
        """
        took = [(wall_s, guessed_s, 1.0) for wall_s, guessed_s in self.ended]
        for each in moving:
            guessed_s, share = self.known_of(each.run)[2], each.share
            if share is not None and share >= TELLING_SHARE:
                took.append((self.by_its_pace_s(each, share), guessed_s, share))
            elif each.elapsed_s > guessed_s:  # it has taken longer already
                took.append((each.elapsed_s, guessed_s, 0.5))
        if not took:
            return 1.0
        weights = math.fsum(weight for _, _, weight in took)
        seen_s = math.fsum(wall_s * weight for wall_s, _, weight in took)
        guessed_s = math.fsum(guess_s * weight for _, guess_s, weight in took)
        trust_s = guessed_s / weights
        return (seen_s + trust_s) / (guessed_s + trust_s)

    def expected_s(self, run: RunDescription, factor: float) -> float:
        """A run's wall time."""
        _, cell, guessed_s = self.known_of(run)
        alike = self.ended_by_cell.get(cell)
        if not alike:
            return guessed_s * factor
        if self.median_of.get(cell, (0, 0.0))[0] != len(alike):
            self.median_of[cell] = (len(alike), median(alike))
        return self.median_of[cell][1]

    def by_its_pace_s(self, moving: Moving, share: float) -> float:
        """A run's whole wall time, if the rest of its load goes as fast as what is over."""
        load_elapsed_s = moving.load_elapsed_s or 0.0
        return moving.elapsed_s + load_elapsed_s * (1 - share) / max(share, 1e-3)

    def remaining_s(self, moving: Moving, factor: float) -> float:
        """What a run under way will still take."""
        by_guess_s = max(0.0, self.expected_s(moving.run, factor) - moving.elapsed_s)
        share = moving.share
        if share is None or share < TELLING_SHARE:
            return by_guess_s
        by_pace_s = self.by_its_pace_s(moving, share) - moving.elapsed_s
        return share * by_pace_s + (1 - share) * by_guess_s

    def left_s(self, moving: Sequence[Moving], waiting: Iterable[RunDescription]) -> float:
        """The wall time until the last run ends. What runs on the real clock runs alone."""
        factor = self.factor(moving)
        alone_s = 0.0
        free = [self.remaining_s(each, factor) for each in moving]
        free += [0.0] * (self.slots - len(free))
        heapq.heapify(free)
        for run in waiting:
            if run.clock == "real":
                alone_s += self.expected_s(run, factor)
            else:
                heapq.heapreplace(free, free[0] + self.expected_s(run, factor))
        return max(free, default=0.0) + alone_s
