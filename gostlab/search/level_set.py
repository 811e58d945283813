"""The search: which paths explain the measured rates, by as few runs as possible.

Short runs at places that fill the space; then, round after round, at the place that is expected to
fit best and at those of which least is known among all that are not excluded, each number only
where it is still unsure; then whole runs at the best place and at others that fit as well, spread
over all of those. What is requested depends on the answers and the seed alone: a search that was
broken off asks the same again, and the lab finds the answers that it has.
"""

import itertools
import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field

import numpy as np
from scipy.spatial.distance import cdist
from scipy.stats import chi2, qmc, spearmanr

from gostlab.search.gaussian_process import Surrogate
from gostlab.search.observations import SDS_OF_BAND, Observation

MIN_RATE_BPS = 1e3  # a run in which nothing came through has no logarithm
BATCH = 4  # places of a round: the same on every machine
SURE = 0.5  # a number is known at a place if it is this sure, in its measurement's sd
CONFIDENCE = 0.95  # of the set of what fits as well
TRADE_OFF = 0.5  # rank correlation from which two parameters are said to trade off
DRAWS, ROUNDS, STEP = 2048, 4, 0.12  # of a sample of all places that are not excluded
FEW_DRAWS = 256  # of one that is looked through for the next runs
KEPT = 400
LAST_TURNS = 3  # of whole runs, until the best and enough others are shown to fit

Place = tuple[float, ...]  # of each parameter, 0 to 1


@dataclass(frozen=True)
class Ask:
    """One run that is wanted."""

    place: Place
    number: int  # which
    full_length: bool  # as long as the measurement, or short
    repetition: int = 1


# Goodput (bit/s) of each run; None where a run gives no answer.
Lab = Callable[[Sequence[Ask]], Sequence["float | None"]]


def no_theory(_number: int, places: np.ndarray) -> np.ndarray:
    """Nothing is known before the first run."""
    return np.zeros(len(places))


@dataclass
class Known:
    """What is to be explained, who is asked, and what the lab has said so far."""

    numbers: Sequence[Observation]
    lab: Lab
    # places -> the nearest ones that can be requested
    snap: Callable[[np.ndarray], np.ndarray] = lambda places: places
    say: Callable[[str], None] = lambda _text: None
    # ln(rate) as theory has it: of a number, at places
    theory: Callable[[int, np.ndarray], np.ndarray] = no_theory
    answers: dict[Ask, float | None] = field(default_factory=dict)

    def ask(self, wanted: Iterable[Ask]) -> bool:
        """Have the lab answer what is not known yet; whether there was anything."""
        new = [ask for ask in dict.fromkeys(wanted) if ask not in self.answers]
        if new:
            self.answers.update(zip(new, self.lab(new), strict=True))
        return bool(new)

    def runs_of(self, number: int) -> list[tuple[Ask, float]]:
        """The runs of a number that gave an answer, bit/s."""
        return [
            (ask, rate)
            for ask, rate in self.answers.items()
            if ask.number == number and rate is not None
        ]

    @property
    def places(self) -> list[Place]:
        """Every place that was asked about, once."""
        return list(dict.fromkeys(ask.place for ask in self.answers))

    def whole_runs(self, place: Place, number: int) -> list[float]:
        """What the whole runs of a number at a place got, bit/s."""
        runs = self.runs_of(number)
        return [rate for ask, rate in runs if ask.place == place and ask.full_length]

    def residual(self, place: Place, number: int, measured: Observation) -> float:
        """How far the median of whole runs is from a measured number, in its sd; nan of none."""
        found = log_rates(self.whole_runs(place, number))
        off = (np.median(found) - measured.log_rate) / measured.sd if len(found) else math.nan
        return float(off)

    def misfits(self) -> dict[Place, float]:
        """The sum of squared residuals of each place with whole runs of every number."""
        sums = {
            place: sum(self.residual(place, *each) ** 2 for each in enumerate(self.numbers))
            for place in self.places
        }
        return {place: found for place, found in sums.items() if not math.isnan(found)}


