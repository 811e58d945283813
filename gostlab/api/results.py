"""Results, read: runs, cells and samples as pandas' tables, and any drawing of the report.

found = gostlab.load("results/thesis-tunnel")
found.cells[["cell", "n", "goodput_mbit", "goodput_mbit_low", "goodput_mbit_high"]]
found.draw("goodput", ax)
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gostlab.analysis.load import frames
from gostlab.analysis.load import published as studies
from gostlab.analysis.load import runs as answers
from gostlab.analysis.plotting import plot, sentences, style
from gostlab.analysis.stats import cells as judged
from gostlab.install.locate import MissingPart
from gostlab.spec.yaml_source import BadInput

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure, SubFigure

# Columns of the report's tables that have no unit in their names.
WITH_UNITS = {
    "retr": "iperf3_retransmitted_segments",
    "iperf3_retr": "iperf3_retransmitted_segments",
    "client_nstat": "client_retransmitted_segments",
    "wan_segments_out": "wan_sent_segments",
    **{leg: f"{leg}_retransmitted_segments" for leg in ("app", "wan", "exit")},
    **{
        f"{leg}_retransmitted": f"{leg}_retransmitted_segments"
        for leg in ("app", "wan", "exit", "wan2", "join")
    },
}
# What a cell's row has beside its levels and figures.
OF_A_CELL = ("topology", "tunnel", "cc", "streams", "profile", "rate_mbit", "rtt_ms", "loss_p")


@dataclass(frozen=True)
class Results:
    """An experiment's results, as its folder has them."""

    folder: Path
    study: studies.Study  # what its file says of it
    read: answers.ExperimentFolders

    @property
    def name(self) -> str:
        """The experiment's name."""
        return self.folder.name

    @cached_property
    def matrices(self) -> list[judged.MatrixResults]:
        """Its cells by matrix."""
        return judged.to_matrices(self.read.runs, self.study)

    @cached_property
    def runs(self) -> pd.DataFrame:
        """A row per run, whatever became of it: what was asked, how it ended (`state`, `verdict`),
        its goodput, delays and retransmissions. Units stand in the columns' names (_mbit, _ms, _s,
        _pkts, _bdp, _segments; _p a probability, _share of one); streams, flows, repetition and
        seed are numbers. What a run does not tell is empty.
        """
        return answers.to_frame(self.read.runs).rename(columns=WITH_UNITS)

    @cached_property
    def cells(self) -> pd.DataFrame:
        """A row per cell (runs that differ in repetition and seed alone): its levels, `n` runs that
        count, the worst verdict, and of each figure the median over those runs. FIGURE_low and
        FIGURE_high are the 95 % interval of the median, empty below six runs; FIGURE_values every
        run's own. Figures of one flow have :FLOW behind. Units as in `runs`.
        """
        rows = [self._row(cell) for matrix in self.matrices for cell in matrix.cells]
        return frames.to_frame(rows)

    def _row(self, cell: judged.Cell) -> dict[str, Any]:
        row: dict[str, Any] = {
            "matrix": cell.matrix,
            "variant": cell.variant,
            "cell": cell.label,
            **{name: getattr(cell.example, name) for name in OF_A_CELL},
            **{name: studies.level(value) for name, value in cell.factors if name not in OF_A_CELL},
            "n": len(cell.counted),
            "left_out": len(cell.left_out),
            "verdict": cell.verdict,
        }
        for figure in judged.figures_of(cell, self.study):
            merit, _, flow = figure.partition(":")
            name = judged.merit_of(merit).name
            column = WITH_UNITS.get(name, name) + (f":{flow}" if flow else "")
            found = cell.summary(figure)
            interval = found.interval if found else None
            row[column] = found.median if found else None
            row[f"{column}_low"] = interval.low if interval else None
            row[f"{column}_high"] = interval.high if interval else None
            row[f"{column}_values"] = found.values if found else ()
        return row

    def samples(self, of: str = "sockets") -> pd.DataFrame:
        """The samples over time of all runs that count, a row each: `run`, the factors' levels, the
        repetition, then the columns of the run's file (docs/reference/result-format.md), with units
        in the names. `t_s` counts from the load's begin. of: one of gostlab.SAMPLES. Raises
        BadInput.
        """
        return frames.samples_of((run for run in self.read.runs if run.counts), of)

    # -- draw

    def drawings(self, matrix: str | None = None) -> tuple[str, ...]:
        """What the report draws a matrix by (None: its only or first one). Any other word of
        docs/reference/drawings.md is as good. Raises BadInput.
        """
        return plot.words_for(self._matrix(matrix))

    def figures(
        self, drawing: str, *, matrix: str | None = None, where: Mapping[str, Any] | None = None
    ) -> dict[str, Figure]:
        """A drawing's figures as the report has them, by name. The arguments are draw's."""
        return {each.name: each.figure for each in self._drawn(drawing, matrix, where).pictures}

    def draw(
        self,
        drawing: str,
        on: Axes | Sequence[Axes] | Figure | SubFigure,
        *,
        matrix: str | None = None,
        where: Mapping[str, Any] | None = None,
        legend: bool = True,
    ) -> list[Axes]:
        """Draw on axes of one's own, in one's own style; the axes.

        drawing  a word of docs/reference/drawings.md: goodput, by-loss, latency, …
        on       as many axes as the drawing has panels, or a figure, which gets them
        matrix   whose cells (None: of the only one, or the first)
        where    levels to keep: {"tunnel": "direct"}
        legend   on the first of the axes; without it the report's note and footer are left out, too
        Raises BadInput where the drawing makes several figures of it, or has more panels than axes.
        """
        canvas = style.Canvas.on(on, legend=legend)
        with style.drawing_on(canvas):
            self._drawn(drawing, matrix, where)
        return canvas.drawn

    def _matrix(self, name: str | None) -> judged.MatrixResults:
        """A matrix by its name. Raises BadInput."""
        known = {each.name: each for each in reversed(self.matrices)}
        if not known:
            raise BadInput(f"{self.folder}: no run there can be read")
        if name is None:
            return self.matrices[0]
        if name not in known:
            raise BadInput(f"matrix {name!r:.40}: {self.name} has {', '.join(sorted(known))}")
        return known[name]

    def _drawn(self, word: str, matrix: str | None, where: Mapping[str, Any] | None) -> plot.Drawn:
        """What a drawing makes of some cells. Raises BadInput where that is nothing."""
        of = self._matrix(matrix)
        kept = tuple(cell for cell in of.cells if has(cell, where or {}))
        if not kept:
            raise BadInput(f"{self.name}, {of.name}: no cell has {where}")
        of = replace(of, cells=kept)
        drawing = plot.drawing_of(word)
        sweep = plot.Sweep(of, self.matrices, self.study, sentences.made_by_line(of.runs))
        drawn = plot.draw_matrix(drawing, sweep, f"{self.name}-{of.key}")
        if not drawn.pictures:
            raise BadInput(f"{word}: {drawn.note or 'no run counts'}")
        return drawn

    # -- write

    def to_parquet(self, folder: str | Path, samples: Sequence[str] = ("sockets",)) -> list[Path]:
        """Write runs.parquet, cells.parquet and one file of each kind of samples to a folder; the
        files. Raises MissingPart without pyarrow, BadInput, OSError.
        """
        if find_spec("pyarrow") is None:
            raise MissingPart("Parquet needs pyarrow: pip install pyarrow (or write runs.to_csv)")
        tables = {"runs": self.runs, "cells": self.cells}
        tables |= {of: self.samples(of) for of in samples}
        place = Path(folder)
        place.mkdir(parents=True, exist_ok=True)
        for name, table in tables.items():
            table.to_parquet(place / f"{name}.parquet", engine="pyarrow", index=False)
        return [place / f"{name}.parquet" for name in tables]


def has(cell: judged.Cell, where: Mapping[str, Any]) -> bool:
    levels = {name: studies.level(value) for name, value in cell.factors}
    return all(levels.get(name) == str(value) for name, value in where.items())


def load(folder: str | Path) -> Results:
    """Read an experiment's results (results/NAME). Raises BadInput where there are none."""
    place = Path(folder).resolve()
    if not place.is_dir():
        raise BadInput(f"{folder}: no such folder (an experiment's results: results/NAME)")
    read = answers.load_results(place.parent, place.name)
    if not read.runs and not read.broken:
        raise BadInput(f"{folder}: no run there (an experiment's results: results/NAME)")
    return Results(place, studies.load_study(place.name, place.parent), read)
