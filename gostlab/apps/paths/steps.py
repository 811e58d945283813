"""Steps that the lab can replay, made of a recording, and how far they are from it. Pure."""

import itertools
import statistics
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction

from gostlab.apps.paths.recordings import Probe
from gostlab.describe.file.units import MAX_RATE_BPS, MIN_RATE_BPS
from gostlab.describe.physics.capacity import CapacityOf
from gostlab.describe.physics.limits import MTU_BYTES

# The lab's queues count a packet with its Ethernet header.
HEADER_BYTES = 14
# Capacity is compared over such windows.
WINDOW_S = Fraction(1, 10)
# A share of lost probes is of so many at least, and of so long a time.
LOSS_PROBES, LOSS_S = 10, 1.0


@dataclass(frozen=True)
class Step:
    """From `at_s` on, a path is so. None: as it was."""

    at_s: Fraction
    rate_bps: int | None = None
    delay_ms: float | None = None
    loss: float | None = None


@dataclass(frozen=True)
class ReplayError:
    """How far a replay's capacity is from the recording's."""

    share: float  # mean over windows of 100 ms of |replayed - recorded|, over the mean recorded
    ahead_bytes: int  # the most that it has carried more or less, from the begin to any moment


def packet_bits(ip_bytes: int) -> int:
    """What the lab's queues count for a packet."""
    return 8 * (min(ip_bytes, MTU_BYTES) + HEADER_BYTES)


def rate_steps(
    sendable_s: Sequence[float], bits: int, length_s: Fraction, bin_s: Fraction
) -> list[Step]:
    """The mean rate of each bin, where it changes. A bin without packets gets the least rate there
    is, 1 kbit/s.

    sendable_s    when a packet of so many bits can be sent: in (0, length_s], rising
    """

    def rates() -> Iterator[tuple[Fraction, int]]:
        for number in range(-(-length_s // bin_s)):
            begin, end = number * bin_s, min(length_s, (number + 1) * bin_s)
            packets = sent_until(sendable_s, end) - sent_until(sendable_s, begin)
            rate = round(packets * bits / (end - begin))
            yield begin, min(MAX_RATE_BPS, max(MIN_RATE_BPS, rate))

    return where_changed("rate_bps", rates())


def where_changed(what: str, values: Iterable[tuple[Fraction, float]]) -> list[Step]:
    """A step where a value is another than before. what: the Step's field."""
    steps: list[Step] = []
    for at_s, value in values:
        if not steps or getattr(steps[-1], what) != value:
            steps.append(Step(at_s, **{what: value}))  # type: ignore[arg-type]
    return steps


def binned(
    probes: Sequence[Probe], length_s: float, bin_s: float
) -> Iterator[tuple[Fraction, list[float | None]]]:
    """The delays of each bin that has any, with its begin."""
    for number, group in itertools.groupby(probes, key=lambda probe: int(probe.at_s // bin_s)):
        if number * bin_s < length_s:
            yield Fraction(number) * Fraction(str(bin_s)), [probe.delay_ms for probe in group]


def sent_until(sendable_s: Sequence[float], at_s: Fraction) -> int:
    """How many packets could be sent until a moment; half a nanosecond of a float is forgiven."""
    return bisect_right(sendable_s, float(at_s) + 5e-10)


def repeated(times_s: Sequence[float], length_s: float, until_s: float) -> list[float]:
    """A recording once more after its end, and again, until a time."""
    rounds = range(int(until_s // length_s) + 1)
    return [
        length_s * n + time_s
        for n in rounds
        for time_s in times_s
        if length_s * n + time_s <= until_s
    ]


def replay_error(
    sendable_s: Sequence[float], bits: int, steps: Sequence[Step], length_s: Fraction
) -> ReplayError:
    """How far steps are from what they were made of."""
    capacity = CapacityOf([(float(step.at_s), step.rate_bps or 0) for step in steps])
    differences, recorded = [], []
    edges = [n * WINDOW_S for n in range(int(length_s / WINDOW_S) + 1)]
    for begin, end in itertools.pairwise(edges):
        asked = bits * (sent_until(sendable_s, end) - sent_until(sendable_s, begin))
        recorded.append(asked)
        differences.append(abs(capacity.bits(float(begin), float(end)) - asked))
    # Just before a packet, and with it: the furthest on either side.
    ahead_bits = 0.0
    for number, at_s in enumerate(sendable_s):
        replayed = capacity.bits(0.0, at_s)
        apart = (abs(replayed - bits * number), abs(replayed - bits * (number + 1)))
        ahead_bits = max(ahead_bits, *apart)
    mean = statistics.fmean(recorded) if recorded else 0.0
    share = statistics.fmean(differences) / mean if mean else 0.0
    return ReplayError(round(share, 6), round(ahead_bits / 8))


def delay_steps(
    probes: Sequence[Probe], less_ms: float, length_s: float, bin_s: float
) -> list[Step]:
    """The median delay of each bin, less what the other direction takes, where it changes. A bin in
    which all was lost keeps the delay before it.
    """
    met = (
        (at_s, [each for each in delays if each is not None])
        for at_s, delays in binned(probes, length_s, bin_s)
    )
    medians = (
        (at_s, round(max(0.0, statistics.median(delays) - less_ms), 3))
        for at_s, delays in met
        if delays
    )
    return where_changed("delay_ms", medians)


def loss_steps(probes: Sequence[Probe], length_s: float) -> list[Step]:
    """The share lost in each second, or in ten probes where that is longer, where it changes."""
    if all(probe.delay_ms is not None for probe in probes):
        return []
    interval_s = length_s / max(1, len(probes))
    bin_s = max(LOSS_S, LOSS_PROBES * interval_s)
    losses = (
        (at_s, round(delays.count(None) / len(delays), 5))
        for at_s, delays in binned(probes, length_s, bin_s)
    )
    return where_changed("loss", losses)


def merged(*series: Sequence[Step]) -> list[Step]:
    """Several series as one, a step per moment."""
    found: dict[Fraction, dict[str, float | int]] = {}
    for step in itertools.chain(*series):
        said = {k: v for k, v in vars(step).items() if k != "at_s" and v is not None}
        found.setdefault(step.at_s, {}).update(said)
    return [Step(at_s, **found[at_s]) for at_s in sorted(found)]  # type: ignore[arg-type]
