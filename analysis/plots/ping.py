# SPDX-License-Identifier: MIT
"""Plot RTTs measured under load, over time and as distributions."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cache, partial
from typing import TYPE_CHECKING, Literal

from gostlab.analysis.load.run_folder import RunFolder
from gostlab.analysis.plotting import panel_layout, style
from gostlab.analysis.plotting.marks import reduce_to_min_max
from gostlab.analysis.plotting.plot_registry import (
    Drawing,
    FigureInput,
    ReportFigure,
    rows_with_metric,
)
from gostlab.results import is_number, read_series

if TYPE_CHECKING:
    import numpy as np
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

IDLE: style.ArtistStyle = {"color": style.FAINT, "linestyle": "--", "linewidth": 1.0}


@cache
def ping_samples(run: RunFolder) -> tuple[np.ndarray, np.ndarray]:
    """Return send times in s since the load began and RTTs in ms; NaN without an answer."""
    import numpy as np

    rows = read_series(run.folder, "pings")
    rtts = [row["rtt_ms"] if is_number(row.get("rtt_ms")) else np.nan for row in rows]
    return np.array([row["t_s"] for row in rows]), np.array(rtts, float)


def idle_rtt_ms(run: RunFolder) -> float:
    """Return the idle RTT of a run's ping flow."""
    return next((flow.rtt_ms for flow in run.flows if flow.traffic_type == "ping"), run.rtt_ms)


def draw_over_time(ax: Axes, run: RunFolder) -> None:
    """Plot one run's RTTs over time, with gaps for lost pings."""
    t_s, rtt_ms = ping_samples(run)
    line = {"color": style.cc_colour(run.cc), "linewidth": 1.1, "label": f"lab {run.cc}"}
    ax.plot(*reduce_to_min_max(t_s, rtt_ms), **line)
    ax.axhline(idle_rtt_ms(run), label="idle", zorder=1, **IDLE)


def draw_distribution(ax: Axes, run: RunFolder) -> None:
    """Plot one run's distribution; lost pings keep it below 1."""
    import numpy as np

    _, rtt_ms = ping_samples(run)
    answered = np.sort(rtt_ms[~np.isnan(rtt_ms)])
    if len(answered):
        share = np.arange(1, len(answered) + 1) / len(rtt_ms)
        line = {"color": style.cc_colour(run.cc), "linewidth": 1.4, "drawstyle": "steps-post"}
        ax.plot(*reduce_to_min_max(answered, share), label=f"lab {run.cc}", zorder=3, **line)
    ax.axvline(idle_rtt_ms(run), label="idle", zorder=1, **IDLE)


@style.in_report_style
def plot_pings(
    facets: Sequence[panel_layout.ConditionRuns], title: str, footer: str, over_time: bool
) -> Figure:
    """Plot a facet per condition with a line per run."""
    rtt = "Round trip (ms)"
    x, y = ("Time since the load began (s)", rtt) if over_time else (rtt, "Share of the requests")
    draw_run = draw_over_time if over_time else draw_distribution
    figure, axes = panel_layout.condition_figure(facets, 2.2, x, y)
    for ax, (_, runs) in zip(axes.flat, facets, strict=False):
        for run in runs:
            draw_run(ax, run)
        if any(run.verdict == "degraded" for run in runs):
            ax.text(0.97, 0.04, "degraded", ha="right", fontsize=8.5, transform=ax.transAxes)
    drawn = [run for _, runs in facets for run in runs]
    if over_time:
        scale_round_trips(axes[0, 0], "y", drawn)
    else:
        scale_round_trips(axes[0, 0], "x", drawn)
        axes[0, 0].set_ylim(0, 1.02)
    handles = panel_layout.cc_legend_lines({run.cc for run in drawn}, linewidth=1.6)
    style.finish_figure(
        figure, [*handles, style.legend_entry("idle round trip", **IDLE)], footer, title
    )
    return figure


def scale_round_trips(ax: Axes, which: Literal["x", "y"], runs: Sequence[RunFolder]) -> None:
    """Set a common axis of RTTs, from 0 or logarithmic for a wide range."""
    import numpy as np

    seen = np.concatenate(
        [*(ping_samples(run)[1] for run in runs), [idle_rtt_ms(run) for run in runs]]
    )
    low, high = float(np.nanmin(seen)), float(np.nanmax(seen))
    if high / max(low, 1e-3) > style.WIDE:
        style.set_log_axis(ax, which, low / 1.3, high * 1.3, most=5 if which == "y" else 4)
        return
    ax.set(**{f"{which}lim": (0, high * 1.08)})
    style.format_thousands(ax.xaxis if which == "x" else ax.yaxis)


def draw(sheet: FigureInput) -> Iterator[ReportFigure]:
    """Plot both forms on as many figures as their facets need."""
    result = panel_layout.runs_by_condition(
        sheet.sweep.matrix.cells, lambda run: len(ping_samples(run)[0]) > 0
    )
    for name, caption in (("time", OVER_TIME), ("cdf", DISTRIBUTION)):
        plot = partial(plot_pings, footer=sheet.footer, over_time=name == "time")
        yield from panel_layout.paged_figures(result, plot, caption, name=name)


OVER_TIME = (
    "Round trips measured by the ping flow while the others loaded the path, a line per run; a gap"
    " is a request that nobody answered. Dashed: the idle round trip."
)
DISTRIBUTION = (
    "Distribution of the ping flow's round trips, a line per run: the share of all requests that"
    " were answered within that time. What was never answered keeps a line below 1."
)

DRAWING = Drawing(
    "ping",
    caption=OVER_TIME,
    draw=draw,
    rows=rows_with_metric("ping_median_ms"),
    needs="a ping flow and a run that counts",
    metrics=("ping_median_ms",),
)
