# SPDX-License-Identifier: MIT
"""Plot one run over time."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import lru_cache, partial
from typing import TYPE_CHECKING, Any

from gostlab.analysis.load.events import event_labels
from gostlab.analysis.load.run_folder import RunFolder
from gostlab.analysis.load.run_json import FlowRecord
from gostlab.analysis.load.series import (
    TimeSeries,
    empty_series,
    flow_rates,
    queue_series,
    socket_series,
)
from gostlab.analysis.load.study import format_level
from gostlab.analysis.plotting.factors import level_with_factor_name
from gostlab.analysis.plotting.image_map import tag_artist
from gostlab.analysis.plotting.marks import FLOW_DASHES, reduce_to_min_max
from gostlab.analysis.plotting.plot_registry import Drawing, FigureInput, ReportFigure
from gostlab.analysis.plotting.style import (
    FAINT,
    INK,
    WIDE,
    ArtistStyle,
    annotate,
    cc_colour,
    finish_figure,
    format_thousands,
    in_report_style,
    legend_entry,
    new_figure,
)
from gostlab.analysis.stats.cells import Cell, cell_key, file_name_part
from gostlab.analysis.stats.provenance import made_by_line
from gostlab.analysis.stats.table_formats import cc_name
from gostlab.analysis.stats.throughput_model import payload_mbit
from gostlab.results import is_number, read_series
from gostlab.spec.path_spec import direction_of_data
from gostlab.spec.verdict import Check

if TYPE_CHECKING:
    import numpy as np
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

# Maximum window that shows BBR's ProbeRTT (200 ms).
RATE_WINDOW_S = 0.1
# Maximum marked changes; more are a trace, which the step line displays.
MAX_MARKS = 8
FULL: ArtistStyle = {"color": INK, "linewidth": 0.9, "linestyle": (0, (7, 2))}
# Maximum runs over time on a page.
MAX_SERIES = 16


@dataclass(frozen=True)
class TimelinePanel:
    """One of the figure's axes."""

    label: str
    draw: Callable[[Axes], None]
    height: float = 1.0


@in_report_style
def plot_series(
    run: RunFolder, footer: str = "", note: str = "", tops: Mapping[str, float] | None = None
) -> Figure:
    """Plot a run's rates, cwnd, RTT, queue and, with a tunnel, CPU idle share.

    Starts, stops and changes are marked. `note` is added below. tops: upper ends of the axes of
    several figures, by label.
    """
    looks = flow_styles(run.flows)
    rates = flow_rates(run, rate_window_s(run))
    panels = list(panels_of(run, rates, looks))
    figure, axes = plot_stacked_panels(run, panels, 1.2, 1.35)
    for ax, panel in zip(axes[:, 0], panels, strict=False):
        if tops and panel.label in tops:
            ax.set_ylim(top=tops[panel.label])
    if not panels:
        nothing = {"ha": "center", "transform": axes[0, 0].transAxes}
        axes[0, 0].text(0.5, 0.5, "this run left no series", **nothing)
    handles = [
        legend_entry(flow_legend_label(run, flow), color=colour, linestyle=dashes)
        for flow, (colour, dashes) in zip(run.flows, looks.values(), strict=True)
    ]
    if rates and any(line.get_label() == "bottleneck" for line in axes[0, 0].lines):
        handles.append(legend_entry("bottleneck, full", **FULL))
    finish_figure(figure, handles, footer, title=run_title(run), note=note)
    return figure


def plot_stacked_panels(
    run: RunFolder, panels: Sequence[TimelinePanel], around_in: float, panel_in: float
) -> tuple[Figure, np.ndarray]:
    """Plot stacked panels of a run with its marks."""
    heights = [panel.height for panel in panels] or [1.0]
    height_in, shares = around_in + panel_in * sum(heights), {"height_ratios": heights}
    figure, axes = new_figure(height_in, len(heights), 1, sharex=True, gridspec_kw=shares)
    for ax, panel in zip(axes[:, 0], panels, strict=False):
        panel.draw(ax)
        ax.set_ylabel(panel.label)
    axes[-1, 0].set_xlim(0, max([run.load_s, 1.0]))
    axes[-1, 0].set_xlabel("Time since the load began (s)")
    draw_marks(axes[:, 0], run)
    tag_artist(figure.patch, cell_key(run))
    return figure, axes


