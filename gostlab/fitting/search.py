"""The search: which paths explain the measured rates, by as few runs as possible.

Short runs at places that fill the space; then, round after round, at places that may be the best by
what is known so far (Thompson 1933), each number only where it is still unsure; then whole runs at
the best place and at others that fit as well, spread over all of those. What is asked for depends
on the answers and the seed alone: a search that was broken off asks the same again, and the lab
finds the answers that it has.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np
from scipy.stats import chi2, qmc, rankdata

from gostlab.fitting.measurements import SDS_OF_BAND
from gostlab.fitting.surrogate import Surrogate, fit_surrogate

LEAST_RATE_BPS = 1e3  # a run in which nothing came through has no logarithm
BATCH = 4  # places of a round: the same on every machine
SURE = 0.5  # a number is known at a place if it is this sure, in its measurement's sd
CONFIDENCE = 0.95  # of the set of what fits as well
FILLING, AROUND = 256, 128  # candidates of a round: anywhere, and near what fits
BEYOND = 1.1  # drawn from so much more than the space, and set back: its borders have their share
TRADE_OFF = 0.5  # rank correlation from which two parameters are said to trade off
SET_DRAWS, SET_ROUNDS, SET_STEP = 2048, 4, 0.12
KEPT = 400
LAST_TURNS = 3  # of whole runs, until the best and enough others are shown to fit


@dataclass(frozen=True)
class Number:
    """A measured rate: its logarithm, and the standard deviation of that."""

    log_rate: float
    sd: float


@dataclass(frozen=True)
class Ask:
    """One run that is wanted."""

    place: tuple[float, ...]  # of each parameter, 0 to 1
    number: int  # which
    whole: bool  # as long as the measurement, or short
    repetition: int = 1


# Goodput (bit/s) of each run; None where a run gives no answer.
Lab = Callable[[Sequence[Ask]], Sequence["float | None"]]
Snap = Callable[[np.ndarray], np.ndarray]  # places -> the nearest ones that can be asked for
Say = Callable[[str], None]
# ln(rate) as theory has it: of a number, at places
Theory = Callable[[int, np.ndarray], np.ndarray]


def no_theory(_number: int, places: np.ndarray) -> np.ndarray:
    """Nothing is known before the first run."""
    return np.zeros(len(places))


@dataclass(frozen=True)
class Effort:
    """How much may be asked for."""

    points: int  # places of short runs
    members: int  # places of whole runs, besides the best
    repetitions: int = 1  # of whole runs
    short: bool = True  # whether short runs are any shorter than whole ones


@dataclass
class Known:
    """What the lab has said so far."""

    numbers: Sequence[Number]
    answers: dict[Ask, float | None] = field(default_factory=dict)

    def runs_of(self, number: int) -> list[tuple[Ask, float]]:
        """The runs of a number that gave an answer, ln(rate)."""
        return [
            (ask, math.log(max(rate, LEAST_RATE_BPS)))
            for ask, rate in self.answers.items()
            if ask.number == number and rate is not None
        ]

    @property
    def places(self) -> list[tuple[float, ...]]:
        """Every place that was asked about, once."""
        return list(dict.fromkeys(ask.place for ask in self.answers))

    def failed(self) -> list[tuple[float, ...]]:
        """Places at which some run gave no answer."""
        return list(dict.fromkeys(ask.place for ask, rate in self.answers.items() if rate is None))

    def whole(self, place: tuple[float, ...], number: int) -> float | None:
        """ln(rate) of whole runs at a place, the median of their repetitions."""
        found = [
            math.log(max(rate, LEAST_RATE_BPS))
            for ask, rate in self.answers.items()
            if ask.place == place and ask.number == number and ask.whole and rate is not None
        ]
        return float(np.median(found)) if found else None


@dataclass(frozen=True)
class Model:
    """A surrogate per fitted number, of what the lab says beyond theory, and how far both together
    are from what was measured.
    """

    numbers: Sequence[Number]
    surrogates: Sequence[Surrogate]
    theory: Theory = no_theory

    def off(self, index: int, places: np.ndarray) -> np.ndarray:
        """What was measured less what theory says, ln(rate)."""
        return self.numbers[index].log_rate - self.theory(index, places)

    def moments(self, places: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Residuals' means and variances in the measurements' sd: numbers × places."""
        means, variances = [], []
        for index, (number, surrogate) in enumerate(
            zip(self.numbers, self.surrogates, strict=True)
        ):
            mean, variance = surrogate.predict(places)
            means.append((mean - self.off(index, places)) / number.sd)
            variances.append(variance / number.sd**2)
        return np.array(means), np.array(variances)

    def expected(self, places: np.ndarray) -> np.ndarray:
        """The sum of squared residuals that is expected."""
        means, variances = self.moments(places)
        return np.asarray(np.sum(means**2 + variances, axis=0))

    def not_excluded(self, places: np.ndarray) -> np.ndarray:
        """The same as far as it is known: what nobody is sure of counts little."""
        means, variances = self.moments(places)
        return np.asarray(np.sum(means**2 / (1 + variances), axis=0))

    def drawn(self, places: np.ndarray, random: np.ndarray) -> np.ndarray:
        """The sum for functions that may be the true ones: draws × places."""
        total = np.zeros((random.shape[1], len(places)))
        for index, (number, surrogate) in enumerate(
            zip(self.numbers, self.surrogates, strict=True)
        ):
            drawn = surrogate.draw(places, random[index])
            total += ((drawn - self.off(index, places)) / number.sd) ** 2
        return total


