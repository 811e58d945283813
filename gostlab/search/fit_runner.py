# SPDX-License-Identifier: MIT
"""Run a fit: search over runs of the lab, judge the result, and return the fit's record."""

from __future__ import annotations

import math
from collections.abc import Sequence
from statistics import median

import numpy as np

from gostlab import __version__
from gostlab.results import metrics
from gostlab.search import level_set
from gostlab.search.fit_definition import MATRIX, FitOrder, TheoryRates
from gostlab.search.harness import SearchHarness
from gostlab.spec.fit_record import FIT, JUDGE, FitRecord, FittedParameter, FittedRow, TradeOff
from gostlab.spec.settings import show_level
from gostlab.spec.yaml_source import BadInput

SAMPLE = 40  # number of equally good paths that the profile lists


def experiment_document(order: FitOrder) -> dict[str, object]:
    """Return the document of the experiment to which a fit's runs belong."""
    return {
        "name": order.experiment,
        "title": f"Runs of a fit: {order.measurements.title or order.measurements.name}",
        "question": f"Which path makes the lab say what {order.measurements.file_name} says?",
        "settings": {"profile": str(order.base.path_on_disk.resolve())},
        "matrices": [{"name": MATRIX, "draw": ["cells"]}],
    }


def fit_order(order: FitOrder, harness: SearchHarness) -> FitRecord:
    """Search and judge, and return the fit's record. Raises BadInput, and a run's exceptions."""

    def snap(positions: np.ndarray) -> np.ndarray:
        columns = zip(order.free, positions.T, strict=True)
        return np.array([[free.snap(float(u)) for u in column] for free, column in columns]).T

    def goodputs_bps(trials: Sequence[level_set.ProposedRun]) -> list[float | None]:
        runs = [order.run(trial) for trial in trials]
        folders = harness.make(runs)
        if not harness.runs:
            raise BadInput(harness.complaint)
        rates = {name: metrics.goodput_bps(folder) for name, folder in folders.items()}
        return [rates.get(run.name) for run in runs]

    stage = harness.progress.stage
    numbers, judges = (order.measurements.rows_for(use) for use in (FIT, JUDGE))
    known = level_set.SearchState(numbers, goodputs_bps, snap, stage, TheoryRates(order))
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
        stage(f"judging {len(positions)} of the paths that fit by {len(judges)} other numbers")
        judged = range(len(numbers), len(order.rows))
        known.request_runs(level_set.make_requests(positions, judged, order.repetitions))
        turns = order.judge_paths
        result = level_set.search_for_judges(known, result, judges, turns=turns, seed=order.seed)
    return to_fit_record(order, known, result, len(harness.runs))


def to_fit_record(
    order: FitOrder, known: level_set.SearchState, result: level_set.SearchResult, runs: int
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
            for name, setting in {
                **order.measurements.settings,
                **order.command_line_settings,
            }.items()
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
