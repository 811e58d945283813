# SPDX-License-Identifier: MIT
"""Plot the share of each congestion control against each other one on a bottleneck.

The layout follows Prudentia's maps of services.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from gostlab.analysis.plotting.factors import cc_rank, facets_of, factor_columns, flows_of
from gostlab.analysis.plotting.marks import degraded_handles
from gostlab.analysis.plotting.panel_layout import MapTile, map_figure, paged_figures
from gostlab.analysis.plotting.plot_registry import (
    Drawing,
    FigureInput,
    ReportFigure,
    rows_with_runs,
)
from gostlab.analysis.plotting.style import INK, finish_figure, in_report_style, wrap_label
from gostlab.analysis.stats.statistics import Summary, summarise
from gostlab.analysis.stats.table_formats import cc_name

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.figure import Figure

# From orange (takes less than half) over white to purple (takes more): distinct to people with any
# kind of colour vision, and the same in grey on no side.
COLOURS = "PuOr"
FACETS_ON_A_FIGURE = 6


@dataclass(frozen=True)
class PairShare:
    """The share of one congestion control's flow against another's."""

    share: Summary  # share of both flows' total, over the runs
    degraded: bool
    keys: tuple[str, ...] = ()  # keys of its cells


def pair_shares(rows: pd.DataFrame) -> dict[tuple[str, str], PairShare]:
    """Return the share of each pair (control, rival), over all cells of two flows.

    Order of start and position are ignored; between equals it is the first flow's share.
    """
    met: dict[tuple[str, str], list[tuple[pd.Series, str]]] = {}  # (cell, flow) of each pair
    names = flows_of(rows)
    if len(names) != 2:
        return {}
    for _, row in rows.iterrows():
        ccs = [str(row[f"cc:{name}"]) for name in names]
        met.setdefault((ccs[0], ccs[1]), []).append((row, names[0]))
        if ccs[0] != ccs[1]:
            met.setdefault((ccs[1], ccs[0]), []).append((row, names[1]))
    result = {}
    for pair, cells in met.items():
        share = summarise([item for row, name in cells for item in row[f"share:{name}_values"]])
        if share is not None:
            degraded = any(row["verdict"] == "degraded" for row, _ in cells)
            keys = tuple(str(row.get("key") or "") for row, _ in cells)
            result[pair] = PairShare(share, degraded, keys)
    return result


@in_report_style
def plot_share_map(
    facets: Sequence[tuple[str, Mapping[tuple[str, str], PairShare]]],
    title: str,
    rows: pd.DataFrame,
    footer: str,
) -> Figure:
    """Plot a map per condition: shares in percent of lines against columns, with n."""
    from matplotlib.colors import Normalize

    ccs = sorted({cc for _, cc_pairs in facets for pair in cc_pairs for cc in pair}, key=cc_rank)
    columns = 1 if len(facets) == 1 or len(ccs) > 4 else 2

    def field(cc_pairs: Mapping[tuple[str, str], PairShare], column: int, line: int) -> MapTile:
        met = cc_pairs.get((ccs[line], ccs[column]))
        if met is None:
            return MapTile(math.nan, "–")
        share, runs = met.share.median, f"n = {met.share.n}"
        ink = "white" if abs(share - 0.5) > 0.33 else INK
        return MapTile(share, f"{100 * share:.0f}", met.keys, met.degraded, ink, runs)

    drawn, bar = map_figure(
        facets,
        field,
        across=[wrap_label(cc_name(cc), 56 // (columns * len(ccs))) for cc in ccs],
        down=[cc_name(cc) for cc in ccs],
        x="beside this one",
        y="What this one gets",
        colours=COLOURS,
        scale=Normalize(0, 1),
        scale_of="Share of what both carry (%): 50 is fair",
        line_in=0.5,
        pt=11,
        around_in=1.7,
        columns=columns,
    )
    bar.set_ticks([0, 0.25, 0.5, 0.75, 1], labels=["0", "25", "50", "75", "100"])
    finish_figure(drawn, degraded_handles(rows, bar=True), footer, title)
    return drawn


def pair_shares_by_condition(
    table: pd.DataFrame,
) -> list[tuple[str, dict[tuple[str, str], PairShare]]]:
    """Return the meetings for every level of all other factors."""
    who = [f"cc:{name}" for name in flows_of(table)]
    known_columns = [*who, "cc", *(name for name in factor_columns(table) if name.endswith("cc"))]
    facets = [(text, pair_shares(rows)) for text, rows in facets_of(table, known=known_columns)]
    return [(text, result) for text, result in facets if result]


def draw(sheet: FigureInput) -> Iterator[ReportFigure]:
    yield from paged_figures(
        pair_shares_by_condition(sheet.rows),
        partial(plot_share_map, rows=sheet.rows, footer=sheet.footer),
        DRAWING.caption,
        most=FACETS_ON_A_FIGURE,
    )


def two_flow_cells(table: pd.DataFrame) -> pd.DataFrame:
    """Return the cells with two competing flows."""
    names = flows_of(table)
    if len(names) != 2:
        return table.head(0)
    known = [len(values) > 0 for values in table[f"share:{names[0]}_values"]]
    return rows_with_runs(table[known])


DRAWING = Drawing(
    "rivals",
    caption=(
        "Who does what to whom: the share of what both flows carry that the congestion control of"
        " the line gets beside that of the column, in per cent, the median of n runs. 50 is fair;"
        " purple takes more, orange gives way."
    ),
    draw=draw,
    rows=two_flow_cells,
    needs="exactly two flows with congestion controls and a run that counts",
    metrics=("share",),
)
