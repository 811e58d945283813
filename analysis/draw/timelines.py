"""Runs over time: all flows of one run on a shared time axis, and the congestion windows of many
runs as small multiples.

What is drawn are one run's samples. They show how a rate came about; they are no independent
readings of it.
"""

from __future__ import annotations

import itertools
import math
import textwrap
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from analysis.draw.colours import FAINT, INK, cc_colour, cc_name
from analysis.draw.curves import FLOW_DASHES, named_level, told_apart
from analysis.draw.figures import finish, new_figure, styled, thousands
from analysis.judge.cells import CC_ORDER, rank
from analysis.judge.models import payload_mbit
from analysis.read.description import Change, Flow, data_direction
from analysis.read.folder import Run
from analysis.read.series import (
    Series,
    acks,
    flow_rates,
    queue_series,
    socket_series,
    span,
    ssthresh_of,
)
from analysis.read.study import level

# Short enough for BBR's ProbeRTT (200 ms) to show.
RATE_WINDOW_S = 0.1
# More changes than this are a trace: the step line shows them, marks would hide everything else.
MOST_MARKS = 8
# A line of more points than columns of pixels is drawn by the least and the greatest value of each
# column.
PIXELS = 900
CONDITION_WIDTH = 15
SSTHRESH, FULL = (0, (3, 1.5)), (0, (7, 2))


# -- one run


@styled
def plot_flows(run: Run, footer: str = "") -> Figure:
    """One run: every flow's rate, cwnd and smoothed RTT and the bottleneck's queue; starts, stops
    and changes marked.
    """
    looks = looks_of(run.flows)
    rates, cwnd, srtt = (
        flow_rates(run, rate_window_s(run)),
        socket_series(run, "cwnd_pkts"),
        socket_series(run, "srtt_ms"),
    )
    queue = queue_series(run)
    panels: list[tuple[str, float, Callable[[Axes], None]]] = []
    if rates:
        panels.append(("Rate\n(Mbit/s)", 1.7, lambda ax: draw_rates(ax, run, rates, looks)))
    if cwnd:
        panels.append(("cwnd\n(segments)", 1.0, lambda ax: draw_flows(ax, cwnd, looks)))
    if srtt:
        panels.append(("Smoothed RTT\n(ms)", 1.0, lambda ax: draw_flows(ax, srtt, looks)))
    if len(queue):
        panels.append(("Bottleneck\nqueue (packets)", 1.0, lambda ax: draw_queue(ax, run, queue)))
    heights = [height for _, height, _ in panels] or [1.0]
    figure, axes = new_figure(
        1.2 + 1.35 * sum(heights),
        len(heights),
        1,
        sharex=True,
        gridspec_kw={"height_ratios": heights},
    )
    for ax, (label, _, draw) in zip(axes[:, 0], panels, strict=False):
        draw(ax)
        ax.set_ylabel(label)
    if not panels:
        axes[0, 0].text(
            0.5, 0.5, "this run left no series", ha="center", transform=axes[0, 0].transAxes
        )
    axes[-1, 0].set_xlim(0, max([run.load_s, 1.0]))
    axes[-1, 0].set_xlabel("Time since the load began (s)")
    draw_marks(axes[:, 0], run)
    figure.align_ylabels()
    handles = [
        Line2D([], [], color=colour, linestyle=dashes, label=flow_words(run, flow))
        for flow, (colour, dashes) in zip(run.flows, looks.values(), strict=True)
    ]
    if rates and any(line.get_label() == "bottleneck" for line in axes[0, 0].lines):
        handles.append(
            Line2D([], [], color=INK, linewidth=0.9, linestyle=FULL, label="bottleneck, full")
        )
    finish(figure, handles, footer, title=run_title(run))
    return figure


def rate_window_s(run: Run) -> float:
    """The window of rates: short enough for ProbeRTT, not shorter than a round trip (ACKs come in
    bursts) or the sampling.
    """
    steps = [
        step
        for series in socket_series(run, "cwnd_pkts").values()
        for step in np.diff(series.t_s)
        if step > 0
    ]
    sampled = float(np.median(steps)) if steps else RATE_WINDOW_S
    return round(
        max([RATE_WINDOW_S, sampled, *(flow.rtt_ms / 1000 for flow in run.flows if flow.competes)]),
        3,
    )


def looks_of(flows: Sequence[Flow]) -> dict[str, tuple[str, Any]]:
    """Flow -> (colour of its congestion control, a line style of its own among those of that
    colour).
    """
    found: dict[str, tuple[str, Any]] = {}
    for flow in flows:
        colour = cc_colour(flow.cc) if flow.cc else FAINT
        alike = sum(other == colour for other, _ in found.values())
        found[flow.name] = colour, FLOW_DASHES[alike % len(FLOW_DASHES)]
    return found


