"""Figures: each function takes a table (one row per cell, from cells.to_table) and returns a
Figure.

The caller saves it (`save`), a test can look into it. Artists that a reader would name carry a
label: bars and points "lab CC", the study's own values "thesis".
"""

from __future__ import annotations

import functools
import io
import itertools
import math
import textwrap
from collections.abc import Callable, Sequence
from typing import Any, TypeVar, cast

import matplotlib
import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Patch
from matplotlib.ticker import FixedLocator, FuncFormatter, NullFormatter, NullLocator

from analysis.draw.colours import (
    DEGRADED_HATCH,
    FAINT,
    INK,
    STYLE,
    THESIS,
    cc_colour,
    cc_name,
    tunnel_marker,
)
from analysis.judge.cells import CC_ORDER, TUNNEL_ORDER, bdp_words, rank
from analysis.read.folder import IDLE_SHARE_LOW, Run
from analysis.read.series import load_intervals
from analysis.read.study import level
from gostlab.results import read_series

WIDTH_IN = 7.0  # read on a phone without zooming: 10.5 pt stays above 8 px at 390 px
# More rows than this make no figure that anyone reads.
MOST_ROWS = 60

F = TypeVar("F", bound=Callable[..., Figure])


def styled(draw: F) -> F:
    """Draw in the report's style, whatever the caller's own matplotlib is set to."""

    @functools.wraps(draw)
    def inner(*args: Any, **kwargs: Any) -> Figure:
        with matplotlib.rc_context(STYLE):
            figure = draw(*args, **kwargs)
            # Laid out once: constrained layout moves a little at every drawing, and two savings
            # would differ.
            figure.draw_without_rendering()
            figure.set_layout_engine("none")
            return figure

    return cast(F, inner)


def new_figure(
    height_in: float, rows: int = 1, columns: int = 1, **kwargs: Any
) -> tuple[Figure, np.ndarray]:
    """A figure of the report's width that belongs to no window, and its axes."""
    figure = Figure(figsize=(WIDTH_IN, height_in), layout="constrained")
    FigureCanvasAgg(figure)
    return figure, figure.subplots(rows, columns, squeeze=False, **kwargs)


def save(figure: Figure, kind: str) -> bytes:
    """The figure's file, "svg" or "png"; the same bytes for the same figure."""
    out = io.BytesIO()
    with matplotlib.rc_context(STYLE):
        figure.savefig(
            out, format=kind, metadata={"Date": None} if kind == "svg" else {"Software": None}
        )
    return out.getvalue()


# -- goodput by streams


@styled
def plot_goodput(table: pd.DataFrame, footer: str = "") -> Figure:
    """Goodput by streams, a facet per tunnel, a bar per congestion control, the thesis's value
    beside each bar.
    """
    tunnels, ccs, streams = tunnels_of(table), ccs_of(table), sorted(table["streams"].unique())
    figure, axes = new_figure(1.1 + 2.35 * len(tunnels), len(tunnels), 1, sharex=True)
    width = 0.8 / max(1, len(ccs))
    for ax, tunnel in zip(axes[:, 0], tunnels, strict=True):
        top = float(
            np.nanmax(
                [
                    1.0,
                    *(
                        v
                        for _, row in table.iterrows()
                        for v in (
                            row["goodput"],
                            row["goodput_high"],
                            row["thesis_goodput"],
                            *row["goodput_values"],
                        )
                        if v == v
                    ),
                ]
            )
        )
        for place, cc in enumerate(ccs):
            for index, count in enumerate(streams):
                row = one_row(table, tunnel=tunnel, cc=cc, streams=count)
                if row is None:
                    continue
                x = index + (place - (len(ccs) - 1) / 2) * width
                draw_bar(ax, x, width, row, top)
        ax.set_title(tunnel_title(tunnel))
        ax.set_ylabel("Goodput (Mbit/s)")
        ax.set_ylim(0, top * 1.2)
        ax.set_xlim(-0.55, len(streams) - 0.45)
        ax.grid(False, axis="x")
        thousands(ax.yaxis)
    axes[-1, 0].set_xticks(range(len(streams)), [f"{count:g}" for count in streams])
    axes[-1, 0].set_xlabel("Parallel iperf3 streams (number)")
    handles = [Patch(facecolor=cc_colour(cc), label=f"{cc_name(cc)}, lab: median") for cc in ccs]
    if table["thesis_goodput"].notna().any():
        handles.append(thesis_handle())
    handles += spread_handles(table, "goodput")
    handles += degraded_handles(table, bar=True)
    finish(figure, handles, footer)
    return figure


