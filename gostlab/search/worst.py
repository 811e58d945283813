"""Search for the worst path of a congestion control by an optimiser.

The optimiser proposes paths and the lab runs them. The worst paths are repeated with other seeds.
The requests depend only on the answers and the seed: an interrupted search makes the same requests
again, and the lab finds the existing answers.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any

from gostlab import api, sandbox
from gostlab.errors import bounded
from gostlab.install import venvs
from gostlab.registry.congestion_controls import check_known, parse_control
from gostlab.results import metrics, read_object
from gostlab.search import fit
from gostlab.search.search_space import Axis
from gostlab.spec import preflight
from gostlab.spec.expand import expand
from gostlab.spec.experiment import ExperimentFile, with_repetitions
from gostlab.spec.run_spec import RunSpec
from gostlab.spec.yaml_source import BadInput

MATRIX = "search"
BATCH = 4  # paths per turn, the same on every machine
CONFIRMED_PATHS, REPETITIONS = 3, 5  # number of paths to confirm, and runs of each
MIN_BUDGET, MAX_BUDGET = 10, 10_000
FIRST_SHARE = 5  # The first fifth of the budget is drawn at random.
MINE, AGAINST = "mine", "against"


def share(folder: Path) -> float | None:
    """Return the congestion control's share of the goodput of both."""
    flows = (read_object(folder / "flows.json") or {}).get("flows") or ()
    rates = {row["name"]: float(row["goodput_bps"]) for row in flows}
    total = sum(rates.values())
    return rates[MINE] / total if total else None


def utilisation(folder: Path) -> float | None:
    """Return the received payload rate relative to the bottleneck's rate."""
    description, goodput = read_object(folder / "run.json"), metrics.goodput_bps(folder)
    if description is None or goodput is None:
        return None
    return goodput / float(description["path"]["forward"]["rate_bps"])


def rtt_inflation(folder: Path) -> float | None:
    """Return the 95th percentile of the RTT over time, relative to the idle RTT."""
    latency = metrics.latency(folder)
    if latency is None or latency.srtt_ms is None:
        return None
    return latency.srtt_ms.p95 / latency.idle_rtt_ms


@dataclass(frozen=True)
class Measure:
    """A metric that judges a path. With `worst_is_most` a larger value is worse."""

    name: str
    says: str
    of: Callable[[Path], float | None]
    show: Callable[[float], str]
    worst_is_most: bool = False
    needs_other: bool = False

    def loss(self, value: float) -> float:
        """Return the value that the optimiser minimises."""
        return -value if self.worst_is_most else value


def percent(value: float) -> str:
    return f"{100 * value:.3g} %"


MEASURES = {
    measure.name: measure
    for measure in (
        Measure("share", "what it gets of both flows' sum", share, percent, needs_other=True),
        Measure("utilisation", "payload over the bottleneck's rate", utilisation, percent),
        Measure(
            "delay",
            "95 % of the round trip over the idle one",
            rtt_inflation,
            "{:.3g} times".format,
            worst_is_most=True,
        ),
    )
}


