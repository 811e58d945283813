# SPDX-License-Identifier: MIT
"""Draw cells in a figure (points, bars, intervals, bands), and legend entries."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from gostlab.analysis.plotting.factors import ccs_of
from gostlab.analysis.plotting.image_map import tag_artist_with_row
from gostlab.analysis.plotting.style import (
    DEGRADED_HATCH,
    FAINT,
    INK,
    ArtistStyle,
    annotate,
    cc_colour,
    format_bar_value,
    legend_entry,
)
from gostlab.analysis.stats.statistics import is_known
from gostlab.analysis.stats.table_formats import cc_name
from gostlab.analysis.stats.throughput_model import ModelPath, ThroughputModel

if TYPE_CHECKING:
    import numpy as np
    import pandas as pd
    from matplotlib.axes import Axes
    from matplotlib.lines import Line2D

FLOW_DASHES: tuple[Any, ...] = ("-", (0, (5, 1.5)), (0, (1.5, 1.5)), (0, (6, 1.5, 1.5, 1.5)))
FLOW_MARKERS = ("o", "s", "^", "v")


@dataclass(frozen=True)
class SeriesStyle:
    """The marker and line of one series, distinguishable at equal positions.

    Marks are not shifted, because their position is a measured value; marks of earlier series are
    larger and remain visible around later ones.
    """

    marker: str
    size: float  # points
    width: float  # line width in points


PLAIN = SeriesStyle("o", 5.5, 1.6)
# Styles of single runs, of published values, and of the capacity of a full link.
EACH_RUN = {"linestyle": "none", "marker": "o", "markersize": 2.8, "markerfacecolor": "white"}
DIAMOND = {"linestyle": "none", "marker": "D", "markerfacecolor": "white"}
LINK = {"color": FAINT, "linewidth": 0.9}


def series_style(place: int) -> SeriesStyle:
    """Return the look of the first, second, … series of a figure."""
    marker = FLOW_MARKERS[place % len(FLOW_MARKERS)]
    return SeriesStyle(marker, max(4.5, 8.0 - 1.4 * place), max(1.0, 2.6 - 0.6 * place))


# Points of a model's curve.
STEPS = 160
# Lines with more points are reduced to the extremes of each column of pixels.
PIXELS = 900


def row_value(row: pd.Series, name: str) -> float:
    """Return a value of a row; NaN if its table has no such column."""
    value = row.get(name)
    return math.nan if value is None else float(value)


@dataclass(frozen=True)
class CellPosition:
    """A cell's metric at its position in a panel."""

    ax: Axes
    at: float
    row: pd.Series
    figure: str
    colour: str
    width: float = 0.0  # available width
    flat: bool = False  # the metric is on the horizontal axis
    scale: float = 1.0  # 100: plotted in percent

    def plot(self, values: Sequence[float], **look: Any) -> Line2D:
        """Plot values of the metric at the position."""
        positions = [self.at] * len(values)
        (line,) = self.ax.plot(*((values, positions) if self.flat else (positions, values)), **look)
        return line


def typical_values(row: pd.Series, figure: str) -> list[float]:
    """Return the median of a cell's runs, or of each cluster."""
    return [state.value for state in row[f"{figure}_states"]] or [row_value(row, figure)]


def draw_point(place: CellPosition, name: str, look: SeriesStyle = PLAIN, marker: str = "") -> None:
    """Plot a cell's median or clusters, hollow if degraded, with runs and interval.

    marker: instead of the look's marker.
    """
    row, figure, colour = place.row, place.figure, place.colour
    if not is_known(row_value(row, figure)):
        return
    draw_spread(place)
    point = place.plot(
        typical_values(row, figure),
        linestyle="none",
        marker=marker or look.marker,
        color=colour,
        markersize=look.size,
        markerfacecolor="white" if row["verdict"] == "degraded" else colour,
        markeredgewidth=1.4,
        label=name,
        zorder=5 + 1 / look.size,
    )
    tag_artist_with_row(point, row)


