# SPDX-License-Identifier: MIT
"""Detect runs of a cell that fall into clusters (states).

A mean or an interval over several clusters is meaningless. Runs are split where Dunn's index of
compact, well-separated clusters is greatest: the minimum distance between runs of two clusters over
the maximum width of a cluster (J. C. Dunn, A fuzzy relative of the ISODATA process, J. Cybernetics
3(3), 1973). The split is accepted if its index exceeds that of 19 of 20 samples of the same size
without clusters, both uniform and exponential ones (a Monte Carlo test: G. A. Barnard, J. R. Stat.
Soc. B 25, 1963). A cluster has at least two runs, since one run alone is an outlier, and clusters
must be separated by a relevant share.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from itertools import combinations, pairwise
from typing import TYPE_CHECKING, TypeAlias

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

MIN_RUNS, MAX_STATES, MIN_IN_STATE = 5, 3, 2
# Minimum distance of the nearest runs of two clusters, as a share of the lower one.
MIN_DISTANCE_SHARE = 0.2
LEVEL, SAMPLES, SEED = 0.05, 2000, 1

Floats: TypeAlias = "npt.NDArray[np.float64]"


def find_clusters(values: Sequence[float]) -> tuple[tuple[float, ...], ...]:
    """Return the values of each cluster, lowest first; () for a single cluster.

    Fewer than five values are a single cluster.
    """
    import numpy as np

    n = len(values)
    if n < MIN_RUNS or not np.isfinite(values).all():
        return ()
    ordered = np.sort(np.asarray(values, dtype=float))
    indexed_cuts = (
        pair
        for cuts in all_splits(n)
        for pair in zip(dunn_index(ordered[None], cuts)[0].tolist(), cuts.T.tolist(), strict=True)
    )
    index, cut_at = max(indexed_cuts)
    groups = tuple(tuple(map(float, part)) for part in np.split(ordered, cut_at))
    pairs = pairwise(groups)
    apart = all(
        above[0] - below[-1] > MIN_DISTANCE_SHARE * abs(below[-1]) for below, above in pairs
    )
    return groups if apart and index > critical_index(n) else ()


@cache
def all_splits(n: int) -> tuple[npt.NDArray[np.int_], ...]:
    """Return all splits of n ordered runs into two and into three groups.

    Each group has two runs or more; the rows of an array are the first cuts, the second cuts.
    """
    import numpy as np

    positions = range(MIN_IN_STATE, n - MIN_IN_STATE + 1)
    cut_sets = (
        [
            cuts
            for cuts in combinations(positions, states - 1)
            if all(b - a >= MIN_IN_STATE for a, b in pairwise(cuts))
        ]
        for states in range(2, MAX_STATES + 1)
    )
    return tuple(np.array(cuts_of_size).T for cuts_of_size in cut_sets if cuts_of_size)


def dunn_index(ordered: Floats, cuts: npt.NDArray[np.int_]) -> Floats:
    """Return each row's index for each split of ordered values; inf if no group has a width."""
    import numpy as np

    first = np.zeros_like(cuts[0])
    ends = pairwise([first, *cuts, first + ordered.shape[1]])
    gaps = [ordered[:, cut] - ordered[:, cut - 1] for cut in cuts]
    widths = [ordered[:, end - 1] - ordered[:, start] for start, end in ends]
    least, greatest = np.min(gaps, axis=0), np.max(widths, axis=0)
    return np.divide(least, greatest, out=np.full_like(least, np.inf), where=greatest > 0)


@cache
def critical_index(n: int) -> float:
    """Return the 95 % quantile of the index over random samples without clusters.

    The greater one of two distributions counts.
    """
    import numpy as np

    chance = np.random.default_rng(SEED)
    quantiles = []
    for sample in (chance.uniform(size=(SAMPLES, n)), chance.exponential(size=(SAMPLES, n))):
        ordered = np.sort(sample, axis=1)
        # one split at a time: all of them would take a gigabyte of memory for 100 runs
        single_cuts = (
            cuts[:, [column]] for cuts in all_splits(n) for column in range(cuts.shape[1])
        )
        best = np.max([dunn_index(ordered, column) for column in single_cuts], axis=0)
        quantiles.append(float(np.quantile(best, 1 - LEVEL)))
    return max(quantiles)
