"""How long runs take: a guess from what they ask, times how far it was off for those that ended."""

from __future__ import annotations

import heapq
import json
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from gostlab import results
from gostlab.declared.tunnels import tunnel_kind
from gostlab.describe.guards import data_way
from gostlab.describe.physics.limits import UNLIMITED_BPS
from gostlab.describe.physics.response import cubic_throughput_bps
from gostlab.describe.resolve.flows import Flow
from gostlab.describe.resolve.run_description import RunDescription

PACKET_BITS = 12000  # of 1500 bytes
# What a loss makes slower, by about CUBIC's response function.
HELD_BY_LOSS = ("bic", "cubic", "dctcp", "htcp", "illinois", "reno", "veno", "westwood")

Kind = tuple[object, ...]  # of a run: what others have in common with it

# Series that grow while a run's load lasts, and how much of their ends is read.
GROWING = ("hosts.jsonl", "queues.jsonl", "sockets.jsonl")
TAIL_BYTES = 4096
# From this share of its load on, what a run has taken says more than what others took.
TELLING_SHARE = 0.15


def expected_s(run: RunDescription) -> float:
    """A guess of a run's wall time from what it asks, on a machine that nobody has measured.

    Virtual clock: about 19 µs per packet that is carried, 7 µs with offloads, half
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


# -- while they run


@dataclass(frozen=True)
class Moving:
    """A run under way, as it looks from outside."""

    run: RunDescription
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
    """How long a block of runs will still take: what each is expected to, times how much longer
    those of its kind took that have ended in this block, dealt to the slots as the scheduler does.
    """

    runs: Sequence[RunDescription]
    slots: int
    expected: dict[int, float] = field(init=False)  # by id(run): read twice a second
    ended: dict[Kind, tuple[float, float]] = field(default_factory=dict)  # took, was expected to

    def __post_init__(self) -> None:
        self.expected = {id(run): expected_s(run) for run in self.runs}

    def finished(self, run: RunDescription, wall_s: float) -> None:
        for kind in kinds_of(run):
            took_s, expected_s = self.ended.get(kind, (0.0, 0.0))
            self.ended[kind] = took_s + wall_s, expected_s + self.expected[id(run)]

    def whole_s(self, run: RunDescription) -> float:
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

    def left_s(self, moving: Sequence[Moving], waiting: Iterable[RunDescription]) -> float:
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


def kinds_of(run: RunDescription) -> tuple[Kind, ...]:
    """What a run has in common with others that take as long, what says most of it first."""
    return ((run.clock, run.matrix, run.tunnel, run.streams), (run.clock, run.matrix), (run.clock,))
