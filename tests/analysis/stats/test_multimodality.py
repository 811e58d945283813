# SPDX-License-Identifier: MIT
"""Groups of runs: found where there are some, and seldom where there are none."""

from collections.abc import Callable

import numpy as np
import pytest

from gostlab.analysis.stats.multimodality import LEVEL, find_clusters

CHANCE = np.random.default_rng(7)
ONE_STATE: dict[str, Callable[[int], object]] = {
    "normal": lambda n: CHANCE.normal(100, 30, n),
    "even": lambda n: CHANCE.uniform(50, 150, n),
    "skewed": lambda n: CHANCE.exponential(100, n),
    "heavy tails": lambda n: 100 + 20 * CHANCE.standard_t(3, n),
}


def test_groups_are_found_with_their_runs() -> None:
    assert find_clusters([180, 570, 178, 182]) == ()  # four runs say nothing
    assert find_clusters([180, 570, 178, 182, 560]) == ((178, 180, 182), (560, 570))
    three = [100, 101, 99, 205, 200, 203, 400, 404, 402]
    assert [len(group) for group in find_clusters(three)] == [3, 3, 3]
    assert find_clusters([5.0, 5.0, 5.0, 9.0, 9.0]) == ((5, 5, 5), (9, 9))


@pytest.mark.parametrize(
    "values",
    [
        [5.0] * 9,
        [100, 101, 99, 100.5, 98.7, 101.3, 570],  # an outlier is no state
        [100.00, 100.01, 100.02, 102.00, 102.01, 102.02],  # 2 % apart are the same to everyone
        [3.21, 3.28, 3.30, 3.31, 3.57, 3.59],  # a lossy path's luck: 8 % apart
        [100, 101, 99, float("inf"), float("inf")],
    ],
)
def test_what_is_no_group_of_its_own(values: list[float]) -> None:
    assert find_clusters(values) == ()


@pytest.mark.slow
@pytest.mark.parametrize("kind", ONE_STATE)
@pytest.mark.parametrize("n", [5, 10, 20])
def test_runs_of_one_state_are_seldom_taken_for_several(n: int, kind: str) -> None:
    found = sum(bool(find_clusters(np.asarray(ONE_STATE[kind](n)).tolist())) for _ in range(300))
    # 300 draws of a share of 5 % lie below 8 % 99 times of 100.
    assert found / 300 <= LEVEL + 0.03


def test_two_states_with_a_spread_of_a_tenth_are_mostly_seen_in_ten_runs() -> None:
    seen = 0
    for _ in range(200):
        low, high = CHANCE.normal(180, 18, 7), CHANCE.normal(570, 57, 3)
        seen += [len(group) for group in find_clusters([*low, *high])] == [7, 3]
    assert seen / 200 > 0.75
