# SPDX-License-Identifier: MIT
"""Estimate a path from pings: its delay distribution, its loss, and both over time. Pure."""

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
from gostlab.profile_import.rate_steps import bin_probes, loss_steps
from gostlab.spec import units
from gostlab.spec.path_spec import NO_LOSS, LossSpec, random_loss
from gostlab.spec.profile import DISTRIBUTION_SCALE, MAX_ENTRY, MIN_ENTRY
from gostlab.spec.yaml_source import BadInput

# ping's 64 bytes of ICMP with their IP and Ethernet headers: the size on the emulated link.
PING_BITS = (64 + 20 + 14) * 8
# The delay distributions of iproute2 have this many entries.
TABLE_ENTRIES = 4096
# netem's delays are read back with a precision of 1 µs: a smaller jitter counts as none.
MIN_JITTER_MS = 0.001
# With fewer bursts the relative standard error of their mean length (at most 1/sqrt(bursts)) may
# exceed a third, and no burst model is fitted.
BURSTS_TO_FIT = 10
# Fewer overtaken answers may be an accident, such as a route change.
MIN_OVERTAKEN = 3
SHUFFLES = 8
# Minimum length of a row of the trace, in seconds and in packets.
WINDOW_S, WINDOW_PACKETS = 1.0, 10


@dataclass(frozen=True)
class DelayTable:
    """A delay as netem replays it: delay_ms + jitter_ms * t / 8192, t drawn from the table."""

    delay_ms: float
    jitter_ms: float
    table: tuple[int, ...]  # empty if the delay is constant


@dataclass(frozen=True)
class PathEstimate:
    """The parameters that replay a recording."""

    forward: DelayTable
    reverse_ms: float
    loss: LossSpec
    ordered: bool


def fit_path(pings: Pings, interval_s: float, rate_bps: int) -> PathEstimate:
    """Return the path whose pings are like the recorded ones.

    ping cannot separate the two directions. Each direction gets half of the minimum RTT; the delay
    above it and all loss go to forward. The serialization delay of a ping at the path's rate comes
    on top of the path's delay, and is subtracted here. Raises BadInput if the serialization delay
    alone exceeds the recorded RTT.
    """
    rtts_ms = [answer.rtt_ms for answer in pings.answers]
    one_way_ms = min(rtts_ms) / 2
    reverse_ms = round(one_way_ms - 1000 * PING_BITS / rate_bps, 6)
    if reverse_ms < 0:
        raise BadInput(
            f"--rate {units.show_rate(rate_bps)}: a ping alone would take"
            f" {units.show_time(2 * PING_BITS / rate_bps)}, the least round trip is"
            f" {min(rtts_ms):g} ms (give the path's real rate)"
        )
    fixed_ms = one_way_ms + 1000 * PING_BITS / rate_bps
    forward = delay_table([rtt_ms - fixed_ms for rtt_ms in rtts_ms])
    return PathEstimate(
        forward, reverse_ms, fit_loss(pings.lost), should_keep_order(pings, interval_s)
    )


def delay_table(delays_ms: Sequence[float]) -> DelayTable:
    """Return the netem table of some delays.

    The table has all delays if there are up to 4096, else 4096 evenly spaced quantiles.

    As in iproute2's maketable, the mean is 0 and 8192 stands for one jitter. There, a jitter is one
    standard deviation, and delays more than four of them from the mean do not fit 16 bits and are
    cut. Here nothing is cut: the jitter is increased until the largest deviation fits.
    """
    mean_ms = round(statistics.fmean(delays_ms), 6)
    deviations_ms = [delay_ms - mean_ms for delay_ms in delays_ms]
    min_jitter_ms = max(
        statistics.pstdev(delays_ms),
        max(deviations_ms) * DISTRIBUTION_SCALE / MAX_ENTRY,
        min(deviations_ms) * DISTRIBUTION_SCALE / MIN_ENTRY,
    )
    if min_jitter_ms < MIN_JITTER_MS:
        return DelayTable(mean_ms, 0.0, ())
    jitter_ms = math.ceil(min_jitter_ms * 1e6) / 1e6
    # Rounding the entries must not make a delay negative.
    min_entry = max(MIN_ENTRY, -math.floor(mean_ms / jitter_ms * DISTRIBUTION_SCALE))
    entries = (
        round(deviation / jitter_ms * DISTRIBUTION_SCALE)
        for deviation in quantiles(sorted(deviations_ms), TABLE_ENTRIES)
    )
    return DelayTable(
        mean_ms, jitter_ms, tuple(min(MAX_ENTRY, max(min_entry, entry)) for entry in entries)
    )


