"""Two programs on two CPUs: what the comparison of this machine with the sandbox rests on."""

from __future__ import annotations

import os

import pytest

from gostlab.bench import twohosts
from gostlab.bench.twohosts import BLOCKS, LARGE, SMALL, Pair


def test_a_calls_cost_follows_from_the_cpu_time_of_two_sizes() -> None:
    def pair(size: int) -> Pair:
        """Writing and reading cost 2 µs and 0.1 ns per byte, each."""
        return Pair(seconds=1.0, cpu_s=2 * BLOCKS * (2e-6 + 0.1e-9 * size))

    assert twohosts.costs(pair(SMALL), pair(LARGE)) == pytest.approx((2.0, 0.1))


def test_a_pair_carries_every_block_and_tells_the_cpu_time_of_both() -> None:
    one = min(os.sched_getaffinity(0))
    done = twohosts.run_pair(SMALL, (one, one))

    assert done.cpu_s > 0 and done.mbit(SMALL) == pytest.approx(
        8e-6 * SMALL * BLOCKS / done.seconds
    )
