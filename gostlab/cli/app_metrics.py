# SPDX-License-Identifier: MIT
"""Print what flows measure for themselves: a transfer's time, a video's stalls, round trips."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from gostlab.results import BROKEN_RECORDS, metrics, read_object, read_run
from gostlab.scheduler.cell_result import CellResult
from gostlab.tcpmodel.mean_median import median

UP_MBIT, DOWN_MBIT = "up_mbit", "down_mbit"
# How a value reads in a sentence; {} is its number.
PHRASES: Mapping[str, str] = {
    UP_MBIT: "{} Mbit/s up",
    DOWN_MBIT: "{} Mbit/s down",
    "completion_s": "complete after {} s",
    "burst_mbit": "{} Mbit/s in bursts",
    "startup_s": "starts after {} s",
    "stalls": "{} stalls",
    "stalled_s": "stalled for {} s",
    "bitrate_mbit": "{} Mbit/s of video",
    "switches": "{} switches",
    "stream_min_mbit": "a stream got {} Mbit/s",
    "stream_median_mbit": "median {} Mbit/s",
    "stream_max_mbit": "up to {} Mbit/s",
    "stream_jain": "Jain's index {}",
    "ping_median_ms": "ping {} ms",
    "ping_p95_ms": "p95 {} ms",
}


@dataclass(frozen=True)
class FlowMeasure:
    """Represent a metric of a flow over a cell's runs; flow "": of all flows of a direction."""

    cell: str
    flow: str
    name: str  # one of PHRASES
    median: float
    min: float
    max: float
    runs: int


def flow_measures(cells: Sequence[CellResult]) -> list[FlowMeasure]:
    """Return what the flows of each cell measure for themselves; empty for flows of bulk data."""
    lines = []
    for cell in cells:
        values: dict[tuple[str, str], list[float]] = {}
        for end in cell.counted:
            for key, value in run_measures(end.folder).items():
                values.setdefault(key, []).append(value)
        lines += [
            FlowMeasure(cell.label, flow, name, median(of), min(of), max(of), len(of))
            for (flow, name), of in values.items()
        ]
    return lines


def run_measures(folder: Path) -> dict[tuple[str, str], float]:
    """Return the measures of a run's flows by flow and name, and each direction's goodput."""
    run = read_run(folder)
    if run is None:
        return {}
    try:
        rows = (read_object(folder / "flows.json") or {})["flows"]
        fields = {
            (str(row["name"]), name): value
            for row in rows
            for name, value in metrics.flow_measures(row).items()
        }
        directions = {flow.name: flow.direction for flow in run.flows if flow.is_tcp}
        if len(set(directions.values())) > 1:
            for name, direction in ((UP_MBIT, "upload"), (DOWN_MBIT, "download")):
                of_direction = [row for row in rows if directions.get(row["name"]) == direction]
                fields["", name] = metrics.goodput_of_flows_bps(of_direction) / 1e6
    except BROKEN_RECORDS:
        return {}
    return fields


def flow_lines(measures: Sequence[FlowMeasure]) -> list[str]:
    """Return a sentence for each flow of each cell: a: complete after 8.47 s."""
    groups: dict[tuple[str, str], list[FlowMeasure]] = {}
    for item in measures:
        groups.setdefault((item.cell, item.flow), []).append(item)
    several = len({item.cell for item in measures}) > 1
    lines = []
    for (cell, flow), items in groups.items():
        owner = ": ".join(filter(None, (cell if several else "", flow)))
        lines.append(f"{owner}{': ' if owner else ''}{', '.join(map(format_measure, items))}")
    return lines


def format_measure(item: FlowMeasure) -> str:
    """Format a measure with its range over runs: complete after 8.47 s (8.41 – 8.52, n = 5)."""
    text = PHRASES[item.name].format(format_number(item.median))
    if item.runs < 2 or item.min == item.max:
        return text
    return f"{text} ({format_number(item.min)} – {format_number(item.max)}, n = {item.runs})"


def format_number(value: float) -> str:
    return f"{value:.0f}" if value >= 100 else f"{value:.3g}"
