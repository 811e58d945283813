# SPDX-License-Identifier: MIT
"""Search for all paths that explain the measured rates, with as few runs as possible.

The search starts with short runs that fill the space. Each following round runs the position that
is expected to fit best, and the most uncertain positions that are not excluded, each only for the
numbers that are still uncertain. Full-length runs follow at the best position and at others that
fit equally well, spread over all of those. The requests depend only on the answers and the seed: an
interrupted search makes the same requests again, and the lab finds the existing answers.
"""

import itertools
import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field

import numpy as np
from scipy.spatial.distance import cdist
from scipy.stats import chi2, qmc, spearmanr

from gostlab.search.gaussian_process import Surrogate
from gostlab.search.measured_rates import SDS_OF_BAND, Observation

MIN_RATE_BPS = 1e3  # minimum rate, so that a run without data has a logarithm
BATCH = 4  # positions per round, the same on every machine
# A number is certain at a position if its standard deviation, relative to the measurement's, is
# below this.
MAX_SD = 0.5
CONFIDENCE = 0.95  # confidence level of the set of equally good positions
TRADE_OFF = 0.5  # minimum rank correlation of two parameters for a trade-off
# These are the size and the steps of a sample of all positions that are not excluded.
DRAWS, ROUNDS, STEP = 2048, 4, 0.12
FEW_DRAWS = 256  # size of the sample from which the next runs are chosen
KEPT = 400
LAST_TURNS = 3  # maximum rounds of full-length runs

Position = tuple[float, ...]  # one value per parameter, 0 to 1


@dataclass(frozen=True)
class ProposedRun:
    """A run that the search requests."""

    position: Position
    number: int  # index of the measured number
    full_length: bool  # whether the run lasts as long as the measurement
    repetition: int = 1


# Returns the goodput (bit/s) of each run, or None for a run without an answer.
Lab = Callable[[Sequence[ProposedRun]], Sequence["float | None"]]


def constant_prior(_number: int, positions: np.ndarray) -> np.ndarray:
    """Return a constant prior mean."""
    return np.zeros(len(positions))


@dataclass
class SearchState:
    """The measured numbers, the lab that answers requests, and its answers so far."""

    numbers: Sequence[Observation]
    lab: Lab
    # Maps positions to the nearest ones that can be requested.
    snap: Callable[[np.ndarray], np.ndarray] = lambda positions: positions
    say: Callable[[str], None] = lambda _text: None
    # Returns ln(rate) in theory, from the index of a number and positions.
    theory: Callable[[int, np.ndarray], np.ndarray] = constant_prior
    answers: dict[ProposedRun, float | None] = field(default_factory=dict)

    def request_runs(self, wanted: Iterable[ProposedRun]) -> bool:
        """Have the lab answer new requests, and return whether there were any."""
        new = [ask for ask in dict.fromkeys(wanted) if ask not in self.answers]
        if new:
            self.answers.update(zip(new, self.lab(new), strict=True))
        return bool(new)

    def runs_of(self, number: int) -> list[tuple[ProposedRun, float]]:
        """Return the runs of a number that have an answer, with their rates (bit/s)."""
        return [
            (ask, rate)
            for ask, rate in self.answers.items()
            if ask.number == number and rate is not None
        ]

    @property
    def positions(self) -> list[Position]:
        """Return every requested position once."""
        return list(dict.fromkeys(ask.position for ask in self.answers))

    def full_length_rates(self, position: Position, number: int) -> list[float]:
        """Return the rates of the full-length runs of a number at a position, bit/s."""
        runs = self.runs_of(number)
        return [rate for ask, rate in runs if ask.position == position and ask.full_length]

    def residual(self, position: Position, number: int, measured: Observation) -> float:
        """Return the residual of the median of full-length runs in units of sd, or nan."""
        logs = log_rates(self.full_length_rates(position, number))
        off = (np.median(logs) - measured.log_rate) / measured.sd if len(logs) else math.nan
        return float(off)

    def misfits(self) -> dict[Position, float]:
        """Return the sum of squared residuals by position, if all numbers have full-length runs."""
        sums = {
            position: sum(
                self.residual(position, *numbered) ** 2 for numbered in enumerate(self.numbers)
            )
            for position in self.positions
        }
        return {position: total for position, total in sums.items() if not math.isnan(total)}