def panels_of(
    run: RunFolder, rates: Mapping[str, TimeSeries], looks: Mapping[str, tuple[str, Any]]
) -> Iterator[TimelinePanel]:
    cwnd, srtt = socket_series(run, "cwnd_pkts"), socket_series(run, "srtt_ms")
    queue = queue_series(run)
    # A tunnel's programs share one CPU with all hosts.
    idle = idle_by_interval(run) if run.tunnel != "direct" else empty_series()
    if rates:
        yield TimelinePanel("Rate\n(Mbit/s)", lambda ax: draw_rates(ax, run, rates, looks), 1.7)
    if cwnd:
        yield TimelinePanel("cwnd\n(segments)", lambda ax: draw_flows(ax, cwnd, looks))
    if srtt:
        yield TimelinePanel("Smoothed RTT\n(ms)", lambda ax: draw_flows(ax, srtt, looks))
    if len(queue):
        yield TimelinePanel("Bottleneck\nqueue (packets)", lambda ax: draw_queue(ax, run, queue))
    if (limit := memory_check(run)) is not None:
        yield TimelinePanel("TCP memory\n(MiB)", lambda ax: draw_memory(ax, run, limit))
    if len(idle):
        yield TimelinePanel("CPU idle\n(%)", lambda ax: draw_idle(ax, idle))


def rate_window_s(run: RunFolder) -> float:
    """Return a window short enough for ProbeRTT, at least an RTT and a sampling period."""
    import numpy as np

    windows = socket_series(run, "cwnd_pkts").values()
    steps = [step for window in windows for step in np.diff(window.t_s) if step > 0]
    sampled = float(np.median(steps)) if steps else RATE_WINDOW_S
    rtts_s = (flow.rtt_ms / 1000 for flow in run.competitors)
    return round(max([RATE_WINDOW_S, sampled, *rtts_s]), 3)


def flow_styles(flows: Sequence[FlowRecord]) -> dict[str, tuple[str, Any]]:
    """Return each flow's colour (of its congestion control) and line style."""
    result: dict[str, tuple[str, Any]] = {}
    for flow in flows:
        colour = cc_colour(flow.cc) if flow.cc else FAINT
        alike = sum(other == colour for other, _ in result.values())
        result[flow.name] = colour, FLOW_DASHES[alike % len(FLOW_DASHES)]
    return result


def flow_legend_label(run: RunFolder, flow: FlowRecord) -> str:
    """Return a flow's legend entry: name if several, sender, RTT."""
    offered = f" {flow.rate_bps / 1e6:g} Mbit/s" if flow.rate_bps else ""
    type_name = cc_name(flow.cc) if flow.cc else flow.traffic_type.upper() + offered
    streams = f" × {flow.streams}" if flow.streams > 1 else ""
    return ", ".join(
        [*([flow.name] if len(run.flows) > 1 else []), type_name + streams, f"{flow.rtt_ms:g} ms"]
    )


def run_title(run: RunFolder) -> str:
    levels = [level_with_factor_name(name, format_level(value)) for name, value in run.factors] or [
        run.matrix
    ]
    return ", ".join([*levels, f"repetition {run.repetition}"]) + (
        f" [{run.verdict}]" if run.verdict not in ("ok", None) else ""
    )


def draw_rates(
    ax: Axes, run: RunFolder, rates: Mapping[str, TimeSeries], looks: Mapping[str, tuple[str, Any]]
) -> None:
    """Plot flows' rates with their names, and the bottleneck's capacity."""
    draw_flows(ax, rates, looks)
    steps = capacity_steps(run)
    top = max_value(rates)
    full = max((rate for _, rate in steps), default=0.0)
    # cut off a burst at the start, which would flatten everything else, but not an empty link
    ax.set_ylim(0, min(top, 1.25 * full) * 1.08 if full and top > 0.3 * full else top * 1.1)
    if steps and min(rate for _, rate in steps) < ax.get_ylim()[1]:
        look = {"where": "post", "label": "bottleneck", "zorder": 2, **FULL}
        ax.step(*zip(*steps, strict=True), **look)
    if len(rates) > 1:
        label_line_ends(ax, rates, looks)


def capacity_steps(run: RunFolder) -> list[tuple[float, float]]:
    """Return (t_s, payload capacity in Mbit/s) steps in the data direction."""
    if run.rate_bps is None:
        return []
    direction = direction_of_data(run.direction)
    changes = [
        change for change in run.changes if change.direction == direction and change.rate_bps
    ]
    now = {
        link: next((item.rate_bps for item in directions if item.name == direction), None)
        for link, directions in (("", run.path), *run.links)
    }
    separate_links = {link for link, _ in run.links}
    rates = [(0.0, run.rate_bps)]
    for change in changes:
        for link in (
            [change.link] if change.link else [item for item in now if item not in separate_links]
        ):
            now[link] = change.rate_bps
        rates.append((change.at_s, min(rate for rate in now.values() if rate)))
    return [
        (at_s, payload_mbit(rate, run.mtu_bytes))
        for at_s, rate in (*rates, (run.load_s, rates[-1][1]))
    ]


