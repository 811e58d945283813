# SPDX-License-Identifier: MIT
"""Mean and median, against the standard library's."""

import random
import statistics

import pytest

from gostlab.tcpmodel.mean_median import mean, median


@pytest.mark.parametrize("count", [1, 2, 3, 10, 101])
def test_they_are_those_of_the_standard_library(count: int) -> None:
    values = [random.Random(count + index).uniform(-1e6, 1e9) for index in range(count)]
    assert mean(values) == statistics.fmean(values)
    assert median(iter(values)) == statistics.median(values)