def flow_words(run: Run, flow: Flow) -> str:
    """A flow in a legend: its name where there are several, what sends it, its round-trip time."""
    offered = f" {flow.rate_bps / 1e6:g} Mbit/s" if flow.rate_bps else ""
    kind = cc_name(flow.cc) if flow.cc else flow.kind.upper() + offered
    streams = f" × {flow.streams}" if flow.streams > 1 else ""
    return ", ".join(
        [*([flow.name] if len(run.flows) > 1 else []), kind + streams, f"{flow.rtt_ms:g} ms"]
    )


def run_title(run: Run) -> str:
    """Which run it is."""
    levels = [named_level(name, level(value)) for name, value in run.factors] or [run.matrix]
    return ", ".join([*levels, f"repetition {run.repetition}"]) + (
        f" [{run.verdict}]" if run.verdict not in ("ok", None) else ""
    )


def draw_rates(
    ax: Axes, run: Run, rates: Mapping[str, Series], looks: Mapping[str, tuple[str, Any]]
) -> None:
    """Every flow's rate, what the bottleneck carries at most, and the flows' names at the lines'
    ends.
    """
    draw_flows(ax, rates, looks)
    steps = rate_steps(run)
    top = (
        max((float(np.max(series.value)) for series in rates.values() if len(series)), default=0.0)
        or 1.0
    )
    full = max((rate for _, rate in steps), default=0.0)
    # A burst at the start is cut off rather than all else pressed flat; an empty link is not.
    ax.set_ylim(0, min(top, 1.25 * full) * 1.08 if full and top > 0.3 * full else top * 1.1)
    if steps and min(rate for _, rate in steps) < ax.get_ylim()[1]:
        ax.step(
            [t for t, _ in steps],
            [rate for _, rate in steps],
            where="post",
            color=INK,
            linewidth=0.9,
            linestyle=FULL,
            label="bottleneck",
            zorder=2,
        )
    if len(rates) > 1:
        name_ends(ax, rates, looks)


def rate_steps(run: Run) -> list[tuple[float, float]]:
    """(time, what the bottleneck carries of payload in Mbit/s) in the direction of the data, from
    each change to the next.
    """
    if run.rate_bps is None:
        return []
    changes = [
        change
        for change in run.changes
        if change.direction == data_direction(run.direction) and change.rate_bps
    ]
    rates = [
        (0.0, run.rate_bps),
        *((change.at_s, float(change.rate_bps or 0.0)) for change in changes),
    ]
    return [
        (at_s, payload_mbit(rate, run.mtu_bytes))
        for at_s, rate in (*rates, (run.load_s, rates[-1][1]))
    ]


def draw_flows(ax: Axes, lines: Mapping[str, Series], looks: Mapping[str, tuple[str, Any]]) -> None:
    """A line per flow, from zero up."""
    for name, series in lines.items():
        colour, dashes = looks[name]
        t_s, value = min_max(series.t_s, series.value)
        ax.plot(
            t_s, value, color=colour, linestyle=dashes, linewidth=1.2, label=f"lab {name}", zorder=3
        )
    ax.set_ylim(
        0,
        1.1
        * (
            max(
                (float(np.max(series.value)) for series in lines.values() if len(series)),
                default=0.0,
            )
            or 1.0
        ),
    )
    thousands(ax.yaxis)