def draw_flows(
    ax: Axes, lines: Mapping[str, TimeSeries], looks: Mapping[str, tuple[str, Any]]
) -> None:
    for name, series in lines.items():
        colour, dashes = looks[name]
        t_s, value = reduce_to_min_max(series.t_s, series.value)
        ax.plot(
            t_s, value, color=colour, linestyle=dashes, linewidth=1.2, label=f"lab {name}", zorder=3
        )
    ax.set_ylim(0, 1.1 * max_value(lines))
    format_thousands(ax.yaxis)


def max_value(lines: Mapping[str, TimeSeries]) -> float:
    """Return the maximum of all values; 1 without any."""
    import numpy as np

    return max((float(np.max(line.value)) for line in lines.values() if len(line)), default=0) or 1


def label_line_ends(
    ax: Axes, rates: Mapping[str, TimeSeries], looks: Mapping[str, tuple[str, Any]]
) -> None:
    """Write the flows' names near the ends of their lines, without overlap."""
    import numpy as np

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
    for (_, name), index in zip(ends, places, strict=True):
        label_at_right(ax, name, index - over, looks[name][0])


def label_at_right(ax: Axes, words: str, y: float, colour: str) -> None:
    """Write text beside the axes, at a value."""
    right = {"xycoords": ("axes fraction", "data"), "va": "center", "annotation_clip": False}
    annotate(ax, words, (1.0, y), (4, 0), fontsize=9, color=colour, **right)


def draw_queue(ax: Axes, run: RunFolder, queue: TimeSeries) -> None:
    """Plot the bottleneck's backlog, and its limit if it is near."""
    import numpy as np

    t_s, value = reduce_to_min_max(queue.t_s, queue.value)
    ax.plot(t_s, value, color=INK, linewidth=1.1, label="queue")
    top = max(float(np.max(queue.value)), 1.0)
    if run.buffer_pkts is not None and top > 0.3 * run.buffer_pkts:
        draw_limit(ax, run.buffer_pkts)
        top = max(top, float(run.buffer_pkts))
    ax.set_ylim(0, top * 1.12)
    format_thousands(ax.yaxis)


def draw_marks(axes: np.ndarray, run: RunFolder) -> None:
    """Plot a labelled thin line at every start, stop and change."""
    marks = event_labels(run)
    if len(marks) > MAX_MARKS:
        marks = {
            at_s: label
            for at_s, label in marks.items()
            if any("start" in word or "stop" in word for word in label)
        }
    for ax in axes:
        for at_s in marks:
            ax.axvline(
                at_s, color=FAINT, linewidth=0.9, linestyle=(0, (1, 2)), zorder=1, label="mark"
            )
    ends = [-math.inf, -math.inf]
    # approximate width of a character of 8.5 points
    letter_s = max(run.load_s, 1.0) * 0.0125
    for at_s, label in sorted(marks.items()):
        text = ", ".join(label)
        row = 0 if at_s >= ends[0] else 1
        if at_s < ends[row]:
            continue
        width = letter_s * len(text)
        left = min(at_s, max(0.0, run.load_s - width))
        ends[row] = left + width + letter_s
        above = {"xycoords": ("data", "axes fraction"), "annotation_clip": False}
        annotate(axes[0], text, (left, 1.0), (0, 3 + 11 * row), ha="left", va="bottom", **above)


def draw_limit(ax: Axes, value: float) -> None:
    ax.axhline(value, color=FAINT, linestyle=(0, (4, 2)), linewidth=1.1, label="limit")
    label_at_right(ax, "limit", value, FAINT)


def memory_check(run: RunFolder) -> Check | None:
    """Return the check of the kernel's TCP memory limit if it affected the run."""
    result = (check for check in run.checks if check.name == "tcp_memory")
    return next((check for check in result if check.verdict != "ok"), None)


