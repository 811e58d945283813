# SPDX-License-Identifier: MIT
"""The search of ./lab fit, on made-up labs whose truth is known."""

import math
import random
from collections.abc import Callable, Sequence

import numpy as np
import pytest

from gostlab.search import level_set
from gostlab.search.gaussian_process import Surrogate
from gostlab.search.level_set import ProposedRun, SearchResult, SearchState
from gostlab.search.measured_rates import Observation
from gostlab.search.prior_mean import smooth_minimum

SD = 0.05
LOSS, BUFFER, RATE = (1e-6, 1e-2), (0.03, 3.0), (50.0, 500.0)  # log scales


def at(position: float, ends: tuple[float, float]) -> float:
    """The number at a place of a log scale."""
    return ends[0] * (ends[1] / ends[0]) ** position


def place_of(value: float, ends: tuple[float, float]) -> float:
    return math.log(value / ends[0]) / math.log(ends[1] / ends[0])


def path(loss: float, buffer: float, rate: float) -> list[float]:
    """Mbit/s of cubic and bbr over one and sixteen streams, roughly as theory has them: windows of
    150, RFC 9438's response, a buffer that cubic needs to fill the rate.
    """
    response = 0.05 / loss**0.75
    filled = rate * (0.7 + 0.3 * min(1.0, buffer))
    return [
        min(150.0, response, filled),
        min(filled, 16 * response),
        min(150.0, rate * (1 - loss)),
        rate * (1 - loss) * (0.97 if buffer > 0.1 else 0.9),
    ]


class MadeUp:
    """A lab of a formula, with 2 % of noise that depends on what is asked; short runs get 10 %
    less. It remembers every question.
    """

    def __init__(self, formula: Callable[..., list[float]], noise: float = 0.02) -> None:
        self._formula, self._noise = formula, noise
        self.asked: list[ProposedRun] = []

    def __call__(self, make_requests: Sequence[ProposedRun]) -> list[float | None]:
        self.asked += make_requests
        return [self.answer(ask) for ask in make_requests]

    def answer(self, ask: ProposedRun) -> float | None:
        rate = self._formula(*ask.position)[ask.number]
        noise = random.Random(repr(ask)).gauss(0.0, self._noise)
        return float(rate * 1e6 * math.exp(noise) * (1.0 if ask.full_length else 0.9))


def three(loss: float, buffer: float, rate: float) -> list[float]:
    return path(at(loss, LOSS), at(buffer, BUFFER), at(rate, RATE))


def numbers(rates: Sequence[float]) -> list[Observation]:
    """Measured rates, each known to 5 %."""
    width = math.exp(2 * SD)
    return [
        Observation("", {}, rate * 1e6, rate * 1e6 / width, rate * 1e6 * width, "fit")
        for rate in rates
    ]


def searched(
    rates: Sequence[float],
    parameters: int,
    lab: level_set.Lab,
    points: int,
    members: int,
    seed: int = 1,
) -> SearchResult:
    """What a search for these rates finds."""
    known = SearchState(numbers(rates), lab)
    return level_set.search(known, parameters, points=points, members=members, seed=seed)


@pytest.fixture(scope="module")
def found() -> SearchResult:
    return searched(path(1e-4, 0.3, 200.0), 3, MadeUp(three), 32, 2)


@pytest.mark.slow
def test_a_known_path_is_found_again(found: SearchResult) -> None:
    loss, buffer, rate = found.best
    assert found.misfit < 4 * 4
    assert at(loss, LOSS) == pytest.approx(1e-4, rel=0.25)
    assert at(rate, RATE) == pytest.approx(200.0, rel=0.15)
    filled = path(at(loss, LOSS), at(buffer, BUFFER), at(rate, RATE))
    assert filled == pytest.approx(path(1e-4, 0.3, 200.0), rel=0.15)


@pytest.mark.slow
def test_the_truth_is_among_what_fits_as_well_and_what_cannot_be_is_not(
    found: SearchResult,
) -> None:
    truth = [place_of(1e-4, LOSS), place_of(0.3, BUFFER), place_of(200.0, RATE)]
    assert (found.least <= truth).all() and (truth <= found.most).all()
    assert at(found.most[0], LOSS) < 1e-3
    assert at(found.least[2], RATE) > 150.0


@pytest.mark.slow
def test_a_search_asks_the_same_again_whatever_has_been_answered() -> None:
    def two_of_them(loss: float, rate: float) -> list[float]:
        return path(at(loss, LOSS), 0.3, at(rate, RATE))[:2]

    truth = path(1e-4, 0.3, 200.0)[:2]
    first, again, other = (MadeUp(two_of_them) for _ in range(3))
    one = searched(truth, 2, first, 12, 1, seed=1)
    two = searched(truth, 2, again, 12, 1, seed=1)
    searched(truth, 2, other, 12, 1, seed=2)
    assert first.asked == again.asked
    assert one.best == two.best and (one.equally_good == two.equally_good).all()
    assert other.asked != first.asked


