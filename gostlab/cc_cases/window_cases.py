# SPDX-License-Identifier: MIT
"""Define the test cases that RFC 5681, RFC 9438 and RFC 9743 set on a sender's window and packets.

The window is the one at every ACK (acks.csv.gz), before the ACK's effect. The periodic losses are
those of RFC 9438's own figures: one packet of N exactly.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from gostlab.cc_cases.case import (
    BoundCheck,
    Condition,
    Evaluators,
    NeverHappened,
    check_near,
    upper_median,
)
from gostlab.results.run_result import RunResult

if TYPE_CHECKING:
    import numpy as np
    import pandas as pd

Checks = Iterator[BoundCheck | Condition]
RENO, CUBIC = "rfc5681", "rfc9438"
WINDOW = Evaluators()
CUBIC_BETA, CUBIC_C = 0.7, 0.4  # RFC 9438, 4.6 and 5
MIN_CUTS = 3
SETTLED_S = 5.0  # slow start and HyStart are over
RTT_S = 0.1  # RTT of the paths with periodic losses
OUTAGE_S = (4.0, 7.0)


@dataclass(frozen=True)
class WindowCut:
    """Represent a fall of ssthresh: the window before it, and ssthresh after it."""

    t_s: float
    before_pkts: float
    after_pkts: float

    @property
    def left(self) -> float:
        return self.after_pkts / self.before_pkts


def require_acks(end: RunResult) -> pd.DataFrame:
    """Return the rows of a run's ACKs. Raises NeverHappened without any."""
    acks = end.samples("acks")
    if not len(acks):
        raise NeverHappened("no ACK came")
    return acks


def require_samples(end: RunResult) -> pd.DataFrame:
    """Return the samples of a run's sender. Raises NeverHappened without any."""
    samples = end.samples("sockets")
    if not len(samples):
        raise NeverHappened("no sample of the sender")
    return samples


def find_cuts(acks: pd.DataFrame) -> list[WindowCut]:
    """Return the losses after the start: where the window begins to fall to a lower ssthresh.

    Raises NeverHappened if they are too few.
    """
    import numpy as np

    ssthresh, cwnd, t_s = (
        acks[name].to_numpy() for name in ("snd_ssthresh_pkts", "cwnd_pkts", "t_s")
    )
    cuts: list[WindowCut] = []
    last_fall_s = 0.0
    for at in np.flatnonzero(np.diff(cwnd) < 0) + 1:
        is_first = t_s[at] > last_fall_s + 2 * RTT_S  # a recovery lowers the window step by step
        last_fall_s = t_s[at]
        if is_first and t_s[at] > SETTLED_S and ssthresh[at] < cwnd[at - 1]:
            cuts.append(WindowCut(float(t_s[at]), float(cwnd[at - 1]), float(ssthresh[at])))
    if len(cuts) < MIN_CUTS:
        raise NeverHappened(f"losses lowered the window {len(cuts)} times, not {MIN_CUTS} at least")
    return cuts


def find_cycles(acks: pd.DataFrame) -> Iterator[tuple[WindowCut, np.ndarray, np.ndarray]]:
    """Yield each cut with times and windows until the next, without the recovery after it."""
    t_s, cwnd = acks["t_s"].to_numpy(), acks["cwnd_pkts"].to_numpy()
    cuts = find_cuts(acks)
    for cut, following in itertools.pairwise(cuts):
        inside = (t_s > cut.t_s + 3 * RTT_S) & (t_s < following.t_s - RTT_S)
        if inside.sum() > MIN_CUTS:
            yield cut, t_s[inside], cwnd[inside]


@WINDOW.case(
    "rfc5681-initial-window", "Ten segments at first", "RFC 5681, 3.1; RFC 6928, 2", "start", ""
)
def initial_window(end: RunResult) -> Checks:
    first = require_acks(end)["cwnd_pkts"].iloc[0]
    yield BoundCheck("window at the first ACK", first, high=10, unit="segments")


@WINDOW.case(
    "rfc5681-slow-start", "Slow start doubles at most, per round trip", "RFC 5681, 3.1", "start", ""
)
def slow_start(end: RunResult) -> Checks:
    import numpy as np

    acks = require_acks(end)
    t_s, cwnd = acks["t_s"].to_numpy(), acks["cwnd_pkts"].to_numpy()
    earlier = np.searchsorted(t_s, t_s - RTT_S, side="right") - 1
    known = earlier >= 0
    growth = cwnd[known] / cwnd[earlier[known]]
    if not len(growth):
        raise NeverHappened("no ACK after the first round trip")
    yield BoundCheck("largest growth in a round trip", float(growth.max()), high=2.2)


@WINDOW.case(
    "rfc5681-timeout", "A timeout leaves one segment", "RFC 5681, 3.1; RFC 8961, 4", "outage", ""
)
def retransmission_timeout(end: RunResult) -> Checks:
    acks, (began_s, ended_s) = require_acks(end), OUTAGE_S
    resumed = acks[acks["t_s"] > began_s + 1.0]
    if not len(resumed):
        raise NeverHappened("no ACK came after the outage")
    first = float(resumed["cwnd_pkts"].iloc[0])
    yield BoundCheck("window at the first ACK after it", first, high=1, unit="segments")
    sent = sent_segments(end, began_s + 1.0, ended_s)
    yield BoundCheck("segments sent in its last two seconds", sent, high=6)