def log_rates(rates_bps: Sequence[float]) -> np.ndarray:
    return np.array([math.log(max(rate, MIN_RATE_BPS)) for rate in rates_bps])


class ResidualModel:
    """Model the residuals of the fitted numbers by one surrogate each, relative to theory.

    `first` is the index of the first number. Raises NoAnswer if a number has no runs.
    """

    def __init__(self, known: SearchState, numbers: Sequence[Observation], first: int = 0) -> None:
        self.known, self.numbers, self._first = known, numbers, first
        self._surrogates = []
        for number in range(first, first + len(numbers)):
            runs = known.runs_of(number)
            if not runs:
                raise NoAnswer
            positions = np.array([ask.position for ask, _ in runs])
            full = np.array([float(ask.full_length) for ask, _ in runs])
            beyond = log_rates([rate for _, rate in runs]) - known.theory(number, positions)
            self._surrogates.append(Surrogate(positions, full, beyond))

    def moments(self, positions: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return means and variances of the residuals in units of sd: numbers × positions."""
        means, variances = [], []
        for index, number in enumerate(self.numbers):
            mean, variance = self._surrogates[index].predict(positions)
            rate = mean + self.known.theory(self._first + index, positions)
            means.append((rate - number.log_rate) / number.sd)
            variances.append(variance / number.sd**2)
        return np.array(means), np.array(variances)

    def expected_sum_of_squares(self, positions: np.ndarray) -> np.ndarray:
        """Return the expected sum of squared residuals."""
        means, variances = self.moments(positions)
        return np.asarray(np.sum(means**2 + variances, axis=0))

    def with_answers(self, positions: np.ndarray) -> np.ndarray:
        """Return the positions whose nearest requested neighbour has an answer."""
        failed = {ask.position for ask, rate in self.known.answers.items() if rate is None}
        tried = self.known.positions
        able = np.array([position not in failed for position in tried])
        return np.asarray(positions[able[np.argmin(cdist(positions, np.array(tried)), axis=1)]])

    def limit(self, misfit: float) -> float:
        """Return the maximum sum of squared residuals of an equally good position.

        It is the confidence region of a nonlinear regression (Seber and Wild 1989, section 5.3) by
        chi-square. If the best position does not explain the numbers, their uncertainty is scaled
        up by the same factor.
        """
        parameters = len(self.known.positions[0])
        scale = max(1.0, misfit / max(1, len(self.numbers) - parameters))
        return misfit + scale * float(chi2.ppf(CONFIDENCE, parameters))

    def best_of(self, positions: np.ndarray) -> Position:
        able = self.with_answers(positions)
        able = able if len(able) else positions
        return as_position(able[int(np.argmin(self.expected_sum_of_squares(able)))])

    def not_excluded(self, positions: np.ndarray, limit: float) -> np.ndarray:
        """Return the positions that may be within a limit, given the model's uncertainty."""
        able = self.with_answers(positions)
        if not len(able):
            return able
        means, variances = self.moments(able)
        return np.asarray(able[np.sum(means**2 / (1 + variances), axis=0) <= limit])

    def equally_good(
        self, limit: float, random: np.random.Generator, draws: int = DRAWS
    ) -> np.ndarray:
        """Sample the positions that are not excluded: first anywhere, then around those found."""
        tried = np.array(self.known.positions)
        parameters = tried.shape[1]
        start = np.vstack([random.random((draws, parameters)), tried])
        inside = self.not_excluded(start, limit)
        for _ in range(ROUNDS if len(inside) else 0):
            centres = inside[random.integers(len(inside), size=draws)]
            steps = random.normal(0.0, STEP, centres.shape)
            # Steps along one parameter and along all parameters also explore thin sets.
            alone = np.eye(parameters)[random.integers(parameters, size=draws)]
            steps = np.where(random.random((draws, 1)) < 0.5, steps * alone, steps * 0.4)
            moved = np.clip(centres + steps, 0.0, 1.0)
            inside = np.vstack([inside, self.not_excluded(moved, limit)])
        return inside


@dataclass(frozen=True)
class SearchResult:
    best: Position
    misfit: float  # sum of squared residuals of full-length runs at the best position
    limit: float  # maximum sum of an equally good position
    # These positions of full-length runs fit equally well; the best is first.
    members: tuple[Position, ...]
    equally_good: np.ndarray  # sample of all positions that fit equally well: n × parameters

    @property
    def least(self) -> np.ndarray:
        """Return the minimum of each parameter over the equally good positions."""
        return np.asarray(self.equally_good.min(axis=0))

    @property
    def most(self) -> np.ndarray:
        """Return the maximum of each parameter over the equally good positions."""
        return np.asarray(self.equally_good.max(axis=0))

    def trade_offs(self) -> list[tuple[int, int, float]]:
        """Return pairs of parameters that trade off, with their rank correlation."""
        count = self.equally_good.shape[1]
        if len(self.equally_good) < 20:
            return []
        moves = self.most > self.least
        pairs = [
            (
                first,
                second,
                float(spearmanr(self.equally_good[:, first], self.equally_good[:, second])[0]),
            )
            for first, second in itertools.combinations(range(count), 2)
            if moves[first] and moves[second]
        ]
        return [pair for pair in pairs if abs(pair[2]) >= TRADE_OFF]


class NoAnswer(Exception):
    """No requested position has an answer for every number."""


def search(
    known: SearchState,
    parameters: int,
    *,
    points: int,
    members: int,
    repetitions: int = 1,
    short: bool = True,
    seed: int,
) -> SearchResult:
    """Return the best position and all that fit equally well.

        points       positions of short runs
        members      positions of full-length runs, besides the best
        repetitions  repetitions of full-length runs
        short        whether short runs are shorter than full-length ones

    Raises NoAnswer, and the exceptions of the lab.
    """
    random = np.random.default_rng(seed)
    numbers = range(len(known.numbers))
    space = 3 * parameters + 3  # number of space-filling positions: 6, 9, 12, …
    first = fill_space(space, parameters, random, known)
    known.say(f"{len(first)} paths that fill the space")
    known.request_runs(make_requests(first, numbers, full_length=not short))
    if short:
        best = ResidualModel(known, known.numbers).best_of(np.array(known.positions))
        known.say("whole runs where that fits best")
        known.request_runs(make_requests([best], numbers))
    tried = len(first)
    while tried < max(points, space):
        model = ResidualModel(known, known.numbers)
        positions = propose_positions(model, random)
        unsure = uncertain_runs(model, positions, full_length=not short)
        if not unsure:
            known.say("every number is known well enough wherever it matters")
            break
        known.say(f"paths {tried + 1} to {tried + len(positions)}, where it may fit best")
        known.request_runs(unsure)
        tried += len(positions)
    for _ in range(1 + LAST_TURNS):
        chosen = propose_full_runs(ResidualModel(known, known.numbers), random, 1 + members)
        known.say(f"whole runs on {len(chosen)} of the paths that fit")
        if not known.request_runs(make_requests(chosen, numbers, repetitions)):
            break
    return conclude_search(known, random)


def make_requests(
    positions: Iterable[Position],
    numbers: Sequence[int],
    repetitions: int = 1,
    *,
    full_length: bool = True,
) -> list[ProposedRun]:
    return [
        ProposedRun(position, number, full_length, repetition)
        for repetition in range(1, repetitions + 1)
        for position in positions
        for number in numbers
    ]


def fill_space(
    count: int, parameters: int, random: np.random.Generator, known: SearchState
) -> list[Position]:
    """Return positions that fill the space and its borders, by a stretched Latin hypercube."""
    sampler = qmc.LatinHypercube(parameters, seed=random, optimization="random-cd")
    positions = sampler.random(count)
    least, most = positions.min(axis=0), positions.max(axis=0)
    return deduplicate(known.snap((positions - least) / (most - least)))


def as_position(position: np.ndarray) -> Position:
    return tuple(map(float, position))


def deduplicate(positions: np.ndarray) -> list[Position]:
    return list(dict.fromkeys(map(as_position, positions)))


def survey_positions(
    model: ResidualModel, random: np.random.Generator, known_sums: Iterable[float] = ()
) -> tuple[np.ndarray, Position, float]:
    """Return requestable positions, the one that is expected to fit best, and the limit.

    The positions are those requested before and a sample of those that are not excluded.
    `known_sums` has the sums of squared residuals of full-length runs.
    """
    tried = np.array(model.known.positions)
    limit = model.limit(min([float(np.min(model.expected_sum_of_squares(tried))), *known_sums]))
    sample = model.known.snap(model.equally_good(limit, random, FEW_DRAWS))
    positions = np.array(deduplicate(np.vstack([tried, sample])))
    best = model.best_of(positions)
    expected = float(model.expected_sum_of_squares(np.array([best]))[0])
    return positions, best, model.limit(min([expected, *known_sums]))


def propose_positions(model: ResidualModel, random: np.random.Generator) -> list[Position]:
    """Return the position expected to fit best, and the most uncertain ones not excluded."""
    positions, best, limit = survey_positions(model, random)
    open_still = model.not_excluded(positions, limit)
    if not len(open_still):
        return [best]
    _, variances = model.moments(open_still)
    least_known = np.argsort(-variances.sum(axis=0), kind="stable")[: len(open_still) // 4 + 1]
    return spread_out([best], open_still[least_known], BATCH)


def uncertain_runs(
    model: ResidualModel, positions: Sequence[Position], *, full_length: bool
) -> list[ProposedRun]:
    """Return requests for each number at the positions where it is uncertain."""
    _, variances = model.moments(np.array(positions))
    return [
        ProposedRun(position, number, full_length)
        for column, position in enumerate(positions)
        for number in range(len(model.numbers))
        if variances[number, column] > MAX_SD**2
    ]


def propose_full_runs(
    model: ResidualModel, random: np.random.Generator, count: int
) -> list[Position]:
    """Return the position expected to fit best and others far apart, for full-length runs.

    Positions that are known to fit count towards `count` and are not returned.
    """
    misfits = model.known.misfits()
    _, best, limit = survey_positions(model, random, misfits.values())
    proven = [position for position in misfits if misfits[position] <= limit and position != best]
    others = model.known.snap(model.equally_good(limit, random))
    chosen = spread_out([best, *proven], others, max(1 + len(proven), count))
    return [position for position in chosen if position not in proven]


def spread_out(first: Sequence[Position], positions: np.ndarray, count: int) -> list[Position]:
    """Extend positions by others, each as far from all previous ones as possible."""
    taken = list(first)
    while len(taken) < count and len(positions):
        apart = np.min(cdist(positions, np.array(taken)), axis=1)
        if apart.max() <= 1e-3:
            break
        taken.append(as_position(positions[int(np.argmax(apart))]))
    return taken


def conclude_search(known: SearchState, random: np.random.Generator) -> SearchResult:
    """Return the best of the full-length runs, and the equally good positions. Raises NoAnswer."""
    model = ResidualModel(known, known.numbers)
    misfits = known.misfits()
    if not misfits:
        raise NoAnswer
    ranked = sorted(misfits, key=lambda position: misfits[position])
    limit = model.limit(misfits[ranked[0]])
    members = tuple(position for position in ranked if misfits[position] <= limit)
    inside = model.equally_good(limit, random)
    # The positions of runs are more certain than inferred ones and always belong to the sample.
    if len(inside) > KEPT:
        inside = inside[np.sort(random.permutation(len(inside))[:KEPT])]
    sample = np.vstack([np.array(members), inside])
    return SearchResult(ranked[0], misfits[ranked[0]], limit, members, sample)


def search_for_judges(
    known: SearchState,
    result: SearchResult,
    judges: Sequence[Observation],
    *,
    turns: int = 3,
    seed: int,
) -> SearchResult:
    """Search among the equally good paths for one that also explains the judges' numbers.

    Each turn makes full-length runs of all numbers. If no path explains the judges' numbers, that
    is then not due to chance. Their indices follow those of the fitted numbers. Raises the
    exceptions of the lab.
    """
    judged = list(enumerate(judges, len(known.numbers)))
    random = np.random.default_rng([seed, 1])
    for _ in range(turns if judged else 0):
        if any(
            all(abs(known.residual(position, *pair)) <= SDS_OF_BAND for pair in judged)
            for position in result.members
        ):
            break
        positions = np.array(deduplicate(known.snap(result.equally_good)))
        off = np.zeros(len(positions))
        for index, number in judged:
            if known.runs_of(index):
                means, _ = ResidualModel(known, [number], index).moments(positions)
                off += means[0] ** 2
        best = as_position(positions[int(np.argmin(off))])
        wanted = make_requests([best], range(len(known.numbers) + len(judged)))
        if known.answers.keys() >= set(wanted):
            break
        known.say("a path that fits as well and may please the judges")
        known.request_runs(wanted)
        result = conclude_search(known, random)
    return result
