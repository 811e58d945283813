"""Goodput of every site of a star."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence

import pandas as pd
from matplotlib.figure import Figure

from analysis.draw.levels import (
    ccs_of,
    one_row,
)
from analysis.draw.marks import (
    cc_handles,
    degraded_handles,
    draw_point,
    draw_study,
    figure_values,
    spread_handles,
    study_handles,
)
from analysis.draw.registry import Drawing, Joined, Picture, Sheet, Sweep
from analysis.draw.style import (
    FAINT,
    cc_colour,
    cut,
    finish,
    new_figure,
    plain_log,
    styled,
)
from analysis.judge.cells import MatrixResults
from analysis.judge.figures_of_merit import merit_of


@styled
def plot_map(
    table: pd.DataFrame,
    footer: str = "",
    *,
    title: str = "",
    called: str = "study",
    figure: str = "goodput",
) -> Figure:
    """A row per site of a star, nearest first, upload and download side by side, the study's value
    beside the lab's.
    """
    sites, ccs, rtt = sites_of(table), ccs_of(table), table.groupby("profile")["rtt_ms"].min()
    directions = sorted(table["direction"].unique(), key=("upload", "download").index)
    drawn, axes = new_figure(1.3 + 0.36 * max(2, len(sites)), 1, len(directions), sharey=True)
    values = [value for value in figure_values(table, figure) if value > 0] or [1.0]
    low, high = min(values) / 1.8, max(values) * 1.8
    step = 0.62 / max(1, len(ccs))
    for ax, direction in zip(axes[0], directions, strict=True):
        ax.set_xscale("log")
        for y, site in enumerate(sites):
            if y % 2:
                ax.axhspan(y - 0.5, y + 0.5, color="#f4f5f7", zorder=0, linewidth=0)
            for place, cc in enumerate(ccs):
                row = one_row(table, profile=site, cc=cc, direction=direction)
                if row is not None:
                    at = y + (place - (len(ccs) - 1) / 2) * step
                    draw_study(ax, at, row, figure, cc_colour(cc), flat=True)
                    draw_point(ax, at, row, figure, cc_colour(cc), f"lab {cc}", flat=True)
        for y, (first, second) in enumerate(itertools.pairwise(sites)):
            if first.split("-")[0] != second.split("-")[0] and rtt[first] > rtt[second]:
                ax.axhline(y + 0.5, color=FAINT, linewidth=0.9)
        ax.set_title(direction)
        ax.set_xlim(low, high)
        ax.set_ylim(len(sites) - 0.5, -0.5)
        ax.set_xlabel(merit_of(figure).axis)
        ax.grid(False, axis="y")
        plain_log(ax.xaxis, low, high, most=5)
    axes[0, 0].set_yticks(
        range(len(sites)), [f"{cut(site, 26)}, {rtt[site]:.3g} ms" for site in sites]
    )
    handles = [
        *cc_handles(ccs),
        *study_handles(table, figure, called=called),
        *spread_handles(table, figure),
        *degraded_handles(table),
    ]
    finish(drawn, handles, footer, title)
    return drawn


def sites_of(table: pd.DataFrame) -> list[str]:
    """The profiles, nearest first; those seen from one place together, where a few share the first
    word of their name.
    """
    rtt = table.groupby("profile")["rtt_ms"].min()
    heads = {site: site.split("-")[0] for site in rtt.index}
    together = 1 < len(set(heads.values())) <= len(heads) / 3
    return sorted(rtt.index, key=lambda site: (heads[site] if together else "", rtt[site], site))


def draw(sheet: Sheet) -> Iterator[Picture]:
    """One figure."""
    yield Picture(plot_map(sheet.rows, sheet.footer, title=sheet.title, called=sheet.called))


def cells(sweep: Sweep) -> Joined:
    """Those of every matrix of the star, in the figure of the first."""
    together = sites_together(sweep.matrix, sweep.matrices)
    if together[0] is not sweep.matrix:
        return Joined(sweep.matrix.cells, f"“{sweep.study.matrix_title(together[0].name)}”")
    return Joined(tuple(cell for each in together for cell in each.cells))


def sites_together(matrix: MatrixResults, matrices: Sequence[MatrixResults]) -> list[MatrixResults]:
    """The matrices whose map is one: all of the same star, ways and streams apart, each in its
    fullest variant.
    """
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
    caption="Goodput to and from each site, nearest first; diamonds are the study's.",
    draw=draw,
    shows=("profile", "cc", "direction"),
    cells=cells,
)