@dataclass(frozen=True)
class Found:
    """What a search came to."""

    best: tuple[float, ...]
    misfit: float  # of whole runs at the best place: the sum of squared residuals
    limit: float  # up to which a place fits as well
    members: tuple[tuple[float, ...], ...]  # places of whole runs that fit as well, the best first
    alike: np.ndarray  # a sample of all places that fit as well: n × parameters
    known: Known

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
        if len(self.alike) < 20 or count < 2:
            return []
        ranks = [rankdata(self.alike[:, each]) for each in range(count)]
        found = []
        for first in range(count):
            for second in range(first + 1, count):
                if np.std(ranks[first]) == 0 or np.std(ranks[second]) == 0:
                    continue
                together = float(np.corrcoef(ranks[first], ranks[second])[0, 1])
                if abs(together) >= TRADE_OFF:
                    found.append((first, second, together))
        return found


class NoAnswer(Exception):
    """No place that was tried has an answer for every number."""


def search(
    numbers: Sequence[Number],
    parameters: int,
    lab: Lab,
    effort: Effort,
    *,
    seed: int,
    snap: Snap = lambda places: places,
    say: Say = lambda _text: None,
    theory: Theory = no_theory,
) -> Found:
    """The best place, and all that fit as well. Raises NoAnswer, and what the lab raises."""
    if effort.points < first_points(parameters):
        effort = Effort(first_points(parameters), effort.members, effort.repetitions, effort.short)
    random = np.random.default_rng(seed)
    known = Known(numbers)
    everything = range(len(numbers))

    def ask(places: Sequence[tuple[float, ...]], *, whole: bool, repetitions: int = 1) -> None:
        wanted = [
            Ask(place, number, whole, repetition)
            for repetition in range(1, repetitions + 1)
            for place in places
            for number in everything
        ]
        put(known, lab, wanted)

    first = filling(first_points(parameters), parameters, random, snap)
    say(f"{len(first)} paths that fill the space")
    ask(first, whole=not effort.short)
    model = learn(known, numbers, theory)
    if effort.short:
        say("whole runs where that fits best")
        ask([best_of(model, np.array(known.places), known)], whole=True)
        model = learn(known, numbers, theory)
    tried = len(first)
    while tried < effort.points:
        places = promising(model, known, parameters, random, snap)
        unsure = wanted_runs(model, places, whole=not effort.short)
        if not unsure:
            say("every number is known well enough wherever it matters")
            break
        say(f"paths {tried + 1} to {tried + len(places)}, where it may fit best")
        put(known, lab, unsure)
        tried += len(places)
        model = learn(known, numbers, theory)
    for _ in range(1 + LAST_TURNS):
        chosen = settled(model, known, parameters, random, snap, 1 + effort.members)
        before = len(known.answers)
        say(f"whole runs on {len(chosen)} of the paths that fit")
        ask(chosen, whole=True, repetitions=effort.repetitions)
        if len(known.answers) == before:
            break
        model = learn(known, numbers, theory)
    return conclude(model, known, parameters, random)


