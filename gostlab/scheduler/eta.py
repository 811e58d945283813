# SPDX-License-Identifier: MIT
"""Estimate how long runs take, from their description and from how long similar runs took."""

import heapq
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from gostlab import results, safe_read
from gostlab.spec.flow import FlowSpec
from gostlab.spec.path_spec import DIRECTIONS
from gostlab.spec.run_spec import RunSpec
from gostlab.tcpmodel.run_limits import UNLIMITED_BPS

PACKET_BITS = 12000  # bits of a packet of 1500 bytes

RunGroup = tuple[object, ...]  # properties that runs of similar duration have in common

# Series that grow during a run's load.
GROWING = ("hosts.jsonl", "queues.jsonl", "sockets.jsonl")
TAIL_BYTES = 2**16  # holds several rows of hosts.jsonl with a hundred hosts
# From this share of its load on, a run's own speed predicts its end better than other runs do.
TELLING_SHARE = 0.15


def expected_s(run: RunSpec) -> float:
    """Return an estimate of a run's wall time before any similar run has ended, in seconds.

    The load is assumed to fill the path. Virtual clock: about 19 µs per packet, 7 µs with offloads,
    40 ms per second of load, and 1.5 s for boot and shutdown. Real clock: the run's length and 5 s.
    """
    if run.clock == "real":
        return run.length_s + 5
    load_s = expected_load_s(run)
    packets = load_s * min(rate_bps(run, direction) for direction in DIRECTIONS) / PACKET_BITS
    return 1.5 + 0.04 * load_s + packets * (7e-6 if run.offloads else 19e-6)


def expected_load_s(run: RunSpec) -> float:
    """Return an estimate of how long a run's load lasts, in seconds.

    An http flow ends with its file; its duration is only a limit.
    """

    def fetching_s(flow: FlowSpec) -> float:
        if flow.size_bytes is None:
            return math.inf
        return 8 * flow.streams * flow.size_bytes / rate_bps(run, flow.data_direction)

    return max(flow.start_s + min(flow.duration_s, fetching_s(flow)) for flow in run.flows)


def rate_bps(run: RunSpec, direction: str) -> float:
    """Return a direction's rate in bit/s, or the maximum supported rate if it is unlimited."""
    return run.path[direction].rate_bps or UNLIMITED_BPS


# -- while they run


@dataclass(frozen=True)
class ActiveRun:
    """Represent the progress of an active run, as observed from outside."""

    run: RunSpec
    elapsed_s: float  # wall time since the run's machine was started
    loaded_s: float | None  # load time on the run's clock at its last written sample
    load_elapsed_s: float | None  # wall time from the beginning of its load to that sample

    @property
    def share(self) -> float | None:
        """Return the completed fraction of the load, or None before the first sample."""
        if self.loaded_s is None or self.run.length_s <= 0:
            return None
        return min(1.0, self.loaded_s / self.run.length_s)

    @property
    def speed(self) -> float | None:
        """Return seconds of the run's clock per second of wall time during its load."""
        if self.loaded_s is None or not self.load_elapsed_s:
            return None
        return self.loaded_s / self.load_elapsed_s


def sampled_s(folder: Path) -> float | None:
    """Return the time of the last sample in a run's folder, in seconds since its load began.

    None before the first sample. Samples are written in blocks, so the value lags by up to one
    block.
    """
    times_s = [at_s for name in GROWING if (at_s := last_instant_s(folder / name)) is not None]
    return max(times_s, default=None)


def last_instant_s(file: Path) -> float | None:
    """Return the `t_s` of the last complete line of a series, or None."""
    try:
        tail, _ = safe_read.read_tail(file, TAIL_BYTES)
    except OSError:  # the file does not exist yet, or is on another machine
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
    """Predict how long a block of runs will still take.

    Each run is expected to take its estimate times the ratio of actual to estimated time of similar
    runs that ended in this block. Runs are assigned to slots as the scheduler does.
    """

    runs: Sequence[RunSpec]
    slots: int
    expected: dict[int, float] = field(init=False)  # by id(run), which is faster to hash
    ended: dict[RunGroup, tuple[float, float]] = field(default_factory=dict)  # actual, expected

    def __post_init__(self) -> None:
        self.expected = {id(run): expected_s(run) for run in self.runs}

    def finished(self, run: RunSpec, wall_s: float) -> None:
        for group in groups_of(run):
            took_s, expected_s = self.ended.get(group, (0.0, 0.0))
            self.ended[group] = took_s + wall_s, expected_s + self.expected[id(run)]

    def whole_s(self, run: RunSpec) -> float:
        ended = (self.ended[group] for group in groups_of(run) if group in self.ended)
        took_s, expected_s = next(ended, (1.0, 1.0))
        return self.expected[id(run)] * took_s / expected_s

    def rest_s(self, moving: ActiveRun) -> float:
        """Return the remaining time of an active run, in seconds.

        The more of its load is over, the more the run's own speed counts.
        """
        by_kind_s = max(0.0, self.whole_s(moving.run) - moving.elapsed_s)
        share = moving.share or 0.0
        if share < TELLING_SHARE:
            return by_kind_s
        by_its_pace_s = (moving.load_elapsed_s or 0.0) * (1 - share) / share
        return share * by_its_pace_s + (1 - share) * by_kind_s

    def left_s(self, moving: Sequence[ActiveRun], waiting: Iterable[RunSpec]) -> float:
        """Return the wall time until the last run ends, s. Runs on the real clock run alone."""
        free = [self.rest_s(active) for active in moving]
        free += [0.0] * (self.slots - len(free))
        heapq.heapify(free)
        alone_s = 0.0
        for run in waiting:
            if run.clock == "real":
                alone_s += self.whole_s(run)
            else:
                heapq.heapreplace(free, free[0] + self.whole_s(run))
        return max(free) + alone_s


def groups_of(run: RunSpec) -> tuple[RunGroup, ...]:
    """Return the groups of similar runs that a run belongs to, the most specific first."""
    base = run.clock, run.experiment, run.matrix
    return ((*base, run.tunnel, run.streams), base, (run.clock,))