def draw_bar(ax: Axes, x: float, width: float, row: pd.Series, top: float) -> None:
    """A cell's bar: median, interval or single runs, the thesis's value, and the median in
    figures.
    """
    colour, thesis = cc_colour(row["cc"]), row["thesis_goodput"]
    bar = width * 0.62
    x_bar, x_thesis = x - width * 0.09, x + width * 0.36
    reach = 0.0
    if row["n"]:
        degraded = row["verdict"] == "degraded"
        ax.bar(
            x_bar,
            row["goodput"],
            bar,
            color="white" if degraded else colour,
            edgecolor=colour,
            linewidth=1.4,
            hatch=DEGRADED_HATCH if degraded else None,
            label=f"lab {row['cc']}",
        )
        draw_spread(ax, x_bar, row, "goodput", INK)
        reach = float(np.nanmax([row["goodput"], row["goodput_high"], *row["goodput_values"]]))
        ax.annotate(
            f"{row['goodput']:,.0f}",
            (x_bar, reach),
            xytext=(0, 2),
            textcoords="offset points",
            ha="center",
            va="bottom",
            fontsize=9,
            color=INK,
        )
    else:
        ax.annotate(
            row["absent"],
            (x_bar, 0),
            xytext=(0, 4),
            textcoords="offset points",
            ha="center",
            va="bottom",
            fontsize=8.5,
            color=FAINT,
            rotation=90,
        )
    if thesis == thesis:
        ax.plot(
            [x_thesis],
            [thesis],
            linestyle="none",
            marker="D",
            markersize=6,
            markerfacecolor="white",
            markeredgecolor=THESIS,
            markeredgewidth=1.5,
            label="thesis",
            zorder=5,
            clip_on=False,
        )


def draw_spread(ax: Axes, x: float, row: pd.Series, figure: str, colour: str) -> None:
    """The median's interval where there is one, else each run as a point."""
    low, high = row[f"{figure}_low"], row[f"{figure}_high"]
    if low == low:
        ax.errorbar(
            [x],
            [row[figure]],
            yerr=[[row[figure] - low], [high - row[figure]]],
            color=colour,
            capsize=3.5,
            linewidth=1.3,
            linestyle="none",
            label="interval",
            zorder=4,
        )
    elif row["n"] > 1:
        values = row[f"{figure}_values"]
        ax.plot(
            [x] * len(values),
            values,
            linestyle="none",
            marker="_",
            markersize=8,
            color=colour,
            label="runs",
            zorder=4,
        )


# -- the lab against the thesis


@styled
def plot_ratio(table: pd.DataFrame, footer: str = "") -> Figure:
    """Lab / thesis goodput by streams on a log axis; 1 is agreement."""
    table = table[table["ratio"].notna()]
    tunnels, ccs, streams = tunnels_of(table), ccs_of(table), sorted(table["streams"].unique())
    figure, axes = new_figure(3.9)
    ax = axes[0, 0]
    pairs = [(tunnel, cc) for tunnel in tunnels for cc in ccs]
    step = 0.7 / max(1, len(pairs))
    ax.axhline(1.0, color=INK, linewidth=1.2, label="agreement")
    for place, (tunnel, cc) in enumerate(pairs):
        for index, count in enumerate(streams):
            row = one_row(table, tunnel=tunnel, cc=cc, streams=count)
            if row is None:
                continue
            x = index + (place - (len(pairs) - 1) / 2) * step
            draw_spread_point(ax, x, row, "ratio")
            if len(pairs) <= 6:
                top = row["ratio_high"] if row["ratio_high"] == row["ratio_high"] else row["ratio"]
                ax.annotate(
                    f"{row['ratio']:.2f}",
                    (x, top),
                    xytext=(0, 6),
                    textcoords="offset points",
                    ha="center",
                    va="bottom",
                    fontsize=9,
                )
    values = [
        v for end in ("ratio", "ratio_low", "ratio_high") for v in table[end] if v == v and v > 0
    ]
    ratio_axis(ax, min([0.7, *values]) / 1.15, max([1.4, *values]) * 1.25)
    ax.set_ylabel("Goodput, lab / thesis (ratio)")
    ax.set_xticks(range(len(streams)), [f"{count:g}" for count in streams])
    ax.set_xlim(-0.5, len(streams) - 0.5)
    ax.set_xlabel("Parallel iperf3 streams (number)")
    ax.grid(False, axis="x")
    for edge in np.arange(0.5, len(streams) - 1):
        ax.axvline(edge, color="#e3e3e3", linewidth=0.8)
    handles = [
        Line2D(
            [],
            [],
            linestyle="none",
            color=cc_colour(cc),
            marker=tunnel_marker(tunnel),
            label=f"{cc_name(cc)}, {tunnel}",
        )
        for tunnel, cc in pairs
    ]
    finish(figure, [*handles, *degraded_handles(table)], footer)
    return figure


