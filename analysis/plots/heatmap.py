# SPDX-License-Identifier: MIT
"""Plot a metric over pairs of levels of two factors as a map."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any, TypeAlias

from gostlab.analysis.plotting import style
from gostlab.analysis.plotting.factors import (
    cc_rank,
    cell_at_levels,
    facets_of,
    factor_columns,
    factor_heading,
    flows_of,
    level_label,
)
from gostlab.analysis.plotting.marks import degraded_handles, row_value
from gostlab.analysis.plotting.panel_layout import MapTile, map_figure, paged_figures
from gostlab.analysis.plotting.plot_registry import Drawing, FigureInput, ReportFigure
from gostlab.analysis.stats.cells import file_name_part, natural_sort_key
from gostlab.analysis.stats.metrics import metric_of
from gostlab.analysis.stats.statistics import is_known

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.colors import Normalize
    from matplotlib.figure import Figure

# Mapped metrics; each gets a figure if it is known and not constant.
MAPPED = ("goodput", "srtt_median_ms", "queue_delay_p95_ms", "jain")
SHARE = "share:"
# Perceptually uniform, and suitable for all types of colour vision (Nuñez, Anderton
# & Renslow, PLoS ONE 13(7), 2018).
COLOURS = "cividis"
FACETS_ON_A_FIGURE = 6
# Maximum columns whose numbers fit side by side; wider facets are stacked.
LEVELS_ABREAST = 5
# The columns for across and down; None if a table lacks two.
Choose: TypeAlias = "Callable[[pd.DataFrame], tuple[str, str] | None]"


@style.in_report_style
def plot_heatmap(
    facets: Sequence[tuple[str, pd.DataFrame]],
    title: str,
    *,
    x: str,
    y: str,
    figure: str,
    footer: str,
    scale: Normalize,
    columns: int = 0,
) -> Figure:
    """Plot a map per facet, with the levels of two factors as rows and columns.

    x, y     columns of the tables
    figure   a figure of merit, as its column is called
    scale    of its colours; several figures share one
    columns  facets abreast, where their widths should not say
    """
    import numpy as np
    import pandas as pd
    from matplotlib import colormaps
    from matplotlib.colors import LogNorm

    all_rows = pd.concat([rows for _, rows in facets])
    across, down = levels_of(all_rows, x), levels_of(all_rows, y)
    is_alone = len(across) > LEVELS_ABREAST or len(facets) == 1 or style.NARROW.get()
    abreast = 1 if is_alone and not columns else columns or 2
    room = round(60 * style.width_share()) // max(1, len(across) * abreast)

    def field(table: pd.DataFrame, column: int, line: int) -> MapTile:
        row = cell_at_levels(table, **{x: across[column], y: down[line]})
        if row is None:
            return MapTile(math.nan, "–")
        value, degraded = row_value(row, figure), row["verdict"] == "degraded"
        if not is_known(value):
            return MapTile(math.nan, "–", (row["key"],), degraded)
        # relative brightness, 0 to 1 (weights of ITU-R BT.709)
        bright = float(np.dot((0.2126, 0.7152, 0.0722), colormaps[COLOURS](scale(value))[:3]))
        ink = "white" if bright < 0.5 else style.INK
        return MapTile(value, style.format_bar_value(value), (row["key"],), degraded, ink)

    drawn, bar = map_figure(
        facets,
        field,
        across=[style.wrap_label(level_label(x, item), room) for item in across],
        down=[style.truncate(level_label(y, item), 26) for item in down],
        x=factor_heading(x),
        y=factor_heading(y),
        colours=COLOURS,
        scale=scale,
        scale_of=metric_and_flow_label(figure)
        if figure.startswith(SHARE)
        else metric_of(figure).axis,
        line_in=0.38,
        pt=9,
        columns=abreast,
    )
    if isinstance(scale, LogNorm):
        style.format_log_axis(bar.ax.yaxis, float(scale.vmin or 1), float(scale.vmax or 1))
    else:
        style.format_thousands(bar.ax.yaxis)
    style.finish_figure(drawn, degraded_handles(all_rows, bar=True), footer, title)
    return drawn


def norm_of(table: pd.DataFrame, figure: str) -> Normalize:
    """Return a common colour scale, logarithmic for a wide range."""
    from matplotlib.colors import LogNorm, Normalize

    result = [float(value) for value in table[figure] if is_known(value)]
    low, high = min(result, default=0.0), max(result, default=1.0)
    if low > 0 and high / low > style.WIDE:
        return LogNorm(low, high)
    return Normalize(min(0.0, low) if high == low else low, high)


def levels_of(table: pd.DataFrame, factor: str) -> list[Any]:
    """Return a factor's sorted levels, from its numeric column if it has one."""
    import pandas as pd

    if isinstance(table[factor].dtype, pd.CategoricalDtype):
        seen = set(table[factor])
        return [level for level in table[factor].cat.categories if level in seen]
    levels = list(table[factor].dropna().unique())
    if factor.endswith("cc"):
        return sorted(levels, key=cc_rank)
    return sorted(levels, key=lambda level: natural_sort_key(str(level)))


