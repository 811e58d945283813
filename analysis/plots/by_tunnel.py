# SPDX-License-Identifier: MIT
"""Plot goodput by tunnel."""

from functools import partial

from gostlab.analysis.plotting import facet
from gostlab.analysis.plotting.factors import facets_of, tunnels_of
from gostlab.analysis.plotting.marks import CellPosition, cc_handles
from gostlab.analysis.plotting.plot_registry import Drawing, FigureInput
from gostlab.analysis.stats.statistics import is_known

KNOWN = ("tunnel", "cc")


def mark_cell_and_direct(place: CellPosition, line: facet.FacetSeries) -> None:
    """Mark a cell as a point; direct is also a dashed line through all tunnels."""
    facet.mark_point(place, line)
    value, look = place.row[place.figure], {"linestyle": "--", "linewidth": 1.0, "zorder": 1}
    if place.row["tunnel"] == "direct" and is_known(value):
        place.ax.axvline(value, color=place.colour, **look)


GOODPUT = facet.MetricAxis(
    facet.from_zero(1.08, least=0.1), mark=mark_cell_and_direct, scaled_per_panel=True
)


def panels(sheet: FigureInput) -> list[facet.FacetPanel]:
    """Return a panel per condition, with a line for each tunnel."""
    tunnels = tunnels_of(sheet.rows)
    return [
        facet.panel_of_groups(
            text, [(name, rows[rows["tunnel"] == name]) for name in tunnels], GOODPUT
        )
        for text, rows in facets_of(sheet.rows, known=KNOWN)
    ]


DRAWING = Drawing(
    "by-tunnel",
    caption="Goodput by tunnel; a dashed line is the goodput without one.",
    draw=facet.BY_TUNNEL(
        panels=panels, series=facet.by_cc_look, keys=partial(cc_handles, looks=True), step=0.24
    ),
)