def draw_spread_point(ax: Axes, x: float, row: pd.Series, figure: str) -> None:
    """A cell's median as its tunnel's marker in its colour, hollow if degraded, with its
    interval.
    """
    colour = cc_colour(row["cc"])
    low, high = row[f"{figure}_low"], row[f"{figure}_high"]
    if low == low:
        ax.plot([x, x], [low, high], color=colour, linewidth=1.4, label="interval")
    elif row["n"] > 1:
        values = row[f"{figure}_values"]
        ax.plot(
            [x] * len(values),
            values,
            linestyle="none",
            marker="_",
            markersize=10,
            color=colour,
            label="runs",
        )
    ax.plot(
        [x],
        [row[figure]],
        linestyle="none",
        marker=tunnel_marker(row["tunnel"]),
        color=colour,
        markerfacecolor="white" if row["verdict"] == "degraded" else colour,
        markeredgewidth=1.5,
        label=f"lab {row['cc']}",
        zorder=4,
    )


def ratio_axis(ax: Axes, low: float, high: float) -> None:
    """A log axis with ratios that people say."""
    steps = [
        0.01,
        0.02,
        0.05,
        0.1,
        0.2,
        0.3,
        0.5,
        0.7,
        1.0,
        1.5,
        2.0,
        3.0,
        5.0,
        10.0,
        20.0,
        50.0,
        100.0,
    ]
    ax.set_yscale("log")
    ax.set_ylim(low, high)
    ax.yaxis.set_major_locator(FixedLocator([step for step in steps if low <= step <= high]))
    ax.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    ax.yaxis.set_minor_locator(NullLocator())


# -- retransmissions


@styled
def plot_retransmissions(table: pd.DataFrame, footer: str = "") -> Figure:
    """Segments sent again on the WAN, and iperf3's Retr (the loopback's in a tunnel), with the
    thesis's Retr.
    """
    tunnels, ccs, streams = tunnels_of(table), ccs_of(table), sorted(table["streams"].unique())
    figure, axes = new_figure(1.5 + 2.1 * len(tunnels), len(tunnels), 1, sharex=True)
    step = 0.8 / max(1, len(ccs))
    top = float(np.nanmax([10.0, *table["wan"], *table["retr"], *table["thesis_retr"]]))
    for ax, tunnel in zip(axes[:, 0], tunnels, strict=True):
        for place, cc in enumerate(ccs):
            for index, count in enumerate(streams):
                row = one_row(table, tunnel=tunnel, cc=cc, streams=count)
                if row is None:
                    continue
                x = index + (place - (len(ccs) - 1) / 2) * step
                draw_retransmissions(ax, x, step, row)
        ax.set_title(
            tunnel_title(tunnel)
            + (" (iperf3's sockets are the WAN's)" if tunnel == "direct" else "")
        )
        ax.set_ylabel("Retransmitted\n(segments)")
        counts_axis(ax, top)
        ax.set_xlim(-0.5, len(streams) - 0.5)
        ax.grid(False, axis="x")
    axes[-1, 0].set_xticks(range(len(streams)), [f"{count:g}" for count in streams])
    axes[-1, 0].set_xlabel("Parallel iperf3 streams (number)")
    handles: list[Any] = [Patch(facecolor=cc_colour(cc), label=cc_name(cc)) for cc in ccs]
    handles += [
        Line2D([], [], linestyle="none", color=FAINT, marker="o", label="WAN leg, lab"),
        Line2D(
            [],
            [],
            linestyle="none",
            color=FAINT,
            marker="s",
            markerfacecolor="white",
            markeredgewidth=1.5,
            label="iperf3's Retr, lab",
        ),
    ]
    if table["thesis_retr"].notna().any():
        handles.append(thesis_handle("iperf3's Retr, thesis"))
    finish(figure, [*handles, *degraded_handles(table, hollow=False)], footer)
    return figure


def draw_retransmissions(ax: Axes, x: float, step: float, row: pd.Series) -> None:
    """A cell's three counts side by side."""
    colour = cc_colour(row["cc"])
    if row["wan"] == row["wan"]:
        ax.plot(
            [x - step * 0.26],
            [row["wan"]],
            linestyle="none",
            marker="o",
            color=colour,
            label=f"wan {row['cc']}",
            clip_on=False,
            zorder=4,
        )
        draw_range(ax, x - step * 0.26, row, "wan", colour)
    if row["retr"] == row["retr"]:
        ax.plot(
            [x],
            [row["retr"]],
            linestyle="none",
            marker="s",
            color=colour,
            markerfacecolor="white",
            markeredgewidth=1.5,
            label=f"retr {row['cc']}",
            clip_on=False,
            zorder=4,
        )
        draw_range(ax, x, row, "retr", colour)
    if row["thesis_retr"] == row["thesis_retr"]:
        ax.plot(
            [x + step * 0.26],
            [row["thesis_retr"]],
            linestyle="none",
            marker="D",
            markersize=6,
            color=THESIS,
            markerfacecolor="white",
            markeredgewidth=1.5,
            label="thesis",
            clip_on=False,
            zorder=4,
        )
    if row["verdict"] == "degraded":
        ax.annotate(
            "*",
            (x, 1.0),
            xycoords=("data", "axes fraction"),
            ha="center",
            va="top",
            fontsize=11,
            color=INK,
        )


