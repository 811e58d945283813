# SPDX-License-Identifier: MIT
"""Plot the duration of short downloads by size."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from statistics import median
from typing import TYPE_CHECKING

from gostlab.analysis.load.run_folder import RunFolder
from gostlab.analysis.plotting.panel_layout import (
    ConditionRuns,
    cc_legend_lines,
    condition_figure,
    group_by_cc,
    paged_figures,
    runs_by_condition,
)
from gostlab.analysis.plotting.plot_registry import Drawing, FigureInput, MatrixInput, ReportFigure
from gostlab.analysis.plotting.style import (
    ArtistStyle,
    cc_colour,
    finish_figure,
    in_report_style,
    set_log_axis,
)
from gostlab.analysis.stats.table_formats import NBSP

if TYPE_CHECKING:
    from matplotlib.figure import Figure

POINT: ArtistStyle = {"marker": "o", "markersize": 4}


def format_size(size_bytes: float) -> str:
    """Format a download's size: 10 kB, 1 MB."""
    if size_bytes >= 1e6:
        return f"{size_bytes / 1e6:g}{NBSP}MB"
    return f"{size_bytes / 1e3:g}{NBSP}kB"


def median_times_s(runs: Sequence[RunFolder], what: str) -> dict[float, float]:
    """Return the median over runs of a statistic (`median_s`, `p95_s`) by size."""
    result: dict[float, list[float]] = {}
    for item in (item for run in runs for flow in run.flows for item in flow.fetches):
        result.setdefault(item["size_bytes"], []).append(item[what])
    return {size: median(took_s) for size, took_s in sorted(result.items())}


@in_report_style
def plot_fetches(facets: Sequence[ConditionRuns], title: str, footer: str) -> Figure:
    """Plot median times by size, with thin lines up to the 95 % quantile.

    There is a facet per condition and a line per congestion control.
    """
    figure, axes = condition_figure(facets, 2.3, "Size of the download", "Time to complete (s)")
    seen: list[float] = []
    sizes: set[float] = set()
    for ax, (_, runs) in zip(axes.flat, facets, strict=False):
        for cc, cc_runs in group_by_cc(runs):
            middle, p95 = median_times_s(cc_runs, "median_s"), median_times_s(cc_runs, "p95_s")
            places, medians_s, colour = list(middle), list(middle.values()), cc_colour(cc)
            look = {"color": colour, "linewidth": 1.5, "label": f"lab {cc}", "zorder": 3}
            ax.plot(places, medians_s, **look, **POINT)
            ax.vlines(places, medians_s, list(p95.values()), color=colour, linewidth=1.0)
            seen += [*medians_s, *p95.values()]
            sizes |= middle.keys()
    for ax in axes.flat:
        ax.set_xscale("log")
        ax.set_xticks(sorted(sizes), [format_size(size) for size in sorted(sizes)])
        ax.minorticks_off()
        set_log_axis(ax, "y", min(seen) / 1.4, max(seen) * 1.4, most=5)
    ccs = cc_legend_lines((run.cc for _, runs in facets for run in runs), **POINT)
    finish_figure(figure, ccs, footer, title, "Points: the median. Lines upwards: to the 95 %.")
    return figure


def draw(sheet: FigureInput) -> Iterator[ReportFigure]:
    yield from paged_figures(
        runs_with_downloads(sheet.sweep),
        partial(plot_fetches, footer=sheet.footer),
        DRAWING.caption,
    )


def runs_with_downloads(sweep: MatrixInput) -> Sequence[ConditionRuns]:
    """Return the runs with short downloads, by condition."""
    return runs_by_condition(
        sweep.matrix.cells, lambda run: any(flow.fetches for flow in run.flows)
    )


DRAWING = Drawing(
    "fetches",
    caption=(
        "Time from before the connection to the last byte of short downloads, by size. A point is"
        " the median, its line ends at the 95 % value."
    ),
    draw=draw,
    needs="a short flow and a run that counts",
    metrics=("fetch_median_s",),
)
