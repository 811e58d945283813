"""The lab's goodput over the study's, by the number of streams, on a log axis; 1 is agreement."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pandas as pd
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from analysis.draw.levels import ccs_of, one_row, tunnels_of
from analysis.draw.marks import degraded_handles, draw_point, note_above
from analysis.draw.registry import Drawing, Picture, Sheet
from analysis.draw.style import (
    GRID,
    INK,
    cc_colour,
    finish,
    new_figure,
    ratio_axis,
    styled,
    tunnel_marker,
)
from analysis.judge.statistics import is_known
from analysis.judge.table import cc_name

# More lines than this and their numbers meet.
MOST_NUMBERED = 6


@styled
def plot_ratio(
    table: pd.DataFrame, footer: str = "", *, title: str = "", called: str = "study"
) -> Figure:
    """Lab over study, a marker per tunnel, a colour per congestion control."""
    table = table[table["ratio"].notna()]
    streams = sorted(table["streams"].unique())
    pairs = [(tunnel, cc) for tunnel in tunnels_of(table) for cc in ccs_of(table)]
    figure, axes = new_figure(3.9)
    ax = axes[0, 0]
    step = 0.7 / max(1, len(pairs))
    ax.axhline(1.0, color=INK, linewidth=1.2, label="agreement")
    for place, (tunnel, cc) in enumerate(pairs):
        for index, count in enumerate(streams):
            row = one_row(table, tunnel=tunnel, cc=cc, streams=count)
            if row is None:
                continue
            x = index + (place - (len(pairs) - 1) / 2) * step
            marker = tunnel_marker(tunnel)
            draw_point(ax, x, row, "ratio", cc_colour(cc), f"lab {cc}", marker=marker)
            if len(pairs) <= MOST_NUMBERED:
                top = row["ratio_high"] if is_known(row["ratio_high"]) else row["ratio"]
                note_above(ax, x, top, f"{row['ratio']:.2f}")
    ends = ("ratio", "ratio_low", "ratio_high")
    values = [value for end in ends for value in table[end] if is_known(value) and value > 0]
    ratio_axis(ax, min([0.7, *values]) / 1.15, max([1.4, *values]) * 1.25)
    ax.set_ylabel(f"Goodput, lab / {called} (ratio)")
    ax.set_xticks(range(len(streams)), [f"{count:g}" for count in streams])
    ax.set_xlim(-0.5, len(streams) - 0.5)
    ax.set_xlabel("Parallel iperf3 streams (number)")
    ax.grid(False, axis="x")
    for edge in np.arange(0.5, len(streams) - 1):
        ax.axvline(edge, color=GRID, linewidth=0.8)
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
    finish(figure, [*handles, *degraded_handles(table)], footer, title)
    return figure


def draw(sheet: Sheet) -> Iterator[Picture]:
    """One figure."""
    plotted = plot_ratio(sheet.rows, sheet.footer, title=sheet.title, called=sheet.called)
    caption = f"The lab's median goodput over the {sheet.called}'s; on the line they agree."
    yield Picture(plotted, caption, medians=False)


DRAWING = Drawing(
    "ratio",
    caption="The lab's median goodput over the study's; on the line they agree.",
    draw=draw,
    shows=("streams", "tunnel", "cc"),
    rows=lambda table: table[table["ratio"].notna()],
    needs="a published goodput",
    borrows=True,
)
