# SPDX-License-Identifier: MIT
"""Read results: runs, cells and samples as pandas tables, and any plot of the report.

results = gostlab.load("results/thesis-tunnel")
results.cells[["cell", "n", "goodput_mbit", "goodput_mbit_low", "goodput_mbit_high"]]
results.draw("goodput", ax)
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from html import escape
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

from gostlab.api import table_types
from gostlab.install.locate import MissingPart
from gostlab.results.samples import read_samples
from gostlab.spec.yaml_source import BadInput

if TYPE_CHECKING:
    from gostlab.analysis.load import runs as run_folders
    from gostlab.analysis.load import study as studies
    from gostlab.analysis.plotting import plot_registry
    from gostlab.analysis.stats import cells as cell_results

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure, SubFigure

# Columns of the report's tables without a unit in their names, and their names with one.
WITH_UNITS = {
    "retr": "iperf3_retransmitted_segments",
    "iperf3_retr": "iperf3_retransmitted_segments",
    "client_nstat": "client_retransmitted_segments",
    "wan_segments_out": "wan_sent_segments",
    "stalls": "stall_events",
    "switches": "switch_events",
    **{leg: f"{leg}_retransmitted_segments" for leg in ("app", "wan", "exit")},
    **{
        f"{leg}_retransmitted": f"{leg}_retransmitted_segments"
        for leg in ("app", "wan", "exit", "wan2", "join")
    },
}
# Columns of a cell's row that are neither levels nor metrics.
OF_A_CELL = ("topology", "tunnel", "cc", "streams", "profile", "rate_mbit", "rtt_ms", "loss_p")


@dataclass(frozen=True)
class Results:
    """Represent an experiment's results, as its folder has them."""

    folder: Path
    study: studies.Study  # the study that the experiment's file declares
    read: run_folders.ExperimentFolders

    @property
    def name(self) -> str:
        """Return the experiment's name."""
        return self.folder.name

    @cached_property
    def matrices(self) -> list[cell_results.MatrixResults]:
        """Return the experiment's cells by matrix."""
        from gostlab.analysis.stats import cells as cell_results

        return cell_results.to_matrices(self.read.runs, self.study)

    @cached_property
    def factors(self) -> tuple[str, ...]:
        """Return the names of the factors that the runs differ in."""
        return tuple(dict.fromkeys(name for run in self.read.runs for name, _ in run.factors))

    @property
    def runs(self) -> pd.DataFrame:
        """Return a table with a row per run, of any outcome; `full_runs` has every column.

        Columns are the requested levels, how the run ended (`state`, `verdict`), its goodput,
        delays and retransmissions. Column names end in their unit (_mbit, _ms, _s, _pkts, _bdp,
        _segments; _p a probability, _share of one); streams, flows, repetition and seed are
        numbers, loss is a share of one. Levels that are no numbers are categories. Unknown values
        are empty.
        """
        return table_types.short_runs(self.full_runs, self.factors)

    @cached_property
    def full_runs(self) -> pd.DataFrame:
        """Return `runs` with each direction of the path, all legs, and what made the run."""
        from gostlab.analysis.load import runs as run_folders

        frame = run_folders.to_frame(self.read.runs).rename(columns=WITH_UNITS)
        return table_types.with_types(frame, self.factors)

    @property
    def cells(self) -> pd.DataFrame:
        """Return a table with a row per cell: runs that differ only in repetition and seed.

        Columns are the cell's levels, `n` runs that count, the worst verdict, and for each metric
        that was measured the median over those runs. METRIC_low and METRIC_high are the 95 %
        interval of the median, empty below six runs. Metrics of one flow end in :FLOW. Units as in
        `runs`. pandas, Polars and Arrow take it by the dataframe interchange.
        """
        return table_types.short_cells(self.full_cells)

    @cached_property
    def full_cells(self) -> pd.DataFrame:
        """Return `cells` with every metric; METRIC_values has the value of every run."""
        import pandas as pd

        rows = [self._row(cell) for matrix in self.matrices for cell in matrix.cells]
        return table_types.with_types(pd.DataFrame(rows), self.factors)

    def _repr_html_(self) -> str:
        """Return the cells as HTML, which notebooks show."""
        return f"<h4>{escape(self.name)}</h4>{self.cells.round(3).to_html(index=False)}"

    def _row(self, cell: cell_results.Cell) -> dict[str, object]:
        from gostlab.analysis.load import study as studies
        from gostlab.analysis.stats import cells as cell_results

        row: dict[str, object] = {
            "matrix": cell.matrix,
            "variant": cell.variant,
            "cell": cell.label,
            **{name: getattr(cell.example, name) for name in OF_A_CELL},
            **{
                name: studies.format_level(value)
                for name, value in cell.factors
                if name not in OF_A_CELL
            },
            "n": len(cell.counted),
            "left_out": len(cell.left_out),
            "verdict": cell.verdict,
        }
        for figure in cell_results.metrics_of(cell, self.study):
            merit, _, flow = figure.partition(":")
            name = cell_results.metric_of(merit).name
            column = WITH_UNITS.get(name, name) + (f":{flow}" if flow else "")
            statistics = cell.summary(figure)
            interval = statistics.interval if statistics else None
            row[column] = statistics.median if statistics else None
            row[f"{column}_low"] = interval.low if interval else None
            row[f"{column}_high"] = interval.high if interval else None
            row[f"{column}_values"] = statistics.values if statistics else ()
        return row

    def samples(self, of: str = "sockets") -> pd.DataFrame:
        """Return the samples over time of all runs that count, one row each.

        Columns are `run`, the factors' levels, the repetition, then the columns of the run's file
        (docs/reference/result-format.md), with units in the names. `t_s` counts from the begin of
        the load. of: one of gostlab.SAMPLES. Raises BadInput.
        """
        import pandas as pd

        series = []
        for run in self.read.runs:
            if not run.counts:
                continue
            table = read_samples(run.folder, of)
            about = {"run": run.name, **dict(run.factors), "repetition": run.repetition}
            for index, (name, value) in enumerate(about.items()):
                column = f"factor:{name}" if name in table else name
                table.insert(index, column, [value] * len(table))
            series.append(table)
        if not series:
            return pd.DataFrame()
        levels = {*self.factors, *(f"factor:{name}" for name in self.factors)}
        return table_types.with_types(pd.concat(series, ignore_index=True), levels)

    # -- draw

    def drawings(self, matrix: str | None = None) -> tuple[str, ...]:
        """Return the names of the report's plots of a matrix (None: its only or first one).

        Any other name in docs/reference/drawings.md is valid as well. Raises BadInput.
        """
        from gostlab.analysis.plotting import plot_registry

        return plot_registry.plot_names(self._matrix(matrix))

    def figures(
        self, drawing: str, *, matrix: str | None = None, where: Mapping[str, object] | None = None
    ) -> dict[str, Figure]:
        """Return the figures of a plot by name, as the report has them; arguments as for draw."""
        return {
            picture.name: picture.figure for picture in self._drawn(drawing, matrix, where).pictures
        }

    def draw(
        self,
        drawing: str,
        on: Axes | Sequence[Axes] | Figure | SubFigure,
        *,
        matrix: str | None = None,
        where: Mapping[str, object] | None = None,
        legend: bool = True,
    ) -> list[Axes]:
        """Draw a plot on the caller's axes, in the caller's style, and return the axes.

            drawing  a name in docs/reference/drawings.md: goodput, by-loss, latency, …
            on       as many axes as the plot has panels, or a figure, which gets them
            matrix   the matrix whose cells are drawn (None: the only one, or the first)
            where    levels to keep: {"tunnel": "direct"}
            legend   whether to draw a legend on the first axes, and the report's note and footer
        Raises BadInput if the plot makes several figures, or has more panels than axes.
        """
        from gostlab.analysis.plotting import style

        canvas = style.Canvas.on(on, legend=legend)
        with style.canvas_style(canvas):
            for picture in self._drawn(drawing, matrix, where).pictures:
                _ = picture.figure  # this draws it
        return canvas.drawn

    def _matrix(self, name: str | None) -> cell_results.MatrixResults:
        """Return a matrix by its name. Raises BadInput."""
        known = {result.name: result for result in reversed(self.matrices)}
        if not known:
            raise BadInput(f"{self.folder}: no run there can be read")
        if name is None:
            return self.matrices[0]
        if name not in known:
            raise BadInput(f"matrix {name!r:.40}: {self.name} has {', '.join(sorted(known))}")
        return known[name]

    def _drawn(
        self, word: str, matrix: str | None, where: Mapping[str, object] | None
    ) -> plot_registry.PlotResult:
        """Draw a plot of some cells. Raises BadInput if nothing is drawn."""
        from gostlab.analysis.plotting import plot_registry
        from gostlab.analysis.stats.provenance import made_by_line

        results = self._matrix(matrix)
        cells = tuple(cell for cell in results.cells if matches_levels(cell, where or {}))
        if not cells:
            raise BadInput(f"{self.name}, {results.name}: no cell has {where}")
        results = replace(results, cells=cells)
        drawing = plot_registry.find_drawing(word)
        sweep = plot_registry.MatrixInput(
            results, self.matrices, self.study, made_by_line(results.runs)
        )
        drawn = plot_registry.draw_matrix(drawing, sweep, f"{self.name}-{results.key}")
        if not drawn.pictures:
            raise BadInput(f"{word}: {drawn.note or 'no run counts'}")
        return drawn

    # -- write

    def to_parquet(self, folder: str | Path, samples: Sequence[str] = ("sockets",)) -> list[Path]:
        """Write runs.parquet, cells.parquet and one file per series to a folder; return the files.

        Raises MissingPart without pyarrow, BadInput, OSError.
        """
        if find_spec("pyarrow") is None:
            raise MissingPart("Parquet needs pyarrow: pip install pyarrow (or write runs.to_csv)")
        frames = {"runs": self.full_runs, "cells": self.full_cells}
        frames |= {of: self.samples(of) for of in samples}
        target = Path(folder)
        target.mkdir(parents=True, exist_ok=True)
        for name, table in frames.items():
            table.to_parquet(target / f"{name}.parquet", engine="pyarrow", index=False)
        return [target / f"{name}.parquet" for name in frames]


def matches_levels(cell: cell_results.Cell, where: Mapping[str, object]) -> bool:
    from gostlab.analysis.load import study as studies

    levels = {name: studies.format_level(value) for name, value in cell.factors}
    return all(levels.get(name) == str(value) for name, value in where.items())


def load(folder: str | Path) -> Results:
    """Read an experiment's results (results/NAME). Raises BadInput where there are none."""
    from gostlab.analysis.load import runs as run_folders
    from gostlab.analysis.load import study as studies

    resolved = Path(folder).resolve()
    if not resolved.is_dir():
        raise BadInput(f"{folder}: no such folder (an experiment's results: results/NAME)")
    read = run_folders.load_results(resolved.parent, resolved.name)
    if not read.runs and not read.broken:
        raise BadInput(f"{folder}: no run there (an experiment's results: results/NAME)")
    return Results(resolved, studies.load_study(resolved.name, resolved.parent), read)