def log_rates(rates_bps: Sequence[float]) -> np.ndarray:
    return np.array([math.log(max(rate, MIN_RATE_BPS)) for rate in rates_bps])


class ResidualModel:
    """A surrogate per fitted number, of what the lab says beyond theory, and how far both together
    are from what was measured. `first`: which number of the runs is the first. Raises NoAnswer
    where one has no runs.
    """

    def __init__(self, known: Known, numbers: Sequence[Observation], first: int = 0) -> None:
        self.known, self.numbers, self._first = known, numbers, first
        self._surrogates = []
        for number in range(first, first + len(numbers)):
            runs = known.runs_of(number)
            if not runs:
                raise NoAnswer
            places = np.array([ask.place for ask, _ in runs])
            full = np.array([float(ask.full_length) for ask, _ in runs])
            beyond = log_rates([rate for _, rate in runs]) - known.theory(number, places)
            self._surrogates.append(Surrogate(places, full, beyond))

    def moments(self, places: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Residuals' means and variances in the measurements' sd: numbers × places."""
        means, variances = [], []
        for index, number in enumerate(self.numbers):
            mean, variance = self._surrogates[index].predict(places)
            rate = mean + self.known.theory(self._first + index, places)
            means.append((rate - number.log_rate) / number.sd)
            variances.append(variance / number.sd**2)
        return np.array(means), np.array(variances)

    def expected(self, places: np.ndarray) -> np.ndarray:
        """The sum of squared residuals that is expected."""
        means, variances = self.moments(places)
        return np.asarray(np.sum(means**2 + variances, axis=0))

    def possible(self, places: np.ndarray) -> np.ndarray:
        """The places whose nearest neighbour among those tried gave an answer."""
        failed = {ask.place for ask, rate in self.known.answers.items() if rate is None}
        tried = self.known.places
        able = np.array([place not in failed for place in tried])
        return np.asarray(places[able[np.argmin(cdist(places, np.array(tried)), axis=1)]])

    def limit(self, misfit: float) -> float:
        """The sum of squared residuals up to which a place fits as well as the best: the region of
        a nonlinear regression (Seber and Wild 1989, section 5.3) by chi-square. Where the best does
        not explain the numbers, their uncertainty is taken as larger in that proportion.
        """
        parameters = len(self.known.places[0])
        scale = max(1.0, misfit / max(1, len(self.numbers) - parameters))
        return misfit + scale * float(chi2.ppf(CONFIDENCE, parameters))

    def best_of(self, places: np.ndarray) -> Place:
        able = self.possible(places)
        able = able if len(able) else places
        return as_place(able[int(np.argmin(self.expected(able)))])

    def not_excluded(self, places: np.ndarray, limit: float) -> np.ndarray:
        """The places within a limit as far as is known: what nobody is sure of counts little."""
        able = self.possible(places)
        if not len(able):
            return able
        means, variances = self.moments(able)
        return np.asarray(able[np.sum(means**2 / (1 + variances), axis=0) <= limit])

    def alike(self, limit: float, random: np.random.Generator, draws: int = DRAWS) -> np.ndarray:
        """A sample of the places that are not excluded: first anywhere, then around those found."""
        tried = np.array(self.known.places)
        parameters = tried.shape[1]
        start = np.vstack([random.random((draws, parameters)), tried])
        inside = self.not_excluded(start, limit)
        for _ in range(ROUNDS if len(inside) else 0):
            centres = inside[random.integers(len(inside), size=draws)]
            steps = random.normal(0.0, STEP, centres.shape)
            # Each step along one parameter or along all, so that thin sets are walked too.
            alone = np.eye(parameters)[random.integers(parameters, size=draws)]
            steps = np.where(random.random((draws, 1)) < 0.5, steps * alone, steps * 0.4)
            moved = np.clip(centres + steps, 0.0, 1.0)
            inside = np.vstack([inside, self.not_excluded(moved, limit)])
        return inside


@dataclass(frozen=True)
class SearchResult:
    best: Place
    misfit: float  # of whole runs at the best place: the sum of squared residuals
    limit: float  # up to which a place fits as well
    members: tuple[Place, ...]  # places of whole runs that fit as well, the best first
    alike: np.ndarray  # a sample of all places that fit as well: n × parameters

    @property
    def least(self) -> np.ndarray:
        """Of each parameter, over what fits as well."""
        return np.asarray(self.alike.min(axis=0))

    @property
    def most(self) -> np.ndarray:
        """The same from above."""
        return np.asarray(self.alike.max(axis=0))

    def trade_offs(self) -> list[tuple[int, int, float]]:
        """Pairs of parameters that make up for each other, and their ranks' correlation."""
        count = self.alike.shape[1]
        if len(self.alike) < 20:
            return []
        moves = self.most > self.least
        found = [
            (first, second, float(spearmanr(self.alike[:, first], self.alike[:, second])[0]))
            for first, second in itertools.combinations(range(count), 2)
            if moves[first] and moves[second]
        ]
        return [each for each in found if abs(each[2]) >= TRADE_OFF]


class NoAnswer(Exception):
    """No place that was tried has an answer for every number."""


def search(
    known: Known,
    parameters: int,
    *,
    points: int,
    members: int,
    repetitions: int = 1,
    short: bool = True,
    seed: int,
) -> SearchResult:
    """The best place, and all that fit as well. Raises NoAnswer, and what the lab raises.

    points       places of short runs
    members      places of whole runs, besides the best
    repetitions  of whole runs
    short        whether short runs are any shorter than whole ones
    """
    random = np.random.default_rng(seed)
    each = range(len(known.numbers))
    space = 3 * parameters + 3  # places that fill it: 6, 9, 12, …
    first = filling(space, parameters, random, known)
    known.say(f"{len(first)} paths that fill the space")
    known.ask(asks(first, each, full_length=not short))
    if short:
        best = ResidualModel(known, known.numbers).best_of(np.array(known.places))
        known.say("whole runs where that fits best")
        known.ask(asks([best], each))
    tried = len(first)
    while tried < max(points, space):
        model = ResidualModel(known, known.numbers)
        places = promising(model, random)
        unsure = wanted_runs(model, places, full_length=not short)
        if not unsure:
            known.say("every number is known well enough wherever it matters")
            break
        known.say(f"paths {tried + 1} to {tried + len(places)}, where it may fit best")
        known.ask(unsure)
        tried += len(places)
    for _ in range(1 + LAST_TURNS):
        chosen = for_whole_runs(ResidualModel(known, known.numbers), random, 1 + members)
        known.say(f"whole runs on {len(chosen)} of the paths that fit")
        if not known.ask(asks(chosen, each, repetitions)):
            break
    return conclude(known, random)


def asks(
    places: Iterable[Place],
    numbers: Sequence[int],
    repetitions: int = 1,
    *,
    full_length: bool = True,
) -> list[Ask]:
    """Runs of some numbers at some places."""
    return [
        Ask(place, number, full_length, repetition)
        for repetition in range(1, repetitions + 1)
        for place in places
        for number in numbers
    ]


def filling(count: int, parameters: int, random: np.random.Generator, known: Known) -> list[Place]:
    """Places that fill the space, its borders too: a Latin hypercube, spread out and stretched."""
    sampler = qmc.LatinHypercube(parameters, seed=random, optimization="random-cd")
    places = sampler.random(count)
    least, most = places.min(axis=0), places.max(axis=0)
    return each_once(known.snap((places - least) / (most - least)))


def as_place(place: np.ndarray) -> Place:
    return tuple(map(float, place))


def each_once(places: np.ndarray) -> list[Place]:
    return list(dict.fromkeys(map(as_place, places)))


def outlook(
    model: ResidualModel, random: np.random.Generator, shown: Iterable[float] = ()
) -> tuple[np.ndarray, Place, float]:
    """Places that may be requested: those tried, and a sample of those that are not excluded; the
    one of them that is expected to fit best; and up to which sum another fits as well. shown: what
    whole runs came to.
    """
    tried = np.array(model.known.places)
    limit = model.limit(min([float(np.min(model.expected(tried))), *shown]))
    sample = model.known.snap(model.alike(limit, random, FEW_DRAWS))
    places = np.array(each_once(np.vstack([tried, sample])))
    best = model.best_of(places)
    expected = float(model.expected(np.array([best]))[0])
    return places, best, model.limit(min([expected, *shown]))


def promising(model: ResidualModel, random: np.random.Generator) -> list[Place]:
    """The place expected to fit best, and those not excluded of which least is known."""
    places, best, limit = outlook(model, random)
    open_still = model.not_excluded(places, limit)
    if not len(open_still):
        return [best]
    _, variances = model.moments(open_still)
    least_known = np.argsort(-variances.sum(axis=0), kind="stable")[: len(open_still) // 4 + 1]
    return spread_out([best], open_still[least_known], BATCH)


def wanted_runs(model: ResidualModel, places: Sequence[Place], *, full_length: bool) -> list[Ask]:
    """Runs of each number at the places where it is not known well enough."""
    _, variances = model.moments(np.array(places))
    return [
        Ask(place, number, full_length)
        for column, place in enumerate(places)
        for number in range(len(model.numbers))
        if variances[number, column] > SURE**2
    ]


def for_whole_runs(model: ResidualModel, random: np.random.Generator, count: int) -> list[Place]:
    """The place expected to fit best, and others far apart: so many with those shown to fit."""
    shown = model.known.misfits()
    _, best, limit = outlook(model, random, shown.values())
    proven = [place for place in shown if shown[place] <= limit and place != best]
    others = model.known.snap(model.alike(limit, random))
    chosen = spread_out([best, *proven], others, max(1 + len(proven), count))
    return [place for place in chosen if place not in proven]


def spread_out(first: Sequence[Place], places: np.ndarray, count: int) -> list[Place]:
    """Some places and others, each as far from all before it as can be."""
    taken = list(first)
    while len(taken) < count and len(places):
        apart = np.min(cdist(places, np.array(taken)), axis=1)
        if apart.max() <= 1e-3:
            break
        taken.append(as_place(places[int(np.argmax(apart))]))
    return taken


def conclude(known: Known, random: np.random.Generator) -> SearchResult:
    """The best of the whole runs, and what fits as well. Raises NoAnswer."""
    model = ResidualModel(known, known.numbers)
    misfits = known.misfits()
    if not misfits:
        raise NoAnswer
    ranked = sorted(misfits, key=lambda place: misfits[place])
    limit = model.limit(misfits[ranked[0]])
    members = tuple(place for place in ranked if misfits[place] <= limit)
    inside = model.alike(limit, random)
    # What was run says more than what is inferred: its own places always belong.
    if len(inside) > KEPT:
        inside = inside[np.sort(random.permutation(len(inside))[:KEPT])]
    sample = np.vstack([np.array(members), inside])
    return SearchResult(ranked[0], misfits[ranked[0]], limit, members, sample)


def look_for_judges(
    known: Known, found: SearchResult, judges: Sequence[Observation], *, turns: int = 3, seed: int
) -> SearchResult:
    """Look for paths among those that fit as well that please the judges too, by whole runs of all
    numbers, until one is found: what none of them meets, is not met by chance. The judges' numbers
    stand behind the fitted ones. Raises what the lab raises.
    """
    judged = list(enumerate(judges, len(known.numbers)))
    random = np.random.default_rng([seed, 1])
    for _ in range(turns if judged else 0):
        if any(
            all(abs(known.residual(place, *each)) <= SDS_OF_BAND for each in judged)
            for place in found.members
        ):
            break
        places = np.array(each_once(known.snap(found.alike)))
        off = np.zeros(len(places))
        for index, number in judged:
            if known.runs_of(index):
                means, _ = ResidualModel(known, [number], index).moments(places)
                off += means[0] ** 2
        best = as_place(places[int(np.argmin(off))])
        wanted = asks([best], range(len(known.numbers) + len(judged)))
        if known.answers.keys() >= set(wanted):
            break
        known.say("a path that fits as well and may please the judges")
        known.ask(wanted)
        found = conclude(known, random)
    return found