def draw_memory(ax: Axes, run: RunFolder, limit: Check) -> None:
    """Plot the memory of each host's TCP sockets and the kernel's pressure limit.

    Shared memory is that of all hosts.
    """
    held: dict[str, list[tuple[float, float]]] = {}
    for row in read_series(run.folder, "hosts"):
        by_host = row.get("host_tcp_memory_mib") or {"all": row.get("tcp_memory_mib")}
        for host, used_mib in by_host.items():
            if is_number(used_mib):
                held.setdefault(str(host), []).append((float(row["t_s"]), float(used_mib)))
    top = 1.0
    for (host, points), dashes in zip(held.items(), itertools.cycle(FLOW_DASHES)):
        t_s, mib = zip(*points, strict=True)
        ax.plot(t_s, mib, color=INK, linewidth=1.3, linestyle=dashes, label=host)
        middle = t_s[len(t_s) // 2], mib[len(mib) // 2]
        annotate(ax, host, middle, (0, 4), fontsize=9, color=INK)
        top = max(top, *mib)
    with suppress(ValueError):
        limit_mib = float(limit.requested)
        draw_limit(ax, limit_mib)
        top = max(top, limit_mib)
    ax.set_ylim(0, top * 1.2)


def idle_by_interval(run: RunFolder) -> TimeSeries:
    """Return the CPU's idle share of each interval, at its end."""
    import numpy as np

    rows = [(0.0, 0.0, 0.0)]
    rows += [
        (float(row["t_s"]), float(row["cpu_busy_s"]), float(row["cpu_idle_s"]))
        for row in read_series(run.folder, "hosts")
        if is_number(row.get("cpu_busy_s")) and is_number(row.get("cpu_idle_s"))
    ]
    t_s, busy_s, idle_s = np.array(rows).T
    spent_s = np.diff(busy_s) + idle_s[1:] - idle_s[:-1]
    known = spent_s > 0
    return TimeSeries(t_s[1:][known], np.diff(idle_s)[known] / spent_s[known])


def draw_idle(ax: Axes, shares: TimeSeries) -> None:
    ax.plot(shares.t_s, 100 * shares.value, color=INK, linewidth=1.4, label="idle")
    ax.set_ylim(-3, 103)


def draw(sheet: FigureInput) -> Iterator[ReportFigure]:
    """Plot one run of each cell, or of selected cells."""
    runs = median_runs(sheet.sweep.matrix.cells)
    formatted = runs if len(runs) <= MAX_SERIES else representative_runs(runs)
    note = f"{len(formatted)} of {len(runs)} cells are shown." if len(formatted) < len(runs) else ""
    tops = common_axis_limits(tuple(run for _, run in formatted))
    for cell, run in formatted:
        text = cell_and_variant_label(cell)
        yield ReportFigure(
            partial(plot_series, run, made_by_line([run]), note, tops),
            " ".join(filter(None, [f"{text}: {run.name} over time.", note, DRAWING.caption])),
            file_name_part(text),
            medians=False,
        )


@lru_cache(maxsize=1)  # the figures for a page and for a phone have the same
def common_axis_limits(runs: tuple[RunFolder, ...]) -> Mapping[str, float]:
    """Return the upper end of each axis for all runs; none for values that differ by WIDE."""
    from matplotlib.figure import Figure

    # One axes for all panels, each of which sets its limits: matplotlib takes long to make one.
    ax = Figure().add_subplot()
    tops: dict[str, list[float]] = {}
    for run in runs:
        rates = flow_rates(run, rate_window_s(run))
        for panel in panels_of(run, rates, flow_styles(run.flows)):
            panel.draw(ax)
            tops.setdefault(panel.label, []).append(ax.get_ylim()[1])
    return {label: max(of_it) for label, of_it in tops.items() if max(of_it) <= WIDE * min(of_it)}


def cell_and_variant_label(cell: Cell) -> str:
    return ", ".join(filter(None, (cell.label, cell.variant)))


def median_runs(cells: Sequence[Cell], file: str = "sockets.jsonl") -> list[tuple[Cell, RunFolder]]:
    """Return the cells with such a file, each with its (upper) median run."""
    result = []
    for cell in cells:
        runs = [run for run in cell.counted if (run.folder / file).exists()]
        runs.sort(key=lambda run: (run.goodput_mbit or 0.0, run.repetition))
        result += [(cell, run) for run in runs[len(runs) // 2 :][:1]]
    return result


def representative_runs(runs: Sequence[tuple[Cell, RunFolder]]) -> list[tuple[Cell, RunFolder]]:
    """Return all controls at one location: with a tunnel, 16 streams, 1 BDP, or nearest."""

    def far(cell: Cell) -> tuple[float, bool, float]:
        run = cell.example
        return abs(run.streams - 16), run.tunnel == "direct", abs((run.buffer_bdp or 1.0) - 1.0)

    chosen = min((cell for cell, _ in runs), key=far)
    return [pair for pair in runs if pair[0].key_without_cc == chosen.key_without_cc]


DRAWING = Drawing(
    "series",
    caption="Sampled from the kernel: this is one run, its samples are no independent readings.",
    draw=draw,
)
