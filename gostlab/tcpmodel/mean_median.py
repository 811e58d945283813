# SPDX-License-Identifier: MIT
"""Compute mean and median as `statistics` does, without its import of fractions and decimal."""

import math
from collections.abc import Iterable, Sequence


def mean(values: Sequence[float]) -> float:
    """Return the mean of at least one value (statistics.fmean)."""
    return math.fsum(values) / len(values)


def median(values: Iterable[float]) -> float:
    """Return the median of at least one value (statistics.median)."""
    ordered = sorted(values)
    middle = len(ordered) // 2
    return ordered[middle] if len(ordered) % 2 else (ordered[middle - 1] + ordered[middle]) / 2