def draw_range(ax: Axes, x: float, row: pd.Series, figure: str, colour: str) -> None:
    """Interval, or least to greatest of the runs, as a thin line behind a marker."""
    low, high = row[f"{figure}_low"], row[f"{figure}_high"]
    if low != low and row["n"] > 1:
        low, high = min(row[f"{figure}_values"]), max(row[f"{figure}_values"])
    if low == low:
        ax.plot([x, x], [low, high], color=colour, linewidth=1.2, zorder=3, label="spread")


def counts_axis(ax: Axes, top: float) -> None:
    """A symlog axis, linear to 1, so that "none" has a place."""
    ax.set_yscale("symlog", linthresh=1.0, linscale=0.5)
    decades = range(math.ceil(math.log10(max(top, 10.0))) + 1)
    ax.set_ylim(-0.25, 10.0 ** (math.log10(top) * 1.06 + 0.15))
    every = 2 if len(decades) > 5 else 1
    ax.yaxis.set_major_locator(
        FixedLocator([0.0, *(10.0**decade for decade in decades if decade % every == 0)])
    )
    ax.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,.0f}"))
    ax.yaxis.set_minor_locator(NullLocator())


# -- the CPU


@styled
def plot_cpu(table: pd.DataFrame, footer: str = "") -> Figure:
    """Goodput above the guest CPU's idle share, by what a system call costs, a column per number of
    streams.
    """
    streams = sorted(table["streams"].unique())
    lines = [(tunnel, cc) for tunnel in tunnels_of(table) for cc in ccs_of(table)]
    costs = sorted(table.loc[table["clock"] != "real", "syscall_cost_us"].unique())
    places = {("virtual", cost): index for index, cost in enumerate(costs)}
    ticks = [f"{cost:g}" for cost in costs]
    if (table["clock"] == "real").any():
        places["real", None] = len(costs)
        real = table[table["clock"] == "real"]
        unlike = real["offloads"].max() > table.loc[table["clock"] != "real", "offloads"].max()
        ticks.append("real clock,\noffloads on" if unlike else "real\nclock")
    figure, axes = new_figure(5.6, 2, len(streams), sharex=True, sharey="row")
    top = max(
        [
            1.0,
            *(
                value
                for name in ("goodput", "goodput_high", "thesis_goodput")
                for value in table[name].dropna()
            ),
            *(value for values in table["goodput_values"] for value in values),
        ]
    )
    for column, count in enumerate(streams):
        goodput, idle = axes[0, column], axes[1, column]
        for place, (tunnel, cc) in enumerate(lines):
            # A little apart, so that equal values of two do not hide each other.
            aside = (place - (len(lines) - 1) / 2) * 0.14
            rows = table[
                (table["streams"] == count) & (table["tunnel"] == tunnel) & (table["cc"] == cc)
            ]
            draw_cpu_line(goodput, rows, places, "goodput", 1.0, aside)
            draw_cpu_line(idle, rows, places, "idle_share", 100.0, aside)
            thesis = rows["thesis_goodput"].dropna()
            if len(thesis):
                goodput.axhline(
                    thesis.iloc[0],
                    color=cc_colour(cc),
                    linestyle=(0, (1, 1.5)),
                    linewidth=1.4,
                    label=f"thesis {cc}",
                )
        idle.axhspan(0, 100 * IDLE_SHARE_LOW, color="#f3d9d2", zorder=0, label="no time left")
        goodput.set_title(f"{count:g} stream{'' if count == 1 else 's'}")
        goodput.set_ylim(0, 1.08 * top)
        idle.set_ylim(-3, 103)
        idle.set_xticks(range(len(ticks)), ticks)
        idle.set_xlim(-0.4, len(ticks) - 0.6)
        thousands(goodput.yaxis)
        idle.set_xlabel(
            "Cost of a system call (µs)"
            if len(streams) > 1
            else "Cost of a system call (µs of virtual time), and the real clock"
        )
    axes[0, 0].set_ylabel("Goodput (Mbit/s)")
    axes[1, 0].set_ylabel("CPU idle (% of a second)")
    handles: list[Any] = [
        Line2D(
            [],
            [],
            color=cc_colour(cc),
            marker=tunnel_marker(tunnel),
            label=f"{cc_name(cc)}, {tunnel}",
        )
        for tunnel, cc in lines
    ]
    if table["thesis_goodput"].notna().any():
        handles.append(
            Line2D([], [], color=FAINT, linestyle=(0, (1, 1.5)), label="thesis, in its colour")
        )
    handles.append(
        Patch(facecolor="#f3d9d2", label=f"idle < {100 * IDLE_SHARE_LOW:.0f} %: no time left")
    )
    finish(figure, [*handles, *degraded_handles(table)], footer)
    return figure


