# SPDX-License-Identifier: MIT
"""Collect everything that one experiment's results show, independent of the page.

The report and the page of studies are both rendered from it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING

from gostlab.analysis.load.run_folder import RunFolder
from gostlab.analysis.load.runs import ExperimentFolders
from gostlab.analysis.load.study import Study, clean_text
from gostlab.analysis.plotting import plot_registry
from gostlab.analysis.plotting.factors import ccs_of
from gostlab.analysis.plotting.measured_vs_published import (
    agreement_caption,
    draw_measured_vs_published,
    ratio_to_published,
)
from gostlab.analysis.report import tables
from gostlab.analysis.report.headline import Headline, write_headline
from gostlab.analysis.stats import published_targets
from gostlab.analysis.stats.cells import MatrixResults, file_name_part, runs_per_cell, to_matrices
from gostlab.analysis.stats.expectations import CellRuns, evaluate_matrix, summary_line
from gostlab.analysis.stats.provenance import made_by_line
from gostlab.analysis.stats.table_formats import Table, format_range, pluralize, text_columns
from gostlab.results import EPOCH, changed_since

if TYPE_CHECKING:
    import pandas as pd


@dataclass
class MatrixSection:
    """A section of an experiment: one matrix with its figures and tables."""

    title: str
    note: str = ""
    matrix: str = ""  # name of the matrix
    runs: int = 0
    headline: Headline | None = None  # None without a run that counts
    pictures: list[plot_registry.ReportFigure] = field(default_factory=list)
    tables: list[Table] = field(default_factory=list)
    expected: Table | None = None  # the file's expectations, passed or failed


@dataclass(frozen=True)
class FirstScreen:
    """The top of a page: question, answer, its figure, and the runs it rests on.

    rates: a study's rates with the lab's
    spread: range of the runs that the headline rests on
    agreement: the number of published values that agree
    contrast: the condition in which the congestion controls differ most
    """

    question: str
    answer: str  # "" without runs
    picture: plot_registry.ReportFigure | None
    rests: str
    rates: Table | None = None
    spread: str = ""
    agreement: str = ""
    contrast: str = ""


@dataclass(frozen=True)
class Chapter:
    """The results of one experiment."""

    study: Study
    results: ExperimentFolders
    first: FirstScreen
    parts: tuple[MatrixSection, ...]
    left_out: Table | None
    paths: Table
    environment: Table
    mixed: tuple[str, ...]
    older: str  # sentence on runs by another version; "" without any
    targets: tuple[published_targets.TargetComparison, ...] = ()
    target_table: Table | None = None
    reasons: Table | None = None  # reasons of the differences, each once
    against: plot_registry.ReportFigure | None = None  # lab over study

    @property
    def counted(self) -> int:
        """Return the number of runs that the chapter rests on."""
        return sum(run.counts for run in self.results.runs)

    @property
    def main_figure(self) -> plot_registry.ReportFigure | None:
        """Return the picture of the chapter: lab over study, else the answer's."""
        return self.against or self.first.picture

    @property
    def pictures(self) -> list[plot_registry.ReportFigure]:
        """Return all pictures of the chapter."""
        first = [self.against] if self.against else []
        return [*first, *(picture for part in self.parts for picture in part.pictures)]

    @property
    def tables(self) -> list[Table]:
        matrix_tables = [table for part in self.parts for table in part.tables]
        matrix_tables += [part.expected for part in self.parts if part.expected]
        last = (self.left_out, self.paths, self.environment)
        return [
            table for table in (self.reasons, self.target_table, *matrix_tables, *last) if table
        ]


def to_chapter(study: Study, results: ExperimentFolders, *, with_narrow: bool = False) -> Chapter:
    """Evaluate an experiment's results.

    with_narrow: draw each matrix's first figure for a phone, too.
    Raises BadInput, before anything is plotted, if its file names an unknown plot.
    """
    matrices = to_matrices(results.runs, study)
    drawings = [
        [plot_registry.find_drawing(word) for word in plot_registry.plot_names(matrix)]
        for matrix in matrices
    ]
    parts = [
        to_matrix_section(
            plot_registry.MatrixInput(matrix, matrices, study, made_by_line(matrix.runs)),
            drawn_by,
            with_narrow=with_narrow,
        )
        for matrix, drawn_by in zip(matrices, drawings, strict=True)
    ]
    name = file_name_part(study.name)
    judged = published_targets.target_rows(study, matrices)
    return Chapter(
        study=study,
        results=results,
        first=first_screen(study, results, parts, judged),
        parts=tuple(parts),
        left_out=tables.left_out_table(results, f"{name}-left-out"),
        paths=tables.path_table(results, f"{name}-paths"),
        environment=tables.environment_table(results, f"{name}-environment"),
        mixed=tuple(mixed_cells_notes(matrices)),
        older=older_runs_note(results.runs),
        targets=judged,
        target_table=(
            published_targets.to_table(judged, f"{name}-targets", "Every number")
            if judged
            else None
        ),
        reasons=published_targets.reasons_table(judged, f"{name}-reasons", "Why they differ"),
        against=measured_vs_published_figure(study, results, judged),
    )


