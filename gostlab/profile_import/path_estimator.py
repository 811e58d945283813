"""What a path is like by its pings: the shape of its delay, its loss, and both over time. Pure."""

import itertools
import math
import random
import statistics
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd

from gostlab.importers.base import Probe
from gostlab.profile_import.ping_parser import Pings
from gostlab.profile_import.rate_steps import by_bin
from gostlab.spec import units
from gostlab.spec.profile import (
    DISTRIBUTION_SCALE,
    MAX_ENTRY,
    MIN_ENTRY,
    NO_LOSS,
    Loss,
    random_loss,
)
from gostlab.spec.yaml_source import BadInput

# ping's 64 bytes of ICMP with their IP and Ethernet headers: what the emulated link sends for one.
PING_BITS = (64 + 20 + 14) * 8
# tc's own tables have this many entries.
TABLE_ENTRIES = 4096
# netem's delays are compared to a microsecond when read back: less is no jitter.
MIN_JITTER_MS = 0.001
# Below this many bursts, a burst's mean length is not known to a third (its relative standard error
# is at most 1/sqrt(bursts)), and no model of bursts is fitted.
BURSTS_TO_FIT = 10
# Fewer answers that were overtaken than this may be an accident, as of a route that changed.
MIN_OVERTAKEN = 3
SHUFFLES = 8
# A row of the trace is about at least so long, and so many packets.
WINDOW_S, WINDOW_PACKETS = 1.0, 10


@dataclass(frozen=True)
class DelayTable:
    """What netem replays: delay_ms + jitter_ms * t / 8192, t drawn from the table."""

    delay_ms: float
    jitter_ms: float
    table: tuple[int, ...]  # empty: always the same delay


@dataclass(frozen=True)
class PathEstimate:
    """What replays a recording."""

    forward: DelayTable
    reverse_ms: float
    loss: Loss
    ordered: bool


def fit_path(pings: Pings, interval_s: float, rate_bps: int) -> PathEstimate:
    """The path whose pings are like these.

    ping cannot tell the two directions apart. Half the least round trip is given to each, what is
    above it, and every loss, to forward. What the rate takes to send a ping comes on top of a
    path's delay, and is taken off here. Raises BadInput if a ping alone would take longer at that
    rate.
    """
    rtts_ms = [answer.rtt_ms for answer in pings.answers]
    each_way_ms = min(rtts_ms) / 2
    reverse_ms = round(each_way_ms - 1000 * PING_BITS / rate_bps, 6)
    if reverse_ms < 0:
        raise BadInput(
            f"--rate {units.show_rate(rate_bps)}: a ping alone would take"
            f" {units.show_time(2 * PING_BITS / rate_bps)}, the least round trip is"
            f" {min(rtts_ms):g} ms (give the path's real rate)"
        )
    taken_ms = each_way_ms + 1000 * PING_BITS / rate_bps
    forward = delay_table([rtt_ms - taken_ms for rtt_ms in rtts_ms])
    return PathEstimate(forward, reverse_ms, fit_loss(pings.lost), keeps_order(pings, interval_s))


def delay_table(delays_ms: Sequence[float]) -> DelayTable:
    """The netem table of these delays: all of them where there are up to 4096, else 4096 evenly
    spaced quantiles.

    As in iproute2's maketable, its mean is 0 and 8192 stands for one jitter. There, a jitter is one
    standard deviation, and what lies more than four from the mean does not fit 16 bits and is cut.
    Nothing is cut here: where a delay lies further, the jitter is as large as it needs to be.
    """
    mean_ms = round(statistics.fmean(delays_ms), 6)
    off_ms = [delay_ms - mean_ms for delay_ms in delays_ms]
    needed_ms = max(
        statistics.pstdev(delays_ms),
        max(off_ms) * DISTRIBUTION_SCALE / MAX_ENTRY,
        min(off_ms) * DISTRIBUTION_SCALE / MIN_ENTRY,
    )
    if needed_ms < MIN_JITTER_MS:
        return DelayTable(mean_ms, 0.0, ())
    jitter_ms = math.ceil(needed_ms * 1e6) / 1e6
    # However the entries are rounded, no delay may come out below 0.
    least = max(MIN_ENTRY, -math.floor(mean_ms / jitter_ms * DISTRIBUTION_SCALE))
    entries = (
        round(off / jitter_ms * DISTRIBUTION_SCALE)
        for off in quantiles(sorted(off_ms), TABLE_ENTRIES)
    )
    return DelayTable(
        mean_ms, jitter_ms, tuple(min(MAX_ENTRY, max(least, entry)) for entry in entries)
    )