@dataclass(frozen=True)
class WorstSearchOptions:
    cc: str
    against: str | None
    axes: tuple[Axis, ...]
    measure: Measure
    budget: int
    seed: int
    settings: Mapping[str, str]
    results: Path

    @property
    def name(self) -> str:
        """Return the name of the experiment and of its results' folder."""
        parts = [self.cc, *([self.against] if self.against else []), self.measure.name]
        safe = "-".join("".join(c if c.isalnum() else "-" for c in part) for part in parts)
        return f"worst-{safe.lower().strip('-')[:50]}"

    @property
    def searched(self) -> int:
        """Return the number of runs that search; the remaining ones confirm."""
        return self.budget - min(CONFIRMED_PATHS * (REPETITIONS - 1), self.budget // 3)

    def document(self) -> dict[str, Any]:
        """Return the experiment's document; each path replaces the levels of the factors."""
        flows = {MINE: {"cc": self.cc}}
        if self.against:
            flows[AGAINST] = {"cc": self.against}
        over = ", ".join(axis.sets for axis in self.axes)
        return {
            "name": self.name,
            "title": f"Where {self.cc} does worst{self.beside}, by {self.measure.name}",
            "question": f"On which path is {self.measure.says} worst, over {over}?",
            "seed": self.seed,
            "settings": {
                "topology": "dumbbell",
                "profile": "plain-100ms",
                "duration": "20s",
                "sample": "100ms",
                "buffers": "bdp",
                **self.settings,
                "flows": flows,
            },
            "matrices": [
                {
                    "name": MATRIX,
                    "draw": ["cells"],
                    "factors": {
                        axis.sets: [axis.text(axis.levels[0] if axis.levels else 0.5)]
                        for axis in self.axes
                    },
                }
            ],
        }

    @property
    def beside(self) -> str:
        return f" beside {self.against}" if self.against else ""


@dataclass(frozen=True)
class Tried:
    """A path with the values of its runs."""

    settings: Mapping[str, str]
    values: tuple[float, ...]
    run: str  # folder of its first run

    @property
    def value(self) -> float:
        return median(self.values)


@dataclass(frozen=True)
class Worst:
    """The result of a search: the worst path first, then the others that were repeated."""

    paths: tuple[Tried, ...]
    searched: int
    without_answer: int


def check_order(order: WorstSearchOptions) -> None:
    """Reject an impossible search. Raises BadInput."""
    for option, cc in (("--cc", order.cc), ("--against", order.against)):
        if cc is not None:
            try:
                check_known(parse_control(cc))
            except BadInput as error:
                raise BadInput(f"{option} {cc}: {error}") from None
    if order.measure.needs_other and order.against is None:
        raise BadInput(
            f"--measure {order.measure.name}: beside whom? Write --against CC, or --measure"
            f" {' or '.join(name for name, measure in MEASURES.items() if not measure.needs_other)}"
        )
    bounded(f"--budget {order.budget}", order.budget, MIN_BUDGET, MAX_BUDGET)
    for axis in order.axes:
        if axis.sets in order.settings or axis.sets in ("cc", "flows"):
            raise BadInput(f"--over {axis.sets}: said by another option already")


class SearchRunner:
    """Make the runs of a search, ordinary ones in results/NAME/."""

    def __init__(
        self,
        order: WorstSearchOptions,
        choice: sandbox.Choice,
        progress: fit.SearchProgress,
        jobs: int | None,
    ) -> None:
        self._order, self._machine = order, choice.name
        self._file = fit.kept_experiment(order.results, order.document(), "worst")
        self._how: dict[str, Any] = {"choice": choice, "progress": progress, "jobs": jobs}
        self.complaint = ""

    def __call__(
        self, paths: Sequence[Mapping[str, str]], repetitions: int = 1
    ) -> list[Tried | None]:
        """Return the result of each path, or None without an answer. Raises a run's exceptions."""
        file = with_repetitions(self._file, repetitions)
        described = [self._described(file, texts) for texts in paths]
        wanted = (run for runs in described for run in runs)
        ends = fit.ends_of(wanted, self._file, self._order.results, **self._how)
        return [
            self._tried(texts, [ends[run.name].folder for run in runs if ends[run.name].counts])
            for texts, runs in zip(paths, described, strict=True)
        ]

    def _described(self, file: ExperimentFile, texts: Mapping[str, str]) -> list[RunSpec]:
        """Compile a path's runs; return none if it is invalid or fails a preflight check."""
        try:
            runs = expand(file, overrides=texts, machine=self._machine)
        except BadInput as error:
            self.complaint = str(error)
            return []
        refused, _ = preflight.survey(runs)
        if refused:
            self.complaint = api.refusal(refused)
        return [] if refused else sorted(runs, key=lambda run: run.repetition)

    def _tried(self, texts: Mapping[str, str], folders: Sequence[Path]) -> Tried | None:
        values = [self._order.measure.of(folder) for folder in folders]
        known = tuple(value for value in values if value is not None)
        return Tried(texts, known, str(folders[0])) if known else None


def search(order: WorstSearchOptions, lab: SearchRunner, progress: fit.SearchProgress) -> Worst:
    """Search, repeat the worst paths, and return the result.

    Raises BadInput if no path has an answer, MissingPart without the optimiser, and a run's
    exceptions.
    """
    venvs.let_import(venvs.SEARCH_TOOLS)
    import optuna

    optuna.logging.set_verbosity(optuna.logging.ERROR)
    warnings.simplefilter("ignore", optuna.exceptions.ExperimentalWarning)
    sampler = optuna.samplers.TPESampler(
        seed=order.seed, n_startup_trials=order.searched // FIRST_SHARE, constant_liar=True
    )
    study = optuna.create_study(sampler=sampler)
    distributions = {
        axis.sets: optuna.distributions.CategoricalDistribution(axis.levels)
        if axis.levels
        else optuna.distributions.FloatDistribution(0.0, 1.0)
        for axis in order.axes
    }
    tried: dict[tuple[str, ...], Tried] = {}
    requested = 0
    while requested < order.searched:
        count = min(BATCH, order.searched - requested)
        trials = [study.ask(distributions) for _ in range(count)]
        paths = [
            {axis.sets: axis.text(trial.params[axis.sets]) for axis in order.axes}
            for trial in trials
        ]
        for trial, texts, result in zip(trials, paths, lab(paths), strict=True):
            if result is None:
                study.tell(trial, state=optuna.trial.TrialState.FAIL)
            else:
                study.tell(trial, order.measure.loss(result.value))
                tried[tuple(texts.values())] = result
        requested += count
        if tried:
            worst = min(tried.values(), key=lambda path: order.measure.loss(path.value))
            progress.stage(
                f"worst so far: {order.measure.show(worst.value)} at"
                f" {format_settings(worst.settings)}"
            )
    if not tried:
        why = lab.complaint or f"see {order.results / order.name}/*/status.json"
        raise BadInput(f"no path of {requested} has an answer: {why}")
    again = (order.budget - order.searched) // (REPETITIONS - 1)
    ranked = sorted(tried.values(), key=lambda path: order.measure.loss(path.value))
    chosen = ranked[: max(1, again)]
    if again:
        progress.stage(f"running the worst {len(chosen)} with other seeds")
        sure = lab([path.settings for path in chosen], REPETITIONS)
        chosen = [path for path in sure if path is not None]
        chosen.sort(key=lambda path: order.measure.loss(path.value))
    return Worst(tuple(chosen), requested, requested - len(tried))


def format_settings(texts: Mapping[str, str]) -> str:
    return ", ".join(f"{name} {text}" for name, text in texts.items())
