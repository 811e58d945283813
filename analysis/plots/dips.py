# SPDX-License-Identifier: MIT
"""Plot when flows fall below their own rate, and the cost, such as BBR's ProbeRTT."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from gostlab.analysis.load.run_folder import RunFolder
from gostlab.analysis.load.run_json import FlowRecord
from gostlab.analysis.plots.series import cell_and_variant_label, median_runs, rate_window_s
from gostlab.analysis.plotting.image_map import tag_artist
from gostlab.analysis.plotting.marks import reduce_to_min_max
from gostlab.analysis.plotting.panel_layout import paged_figures
from gostlab.analysis.plotting.plot_registry import (
    Drawing,
    FigureInput,
    ReportFigure,
    rows_with_metric,
)
from gostlab.analysis.plotting.style import (
    FAINT,
    ArtistStyle,
    cc_colour,
    finish_figure,
    format_thousands,
    in_report_style,
    legend_entry,
    new_figure,
)
from gostlab.analysis.stats.cells import Cell, cell_key
from gostlab.analysis.stats.provenance import made_by_line
from gostlab.analysis.stats.table_formats import pluralize
from gostlab.analysis.stats.throughput_dips import DEEP, Dips, find_dips

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

Dipping = tuple[str, RunFolder, FlowRecord, Dips]  # label, run, flow, dips
PANELS_ON_A_FIGURE = 8
SHADE = "#F3D9C6"
MEDIAN: ArtistStyle = {"color": FAINT, "linestyle": "--", "linewidth": 1.0}


@in_report_style
def plot_dips(runs: Sequence[Dipping], title: str) -> Figure:
    """Plot a panel per flow: its rate over time, and its dips with their cost."""
    from matplotlib.patches import Patch

    figure, axes = new_figure(1.3 + 1.05 * len(runs), len(runs), 1, sharex=True)
    for ax, (text, run, flow, dips) in zip(axes[:, 0], runs, strict=True):
        draw_flow(ax, flow, dips)
        ax.set_title(text, fontsize=9.5)
        corner = {"transform": ax.transAxes, "ha": "right", "va": "bottom"}
        ax.text(1.0, 1.02, dips_label(dips), fontsize=9, color=FAINT, **corner)
        tag_artist(ax.patch, cell_key(run))
    axes[-1, 0].set_xlim(0, max([run.load_s for _, run, _, _ in runs] + [1.0]))
    axes[-1, 0].set_xlabel("Time since the load began (s)")
    figure.supylabel("Rate (Mbit/s)", fontsize=10.5)
    handles = [
        Patch(facecolor=SHADE, label=f"below {DEEP:g} of the median rate"),
        legend_entry("median rate", **MEDIAN),
    ]
    finish_figure(figure, handles, made_by_line([run for _, run, _, _ in runs]), title)
    return figure


def draw_flow(ax: Axes, flow: FlowRecord, dips: Dips) -> None:
    """Plot one flow's rate, median and dips."""
    for begin, end in dips.spans:
        ax.axvspan(begin, end, color=SHADE, linewidth=0, zorder=1)
    t_s, value = reduce_to_min_max(dips.rates.t_s, dips.rates.value)
    look = {"color": cc_colour(flow.cc or ""), "linewidth": 1.2, "zorder": 3}
    ax.plot(t_s, value, label=f"lab {flow.name}", **look)
    ax.axhline(dips.median_mbit, zorder=2, **MEDIAN)
    # cut off a burst at the start, which would flatten everything else
    ax.set_ylim(0, 1.35 * dips.median_mbit)
    format_thousands(ax.yaxis)


def dips_label(dips: Dips) -> str:
    if not dips.spans:
        return "no dip"
    apart = f", {dips.apart_s:.1f} s apart" if dips.apart_s is not None else ""
    return f"{pluralize(len(dips.spans), 'dip')}{apart}; {100 * dips.lost_share:.1f} % of it lost"


def flows_with_dips(cells: Sequence[Cell]) -> Iterator[Dipping]:
    """Return (label, run, flow, dips) for each flow of a run of each cell."""
    for cell, run in median_runs(cells):
        for flow in run.flows:
            dips = find_dips(run, flow.name, rate_window_s(run))
            if dips is None:
                continue
            text = [cell_and_variant_label(cell), flow.name if len(run.flows) > 1 else ""]
            verdict = "" if run.verdict in ("ok", None) else f" [{run.verdict}]"
            yield ", ".join(filter(None, text)) + verdict, run, flow, dips


def draw(sheet: FigureInput) -> Iterator[ReportFigure]:
    yield from paged_figures(
        list(flows_with_dips(sheet.sweep.matrix.cells)),
        plot_dips,
        DRAWING.caption,
        most=PANELS_ON_A_FIGURE,
        each="Flows",
    )


DRAWING = Drawing(
    "dips",
    caption=(
        "Rate over time of one run per cell, and where it falls below 0.7 of its median after the"
        " first quarter. Windows are a round trip long, and 100 ms at least."
    ),
    draw=draw,
    rows=rows_with_metric("srtt_median_ms"),
    needs="a run that counts and sampled its sockets",
)