def draw_spread(place: CellPosition) -> None:
    """Plot each of several runs as a dot, and the median's interval if there is one."""
    row, figure, scale = place.row, place.figure, place.scale
    low, high = scale * row[f"{figure}_low"], scale * row[f"{figure}_high"]
    if is_known(low):
        look = {"color": place.colour, "linewidth": 1.4, "zorder": 4, "label": "interval"}
        place.plot([low, high], marker="|" if place.flat else "_", markersize=6, **look)
    if row["n"] > 1:
        values = [scale * value for value in row[f"{figure}_values"]]
        look = {"markeredgecolor": place.colour, "markeredgewidth": 0.8, "zorder": 4.5}
        place.plot(values, label="runs", **look, **EACH_RUN)


def published_band(
    row: pd.Series, figure: str, floor: float, full: float | None = None, scale: float = 1.0
) -> tuple[float, float] | None:
    """Return the published band of a metric, or None.

    An open end extends to `floor`, or to `full` (None: the link).
    """
    import numpy as np

    least, most = row_value(row, f"{figure}_least"), row_value(row, f"{figure}_most")
    if not is_known(least) and not is_known(most):
        return None
    top = float(np.nanmax([row_value(row, "rate_mbit"), least])) if full is None else full
    low = scale * least if is_known(least) else floor
    return low, scale * most if is_known(most) else top


def draw_band(place: CellPosition, floor: float) -> None:
    """Plot the published band; an open end extends to the axis or the link."""
    if (band := published_band(place.row, place.figure, floor)) is not None:
        look = {"alpha": 0.17, "linewidth": 0, "zorder": 1, "label": "band"}
        ends = [place.at / 1.28, place.at * 1.28]
        place.ax.fill_between(ends, *band, color=place.colour, **look)


def draw_published_value(place: CellPosition, *, behind: bool = False) -> None:
    """Plot the published value of a cell as a diamond, if there is one.

    behind: larger, behind a point at the same position.
    """
    value = row_value(place.row, f"{place.figure}_study")
    if is_known(value):
        place.plot(
            [place.scale * value],
            markersize=11 if behind else 6,
            markeredgecolor=place.colour,
            markeredgewidth=1.4,
            label="study",
            zorder=3.5 if behind else 6,
            clip_on=False,
            **DIAMOND,
        )


def draw_bar(place: CellPosition, how: str) -> None:
    """Plot a cell's bar with its median, runs and interval, and the published value.

    Of several clusters the bar has the median of the largest. Numbers above are "across" or
    "upright". Without a valid run the reason is written instead.
    """
    ax, row, figure, colour = place.ax, place.row, place.figure, cc_colour(place.row["cc"])
    lab = replace(place, at=place.at - place.width * 0.12, colour=INK)
    study = replace(place, at=place.at + place.width * 0.34, colour=INK)
    states = row[f"{figure}_states"]
    median = max(states, key=lambda state: state.runs).value if states else row_value(row, figure)
    if row["n"] and is_known(median):
        draw_plain_bar(
            ax, lab.at, median, place.width * 0.62, row, colour, colour, f"lab {row['cc']}"
        )
        draw_spread(lab)
        reached = (median, row[f"{figure}_high"], *row[f"{figure}_values"])
        text = "\nor ".join(format_bar_value(value) for value in typical_values(row, figure))
        note_above(ax, lab.at, max(filter(is_known, reached)), text, how)
    if not row["n"]:
        note_above(ax, lab.at, 0.0, row["absent"], "upright", FAINT)
    draw_band_beside(study, zorder=2.5)
    draw_published_value(replace(study, colour=colour))


def draw_plain_bar(
    ax: Axes, x: float, top: float, width: float, row: pd.Series, face: Any, edge: str, label: str
) -> None:
    """Plot a cell's bar alone, hatched if degraded."""
    degraded = row["verdict"] == "degraded"
    look = {"linewidth": 1.2, "hatch": DEGRADED_HATCH if degraded else None, "zorder": 2}
    face = "white" if degraded else face
    (drawn,) = ax.bar(x, top, width, color=face, edgecolor=edge, label=label, **look)
    tag_artist_with_row(drawn, row)


def note_above(
    ax: Axes, x: float, y: float, words: str, how: str = "across", colour: str = INK
) -> None:
    turned = 90 if how == "upright" else 0
    annotate(ax, words, (x, y), (0, 4), ha="center", va="bottom", color=colour, rotation=turned)


