# SPDX-License-Identifier: MIT
"""Plot goodput and WAN retransmissions by bottleneck buffer size."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from gostlab.analysis.plotting import facet
from gostlab.analysis.plotting.factors import ccs_of
from gostlab.analysis.plotting.marks import metric_values
from gostlab.analysis.plotting.plot_registry import Drawing, FigureInput, JoinedCells, MatrixInput
from gostlab.analysis.plotting.style import (
    FAINT,
    cc_colour,
    legend_entry,
    levels_with_space,
    set_tick_labels,
)
from gostlab.analysis.stats.cells import buffer_cells, format_bdp
from gostlab.analysis.stats.table_formats import (
    SWEPT_FIRST,
    SWEPT_GOODPUT,
    SWEPT_LAST,
    VERDICT,
    Column,
    Table,
    cc_name,
    cells_table,
    format_count,
    format_rate,
    format_ratio,
)

if TYPE_CHECKING:
    import numpy as np
    import pandas as pd
    from matplotlib.axes import Axes

STUDY_LINE = (0, (1, 1.5))


def horizontal_lines(
    table: pd.DataFrame, called: str = "study"
) -> list[tuple[float, str, str, dict]]:
    """Return horizontal lines: (Mbit/s, labels, style) of study and bottlenecks."""
    result: list[tuple[float, str, str, dict]] = []
    for cc in ccs_of(table):
        for study in table.loc[table["cc"] == cc, "goodput_study"].dropna().unique():
            look = {"color": cc_colour(cc), "linestyle": STUDY_LINE, "linewidth": 1.6}
            result.append(
                (study, f"study {cc}", f"the {called}, {cc_name(cc)}: {study:,.0f}", look)
            )
    for link in table["rate_mbit"].dropna().unique():
        look = {"color": FAINT, "linewidth": 1.0}
        result.append((link, "bottleneck", f"bottleneck: {link:,.0f}", look))
    return result


def plotted_goodputs(table: pd.DataFrame) -> list[float]:
    rates = facet.known_values(table, "rate_mbit")
    return metric_values(table, "goodput", link=False) + rates


def panels(sheet: FigureInput) -> list[facet.FacetPanel]:
    """Return the goodput panel above the retransmissions panel."""

    def behind(ax: Axes) -> None:
        for mbit, name, _, look in horizontal_lines(sheet.rows):
            ax.axhline(mbit, label=name, **look)

    again = facet.MetricAxis(
        facet.count_scale("wan", "wan_high"), "wan", label="Retransmitted on\nthe WAN (segments)"
    )
    places = facet.cells_by_level(sheet.rows, "buffer_bdp")
    goodput = facet.MetricAxis(facet.scale_from_zero(plotted_goodputs, 1.1))
    return [
        facet.FacetPanel("", places, (), goodput, behind),
        facet.FacetPanel("", places, (), again),
    ]


def buffer_axis(
    ax: Axes, panels: Sequence[facet.FacetPanel], lines: Sequence[facet.FacetSeries]
) -> None:
    """Set a log axis with labels of the levels that fit."""
    ax.set_xscale("log")
    set_tick_labels(ax.xaxis, levels_with_space([at for at, _ in panels[0].places]), format_bdp)


def axis_name(table: pd.DataFrame) -> str:
    """Return the axis label, with the size of one BDP if cells share a path."""
    if table["bdp_pkts"].nunique() != 1:
        return "Bottleneck buffer (BDP of each path)"
    bdp, mtu = float(table["bdp_pkts"].iloc[0]), float(table["mtu_bytes"].iloc[0])
    bytes_words = f"1 BDP = {bdp:,.0f} packets = {bdp * mtu / 1e6:,.1f} MB"
    return f"Bottleneck buffer (BDP; {bytes_words})"


def extra_legend_handles(sheet: FigureInput, axes: np.ndarray) -> list[Any]:
    """Return the legend entries of study and bottlenecks."""
    result = horizontal_lines(sheet.rows, sheet.study_label)
    return [legend_entry(text, **look) for _, _, text, look in result]


def cells(sweep: MatrixInput) -> JoinedCells:
    return JoinedCells(buffer_cells(sweep.matrix, sweep.matrices))


def tables(sweep: MatrixInput, table: pd.DataFrame, name: str) -> Iterator[Table]:
    called = sweep.study.called
    columns = (
        *SWEPT_FIRST,
        Column("buffer_bdp", "Buffer (BDP)", format_bdp),
        Column("buffer_pkts", "Buffer (packets)", format_count),
        *SWEPT_GOODPUT,
        Column("study_mbit", f"{called.capitalize()} (Mbit/s)", format_rate),
        Column("ratio", f"Lab / {called}", format_ratio),
        Column("wan_segments", "Retransmitted on the WAN", format_count),
        *SWEPT_LAST,
        VERDICT,
    )
    yield cells_table(f"{name}-buffer", "Goodput by the bottleneck's buffer", table, columns)


DRAWING = Drawing(
    "buffer",
    caption="Goodput and what the WAN leg sent again, by the size of the bottleneck's queue.",
    draw=facet.BY_PAIR(
        panels=panels,
        more_keys=extra_legend_handles,
        step=0.0,
        joined=lambda _: True,
        axis=buffer_axis,
        places=axis_name,
        panel_in=3.2,
        shape=facet.stacked,
        shared={"sharex": True, "gridspec_kw": {"height_ratios": [3, 2]}},
    ),
    shows=("buffer_bdp", "tunnel", "cc"),
    cells=cells,
    rows=lambda table: table[(table["n"] > 0) & table["buffer_bdp"].notna()],
    needs="a buffer and a rate, whose BDP it is a part of",
    tables=tables,
    borrows=True,
)