def quantiles(ordered: Sequence[float], max_values: int) -> list[float]:
    """Return all values, or max_values quantiles if there are more.

    Quantile i is the inverse of the empirical distribution function at (i + 1/2) / max_values.
    """
    if len(ordered) <= max_values:
        return list(ordered)
    return [ordered[(2 * i + 1) * len(ordered) // (2 * max_values)] for i in range(max_values)]


def burst_lengths(lost: Sequence[bool]) -> list[int]:
    """Return the length in packets of each run of consecutive losses."""
    return [sum(1 for _ in group) for is_lost, group in itertools.groupby(lost) if is_lost]


def overtaken_by_chance(pings: Pings, interval_s: float) -> float:
    """Return the expected number of overtaken answers if delays were independent.

    The recorded delays are shuffled (SHUFFLES times, with a fixed seed) over the recorded send
    times.
    """
    seqs = sorted(answer.seq for answer in pings.answers)
    sent_s = np.array(send_times_s(pings, interval_s))[np.array(seqs) - 1]
    rtts_ms = [answer.rtt_ms for answer in pings.answers]
    shuffle = random.Random(0).shuffle
    counts = []
    for _ in range(SHUFFLES):
        shuffle(rtts_ms)
        received_s = sent_s + np.array(rtts_ms) / 1000
        first_later_s = np.minimum.accumulate(received_s[:0:-1])[::-1]
        counts.append(int((received_s[:-1] > first_later_s).sum()))
    return statistics.fmean(counts)


def should_keep_order(pings: Pings, interval_s: float) -> bool:
    """Return whether packets should be replayed in order.

    They should if answers were overtaken far less often than by chance, or hardly at all. netem
    draws a delay for each packet. Without order, this always reorders packets that are sent close
    together, as TCP's are, even where the widely spaced pings were not reordered.
    """
    chance = overtaken_by_chance(pings, interval_s)
    return pings.overtaken < MIN_OVERTAKEN or pings.overtaken <= chance / 2


def fit_loss(lost: Sequence[bool]) -> LossSpec:
    """Fit the loss model of a sequence of packets.

    The model is Gilbert's channel (Capacity of a Burst-Noise Channel, Bell System Technical Journal
    39, 1960) in its simple form, where every packet is lost in the bad state and none in the good
    one. The states are then observed, and the maximum-likelihood estimates of the transition
    probabilities are the shares of packets in a state after which it was left (Hasslinger and
    Hohlfeld, The Gilbert-Elliott Model for Packet Loss in Real Time Services on the Internet, MMB
    2008). The mean burst length is 1/r. With fewer than BURSTS_TO_FIT bursts the result is random
    loss with the recorded share.
    """
    if not any(lost):
        return NO_LOSS
    if len(burst_lengths(lost)) < BURSTS_TO_FIT:
        return random_loss(sum(lost) / len(lost))
    before, after = np.array(lost[:-1]), np.array(lost[1:])
    p, r = float(after[~before].mean()), 1 - float(after[before].mean())
    return LossSpec(model="gemodel", p=p, r=r, one_minus_h=1.0, one_minus_k=0.0)


def trace_row_s(interval_s: float) -> float:
    """Return the length of a row of the trace: a second, or ten packets if that is longer."""
    return max(WINDOW_S, math.ceil(WINDOW_PACKETS * interval_s))


def probes_of(pings: Pings, interval_s: float) -> list[Probe]:
    """Return each packet with its send time and its RTT."""
    rtts_ms = {answer.seq: answer.rtt_ms for answer in pings.answers}
    sent_s = enumerate(send_times_s(pings, interval_s), 1)
    return [Probe(at_s, rtts_ms.get(seq), lost=seq not in rtts_ms) for seq, at_s in sent_s]


def bin_by_window(pings: Pings, interval_s: float) -> pd.DataFrame:
    """Return the median RTT of each window of send time, and the loss where it changes.

    The loss is 1 in outages (rate_steps.find_outages).
    """
    probes = probes_of(pings, interval_s)
    delays = bin_probes(probes, trace_row_s(interval_s))["delay_ms"].dropna()
    losses = loss_steps(probes, probes[-1].at_s + interval_s, trace_row_s(interval_s))
    return pd.DataFrame({"delay_ms": delays, "loss": losses})


def send_times_s(pings: Pings, interval_s: float) -> list[float]:
    """Return the send time of each packet, in seconds since the first, never descending.

    It is the receive time of the answer minus the RTT. For lost packets, and without ping's
    timestamps, it is the send time of the packet before plus the interval.
    """
    known = {a.seq: a.at_s - a.rtt_ms / 1000 for a in pings.answers if a.at_s is not None}
    first = min(known, default=1)
    begin_s = known.get(first, 0.0) - (first - 1) * interval_s
    times_s = [0.0]
    for seq in range(2, pings.sent + 1):
        stepped_s = times_s[-1] + interval_s
        times_s.append(max(times_s[-1], known[seq] - begin_s) if seq in known else stepped_s)
    return times_s
