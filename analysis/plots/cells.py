# SPDX-License-Identifier: MIT
"""Plot the goodput of any matrix, one line per cell."""

from collections.abc import Iterator
from dataclasses import replace

from gostlab.analysis.plotting import facet
from gostlab.analysis.plotting.marks import CellPosition, draw_point, draw_published_value
from gostlab.analysis.plotting.plot_registry import (
    Drawing,
    FigureInput,
    ReportFigure,
    rows_including_absent,
)
from gostlab.analysis.plotting.style import annotate, cc_colour, truncate, tunnel_marker

# Maximum rows of a readable figure.
MAX_ROWS = 60


def mark_cell(place: CellPosition, line: facet.FacetSeries) -> None:
    """Mark a cell by its congestion control's colour and tunnel's marker, or its absence."""
    row = place.row
    coloured = replace(place, colour=cc_colour(row["cc"]))
    if row["n"]:
        draw_point(coloured, f"lab {row['cc']}", marker=tunnel_marker(row["tunnel"]))
    else:
        annotate(place.ax, row["absent"], (0, place.at), (4, 0), va="center", fontsize=9)
    draw_published_value(coloured)


def panels(sheet: FigureInput) -> list[facet.FacetPanel]:
    """Return the panel with a position for each cell; all pages share its axis."""
    rows = sheet.rows
    groups = [
        (truncate(rows["cell"].iloc[at], 60), rows.iloc[at : at + 1]) for at in range(len(rows))
    ]
    all_rows = rows if sheet.all_rows is None else sheet.all_rows
    reach = facet.from_zero(1.05, least=0.0)
    value = facet.MetricAxis(lambda ax, way, _: reach(ax, way, all_rows), mark=mark_cell)
    return [facet.panel_of_groups("", groups, value)]


FACET = facet.Facet(
    panels=panels,
    spread=False,
    series=facet.single_series,
    flat=True,
    ends=(0.6, 0.6),
    around_in=1.2,
    place_in=0.34,
)


def draw(sheet: FigureInput) -> Iterator[ReportFigure]:
    """Plot as many figures as the rows need."""
    pages = range(0, len(sheet.rows), MAX_ROWS)
    for number, first in enumerate(pages, 1):
        rows = sheet.rows.iloc[first : first + MAX_ROWS]
        page = replace(sheet, rows=rows, all_rows=sheet.rows)
        if len(pages) > 1:
            text = f"cells {first + 1} to {first + len(rows)} of {len(sheet.rows)}"
            page = replace(page, levels=text, note="")
        yield from FACET(page, name=str(number) if len(pages) > 1 else "")


DRAWING = Drawing(
    "cells", caption="Goodput of each cell.", draw=draw, rows=rows_including_absent, borrows=True
)
