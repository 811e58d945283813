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
    cc_lines,
    condition_figure,
    conditions,
    of_each_cc,
    pictures,
)
from gostlab.analysis.plotting.plot import Drawing, ReportFigure, Sheet, Sweep
from gostlab.analysis.plotting.style import ArtistStyle, cc_colour, finish, log_axis, styled
from gostlab.analysis.stats.text_table import NBSP

if TYPE_CHECKING:
    from matplotlib.figure import Figure

POINT: ArtistStyle = {"marker": "o", "markersize": 4}


def size_words(size_bytes: float) -> str:
    """Format a download's size: 10 kB, 1 MB."""
    if size_bytes >= 1e6:
        return f"{size_bytes / 1e6:g}{NBSP}MB"
    return f"{size_bytes / 1e3:g}{NBSP}kB"


def times_s(runs: Sequence[RunFolder], what: str) -> dict[float, float]:
    """Return the median over runs of a statistic (`median_s`, `p95_s`) by size."""
    result: dict[float, list[float]] = {}
    for item in (item for run in runs for flow in run.flows for item in flow.fetches):
        result.setdefault(item["size_bytes"], []).append(item[what])
    return {size: median(took_s) for size, took_s in sorted(result.items())}


@styled
def plot_fetches(facets: Sequence[ConditionRuns], title: str, footer: str) -> Figure:
    """Plot median times by size, with thin lines up to the 95 % quantile.

    There is a facet per condition and a line per congestion control.
    """
    figure, axes = condition_figure(facets, 2.3, "Size of the download", "Time to complete (s)")
    seen: list[float] = []
    sizes: set[float] = set()
    for ax, (_, runs) in zip(axes.flat, facets, strict=False):
        for cc, cc_runs in of_each_cc(runs):
            middle, p95 = times_s(cc_runs, "median_s"), times_s(cc_runs, "p95_s")
            places, medians_s, colour = list(middle), list(middle.values()), cc_colour(cc)
            look = {"color": colour, "linewidth": 1.5, "label": f"lab {cc}", "zorder": 3}
            ax.plot(places, medians_s, **look, **POINT)
            ax.vlines(places, medians_s, list(p95.values()), color=colour, linewidth=1.0)
            seen += [*medians_s, *p95.values()]
            sizes |= middle.keys()
    for ax in axes.flat:
        ax.set_xscale("log")
        ax.set_xticks(sorted(sizes), [size_words(size) for size in sorted(sizes)])
        ax.minorticks_off()
        log_axis(ax, "y", min(seen) / 1.4, max(seen) * 1.4, most=5)
    ccs = cc_lines((run.cc for _, runs in facets for run in runs), **POINT)
    finish(figure, ccs, footer, title, "Points: the median. Lines upwards: to the 95 %.")
    return figure


def draw(sheet: Sheet) -> Iterator[ReportFigure]:
    yield from pictures(
        measured(sheet.sweep), partial(plot_fetches, footer=sheet.footer), DRAWING.caption
    )


def measured(sweep: Sweep) -> Sequence[ConditionRuns]:
    """Return the runs with short downloads, by condition."""
    return conditions(sweep.matrix.cells, lambda run: any(flow.fetches for flow in run.flows))


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
