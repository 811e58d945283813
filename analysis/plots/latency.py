# SPDX-License-Identifier: MIT
"""Plot RTT and bottleneck queue under load by condition."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, Literal

from gostlab.analysis.plotting import facet, factors
from gostlab.analysis.plotting.marks import CellPosition, cc_handles, draw_point, row_value
from gostlab.analysis.plotting.plot_registry import Drawing, FigureInput, rows_with_runs
from gostlab.analysis.plotting.style import (
    FAINT,
    INK,
    WIDE,
    ArtistStyle,
    format_thousands,
    legend_entry,
    set_log_axis,
    wrap_label,
)
from gostlab.analysis.stats.statistics import is_known

if TYPE_CHECKING:
    import numpy as np
    import pandas as pd
    from matplotlib.axes import Axes

# Minimum queue on a log axis, which has no zero.
MIN_MS = 0.1
NAME_WIDTH = 24
# Styles of the idle RTT, the 95 % quantile, and a median beyond the axis.
IDLE: ArtistStyle = {"color": FAINT, "linestyle": "--", "linewidth": 1.2}
TO_P95: ArtistStyle = {"marker": "|", "markersize": 8}
LESS: ArtistStyle = {"marker": "<", "markersize": 5}
SRTT, SRTT_P95 = "srtt_median_ms", "srtt_p95_ms"


def scale_axis(ax: Axes, table: pd.DataFrame, median: str, p95: str, *, idle: bool) -> None:
    """Set a panel's x axis from 0, or logarithmic for a wide range."""
    values = facet.known_values(table, median, p95)
    if idle:
        values += [item for _, row in table.iterrows() for item in idle_rtts_ms(row)]
    top = max(values, default=1.0)
    seen = [value for value in values if value >= MIN_MS]
    if not seen or top / min(seen) <= WIDE:
        ax.set_xlim(0, max(top, MIN_MS) * 1.08)
        format_thousands(ax.xaxis)
        return
    set_log_axis(ax, "x", min(seen) / 1.5, top * 1.5, most=5)


def idle_rtts_ms(row: pd.Series) -> list[float]:
    """Return the idle RTTs of a cell's flows, shortest first."""
    names = [
        name
        for name in row.index
        if name.startswith("rtt:") and row[f"cc:{name[4:]}"] not in factors.NO_CONTROL
    ]
    return sorted({float(row[name]) for name in names if is_known(row[name])}) or [row["rtt_ms"]]


def draw_delays(place: CellPosition, line: facet.FacetSeries, p95: str) -> None:
    """Plot one cell's median and 95 %; values too small for a log axis are at its edge."""
    values = [row_value(place.row, name) for name in (place.figure, p95)]
    if not all(map(is_known, values)):
        return
    least = place.ax.get_xlim()[0]
    ends = [max(least, value) for value in values]
    style_of_cell = {"color": place.colour}
    place.plot(ends, linewidth=1.3, zorder=3, label="to the 95 %", **style_of_cell)
    place.plot(ends[1:], zorder=3, label="95 %", **TO_P95, **style_of_cell)
    if values[0] > least:
        draw_point(place, line.name)
    else:
        place.plot([least], label="less", clip_on=False, zorder=5, **LESS, **style_of_cell)


def group_by_condition(table: pd.DataFrame) -> list[facet.Group]:
    named = factors.iterate_conditions(table, factors.varying_factors(table))
    return [(wrap_label(text, NAME_WIDTH), rows) for text, rows in named]


def delay_panel(
    groups: Sequence[facet.Group], label: str, median: str, p95: str, *, idle: bool
) -> facet.FacetPanel:
    """Return a panel of medians with lines to the 95 % quantile.

    idle: plot a condition's idle RTTs as grey lines.
    """

    def behind(ax: Axes) -> None:
        for y, (_, rows) in enumerate(groups) if idle else ():
            for idle_ms in sorted(
                {item for _, row in rows.iterrows() for item in idle_rtts_ms(row)}
            ):
                ax.plot([idle_ms, idle_ms], [y - 0.5, y + 0.5], label="idle", zorder=2, **IDLE)

    def scale(ax: Axes, way: Literal["x", "y"], table: pd.DataFrame) -> None:
        scale_axis(ax, table, median, p95, idle=median == SRTT)

    value = facet.MetricAxis(scale, median, partial(draw_delays, p95=p95), label)
    return facet.panel_of_groups("", groups, value, behind=behind)


def panels(sheet: FigureInput) -> list[facet.FacetPanel]:
    by_condition = group_by_condition(sheet.rows)
    queue = ("Bottleneck's queue (ms)", "queue_delay_median_ms", "queue_delay_p95_ms")
    return [
        delay_panel(by_condition, "Round trip under load (ms)", SRTT, SRTT_P95, idle=True),
        delay_panel(by_condition, *queue, idle=False),
    ]


def delay_keys(sheet: FigureInput, axes: np.ndarray) -> list[Any]:
    """Return the legend entries of lines and of clipped medians."""
    less = any(line.get_label() == "less" for ax in axes.flat for line in ax.lines)
    edge = legend_entry("a median left of the axis", color=INK, linestyle="none", **LESS)
    return [
        legend_entry("to the 95 %", color=INK, linewidth=1.0, **TO_P95),
        legend_entry("idle round trip", **IDLE),
        *([edge] if less else []),
    ]


# One row per condition, with stacked congestion controls.
BY_CONDITION = partial(
    facet.Facet,
    keys=cc_handles,
    more_keys=delay_keys,
    published=False,
    width=0.7,
    flat=True,
    striped=True,
    places=factors.condition_axis_label,
    around_in=1.6,
    place_in=0.22,
    series_in=0.17,
    shape=facet.one_row_grid,
    shared={"sharey": True},
)


def cells_with_samples(table: pd.DataFrame) -> pd.DataFrame:
    """Return the cells with samples of RTT or queue."""
    known = table["srtt_median_ms"].notna() | table["queue_delay_median_ms"].notna()
    return rows_with_runs(table[known])


DRAWING = Drawing(
    "latency",
    caption=(
        "Delays while the load ran, by condition. A point is the median over time, its line ends at"
        " the 95 % value. Round trips are smoothed, of the sockets that send across the WAN, dashed"
        " the idle ones. The queue's delay is the wait in the bottleneck."
    ),
    draw=BY_CONDITION(panels=panels),
    rows=cells_with_samples,
    needs="a run that counts and sampled its sockets",
    metrics=("queue_delay_median_ms", "srtt_median_ms"),
)
