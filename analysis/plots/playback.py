# SPDX-License-Identifier: MIT
"""Plot a video's bit rate, and what its player has to play, over time."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from typing import TYPE_CHECKING

from gostlab.analysis.load.run_folder import RunFolder
from gostlab.analysis.plotting import panel_layout, style
from gostlab.analysis.plotting.plot_registry import (
    Drawing,
    FigureInput,
    ReportFigure,
    rows_with_metric,
)
from gostlab.results import is_number, read_series

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


def segment_rungs(run: RunFolder) -> tuple[list[float], list[float]]:
    """Return when each segment was requested, in s since the load began, and its rung in Mbit/s."""
    rows = read_series(run.folder, "segments")
    known = [row for row in rows if is_number(row.get("bitrate_bps"))]
    return [row["t_s"] for row in known], [row["bitrate_bps"] / 1e6 for row in known]


def video_cc(run: RunFolder) -> str:
    """Return the congestion control of a run's video, whatever other flows have."""
    return next((flow.cc for flow in run.flows if flow.traffic_type == "video" and flow.cc), run.cc)


def draw_rungs(ax: Axes, run: RunFolder) -> None:
    """Plot one run's rung over time, and a mark where playing stalled."""
    at_s, rungs_mbit = segment_rungs(run)
    colour = style.cc_colour(video_cc(run))
    end_s = [*at_s[1:], max(run.duration_s, at_s[-1])] if at_s else []
    steps = [*at_s, *end_s[-1:]], [*rungs_mbit, *rungs_mbit[-1:]]
    ax.step(*steps, where="post", color=colour, linewidth=1.4, label=f"lab {video_cc(run)}")
    stalled = [row for row in read_series(run.folder, "segments") if row.get("stalled_s")]
    ends_s = [row["t_s"] + row["seconds"] for row in stalled]
    if ends_s:  # an empty line that is not clipped would take the layout's room
        ax.plot(ends_s, [0.0] * len(ends_s), "|", color=colour, markersize=9, clip_on=False)


@style.in_report_style
def plot_playbacks(facets: Sequence[panel_layout.ConditionRuns], title: str, footer: str) -> Figure:
    """Plot a facet per condition with a line per run."""
    x, y = "Time since the load began (s)", "Bit rate (Mbit/s)"
    figure, axes = panel_layout.condition_figure(facets, 2.2, x, y)
    highest_mbit = 0.0
    for ax, (_, runs) in zip(axes.flat, facets, strict=False):
        for run in runs:
            draw_rungs(ax, run)
            highest_mbit = max([highest_mbit, *segment_rungs(run)[1]])
    axes[0, 0].set_ylim(0, 1.08 * highest_mbit)
    drawn = [run for _, runs in facets for run in runs]
    handles = panel_layout.cc_legend_lines({video_cc(run) for run in drawn}, linewidth=1.6)
    stall = style.legend_entry(
        "a stall ended", color=style.FAINT, marker="|", linestyle="", markersize=9
    )
    style.finish_figure(figure, [*handles, stall], footer, title)
    return figure


def draw(sheet: FigureInput) -> Iterator[ReportFigure]:
    """Plot as many figures as the facets need."""
    result = panel_layout.runs_by_condition(
        sheet.sweep.matrix.cells, lambda run: bool(segment_rungs(run)[0])
    )
    yield from panel_layout.paged_figures(
        result, partial(plot_playbacks, footer=sheet.footer), CAPTION, name=""
    )


CAPTION = (
    "Bit rate of a video's segments by the time of their request, a line per run. A mark at the"
    " bottom is the end of a stall: the player had nothing to play until then."
)

DRAWING = Drawing(
    "playback",
    caption=CAPTION,
    draw=draw,
    rows=rows_with_metric("bitrate_mbit"),
    needs="a video flow and a run that counts",
    metrics=("bitrate_mbit",),
)
