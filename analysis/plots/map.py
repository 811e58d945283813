# SPDX-License-Identifier: MIT
"""Plot the goodput of every site of a star."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING, Literal

from gostlab.analysis.plotting.facet import (
    Facet,
    FacetPanel,
    MetricAxis,
    mark_point,
    one_row_grid,
    panel_of_groups,
)
from gostlab.analysis.plotting.marks import cc_handles, metric_values
from gostlab.analysis.plotting.plot_registry import Drawing, FigureInput, JoinedCells, MatrixInput
from gostlab.analysis.plotting.style import FAINT, set_log_axis, truncate
from gostlab.analysis.stats.cells import MatrixResults

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes


def scale_goodput_axis(ax: Axes, way: Literal["x", "y"], table: pd.DataFrame) -> None:
    values = [value for value in metric_values(table, "goodput") if value > 0] or [1.0]
    set_log_axis(ax, way, min(values) / 1.8, max(values) * 1.8, most=5)


def panels(sheet: FigureInput) -> list[FacetPanel]:
    """Return a panel per direction, with a line per site and rules between vantage points."""
    table = sheet.rows
    sites, rtt = sorted_sites(table), table.groupby("profile")["rtt_ms"].min()

    def behind(ax: Axes) -> None:
        for at, (first, second) in enumerate(itertools.pairwise(sites)):
            if first.split("-")[0] != second.split("-")[0] and rtt[first] > rtt[second]:
                ax.axhline(at + 0.5, color=FAINT, linewidth=0.9)

    value = MetricAxis(scale_goodput_axis, mark=partial(mark_point, study="before"))
    return [
        panel_of_groups(
            direction,
            [
                (f"{truncate(site, 26)}, {rtt[site]:.3g} ms", rows[rows["profile"] == site])
                for site in sites
            ],
            value,
            behind=behind,
        )
        for direction in sorted(table["direction"].unique(), key=("upload", "download").index)
        for rows in [table[table["direction"] == direction]]
    ]


def sorted_sites(table: pd.DataFrame) -> list[str]:
    """Return the profiles, nearest first, grouped by vantage point."""
    rtt = table.groupby("profile")["rtt_ms"].min()
    heads = {site: site.split("-")[0] for site in rtt.index}
    together = 1 < len(set(heads.values())) <= len(heads) / 3
    return sorted(rtt.index, key=lambda site: (heads[site] if together else "", rtt[site], site))


def cells(sweep: MatrixInput) -> JoinedCells:
    """Return the cells of every matrix of the star, plotted with the first."""
    together = matrices_of_map(sweep.matrix, sweep.matrices)
    if together[0] is not sweep.matrix:
        return JoinedCells(sweep.matrix.cells, f"“{sweep.study.matrix_title(together[0].name)}”")
    return JoinedCells(tuple(cell for item in together for cell in item.cells))


def matrices_of_map(
    matrix: MatrixResults, matrices: Sequence[MatrixResults]
) -> list[MatrixResults]:
    """Return the matrices of one map, each in its largest variant."""
    alike = [
        other
        for other in matrices
        if "map" in other.draw and other.cells[0].example.sites == matrix.cells[0].example.sites
    ]
    result = {other.name: other for other in alike[::-1]}
    first = list(dict.fromkeys(other.name for other in alike))
    return [result[name] for name in first] if result.get(matrix.name) is matrix else [matrix]


DRAWING = Drawing(
    "map",
    caption="Goodput to and from each site, nearest first.",
    draw=Facet(
        panels=panels,
        keys=cc_handles,
        width=0.62,
        flat=True,
        striped=True,
        around_in=1.3,
        place_in=0.36,
        shape=one_row_grid,
        shared={"sharey": True},
    ),
    shows=("profile", "cc", "direction"),
    cells=cells,
)
