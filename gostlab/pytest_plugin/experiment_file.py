# SPDX-License-Identifier: MIT
"""Collect the cells of a `*.gostlab.yaml` file as tests of their expectations."""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from gostlab import api
from gostlab.errors import COMMAND, Complaint
from gostlab.pytest_plugin.runner import RUNNER, CheckedRun, Runner, record_runs
from gostlab.spec.expectations import Bound, bind_expectation, cells_of
from gostlab.spec.labels import cell_label
from gostlab.spec.run_spec import RunSpec

if TYPE_CHECKING:
    from gostlab.analysis.stats.expectations import Judgement


class UnmetExpectations(Exception):
    """Report the expectations of a cell that its runs do not meet."""

    def __init__(self, judged: list[Judgement]) -> None:
        lines = [
            f"{judgement.name}: {': '.join(filter(None, (judgement.value, judgement.reason)))}"
            for judgement in judged
        ]
        super().__init__("\n".join(lines))


class ExperimentTests(pytest.File):
    """Collect an experiment's file."""

    def collect(self) -> Iterator[pytest.Item]:
        """Yield a test per cell. Raises CollectError for what `gostlab run` refuses."""
        quick = self.config.getoption("--gostlab-quick")
        try:
            experiment = api.Experiment.from_file(str(self.path), quick=quick, machine="sandbox")
        except Complaint as error:
            raise self.CollectError(str(error)) from None
        several = len({run.matrix for run in experiment.runs}) > 1
        cells: dict[str, RunSpec] = {}
        for run in experiment.runs:
            cells.setdefault(run.cell, run)
        for cell, run in cells.items():
            label = cell_label(run.factors) or run.matrix
            name = f"{run.matrix}: {label}" if several and run.factors else label
            yield CellTest.from_parent(self, name=name, experiment=experiment, cell=cell)


class CellTest(pytest.Item):
    """Run one cell, and the cells that it is compared with, and judge its expectations."""

    def __init__(self, *, experiment: api.Experiment, cell: str, **more: Any) -> None:
        super().__init__(**more)
        self.experiment = experiment
        self.cell = cell
        self.add_marker("gostlab")

    def runtest(self) -> None:
        runner: Runner = self.config.stash[RUNNER]
        first_run = next(run for run in self.experiment.runs if run.cell == self.cell)
        matrix_runs = [run for run in self.experiment.runs if run.matrix == first_run.matrix]
        names = list(dict.fromkeys(run.cell for run in matrix_runs))
        bound = self.bound_expectations(first_run.matrix, matrix_runs, names.index(self.cell))
        needed = {self.cell, *(names[b.reference] for b in bound if b.reference is not None)}
        part = replace(
            self.experiment, runs=tuple(run for run in matrix_runs if run.cell in needed)
        )
        results = runner.execute(part)
        command = shlex.join([COMMAND, "run", str(self.path), "--matrix", first_run.matrix])
        runs = record_runs(self, results, runner.results, command, self.experiment.file.title)
        invalid = [run.name for run in runs if run.verdict == "invalid"]
        judged = evaluate_bound(bound, runs, names)
        unmet = [judgement for judgement in judged if not judgement.passed]
        if unmet:
            raise UnmetExpectations(unmet)
        if invalid and not judged:
            pytest.fail(f"{invalid[0]}: invalid: see fidelity.json there", pytrace=False)

    def bound_expectations(self, matrix: str, runs: list[RunSpec], cell: int) -> list[Bound]:
        """Return the expectations of this test's cell."""
        expectations = next(m.expect for m in self.experiment.file.matrices if m.name == matrix)
        bound = [
            expectation
            for expected in expectations
            for expectation in bind_expectation(expected, cells_of(runs))
        ]
        return [expectation for expectation in bound if expectation.subject == cell]

    def repr_failure(self, excinfo: Any, style: Any = None) -> Any:
        if isinstance(excinfo.value, UnmetExpectations | Complaint):
            return f"{self.name}\n{excinfo.value}"
        return super().repr_failure(excinfo, style)

    def reportinfo(self) -> tuple[Any, int | None, str]:
        return self.path, None, self.name


def evaluate_bound(bound: list[Bound], runs: list[CheckedRun], names: list[str]) -> list[Judgement]:
    """Judge bound expectations; cells without runs are not among their subjects or references."""
    from gostlab.analysis.stats.expectations import CellRuns, evaluate_cell

    cells: list[Any] = []
    for name in names:
        of_cell = [run for run in runs if run.result.run.cell == name]
        of_cell.sort(key=lambda run: run.result.repetition)
        measured = tuple(run.measured for run in of_cell)
        cells.append(CellRuns(measured[0].matrix, measured) if measured else None)
    return [evaluate_cell(expectation, cells) for expectation in bound]
