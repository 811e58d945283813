"""Goodput by the number of streams: a facet per tunnel, a bar per congestion control."""

from __future__ import annotations

from collections.abc import Iterator

import pandas as pd
from matplotlib.figure import Figure
from matplotlib.patches import Patch

from analysis.draw.levels import ccs_of, one_row, tunnel_title, tunnels_of
from analysis.draw.marks import (
    degraded_handles,
    draw_bar,
    figure_values,
    spread_handles,
    study_handles,
)
from analysis.draw.registry import Answer, Drawing, Picture, Sheet, Sweep, valid_rows
from analysis.draw.sentences import agreement, comparisons, cpu_decided
from analysis.draw.style import cc_colour, finish, new_figure, styled, thousands
from analysis.judge.table import cc_name


@styled
def plot_goodput(
    table: pd.DataFrame, footer: str = "", *, title: str = "", called: str = "study"
) -> Figure:
    """Goodput by streams, the study's value beside each bar."""
    tunnels, ccs, streams = tunnels_of(table), ccs_of(table), sorted(table["streams"].unique())
    figure, axes = new_figure(1.1 + 2.35 * len(tunnels), len(tunnels), 1, sharex=True)
    width = 0.8 / max(1, len(ccs))
    top = max([1.0, *figure_values(table, "goodput", link=False)])
    for ax, tunnel in zip(axes[:, 0], tunnels, strict=True):
        for place, cc in enumerate(ccs):
            for index, count in enumerate(streams):
                row = one_row(table, tunnel=tunnel, cc=cc, streams=count)
                if row is not None:
                    x = index + (place - (len(ccs) - 1) / 2) * width
                    draw_bar(ax, x, width, row, "goodput")
        ax.set_title(tunnel_title(tunnel))
        ax.set_ylabel("Goodput (Mbit/s)")
        ax.set_ylim(0, top * 1.2)
        ax.set_xlim(-0.55, len(streams) - 0.45)
        ax.grid(False, axis="x")
        thousands(ax.yaxis)
    axes[-1, 0].set_xticks(range(len(streams)), [f"{count:g}" for count in streams])
    axes[-1, 0].set_xlabel("Parallel iperf3 streams (number)")
    handles = [
        *(Patch(facecolor=cc_colour(cc), label=f"{cc_name(cc)}, lab: median") for cc in ccs),
        *study_handles(table, "goodput", called=called),
        *spread_handles(table, "goodput"),
        *degraded_handles(table, bar=True),
    ]
    finish(figure, handles, footer, title)
    return figure


def draw(sheet: Sheet) -> Iterator[Picture]:
    """One figure."""
    yield Picture(plot_goodput(sheet.rows, sheet.footer, title=sheet.title, called=sheet.called))


def says(sweep: Sweep, table: pd.DataFrame) -> Iterator[Answer]:
    """Does the congestion control matter, by streams and tunnel; is the study met; where did the
    CPU decide.
    """
    valid = valid_rows(table)
    if valid.empty:
        return
    yield from comparisons(sweep, table, by_streams=True)
    if valid["goodput_study"].notna().any():
        heading = f"Lab against {sweep.study.called}"
        yield Answer(heading, agreement(valid, sweep.study.called))
    if said := cpu_decided(valid, sweep.title):
        yield Answer("Where the CPU decided", said)


DRAWING = Drawing(
    "goodput",
    caption="Goodput (what iperf3's receiver got) by the number of parallel streams.",
    draw=draw,
    shows=("streams", "tunnel", "cc"),
    says=says,
    # A cell without a valid run keeps its place and says why.
    rows=lambda table: table if (table["n"] > 0).any() else table.head(0),
    borrows=True,
)