def measured_vs_published_figure(
    study: Study, results: ExperimentFolders, judged: Sequence[published_targets.TargetComparison]
) -> plot_registry.ReportFigure | None:
    """Plot lab over study for all metrics with a ratio; None if there are none."""
    if all(ratio_to_published(row) is None for row in judged):
        return None
    made_by = made_by_line(results.runs)
    figure = partial(draw_measured_vs_published, judged, study.called, made_by)
    caption = agreement_caption(judged, study.called)
    return plot_registry.ReportFigure(figure, caption, f"{file_name_part(study.name)}-against")


# -- what is looked at first


def first_screen(
    study: Study,
    results: ExperimentFolders,
    parts: Sequence[MatrixSection],
    judged: Sequence[published_targets.TargetComparison],
) -> FirstScreen:
    """Return the first matrix's headline, and the agreement with the study if there is one."""
    rates = published_targets.rates_table(judged, study.called)
    lead = next((part for part in parts if part.headline), None)
    if lead is None or lead.headline is None:
        return FirstScreen(study.question, "", None, evidence_line(results), rates)
    spread = lead.headline.spread
    return FirstScreen(
        study.question,
        lead.headline.sentence,
        next(iter(lead.pictures), None),
        evidence_line(results, spread),
        rates,
        spread,
        published_targets.agreement_sentence(judged, study.called),
        lead.headline.contrast,
    )


def evidence_line(results: ExperimentFolders, spread: str = "") -> str:
    """State the runs per cell, the spread of the answer's runs, and the states of all runs."""
    counted = [run for run in results.runs if run.counts]
    if not counted:
        return ""
    sizes = runs_per_cell(to_matrices(results.runs))
    text = f"n = {format_range(sizes[0], sizes[-1])} per cell"
    if sizes[-1] == 1:
        text += ", so no spread is known"
    elif spread:
        text += f"; the headline's runs: {spread}"
    states = Counter(map(tables.state_of, results.runs))
    states["unreadable"] += len(results.broken)
    order = sorted(+states, key=lambda state: (state != "ok", state != "degraded", state))
    states_text = ", ".join(f"{states[state]} {state}" for state in order)
    return f"{text}; {pluralize(states.total(), 'run')}: {states_text}."


def to_matrix_section(
    sweep: plot_registry.MatrixInput,
    drawings: Sequence[plot_registry.Drawing],
    *,
    with_narrow: bool,
) -> MatrixSection:
    """Collect the figures and tables of one matrix."""
    matrix = sweep.matrix
    part = MatrixSection(sweep.title, matrix=matrix.name, runs=len(matrix.runs))
    part.expected = expectation_table(sweep.study, matrix)
    notes = [sweep.study.matrix_note(matrix.name), states_note(matrix) + warnings_note(matrix)]
    name = f"{file_name_part(sweep.study.name)}-{matrix.key}"
    own_tables: list[Table] = []
    for drawing in drawings:
        drawn = plot_registry.draw_matrix(drawing, sweep, name, with_narrow=with_narrow)
        part.pictures += drawn.pictures
        own_tables += drawn.tables
        notes.append(drawn.note)
    table = sweep.table(matrix.cells, borrows=any(drawing.borrows for drawing in drawings))
    part.tables += own_tables or default_tables(sweep, table, name)
    if (table["n"] > 0).any():
        table_name = f"{name}-retransmissions"
        table_of_segments = tables.retransmission_table(
            table, matrix.cells, table_name, sweep.study.called
        )
        part.tables.append(table_of_segments)
    # the first picture of cells precedes pictures of single runs
    first = [picture for picture in part.pictures if picture.medians][:1]
    part.pictures = [*first, *(picture for picture in part.pictures if picture not in first)]
    part.note = " ".join(note for note in notes if note)
    metrics = [first[0].metric] if first and first[0].metric else drawings[0].metrics
    part.headline = write_headline(matrix, metrics)
    return part


