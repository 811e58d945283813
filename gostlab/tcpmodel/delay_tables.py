# SPDX-License-Identifier: MIT
"""Compute the delay tables that tc knows by name: normal, pareto and paretonormal.

An entry t of a table delays a packet by delay + jitter * t / 8192. The numbers are those of the
files that iproute2 installs (NAME.dist): its programs of the same names, in its folder netem, make
them by the formulas below.
"""

import math
from functools import cache

from gostlab.tcpmodel.run_limits import DISTRIBUTION_SCALE

TABLE_NAMES = ("normal", "pareto", "paretonormal")
QUANTILES = 16384  # a table has every fourth one
PARETO_SHAPE = 3.0  # its mean is 1.5, its standard deviation 0.75 ** 0.5
NORMAL_STEP = 0.00005  # the grid on which iproute2 evaluates the normal distribution
MIN_ENTRY, MAX_ENTRY = -(2**15), 2**15 - 1


@cache
def delay_table(name: str) -> tuple[int, ...]:
    """Return one of tc's delay tables by its name. Raises KeyError."""
    quantiles = range(0, QUANTILES, 4)
    make = {"normal": normal_entry, "pareto": pareto_entry, "paretonormal": paretonormal_entry}
    return tuple(max(MIN_ENTRY, min(MAX_ENTRY, make[name](quantile))) for quantile in quantiles)


@cache
def table_name_of(table: tuple[int, ...]) -> str | None:
    """Return tc's name of a delay table, or None for any other table."""
    return next((name for name in TABLE_NAMES if delay_table(name) == table), None)


def normal_entry(quantile: int) -> int:
    """Return the largest x on the grid whose distribution function rounds to the quantile."""
    from statistics import NormalDist

    highest = (quantile + 0.5) / QUANTILES
    steps = math.floor(NormalDist().inv_cdf(highest) / NORMAL_STEP)
    return round(steps * NORMAL_STEP * DISTRIBUTION_SCALE)


def pareto_entry(quantile: int) -> int:
    """Return the Pareto distribution's quantile, scaled to a mean of 0."""
    above = (4 * QUANTILES - 4 * quantile) / (4 * QUANTILES)
    entry = (above ** (-1 / PARETO_SHAPE) - 1.5) * 4 / 3 * DISTRIBUTION_SCALE
    return round(min(MAX_ENTRY, entry))


def paretonormal_entry(quantile: int) -> int:
    """Return a quarter of the normal and three quarters of the Pareto distribution's entry."""
    return int((normal_entry(quantile) + 3 * pareto_entry(quantile)) / 4)
