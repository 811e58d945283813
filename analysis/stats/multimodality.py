"""Whether the runs of a cell fall into groups: states between which a system chooses, of which
neither a mean nor an interval over all says anything.

Runs are split where Dunn's index of compact, well-separated clusters is greatest: the least
distance between runs of two groups over the greatest width of a group (J. C. Dunn, A fuzzy relative
of the ISODATA process, J. Cybernetics 3(3), 1973). The split counts if its index is above that of
19 of 20 samples as large of which nothing is split: even ones, and skewed (exponential) ones (a
Monte Carlo test: G. A. Barnard, J. R. Stat. Soc. B 25, 1963). A state has two runs at least, one
run alone is an outlier; and states lie apart by a share that matters.
"""

from collections.abc import Sequence
from functools import cache
from itertools import combinations, pairwise
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

MIN_RUNS, MAX_STATES, MIN_IN_STATE = 5, 3, 2
# The nearest runs of two states are further apart than this share of the lesser one.
APART = 0.2
LEVEL, SAMPLES, SEED = 0.05, 2000, 1

Floats: TypeAlias = npt.NDArray[np.float64]


def groups_of(values: Sequence[float]) -> tuple[tuple[float, ...], ...]:
    """The values of each state, the least first; () of one state, or of fewer than five values."""
    n = len(values)
    if n < MIN_RUNS or not np.isfinite(values).all():
        return ()
    ordered = np.sort(np.asarray(values, dtype=float))
    found = (
        pair
        for cuts in splits(n)
        for pair in zip(dunn_index(ordered[None], cuts)[0].tolist(), cuts.T.tolist(), strict=True)
    )
    index, cut_at = max(found)
    groups = tuple(tuple(map(float, part)) for part in np.split(ordered, cut_at))
    pairs = pairwise(groups)
    apart = all(above[0] - below[-1] > APART * abs(below[-1]) for below, above in pairs)
    return groups if apart and index > critical_index(n) else ()


@cache
def splits(n: int) -> tuple[npt.NDArray[np.int_], ...]:
    """Every way to cut n ordered runs into two groups, and into three, of two runs at least: rows
    of first cuts, of second ones.
    """
    places = range(MIN_IN_STATE, n - MIN_IN_STATE + 1)
    ways = (
        [
            cuts
            for cuts in combinations(places, states - 1)
            if all(b - a >= MIN_IN_STATE for a, b in pairwise(cuts))
        ]
        for states in range(2, MAX_STATES + 1)
    )
    return tuple(np.array(each).T for each in ways if each)


def dunn_index(ordered: Floats, cuts: npt.NDArray[np.int_]) -> Floats:
    """Of each row of ordered values, by each way to cut it: inf where no group has a width."""
    first = np.zeros_like(cuts[0])
    ends = pairwise([first, *cuts, first + ordered.shape[1]])
    gaps = [ordered[:, cut] - ordered[:, cut - 1] for cut in cuts]
    widths = [ordered[:, end - 1] - ordered[:, start] for start, end in ends]
    least, greatest = np.min(gaps, axis=0), np.max(widths, axis=0)
    return np.divide(least, greatest, out=np.full_like(least, np.inf), where=greatest > 0)


@cache
def critical_index(n: int) -> float:
    """What 19 of 20 samples without groups stay below: the greater one of two kinds of them."""
    chance = np.random.default_rng(SEED)
    found = []
    for sample in (chance.uniform(size=(SAMPLES, n)), chance.exponential(size=(SAMPLES, n))):
        ordered = np.sort(sample, axis=1)
        # one way at a time: all of them would take a gigabyte of memory for 100 runs
        ways = (cuts[:, [way]] for cuts in splits(n) for way in range(cuts.shape[1]))
        best = np.max([dunn_index(ordered, way) for way in ways], axis=0)
        found.append(float(np.quantile(best, 1 - LEVEL)))
    return max(found)
