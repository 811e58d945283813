# SPDX-License-Identifier: MIT
"""Draw the picture of a test case: window, packets in flight and rates over time."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from gostlab.analysis.plotting.cc_state_axes import LINES, phase_colours
from gostlab.analysis.plotting.marks import reduce_to_min_max
from gostlab.analysis.plotting.style import (
    FAINT,
    finish_figure,
    in_report_style,
    new_figure,
    save_figure,
)
from gostlab.atomic_write import write_whole
from gostlab.cc_cases import scenarios
from gostlab.cc_cases.case import CaseResult
from gostlab.results.run_result import RunResult
from gostlab.spec.labels import cell_label

if TYPE_CHECKING:
    import numpy as np
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    Lines = Mapping[str, tuple[np.ndarray, np.ndarray]]

WINDOW_AXIS, RATE_AXIS = "Window\n(packets)", "Rate\n(Mbit/s)"
HEIGHT_IN = 4.2
WINDOWS = {"cwnd_pkts": "window", "inflight_pkts": "in flight"}
RATES = {"delivery_rate_bps": "delivery rate", "max_bw_bps": "max_bw"}


def draw_case(result: CaseResult, file: Path, ends: Mapping[Path, RunResult]) -> Path | None:
    """Draw a case's run as a PNG file; None if it has no samples. Raises OSError."""
    if result.case.run in scenarios.SCENARIOS:
        figure = draw_scenario(result)
    else:
        figure = draw_runs(result, list(ends.values()))
    return None if figure is None else write_whole(file, save_figure(figure, "png"))


@in_report_style
def draw_scenario(result: CaseResult) -> Figure:
    """Plot a scenario's window and rates; the states are bands."""
    import numpy as np
    from matplotlib.patches import Patch

    rows = scenarios.read_trace(result.folders[0]).rows
    t_s = np.array([row["t"] for row in rows])
    figure, axes = new_figure(HEIGHT_IN, 2, sharex=True)
    upper, lower = axes[:, 0]

    def series(names: Mapping[str, str], scale: float) -> Lines:
        columns = {name: label for name, label in names.items() if rows and name in rows[0]}
        values = {label: [row[name] for row in rows] for name, label in columns.items()}
        return {label: (t_s, np.array(value, float) / scale) for label, value in values.items()}

    draw_lines(upper, WINDOW_AXIS, series(WINDOWS, 1))
    draw_lines(lower, RATE_AXIS, series(RATES, 1e6))
    fills = phase_colours(list(dict.fromkeys(row["state"] for row in rows if "state" in row)))
    for ax in (upper, lower):
        for state, fill in fills.items():
            inside = np.array([row["state"] == state for row in rows])
            ax.fill_between(
                t_s,
                0,
                1,
                inside,
                facecolor=fill,
                linewidth=0,
                step="post",
                zorder=0.5,
                transform=ax.get_xaxis_transform(),
            )
    handles = [
        Patch(facecolor=fill, edgecolor=FAINT, linewidth=0.6, label=state)
        for state, fill in fills.items()
    ]
    lower.set_xlabel("Time (s)")
    finish_figure(figure, handles, result.case.source, title=result.case.title)
    return figure


@in_report_style
def draw_runs(result: CaseResult, ends: list[RunResult]) -> Figure | None:
    """Plot each flow's window and rate, of the case's first runs with samples."""
    windows: dict[str, tuple[np.ndarray, np.ndarray]] = {}
    rates: dict[str, tuple[np.ndarray, np.ndarray]] = {}
    for end in ends:
        cell = cell_label(end.run.factors) if len(ends) > 1 else ""
        acks, samples = end.samples("acks"), end.samples("sockets")
        for flow in dict.fromkeys(flow_spec.name for flow_spec in end.run.flows):
            label = ", ".join(filter(None, [flow if len(end.run.flows) > 1 else "", cell]))
            if len(acks):
                of_flow = acks[acks["flow"] == flow]
                windows[label or "window"] = (
                    of_flow["t_s"].to_numpy(),
                    of_flow["cwnd_pkts"].to_numpy(),
                )
            if len(samples):
                of_flow = samples[samples["flow"] == flow].groupby("t_s")["acked_bytes"].sum()
                rates[label or "rate"] = rates_mbit(of_flow.index.to_numpy(), of_flow.to_numpy())
    windows = {label: line for label, line in windows.items() if len(line[0])}
    if not windows and not rates:
        return None
    figure, axes = new_figure(HEIGHT_IN, 2, sharex=True)
    upper, lower = axes[:, 0]
    draw_lines(upper, WINDOW_AXIS, windows)
    draw_lines(lower, RATE_AXIS, rates)
    lower.set_xlabel("Time (s)")
    finish_figure(figure, [], result.case.source, title=result.case.title)
    return figure


def rates_mbit(t_s: np.ndarray, acked_bytes: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the rate in Mbit/s between samples."""
    import numpy as np

    return t_s[1:], 8e-6 * np.maximum(np.diff(acked_bytes), 0) / np.diff(t_s)


def draw_lines(ax: Axes, label: str, lines: Lines) -> None:
    for index, (name, (t_s, value)) in enumerate(lines.items()):
        colour, dashes = LINES[index % len(LINES)]
        if index >= len(LINES):  # its colour is taken
            dashes = (0, (1, 1))
        if len(t_s):
            ax.plot(
                *reduce_to_min_max(t_s, value),
                color=colour,
                linestyle=dashes,
                linewidth=1.0,
                label=name,
                drawstyle="steps-post",
            )
    ax.set_ylabel(label)
    ax.set_ylim(bottom=0)
    if len(lines) > 1:
        # Above the axes, where it covers no line.
        ax.legend(loc="lower right", bbox_to_anchor=(1, 1), borderaxespad=0.1, fontsize=8, ncol=3)
