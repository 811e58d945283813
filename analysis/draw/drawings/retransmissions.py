"""Segments sent again, on the WAN and by iperf3's own count, by the number of streams."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Patch

from analysis.draw.levels import ccs_of, one_row, tunnel_title, tunnels_of
from analysis.draw.marks import degraded_handles, draw_study, number, study_handle
from analysis.draw.registry import Drawing, Picture, Sheet
from analysis.draw.spots import shows_row
from analysis.draw.style import (
    FAINT,
    INK,
    cc_colour,
    counts_axis,
    finish,
    new_figure,
    styled,
)
from analysis.judge.statistics import is_known
from analysis.judge.table import cc_name


@styled
def plot_retransmissions(
    table: pd.DataFrame, footer: str = "", *, title: str = "", called: str = "study"
) -> Figure:
    """Segments sent again on the WAN, and iperf3's Retr (the loopback's in a tunnel), with the
    study's Retr.
    """
    tunnels, ccs, streams = tunnels_of(table), ccs_of(table), sorted(table["streams"].unique())
    figure, axes = new_figure(1.5 + 2.1 * len(tunnels), len(tunnels), 1, sharex=True)
    step = 0.8 / max(1, len(ccs))
    seen = [*table["wan"], *table["retr"], *table["retr_study"]]
    top = max([10.0, *filter(is_known, seen)])
    for ax, tunnel in zip(axes[:, 0], tunnels, strict=True):
        for place, cc in enumerate(ccs):
            for index, count in enumerate(streams):
                row = one_row(table, tunnel=tunnel, cc=cc, streams=count)
                if row is not None:
                    x = index + (place - (len(ccs) - 1) / 2) * step
                    draw_counts(ax, x, step, row)
        aside = " (iperf3's sockets are the WAN's)" if tunnel == "direct" else ""
        ax.set_title(tunnel_title(tunnel) + aside)
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
    if table["retr_study"].notna().any():
        handles.append(study_handle(f"iperf3's Retr, the {called}"))
    finish(figure, [*handles, *degraded_handles(table, hollow=False)], footer, title)
    return figure


def draw_counts(ax: Axes, x: float, step: float, row: pd.Series) -> None:
    """A cell's three counts side by side."""
    colour = cc_colour(row["cc"])
    for name, at, marker, face in (
        ("wan", x - step * 0.26, "o", colour),
        ("retr", x, "s", "white"),
    ):
        if is_known(number(row, name)):
            (point,) = ax.plot(
                [at],
                [row[name]],
                linestyle="none",
                marker=marker,
                color=colour,
                markerfacecolor=face,
                markeredgewidth=1.5,
                label=f"{name} {row['cc']}",
                clip_on=False,
                zorder=4,
            )
            shows_row(point, row)
            draw_range(ax, at, row, name, colour)
    draw_study(ax, x + step * 0.26, row, "retr", colour)
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
    if not is_known(low) and row["n"] > 1:
        low, high = min(row[f"{figure}_values"]), max(row[f"{figure}_values"])
    if is_known(low):
        ax.plot([x, x], [low, high], color=colour, linewidth=1.2, zorder=3, label="spread")


def draw(sheet: Sheet) -> Iterator[Picture]:
    """One figure."""
    plotted = plot_retransmissions(sheet.rows, sheet.footer, title=sheet.title, called=sheet.called)
    yield Picture(plotted, medians=False)


DRAWING = Drawing(
    "retransmissions",
    caption=(
        "Segments sent again. In a tunnel iperf3's Retr counts the loopback connection between"
        " iperf3 and the tunnel's near end, not the WAN. Zero has a place on this axis."
    ),
    draw=draw,
    shows=("streams", "tunnel", "cc"),
    # A published Retr has its place although no run of the cell counts.
    rows=lambda table: table if (table["n"] > 0).any() else table.head(0),
    borrows=True,
)
