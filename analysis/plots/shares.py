# SPDX-License-Identifier: MIT
"""Plot flows' shares of a bottleneck."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

from gostlab.analysis.plotting import marks, style
from gostlab.analysis.plotting.factors import (
    facets_of,
    factor_heading,
    flows_of,
    level_label,
    swept_factor,
)
from gostlab.analysis.plotting.panel_layout import grid_shape, panel_figure
from gostlab.analysis.plotting.plot_registry import (
    Drawing,
    FigureInput,
    ReportFigure,
    rows_with_runs,
)
from gostlab.analysis.stats.metrics import metric_of
from gostlab.analysis.stats.statistics import is_known

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.figure import Figure

FAIR: style.ArtistStyle = {"color": style.INK, "linewidth": 1.0, "linestyle": (0, (4, 2))}


@style.in_report_style
def plot_shares(sheet: FigureInput) -> Figure:
    """Plot flows' shares of the total by the factor with most levels, with Jain's index."""
    from matplotlib.patches import Patch

    table = sheet.rows
    flows, swept = flows_of(table), swept_factor(table)
    facets = list(facets_of(table, known=(swept,)))
    few = max(len(rows) for _, rows in facets) <= 4
    shape = grid_shape(len(facets), min(2, len(facets)) if few else 1)
    drawn, axes = panel_figure(
        [text for text, _ in facets], 2.45, around_in=1.3, shape=shape, pad=8, sharey=True
    )
    width = 0.82 / max(1, len(flows))
    for ax, (_, rows) in zip(axes.flat, facets, strict=False):
        ax.axhline(100 / max(1, len(flows)), zorder=3, label="fair", **FAIR)
        for index, (_, row) in enumerate(rows.iterrows()):
            study = published_shares(row, flows)
            for position, flow in enumerate(flows):
                x = index + (position - (len(flows) - 1) / 2) * width
                bar_place = marks.CellPosition(
                    ax, x, row, f"share:{flow}", style.INK, width, scale=100
                )
                draw_share(
                    bar_place, flow, marks.shade_index(row, flows, position), study.get(flow)
                )
            if is_known(row["jain"]):
                look = {"ha": "center", "va": "bottom", "fontsize": 9.5, "label": "jain"}
                ax.annotate(f"{row['jain']:.2f}", (index, 107), **look)
        if ax.get_subplotspec().is_first_col():
            left = {"xycoords": ("axes fraction", "data"), "ha": "right", "va": "bottom"}
            style.annotate(ax, "Jain", (0, 107), (-4, 0), fontsize=9.5, **left)
        ax.set_ylim(0, 120)
        ax.set_yticks(range(0, 101, 25))
        room = round(68 * style.width_share()) // len(rows) // axes.shape[1]
        names = [
            "" if swept == "cell" else style.wrap_label(level_label(swept, value), room)
            for value in rows[swept]
        ]
        ax.set_xticks(range(len(rows)), names)
        # keep a single pair of bars narrow
        aside = 0.6 if len(rows) > 1 else 1.4
        ax.set_xlim(-aside, len(rows) - 1 + aside)
        ax.grid(False, axis="x")
    style.label_edges(axes, len(facets), factor_heading(swept), metric_of("share").axis)
    handles = [*marks.flow_handles(table, flows), style.legend_entry("equal shares", **FAIR)]
    shares = [f"share:{flow}" for flow in flows]
    if any(published_shares(row, flows) for _, row in table.iterrows()):
        handles.append(marks.diamond_handle(f"the {sheet.study_label}"))
    handles += [
        handle for handle in marks.published_handles(table, *shares) if isinstance(handle, Patch)
    ]
    handles += [
        *marks.interval_legend_handles(table, shares[0]),
        *marks.degraded_handles(table, bar=True),
    ]
    style.finish_figure(drawn, handles, sheet.footer, sheet.title)
    return drawn


def draw_share(place: marks.CellPosition, flow: str, shade: int, study: float | None) -> None:
    """Plot one flow's bar, runs and published value."""
    import pandas as pd

    row, figure, width = place.row, place.figure, place.width * 0.9
    colour = style.cc_colour(str(row[f"cc:{flow}"]))
    if is_known(marks.row_value(row, figure)):
        face, top, label = marks.tint(colour, shade), 100 * row[figure], f"lab {flow}"
        marks.draw_plain_bar(place.ax, place.at, top, width, row, face, colour, label)
        marks.draw_spread(place)
    beside = replace(place, at=place.at + place.width * 0.3)
    marks.draw_band_beside(beside, full=100, zorder=2.5)
    if study is not None:
        marks.draw_published_value(replace(beside, row=pd.Series({f"{figure}_study": study})))


def published_shares(row: pd.Series, flows: Sequence[str]) -> dict[str, float]:
    """Return the published shares, or those of the published goodputs."""
    published_shares = {flow: marks.row_value(row, f"share:{flow}_study") for flow in flows}
    goodputs = {flow: marks.row_value(row, f"goodput:{flow}_study") for flow in flows}
    total = sum(goodputs.values())
    if not any(map(is_known, published_shares.values())) and total > 0:
        published_shares = {flow: value / total for flow, value in goodputs.items()}
    return {flow: value for flow, value in published_shares.items() if is_known(value)}


DRAWING = Drawing(
    "shares",
    caption=(
        "Each flow's share of what all flows carry together, Jain's index above: 1 is equal, 1/n"
        " one flow alone. The first quarter of the time with all flows active is left out."
    ),
    draw=lambda sheet: [ReportFigure(partial(plot_shares, sheet))],
    rows=lambda table: rows_with_runs(table) if flows_of(table) else table.head(0),
    needs="two flows that compete",
    metrics=("share",),
)