def axes_of(table: pd.DataFrame) -> tuple[str, str] | None:
    """Return the default factors of a map, or None if fewer than two vary.

    Those with most levels are used, the longer one across; the congestion control only without
    another.
    """
    varied = [name for name in factor_columns(table) if table[name].nunique(dropna=False) > 1]
    ranked = sorted(varied, key=lambda name: (name.endswith("cc"), -table[name].nunique()))
    if len(ranked) < 2:
        return None
    first, second = ranked[:2]
    across_is_first = table[first].nunique() >= table[second].nunique()
    return (first, second) if across_is_first else (second, first)


def metrics_to_map(table: pd.DataFrame) -> list[str]:
    """Return the metrics to map; for competing flows also the first one's share."""
    shares = [f"{SHARE}{flow}" for flow in flows_of(table)[:1]]
    return [
        figure
        for figure in (*shares, *MAPPED)
        if figure in table and table[figure].notna().any() and table[figure].nunique() > 1
    ]


def draw(sheet: FigureInput, choose: Choose = axes_of) -> Iterator[ReportFigure]:
    """Plot a figure per metric with several facets; further facets make another."""
    from matplotlib.colors import Normalize

    pair = choose(sheet.rows)
    if pair is None:
        return
    figures = metrics_to_map(sheet.rows)
    of_flows = {name: 100 * sheet.rows[name] for name in figures if name.startswith(SHARE)}
    rows = sheet.rows.assign(**of_flows)  # shares in percent, as labelled
    facets = sorted(facets_of(rows, known=pair), key=facet_sort_key)
    for figure in figures:
        scale = Normalize(0, 100) if figure in of_flows else norm_of(rows, figure)
        plot = partial(
            plot_heatmap, x=pair[0], y=pair[1], footer=sheet.footer, figure=figure, scale=scale
        )
        yield from paged_figures(
            facets,
            plot,
            f"{metric_and_flow_label(figure)} by {factor_phrase(pair[1])}"
            f" and {factor_phrase(pair[0])}. {DRAWING.caption}",
            name=metric_of(figure).name.replace("_", "-"),
            most=FACETS_ON_A_FIGURE,
            medians=True,
        )


def factor_phrase(factor: str) -> str:
    """Return a factor's name for a sentence."""
    text = factor_heading(factor).replace("_", " ")
    return text if text[:2].isupper() else text[:1].lower() + text[1:]


def facet_sort_key(facet: tuple[str, pd.DataFrame]) -> tuple[Any, ...]:
    """Sort facets by congestion control, then by table order."""
    return cc_rank(str(facet[1]["cc"].iloc[0])), facet[0]


def metric_and_flow_label(figure: str) -> str:
    flow = figure.partition(":")[2]
    axis = metric_of(figure).axis
    return f"{flow}: {axis}" if flow else axis


def cells_forming_map(table: pd.DataFrame, choose: Choose = axes_of) -> pd.DataFrame:
    """Return the cells if they form a map."""
    return table if choose(table) and (table["n"] > 0).any() else table.head(0)


def map_over_factors(drawing: Drawing, across: str, down: str) -> Drawing:
    """Return the map over the two factors that a file names."""

    def choose(table: pd.DataFrame) -> tuple[str, str] | None:
        pair = f"factor:{across}", f"factor:{down}"
        return pair if set(pair) <= set(factor_columns(table)) else None

    return replace(
        drawing,
        word=f"{drawing.word}-{file_name_part(across)}-{file_name_part(down)}",
        draw=partial(draw, choose=choose),
        rows=partial(cells_forming_map, choose=choose),
        needs=f"the factors {across} and {down}, and a run that counts",
    )


DRAWING = Drawing(
    "heatmap",
    caption="Each field is a median; an empty one has no run that counts. All share one scale.",
    draw=draw,
    rows=cells_forming_map,
    needs="two factors that vary and a run that counts",
    over=map_over_factors,
)
