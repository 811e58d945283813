# SPDX-License-Identifier: MIT
"""Search for the worst path of a congestion control by an optimiser.

The optimiser proposes paths and the lab runs them. The worst paths are repeated with other seeds.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median

from gostlab.errors import require_bounds
from gostlab.install.locate import MissingPart
from gostlab.registry.congestion_controls import find_control, parse_control
from gostlab.results import metrics, read_object
from gostlab.search.harness import SearchHarness
from gostlab.search.search_space import SearchAxis
from gostlab.spec.expand import expand
from gostlab.spec.experiment import with_repetitions
from gostlab.spec.yaml_source import BadInput

MATRIX = "search"
BATCH = 4  # paths per turn, the same on every machine
CONFIRMED_PATHS, REPETITIONS = 3, 5  # number of paths to confirm, and runs of each
MIN_BUDGET, MAX_BUDGET = 10, 10_000
FIRST_SHARE = 5  # The first fifth of the budget is drawn at random.
MINE, AGAINST = "mine", "against"


def goodput_share(folder: Path) -> float | None:
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
    latency = metrics.latency_of_folder(folder)
    if latency is None or latency.srtt_ms is None:
        return None
    return latency.srtt_ms.p95 / latency.idle_rtt_ms


@dataclass(frozen=True)
class PathMetric:
    """A metric that judges a path; a larger value is worse if `sign` is -1."""

    name: str
    summary: str
    of: Callable[[Path], float | None]
    show: Callable[[float], str]
    sign: int = 1
    needs_other: bool = False


def percent(value: float) -> str:
    return f"{100 * value:.3g} %"


MEASURES = {
    "share": PathMetric(
        "share", "what it gets of both flows' sum", goodput_share, percent, needs_other=True
    ),
    "utilisation": PathMetric(
        "utilisation", "payload over the bottleneck's rate", utilisation, percent
    ),
    "delay": PathMetric(
        "delay",
        "95 % of the round trip over the idle one",
        rtt_inflation,
        "{:.3g} times".format,
        -1,
    ),
}


@dataclass(frozen=True)
class WorstSearchOptions:
    cc: str
    against: str | None
    axes: tuple[SearchAxis, ...]
    measure: PathMetric
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
    def title(self) -> str:
        beside = f" beside {self.against}" if self.against else ""
        return f"Where {self.cc} does worst{beside}, by {self.measure.name}"

    @property
    def searched(self) -> int:
        """Return the number of runs that search; the remaining ones confirm."""
        return self.budget - min(CONFIRMED_PATHS * (REPETITIONS - 1), self.budget // 3)

    def loss(self, path: TriedPath) -> float:
        """Return the value that the optimiser minimises."""
        return self.measure.sign * path.value

    def document(self) -> dict[str, object]:
        """Return the experiment's document; each path replaces the levels of the factors."""
        flows = {MINE: {"cc": self.cc}}
        if self.against:
            flows[AGAINST] = {"cc": self.against}
        over = ", ".join(axis.sets for axis in self.axes)
        factors = {
            axis.sets: [axis.text(axis.levels[0] if axis.levels else 0.5)] for axis in self.axes
        }
        return {
            "name": self.name,
            "title": self.title,
            "question": f"On which path is {self.measure.summary} worst, over {over}?",
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
            "matrices": [{"name": MATRIX, "draw": ["cells"], "factors": factors}],
        }

    def check(self) -> None:
        """Reject an impossible search. Raises BadInput."""
        for option, cc in (("--cc", self.cc), ("--against", self.against)):
            if cc is not None:
                try:
                    find_control(parse_control(cc))
                except BadInput as error:
                    raise BadInput(f"{option} {cc}: {error}") from None
        if self.measure.needs_other and self.against is None:
            others = [name for name, measure in MEASURES.items() if not measure.needs_other]
            raise BadInput(
                f"--measure {self.measure.name}: beside whom? Write --against CC, or --measure"
                f" {' or '.join(others)}"
            )
        require_bounds(f"--budget {self.budget}", self.budget, MIN_BUDGET, MAX_BUDGET)
        for axis in self.axes:
            if axis.sets in self.settings or axis.sets in ("cc", "flows"):
                raise BadInput(f"--over {axis.sets}: said by another option already")


