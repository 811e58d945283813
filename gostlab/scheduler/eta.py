"""How long runs take: a guess from what they ask, times how far it was off for those that ended."""

import heapq
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from gostlab import results, safe_read
from gostlab.spec.flow import FlowSpec
from gostlab.spec.run_spec import RunSpec
from gostlab.tcpmodel.constants import UNLIMITED_BPS

PACKET_BITS = 12000  # of 1500 bytes

Kind = tuple[object, ...]  # of a run: what others have in common with it

# Series that grow while a run's load lasts, and how much of their ends is read.
GROWING = ("hosts.jsonl", "queues.jsonl", "sockets.jsonl")
TAIL_BYTES = 2**16  # several rows of a hundred hosts, which stand in one of hosts.jsonl
# From this share of its load on, what a run has taken says more than what others took.
TELLING_SHARE = 0.15


def expected_s(run: RunSpec) -> float:
    """A guess of a run's wall time, before any of its kind has ended: its load fills the path.

    Virtual clock: about 19 µs per packet, 7 µs with offloads, 40 ms per second of load, and 1.5 s
    around it. Real clock: its length.
    """
    if run.clock == "real":
        return run.length_s + 5
    load_s = expected_load_s(run)
    packets = load_s * min(rate_bps(run, way) for way in run.path) / PACKET_BITS
    return 1.5 + 0.04 * load_s + packets * (7e-6 if run.offloads else 19e-6)


def expected_load_s(run: RunSpec) -> float:
    """A guess of how long a load lasts: an http flow's file, which its duration only limits."""

    def fetching_s(flow: FlowSpec) -> float:
        if flow.size_bytes is None:
            return math.inf
        return 8 * flow.streams * flow.size_bytes / rate_bps(run, flow.data_way)

    return max(flow.start_s + min(flow.duration_s, fetching_s(flow)) for flow in run.flows)


def rate_bps(run: RunSpec, way: str) -> float:
    """A direction's rate; of a path without one, the fastest."""
    return run.path[way]["rate_bps"] or UNLIMITED_BPS


# -- while they run


@dataclass(frozen=True)
class Moving:
    """A run under way, as it looks from outside."""

    run: RunSpec
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
        tail, _ = safe_read.read_tail(file, TAIL_BYTES)
    except OSError:  # not there yet, or on another machine
        return None
    for line in reversed(tail[: tail.rfind(b"\n") + 1].splitlines()):
        try:
            at_s = safe_read.decode(line)["t_s"]
        except results.BROKEN_RECORDS:
            continue
        return float(at_s) if results.is_number(at_s) else None
    return None


@dataclass
class Forecast:
    """How long a block of runs will still take: what each is expected to, times how much longer
    those of its kind took that have ended in this block, dealt to the slots as the scheduler does.
    """

    runs: Sequence[RunSpec]
    slots: int
    expected: dict[int, float] = field(init=False)  # by id(run): read twice a second
    ended: dict[Kind, tuple[float, float]] = field(default_factory=dict)  # took, was expected to

    def __post_init__(self) -> None:
        self.expected = {id(run): expected_s(run) for run in self.runs}

    def finished(self, run: RunSpec, wall_s: float) -> None:
        for kind in kinds_of(run):
            took_s, expected_s = self.ended.get(kind, (0.0, 0.0))
            self.ended[kind] = took_s + wall_s, expected_s + self.expected[id(run)]

    def whole_s(self, run: RunSpec) -> float:
        ended = (self.ended[kind] for kind in kinds_of(run) if kind in self.ended)
        took_s, expected_s = next(ended, (1.0, 1.0))
        return self.expected[id(run)] * took_s / expected_s

    def rest_s(self, moving: Moving) -> float:
        """What a run under way will still take; by its own pace, as far as it has come."""
        by_kind_s = max(0.0, self.whole_s(moving.run) - moving.elapsed_s)
        share = moving.share or 0.0
        if share < TELLING_SHARE:
            return by_kind_s
        by_its_pace_s = (moving.load_elapsed_s or 0.0) * (1 - share) / share
        return share * by_its_pace_s + (1 - share) * by_kind_s

    def left_s(self, moving: Sequence[Moving], waiting: Iterable[RunSpec]) -> float:
        """The wall time until the last run ends. What runs on the real clock runs alone."""
        free = [self.rest_s(each) for each in moving]
        free += [0.0] * (self.slots - len(free))
        heapq.heapify(free)
        alone_s = 0.0
        for run in waiting:
            if run.clock == "real":
                alone_s += self.whole_s(run)
            else:
                heapq.heapreplace(free, free[0] + self.whole_s(run))
        return max(free) + alone_s


def kinds_of(run: RunSpec) -> tuple[Kind, ...]:
    """What a run has in common with others that take as long, what says most of it first."""
    its = run.clock, run.experiment, run.matrix
    return ((*its, run.tunnel, run.streams), its, (run.clock,))