def draw_band_beside(place: CellPosition, *, full: float | None = None, zorder: float = 1) -> None:
    """Plot the published band as a broad pale line at one position.

    An open end extends to zero or to `full` (None: the link).
    """
    if (band := published_band(place.row, place.figure, 0.0, full, place.scale)) is not None:
        look = {"alpha": 0.3, "linewidth": 8, "solid_capstyle": "butt", "label": "band"}
        place.ax.plot([place.at] * 2, band, color=place.colour, zorder=zorder, **look)


def draw_line(
    ax: Axes,
    points: Sequence[tuple[float, pd.Series]],
    figure: str,
    colour: str,
    dashes: Any = "-",
    *,
    width: float = 1.6,
) -> None:
    there = [(x, row_value(row, figure)) for x, row in points if is_known(row_value(row, figure))]
    if len(there) > 1:
        look = {"linestyle": dashes, "linewidth": width, "zorder": 3 + 0.1 / width}
        ax.plot(*zip(*there, strict=True), color=colour, label="line", **look)


def draw_capacity(ax: Axes, rows: pd.DataFrame, figure: str) -> None:
    """Plot the capacity of a full link as a faint line."""
    for path in paths_of(rows):
        if math.isfinite(path.payload_mbit):
            full = path.payload_mbit
            if figure == "window_pkts":
                full *= path.rtt_ms * 1000 / 8 / 1448
            ax.axhline(full, zorder=1, label="link", **LINK)


def paths_of(rows: pd.DataFrame) -> list[ModelPath]:
    """Return the distinct paths of some cells, without their loss."""

    def known(value: float) -> float | None:
        return value if is_known(value) else None

    paths = {
        ModelPath(
            known(row["rate_mbit"] * 1e6),
            row["rtt_ms"],
            0.0,
            known(row_value(row, "rmem_bytes")),
            int(row["mtu_bytes"]),
        )
        for _, row in rows.iterrows()
    }
    return sorted(
        paths, key=lambda path: (path.rtt_ms, path.rate_bps or 0.0, path.rmem_bytes or 0.0)
    )


def metric_values(table: pd.DataFrame, figure: str, *, link: bool = True) -> list[float]:
    """Return all values of a metric on an axis, with the link's capacity if it is plotted."""
    values_found = [
        value
        for end in ("", "_low", "_high", "_study", "_least", "_most")
        if f"{figure}{end}" in table
        for value in table[f"{figure}{end}"]
    ]
    values_found += [value for values in table.get(f"{figure}_values", ()) for value in values]
    if figure == "goodput" and link:
        values_found += [path.payload_mbit for path in paths_of(table)]
    return [float(value) for value in values_found if math.isfinite(value)]


def tint(colour: str, shade: int) -> Any:
    """Return a paler colour for each further flow of one congestion control."""
    import matplotlib.colors

    pale = (0.0, 0.62, 0.35, 0.8)[shade % 4]
    return tuple(channel + (1 - channel) * pale for channel in matplotlib.colors.to_rgb(colour))


def shade_index(row: pd.Series, flows: Sequence[str], place: int) -> int:
    """Return the number of previous flows with the same congestion control."""
    return sum(row[f"cc:{flow}"] == row[f"cc:{flows[place]}"] for flow in flows[:place])


def reduce_to_min_max(
    t_s: np.ndarray, value: np.ndarray, columns: int = PIXELS
) -> tuple[np.ndarray, np.ndarray]:
    """Reduce a line to so many columns of pixels without visible change.

    Each column keeps its first, minimum, maximum and last point. Dropping points evenly would lose
    short events: a window of 1 after a timeout, BBR's 4 in ProbeRTT.
    """
    import numpy as np

    if len(t_s) <= 4 * columns:
        return t_s, value
    width = (t_s[-1] - t_s[0]) / columns or 1.0
    column = np.minimum(((t_s - t_s[0]) / width).astype(int), columns - 1)
    starts = np.flatnonzero(np.diff(column, prepend=-1))
    selected: set[int] = set()
    for first, last in itertools.pairwise([*starts, len(t_s)]):
        part = value[first:last]
        selected |= {first, last - 1}
        if not np.all(np.isnan(part)):
            selected |= {first + int(np.nanargmin(part)), first + int(np.nanargmax(part))}
    positions = np.array(sorted(selected))
    return t_s[positions], value[positions]


