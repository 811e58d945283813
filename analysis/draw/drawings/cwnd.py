"""Congestion windows, run beside run."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator, Sequence

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from analysis.draw.levels import (
    named_level,
    told_apart,
)
from analysis.draw.marks import min_max
from analysis.draw.registry import Drawing, Picture, Sheet
from analysis.draw.style import (
    FAINT,
    INK,
    cc_colour,
    finish,
    new_figure,
    styled,
    thousands,
)
from analysis.judge.cells import (
    CC_ORDER,
    rank,
)
from analysis.judge.table import cc_name
from analysis.read.folder import Run
from analysis.read.series import (
    Series,
    acks,
    socket_series,
    ssthresh_of,
)
from analysis.read.study import level

CONDITION_WIDTH = 15
SSTHRESH = (0, (3, 1.5))


@styled
def plot_cwnd_grid(runs: Sequence[Run], footer: str = "") -> Figure:
    """cwnd and ssthresh at every ACK: a row per condition, a column per congestion control."""
    ccs = sorted({run.cc for run in runs}, key=lambda name: rank(name, CC_ORDER))
    conditions = list(dict.fromkeys(condition_of(run) for run in runs))
    shown = dict(zip(conditions, told_apart(conditions), strict=True))
    figure, axes = new_figure(
        1.25 + 1.42 * max(1, len(conditions)),
        max(1, len(conditions)),
        max(1, len(ccs)),
        sharex=True,
        sharey="row",
    )
    for row, condition in enumerate(conditions):
        top = 1.0
        for column, cc in enumerate(ccs):
            ax = axes[row, column]
            run = next(
                (run for run in runs if run.cc == cc and condition_of(run) == condition), None
            )
            if run is None:
                ax.text(
                    0.5,
                    0.5,
                    "no valid run",
                    ha="center",
                    va="center",
                    fontsize=9,
                    color=FAINT,
                    transform=ax.transAxes,
                )
                continue
            top = max(top, draw_cwnd(ax, run))
        # Rows share their axis: the last limit is that of all.
        axes[row, 0].set_ylim(0, 1.08 * top)
        axes[row, 0].set_ylabel("\n".join(textwrap.wrap(shown[condition], CONDITION_WIDTH)[:3]))
        thousands(axes[row, 0].yaxis)
    for ax, cc in zip(axes[0], ccs, strict=False):
        ax.set_title(cc_name(cc))
    for ax in axes[-1]:
        ax.set_xlim(0, max([run.load_s for run in runs], default=1.0))
        ax.set_xlabel("Time (s)")
    figure.supylabel("cwnd (segments)", fontsize=10.5)
    figure.align_ylabels()
    finish(
        figure,
        [
            Line2D(
                [], [], color=INK, linewidth=1.2, label="cwnd, in its congestion control's colour"
            ),
            Line2D(
                [],
                [],
                color=FAINT,
                linewidth=1.0,
                linestyle=SSTHRESH,
                label="ssthresh (none: infinite)",
            ),
        ],
        footer,
    )
    return figure


def condition_of(run: Run) -> str:
    """A run's levels but for the congestion control."""
    return ", ".join(named_level(name, level(value)) for name, value in run.factors if name != "cc")


def draw_cwnd(ax: Axes, run: Run) -> float:
    """One run's windows: of its first flow at every ACK, else as sampled; the greatest cwnd."""
    flow = next((flow for flow in run.flows if flow.competes), None)
    name = flow.name if flow else ""
    table = acks(run)
    table = table[table["flow"] == name]
    if len(table):
        cwnd = Series(table["t_s"].to_numpy(float), table["cwnd_pkts"].to_numpy(float))
    else:
        nothing = Series(np.array([]), np.array([]))
        cwnd = socket_series(run, "cwnd_pkts").get(name, nothing)
    ssthresh = ssthresh_of(run, name)
    if not len(cwnd):
        ax.text(
            0.5,
            0.5,
            "no windows recorded",
            ha="center",
            va="center",
            fontsize=9,
            color=FAINT,
            transform=ax.transAxes,
        )
        return 1.0
    ax.plot(
        *min_max(ssthresh.t_s, ssthresh.value),
        color=FAINT,
        linewidth=1.0,
        linestyle=SSTHRESH,
        drawstyle="steps-post",  # it holds from one ACK or sample to the next
        label="ssthresh",
        zorder=2,
    )
    ax.plot(
        *min_max(cwnd.t_s, cwnd.value),
        color=cc_colour(run.cc),
        linewidth=1.1,
        label=f"lab {run.cc}",
        zorder=3,
    )
    if run.verdict == "degraded":
        ax.set_title("degraded", loc="right", fontsize=8.5, fontweight="normal", color=FAINT)
    return float(np.max(cwnd.value))


def draw(sheet: Sheet) -> Iterator[Picture]:
    """One figure: the first run of every cell."""
    cells = sheet.sweep.matrix.cells
    runs = [run for cell in cells for run in cell.counted[:1]]
    yield Picture(plot_cwnd_grid(runs, sheet.footer), medians=False)


DRAWING = Drawing(
    "cwnd",
    caption=(
        "Congestion window and slow-start threshold of one run per cell, at every ACK where they"
        " are recorded."
    ),
    draw=draw,
)
