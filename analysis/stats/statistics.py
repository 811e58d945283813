"""What n runs say about a cell. The run is the unit: samples within a run are never pooled.

Medians come with an interval from order statistics, which assumes nothing of the runs but that they
are independent; its coverage is exact and stated. Below six runs no such interval reaches 95 %, and
none is given; nor is one of runs that are identical to the bit, or that fall into several states.
"""

import math
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import TypeGuard

import numpy as np
import scipy
from scipy.special import bdtr

from gostlab.analysis.stats.multimodality import groups_of
from gostlab.results.metrics import RunCluster, are_identical

CONFIDENCE = 0.95
# The least n whose least and greatest value cover the median with 95 %: 1 - 2 / 2^6 = 96.9 %.
MIN_RUNS = 6
RESAMPLES, SEED = 9999, 1


@dataclass(frozen=True)
class Interval:
    """Where a figure lies, and how surely."""

    low: float
    high: float
    coverage: float  # exact for the median's, nominal for the bootstrap's


@dataclass(frozen=True)
class Summary:
    """What one cell's runs say of one figure."""

    values: tuple[float, ...]
    median: float
    interval: Interval | None = None  # None: fewer than six runs, identical ones, or several states
    states: tuple[RunCluster, ...] = ()  # those that the runs fall into, the least first; (): one

    @property
    def n(self) -> int:
        return len(self.values)

    @property
    def typical(self) -> tuple[float, ...]:
        """What stands for the runs: the median of all, or that of each state."""
        return tuple(state.value for state in self.states) or (self.median,)


def is_known(value: float | None) -> TypeGuard[float]:
    """Whether a figure is there: neither None nor NaN, which a table holds where no run has it.

    An infinite value is known: a run that never converged took for ever.
    """
    return value is not None and not math.isnan(value)


def summarise(values: Sequence[float]) -> Summary | None:
    """Median and its interval, or the states that the runs fall into; None of no values."""
    if not values:
        return None
    states = states_of(values)
    interval = None if states or are_identical(values) else median_interval(values)
    return Summary(tuple(values), float(np.median(values)), interval, states)


def states_of(values: Sequence[float]) -> tuple[RunCluster, ...]:
    """The states that runs fall into, the least first; () where they are one."""
    return tuple(RunCluster(float(np.median(group)), len(group)) for group in groups_of(values))


def median_interval(values: Sequence[float]) -> Interval | None:
    """The narrowest symmetric pair of order statistics that covers the median with at least
    CONFIDENCE.

    The number of values below the median is binomial with p = 1/2 (Conover, Practical Nonparametric
    Statistics, section 3.2; Hahn & Meeker, Statistical Intervals, section 5.2). None if even least
    to greatest does not reach it.
    """
    found = interval_rank(len(values))
    if found is None:
        return None
    rank, coverage = found
    ordered = sorted(values)
    return Interval(float(ordered[rank - 1]), float(ordered[-rank]), coverage)


@cache
def interval_rank(n: int) -> tuple[int, float] | None:
    """The highest rank from either end that covers the median of n values, and how surely."""
    below = bdtr(np.arange(n + 1), n, 0.5)  # how surely at most so many lie below the median
    rank = int(np.searchsorted(below, (1 - CONFIDENCE) / 2))
    return (rank, 1.0 - 2.0 * float(below[rank - 1])) if rank > 0 else None


def relative_halfwidth(values: Sequence[float]) -> float | None:
    """Half the width of the median's interval, as a share of the median: the ± that a reader sees.
    None below six values; infinite around a median of 0.

    To stop repeating as soon as this is small makes the interval a little less sure than it says:
    one looks until it is narrow.
    """
    interval = median_interval(values)
    if interval is None:
        return None
    if interval.low == interval.high:
        return 0.0
    median = abs(float(np.median(values)))
    return (interval.high - interval.low) / 2 / median if median else math.inf


def mean_of(values: Sequence[float]) -> float | None:
    return float(np.mean(values)) if values else None


def mean_interval(values: Sequence[float]) -> Interval | None:
    """Bootstrap (BCa) interval of the mean, by scipy. None below six values (it would be too narrow
    to mean anything), of identical ones, and of several states.

    Seeded, so that a page made twice reads the same.
    """
    if len(values) < MIN_RUNS or are_identical(values) or groups_of(values):
        return None
    found = scipy.stats.bootstrap(  # read here: scipy.stats takes a quarter of a second
        (np.asarray(values, dtype=float),),
        np.mean,
        confidence_level=CONFIDENCE,
        n_resamples=RESAMPLES,
        method="BCa",
        random_state=np.random.default_rng(SEED),
    ).confidence_interval
    return Interval(float(found.low), float(found.high), CONFIDENCE)


BySeed = Mapping[Hashable, float]


def paired(first: BySeed, second: BySeed) -> list[tuple[float, float]]:
    """The values of two cells that share a key: a seed, and so the same pattern of loss."""
    return [(first[key], second[key]) for key in first if key in second]


def paired_difference(first: BySeed, second: BySeed) -> Summary | None:
    """second - first, pair by pair; None without a pair."""
    return summarise([b - a for a, b in paired(first, second)])


def paired_ratio(first: BySeed, second: BySeed) -> Summary | None:
    """second / first, pair by pair; without those whose first is 0; None without a pair."""
    return summarise([b / a for a, b in paired(first, second) if a > 0])


def jain_index(shares: Sequence[float]) -> float:
    """Fairness of shares, 1/n to 1 (Jain, Chiu, Hawe: DEC-TR-301, 1984). NaN of nothing, or of
    zeros alone.

    Give it active flows only, and show the shares beside it.
    """
    squares = math.fsum(share * share for share in shares)
    return math.fsum(shares) ** 2 / (len(shares) * squares) if squares else math.nan


def best_mean(values: Sequence[float], best: int = 3) -> float | None:
    """The mean of the greatest few ("the fastest 3"); None of fewer values than that."""
    return math.fsum(sorted(values)[-best:]) / best if len(values) >= best else None
