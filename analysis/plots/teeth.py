# SPDX-License-Identifier: MIT
"""Plot the teeth of congestion windows: after slow start, with ten seconds enlarged."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from gostlab.analysis.load.run_folder import RunFolder
from gostlab.analysis.plots.cwnd import (
    CONDITION_WIDTH,
    condition_label,
    cwnd_series,
    write_in_panel,
)
from gostlab.analysis.plotting.factors import cc_rank
from gostlab.analysis.plotting.image_map import tag_artist
from gostlab.analysis.plotting.marks import reduce_to_min_max
from gostlab.analysis.plotting.panel_layout import paged_figures
from gostlab.analysis.plotting.plot_registry import Drawing, FigureInput, ReportFigure
from gostlab.analysis.plotting.style import (
    FAINT,
    cc_colour,
    finish_figure,
    format_thousands,
    in_report_style,
    legend_entry,
    new_figure,
)
from gostlab.analysis.stats.cells import cell_key
from gostlab.analysis.stats.table_formats import cc_name
from gostlab.results.metrics import WARM_UP_SHARE

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

ENLARGED_S = 10.0
MAX_RUNS = 8  # on a figure that fits a page


@in_report_style
def plot_teeth(runs: Sequence[RunFolder], footer: str, *, title: str = "") -> Figure:
    """Plot each run's window after its start-up, and ten seconds from the middle beside it."""
    labels = [label_of(run) for run in runs]
    figure, axes = new_figure(1.0 + 1.5 * len(runs), len(runs), 2, sharey="row")
    for row, run in enumerate(runs):
        all_time, enlarged = axes[row]
        draw_teeth(all_time, enlarged, run)
        all_time.set_ylabel(labels[row])
        format_thousands(all_time.yaxis)
    axes[0, 0].set_title("After the start-up")
    axes[0, 1].set_title("Ten seconds of it")
    for ax in axes[-1]:
        ax.set_xlabel("Time (s)")
    figure.supylabel("cwnd (segments)", fontsize=10.5)
    entries = [legend_entry("cwnd, in its congestion control's colour", color=FAINT, linewidth=1.2)]
    finish_figure(figure, entries, footer, title)
    return figure


def label_of(run: RunFolder) -> str:
    """Return a run's congestion control and levels, without the model of its losses."""
    levels = [part for part in condition_label(run).split(", ") if ".model " not in part]
    return "\n".join([cc_name(run.cc), *textwrap.wrap(", ".join(levels), CONDITION_WIDTH)[:3]])


def draw_teeth(whole: Axes, enlarged: Axes, run: RunFolder) -> None:
    """Plot the window of a run's first flow, and a part of it."""
    cwnd = cwnd_series(run, run.competitors[0].name)
    first_s = WARM_UP_SHARE * run.load_s
    is_steady = cwnd.t_s >= first_s if len(cwnd) else []
    if not any(is_steady):
        write_in_panel(whole, "no windows recorded")
        return
    t_s, value = cwnd.t_s[is_steady], cwnd.value[is_steady]
    middle_s = (first_s + run.load_s) / 2
    for ax in (whole, enlarged):
        tag_artist(ax.patch, cell_key(run))
        ax.plot(
            *reduce_to_min_max(t_s, value),
            color=cc_colour(run.cc),
            linewidth=1.1,
            label=f"lab {run.cc}",
        )
    whole.set_ylim(0, 1.08 * float(value.max()))
    whole.set_xlim(first_s, run.load_s)
    enlarged.set_xlim(middle_s - ENLARGED_S / 2, middle_s + ENLARGED_S / 2)
    whole.axvspan(*enlarged.get_xlim(), color=FAINT, alpha=0.15, linewidth=0)


def draw(sheet: FigureInput) -> Iterator[ReportFigure]:
    """Plot the first run of every cell, on figures of at most a page."""
    cells = [cell for cell in sheet.sweep.matrix.cells if cell.counted]
    runs = [cell.counted[0] for cell in cells]
    conditions = list(dict.fromkeys(condition_label(run) for run in runs))
    runs.sort(key=lambda run: (conditions.index(condition_label(run)), cc_rank(run.cc)))

    def plot(some: Sequence[RunFolder], span: str) -> Figure:
        return plot_teeth(some, sheet.footer, title=span)

    for picture in paged_figures(runs, plot, "", most=MAX_RUNS):
        yield replace(picture, caption="")


DRAWING = Drawing(
    "teeth",
    caption=(
        "Congestion window after the first quarter, and ten seconds of it, of one run per cell."
    ),
    draw=draw,
    metrics=("window_pkts",),
)
