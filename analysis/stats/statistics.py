# SPDX-License-Identifier: MIT
"""Summarise the runs of a cell.

The run is the unit: samples within a run are never pooled. Medians have an interval from order
statistics, which assumes only that runs are independent; its coverage is exact and reported. Fewer
than six runs cannot reach 95 % and have no interval, nor have bit-identical runs or runs in several
clusters.
"""

import math
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import TypeGuard

from gostlab.analysis.stats.multimodality import find_clusters
from gostlab.results.metrics import RunCluster, are_identical

CONFIDENCE = 0.95
# Minimum n whose extreme values cover the median with 95 %: 1 - 2 / 2^6 = 96.9 %.
MIN_RUNS = 6
RESAMPLES, SEED = 9999, 1


@dataclass(frozen=True)
class Interval:
    """A confidence interval and its coverage."""

    low: float
    high: float
    coverage: float  # exact for medians, nominal for bootstrap intervals


@dataclass(frozen=True)
class Summary:
    """The values of one metric over one cell's runs."""

    values: tuple[float, ...]
    median: float
    interval: Interval | None = (
        None  # None: fewer than six runs, identical runs, or several clusters
    )
    states: tuple[RunCluster, ...] = ()  # clusters of the runs, lowest first; () for one

    @property
    def n(self) -> int:
        return len(self.values)

    @property
    def typical(self) -> tuple[float, ...]:
        """Return the median of all runs or of each cluster."""
        return tuple(state.value for state in self.states) or (self.median,)


def is_known(value: float | None) -> TypeGuard[float]:
    """Return whether a value is neither None nor NaN.

    An infinite value is known: a run that never converged has an infinite time.
    """
    return value is not None and not math.isnan(value)


def summarise(values: Sequence[float]) -> Summary | None:
    """Return the median with its interval, or the clusters; None without values."""
    import numpy as np

    if not values:
        return None
    states = run_clusters(values)
    interval = None if states or are_identical(values) else median_interval(values)
    return Summary(tuple(values), float(np.median(values)), interval, states)


def run_clusters(values: Sequence[float]) -> tuple[RunCluster, ...]:
    """Return the clusters of the runs, lowest first; () for a single one."""
    import numpy as np

    return tuple(RunCluster(float(np.median(group)), len(group)) for group in find_clusters(values))


def median_interval(values: Sequence[float]) -> Interval | None:
    """Return the narrowest symmetric order-statistics interval of the median.

    Its coverage is at least CONFIDENCE. The number of values below the median is binomial with p =
    1/2 (Conover, Practical Nonparametric Statistics, section 3.2; Hahn & Meeker, Statistical
    Intervals, section 5.2). None if the range from minimum to maximum has less coverage.
    """
    ranked = interval_rank(len(values))
    if ranked is None:
        return None
    rank, coverage = ranked
    ordered = sorted(values)
    return Interval(float(ordered[rank - 1]), float(ordered[-rank]), coverage)


@cache
def interval_rank(n: int) -> tuple[int, float] | None:
    """Return the highest rank from either end that covers the median, and its coverage."""
    below = 0.0  # probability that fewer than `rank` values lie below the median
    ways = 0
    for rank in range(n + 1):
        ways += math.comb(n, rank)
        if ways / 2**n >= (1 - CONFIDENCE) / 2:
            return (rank, 1.0 - 2.0 * below) if rank > 0 else None
        below = ways / 2**n
    return None


def relative_halfwidth(values: Sequence[float]) -> float | None:
    """Return half the width of the median's interval as a share of the median.

    None below six values; infinite around a median of 0. Stopping repetitions as soon as it is
    small makes the coverage slightly lower than stated, because of the repeated test.
    """
    import numpy as np

    interval = median_interval(values)
    if interval is None:
        return None
    if interval.low == interval.high:
        return 0.0
    median = abs(float(np.median(values)))
    return (interval.high - interval.low) / 2 / median if median else math.inf


def mean_of(values: Sequence[float]) -> float | None:
    import numpy as np

    return float(np.mean(values)) if values else None


def mean_interval(values: Sequence[float]) -> Interval | None:
    """Return the bootstrap (BCa) interval of the mean, by scipy.

    None below six values (it would be too narrow), for identical ones, and for several clusters.
    The seed is fixed, so that pages are reproducible.
    """
    import numpy as np
    import scipy

    if len(values) < MIN_RUNS or are_identical(values) or find_clusters(values):
        return None
    interval = (
        scipy.stats.bootstrap(  # imported on first use: scipy.stats takes a quarter of a second
            (np.asarray(values, dtype=float),),
            np.mean,
            confidence_level=CONFIDENCE,
            n_resamples=RESAMPLES,
            method="BCa",
            random_state=np.random.default_rng(SEED),
        ).confidence_interval
    )
    return Interval(float(interval.low), float(interval.high), CONFIDENCE)


BySeed = Mapping[Hashable, float]


def pair_by_seed(first: BySeed, second: BySeed) -> list[tuple[float, float]]:
    """Return the values of two cells that share a key: a seed with the same loss pattern."""
    return [(first[key], second[key]) for key in first if key in second]


def paired_difference(first: BySeed, second: BySeed) -> Summary | None:
    """Summarise second - first over pairs; None without pairs."""
    return summarise([b - a for a, b in pair_by_seed(first, second)])


def paired_ratio(first: BySeed, second: BySeed) -> Summary | None:
    """Summarise second / first over pairs with first > 0; None without such pairs."""
    return summarise([b / a for a, b in pair_by_seed(first, second) if a > 0])


def mean_of_greatest(values: Sequence[float]) -> float | None:
    """Return the mean of the three greatest values; None for fewer than three."""
    return math.fsum(sorted(values)[-3:]) / 3 if len(values) >= 3 else None