def draw_cpu_line(
    ax: Axes,
    rows: pd.DataFrame,
    places: dict[tuple[str, float | None], int],
    figure: str,
    scale: float,
    aside: float,
) -> None:
    """One congestion control's line over the costs; the real clock stands apart from it."""
    virtual = [
        (places["virtual", row["syscall_cost_us"]] + aside, row)
        for _, row in rows.iterrows()
        if row["clock"] != "real" and row[figure] == row[figure]
    ]
    real = [
        (places["real", None] + aside, row)
        for _, row in rows.iterrows()
        if row["clock"] == "real" and row[figure] == row[figure]
    ]
    virtual.sort(key=lambda pair: pair[0])
    if virtual:
        ax.plot(
            [x for x, _ in virtual],
            [scale * row[figure] for _, row in virtual],
            color=cc_colour(virtual[0][1]["cc"]),
            linewidth=1.4,
            label="line",
            zorder=2,
        )
    for x, row in [*virtual, *real]:
        scaled = row.copy()
        for end in ("", "_low", "_high"):
            scaled[figure + end] = scale * row[figure + end]
        scaled[f"{figure}_values"] = tuple(scale * value for value in row[f"{figure}_values"])
        draw_spread_point(ax, x, scaled, figure)


# -- the buffer


@styled
def plot_buffer(table: pd.DataFrame, footer: str = "") -> Figure:
    """Goodput and WAN retransmissions by the bottleneck's buffer, with the thesis's values as
    levels.
    """
    table = table[table["buffer_bdp"].notna()].sort_values("buffer_bdp")
    figure, axes = new_figure(6.4, 2, 1, sharex=True, gridspec_kw={"height_ratios": [3, 2]})
    goodput, again = axes[0, 0], axes[1, 0]
    ccs, tunnels = ccs_of(table), tunnels_of(table)
    levels: list[Line2D] = []
    for tunnel in tunnels:
        for cc in ccs:
            rows = table[(table["tunnel"] == tunnel) & (table["cc"] == cc)]
            for ax, figure_name in ((goodput, "goodput"), (again, "wan")):
                there = rows[rows[figure_name].notna()]
                ax.plot(
                    there["buffer_bdp"],
                    there[figure_name],
                    color=cc_colour(cc),
                    linewidth=1.4,
                    label="line",
                    zorder=2,
                )
                for _, row in there.iterrows():
                    draw_spread_point(ax, row["buffer_bdp"], row, figure_name)
            for thesis in rows["thesis_goodput"].dropna().unique():
                goodput.axhline(
                    thesis,
                    color=cc_colour(cc),
                    linestyle=(0, (1, 1.5)),
                    linewidth=1.6,
                    label=f"thesis {cc}",
                )
                levels.append(
                    Line2D(
                        [],
                        [],
                        color=cc_colour(cc),
                        linestyle=(0, (1, 1.5)),
                        linewidth=1.6,
                        label=f"thesis, {cc_name(cc)}: {thesis:,.0f}",
                    )
                )
    for rate in table["rate_mbit"].dropna().unique():
        goodput.axhline(rate, color=FAINT, linewidth=1.0, label="bottleneck")
        levels.append(Line2D([], [], color=FAINT, linewidth=1.0, label=f"bottleneck: {rate:,.0f}"))
    seen = [
        v
        for name in ("goodput", "goodput_high", "thesis_goodput", "rate_mbit")
        for v in table[name]
        if v == v
    ]
    goodput.set_ylim(0, max([1.0, *seen]) * 1.1)
    goodput.set_ylabel("Goodput (Mbit/s)")
    thousands(goodput.yaxis)
    again.set_ylabel("Retransmitted on\nthe WAN (segments)")
    counts_axis(again, float(np.nanmax([10.0, *table["wan"], *table["wan_high"]])))
    again.set_xscale("log")
    again.xaxis.set_major_locator(FixedLocator(apart(sorted(table["buffer_bdp"].unique()))))
    again.xaxis.set_major_formatter(FuncFormatter(lambda value, _: bdp_words(value)))
    again.xaxis.set_minor_locator(NullLocator())
    again.xaxis.set_minor_formatter(NullFormatter())
    bdp = float(table["bdp_pkts"].iloc[0])
    again.set_xlabel(
        f"Bottleneck buffer (BDP; 1 BDP = {bdp:,.0f} packets = "
        f"{bdp * float(table['mtu_bytes'].iloc[0]) / 1e6:,.1f} MB)"
    )
    handles = [
        Line2D(
            [],
            [],
            color=cc_colour(cc),
            marker=tunnel_marker(tunnel),
            label=f"{cc_name(cc)}, {tunnel}",
        )
        for tunnel in tunnels
        for cc in ccs
    ]
    finish(figure, [*handles, *levels, *degraded_handles(table)], footer)
    return figure