@dataclass(frozen=True)
class TriedPath:
    """A path with the values of its runs."""

    settings: Mapping[str, str]
    values: tuple[float, ...]
    run: str  # folder of its first run

    @property
    def value(self) -> float:
        return median(self.values)

    @property
    def text(self) -> str:
        return ", ".join(f"{name} {value}" for name, value in self.settings.items())


@dataclass(frozen=True)
class WorstPaths:
    """The result of a search: the worst path first, then the others that were repeated."""

    paths: tuple[TriedPath, ...]
    searched: int
    without_answer: int


def try_paths(
    options: WorstSearchOptions,
    harness: SearchHarness,
    paths: Sequence[Mapping[str, str]],
    repetitions: int = 1,
) -> list[TriedPath | None]:
    """Return the result of each path, or None without an answer. Raises a run's exceptions."""
    file = with_repetitions(harness.file, repetitions)
    runs_of_path = []
    for settings in paths:
        try:
            runs = expand(file, overrides=settings, machine=harness.machine.name)
        except BadInput as error:
            harness.complaint, runs = str(error), []
        runs_of_path.append(sorted(runs, key=lambda run: run.repetition))
    folders = harness.make(run for runs in runs_of_path for run in runs)
    results: list[TriedPath | None] = []
    for settings, runs in zip(paths, runs_of_path, strict=True):
        run_folders = [folders[run.name] for run in runs if run.name in folders]
        values = tuple(v for v in map(options.measure.of, run_folders) if v is not None)
        results.append(TriedPath(settings, values, str(run_folders[0])) if values else None)
    return results


def search(options: WorstSearchOptions, harness: SearchHarness) -> WorstPaths:
    """Search, repeat the worst paths, and return the result.

    Raises BadInput if no path has an answer, MissingPart without the optimiser, and a run's
    exceptions.
    """
    try:
        import optuna
    except ImportError:
        raise MissingPart("the optimiser (Optuna) is not there: run ./lab setup") from None

    optuna.logging.set_verbosity(optuna.logging.ERROR)
    warnings.simplefilter("ignore", optuna.exceptions.ExperimentalWarning)
    sampler = optuna.samplers.TPESampler(
        seed=options.seed, n_startup_trials=options.searched // FIRST_SHARE, constant_liar=True
    )
    study = optuna.create_study(sampler=sampler)
    distributions = {
        axis.sets: optuna.distributions.CategoricalDistribution(axis.levels)
        if axis.levels
        else optuna.distributions.FloatDistribution(0.0, 1.0)
        for axis in options.axes
    }
    tried: dict[tuple[str, ...], TriedPath] = {}
    for first in range(0, options.searched, BATCH):
        count = min(BATCH, options.searched - first)
        trials = [study.ask(distributions) for _ in range(count)]
        paths = [
            {axis.sets: axis.text(trial.params[axis.sets]) for axis in options.axes}
            for trial in trials
        ]
        for trial, result in zip(trials, try_paths(options, harness, paths), strict=True):
            if result is None:
                study.tell(trial, state=optuna.trial.TrialState.FAIL)
            else:
                study.tell(trial, options.loss(result))
                tried[tuple(result.settings.values())] = result
        if tried:
            worst = min(tried.values(), key=options.loss)
            harness.progress.stage(
                f"worst so far: {options.measure.show(worst.value)} at {worst.text}"
            )
    if not tried:
        why = harness.complaint or f"see {options.results / options.name}/*/status.json"
        raise BadInput(f"no path of {options.searched} has an answer: {why}")
    again = (options.budget - options.searched) // (REPETITIONS - 1)
    chosen = sorted(tried.values(), key=options.loss)[: max(1, again)]
    if again:
        harness.progress.stage(f"running the worst {len(chosen)} with other seeds")
        repeated = try_paths(options, harness, [path.settings for path in chosen], REPETITIONS)
        chosen = sorted(filter(None, repeated), key=options.loss)
    return WorstPaths(tuple(chosen), options.searched, options.searched - len(tried))
