"""Goodput of every site of a star."""

import itertools
from collections.abc import Sequence
from functools import partial
from typing import Literal

import pandas as pd
from matplotlib.axes import Axes

from gostlab.analysis.plotting.facet import Facet, FacetPanel, Value, in_groups, point, side_by_side
from gostlab.analysis.plotting.marks import cc_handles, figure_values
from gostlab.analysis.plotting.plot import Drawing, Joined, Sheet, Sweep
from gostlab.analysis.plotting.style import FAINT, cut, log_axis
from gostlab.analysis.stats.cells import MatrixResults


def scale(ax: Axes, way: Literal["x", "y"], table: pd.DataFrame) -> None:
    values = [value for value in figure_values(table, "goodput") if value > 0] or [1.0]
    log_axis(ax, way, min(values) / 1.8, max(values) * 1.8, most=5)


def panels(sheet: Sheet) -> list[FacetPanel]:
    """One of each direction, a line for each site; a thin one between places they are seen from."""
    table = sheet.rows
    sites, rtt = sites_of(table), table.groupby("profile")["rtt_ms"].min()

    def behind(ax: Axes) -> None:
        for at, (first, second) in enumerate(itertools.pairwise(sites)):
            if first.split("-")[0] != second.split("-")[0] and rtt[first] > rtt[second]:
                ax.axhline(at + 0.5, color=FAINT, linewidth=0.9)

    value = Value(scale, mark=partial(point, study="before"))
    return [
        in_groups(
            direction,
            [
                (f"{cut(site, 26)}, {rtt[site]:.3g} ms", rows[rows["profile"] == site])
                for site in sites
            ],
            value,
            behind=behind,
        )
        for direction in sorted(table["direction"].unique(), key=("upload", "download").index)
        for rows in [table[table["direction"] == direction]]
    ]


def sites_of(table: pd.DataFrame) -> list[str]:
    """The profiles, nearest first; those seen from one place together, where a few share the first
    word of their name.
    """
    rtt = table.groupby("profile")["rtt_ms"].min()
    heads = {site: site.split("-")[0] for site in rtt.index}
    together = 1 < len(set(heads.values())) <= len(heads) / 3
    return sorted(rtt.index, key=lambda site: (heads[site] if together else "", rtt[site], site))


def cells(sweep: Sweep) -> Joined:
    """Those of every matrix of the star, in the figure of the first."""
    together = sites_together(sweep.matrix, sweep.matrices)
    if together[0] is not sweep.matrix:
        return Joined(sweep.matrix.cells, f"“{sweep.study.matrix_title(together[0].name)}”")
    return Joined(tuple(cell for each in together for cell in each.cells))


def sites_together(matrix: MatrixResults, matrices: Sequence[MatrixResults]) -> list[MatrixResults]:
    """The matrices of one map: of one star, ways and streams apart, each in its fullest variant."""
    alike = [
        other
        for other in matrices
        if "map" in other.draw and other.cells[0].example.sites == matrix.cells[0].example.sites
    ]
    found = {other.name: other for other in alike[::-1]}
    first = list(dict.fromkeys(other.name for other in alike))
    return [found[name] for name in first] if found.get(matrix.name) is matrix else [matrix]


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
        shape=side_by_side,
        shared={"sharey": True},
    ),
    shows=("profile", "cc", "direction"),
    cells=cells,
)
