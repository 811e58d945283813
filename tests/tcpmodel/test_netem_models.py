# SPDX-License-Identifier: MIT
"""What netem's random models do on average, against netem's own algorithms drawn many times."""

import random

import pytest

from gostlab.tcpmodel.netem_models import correlated_events, state_loss

DRAWS = 200_000
CHAINS = [
    (0.01, 0.3, 0.2, 0.5, 0.002),
    (0.01, 0.99, 0.0, 1.0, 0.0),
    (0.0, 1.0, 0.0, 1.0, 0.05),
    (0.2, 0.0, 0.5, 0.4, 0.0),
    (0.05, 0.05, 0.1, 0.2, 0.0),
]


def losses_of(chain: tuple[float, ...], draws: int, seed: int) -> int:
    """Return the losses of loss_4state of sch_netem.c among some packets."""
    p13, p31, p32, p23, p14 = chain
    rng, state, lost = random.Random(seed), 1, 0
    for _ in range(draws):
        draw = rng.random()
        if state == 1:
            state = 4 if draw < p14 else 3 if draw < p13 + p14 else 1
        elif state == 2:
            state = 3 if draw < p23 else 2
        elif state == 3:
            state = 2 if draw < p32 else 1 if draw < p31 + p32 else 3
        else:
            state = 1
        lost += state in (3, 4)
    return lost


@pytest.mark.parametrize("chain", CHAINS)
def test_a_chain_of_four_states_loses_its_long_runs_share(chain: tuple[float, ...]) -> None:
    expected = state_loss(*chain)
    low, high = expected.interval(DRAWS)

    assert low <= losses_of(chain, DRAWS, seed=1) <= high
    assert high - low < 0.5 * DRAWS * expected.share


def test_the_spread_of_a_chains_losses_is_that_of_many_repetitions() -> None:
    chain, packets = (0.05, 0.05, 0.1, 0.2, 0.0), 2000
    counts = [losses_of(chain, packets, seed) for seed in range(300)]
    mean = sum(counts) / len(counts)
    variance = sum((count - mean) ** 2 for count in counts) / (len(counts) - 1)

    # A variance of 300 counts is within 8 % of the true one in two of three repetitions.
    assert variance / packets == pytest.approx(state_loss(*chain).variance, rel=0.25)


def test_without_bursts_losses_are_independent() -> None:
    alone = state_loss(0.02, 0.98, 0.0, 1.0, 0.0)

    assert alone.share == pytest.approx(0.02)
    assert alone.variance == pytest.approx(0.02 * 0.98)


@pytest.mark.parametrize("correlation", [0.1, 0.25, 0.5, 0.75])
@pytest.mark.parametrize("share", [0.1, 0.3, 0.5])
def test_correlated_numbers_are_below_a_share_as_often_as_computed(
    share: float, correlation: float
) -> None:
    rng, number, below = random.Random(1), 0.5, 0
    for _ in range(DRAWS):
        number = (1 - correlation) * rng.random() + correlation * number
        below += number <= share
    expected = correlated_events(share, correlation)

    low, high = expected.interval(DRAWS)
    assert low <= below <= high
    assert below / DRAWS == pytest.approx(expected.share, abs=0.006)


def test_a_small_correlated_share_is_much_smaller_than_asked() -> None:
    """One percent with a correlation of 25 %: what tc's manual shows as an example."""
    assert correlated_events(0.01, 0.25).share < 0.001
