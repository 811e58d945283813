# SPDX-License-Identifier: MIT
"""Statistics, against scipy's own and published values, not against themselves."""

import math
import random

import numpy as np
import pytest
from scipy import stats

from gostlab.analysis.stats.statistics import (
    is_known,
    mean_interval,
    median_interval,
    paired_difference,
    paired_ratio,
    summarise,
)
from gostlab.analysis.stats.table_formats import format_spread
from gostlab.results.metrics import jain_index


def test_a_figure_is_known_unless_it_is_none_or_nan() -> None:
    assert [is_known(value) for value in (0.0, -1.0, math.inf)] == [True] * 3
    assert [is_known(value) for value in (None, math.nan, np.float64("nan"))] == [False] * 3


@pytest.mark.parametrize("n", [1, 2, 3, 4, 5])
def test_fewer_than_six_runs_have_no_interval(n: int) -> None:
    assert median_interval(range(n)) is None
    assert mean_interval(range(n)) is None
    summary = summarise(range(n))
    assert summary is not None and summary.interval is None and summary.n == n


@pytest.mark.parametrize("n", range(6, 60))
def test_the_median_s_interval_holds_what_scipy_s_sign_test_does_not_reject(n: int) -> None:
    rng = random.Random(n)
    values = sorted(rng.gauss(100, 10) for _ in range(n))
    interval = median_interval(values)
    kept = [below for below in range(1, n) if stats.binomtest(below, n, 0.5).pvalue > 0.05]
    assert interval is not None
    # A median between the k-th and the next value has k values below it.
    assert (interval.low, interval.high) == (values[kept[0] - 1], values[kept[-1]])
    assert interval.coverage == pytest.approx(1 - stats.binomtest(kept[0] - 1, n, 0.5).pvalue)


def test_known_ranks_and_coverages() -> None:
    # Six give least to greatest at 1 - 2 / 2^6; Hahn & Meeker, Statistical Intervals, table for
    # the median: n = 10 takes x(2)..x(9) at 97.85 %, n = 20 x(6)..x(15) at 95.86 %.
    for n, low, high, coverage in ((6, 1, 6, 0.96875), (10, 2, 9, 0.97852), (20, 6, 15, 0.95861)):
        interval = median_interval(range(n, 0, -1))
        assert interval is not None
        assert (interval.low, interval.high) == (low, high)
        assert interval.coverage == pytest.approx(coverage, abs=1e-4)


def test_the_stated_coverage_is_kept_on_a_skewed_distribution() -> None:
    # 4000 draws of 8: the share that covers is within 4.5 standard errors (false alarm: 7 in a
    # million).
    draws = np.random.default_rng(7).lognormal(size=(4000, 8))
    found = [median_interval(row) for row in draws]
    hit = np.mean([each is not None and each.low <= 1.0 <= each.high for each in found])
    coverage = found[0].coverage if found[0] else 0.0
    assert abs(hit - coverage) < 4.5 * math.sqrt(coverage * (1 - coverage) / 4000)


def test_the_mean_s_interval_is_scipy_s_bootstrap() -> None:
    rng = random.Random(1)
    values = [rng.expovariate(1.0) for _ in range(12)]
    mine = mean_interval(values)
    theirs = stats.bootstrap(
        (np.array(values),), np.mean, n_resamples=9999, random_state=np.random.default_rng(1)
    ).confidence_interval
    assert mine is not None
    assert (mine.low, mine.high) == (theirs.low, theirs.high)
    assert mine == mean_interval(values)


def test_the_mean_s_interval_is_near_student_s_on_normal_runs() -> None:
    values = np.random.default_rng(11).normal(100.0, 5.0, 60)
    interval = mean_interval(list(values))
    low, high = stats.t.interval(0.95, 59, loc=values.mean(), scale=stats.sem(values))
    assert interval is not None
    assert interval.low == pytest.approx(low, abs=0.2) and interval.high == pytest.approx(
        high, abs=0.2
    )


def test_identical_runs_have_no_interval() -> None:
    found = summarise([5.0] * 8)
    assert found is not None and (found.median, found.n) == (5.0, 8)
    assert found.interval is None and mean_interval([5.0] * 8) is None
    assert format_spread(found) == "8 identical runs"


def test_runs_in_two_states_have_no_interval_and_are_counted_by_state() -> None:
    found = summarise([180.0, 178.0, 181.0, 571.0, 182.0, 560.0, 179.0, 177.0, 569.0, 183.0])
    assert found is not None and found.interval is None
    assert mean_interval(found.values) is None
    assert format_spread(found) == "180 (7 of 10) or 569 (3 of 10)"
    assert found.typical == (180.0, 569.0)


def test_pairs_are_made_by_key_alone() -> None:
    first, second = {1: 100.0, 2: 200.0, 4: 1.0, 5: 0.0}, {2: 300.0, 1: 110.0, 3: 9.0, 5: 5.0}
    difference, ratio = paired_difference(first, second), paired_ratio(first, second)
    assert difference is not None and ratio is not None
    assert sorted(difference.values) == [5.0, 10.0, 100.0]
    assert sorted(ratio.values) == [pytest.approx(1.1), 1.5]  # none of nothing
    assert paired_ratio({1: 1.0}, {2: 1.0}) is None


def test_pairing_removes_what_the_seed_brings() -> None:
    # given a spread between seeds far larger than the effect
    first = {seed: 100.0 * seed for seed in range(1, 9)}
    second = {seed: (1.1 + 0.001 * seed) * value for seed, value in first.items()}
    ratio = paired_ratio(first, second)
    assert ratio is not None and ratio.interval is not None
    assert (ratio.interval.low, ratio.interval.high) == pytest.approx((1.101, 1.108))


@pytest.mark.parametrize(
    ("shares", "index"),
    [([1, 1, 1, 1], 1.0), ([1, 0, 0, 0], 0.25), ([50, 30, 20], 1 / (3 * 0.38)), ([7], 1.0)],
)
def test_jain_index_of_known_shares(shares: list[float], index: float) -> None:
    assert jain_index(shares) == pytest.approx(index)


def test_jain_index_is_that_of_the_coefficient_of_variation() -> None:
    shares = np.random.default_rng(3).uniform(1, 9, 20)
    assert jain_index(list(shares)) == pytest.approx(1 / (1 + stats.variation(shares) ** 2))
    assert math.isnan(jain_index([])) and math.isnan(jain_index([0.0, 0.0]))