@WINDOW.case(
    "rfc9743-outage",
    "An outage of three seconds is overcome",
    "RFC 9743, 7.8 Transient events",
    "outage",
    "",
)
def fast_recovery(end: RunResult) -> Checks:
    samples = require_samples(end)
    late = samples[samples["t_s"] > OUTAGE_S[1] + 3.0]
    if len(late) < MIN_CUTS:
        raise NeverHappened("no samples after the outage")
    seconds = float(late["t_s"].iloc[-1] - late["t_s"].iloc[0])
    bits = 8.0 * float(late["acked_bytes"].iloc[-1] - late["acked_bytes"].iloc[0])
    yield BoundCheck("rate from 3 s after it on", bits / seconds / 1e6, low=12, unit="Mbit/s")


@WINDOW.case(
    "rfc9743-collapse",
    "It all but stops at 60 % of loss",
    "RFC 9743, 5.1.1 Protection against congestion collapse",
    "collapse",
    "",
)
def collapse_after_timeout(end: RunResult) -> Checks:
    begin_s, end_s = 8.0, 20.0
    sent = sent_segments(end, begin_s, end_s)
    round_trips = (end_s - begin_s) / 0.04
    yield BoundCheck("segments sent per round trip", sent / round_trips, high=2)


def sent_segments(end: RunResult, begin_s: float, end_s: float) -> float:
    """Return how many data segments the sender sent, retransmissions included, in a time."""
    samples = require_samples(end)
    inside = samples[(samples["t_s"] >= begin_s) & (samples["t_s"] <= end_s)]
    if len(inside) < MIN_CUTS:
        raise NeverHappened("no samples of the sender")
    sent = inside["sent_data_segments"]
    return float(sent.iloc[-1] - sent.iloc[0])


@WINDOW.case(
    "rfc5681-half",
    "A loss leaves half of the window",
    "RFC 5681, 3.1, equation 4",
    "periodic-1000",
    RENO,
)
def window_halves(end: RunResult) -> Checks:
    left = [cut.left for cut in find_cuts(require_acks(end))]
    yield BoundCheck("largest share of the window that a loss leaves", max(left), high=0.52)


@WINDOW.case(
    "rfc5681-avoidance",
    "Congestion avoidance adds a segment per round trip",
    "RFC 5681, 3.1",
    "periodic-1000",
    RENO,
)
def congestion_avoidance(end: RunResult) -> Checks:
    slopes = [
        float(cwnd[-1] - cwnd[0]) / (float(t_s[-1] - t_s[0]) / RTT_S)
        for _, t_s, cwnd in find_cycles(require_acks(end))
    ]
    slope = upper_median(slopes, "time between losses")
    yield BoundCheck("median growth per round trip", slope, 0.8, 1.1, "segments")


@WINDOW.case(
    "rfc5681-response",
    "The mean window at one loss in 1,000",
    "RFC 9438, 5: its figures for Reno",
    "periodic-1000",
    RENO,
)
def reno_response(end: RunResult) -> Checks:
    yield check_near("mean window", mean_window(end), 38, 0.2, "segments")


@WINDOW.case(
    "rfc9438-friendly",
    "The mean window at one loss in 1,000 is Reno's",
    "RFC 9438, 4.3 and 5",
    "periodic-1000",
    CUBIC,
)
def reno_friendly(end: RunResult) -> Checks:
    yield check_near("mean window", mean_window(end), 38, 0.2, "segments")


@WINDOW.case(
    "rfc9438-response",
    "The mean window at one loss in 10,000",
    "RFC 9438, 5",
    "periodic-10000",
    CUBIC,
)
def cubic_response(end: RunResult) -> Checks:
    yield check_near("mean window", mean_window(end), 187, 0.2, "segments")


@WINDOW.case(
    "rfc9438-beta", "A loss leaves 0.7 of the window", "RFC 9438, 4.6", "periodic-10000", CUBIC
)
def cubic_beta(end: RunResult) -> Checks:
    left = [cut.left for cut in find_cuts(require_acks(end))]
    share = upper_median(left, "losses")
    yield check_near("median share of the window that a loss leaves", share, CUBIC_BETA, 0.03)


@WINDOW.case(
    "rfc9438-cubic",
    "The window follows W_cubic(t) between losses",
    "RFC 9438, 4.2, figure 1",
    "periodic-10000",
    CUBIC,
)
def cubic_function(end: RunResult) -> Checks:
    """Compare with C (t - K)³ + W_max, K³ = W_max (1 - beta) / C; W_max by 4.7 (convergence)."""
    import numpy as np

    deviations: list[float] = []
    last_pkts = 0.0
    for cut, t_s, cwnd in find_cycles(require_acks(end)):
        is_smaller = cut.before_pkts < last_pkts
        w_max = cut.before_pkts * ((1 + CUBIC_BETA) / 2 if is_smaller else 1.0)
        last_pkts = cut.before_pkts
        k_s = np.cbrt((w_max - cut.after_pkts) / CUBIC_C)
        expected = CUBIC_C * (t_s - cut.t_s - k_s) ** 3 + w_max
        deviations.append(float(np.median(np.abs(cwnd / expected - 1))))
    deviation = 100 * upper_median(deviations, "time between losses")
    yield BoundCheck("median distance from W_cubic(t)", deviation, high=5, unit="%")


def mean_window(end: RunResult) -> float:
    """Return the mean window over the second half of the run: slow start's overshoot is gone."""
    import numpy as np

    acks = require_acks(end)
    late = acks[acks["t_s"] > end.run.length_s / 2]
    if len(late) < MIN_CUTS:
        raise NeverHappened("no ACKs in the second half")
    t_s, cwnd = late["t_s"].to_numpy(), late["cwnd_pkts"].to_numpy()
    return float(np.sum(cwnd[:-1] * np.diff(t_s)) / (t_s[-1] - t_s[0]))
