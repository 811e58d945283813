# SPDX-License-Identifier: MIT
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
from gostlab.tcpmodel.response_functions import bdp_bytes, window_limit_bps
from gostlab.tcpmodel.run_limits import DISTRIBUTION_SCALE, MTU_BYTES, UNLIMITED_BPS
from gostlab.tcpmodel.socket_buffers import OFFLOAD_SHARE

FORWARD, REVERSE = DIRECTIONS = ("forward", "reverse")
# What a direction may do to packets besides rate, delay, jitter and loss.
IMPAIRMENTS = ("policer", "reorder", "duplicate", "corrupt", "slot", "outages")
# Those of a delay line, which its netem has.
OF_DELAY_LINE = ("reorder", "duplicate", "corrupt", "slot")
# Without a table, netem's jitter is uniformly distributed.
UNIFORM_JITTER = (-DISTRIBUTION_SCALE, DISTRIBUTION_SCALE)


def direction_of_data(load_direction: str) -> str:
    """Return the direction of the path that carries the data of an upload or a download."""
    return FORWARD if load_direction == "upload" else REVERSE


@dataclass(frozen=True, kw_only=True)
class LossSpec:
    """Represent the loss of a delay line, by its model.

    random: each packet with probability p. gemodel: Gilbert-Elliott with tc's p r 1-h 1-k.
    periodic: exactly every packets-th packet; p is 1/packets. state: netem's Markov chain of four
    states with tc's p13 p31 p32 p23 p14; p is p13 and r is p31.
    """

    model: str
    packets: int | None = added_later(None)
    p: float
    r: float | None = added_later(None)
    one_minus_h: float | None = added_later(None)
    one_minus_k: float | None = added_later(None)
    p32: float | None = added_later(None)
    p23: float | None = added_later(None)
    p14: float | None = added_later(None)
    correlation: float = added_later(0.0)  # netem correlates random losses

    @property
    def is_lossless(self) -> bool:
        return not (self.p or self.one_minus_k or self.p14)


def random_loss(p: float) -> LossSpec:
    return LossSpec(model="random", p=p)


NO_LOSS = random_loss(0.0)


@dataclass(frozen=True, kw_only=True)
class PolicerSpec:
    """Represent a policer: it drops what exceeds a token bucket, and queues nothing.

    A rate of 0 is no policer, to which a change may return.
    """

    rate_bps: int
    burst_bytes: int


@dataclass(frozen=True, kw_only=True)
class ShareSpec:
    """Represent what happens to a share of packets: they are duplicated, or a bit is flipped.

    The correlation is netem's, of a packet's random number with the one before it.
    """

    share: float
    correlation: float = added_later(0.0)


@dataclass(frozen=True, kw_only=True)
class ReorderSpec:
    """Represent netem's reordering: a share of packets leaves at once, without the delay.

    After such a packet the next distance - 1 packets (netem's gap) take the delay.
    """

    share: float
    correlation: float = added_later(0.0)
    distance: int = added_later(1)

    @property
    def expected_share(self) -> float:
        """Return the share of all packets that overtake, without correlation."""
        return 1 / (self.distance - 1 + 1 / self.share) if self.share else 0.0


@dataclass(frozen=True, kw_only=True)
class SlotSpec:
    """Represent netem's slots: packets wait for the next one, and leave together.

    A slot follows the one before by min_ms to max_ms, or by a time that is distributed like jitter.
    It sends at most so many packets and bytes; None is no limit. A slot of no time is none, to
    which a change may return.
    """

    min_ms: float = 0.0
    max_ms: float = 0.0
    delay_ms: float | None = added_later(None)
    jitter_ms: float | None = added_later(None)
    distribution: tuple[int, ...] | None = added_later(None)
    packets: int | None = added_later(None)
    bytes: int | None = added_later(None)

    @property
    def reach_ms(self) -> tuple[float, float]:
        """Return the shortest and longest time between two slots."""
        if self.delay_ms is None:
            return self.min_ms, self.max_ms
        low, high = jitter_reach(self.distribution)
        jitter_ms = self.jitter_ms or 0.0
        return max(0.0, self.delay_ms + low * jitter_ms), self.delay_ms + high * jitter_ms

    @property
    def mean_ms(self) -> float:
        return (self.min_ms + self.max_ms) / 2 if self.delay_ms is None else self.delay_ms


@dataclass(frozen=True, kw_only=True)
class OutageSpec:
    """Represent times in which nothing enters a delay line: from at_s on, and then every every_s.

    What is in flight then still arrives.
    """

    at_s: float
    for_s: float
    every_s: float | None = added_later(None)

    def starts_s(self, until_s: float) -> Iterator[float]:
        """Yield the start of each outage before a time."""
        start_s = self.at_s
        while start_s < until_s:
            yield start_s
            if self.every_s is None:
                return
            start_s = round(start_s + self.every_s, 6)


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
    policer: PolicerSpec | None = added_later(None)  # at the bottleneck, before its queue
    reorder: ReorderSpec | None = added_later(None)
    duplicate: ShareSpec | None = added_later(None)
    corrupt: ShareSpec | None = added_later(None)
    slot: SlotSpec | None = added_later(None)
    outages: tuple[OutageSpec, ...] = added_later(())

    @property
    def is_steady(self) -> bool:
        """Return whether every packet takes the same time, and arrives."""
        return self.loss.is_lossless and not self.jitter_ms and not self.impairments

    @property
    def impairments(self) -> dict[str, object]:
        """Return what else than delay, jitter and loss packets meet, by name."""
        return {name: value for name in IMPAIRMENTS if (value := getattr(self, name))}

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
    policer: PolicerSpec | None = added_later(None)
    reorder: ReorderSpec | None = added_later(None)
    duplicate: ShareSpec | None = added_later(None)
    corrupt: ShareSpec | None = added_later(None)
    slot: SlotSpec | None = added_later(None)

    def touches(self, link: str, own_links: Iterable[str]) -> bool:
        """Return whether the change concerns a link: by its name, or as one without own path."""
        return self.link == link if self.link is not None else link not in own_links

    def part_of(self, role: str) -> Self:
        """Return the part that a bottleneck takes, which is rate and policer, or a delay line."""
        if role == "bottleneck":
            emulated: dict[str, Any] = dict.fromkeys(
                ("delay_ms", "jitter_ms", "loss", *OF_DELAY_LINE)
            )
            return replace(self, **emulated)
        return replace(self, rate_bps=None, policer=None)

    @property
    def new_values(self) -> dict[str, Any]:
        """Return the values that change, by their names in a DirectionSpec."""
        names = ("rate_bps", "delay_ms", "jitter_ms", "loss", "policer", *OF_DELAY_LINE)
        return {name: getattr(self, name) for name in names if getattr(self, name) is not None}

    def applied_to(self, direction: Direction) -> Direction:
        return replace(direction, **self.new_values)


def round_trip_ms(paths: Sequence[PathSpec]) -> float:
    """Return the idle round trip over paths in series."""
    return math.fsum(direction.delay_ms for path in paths for direction in path)


def combine_in_series(paths: Sequence[PathSpec]) -> PathSpec:
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
