"""Goodput by tunnel."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import pandas as pd
from matplotlib.figure import Figure

from analysis.draw.levels import ccs_of, facets_of, tunnels_of
from analysis.draw.marks import cc_handles, degraded_handles, draw_point, figure_values, look_of
from analysis.draw.panels import abreast, label_lowest, panel_figure
from analysis.draw.registry import Answer, Drawing, Picture, Sheet, Sweep
from analysis.draw.style import (
    FAINT,
    cc_colour,
    finish,
    styled,
    thousands,
)
from analysis.judge.figures_of_merit import merit_of
from analysis.judge.statistics import is_known
from analysis.judge.table import cc_name, rate, ratio

PANELS_ABREAST = 2
KNOWN = ("tunnel", "cc")


@styled
def plot_by_tunnel(
    facets: Sequence[tuple[str, pd.DataFrame]],
    footer: str = "",
    *,
    title: str = "",
    figure: str = "goodput",
) -> Figure:
    """A panel per condition, a line per tunnel, a mark per congestion control; a dashed line where
    the same runs without a tunnel are.
    """
    whole = pd.concat([rows for _, rows in facets])
    tunnels, ccs = tunnels_of(whole), ccs_of(whole)
    columns = min(PANELS_ABREAST, len(facets))
    drawn, axes = panel_figure(
        [heading for heading, _ in facets],
        0.9 + 0.27 * len(tunnels),
        shape=abreast(len(facets), columns),
        sharey=True,
    )
    for ax, (_, rows) in zip(axes.flat, facets, strict=False):
        for place, cc in enumerate(ccs):
            mine, colour = rows[rows["cc"] == cc], cc_colour(cc)
            off = (place - (len(ccs) - 1) / 2) * 0.24
            for _, row in mine.iterrows():
                at = tunnels.index(row["tunnel"]) + off
                draw_point(ax, at, row, figure, colour, f"lab {cc}", look=look_of(place), flat=True)
                if row["tunnel"] == "direct" and is_known(row[figure]):
                    ax.axvline(row[figure], color=colour, linestyle="--", linewidth=1.0, zorder=1)
        ax.set_yticks(range(len(tunnels)), tunnels)
        ax.set_ylim(len(tunnels) - 0.5, -0.5)
        ax.set_xlim(0, 1.08 * max([0.1, *figure_values(rows, figure, link=False)]))
        ax.grid(True, axis="y", color=FAINT, linewidth=0.4)
        thousands(ax.xaxis)
    label_lowest(axes, len(facets), merit_of(figure).axis)
    handles = [*cc_handles(ccs, looks=True), *degraded_handles(whole)]
    finish(drawn, handles, footer, title)
    return drawn


def draw(sheet: Sheet) -> Iterator[Picture]:
    """One figure."""
    facets = list(facets_of(sheet.rows, known=KNOWN))
    yield Picture(plot_by_tunnel(facets, sheet.footer, title=sheet.title))


def says(sweep: Sweep, table: pd.DataFrame) -> Iterator[Answer]:
    """Of each condition and congestion control: the fastest tunnel and the slowest, beside none."""
    said = []
    for heading, rows in facets_of(table[table["n"] > 0], known=KNOWN):
        for cc in ccs_of(rows):
            mine = rows[rows["cc"] == cc].set_index("tunnel")["goodput"].dropna()
            tunnelled = mine.drop("direct", errors="ignore")
            if len(tunnelled) > 1:
                said.append(sentence(heading, cc, mine, tunnelled))
    if said:
        yield Answer(f"{sweep.title}: which tunnel", tuple(said))


def sentence(heading: str, cc: str, mine: pd.Series, tunnelled: pd.Series) -> str:
    """The fastest and the slowest, and their share of what goes without a tunnel."""
    direct = mine.get("direct")

    def words(name: str) -> str:
        share = f" ({ratio(mine[name] / direct)} of direct)" if direct else ""
        return f"{name} {rate(mine[name])} Mbit/s{share}"

    best, worst = str(tunnelled.idxmax()), str(tunnelled.idxmin())
    where = f"{heading}, {cc_name(cc)}" if heading else cc_name(cc)
    alone = f"; without a tunnel {rate(direct)}" if direct else ""
    return f"{where}: fastest {words(best)}, slowest {words(worst)}{alone}."


DRAWING = Drawing(
    "by-tunnel",
    caption="Goodput by tunnel; dashed: the same without one.",
    draw=draw,
    says=says,
)
