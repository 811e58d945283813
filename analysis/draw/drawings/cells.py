"""Goodput of any matrix: a line per cell, its levels as its name."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pandas as pd
from matplotlib.figure import Figure
from matplotlib.patches import Patch

from analysis.draw.levels import ccs_of
from analysis.draw.marks import (
    degraded_handles,
    draw_point,
    draw_study,
    figure_values,
    study_handles,
)
from analysis.draw.registry import Answer, Drawing, Picture, Sheet, Sweep
from analysis.draw.sentences import in_general
from analysis.draw.style import (
    FAINT,
    cc_colour,
    cut,
    finish,
    new_figure,
    styled,
    thousands,
    tunnel_marker,
)
from analysis.judge.table import cc_name

# More rows than this make no figure that anyone reads.
MOST_ROWS = 60


@styled
def plot_cells(
    table: pd.DataFrame,
    footer: str = "",
    *,
    title: str = "",
    called: str = "study",
    most: float | None = None,
) -> Figure:
    """Goodput of each cell, one under the other. most: where the axis ends (Mbit/s), None: a little
    beyond these cells' own marks.
    """
    figure, axes = new_figure(1.2 + 0.34 * max(2, len(table)))
    ax = axes[0, 0]
    for y, (_, row) in enumerate(table.iterrows()):
        if row["n"]:
            colour, marker = cc_colour(row["cc"]), tunnel_marker(row["tunnel"])
            name = f"lab {row['cc']}"
            draw_point(ax, y, row, "goodput", colour, name, marker=marker, flat=True)
        else:
            ax.annotate(
                row["absent"],
                (0, y),
                xytext=(4, 0),
                textcoords="offset points",
                va="center",
                fontsize=9,
                color=FAINT,
            )
        draw_study(ax, y, row, "goodput", cc_colour(row["cc"]), flat=True)
    ax.set_yticks(range(len(table)), [cut(label, 60) for label in table["cell"]])
    ax.set_ylim(len(table) - 0.4, -0.6)
    ax.set_xlim(0, reach_of(table) if most is None else most)
    ax.set_xlabel("Goodput (Mbit/s)")
    thousands(ax.xaxis)
    handles: list[Any] = [
        *(Patch(facecolor=cc_colour(cc), label=cc_name(cc)) for cc in ccs_of(table)),
        *study_handles(table, "goodput", called=called),
        *degraded_handles(table),
    ]
    finish(figure, handles, footer, title)
    return figure


def reach_of(table: pd.DataFrame) -> float:
    """Where the axis ends, in Mbit/s: beyond every mark and interval, so that none is cut. The
    axes' own margin is a share of how far the cells lie apart: none where they lie close together.
    """
    return 1.05 * (max(figure_values(table, "goodput", link=False), default=0.0) or 1.0)


def draw(sheet: Sheet) -> Iterator[Picture]:
    """So many figures that each has rows which people can read."""
    pages = range(0, len(sheet.rows), MOST_ROWS)
    several = len(pages) > 1
    reach = reach_of(sheet.rows)
    for number, first in enumerate(pages, 1):
        rows = sheet.rows.iloc[first : first + MOST_ROWS]
        numbered = f"cells {first + 1} to {first + len(rows)} of {len(sheet.rows)}"
        plotted = plot_cells(
            rows,
            sheet.footer,
            title=numbered if several else "",
            called=sheet.called,
            most=reach,
        )
        yield Picture(plotted, name=str(number) if several else "")


def says(sweep: Sweep, table: pd.DataFrame) -> Iterator[Answer]:
    """How far the cells lie apart, and congestion controls against each other."""
    yield from in_general(sweep, table)


DRAWING = Drawing(
    "cells",
    caption="Goodput of each cell.",
    draw=draw,
    says=says,
    # A cell without a valid run keeps its line and says why.
    rows=lambda table: table if (table["n"] > 0).any() else table.head(0),
    borrows=True,
)