def put(known: Known, lab: Lab, wanted: Sequence[Ask]) -> None:
    """Have the lab answer what is not known yet."""
    new = [ask for ask in dict.fromkeys(wanted) if ask not in known.answers]
    if new:
        known.answers.update(zip(new, lab(new), strict=True))


def first_points(parameters: int) -> int:
    """How many places fill the space: 6, 9, 12, …"""
    return 3 * parameters + 3


def filling(
    count: int, parameters: int, random: np.random.Generator, snap: Snap
) -> list[tuple[float, ...]]:
    """Places that fill the space, its borders too: a Latin hypercube, spread out and stretched."""
    sampler = qmc.LatinHypercube(parameters, seed=random, optimization="random-cd")
    places = sampler.random(count)
    least, most = places.min(axis=0), places.max(axis=0)
    return as_places(snap((places - least) / (most - least)))


def as_places(places: np.ndarray) -> list[tuple[float, ...]]:
    """Each place once."""
    return list(dict.fromkeys(tuple(map(float, place)) for place in places))


def learn(known: Known, numbers: Sequence[Number], theory: Theory) -> Model:
    """The surrogates of all that is known. Raises NoAnswer."""
    surrogates = []
    for number in range(len(numbers)):
        runs = known.runs_of(number)
        if len(runs) < 2:
            raise NoAnswer
        places = np.array([ask.place for ask, _ in runs])
        surrogates.append(
            fit_surrogate(
                places,
                np.array([float(ask.whole) for ask, _ in runs]),
                np.array([value for _, value in runs]) - theory(number, places),
            )
        )
    return Model(numbers, surrogates, theory)


def possible(places: np.ndarray, known: Known) -> np.ndarray:
    """The places whose nearest neighbour among those tried gave an answer."""
    failed = known.failed()
    if not failed:
        return places
    tried = np.array(known.places)
    bad = np.array([place in set(failed) for place in known.places])
    apart = np.sum((places[:, None, :] - tried[None, :, :]) ** 2, axis=2)
    return np.asarray(places[~bad[np.argmin(apart, axis=1)]])


def best_of(model: Model, places: np.ndarray, known: Known) -> tuple[float, ...]:
    """The place that is expected to fit best."""
    able = possible(places, known)
    able = able if len(able) else places
    return tuple(map(float, able[int(np.argmin(model.expected(able)))]))


def candidates(
    model: Model, known: Known, parameters: int, random: np.random.Generator, snap: Snap
) -> np.ndarray:
    """Places anywhere, and near what fits."""
    anywhere = np.clip(BEYOND * (random.random((FILLING, parameters)) - 0.5) + 0.5, 0, 1)
    centres = np.array(known.places)
    centres = centres[np.argsort(model.expected(centres), kind="stable")[:8]]
    steps = random.normal(0.0, 0.08, (AROUND, parameters))
    near = np.clip(centres[random.integers(len(centres), size=AROUND)] + steps, 0, 1)
    places = np.array(as_places(snap(np.vstack([anywhere, near]))))
    return possible(places, known)


