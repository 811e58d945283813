# SPDX-License-Identifier: MIT
"""Plot each tunnel on each path as a map: large flow and short downloads."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import TYPE_CHECKING

from gostlab.analysis.plots.heatmap import facet_sort_key, norm_of, plot_heatmap
from gostlab.analysis.plotting.factors import factor_columns, tunnels_of
from gostlab.analysis.plotting.panel_layout import paged_figures
from gostlab.analysis.plotting.plot_registry import (
    Drawing,
    FigureInput,
    ReportFigure,
    rows_with_runs,
)
from gostlab.analysis.stats.cells import natural_sort_key
from gostlab.analysis.stats.metrics import metric_of
from gostlab.analysis.stats.table_formats import cc_name
from gostlab.spec.labels import level_label

if TYPE_CHECKING:
    import pandas as pd

PATH, TUNNEL, FETCH = "factor:path", "factor:tunnel", "fetch_median_s"
OF_ALL = "goodput"
MAX_PATHS = 6  # maximum columns of a readable map


def goodput_column(rows: pd.DataFrame) -> str:
    """Return the column to compare: the large flow's if there are several flows."""
    goodput_columns = (f"goodput:{name[3:]}" for name in rows if name.startswith("cc:"))
    totals = {name: float(rows[name].sum()) for name in goodput_columns if name in rows}
    return max(totals, key=totals.__getitem__, default=OF_ALL)


def cells_with_tunnels(table: pd.DataFrame) -> pd.DataFrame:
    """Return the counted cells if they have a tunnel each."""
    return rows_with_runs(table) if TUNNEL in table else table.head(0)


def add_path_labels(table: pd.DataFrame) -> pd.DataFrame:
    """Return cells with path labels, sorted by tunnel and path."""
    import pandas as pd

    rows = table.copy()
    rest = [name for name in factor_columns(rows) if name not in (TUNNEL, "factor:cc")]
    varied = [name for name in rest if rows[name].nunique() > 1]
    # sort by RTT first: it distinguishes more paths than loss
    varied.sort(key=lambda name: (name != "factor:rtt", name))
    keys = [tuple(rows.loc[at, varied]) for at in rows.index]
    names = [name.removeprefix("factor:") for name in varied]
    text = {key: ", ".join(map(level_label, names, key)) or "all" for key in keys}
    order = sorted(text, key=lambda key: [natural_sort_key(str(item)) for item in key])
    rows[PATH] = pd.Categorical([text[key] for key in keys], [text[key] for key in order])
    rows[TUNNEL] = pd.Categorical(rows["tunnel"], tunnels_of(rows))
    return rows


def rtts_of(rows: pd.DataFrame) -> list[float]:
    """Return the RTTs, the middle one of those with enough cells first."""
    cells = rows.groupby("rtt_ms", sort=True).size()
    fullest = list(cells[cells >= cells.max() / 2].index)
    first = fullest[(len(fullest) - 1) // 2]
    return [first, *(item for item in cells.index if item != first)]


def draw(sheet: FigureInput) -> Iterator[ReportFigure]:
    """Plot goodput and short downloads, a map per congestion control; many paths split by RTT."""
    rows = add_path_labels(sheet.rows)
    if rows[PATH].nunique() <= MAX_PATHS:
        yield from plot_maps(sheet, rows)
        return
    for rtt_ms in rtts_of(rows):
        of_rtt = sheet.rows[sheet.rows["rtt_ms"] == rtt_ms]
        yield from plot_maps(sheet, add_path_labels(of_rtt), rtt_ms)


def plot_maps(
    sheet: FigureInput, rows: pd.DataFrame, rtt_ms: float | None = None
) -> Iterator[ReportFigure]:
    """Plot goodput and short downloads of some paths."""
    of = "" if rtt_ms is None else f", {rtt_ms:g} ms RTT"
    by_cc = [(cc_name(cc), some) for cc, some in rows.groupby("cc", sort=False)]
    facets = [(f"{name}{of}", some) for name, some in sorted(by_cc, key=facet_sort_key)]
    for figure in (goodput_column(rows), FETCH):
        if figure not in rows or not rows[figure].notna().any():
            continue
        merit = metric_of(figure)
        plot = partial(
            plot_heatmap,
            x=PATH,
            y=TUNNEL,
            figure=figure,
            footer=sheet.footer,
            scale=norm_of(rows, figure),
            columns=2,
        )
        name = merit.name if rtt_ms is None else f"{merit.name}-{rtt_ms:g}ms"
        yield from paged_figures(
            facets, plot, f"{merit.axis} by tunnel and path{of}", name=name, medians=True
        )


DRAWING = Drawing(
    "by-path",
    caption="Each field has its number; an empty one was not run.",
    draw=draw,
    shows=("tunnel", "cc", "rtt_ms", "loss_p"),
    rows=cells_with_tunnels,
    needs="the factor tunnel and a run that counts",
)
