"""How long runs take on this machine: a model of the work, corrected by what finished runs took."""

from __future__ import annotations

import heapq
import json
import math
from bisect import bisect_right
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import accumulate, islice
from pathlib import Path
from statistics import median
from typing import Any

from gostlab import results
from gostlab.ask.document import BadInput
from gostlab.ask.flows import Flow
from gostlab.ask.guards import data_way
from gostlab.ask.limits import UNLIMITED_BPS
from gostlab.ask.response import cubic_throughput_bps
from gostlab.ask.run_description import RunDescription
from gostlab.declared.tunnels import tunnel_kind
from gostlab.machine.sandbox import host_facts

# Newer runs tell more of how busy the machine is now, and reading more takes longer than a guess
# is worth.
MOST_REMEMBERED = 300

PACKET_BITS = 12000  # of 1500 bytes
# What a loss makes slower, by about CUBIC's response function.
HELD_BY_LOSS = ("bic", "cubic", "dctcp", "htcp", "illinois", "reno", "veno", "westwood")

Guess = Callable[[RunDescription], float]

# Series that grow while a run's load lasts, and how much of their ends is read.
GROWING = ("hosts.jsonl", "queues.jsonl", "sockets.jsonl")
TAIL_BYTES = 4096
# What ended so long ago, perhaps on a busier machine, weighs half as much as what ended now.
FORGET_S = 600
# How busy the machine is is told by the last minute and more: by half of what is left.
LEAST_LOOKED_BACK_S = 60
LOOKED_BACK = 0.5
MOST_LOOKS = 20_000
LEAST_CPU_S = 5  # of less, nothing is said of how busy the machine is
MOST_EVIDENCE = 40
MOST_COMPARED = 200  # cells that wait and are compared with what ended; of more, all runs together
LOCAL_TRUST = 0.3  # of what all runs say together, beside those like the one that is guessed
# From this share of its load on, what a run has taken says more than what others took.
TELLING_SHARE = 0.15


def expected_s(run: RunDescription) -> float:
    """A guess of a run's wall time from what it asks, on a machine that nobody has measured.

    Virtual clock: about 19 µs per packet that is carried (docs/speed.md), 7 µs with offloads, half
    as much again through a tunnel, 40 ms per second of load, and 1.5 s around it. Real clock: its
    length.
    """
    if run.clock == "real":
        return run.length_s + 5
    per_packet_s = 7e-6 if run.offloads else 19e-6
    if not tunnel_kind(run.tunnel).is_direct:
        per_packet_s *= 1.5
    return 1.5 + 0.04 * expected_load_s(run) + packets_carried(run) * per_packet_s


def expected_load_s(run: RunDescription) -> float:
    """A guess of how long a run's load lasts: an http flow until its file is there, which its
    duration only limits.
    """
    rtt_s = round_trip_s(run)
    return max(
        flow.start_s + min(flow.duration_s, fetching_s(run, flow, rtt_s)) for flow in run.flows
    )


def fetching_s(run: RunDescription, flow: Flow, rtt_s: float) -> float:
    """How long an http flow fetches for; of any other flow, endless."""
    if flow.size_bytes is None:
        return math.inf
    way_bps = run.path[data_way(flow)]["rate_bps"] or UNLIMITED_BPS
    return 8 * flow.streams * flow.size_bytes / min(flow_bps(run, flow, rtt_s), way_bps)


def round_trip_s(run: RunDescription) -> float:
    """The path's idle round trip, a millisecond at least."""
    return max(0.001, sum(way["delay_ms"] for way in run.path.values()) / 1000)


