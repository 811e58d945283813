# SPDX-License-Identifier: MIT
"""Plot the time–sequence graph of one run per cell, from its capture or its ACKs."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

from gostlab.analysis.load.time_sequences import time_sequences
from gostlab.analysis.plotting.plot_registry import Drawing, FigureInput, ReportFigure
from gostlab.analysis.plotting.time_sequence_graph import GraphRow, plot_time_sequences
from gostlab.analysis.stats.cells import cell_key

MAX_RUNS = 6  # rows of a figure


def draw(sheet: FigureInput) -> Iterator[ReportFigure]:
    """Plot the largest connection of the first run of each cell."""
    cells = [cell for cell in sheet.sweep.matrix.cells if cell.counted]
    graphs = [
        GraphRow(cell.label or cell.counted[0].name, sequences[0], cell_key(cell.counted[0]))
        for cell in cells
        if (sequences := time_sequences(cell.counted[0]))
    ]
    for first in range(0, len(graphs), MAX_RUNS):
        some = graphs[first : first + MAX_RUNS]
        yield ReportFigure(partial(plot_time_sequences, some, sheet.footer))


DRAWING = Drawing(
    "time-sequence",
    caption=(
        "Time–sequence graph of one run per cell: a bar is a segment, first byte to last"
        " (captured at the sender's side), or what was sent between two ACKs (acks: on)."
    ),
    draw=draw,
    metrics=("goodput",),
)
