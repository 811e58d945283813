# SPDX-License-Identifier: MIT
"""Estimate how long a run's rate takes to settle after slow start and in loss-based control."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

from gostlab.registry.congestion_controls import parse_control
from gostlab.results import metrics, read_object, read_run, read_series
from gostlab.scheduler import summary
from gostlab.scheduler.cell_result import CellResult
from gostlab.spec.run_spec import RunSpec
from gostlab.spec.tcp_windows import flow_windows
from gostlab.tcpmodel.mean_median import mean, median
from gostlab.tcpmodel.response_functions import bdp_bytes, cubic_epoch_s
from gostlab.tcpmodel.run_limits import MTU_BYTES

MAX_SLICES, MIN_SLICES = 20, 8  # number of slices of the measured part
TOLERANCE = 0.05  # relative deviation of a settled rate
MIN_LATE_RATIO = 1.1  # ratio from which on the beginning has too much weight
MIN_EPOCHS = 3


@dataclass(frozen=True)
class Settling:
    """Represent when the bottleneck's rate settled, and its ratio of second half to whole."""

    settled_s: float  # since the measured part began
    late_ratio: float  # rate of the second half / rate of the whole


def settling_lines(cells: Sequence[CellResult]) -> list[str]:
    """Return a sentence for each cell whose rate is mostly that of its beginning."""
    lines = []
    for cell in cells:
        runs = cell.runs
        settlings = [item for end in runs if end.counts and (item := read_settling(end.folder))]
        first_s, last_s = runs[0].run.window_s
        measured_s = min(last_s, runs[0].run.length_s) - first_s
        if settlings and cell.goodput_bps:
            settled_s = median(item.settled_s for item in settlings)
            late_ratio = median(item.late_ratio for item in settlings)
            if late_ratio > MIN_LATE_RATIO:
                lines.append(
                    f"{cell.label}: the rate settled after about {settled_s:.2g} s:"
                    f" {summary.format_mbit(cell.goodput_bps)} Mbit/s over all {measured_s:g} s,"
                    f" {summary.format_mbit(late_ratio * cell.goodput_bps)} over the last half"
                    f" (--skip {first_s + settled_s:.2g}s, or a longer --for)"
                )
                continue
        epoch_s = cubic_epoch_of_run_s(runs[0].run)
        if epoch_s and measured_s < MIN_EPOCHS * epoch_s:
            lines.append(
                f"{cell.label}: CUBIC's cycle (RFC 9438) lasts about {epoch_s:.2g} s,"
                f" {measured_s:g} s are measured: --for {4 * epoch_s:.0f}s may differ"
            )
    return lines


def read_settling(folder: Path) -> Settling | None:
    """Return when the rate through a run's bottleneck settled, or None if unknown."""
    run, flows_json = read_run(folder), read_object(folder / "flows.json")
    if run is None or flows_json is None or run.changes:
        return None
    if any(flow.pauses or flow.traffic.is_sized for flow in run.flows):
        return None  # an application decides how much is sent
    try:
        flows = metrics.active_flows(run, flows_json["flows"])
        rows = metrics.bottleneck_samples(run, read_series(folder, "queues"))
        points = [(float(row["t_s"]), float(row["sent_bytes"])) for row in rows]
        first_s, last_s = max(flow.start_s for flow in flows), min(flow.end_s for flow in flows)
    except (KeyError, TypeError, ValueError, AttributeError):
        return None
    return find_settling(points, first_s, last_s)


def find_settling(
    points: Sequence[tuple[float, float]], first_s: float, last_s: float
) -> Settling | None:
    """Return when a rate settled between two instants, or None with too few samples.

    points: (t_s, bytes until then). The rate has settled when its mean from there on equals that of
    the second half. At least MIN_SLICES samples are needed.
    """
    inside = [point for point in points if first_s <= point[0] <= last_s]
    slices = min(MAX_SLICES, len(inside) - 1)
    if slices < MIN_SLICES:
        return None
    step = (len(inside) - 1) / slices
    edges = [inside[round(index * step)] for index in range(slices + 1)]
    rates = [(b[1] - a[1]) / (b[0] - a[0]) for a, b in pairwise(edges)]
    late = mean(rates[slices // 2 :])
    if not late:
        return None
    after = (
        index
        for index in range(slices // 2 + 1)
        if abs(mean(rates[index:]) - late) <= TOLERANCE * late
    )
    return Settling(edges[next(after)][0] - first_s, late / mean(rates))


def cubic_epoch_of_run_s(run: RunSpec) -> float | None:
    """Return the duration of CUBIC's cycle between self-inflicted losses on a run's path.

    None if losses come from the path, or if another congestion control or several flows send.
    """
    [flow, *others] = run.flows
    lossy = not all(direction.loss.is_lossless for direction in run.path)
    direction = run.path[flow.data_direction]
    if flow.pauses or flow.traffic.is_sized:
        return None
    if others or lossy or not flow.is_tcp or not direction.rate_bps or not flow.rtt_ms:
        return None
    if parse_control(flow.cc or "").name != "cubic" or run.queue != "fifo":
        return None
    rtt_s = flow.rtt_ms / 1000
    queue_bytes = (direction.buffer_pkts or 0) * MTU_BYTES
    full_bytes = bdp_bytes(direction.rate_bps, rtt_s) + queue_bytes
    if flow_windows(run, flow).max_bytes < full_bytes:
        return None  # the windows are too small to fill the queue
    loaded_rtt_s = rtt_s + 8 * queue_bytes / direction.rate_bps
    return cubic_epoch_s(full_bytes / MTU_BYTES / flow.streams, loaded_rtt_s)
