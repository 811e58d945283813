# SPDX-License-Identifier: MIT
"""Plot congestion windows of runs side by side."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from gostlab.analysis.load.run_folder import RunFolder
from gostlab.analysis.load.series import TimeSeries, empty_series, socket_series, ssthresh_of
from gostlab.analysis.load.study import format_level
from gostlab.analysis.plotting.factors import cc_rank, level_with_factor_name, strip_common_prefix
from gostlab.analysis.plotting.image_map import tag_artist
from gostlab.analysis.plotting.marks import FLOW_DASHES, reduce_to_min_max
from gostlab.analysis.plotting.panel_layout import paged_figures
from gostlab.analysis.plotting.plot_registry import Drawing, FigureInput, ReportFigure
from gostlab.analysis.plotting.style import (
    FAINT,
    INK,
    cc_colour,
    finish_figure,
    format_thousands,
    in_report_style,
    legend_entry,
    new_figure,
)
from gostlab.analysis.stats.cells import cell_key
from gostlab.analysis.stats.table_formats import cc_name
from gostlab.results.samples import read_acks

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

CONDITION_WIDTH = 15
SSTHRESH = {"color": FAINT, "linewidth": 1.0, "linestyle": (0, (3, 1.5))}
# Maximum rows of a figure that fits a page.
MAX_CONDITIONS = 10
# Rows whose windows differ by a greater ratio get individual scales.
ONE_SCALE = 4.0


@in_report_style
def plot_cwnd_grid(
    runs: Sequence[RunFolder], footer: str = "", *, title: str = "", note: str = ""
) -> Figure:
    """Plot cwnd and ssthresh at every ACK: conditions by congestion controls.

    Raises ValueError for two runs at one place.
    """
    ccs = sorted({run.cc for run in runs}, key=cc_rank)
    conditions = list(dict.fromkeys(condition_label(run) for run in runs))
    formatted = dict(zip(conditions, strip_common_prefix(conditions), strict=True))
    at = {(condition_label(run), run.cc): run for run in runs}
    if len(at) < len(runs):
        raise ValueError(f"{len(runs)} runs at {len(at)} places")
    figure, axes = new_figure(
        1.25 + 1.42 * max(1, len(conditions)),
        max(1, len(conditions)),
        max(1, len(ccs)),
        sharex=True,
        sharey="row",
    )
    tops = []
    for row, condition in enumerate(conditions):
        there = [(axes[row, column], at.get((condition, cc))) for column, cc in enumerate(ccs)]
        tops.append(max([1.0, *(draw_cwnd(ax, run) for ax, run in there)]))
        label = textwrap.wrap(formatted[condition], CONDITION_WIDTH)
        axes[row, 0].set_ylabel("\n".join([*label[:3], *(["…"] if len(label) > 3 else [])]))
        format_thousands(axes[row, 0].yaxis)
    alike = bool(tops) and max(tops) <= ONE_SCALE * min(tops)
    for row, top in enumerate(tops):
        # rows share their axis: the limit of the first applies to all
        axes[row, 0].set_ylim(0, 1.08 * (max(tops) if alike else top))
    for ax, cc in zip(axes[0], ccs, strict=False):
        ax.set_title(cc_name(cc))
    for ax in axes[-1]:
        ax.set_xlim(0, max([run.load_s for run in runs], default=1.0))
        ax.set_xlabel("Time (s)")
    figure.supylabel("cwnd (segments)", fontsize=10.5)
    scale = "" if alike or len(tops) < 2 else "Each row has a scale of its own."
    text = " ".join(part for part in (scale, note) if part)
    finish_figure(figure, window_handles(runs), footer, title, text)
    return figure


def window_handles(runs: Sequence[RunFolder]) -> list[Any]:
    """Return the legend entries of lines, and of flows if there are several."""
    names = list(dict.fromkeys(flow.name for run in runs for flow in run.competitors))
    if len(names) < 2:
        names = ["cwnd, in its congestion control's colour"]
    return [
        *(
            legend_entry(name, linestyle=line_style(at), color=INK, linewidth=1.2)
            for at, name in enumerate(names)
        ),
        legend_entry("ssthresh (none: infinite)", **SSTHRESH),
    ]


def line_style(place: int) -> Any:
    """Return the line style of the first, second, … flow of a run."""
    return FLOW_DASHES[place % len(FLOW_DASHES)]


def condition_label(run: RunFolder) -> str:
    """Return a run's levels without congestion control and implied loss model."""
    names = {name for name, _ in run.factors}
    return ", ".join(
        level_with_factor_name(name, format_level(value))
        for name, value in run.factors
        if not (name == "cc" and format_level(value) == run.cc)
        and not (name == "loss.model" and "loss.packets" in names)
    )


def draw_cwnd(ax: Axes, run: RunFolder | None) -> float:
    """Plot the windows of every flow of a run and return the maximum cwnd."""
    import numpy as np

    if run is None:
        write_in_panel(ax, "no valid run")
        return 1.0
    tag_artist(ax.patch, cell_key(run))
    top = 0.0
    for index, flow in enumerate(run.competitors):
        cwnd, ssthresh = cwnd_series(run, flow.name), ssthresh_of(run, flow.name)
        if not len(cwnd):
            continue
        top = max(top, float(np.max(cwnd.value)))
        ax.plot(
            *reduce_to_min_max(ssthresh.t_s, ssthresh.value),
            **SSTHRESH,
            drawstyle="steps-post",  # a value holds until the next ACK or sample
            label="ssthresh",
            zorder=2,
        )
        ax.plot(
            *reduce_to_min_max(cwnd.t_s, cwnd.value),
            color=cc_colour(flow.cc or run.cc),
            linestyle=line_style(index),
            linewidth=1.1,
            label=f"lab {flow.cc or run.cc}",
            zorder=3,
        )
    if not top:
        write_in_panel(ax, "no windows recorded")
    if run.verdict == "degraded":
        ax.set_title("degraded", loc="right", fontsize=8.5, fontweight="normal", color=FAINT)
    return max(top, 1.0)


def cwnd_series(run: RunFolder, flow: str) -> TimeSeries:
    """Return a flow's congestion window in packets."""
    table = read_acks(run.folder)
    table = table[table["flow"] == flow]
    if len(table):
        return TimeSeries.from_table(table, "cwnd_pkts")
    return socket_series(run, "cwnd_pkts").get(flow, empty_series())


def write_in_panel(ax: Axes, words: str) -> None:
    """Write the reason for missing data."""
    ax.text(
        0.5, 0.5, words, ha="center", va="center", fontsize=9, color=FAINT, transform=ax.transAxes
    )


def draw(sheet: FigureInput) -> Iterator[ReportFigure]:
    """Plot the first run of every cell, on figures of at most a page."""
    cells = [cell for cell in sheet.sweep.matrix.cells if cell.counted]
    runs = [cell.counted[0] for cell in cells]
    most = max(len(cell.counted) for cell in cells)
    note = f"Of each cell the first run of up to {most}." if most > 1 else ""
    conditions = list(dict.fromkeys(condition_label(run) for run in runs))

    def plot(names: Sequence[str], span: str) -> Figure:
        some = [run for run in runs if condition_label(run) in names]
        return plot_cwnd_grid(some, sheet.footer, title=span, note=note)

    for picture in paged_figures(conditions, plot, "", most=MAX_CONDITIONS):
        yield replace(picture, caption="")


DRAWING = Drawing(
    "cwnd",
    caption=(
        "Congestion window and slow-start threshold of one run per cell, at every ACK where they"
        " are recorded."
    ),
    draw=draw,
    metrics=("window_pkts",),
)