def quantiles(ordered: Sequence[float], most: int) -> list[float]:
    """All values, or the inverse of their empirical distribution function at (i + 1/2) / most."""
    if len(ordered) <= most:
        return list(ordered)
    return [ordered[(2 * i + 1) * len(ordered) // (2 * most)] for i in range(most)]


def burst_lengths(lost: Sequence[bool]) -> list[int]:
    """How many packets each loss took that has none right before it."""
    return [sum(1 for _ in group) for gone, group in itertools.groupby(lost) if gone]


def overtaken_by_chance(pings: Pings, interval_s: float) -> float:
    """How many answers would have been overtaken if each packet had a delay of its own: what
    the recording's own delays make, shuffled (some times, always in the same ways), of its own
    sending times.
    """
    seqs = sorted(answer.seq for answer in pings.answers)
    sent_s = np.array(send_times_s(pings, interval_s))[np.array(seqs) - 1]
    rtts_ms = [answer.rtt_ms for answer in pings.answers]
    shuffle = random.Random(0).shuffle
    counts = []
    for _ in range(SHUFFLES):
        shuffle(rtts_ms)
        came_s = sent_s + np.array(rtts_ms) / 1000
        first_later_s = np.minimum.accumulate(came_s[:0:-1])[::-1]
        counts.append(int((came_s[:-1] > first_later_s).sum()))
    return statistics.fmean(counts)


def keeps_order(pings: Pings, interval_s: float) -> bool:
    """Whether packets are better replayed in order: they were overtaken far less often than by
    chance, or hardly at all.

    netem draws a delay for each packet. Without order, that reorders packets that are close
    together, as TCP's are, all the time, whatever ping's, which are not, did.
    """
    chance = overtaken_by_chance(pings, interval_s)
    return pings.overtaken < MIN_OVERTAKEN or pings.overtaken <= chance / 2


def fit_loss(lost: Sequence[bool]) -> Loss:
    """The loss model of a sequence of packets.

    Gilbert's channel (Capacity of a Burst-Noise Channel, Bell System Technical Journal 39, 1960) in
    its simple form, where all is lost in the bad state and nothing in the good one: the states are
    then seen, and the likeliest probabilities of leaving them are the shares of packets in a state
    after which it was left (Hasslinger and Hohlfeld, The Gilbert-Elliott Model for Packet Loss in
    Real Time Services on the Internet, MMB 2008). Bursts are 1/r long. With fewer than
    BURSTS_TO_FIT bursts there is too little to tell: random loss with their share.
    """
    if not any(lost):
        return NO_LOSS
    if len(burst_lengths(lost)) < BURSTS_TO_FIT:
        return random_loss(sum(lost) / len(lost))
    before, after = np.array(lost[:-1]), np.array(lost[1:])
    p, r = float(after[~before].mean()), 1 - float(after[before].mean())
    return {"model": "gemodel", "p": p, "r": r, "one_minus_h": 1.0, "one_minus_k": 0.0}


def window_s(interval_s: float) -> float:
    """How long a row of the trace stands for: a second, or ten packets where that is longer."""
    return max(WINDOW_S, math.ceil(WINDOW_PACKETS * interval_s))


def windows_of(pings: Pings, interval_s: float) -> pd.DataFrame:
    """The recording in windows of time: the median round trip and the loss of what was sent."""
    rtts_ms = {answer.seq: answer.rtt_ms for answer in pings.answers}
    sent_s = enumerate(send_times_s(pings, interval_s), 1)
    return by_bin([Probe(at_s, rtts_ms.get(seq)) for seq, at_s in sent_s], window_s(interval_s))


def send_times_s(pings: Pings, interval_s: float) -> list[float]:
    """When each packet was sent, since the first: when its answer came less what that took; for a
    lost one, and without ping's own times, by the interval from the one before. Never falling.
    """
    known = {a.seq: a.at_s - a.rtt_ms / 1000 for a in pings.answers if a.at_s is not None}
    first = min(known, default=1)
    begin_s = known.get(first, 0.0) - (first - 1) * interval_s
    times = [0.0]
    for seq in range(2, pings.sent + 1):
        stepped_s = times[-1] + interval_s
        times.append(max(times[-1], known[seq] - begin_s) if seq in known else stepped_s)
    return times