def apart(levels: Sequence[float], ratio: float = 1.22) -> list[float]:
    """Those of the sorted levels that a log axis has room to name."""
    kept: list[float] = []
    for each in levels:
        if not kept or each / kept[-1] >= ratio:
            kept.append(each)
    return kept


# -- one run over time


@styled
def plot_time_series(run: Run, footer: str = "") -> Figure:
    """One run: goodput, cwnd, srtt and the bottleneck's queue (and the CPU's idle share) on a
    shared axis.
    """
    leg = next((each for each in run.legs if each.name == "wan"), None)
    sockets = [
        row
        for row in read_series(run.folder, "sockets")
        if row.get("leg") == "wan" and (leg is None or row.get("host") == leg.sender)
    ]
    heading = "reverse" if run.direction == "download" else "forward"
    queue = [
        row
        for row in read_series(run.folder, "queues")
        if row.get("role") == "bottleneck" and row.get("direction") == heading
    ]
    intervals, idle = load_intervals(run.folder), idle_by_interval(run)
    panels: list[tuple[str, Callable[[Axes], None]]] = []
    if intervals:
        panels.append(("Sent by iperf3\n(Mbit/s)", lambda ax: draw_series(ax, intervals, run.cc)))
    if any(is_number(row.get("cwnd_pkts")) for row in sockets):
        panels.append(
            ("cwnd\n(segments)", lambda ax: draw_sockets(ax, sockets, "cwnd_pkts", run.cc))
        )
    if any(is_number(row.get("srtt_ms")) for row in sockets):
        panels.append(
            ("Smoothed RTT\n(ms)", lambda ax: draw_sockets(ax, sockets, "srtt_ms", run.cc))
        )
    if queue:
        panels.append(("Bottleneck queue\n(packets)", lambda ax: draw_queue(ax, queue, run)))
    if idle:
        panels.append(("CPU idle\n(%)", lambda ax: draw_idle(ax, idle)))
    figure, axes = new_figure(1.0 + 1.45 * max(1, len(panels)), max(1, len(panels)), 1, sharex=True)
    for ax, (label, draw) in zip(axes[:, 0], panels, strict=False):
        draw(ax)
        ax.set_ylabel(label)
    if not panels:
        axes[0, 0].text(
            0.5, 0.5, "this run left no series", ha="center", transform=axes[0, 0].transAxes
        )
    axes[-1, 0].set_xlabel("Time since the load began (s)")
    axes[-1, 0].set_xlim(left=0)
    figure.align_ylabels()
    streams = f"{run.streams} stream{'' if run.streams == 1 else 's'}"
    others = "".join(
        f", {name} {level(value)}"
        for name, value in run.factors
        if name not in ("cc", "tunnel", "streams")
    )
    finish(
        figure,
        (
            [
                Line2D(
                    [],
                    [],
                    color=cc_colour(run.cc),
                    label=f"{cc_name(run.cc)}: median of the WAN's sockets",
                ),
                Line2D(
                    [], [], color=cc_colour(run.cc), linewidth=0.8, alpha=0.4, label="each socket"
                ),
            ]
            if any("cwnd" in label for label, _ in panels)
            else []
        ),
        footer,
        title=f"{cc_name(run.cc)}, {run.tunnel}, {streams}{others}, repetition {run.repetition}"
        + (f" [{run.verdict}]" if run.verdict != "ok" else ""),
    )
    return figure


def is_number(value: object) -> bool:
    """A finite number of JSON."""
    return isinstance(value, int | float) and math.isfinite(value)


def draw_series(ax: Axes, points: Sequence[tuple[float, float]], cc: str) -> None:
    """One line from zero up, through (time in s, value)."""
    ax.plot(
        [t for t, _ in points],
        [value for _, value in points],
        color=cc_colour(cc),
        label=f"lab {cc}",
    )
    ax.set_ylim(0, max([1.0, *(value for _, value in points)]) * 1.1)
    thousands(ax.yaxis)


