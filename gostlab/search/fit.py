"""Run a fit: search over runs of the lab, judge the result, and return the fit's record."""

from __future__ import annotations

import math
import sys
import time
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
import yaml

from gostlab import __version__, api, sandbox
from gostlab.results import EXPERIMENT_FILE, metrics, write_whole
from gostlab.scheduler.progress import clock_words
from gostlab.scheduler.queue import Finished, RunObserver
from gostlab.search import level_set
from gostlab.search.problem import MATRIX, Expected, FitOrder
from gostlab.spec import preflight
from gostlab.spec.experiment import ExperimentFile, read_experiment
from gostlab.spec.fit_record import FIT, JUDGE, FitRecord, FittedParameter, FittedRow, TradeOff
from gostlab.spec.run_spec import RunSpec
from gostlab.spec.settings import show_level
from gostlab.spec.yaml_source import BadInput, parse_document
from gostlab.terminal_escape import OneLine

SAMPLE = 40  # number of equally good paths that the profile lists


class SearchProgress(RunObserver):
    """Progress of a search on standard error: its stage, runs, and remaining time."""

    def __init__(self, most_runs: int, most_s: float, *, quiet: bool = False) -> None:
        self._most, self._most_s, self._quiet = most_runs, most_s, quiet
        self._done: dict[str, float] = {}  # load duration by run, for runs with an answer
        self._made_s = 0.0  # total load duration of the runs made by this process
        self._began_s = time.monotonic()
        self._line = OneLine(sys.stderr)

    def say(self, text: str) -> None:
        """Print a line of the first batch of runs only; later batches repeat it."""
        if not self._done:
            self._note(text)

    def finished(self, done: Finished, left_s: float) -> None:  # noqa: ARG002
        self._made_s += done.run.length_s
        self.answered([done])
        if not self._quiet:
            self._line.show(self._progress())
        if not done.counts:
            self._note(f"{done.run.name}: no answer: {done.status.get('error') or done.verdict}")

    def answered(self, ends: Sequence[Finished]) -> None:
        """Record that these runs have an answer, new or cached."""
        self._done |= {end.run.name: end.run.length_s for end in ends}

    def stage(self, what: str) -> None:
        self._note(f"{what} · {self._progress()}")

    def _note(self, text: str) -> None:
        if not self._quiet:
            self._line.keep(text)

    def _progress(self) -> str:
        left = ""
        if self._made_s:
            pace = (time.monotonic() - self._began_s) / self._made_s
            left_s = pace * max(0.0, self._most_s - sum(self._done.values()))
            left = f" · {clock_words(left_s)} left at most"
        return f"run {len(self._done)} of {self._most} at most{left}"


class RunsOfTheLab:
    """Answer the search's requests by ordinary runs in results/fit-NAME/."""

    def __init__(
        self, order: FitOrder, choice: sandbox.Choice, progress: SearchProgress, **how: Any
    ) -> None:
        """Prepare the experiment. `how` has jobs, gost and retry_failed as for a plan's run()."""
        self._order, self._how = order, {"choice": choice, "progress": progress, **how}
        self._file = kept_experiment(order.results, experiment_document(order), "fit")
        self.runs: set[str] = set()

    def __call__(self, wanted: Sequence[level_set.TrialRun]) -> list[float | None]:
        """Return goodputs (bit/s). Raises BadInput if none of the runs is possible."""
        described = [self._order.run(ask) for ask in wanted]
        refused, _ = preflight.survey(described)
        no = {run.name for run, _ in refused}
        able = [run for run in described if run.name not in no]
        if not able and not self.runs:
            raise BadInput(api.refusal(refused))
        ends = ends_of(able, self._file, self._order.results, **self._how)
        self.runs |= ends.keys()
        good = {name: end.folder for name, end in ends.items() if end.counts}
        rates = {name: metrics.goodput_bps(folder) for name, folder in good.items()}
        return [rates.get(run.name) for run in described]


def ends_of(
    runs: Iterable[RunSpec],
    file: ExperimentFile,
    results: Path,
    *,
    choice: sandbox.Choice,
    progress: SearchProgress,
    **how: Any,
) -> dict[str, Finished]:
    """Return how the runs that a search requests ended, by name, new or cached.

    `how` has the arguments of a plan's run(). Raises the exceptions of a run.
    """
    once = tuple({run.name: run for run in runs}.values())
    if not once:
        return {}
    experiment = api.Experiment(file=file, machine=choice, runs=once)
    outcome = experiment.run(results, progress=progress, **how).wait()
    progress.answered(outcome.ends)
    return {end.run.name: end for end in outcome.ends}


