# SPDX-License-Identifier: MIT
"""Compute what netem's random models do on average: the shares that they make, and the spread.

The models are those of net/sched/sch_netem.c: the Markov chain of four states (loss_4state), and
correlated random numbers (get_crandom).
"""

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

# The grid on which the distribution of correlated random numbers is computed, and its steps.
GRID = 2000
CORRELATION_STEPS = 200
# Of a bound: standard deviations, of which a correct chain exceeds five in 2 of 10^6 runs.
BOUND_SD = 5.0


@dataclass(frozen=True)
class LongRun:
    """Represent the long run of a sequence of events: their share, and the count's variance.

    variance: of the count of events, per trial, for many trials; for independent trials it is
    share * (1 - share).
    """

    share: float
    variance: float

    def interval(self, trials: int) -> tuple[int, int]:
        """Return bounds of the count of events among some trials.

        The normal distribution's bound is widened for short runs by what a long sequence of equal
        outcomes, of variance / (share * (1 - share)) trials, may add.
        """
        sd = math.sqrt(trials * self.variance)
        independent = self.share * (1 - self.share)
        alike = self.variance / independent if independent else 1.0
        reach = BOUND_SD * sd + BOUND_SD * alike + 1
        mean = trials * self.share
        return max(0, math.floor(mean - reach)), min(trials, math.ceil(mean + reach))


def solve_linear(matrix: Sequence[Sequence[float]], right: Sequence[float]) -> list[float]:
    """Solve a small system of linear equations by elimination with pivots."""
    rows = [[*row, value] for row, value in zip(matrix, right, strict=True)]
    size = len(rows)
    for column in range(size):
        pivot = max(range(column, size), key=lambda index: abs(rows[index][column]))
        rows[column], rows[pivot] = rows[pivot], rows[column]
        head = rows[column]
        for index in range(size):
            if index != column:
                factor = rows[index][column] / head[column]
                rows[index] = [a - factor * b for a, b in zip(rows[index], head, strict=True)]
    return [rows[index][size] / rows[index][index] for index in range(size)]


@lru_cache(maxsize=100)
def state_loss(p13: float, p31: float, p32: float, p23: float, p14: float) -> LongRun:
    """Return the long run of losses of netem's four states.

    The states are good (1), good within a burst (2), lost in a burst (3) and lost alone (4). The
    variance of the count is that of a Markov chain: with h solving (I - P) h = f - m, it is the
    mean of 2 (f - m) h - (f - m)^2 (the Poisson equation; Meyn and Tweedie, chapter 17).
    """
    chain = [
        [1 - p13 - p14, 0.0, p13, p14],
        [0.0, 1 - p23, p23, 0.0],
        [p31, p32, 1 - p31 - p32, 0.0],
        [1.0, 0.0, 0.0, 0.0],
    ]
    lost = (0.0, 0.0, 1.0, 1.0)
    # A state that the chain returns to for ever; without p31 the good state is left for good.
    recurrent = 2 if p13 and not p31 else 0
    away = [[float(i == j) - chain[i][j] for j in range(4)] for i in range(4)]
    balance = [[away[j][i] for j in range(4)] for i in range(4)]
    balance[recurrent] = [1.0] * 4
    visits = solve_linear(balance, [float(i == recurrent) for i in range(4)])
    share = math.fsum(visit * one for visit, one in zip(visits, lost, strict=True))
    centred = [one - share for one in lost]
    away[recurrent] = [float(j == recurrent) for j in range(4)]
    ahead = solve_linear(away, [0.0 if i == recurrent else centred[i] for i in range(4)])
    variance = math.fsum(
        visit * (2 * one * h - one * one)
        for visit, one, h in zip(visits, centred, ahead, strict=True)
    )
    return LongRun(share, max(0.0, variance))


@lru_cache(maxsize=100)
def correlated_events(share: float, correlation: float) -> LongRun:
    """Return the long run of events whose random numbers netem correlates.

    A number is (1 - c) u + c x, u being uniform and x the number before. Such numbers lie nearer to
    the middle than uniform ones: F(x) = c / (1 - c) times the integral of F from (x - 1 + c) / c to
    x / c, of which this is the fixed point. The variance is that of numbers whose correlation
    decays by c per packet.
    """
    if not correlation or not 0 < share < 1:
        return LongRun(share, share * (1 - share))
    distribution = [index / GRID for index in range(GRID + 1)]
    for _ in range(CORRELATION_STEPS):
        area = [0.0]
        for low, high in itertools.pairwise(distribution):
            area.append(area[-1] + (low + high) / 2 / GRID)

        def area_to(y: float, area: Sequence[float] = area) -> float:
            if y <= 0:
                return 0.0
            if y >= 1:
                return area[-1] + y - 1
            index = int(y * GRID)
            part = y * GRID - index
            return area[index] + part * (area[index + 1] - area[index])

        after = [
            (area_to(x / correlation) - area_to((x - 1 + correlation) / correlation))
            * correlation
            / (1 - correlation)
            for x in (index / GRID for index in range(GRID + 1))
        ]
        moved = max(abs(a - b) for a, b in zip(after, distribution, strict=True))
        distribution = after
        if moved < 1e-9:
            break
    index = min(GRID - 1, int(share * GRID))
    part = share * GRID - index
    achieved = distribution[index] + part * (distribution[index + 1] - distribution[index])
    achieved = min(1.0, max(0.0, achieved))
    alike = (1 + correlation) / (1 - correlation)
    return LongRun(achieved, achieved * (1 - achieved) * alike)