def draw_sockets(ax: Axes, rows: Sequence[dict[str, Any]], figure: str, cc: str) -> None:
    """Every socket thin, their median thick."""
    series: dict[str, list[tuple[float, float]]] = {}
    moments: dict[float, list[float]] = {}
    # iperf3's control connection is a WAN socket too, and carries nothing.
    heaviest: dict[str, float] = {}
    for row in rows:
        key = f"{row.get('local')} {row.get('peer')}"
        heaviest[key] = max(heaviest.get(key, 0.0), float(row.get("bytes_acked") or 0.0))
    least = 0.001 * max(heaviest.values(), default=0.0)
    for row in rows:
        key = f"{row.get('local')} {row.get('peer')}"
        if is_number(row.get(figure)) and heaviest[key] >= least:
            series.setdefault(key, []).append((row["t_s"], float(row[figure])))
            moments.setdefault(round(float(row["t_s"]), 3), []).append(float(row[figure]))
    for points in series.values():
        ax.plot(
            *zip(*points, strict=True),
            color=cc_colour(cc),
            linewidth=0.8,
            alpha=0.35 if len(series) < 40 else 0.12,
            label="socket",
        )
    times = sorted(moments)
    ax.plot(
        times, [float(np.median(moments[t])) for t in times], color=cc_colour(cc), label=f"lab {cc}"
    )
    ax.set_ylim(
        0, 1.1 * max((value for points in series.values() for _, value in points), default=1.0)
    )
    thousands(ax.yaxis)


def draw_queue(ax: Axes, rows: Sequence[dict[str, Any]], run: Run) -> None:
    """The bottleneck's backlog, and its limit where it comes near."""
    backlog = [float(row.get("backlog_pkts") or 0) for row in rows]
    ax.plot([row["t_s"] for row in rows], backlog, color=INK, linewidth=1.4, label="queue")
    top = max([*backlog, 1.0])
    if run.buffer_pkts is not None and top > 0.3 * run.buffer_pkts:
        ax.axhline(
            run.buffer_pkts, color=FAINT, linestyle=(0, (4, 2)), linewidth=1.2, label="limit"
        )
        ax.annotate(
            "limit",
            (1.0, run.buffer_pkts),
            xycoords=("axes fraction", "data"),
            xytext=(-2, -2),
            textcoords="offset points",
            ha="right",
            va="top",
            fontsize=9,
            color=FAINT,
        )
        top = max(top, float(run.buffer_pkts))
    ax.set_ylim(0, top * 1.12)
    thousands(ax.yaxis)


def idle_by_interval(run: Run) -> list[tuple[float, float]]:
    """(time in s, idle share of the interval that ends there)."""
    rows = [(0.0, 0.0, 0.0)]
    rows += [
        (float(row["t_s"]), float(row["cpu_busy_s"]), float(row["cpu_idle_s"]))
        for row in read_series(run.folder, "hosts")
        if is_number(row.get("cpu_busy_s")) and is_number(row.get("cpu_idle_s"))
    ]
    found = []
    for (_, busy0, idle0), (t, busy1, idle1) in itertools.pairwise(rows):
        spent = busy1 - busy0 + idle1 - idle0
        if spent > 0:
            found.append((t, (idle1 - idle0) / spent))
    return found


def draw_idle(ax: Axes, points: Sequence[tuple[float, float]]) -> None:
    """The CPU's idle share."""
    ax.plot(
        [t for t, _ in points],
        [100 * share for _, share in points],
        color=INK,
        linewidth=1.4,
        label="idle",
    )
    ax.set_ylim(-3, 103)


# -- anything else


@styled
def plot_cells(table: pd.DataFrame, footer: str = "") -> Figure:
    """Goodput of any matrix: a line per cell, its levels as its name."""
    table = table.head(MOST_ROWS)
    figure, axes = new_figure(1.2 + 0.34 * max(2, len(table)))
    ax = axes[0, 0]
    for y, (_, row) in enumerate(table.iterrows()):
        colour = cc_colour(row["cc"])
        if not row["n"]:
            ax.annotate(
                row["absent"],
                (0, y),
                xytext=(4, 0),
                textcoords="offset points",
                va="center",
                fontsize=9,
                color=FAINT,
            )
            continue
        if row["goodput_low"] == row["goodput_low"]:
            ax.plot(
                [row["goodput_low"], row["goodput_high"]],
                [y, y],
                color=colour,
                linewidth=1.6,
                label="interval",
            )
        elif row["n"] > 1:
            ax.plot(
                row["goodput_values"],
                [y] * len(row["goodput_values"]),
                linestyle="none",
                marker="|",
                color=colour,
                label="runs",
            )
        ax.plot(
            [row["goodput"]],
            [y],
            linestyle="none",
            marker=tunnel_marker(row["tunnel"]),
            color=colour,
            markerfacecolor="white" if row["verdict"] == "degraded" else colour,
            markeredgewidth=1.5,
            label=f"lab {row['cc']}",
            zorder=4,
            clip_on=False,
        )
        if row["thesis_goodput"] == row["thesis_goodput"]:
            ax.plot(
                [row["thesis_goodput"]],
                [y],
                linestyle="none",
                marker="D",
                markersize=6,
                color=THESIS,
                markerfacecolor="white",
                markeredgewidth=1.5,
                label="thesis",
                zorder=3,
                clip_on=False,
            )
    ax.set_yticks(range(len(table)), [cut(label, 60) for label in table["cell"]])
    ax.set_ylim(len(table) - 0.4, -0.6)
    ax.set_xlim(left=0)
    ax.set_xlabel("Goodput (Mbit/s)")
    thousands(ax.xaxis)
    handles: list[Any] = [Patch(facecolor=cc_colour(cc), label=cc_name(cc)) for cc in ccs_of(table)]
    if table["thesis_goodput"].notna().any():
        handles.append(thesis_handle("the study"))
    finish(figure, [*handles, *degraded_handles(table)], footer)
    return figure


