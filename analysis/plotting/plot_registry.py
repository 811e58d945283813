# SPDX-License-Identifier: MIT
"""Define plots, find them by name, and convert them to figures of a matrix.

A plot is one file in analysis/plots/, named like the plot (by_loss.py is `by-loss`):

    DRAWING = Drawing("by-loss", caption="…", draw=draw, shows=("loss_p", "cc"))

An experiment's `draw:` then accepts the name, the report draws the plot, and ./lab rejects a file
with an incomplete declaration before anything runs.

No plot may drop a cell or merge two silently. `shows` names the columns that its axes, colours and
facets distinguish. Each level of every other factor gets a figure of its own, with the level in its
title. If there are more than MAX_FIGURES, each states how many cells the plotted ones have.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from typing import TYPE_CHECKING

from gostlab.analysis.load.run_folder import RunFolder
from gostlab.analysis.load.study import Study
from gostlab.analysis.plotting.factors import facets_of
from gostlab.analysis.plotting.style import narrow_style
from gostlab.analysis.stats.cells import Cell, MatrixResults, file_name_part, to_table
from gostlab.analysis.stats.table_formats import Table, n_note
from gostlab.errors import BadInput
from gostlab.registry import plot_names as declared

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.figure import Figure

# Maximum figures of one plot.
MAX_FIGURES = 8
OWN_SCALE = "each figure with a scale of its own"


@dataclass(frozen=True)
class ReportFigure:
    """A figure on the page, drawn when it is needed, by whichever process needs it."""

    source: Figure | Callable[[], Figure]  # the figure, or what draws it
    caption: str = ""  # "": caption of the plot
    name: str = ""  # suffix of the file name, to distinguish figures of one plot
    medians: bool = True  # it displays medians of cells: the caption states the number of runs
    metric: str = ""  # its metric, if it is not the plot's first
    narrow: ReportFigure | None = None  # drawn for a phone, with stacked panels

    @cached_property
    def figure(self) -> Figure:
        return self.source() if callable(self.source) else self.source


@dataclass(frozen=True)
class MatrixInput:
    """A matrix and its context, the input of plots."""

    matrix: MatrixResults
    matrices: Sequence[MatrixResults]  # all matrices of the experiment
    study: Study
    footer: str = ""  # software that produced the numbers

    @property
    def title(self) -> str:
        variant = f" ({self.matrix.variant})" if self.matrix.variant else ""
        return self.study.matrix_title(self.matrix.name) + variant

    @cached_property
    def references(self) -> dict[str, RunFolder]:
        """Return a run of each matrix, to compare requests."""
        return {matrix.name: matrix.runs[0] for matrix in self.matrices}

    def table(self, cells: Sequence[Cell], *, borrows: bool) -> pd.DataFrame:
        """Return some cells as a table.

        borrows: include published values of another matrix's cells on the same path.
        """
        borrowed = self.references if borrows and self.study.published else None
        cache_key = (borrowed is None, *(cell.key for cell in cells))
        if cache_key not in self._tables:
            self._tables[cache_key] = to_table(cells, self.study, borrowed)
        return self._tables[cache_key].copy()

    @cached_property
    def _tables(self) -> dict[tuple[object, ...], pd.DataFrame]:
        """Return the cache of tables, which all plots of a matrix share."""
        return {}


@dataclass(frozen=True)
class FigureInput:
    """The input of one figure."""

    sweep: MatrixInput
    rows: pd.DataFrame
    levels: str = ""  # levels of this figure: "buffer 1 BDP"
    note: str = ""  # note on the figure: that it is one of several
    all_rows: pd.DataFrame | None = None  # the rows of all figures of the plot

    @property
    def title(self) -> str:
        return f"{self.levels} ({self.note})" if self.note else self.levels

    @property
    def footer(self) -> str:
        return self.sweep.footer

    @property
    def study_label(self) -> str:
        """Return the name of the study in legends: "thesis"."""
        return self.sweep.study.called


@dataclass(frozen=True)
class JoinedCells:
    """The cells of a plot: a matrix's own, with or without those of other matrices."""

    cells: tuple[Cell, ...]
    elsewhere: str = ""  # name of the matrix with the figure, if it is another one


def matrix_cells(sweep: MatrixInput) -> JoinedCells:
    return JoinedCells(sweep.matrix.cells)


def rows_with_runs(table: pd.DataFrame) -> pd.DataFrame:
    """Return the cells with a counted run."""
    return table[table["n"] > 0].reset_index(drop=True)


def rows_with_metric(figure: str) -> Callable[[pd.DataFrame], pd.DataFrame]:
    """Return a function that selects the cells with a value of a metric."""
    return lambda table: rows_with_runs(table[table[figure].notna()])


def rows_including_absent(table: pd.DataFrame) -> pd.DataFrame:
    """Return all cells, including those without runs, if any run counts."""
    return table if (table["n"] > 0).any() else table.head(0)