def name_ends(ax: Axes, rates: Mapping[str, Series], looks: Mapping[str, tuple[str, Any]]) -> None:
    """The flows' names at the right, each near where its line ends, none on another."""
    low, high = ax.get_ylim()
    apart = 0.13 * (high - low)
    ends = sorted(
        (min(high, float(np.median(series.value[-max(1, len(series) // 20) :]))), name)
        for name, series in rates.items()
        if len(series)
    )
    places: list[float] = []
    for end, _ in ends:
        places.append(max(end, places[-1] + apart) if places else end)
    over = max(0.0, places[-1] - (high - apart / 3)) if places else 0.0
    for (_, name), place in zip(ends, places, strict=True):
        ax.annotate(
            name,
            (1.0, place - over),
            xycoords=("axes fraction", "data"),
            xytext=(4, 0),
            textcoords="offset points",
            va="center",
            fontsize=9,
            color=looks[name][0],
            annotation_clip=False,
        )


def draw_queue(ax: Axes, run: Run, queue: Series) -> None:
    """The bottleneck's backlog, and its limit where it comes near."""
    t_s, value = min_max(queue.t_s, queue.value)
    ax.plot(t_s, value, color=INK, linewidth=1.1, label="queue")
    top = max(float(np.max(queue.value)), 1.0)
    if run.buffer_pkts is not None and top > 0.3 * run.buffer_pkts:
        ax.axhline(
            run.buffer_pkts, color=FAINT, linestyle=(0, (4, 2)), linewidth=1.1, label="limit"
        )
        ax.annotate(
            "limit",
            (1.0, run.buffer_pkts),
            xycoords=("axes fraction", "data"),
            xytext=(4, 0),
            textcoords="offset points",
            va="center",
            fontsize=9,
            color=FAINT,
            annotation_clip=False,
        )
        top = max(top, float(run.buffer_pkts))
    ax.set_ylim(0, top * 1.12)
    thousands(ax.yaxis)


# -- what happens to a run


def draw_marks(axes: np.ndarray, run: Run) -> None:
    """A thin line through all panels at every start, stop and change, its words above the
    uppermost.
    """
    marks = marks_of(run)
    if len(marks) > MOST_MARKS:
        marks = {
            at_s: words
            for at_s, words in marks.items()
            if any("start" in word or "stop" in word for word in words)
        }
    for ax in axes:
        for at_s in marks:
            ax.axvline(
                at_s, color=FAINT, linewidth=0.9, linestyle=(0, (1, 2)), zorder=1, label="mark"
            )
    ends = [-math.inf, -math.inf]
    # About what a letter of 8.5 points takes of the axis.
    letter_s = max(run.load_s, 1.0) * 0.0125
    for at_s, words in sorted(marks.items()):
        said = ", ".join(words)
        row = 0 if at_s >= ends[0] else 1
        if at_s < ends[row]:
            continue
        width = letter_s * len(said)
        left = min(at_s, max(0.0, run.load_s - width))
        ends[row] = left + width + letter_s
        axes[0].annotate(
            said,
            (left, 1.0),
            xycoords=("data", "axes fraction"),
            xytext=(0, 3 + 11 * row),
            textcoords="offset points",
            ha="left",
            va="bottom",
            fontsize=8.5,
            color=FAINT,
            annotation_clip=False,
        )


def marks_of(run: Run) -> dict[float, list[str]]:
    """Time -> what starts, stops or changes then, in words."""
    found: dict[float, list[str]] = {}
    spans = {flow.name: span(flow) for flow in run.flows}
    last_s = max((end for _, end in spans.values()), default=run.load_s)
    for flow in run.flows:
        start_s, end_s = spans[flow.name]
        if flow.start_s > 0.05:
            found.setdefault(round(start_s, 1), []).append(f"{flow.name} starts")
        if end_s < last_s - 0.5:
            found.setdefault(round(end_s, 1), []).append(f"{flow.name} stops")
    for change in run.changes:
        words = change_words(change)
        at = found.setdefault(round(change.at_s, 3), [])
        if words and words not in at:
            at.append(words)
    return {at_s: words for at_s, words in found.items() if words}


def change_words(change: Change) -> str:
    """What a change of the path sets: 500 Mbit/s, 40 ms one way, 1 % loss."""
    parts = []
    if change.rate_bps is not None:
        parts.append(f"{change.rate_bps / 1e6:g} Mbit/s")
    if change.delay_ms is not None:
        parts.append(f"{change.delay_ms:g} ms one way")
    if change.jitter_ms:
        parts.append(f"± {change.jitter_ms:g} ms")
    if change.loss is not None:
        parts.append(f"{100 * change.loss:g}\u00a0% loss")
    return ", ".join(parts)


# -- many runs


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


def min_max(
    t_s: np.ndarray, value: np.ndarray, columns: int = PIXELS
) -> tuple[np.ndarray, np.ndarray]:
    """A line for so many columns of pixels that looks as the whole would: of each its first, least,
    greatest and last point.

    Dropping points evenly would lose what lasts for a few ACKs only: a window of 1 after a timeout,
    BBR's 4 in ProbeRTT.
    """
    if len(t_s) <= 4 * columns:
        return t_s, value
    width = (t_s[-1] - t_s[0]) / columns or 1.0
    column = np.minimum(((t_s - t_s[0]) / width).astype(int), columns - 1)
    starts = np.flatnonzero(np.diff(column, prepend=-1))
    kept: set[int] = set()
    for first, last in itertools.pairwise([*starts, len(t_s)]):
        part = value[first:last]
        kept |= {first, last - 1}
        if not np.all(np.isnan(part)):
            kept |= {first + int(np.nanargmin(part)), first + int(np.nanargmax(part))}
    places = np.array(sorted(kept))
    return t_s[places], value[places]