# -- what they share


def tunnels_of(table: pd.DataFrame) -> list[str]:
    """The tunnels in a table, direct first."""
    return sorted(table["tunnel"].unique(), key=lambda name: rank(name, TUNNEL_ORDER))


def ccs_of(table: pd.DataFrame) -> list[str]:
    """The congestion controls in a table, the usual ones first."""
    return sorted(table["cc"].unique(), key=lambda name: rank(name, CC_ORDER))


def one_row(table: pd.DataFrame, **levels: Any) -> pd.Series | None:
    """The cell at these levels, the one with most runs if a matrix varies something else too."""
    mask = np.ones(len(table), dtype=bool)
    for name, value in levels.items():
        mask &= (table[name] == value).to_numpy()
    rows = table[mask]
    return None if rows.empty else rows.sort_values("n", ascending=False, kind="stable").iloc[0]


def tunnel_title(tunnel: str) -> str:
    """A facet's title."""
    return {
        "direct": "direct: no tunnel",
        "gost+ws": "gost+ws: relay over WebSocket",
        "gost+wss": "gost+wss: relay over WebSocket with TLS",
    }.get(tunnel, tunnel)


def thousands(axis: Any) -> None:
    """1,500 instead of 1500."""
    axis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,.10g}"))


def thesis_handle(words: str = "thesis") -> Line2D:
    """The legend's entry for the study's own value."""
    return Line2D(
        [],
        [],
        linestyle="none",
        marker="D",
        markersize=6,
        markerfacecolor="white",
        markeredgecolor=THESIS,
        markeredgewidth=1.5,
        label=words,
    )


def spread_handles(table: pd.DataFrame, figure: str) -> list[Line2D]:
    """The legend's entries for what shows the runs' spread."""
    handles = []
    if table[f"{figure}_low"].notna().any():
        least = table[f"{figure}_coverage"].min()
        handles.append(
            Line2D(
                [],
                [],
                color=INK,
                marker="|",
                linewidth=1.3,
                label=f"interval of the median (≥ {least:.1%})",
            )
        )
    if ((table["n"] > 1) & table[f"{figure}_low"].isna()).any():
        handles.append(Line2D([], [], color=INK, linestyle="none", marker="_", label="each run"))
    return handles


def degraded_handles(table: pd.DataFrame, *, bar: bool = False, hollow: bool = True) -> list[Any]:
    """The legend's entry for degraded cells, if there are any."""
    if not (table["verdict"] == "degraded").any():
        return []
    if bar:
        return [Patch(facecolor="white", edgecolor=FAINT, hatch=DEGRADED_HATCH, label="degraded")]
    if hollow:
        return [
            Line2D(
                [],
                [],
                linestyle="none",
                marker="o",
                color=FAINT,
                markerfacecolor="white",
                markeredgewidth=1.5,
                label="hollow: degraded",
            )
        ]
    return [Line2D([], [], linestyle="none", marker=(6, 2, 0), color=INK, label="degraded")]


def finish(figure: Figure, handles: Sequence[Any], footer: str, title: str = "") -> None:
    """Title and legend above, below what made the numbers, so that a figure cut out of its page
    still says so.
    """
    height = figure.get_figheight()
    lines = textwrap.wrap(footer, 112)[:2]
    top_in, bottom_in = 0.05, 0.12 + 0.15 * len(lines)
    if title:
        figure.text(
            0.012,
            1 - top_in / height,
            cut(title, 88),
            ha="left",
            va="top",
            fontweight="bold",
            fontsize=11,
        )
        top_in += 0.26
    if handles:
        columns = 3 if max(len(str(handle.get_label())) for handle in handles) < 27 else 2
        figure.legend(
            handles=handles,
            loc="upper left",
            bbox_to_anchor=(0.0, 1 - top_in / height),
            ncol=columns,
            columnspacing=1.4,
            handletextpad=0.6,
            borderaxespad=0.2,
        )
        top_in += 0.1 + 0.215 * math.ceil(len(handles) / columns)
    if lines:
        figure.text(
            0.012, 0.06 / height, "\n".join(lines), fontsize=8, color=FAINT, ha="left", va="bottom"
        )
    layout = figure.get_layout_engine()
    layout.set(rect=(0.006, bottom_in / height, 0.988, 1 - (top_in + bottom_in) / height))


def cut(words: str, length: int) -> str:
    """Text that fits a figure."""
    return words if len(words) <= length else words[: length - 1] + "…"