# -- legends


def cc_handles(table: pd.DataFrame, *, looks: bool = False) -> list[Any]:
    """Return the legend's entries of the lab's points; looks: with their markers."""
    handles = []
    for index, cc in enumerate(ccs_of(table)):
        look = series_style(index) if looks else PLAIN
        size = min(6.5, look.size) if looks else None
        mark = {"marker": look.marker, "markersize": size, "linewidth": 1.6}
        handles.append(legend_entry(f"{cc_name(cc)}, lab", color=cc_colour(cc), **mark))
    return handles


def model_style(model: ThroughputModel) -> ArtistStyle:
    """Return the style of a model's curve."""
    return {"color": cc_colour(model.cc), "linestyle": (0, model.dashes), "linewidth": 1.3}


def model_handles(models: Sequence[ThroughputModel]) -> list[Any]:
    return [legend_entry(model.label, **model_style(model)) for model in models]


def link_handles(table: pd.DataFrame) -> list[Any]:
    """Return the legend's entry of a full link's capacity."""
    return [legend_entry("link, full", **LINK)] if table["rate_mbit"].notna().any() else []


def published_handles(table: pd.DataFrame, *figures: str, called: str = "study") -> list[Any]:
    """Return the legend's entries of published values."""
    from matplotlib.patches import Patch

    def is_reported(end: str) -> bool:
        columns = [f"{figure}_{end}" for figure in figures]
        return any(table[column].notna().any() for column in columns if column in table)

    handles: list[Any] = []
    if is_reported("study"):
        handles.append(diamond_handle(f"the {called}, in its colour"))
    if is_reported("least") or is_reported("most"):
        handles.append(Patch(facecolor=FAINT, alpha=0.25, label="published band"))
    return handles


def diamond_handle(words: str) -> Any:
    return legend_entry(words, markersize=6, markeredgecolor=FAINT, markeredgewidth=1.5, **DIAMOND)


def flow_handles(table: pd.DataFrame, flows: Sequence[str], lines: bool = False) -> list[Any]:
    """Return the legend's entry of each flow, with its constant properties."""
    from matplotlib.patches import Patch

    handles: list[Any] = []
    for index, flow in enumerate(flows):
        ccs, rtts = table[f"cc:{flow}"].dropna().unique(), table[f"rtt:{flow}"].dropna().unique()
        properties = [
            cc_name(ccs[0]) if len(ccs) == 1 else "",
            f"{rtts[0]:g} ms" if len(rtts) == 1 else "",
        ]
        label = ", ".join(filter(None, [flow, *properties]))
        colour = cc_colour(ccs[0]) if len(ccs) == 1 else FAINT
        if lines:
            dashes, marker = FLOW_DASHES[index % len(FLOW_DASHES)], series_style(index).marker
            handles.append(legend_entry(label, color=colour, linestyle=dashes, marker=marker))
        else:
            face = tint(colour, shade_index(table.iloc[0], flows, index))
            handles.append(Patch(facecolor=face, edgecolor=colour, label=label))
    return handles


def interval_legend_handles(table: pd.DataFrame, figure: str) -> list[Any]:
    """Return the legend's entries of interval and runs."""
    handles = []
    if table[f"{figure}_low"].notna().any():
        label = f"interval of the median (≥ {table[f'{figure}_coverage'].min():.1%})"
        handles.append(legend_entry(label, color=INK, marker="|", linewidth=1.3))
    if (table["n"] > 1).any():
        handles.append(legend_entry("each run", color=INK, **EACH_RUN))
    return handles


def degraded_handles(table: pd.DataFrame, *, bar: bool = False, hollow: bool = True) -> list[Any]:
    """Return the legend's entry of degraded cells, if there are any."""
    from matplotlib.patches import Patch

    if not (table["verdict"] == "degraded").any():
        return []
    if bar:
        return [Patch(facecolor="white", edgecolor=FAINT, hatch=DEGRADED_HATCH, label="degraded")]
    if hollow:
        ring = {"marker": "o", "markerfacecolor": "white", "markeredgewidth": 1.5}
        return [legend_entry("hollow: degraded", linestyle="none", color=FAINT, **ring)]
    return [legend_entry("degraded", linestyle="none", marker=(6, 2, 0), color=INK)]