@dataclass(frozen=True)
class Drawing:
    """A type of plot of a matrix."""

    word: str  # name in `draw:`
    caption: str
    draw: Callable[[FigureInput], Iterable[ReportFigure]]
    # Columns that its axes, colours and facets distinguish; None: it distinguishes every factor.
    shows: tuple[str, ...] | None = None
    metrics: tuple[str, ...] = ("goodput",)  # a headline has the first with a value
    cells: Callable[[MatrixInput], JoinedCells] = matrix_cells
    rows: Callable[[pd.DataFrame], pd.DataFrame] = (
        rows_with_runs  # selects the cells that it can plot
    )
    needs: str = "a run that counts"  # requirement of `rows`
    tables: Callable[[MatrixInput, pd.DataFrame, str], Iterable[Table]] | None = (
        None  # tables of the plot
    )
    borrows: bool = False  # use a study's value of another matrix on the same path
    # Returns the plot over two factors, across and down: `draw: [heatmap: [loss, rtt]]`
    over: Callable[[Drawing, str, str], Drawing] | None = None


@dataclass
class PlotResult:
    """The results of a plot of a matrix."""

    pictures: list[ReportFigure] = field(default_factory=list)
    tables: list[Table] = field(default_factory=list)
    note: str = ""


def find_drawing(word: str) -> Drawing:
    """Return the plot of that name, over the factors in it (heatmap(loss, rtt)).

    Raises BadInput if there is none or its file is invalid.
    """
    word, factors = declared.split_plot_name(word)
    drawing = import_drawing(word)
    if factors is None:
        return drawing
    if drawing.over is None:
        raise BadInput(f"drawing {word}: takes no factors")
    return drawing.over(drawing, *factors)


def import_drawing(word: str) -> Drawing:
    """Import a plot from its file. Raises BadInput."""
    files = declared.drawing_files()
    if word not in files:
        raise BadInput(f"no drawing {word}: draw is one of {', '.join(sorted(files))}")
    plot = declared.load_drawing(word, files[word])
    if not isinstance(plot, Drawing):
        raise BadInput(f"{files[word]}: its DRAWING is not the drawing {word}")
    return plot


def plot_names(matrix: MatrixResults) -> tuple[str, ...]:
    """Return the names of a matrix's plots: from its file, or by its factors."""
    if matrix.draw:
        return tuple(dict.fromkeys(matrix.draw))
    factors = {name for cell in matrix.cells for name, _ in cell.factors}
    if factors & {"syscall_cost", "clock"}:
        return ("cpu",)
    if "buffer" in factors:
        return ("buffer", "series")
    if "streams" in factors:
        return ("goodput", "ratio", "retransmissions", "series")
    return ("cells", "series")


def draw_matrix(
    drawing: Drawing, sweep: MatrixInput, name: str, *, with_narrow: bool = False
) -> PlotResult:
    """Plot a matrix: figures and tables; `name` is the prefix of files.

    with_narrow: draw the first figure for a phone, too.
    """
    joined = drawing.cells(sweep)
    table = sweep.table(joined.cells, borrows=drawing.borrows)
    drawn = PlotResult(tables=list(drawing.tables(sweep, table, name) if drawing.tables else ()))
    if joined.elsewhere:
        drawn.note = f"These cells stand in the figure of {joined.elsewhere}."
        return drawn
    rows = drawing.rows(table)
    for sheet in () if rows.empty else figure_inputs(drawing, sweep, rows):
        drawn.pictures += [
            complete_figure(picture, drawing, sheet, f"{name}-{drawing.word}")
            for picture in drawing.draw(sheet)
        ]
        if with_narrow and drawn.pictures and drawn.pictures[0].narrow is None:
            narrow = ReportFigure(partial(draw_narrow, drawing, sheet))
            drawn.pictures[0] = replace(drawn.pictures[0], narrow=narrow)
    if not drawn.pictures and (table["n"] > 0).any():
        drawn.note = f"No figure {drawing.word}: it needs {drawing.needs}."
    return drawn


def draw_narrow(drawing: Drawing, sheet: FigureInput) -> Figure:
    """Draw the first figure of a plot for a phone."""
    with narrow_style():
        return next(iter(drawing.draw(sheet))).figure


def figure_inputs(drawing: Drawing, sweep: MatrixInput, rows: pd.DataFrame) -> list[FigureInput]:
    """Return one sheet per level of every factor that the plot does not distinguish."""
    facets = [("", rows)] if drawing.shows is None else list(facets_of(rows, known=drawing.shows))
    plotted = facets[:MAX_FIGURES]
    cells = sum(len(facet_rows) for _, facet_rows in plotted)
    note = OWN_SCALE if len(plotted) > 1 else ""
    if len(plotted) < len(facets):
        note = f"{cells} of {len(rows)} cells are shown, {OWN_SCALE}"
    return [
        FigureInput(sweep, facet_rows.reset_index(drop=True), levels, note if levels else "")
        for levels, facet_rows in plotted
    ]


def complete_figure(
    picture: ReportFigure, drawing: Drawing, sheet: FigureInput, name: str
) -> ReportFigure:
    """Return a figure with its complete caption and file name."""
    parts = [
        f"{sheet.title}:" if sheet.title else "",
        picture.caption or drawing.caption,
        n_note(sheet.rows) if picture.medians else "",
    ]
    suffix = file_name_part(sheet.levels) if sheet.levels else ""
    return replace(
        picture,
        caption=" ".join(part for part in parts if part),
        name="-".join(part for part in (name, suffix, picture.name) if part),
    )