def expectation_table(study: Study, matrix: MatrixResults) -> Table | None:
    """Judge a matrix's expectations; None without any. Cells that have not run are not judged."""
    cells = [CellRuns(matrix.name, cell.runs) for cell in matrix.cells]
    judged = evaluate_matrix(study.expectations_of(matrix.name), cells, partial=True)
    if not judged:
        return None
    name = f"{file_name_part(study.name)}-{matrix.key}-expected"
    columns = (
        *text_columns(name="Expected", cell="Of", state="State", value="Value"),
        *text_columns(reason="By how much", run="Run"),
    )
    rows = tuple(
        {column.key: clean_text(getattr(target, column.key)) for column in columns}
        for target in judged
    )
    return Table(name, "Expectations", f"{summary_line(judged)}.", columns, rows)


def cc_pairs_with_base(table: pd.DataFrame) -> list[tuple[str, str]]:
    """Return (base, other) for every congestion control but the base: CUBIC, or the first."""
    ccs = ccs_of(table)
    base = "cubic" if "cubic" in ccs else next(iter(ccs), "")
    return [(base, cc) for cc in ccs if cc != base]


def default_tables(sweep: plot_registry.MatrixInput, table: pd.DataFrame, name: str) -> list[Table]:
    """Return the tables of a matrix whose plots have no own ones."""
    matrix, called = sweep.matrix, sweep.study.called
    matrix_tables = [tables.goodput_table(table, matrix.cells, f"{name}-goodput", called)]
    if any(len(cell.flows) > 1 for cell in matrix.cells):
        matrix_tables.append(tables.flows_table(table, matrix.cells, f"{name}-flows"))
    pairs = cc_pairs_with_base(table)
    for pair in pairs:
        suffix = f"-{file_name_part(pair[1])}" if len(pairs) > 1 else ""
        compared = tables.comparison_table(
            matrix, table, f"{name}-comparison{suffix}", *pair, called
        )
        matrix_tables += [compared] if compared.rows else []
    return matrix_tables


def states_note(matrix: MatrixResults) -> str:
    """Count the states of a matrix's runs."""
    counts = Counter(map(tables.state_of, matrix.runs))
    length = " or ".join(
        f"{duration_s:g} s" for duration_s in sorted({run.duration_s for run in matrix.runs})
    )
    length += f", over {' or '.join(dict.fromkeys(run.measured_words for run in matrix.runs))}"
    if len(matrix.runs) == 1:
        return f"1 run of {length}: {next(iter(counts))}."
    states_text = ", ".join(f"{count} {state}" for state, count in sorted(counts.items()))
    return f"{len(matrix.runs)} runs of {length}: {states_text}."


def warnings_note(matrix: MatrixResults) -> str:
    """Return the warnings before the runs: one example of each type, and its count."""
    counted = [run for run in matrix.runs if run.counts]
    warned: dict[str, list[str]] = {}
    for run in counted:
        for check in run.checks:
            if check.name.startswith("guard_") and check.reason:
                warned.setdefault(check.name, []).append(check.reason)
    return "".join(
        f" Warned of in {len(reasons)} of {len(counted)} runs: {reasons[0]}."
        for reasons in warned.values()
    )


def older_runs_note(runs: Sequence[RunFolder]) -> str:
    """Return a sentence on runs whose version interpreted run.json differently."""
    epochs = [run.epoch for run in runs if run.epoch != EPOCH]
    if not epochs:
        return ""
    return (
        f"{len(epochs)} of {len(runs)} runs are of another lab: {changed_since(epochs)} since then"
        " (./lab run does them again)"
    )


def mixed_cells_notes(matrices: Sequence[MatrixResults]) -> list[str]:
    """List cells with several kernels or programs, whose spread is not only random."""
    notes = []
    for cell in (cell for matrix in matrices for cell in matrix.cells):
        makers = {run.environment for run in cell.counted if run.environment is not None}
        versions = {(maker.kernel, maker.hz, maker.tunnel_sha256, maker.iperf3) for maker in makers}
        if len(versions) > 1:
            notes.append(
                f"{cell.matrix}: {cell.label}: {len(versions)} different kernels or programs among"
                f" its {len(cell.counted)} runs"
            )
    return notes
