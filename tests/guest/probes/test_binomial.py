# SPDX-License-Identifier: MIT
"""The binomial interval by Python's own mathematics is scipy's."""

import math
import random

import pytest
from scipy.stats import binom

from gostlab.guest.probes.binomial import central_interval


def cases() -> list[tuple[int, float]]:
    draw = random.Random(1)
    chances = (1e-7, 1e-5, 1e-4, 0.001, 0.005, 0.01, 0.02, 0.04, 0.1, 0.3, 0.5, 0.9, 0.999)
    return [(round(10 ** draw.uniform(0, 6)), chance) for chance in chances for _ in range(40)]


@pytest.mark.slow
def test_it_is_scipys() -> None:
    for count, chance in cases():
        for confidence in (0.9999, 0.95):
            least, most = binom.interval(confidence, count, chance)
            assert central_interval(confidence, count, chance) == (int(least), int(most)), (
                count,
                chance,
            )


def test_of_ten_million_packets_it_is_what_the_normal_distribution_says() -> None:
    low, high = central_interval(0.9999, 10_000_000, 0.01)
    half = 3.8906 * math.sqrt(1e7 * 0.01 * 0.99)
    assert low == pytest.approx(1e5 - half, abs=3) and high == pytest.approx(1e5 + half, abs=3)


@pytest.mark.parametrize(
    ("count", "chance", "bounds"),
    [(0, 0.5, (0, 0)), (7, 0.0, (0, 0)), (7, 1.0, (7, 7)), (1, 0.5, (0, 1))],
)
def test_where_there_is_no_choice_there_is_none(
    count: int, chance: float, bounds: tuple[int, int]
) -> None:
    assert central_interval(0.9999, count, chance) == bounds