def experiment_document(order: FitOrder) -> dict[str, Any]:
    """Return the document of the experiment to which a fit's runs belong."""
    return {
        "name": order.experiment,
        "title": f"Runs of a fit: {order.measurements.title or order.measurements.name}",
        "question": f"Which path makes the lab say what {order.measurements.file_name} says?",
        "settings": {"profile": str(order.base.path_on_disk.resolve())},
        "matrices": [{"name": MATRIX, "draw": ["cells"]}],
    }


def kept_experiment(results: Path, document: Mapping[str, Any], verb: str) -> ExperimentFile:
    """Save the experiment of a search next to its runs and return it. Raises BadInput, OSError."""
    file = results / document["name"] / EXPERIMENT_FILE
    text = f"# The runs that ./lab {verb} made.\n{yaml.safe_dump(document, sort_keys=False)}"
    experiment = read_experiment(parse_document(text, verb), file)
    write_whole(file, text)
    return experiment


def fit_order(order: FitOrder, lab: RunsOfTheLab, progress: SearchProgress) -> FitRecord:
    """Search and judge, and return the fit's record. Raises BadInput, and a run's exceptions."""

    def snap(positions: np.ndarray) -> np.ndarray:
        columns = zip(order.free, positions.T, strict=True)
        return np.array([[free.snap(float(u)) for u in column] for free, column in columns]).T

    numbers, judges = (order.measurements.used(use) for use in (FIT, JUDGE))
    known = level_set.Known(numbers, lab, snap, progress.stage, Expected(order))
    try:
        result = level_set.search(
            known,
            len(order.free),
            points=order.points,
            members=order.members,
            repetitions=order.repetitions,
            short=order.has_short_runs,
            seed=order.seed,
        )
    except level_set.NoAnswer:
        raise BadInput(
            f"no path within what is free has a run that counts for every number: see"
            f" {order.results / order.experiment}/*/status.json"
        ) from None
    if judges:
        positions = level_set.spread_out([result.best], np.array(result.members), 1 + order.members)
        progress.stage(
            f"judging {len(positions)} of the paths that fit by {len(judges)} other numbers"
        )
        judged = range(len(numbers), len(order.rows))
        known.ask(level_set.make_requests(positions, judged, order.repetitions))
        turns = order.judge_paths
        result = level_set.search_for_judges(known, result, judges, turns=turns, seed=order.seed)
    return to_fitted(order, known, result, len(lab.runs))


def to_fitted(
    order: FitOrder, known: level_set.Known, result: level_set.SearchResult, runs: int
) -> FitRecord:
    """Convert the result of a search into the record that a profile contains."""
    rows = []
    for number, row in enumerate(order.rows):
        rates = [
            median_mbit(known.full_length_rates(position, number)) for position in result.members
        ]
        known_rates = [rate for rate in rates if rate is not None]
        rows.append(
            FittedRow(
                label=row.label,
                use=row.use,
                asked_mbit=row.goodput_bps / 1e6,
                band_least_mbit=row.least_bps / 1e6,
                band_most_mbit=row.most_bps / 1e6,
                lab_mbit=median_mbit(known.full_length_rates(result.best, number)),
                least_mbit=min(known_rates, default=None),
                most_mbit=max(known_rates, default=None),
            )
        )
    parameters = tuple(
        FittedParameter(
            name=free.name,
            sets=free.sets,
            value=free.text(result.best[index]),
            least=free.text(float(result.least[index])),
            most=free.text(float(result.most[index])),
            searched_from=free.text(0.0),
            searched_to=free.text(1.0),
            scale=free.scale,
        )
        for index, free in enumerate(order.free)
    )
    fitted = [row for row in rows if row.use == FIT]
    return FitRecord(
        by=f"gostlab {__version__}",
        base=order.base.name,
        measurements=order.measurements.name,
        sha256=order.measurements.sha256,
        seed=order.seed,
        points=len(known.positions),
        runs=runs,
        misfit=math.sqrt(result.misfit / len(known.numbers)),
        explained=all(row.in_band for row in fitted),
        settings={
            name: show_level(setting.written)
            for name, setting in {**order.measurements.settings, **order.own}.items()
        },
        parameters=parameters,
        rows=tuple(rows),
        trade_offs=tuple(
            TradeOff((order.free[first].name, order.free[second].name), round(together, 2))
            for first, second, together in result.trade_offs()
        ),
        alike=tuple(
            {free.name: free.text(float(u)) for free, u in zip(order.free, position, strict=True)}
            for position in result.equally_good[:SAMPLE]
        ),
    )


def median_mbit(rates_bps: Sequence[float]) -> float | None:
    return median(rates_bps) / 1e6 if rates_bps else None
