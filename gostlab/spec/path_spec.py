"""Represent a compiled path: its two directions, their loss, and their changes during the load.

A new parameter of a direction is a field of DirectionSpec, declared with `added_later`, which
spec.profile.ProfileDirection reads from profiles and spec.settings.PATH_FIELDS from settings;
guest.delay_line gives it to tc and compares what tc shows.
"""

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, Self, TypeVar

from gostlab.spec.compatible_json import added_later
from gostlab.tcpmodel.buffer_sizing import OFFLOAD_SHARE
from gostlab.tcpmodel.constants import DISTRIBUTION_SCALE, MTU_BYTES, UNLIMITED_BPS
from gostlab.tcpmodel.response import bdp_bytes, window_limit_bps

FORWARD, REVERSE = DIRECTIONS = ("forward", "reverse")
# Without a table, netem's jitter is uniformly distributed.
UNIFORM_JITTER = (-DISTRIBUTION_SCALE, DISTRIBUTION_SCALE)


def direction_of_data(load_direction: str) -> str:
    """Return the direction of the path that carries the data of an upload or a download."""
    return FORWARD if load_direction == "upload" else REVERSE


@dataclass(frozen=True, kw_only=True)
class LossSpec:
    """Represent the loss of a delay line, by its model.

    random: each packet with probability p. gemodel: Gilbert-Elliott with tc's p r 1-h 1-k.
    periodic: exactly every packets-th packet; p is 1/packets.
    """

    model: str
    packets: int | None = added_later(None)
    p: float
    r: float | None = added_later(None)
    one_minus_h: float | None = added_later(None)
    one_minus_k: float | None = added_later(None)

    @property
    def is_lossless(self) -> bool:
        return not (self.p or self.one_minus_k)


def random_loss(p: float) -> LossSpec:
    return LossSpec(model="random", p=p)


NO_LOSS = random_loss(0.0)


@dataclass(frozen=True)
class DirectionSpec:
    """Represent one direction of a path. A rate of None is no limit (on the real clock only)."""

    rate_bps: int | None
    delay_ms: float
    jitter_ms: float
    loss: LossSpec
    buffer_pkts: int | None  # None: a buffer that needs a rate, without one.
    ordered: bool  # Whether jitter preserves the order of packets.
    distribution: tuple[int, ...] | None  # netem's delay table; None is uniform jitter.

    @property
    def is_steady(self) -> bool:
        """Return whether every packet takes the same time, and arrives."""
        return self.loss.is_lossless and not self.jitter_ms

    @property
    def jitter_reach(self) -> tuple[float, float]:
        """Return the lowest and highest variation of a packet's delay, in jitters."""
        return jitter_reach(self.distribution)


def jitter_reach(table: Sequence[int] | None) -> tuple[float, float]:
    """Return the lowest and highest entry of a delay table, in jitters."""
    table = table or UNIFORM_JITTER
    return min(table) / DISTRIBUTION_SCALE, max(table) / DISTRIBUTION_SCALE


Direction = TypeVar("Direction", bound=DirectionSpec)


@dataclass(frozen=True)
class PathSpec:
    """Represent a path; `forward` carries what the client, or a flow's sender, sends."""

    forward: DirectionSpec
    reverse: DirectionSpec

    def __getitem__(self, direction: str) -> DirectionSpec:
        return self.forward if direction == FORWARD else self.reverse

    def __iter__(self) -> Iterator[DirectionSpec]:
        return iter((self.forward, self.reverse))

    @property
    def is_steady(self) -> bool:
        return self.forward.is_steady and self.reverse.is_steady

    @property
    def rtt_ms(self) -> float:
        """Return the idle round trip, without the transmission time of a packet."""
        return self.forward.delay_ms + self.reverse.delay_ms

    @property
    def content_bytes(self) -> float:
        """Return the bytes that the fuller direction can hold, in flight and queued."""
        return max(
            bdp_bytes(direction.rate_bps or UNLIMITED_BPS, self.rtt_ms / 1000)
            + (direction.buffer_pkts or 0) * MTU_BYTES
            for direction in self
        )

    @property
    def content_pkts(self) -> float:
        """Return the packets that both directions can hold, in flight and queued."""
        return sum(
            bdp_bytes(direction.rate_bps or UNLIMITED_BPS, direction.delay_ms / 1000) / MTU_BYTES
            + min(direction.buffer_pkts or 0, 10**6)
            for direction in self
        )

    def never_queues(self, direction: str, window_bytes: float) -> bool:
        """Return whether a window so small builds no queue, and nothing is lost or reordered.

        All streams' windows then stay so far below the rate of their direction that super-packets
        never meet a queue.
        """
        # An infinite window is unknown.
        if not self.is_steady or math.isinf(window_bytes) or self.rtt_ms == 0:
            return False
        rate_bps = self[direction].rate_bps
        limit_bps = window_limit_bps(window_bytes, self.rtt_ms / 1000)
        return rate_bps is None or limit_bps < OFFLOAD_SHARE * rate_bps

    def reversed(self) -> Self:
        """Return the path as seen from its other end."""
        return replace(self, forward=self.reverse, reverse=self.forward)


@dataclass(frozen=True, kw_only=True)
class ChangeSpec:
    """Represent new values of one direction at a time after the load's start; None: no change."""

    at_s: float
    direction: str
    link: str | None = added_later(None)  # None: all links without their own path.
    rate_bps: int | None = added_later(None)
    delay_ms: float | None = added_later(None)
    jitter_ms: float | None = added_later(None)
    loss: LossSpec | None = added_later(None)

    def touches(self, link: str, own_links: Iterable[str]) -> bool:
        """Return whether the change concerns a link: by its name, or as one without own path."""
        return self.link == link if self.link is not None else link not in own_links

    def part_of(self, role: str) -> Self:
        """Return the part that a bottleneck takes, which is the rate, or a delay line."""
        if role == "bottleneck":
            return replace(self, delay_ms=None, jitter_ms=None, loss=None)
        return replace(self, rate_bps=None)

    @property
    def new_values(self) -> dict[str, Any]:
        """Return the values that change, by their names in a DirectionSpec."""
        names = ("rate_bps", "delay_ms", "jitter_ms", "loss")
        return {name: getattr(self, name) for name in names if getattr(self, name) is not None}

    def applied_to(self, direction: Direction) -> Direction:
        """Return a direction with the new values."""
        return replace(direction, **self.new_values)


def round_trip_ms(paths: Sequence[PathSpec]) -> float:
    """Return the idle round trip over paths in series."""
    return math.fsum(direction.delay_ms for path in paths for direction in path)


def in_series(paths: Sequence[PathSpec]) -> PathSpec:
    """Combine paths in series: the minimum rate, and the sums of delays, jitters and buffers."""

    def combine(directions: Sequence[DirectionSpec]) -> DirectionSpec:
        rates = [state.rate_bps for state in directions if state.rate_bps is not None]
        buffers = [state.buffer_pkts for state in directions if state.buffer_pkts is not None]
        return replace(
            directions[0],
            rate_bps=min(rates, default=None),
            delay_ms=math.fsum(state.delay_ms for state in directions),
            jitter_ms=math.fsum(state.jitter_ms for state in directions),
            buffer_pkts=sum(buffers) if buffers else None,
        )

    return PathSpec(
        combine([path.forward for path in paths]), combine([path.reverse for path in paths])
    )