def packets_carried(run: RunDescription) -> float:
    """How many full packets path, windows, losses, sizes and the hosts' CPU let through."""
    ways = [run.path[name] for name in ("forward", "reverse")]
    flows_bps = sum(flow_bps(run, flow, round_trip_s(run)) for flow in run.flows)
    rate_bps = min(flows_bps, *(way["rate_bps"] or UNLIMITED_BPS for way in ways))
    if run.syscall_cost_us and not run.host_cpus and not tunnel_kind(run.tunnel).is_direct:
        # One CPU makes every host's calls, and a tunnel makes about one per packet.
        rate_bps = min(rate_bps, PACKET_BITS / (run.syscall_cost_us / 1e6))
    asked_bits = 8 * sum(flow.size_bytes or 1e15 for flow in run.flows)
    return min(rate_bps * run.length_s, asked_bits) / PACKET_BITS


def flow_bps(run: RunDescription, flow: Flow, rtt_s: float) -> float:
    """What a flow sends if the path's rate does not hold it."""
    if flow.kind in ("udp", "ping"):
        return float(flow.rate_bps or 0)
    known = isinstance(flow.buffers, Mapping)
    stream_bps = flow.buffers["rmem"][2] * 4 / rtt_s if known else UNLIMITED_BPS
    loss = mean_loss(run.path[data_way(flow)]["loss"])
    if loss and (flow.cc or run.cc) in HELD_BY_LOSS:
        stream_bps = min(stream_bps, cubic_throughput_bps(loss, rtt_s))
    return float(flow.streams * stream_bps)


def mean_loss(loss: Mapping[str, Any]) -> float:
    """The share of packets that a loss model takes, where it says so itself; else 0."""
    if loss.get("model") == "gemodel":  # its p is of a change of state
        return 0.0
    return float(1 / loss["packets"] if "packets" in loss else loss.get("p") or 0)


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
    cpu_s: float | None = None  # CPU time that its machine has used; None where nobody looks

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


@dataclass(frozen=True)
class Took:
    """The work that a run was, or will have been by its pace, beside what was guessed of it."""

    run: RunDescription
    work_s: float
    guessed_s: float
    weight: float


# By clock: what runs took, and how far their guesses are off together.
Evidence = Mapping[str, tuple[Sequence[Took], float]]


def off_by(took: Sequence[Took]) -> float:
    """How far guesses are off together, the longer the more it counts; that they are right weighs
    as one run.
    """
    weights = math.fsum(each.weight for each in took)
    if not weights:
        return 1.0
    seen_s = math.fsum(each.work_s * each.weight for each in took)
    guessed_s = math.fsum(each.guessed_s * each.weight for each in took)
    trust_s = guessed_s / weights
    return (seen_s + trust_s) / (guessed_s + trust_s)


def off_alike(took: Sequence[Took], off: float, run: RunDescription, guessed_s: float) -> float:
    """How far the guess of a run is off, by those of runs like it, each by its ratio; `off`, what
    all say together, weighs as one that is not much like it.
    """
    like = [
        (each.weight * likeness(each, run, guessed_s), each.work_s / each.guessed_s)
        for each in took
        if each.guessed_s > 0
    ]
    weights = LOCAL_TRUST + math.fsum(weight for weight, _ in like)
    seen = math.fsum(weight * ratio for weight, ratio in like)
    return (LOCAL_TRUST * off + seen) / weights


def likeness(took: Took, run: RunDescription, guessed_s: float) -> float:
    """How much a run says of another, up to 1: half as much for another matrix and for every factor
    that differs, and less the further their guesses are apart.
    """
    other = took.run
    names = run.factors.keys() | other.factors.keys()
    apart = sum(run.factors.get(name) != other.factors.get(name) for name in names)
    apart += run.matrix != other.matrix
    shorter_s, longer_s = sorted((took.guessed_s, guessed_s))
    return 0.5**apart * shorter_s / longer_s if longer_s > 0 else 0.5**apart


