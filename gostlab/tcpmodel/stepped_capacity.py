# SPDX-License-Identifier: MIT
"""Compute the capacity of a path whose rate changes."""

import itertools
from bisect import bisect_right
from collections.abc import Sequence


class SteppedCapacity:
    """Compute the bits that a rate that changes in steps carries between two times."""

    def __init__(self, steps: Sequence[tuple[float, float]]) -> None:
        """Take the steps as (begin in s, rate in bit/s), in order of time."""
        self._at_s = [at_s for at_s, _ in steps]
        self._rates_bps = [rate_bps for _, rate_bps in steps]
        lengths = (later - sooner for sooner, later in itertools.pairwise(self._at_s))
        pieces = (length * rate for length, rate in zip(lengths, self._rates_bps, strict=False))
        self._bits = [0.0, *itertools.accumulate(pieces)]

    def bits(self, from_s: float, until_s: float) -> float:
        return self._until(until_s) - self._until(from_s)

    def _until(self, at_s: float) -> float:
        step = max(0, bisect_right(self._at_s, at_s) - 1)
        return self._bits[step] + (at_s - self._at_s[step]) * self._rates_bps[step]