def test_two_parameters_that_trade_off_leave_a_set_and_not_a_point() -> None:
    """Rate is a product: nobody can tell its factors, and no end of their ranges is excluded."""
    lab = MadeUp(lambda first, second: [100.0 * 10 ** (first - second)])
    found = searched([100.0], 2, lab, 24, 3, seed=3)
    assert found.misfit < 4
    ((one, other, correlation),) = found.trade_offs()
    assert (one, other) == (0, 1) and correlation > 0.9
    assert (found.most - found.least > 0.8).all()
    assert len(found.members) >= 3


@pytest.mark.slow
def test_a_number_that_nothing_moves_is_not_run_again_and_again() -> None:
    lab = MadeUp(
        lambda first, second: [100.0, 100.0 * 10 ** (first + math.sin(6 * second))], noise=0.005
    )
    searched([100.0, 300.0], 2, lab, 30, 2)
    short = [ask.number for ask in lab.asked if not ask.full_length]
    assert short.count(0) < short.count(1)


@pytest.mark.slow
def test_what_no_path_explains_keeps_a_large_misfit() -> None:
    lab = MadeUp(lambda first: [100.0 * 10**first, 100.0 * 10**first])
    found = searched([200.0, 800.0], 1, lab, 12, 2)
    assert math.sqrt(found.misfit / 2) > 10
    # the best is between the two, and so is all that fits as badly
    assert 200 < 100 * 10 ** found.best[0] < 800


@pytest.mark.slow
def test_places_without_an_answer_are_left_alone() -> None:
    class Partly(MadeUp):
        def answer(self, ask: ProposedRun) -> float | None:
            return None if ask.position[0] > 0.5 else super().answer(ask)

    lab = Partly(lambda first: [100.0 * 10**first])
    found = searched([200.0], 1, lab, 12, 2)
    assert found.best[0] <= 0.5 and math.sqrt(found.misfit) < 3
    assert found.equally_good.max() < 0.75


@pytest.mark.slow
def test_a_lab_that_never_answers_is_said_to_be_one() -> None:
    with pytest.raises(level_set.NoAnswer):
        searched([1.0], 1, lambda make_requests: [None for _ in make_requests], 6, 1)


def test_a_surrogate_is_sure_where_it_has_seen_and_unsure_elsewhere() -> None:
    positions = np.linspace(0, 0.5, 8)[:, None]
    surrogate = Surrogate(positions, np.ones(8), np.sin(3 * positions[:, 0]))
    mean, variance = surrogate.predict(np.array([[0.25], [1.0]]))
    assert mean[0] == pytest.approx(math.sin(0.75), abs=0.02)
    assert variance[0] < 0.001 < variance[1]


def test_short_runs_are_corrected_by_whole_ones() -> None:
    positions = np.linspace(0, 1, 10)[:, None]
    short = np.concatenate([np.full(10, 1.0), [1.1]])
    surrogate = Surrogate(np.vstack([positions, [[0.5]]]), np.array([0.0] * 10 + [1.0]), short)
    mean, _ = surrogate.predict(np.array([[0.1]]))
    assert mean[0] == pytest.approx(1.1, abs=0.02)


def test_theory_shows_the_way_where_few_runs_do() -> None:
    """Two kinks over a wide range: a rate of 10 is one path in hundreds."""

    def kinked(loss: float, rate: float) -> list[float]:
        limits = (at(rate, (0.5, 2000.0)), 0.05 / at(loss, LOSS) ** 0.75)
        return [min(limits)]

    def theory(_number: int, positions: np.ndarray) -> np.ndarray:
        return np.array([math.log(1.2e6 * kinked(*position)[0]) for position in positions])

    lab = MadeUp(kinked)
    known = SearchState(numbers([10.0]), lab, theory=theory)
    found = level_set.search(known, 2, points=12, members=2, seed=1)
    assert math.sqrt(found.misfit) < 2
    assert len(known.positions) <= 17


@pytest.mark.slow
def test_judges_are_met_by_another_path_that_fits_as_well_if_there_is_one() -> None:
    """The fitted number knows the least of two limits; the judge knows the second alone."""
    ends = (1.0, 1000.0)

    def two(loss: float, rate: float) -> list[float]:
        return [smooth_minimum([at(loss, ends), at(rate, ends)]), at(rate, ends), 3.0]

    def theory(number: int, positions: np.ndarray) -> np.ndarray:
        return np.array([math.log(1e6 * two(*position)[number]) for position in positions])

    lab = MadeUp(two)
    first, met, never = numbers([10.0, 300.0, 900.0])
    known = SearchState([first], lab, theory=theory)
    found = level_set.search(known, 2, points=16, members=2, seed=1)
    known.request_runs([ProposedRun(found.best, number, True) for number in (1, 2)])

    found = level_set.search_for_judges(known, found, [met, never], seed=1)

    def nearest(number: int, judge: Observation) -> float:
        """Of the paths that fit as well, in standard deviations."""
        off = (known.residual(position, number, judge) for position in found.members)
        return min(abs(each) for each in off if not math.isnan(each))

    assert nearest(1, met) < 3
    assert nearest(2, never) > 3 / SD

    asked = len(lab.asked)
    level_set.search_for_judges(known, found, [met], seed=1)
    assert len(lab.asked) == asked, "a path that all judges are met by is there"