@dataclass
class Busy:
    """How much longer than their CPU time runs on the virtual clock take, lately: 1 on a machine
    without other work. Which run works when is told by looks at those under way; their sums are
    kept.
    """

    ended_s: float = 0.0  # wall time of runs that are over, and their CPU time
    ended_cpu_s: float = 0.0
    # wall time of all runs together, and their CPU time, look by look
    looks: list[tuple[float, float]] = field(default_factory=lambda: [(0.0, 0.0)])

    def look(self, moving: Iterable[Moving] = ()) -> None:
        """Note what those that are over and those under way have used."""
        known = [each for each in moving if each.cpu_s is not None and each.run.clock != "real"]
        wall_s = self.ended_s + math.fsum(each.elapsed_s for each in known)
        cpu_s = self.ended_cpu_s + math.fsum(each.cpu_s or 0.0 for each in known)
        if wall_s >= self.looks[-1][0] + 1:
            self.looks.append((wall_s, cpu_s))
        if len(self.looks) > MOST_LOOKS:
            del self.looks[: MOST_LOOKS // 2]

    def times(self, back_s: float = math.inf) -> float:
        """Wall time over CPU time, of the last so many seconds of runs' wall time; 1 where too
        little is known.
        """
        wall_s, cpu_s = self.looks[-1]
        back = bisect_right(self.looks, (wall_s - back_s, math.inf))
        for then_s, then_cpu_s in (self.looks[max(0, back - 1)], self.looks[0]):
            if cpu_s - then_cpu_s >= LEAST_CPU_S:
                return (wall_s - then_s) / (cpu_s - then_cpu_s)
        return 1.0


@dataclass
class Forecast:
    """How long a block of runs will still take, corrected by everything that ends or moves in it.

    What a run is is work: its CPU time, where somebody looks at it. A run whose cell has finished
    here is what that was; any other what was guessed, times how far off the guesses of runs like it
    have been; one under way what its own pace says. Work takes as much longer than that as it did
    lately, and the runs are dealt to the slots as the scheduler does it.

    From the second minute on this is meant to be right within 30 %, or 5 s where that is more: of
    the last seconds no share can be kept. What the machine will be busy with later nobody knows.
    """

    guess: Guess
    slots: int
    ended: list[tuple[Took, float]] = field(default_factory=list)  # and its wall time
    ended_by_cell: dict[str, list[float]] = field(default_factory=dict)
    # a cell's median, and of how many: every run that waits asks for it at every end of another
    median_of: dict[str, tuple[int, float]] = field(default_factory=dict)
    # A cell's digest and a guess take longer than all else, and are asked for twice a second.
    known: dict[int, tuple[RunDescription, str, float]] = field(default_factory=dict)
    # what waiting cells will be, and what had been seen when that was said: they are many
    expected: dict[str, float] = field(default_factory=dict)
    seen: tuple[int, ...] = ()
    busy: Busy = field(default_factory=Busy)
    promised_s: float = math.inf

    def known_of(self, run: RunDescription) -> tuple[RunDescription, str, float]:
        """A run, its cell's digest, and what was guessed of it."""
        if id(run) not in self.known:
            self.known[id(run)] = (run, cell_digest(run), self.guess(run))
        return self.known[id(run)]

    def finished(self, run: RunDescription, wall_s: float, cpu_s: float | None = None) -> None:
        """A run of the block has ended; cpu_s: the CPU time that it took, where somebody looked."""
        _, cell, guessed_s = self.known_of(run)
        work_s = wall_s
        if run.clock != "real":
            work_s = cpu_s or wall_s / self.busy.times()
            if cpu_s:
                self.busy.ended_s += wall_s
                self.busy.ended_cpu_s += cpu_s
        self.ended.append((Took(run, work_s, guessed_s, 1.0), wall_s))
        self.ended_by_cell.setdefault(cell, []).append(work_s)

    def evidence(self, moving: Iterable[Moving] = ()) -> Evidence:
        """What the newest ended runs were, the older the less it weighs, and what those under way
        will have been by their own pace, as far as they have come.
        """
        found = self.all_took(moving)
        by_clock = {
            clock: [each for each in found if each.run.clock == clock]
            for clock in ("virtual", "real")
        }
        return {clock: (took, off_by(took)) for clock, took in by_clock.items()}

    def all_took(self, moving: Iterable[Moving]) -> list[Took]:
        """The evidence of both clocks."""
        newest = self.ended[: -MOST_EVIDENCE - 1 : -1]
        ages_s = accumulate((wall_s / self.slots for _, wall_s in newest), initial=0.0)
        found = [
            replace(each, weight=0.5 ** (age_s / FORGET_S))
            for (each, _), age_s in zip(newest, ages_s, strict=False)
        ]
        for each in moving:
            guessed_s, share = self.known_of(each.run)[2], each.share
            if share is not None and share >= TELLING_SHARE:
                work_s = self.worked_s(each) + self.rest_by_its_pace_s(each, share)
                found.append(Took(each.run, work_s, guessed_s, share))
            elif self.worked_s(each) > guessed_s:  # it has been more already
                found.append(Took(each.run, self.worked_s(each), guessed_s, 0.5))
        return found

    def expected_s(
        self, run: RunDescription, evidence: Evidence, *, compared: bool = True
    ) -> float:
        """A run's work: what its cell was before; else what was guessed, times how far the guesses
        of runs like it are off (`compared`), shrunk towards how far all on its clock are.
        """
        _, cell, guessed_s = self.known_of(run)
        alike = self.ended_by_cell.get(cell)
        if not alike:
            # The real clock goes as fast on a slow machine: it says nothing of the virtual one.
            same, off = evidence[run.clock]
            return guessed_s * (off_alike(same, off, run, guessed_s) if compared else off)
        if self.median_of.get(cell, (0, 0.0))[0] != len(alike):
            self.median_of[cell] = (len(alike), median(alike))
        return self.median_of[cell][1]

    def worked_s(self, moving: Moving) -> float:
        """The work that a run under way has been so far."""
        if moving.run.clock == "real":
            return moving.elapsed_s
        return moving.elapsed_s / self.busy.times() if moving.cpu_s is None else moving.cpu_s

    def rest_by_its_pace_s(self, moving: Moving, share: float) -> float:
        """The work that a run still is, if the rest of its load is as much as what is over."""
        of_load = (moving.load_elapsed_s or 0.0) / moving.elapsed_s if moving.elapsed_s else 0.0
        return self.worked_s(moving) * of_load * (1 - share) / max(share, 1e-3)

    def remaining_s(self, moving: Moving, evidence: Evidence) -> float:
        """The work that a run under way still is."""
        by_guess_s = max(0.0, self.expected_s(moving.run, evidence) - self.worked_s(moving))
        share = moving.share
        if share is None or share < TELLING_SHARE:
            return by_guess_s
        return share * self.rest_by_its_pace_s(moving, share) + (1 - share) * by_guess_s

    def left_s(self, moving: Sequence[Moving], waiting: Iterable[RunDescription]) -> float:
        """The wall time until the last run ends. What runs on the real clock runs alone."""
        self.busy.look(moving)
        back_s = max(LEAST_LOOKED_BACK_S, LOOKED_BACK * self.promised_s)
        times = self.busy.times(back_s * self.slots)
        evidence = self.evidence(moving)
        seen = (len(self.ended), *(round(10 * (each.share or 0.0)) for each in moving))
        if seen != self.seen:
            self.seen = seen
            self.expected.clear()
        alone_s = 0.0
        free = [
            self.remaining_s(each, evidence) * (1.0 if each.run.clock == "real" else times)
            for each in moving
        ]
        free += [0.0] * (self.slots - len(free))
        heapq.heapify(free)
        for run in waiting:
            cell = self.known_of(run)[1]
            if cell not in self.expected:
                few = len(self.expected) < MOST_COMPARED
                self.expected[cell] = self.expected_s(run, evidence, compared=few)
            if run.clock == "real":
                alone_s += self.expected[cell]
            else:
                heapq.heapreplace(free, free[0] + self.expected[cell] * times)
        self.promised_s = max(free, default=0.0) + alone_s
        return self.promised_s
