# SPDX-License-Identifier: MIT
"""Plot the time–sequence graph of TCP connections, from a capture or from the ACKs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from gostlab.analysis.load.run_folder import RunFolder
from gostlab.analysis.load.time_sequences import TimeSequence, join_bars, thin_steps, time_sequences
from gostlab.analysis.plotting.image_map import tag_artist
from gostlab.analysis.plotting.style import (
    FAINT,
    INK,
    finish_figure,
    in_report_style,
    legend_entry,
    new_figure,
)
from gostlab.results import read_run

if TYPE_CHECKING:
    import numpy as np
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

SEGMENT, RETRANSMISSION, ACK, WINDOW, SACK = INK, "#D55E00", "#009E73", FAINT, "#0072B2"
MB = 1e6
MAX_BARS = 1500  # a figure has fewer pixels across


@dataclass(frozen=True)
class GraphRow:
    """A graph in a figure."""

    label: str
    graph: TimeSequence
    cell: str = ""  # key of the cell that it shows
    span_s: tuple[float, float] | None = None  # None: all of its time


@in_report_style
def plot_time_sequences(rows: Sequence[GraphRow], footer: str) -> Figure:
    """Plot graphs one below the other."""
    figure, axes = new_figure(0.9 + 2.7 * len(rows), len(rows), 1)
    for ax, row in zip(axes[:, 0], rows, strict=True):
        if row.cell:
            tag_artist(ax.patch, row.cell)
        draw_graph(ax, row.graph, row.span_s)
        ax.set_title(row.label)
        ax.set_ylabel("Sequence (MB)")
    axes[-1, 0].set_xlabel("Time (s)")
    is_captured = all(row.graph.is_captured for row in rows)
    finish_figure(figure, legend_entries(is_captured=is_captured), footer)
    return figure


def draw_graph(ax: Axes, graph: TimeSequence, span_s: tuple[float, float] | None) -> None:
    """Plot segments as bars from their first byte to their last, and the answers as steps."""
    begin_s, end_s = span_s or (0.0, last_time_s(graph))

    def within(rows: np.ndarray) -> np.ndarray:
        return rows[(rows[:, 0] >= begin_s) & (rows[:, 0] <= end_s)]

    for all_bars, colour, width, order in (
        (graph.segments, SEGMENT, 1.0, 3),
        (graph.sacks, SACK, 1.2, 2),
        (graph.retransmissions, RETRANSMISSION, 2.0, 4),
    ):
        bars = join_bars(within(all_bars), MAX_BARS)
        ax.vlines(
            bars[:, 0],
            bars[:, 1] / MB,
            bars[:, 2] / MB,
            color=colour,
            linewidth=width,
            zorder=order,
        )
    for all_steps, colour in ((graph.acks, ACK), (graph.window, WINDOW)):
        steps = thin_steps(within(all_steps), MAX_BARS)
        ax.plot(
            steps[:, 0],
            steps[:, 1] / MB,
            color=colour,
            linewidth=0.9,
            drawstyle="steps-post",
            zorder=1,
        )
    ax.set_xlim(begin_s, end_s)
    # A receive window that is never reached would press the rest to the ground.
    sent = within(graph.segments)
    if len(sent):
        low, high = float(sent[:, 1].min()) / MB, float(sent[:, 2].max()) / MB
        ax.set_ylim(max(0.0, low - 0.12 * (high - low)), high + 0.12 * (high - low))


def last_time_s(graph: TimeSequence) -> float:
    return 1.02 * max(float(rows[-1, 0]) for rows in (graph.segments, graph.acks) if len(rows))


def recovery_span_s(graph: TimeSequence, rtt_s: float) -> tuple[float, float]:
    """Return the round trips around the first retransmission, or the first ones without one."""
    at_s = float(graph.retransmissions[0, 0]) if len(graph.retransmissions) else 3 * rtt_s
    begin_s = max(0.0, at_s - 3 * rtt_s)
    return begin_s, begin_s + 8 * rtt_s


def legend_entries(*, is_captured: bool) -> list[Any]:
    """Return the legend; the ACKs alone tell neither retransmissions nor SACK blocks."""
    acks = legend_entry("ACKs", color=ACK, linewidth=1.2)
    window = legend_entry("receive window", color=WINDOW, linewidth=1.2)
    if not is_captured:
        return [legend_entry("sent, by the next ACK", color=SEGMENT, linewidth=1.2), acks, window]
    return [
        legend_entry("segments", color=SEGMENT, linewidth=1.2),
        legend_entry("retransmissions", color=RETRANSMISSION, linewidth=1.8),
        acks,
        legend_entry("SACK blocks", color=SACK, linewidth=1.2),
        window,
    ]


def plot_largest_connection(run: RunFolder) -> Figure | None:
    """Plot the largest connection of one run, whole and around its first retransmission.

    Further connections are plotted whole. None without a capture or ACKs of one.
    """
    graphs, described = time_sequences(run), read_run(run.folder)
    if not graphs or described is None:
        return None
    span_s = recovery_span_s(graphs[0], max(flow.rtt_ms for flow in described.flows) / 1000)
    what = "first retransmission" if len(graphs[0].retransmissions) else "first round trips"
    rows = [GraphRow(graph.name, graph) for graph in graphs]
    rows.insert(1, GraphRow(what, graphs[0], span_s=span_s))
    figure: Figure = plot_time_sequences(rows, "")
    return figure