def promising(
    model: Model, known: Known, parameters: int, random: np.random.Generator, snap: Snap
) -> list[tuple[float, ...]]:
    """Half of them may be the best if things are as they may be; the others are of those that
    cannot be excluded the ones of which least is known.
    """
    places = candidates(model, known, parameters, random, snap)
    if not len(places):
        return []
    half = BATCH // 2
    drawn = model.drawn(places, random.normal(size=(len(model.numbers), half, len(places))))
    best = as_places(places[np.argmin(drawn, axis=1)])
    least = float(np.min(model.expected(places)))
    open_still = places[
        model.not_excluded(places) <= limit_of(least, len(model.numbers), parameters)
    ]
    if len(open_still):
        _, variances = model.moments(open_still)
        unsure = open_still[
            np.argsort(-variances.sum(axis=0), kind="stable")[: len(open_still) // 4 + 1]
        ]
        best = spread_out(best, unsure, len(best) + BATCH - half)
    return best


def wanted_runs(model: Model, places: Sequence[tuple[float, ...]], *, whole: bool) -> list[Ask]:
    """Runs of each number at the places where it is not known well enough."""
    if not places:
        return []
    _, variances = model.moments(np.array(places))
    return [
        Ask(place, number, whole)
        for column, place in enumerate(places)
        for number in range(len(model.numbers))
        if variances[number, column] > SURE**2
    ]


def limit_of(misfit: float, numbers: int, parameters: int) -> float:
    """The sum of squared residuals up to which a place fits as well as the best: the region of a
    nonlinear regression (Seber and Wild 1989, section 5.3) by chi-square. Where the best does not
    explain the numbers, their uncertainty is taken as larger in that proportion.
    """
    scale = max(1.0, misfit / max(1, numbers - parameters))
    return misfit + scale * float(chi2.ppf(CONFIDENCE, parameters))


def alike(
    model: Model, known: Known, limit: float, parameters: int, random: np.random.Generator
) -> np.ndarray:
    """A sample of the places that are not excluded: first anywhere, then around those found."""
    start = np.vstack([random.random((SET_DRAWS, parameters)), np.array(known.places)])
    inside = within(model, known, start, limit)
    for _ in range(SET_ROUNDS):
        if not len(inside):
            break
        centres = inside[random.integers(len(inside), size=SET_DRAWS)]
        steps = random.normal(0.0, SET_STEP, centres.shape)
        # Each step along one parameter or along all, so that thin sets are walked too.
        alone = np.eye(parameters)[random.integers(parameters, size=SET_DRAWS)]
        steps = np.where(random.random((SET_DRAWS, 1)) < 0.5, steps * alone, steps * 0.4)
        moved = np.clip(centres + steps, 0.0, 1.0)
        inside = np.vstack([inside, within(model, known, moved, limit)])
    return inside


def within(model: Model, known: Known, places: np.ndarray, limit: float) -> np.ndarray:
    """The places that are not excluded."""
    able = possible(places, known)
    return able[model.not_excluded(able) <= limit] if len(able) else able


def settled(
    model: Model,
    known: Known,
    parameters: int,
    random: np.random.Generator,
    snap: Snap,
    count: int,
) -> list[tuple[float, ...]]:
    """The place that is expected to fit best, and others that fit as well, as far apart as can be:
    so many with those that whole runs have shown to fit.
    """
    pool = candidates(model, known, parameters, random, snap)
    pool = np.vstack([pool, np.array(known.places)])
    best = best_of(model, pool, known)
    expected = float(model.expected(np.array([best]))[0])
    shown = misfits_of(known)
    limit = limit_of(min([expected, *shown.values()]), len(model.numbers), parameters)
    proven = [place for place in shown if shown[place] <= limit and place != best]
    others = alike(model, known, limit, parameters, random)
    others = snap(others) if len(others) else others
    chosen = spread_out([best, *proven], others, max(1 + len(proven), count))
    return [place for place in chosen if place not in proven]


def misfits_of(known: Known) -> dict[tuple[float, ...], float]:
    """The sum of squared residuals of each place with whole runs of every number."""
    found: dict[tuple[float, ...], float] = {}
    for place in known.places:
        rates = [known.whole(place, number) for number in range(len(known.numbers))]
        if all(rate is not None for rate in rates):
            found[place] = sum(
                ((float(rate or 0.0) - number.log_rate) / number.sd) ** 2
                for rate, number in zip(rates, known.numbers, strict=True)
            )
    return found


def spread_out(
    first: Sequence[tuple[float, ...]], places: np.ndarray, count: int
) -> list[tuple[float, ...]]:
    """Some places and others, each as far from all before it as can be."""
    taken = list(first)
    while len(taken) < count and len(places):
        apart = np.min(
            np.sum((places[:, None, :] - np.array(taken)[None, :, :]) ** 2, axis=2), axis=1
        )
        if apart.max() <= 1e-6:
            break
        taken.append(tuple(map(float, places[int(np.argmax(apart))])))
    return taken


def conclude(model: Model, known: Known, parameters: int, random: np.random.Generator) -> Found:
    """The best of the whole runs, and what fits as well. Raises NoAnswer."""
    misfits = misfits_of(known)
    if not misfits:
        raise NoAnswer
    best = min(misfits, key=lambda place: misfits[place])
    limit = limit_of(misfits[best], len(model.numbers), parameters)
    members = tuple(sorted((p for p in misfits if misfits[p] <= limit), key=lambda p: misfits[p]))
    inside = alike(model, known, limit, parameters, random)
    # What was run says more than what is inferred: its own places always belong.
    if len(inside) > KEPT:
        inside = inside[np.sort(random.permutation(len(inside))[:KEPT])]
    sample = np.vstack([np.array(members), inside]) if len(inside) else np.array(members)
    return Found(best, misfits[best], limit, members, sample, known)


def look_for_judges(
    found: Found,
    judged: Sequence[Number],
    lab: Lab,
    *,
    turns: int = 3,
    seed: int,
    snap: Snap = lambda places: places,
    say: Say = lambda _text: None,
    theory: Theory = no_theory,
) -> Found:
    """Look for paths among those that fit as well that please the judges too, by whole runs of all
    numbers, until one is found: what none of them meets, is not met by chance. The judges' numbers
    stand behind the fitted ones. Raises what the lab raises.
    """
    known = found.known
    first = len(known.numbers)
    random = np.random.default_rng([seed, 1])
    for _ in range(turns if judged else 0):
        if any(pleases(known, place, first, judged) for place in found.members):
            break
        places = np.array(as_places(snap(found.alike)))
        off = np.zeros(len(places))
        for index, number in enumerate(judged):
            runs = known.runs_of(first + index)
            if not runs:
                continue
            tried = np.array([ask.place for ask, _ in runs])
            beyond = np.array([value for _, value in runs]) - theory(first + index, tried)
            mean, _ = fit_surrogate(tried, np.ones(len(runs)), beyond).predict(places)
            rates = mean + theory(first + index, places)
            off += ((rates - number.log_rate) / number.sd) ** 2
        place = tuple(map(float, places[int(np.argmin(off))]))
        numbers = range(first + len(judged))
        wanted = [Ask(place, number, True) for number in numbers]
        if all(ask in known.answers for ask in wanted):
            break
        say("a path that fits as well and may please the judges")
        put(known, lab, wanted)
        model = learn(known, known.numbers, theory)
        found = conclude(model, known, found.alike.shape[1], random)
    return found


def pleases(known: Known, place: tuple[float, ...], first: int, judged: Sequence[Number]) -> bool:
    """Whether whole runs at a place are within the bands of all judges, of which `first` is the
    first one's number.
    """
    for index, number in enumerate(judged):
        rate = known.whole(place, first + index)
        if rate is None or abs(rate - number.log_rate) > SDS_OF_BAND * number.sd:
            return False
    return True
