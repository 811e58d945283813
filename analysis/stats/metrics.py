# SPDX-License-Identifier: MIT
"""Define the metrics of runs and cells.

Columns of tables, `published` entries, targets and axes of plots use this list; a new metric is one
more entry of METRICS. gostlab.registry parses the names from this file's source, so each is a
literal.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from operator import attrgetter
from types import MappingProxyType
from typing import Any, Protocol

from gostlab.analysis.load import series
from gostlab.analysis.load.run_folder import RunFolder
from gostlab.analysis.stats import fairness
from gostlab.analysis.stats.statistics import Summary, mean_of_greatest, paired_ratio, summarise
from gostlab.analysis.stats.table_formats import (
    format_count,
    format_delay,
    format_per_mille,
    format_percent,
    format_rate,
    format_ratio,
)


class CellLike(Protocol):
    """The attributes of gostlab.analysis.stats.cells.Cell that a metric reads."""

    @property
    def counted(self) -> tuple[RunFolder, ...]: ...
    @property
    def example(self) -> RunFolder: ...
    @property
    def key_without_cc(self) -> Any: ...
    def values_by_seed(self) -> dict[Any, float]: ...


OfRun = Callable[[RunFolder], float | None]
OfFlow = Callable[[RunFolder, str], float | None]
# (cell, all cells of its experiment, congestion control to compare with) -> summary
OfCell = Callable[[CellLike, Sequence[CellLike], str | None], Summary | None]


@dataclass(frozen=True)
class Metric:
    """One metric: name, label, unit, and its computation from a run, a flow or a cell."""

    name: str  # name in `published` entries
    label: str
    unit: str = ""
    of_run: OfRun | None = None
    of_flow: OfFlow | None = None
    of_cell: OfCell | None = None  # only for metrics that do not summarise values of runs
    show: Callable[[float], str] = format_rate
    from_series: bool = False  # computed from time series, which is slow
    column: str = ""  # column in tables if its name differs
    axis_label: str = ""  # axis label if it differs

    @property
    def key(self) -> str:
        """Return the column in a table of cells; ":FLOW" is appended for one flow."""
        return self.column or self.name

    @property
    def heading(self) -> str:
        """Return the label with the unit: goodput (Mbit/s)."""
        return f"{self.label} ({self.unit})" if self.unit else self.label

    @property
    def axis(self) -> str:
        text = self.heading.removeprefix("the ")
        return self.axis_label or text[0].upper() + text[1:]


@cache
def fairness_metrics(run: RunFolder) -> Mapping[str, float | None]:
    """Return a run's fairness metrics, cached because they are slow."""
    rates, parts = fairness.active_rates(run), fairness.flow_shares(run)
    return {
        "jain": fairness.jain_of_run(run),
        "convergence_s": fairness.convergence_s(run),
        "total_mbit": sum(rates.values()) if rates else None,
        **{f"share:{name}": share for name, share in parts.items()},
    }


def fairness_metric(name: str) -> OfRun:
    return lambda run: fairness_metrics(run)[name]


window_pkts = cache(series.mean_window_pkts)  # cached per run


def wan_share(run: RunFolder) -> float | None:
    again, sent = run.retransmitted("wan"), run.segments("wan")
    return None if again is None or not sent else again / sent


def leg_metric(leg: str, where: str, label: str) -> Metric:
    """Return the metric that counts a leg's retransmitted segments."""
    return Metric(
        leg,
        f"sent again {where}",
        "segments",
        of_run=lambda run: run.retransmitted(leg),
        show=format_count,
        axis_label=f"{label} (segments)",
    )


def delay_quantile(delay: str, quantile: str) -> OfRun:
    """Return a function that reads a run's quantile of delay under load, None without samples."""
    return lambda run: getattr(getattr(series.latency_of_run(run), delay), quantile, None)


def ping_metric(name: str) -> OfRun:
    """Return a function that reads a statistic of a run's first ping flow, or None."""
    return lambda run: next(filter(None, (flow.round_trips for flow in run.flows)), {}).get(name)


def download_metric(name: str) -> OfRun:
    """Return a function that reads a statistic of a run's smallest short downloads."""
    return lambda run: next((fetch for flow in run.flows for fetch in flow.fetches), {}).get(name)


def flow_measure_metric(
    name: str, label: str, unit: str = "", show: Callable[[float], str] = format_rate
) -> Metric:
    """Return the metric that a flow has for itself: one of FLOW_MEASURES.

    A run's is that of its first flow that has it.
    """
    return Metric(
        name,
        label,
        unit,
        of_run=lambda run: next(
            (flow.measures[name] for flow in run.flows if name in flow.measures), None
        ),
        of_flow=lambda run, flow: getattr(run.flow(flow), "measures", {}).get(name),
        show=show,
    )


def direction_goodput_metric(direction: str) -> OfRun:
    """Return a function that adds up the goodput of one direction's TCP flows.

    It is None unless a run has both directions.
    """

    def of_run(run: RunFolder) -> float | None:
        tcp = [flow for flow in run.flows if flow.cc is not None]
        if len({flow.direction for flow in tcp}) < 2:
            return None
        rates = [flow.goodput_mbit for flow in tcp if flow.direction == direction]
        return math.fsum(rate for rate in rates if rate is not None)

    return of_run


def flow_attribute(name: str) -> OfFlow:
    return lambda run, flow: getattr(run.flow(flow), name, None)


def times_to_converge(
    cell: CellLike, cells: Sequence[CellLike], versus: str | None
) -> Summary | None:
    """Summarise convergence times; runs that could have converged and did not have inf."""
    times = [
        (fairness_metrics(run)["convergence_s"], fairness.can_converge(run)) for run in cell.counted
    ]
    return summarise(
        [math.inf if time is None else time for time, could in times if could or time is not None]
    )


def goodput_ratio(cell: CellLike, cells: Sequence[CellLike], versus: str | None) -> Summary | None:
    """Return the goodput ratio to the same cell with `versus`, seed by seed."""
    bases = (
        other
        for other in cells
        if other.key_without_cc == cell.key_without_cc and other.example.cc == versus
    )
    base = next(bases, None)
    return None if base is None else paired_ratio(base.values_by_seed(), cell.values_by_seed())


def mean_of_fastest_three(
    cell: CellLike, cells: Sequence[CellLike], versus: str | None
) -> Summary | None:
    """Return the mean of the three fastest runs."""
    values = tuple(run.goodput_mbit for run in cell.counted if run.goodput_mbit is not None)
    best = mean_of_greatest(values)
    return None if best is None else Summary(values, best)


METRICS: tuple[Metric, ...] = (
    Metric(
        "goodput_mbit",
        "goodput",
        "Mbit/s",
        of_run=attrgetter("goodput_mbit"),
        of_flow=flow_attribute("goodput_mbit"),
        column="goodput",
    ),
    Metric(
        "retr",
        "retransmissions (iperf3's Retr)",
        of_run=attrgetter("retr"),
        of_flow=flow_attribute("retransmits"),
        show=format_count,
        axis_label="iperf3's Retr (segments)",
    ),
    leg_metric("app", "on the leg before the tunnel", "Before the tunnel"),
    leg_metric("wan", "on the WAN", "Retransmitted on the WAN"),
    leg_metric("exit", "on the leg after the tunnel", "After the tunnel"),
    Metric(
        "wan_share",
        "sent again on the WAN, share",
        of_run=wan_share,
        show=format_per_mille,
        axis_label="Retransmitted on the WAN (share)",
    ),
    Metric(
        "client_nstat",
        "sent again by the client's host",
        "segments",
        of_run=lambda run: dict(run.nstat).get("client"),
        show=format_count,
        axis_label="Client's whole host (segments)",
    ),
    Metric(
        "idle_share",
        "CPU idle, share of the median second",
        of_run=attrgetter("idle_share"),
        show=format_percent,
        axis_label="CPU idle (share)",
    ),
    Metric(
        "link_share",
        "bottleneck used, share",
        of_run=attrgetter("link_share"),
        show=format_percent,
        axis_label="Bottleneck used (share)",
    ),
    Metric(
        "srtt_median_ms",
        "RTT under load, median",
        "ms",
        delay_quantile("srtt_ms", "median"),
        of_flow=lambda run, flow: getattr(series.flow_srtt_ms(run, flow), "median", None),
        show=format_delay,
    ),
    Metric(
        "srtt_p95_ms",
        "RTT under load, 95 %",
        "ms",
        of_run=delay_quantile("srtt_ms", "p95"),
        show=format_delay,
    ),
    Metric(
        "queue_delay_median_ms",
        "queueing delay, median",
        "ms",
        delay_quantile("queue_delay_ms", "median"),
        show=format_delay,
    ),
    Metric(
        "queue_delay_p95_ms",
        "queueing delay, 95 %",
        "ms",
        delay_quantile("queue_delay_ms", "p95"),
        show=format_delay,
    ),
    Metric(
        "ping_median_ms",
        "ping under load, median",
        "ms",
        ping_metric("median_ms"),
        show=format_delay,
    ),
    Metric("ping_p95_ms", "ping under load, 95 %", "ms", ping_metric("p95_ms"), show=format_delay),
    Metric("ping_p99_ms", "ping under load, 99 %", "ms", ping_metric("p99_ms"), show=format_delay),
    Metric("fetch_median_s", "a short download, median", "s", download_metric("median_s")),
    Metric("fetch_p95_s", "a short download, 95 %", "s", download_metric("p95_s")),
    Metric("up_mbit", "goodput, upload", "Mbit/s", direction_goodput_metric("upload")),
    Metric("down_mbit", "goodput, download", "Mbit/s", direction_goodput_metric("download")),
    flow_measure_metric("completion_s", "transfer complete after", "s"),
    flow_measure_metric("burst_mbit", "goodput of bursts", "Mbit/s"),
    flow_measure_metric("startup_s", "video: startup", "s"),
    flow_measure_metric("stalls", "video: stalls", show=format_count),
    flow_measure_metric("stalled_s", "video: stalled for", "s"),
    flow_measure_metric("bitrate_mbit", "video: mean bit rate", "Mbit/s"),
    flow_measure_metric("stream_min_mbit", "slowest stream", "Mbit/s"),
    flow_measure_metric("stream_median_mbit", "median stream", "Mbit/s"),
    flow_measure_metric("stream_max_mbit", "fastest stream", "Mbit/s"),
    flow_measure_metric("stream_jain", "Jain's index of streams", show=format_ratio),
    flow_measure_metric("switches", "video: switches of the rung", show=format_count),
    Metric(
        "window_pkts",
        "mean window",
        "packets",
        of_run=window_pkts,
        of_flow=window_pkts,
        from_series=True,
        axis_label="Mean window (segments)",
    ),
    Metric(
        "jain",
        "Jain's index",
        of_run=fairness_metric("jain"),
        show=format_ratio,
        from_series=True,
        axis_label="Jain's index (1 is fair)",
    ),
    Metric(
        "convergence_s",
        "time to converge",
        "s",
        of_run=fairness_metric("convergence_s"),
        of_cell=times_to_converge,
        from_series=True,
    ),
    Metric(
        "total_mbit",
        "all flows together",
        "Mbit/s",
        of_run=fairness_metric("total_mbit"),
        from_series=True,
        axis_label="All flows (Mbit/s)",
    ),
    Metric(
        "share",
        "share of the sum",
        of_flow=lambda run, flow: fairness_metrics(run).get(f"share:{flow}"),
        show=format_percent,
        axis_label="Share of the sum (%)",
    ),
    Metric(
        "wire_ratio",
        "bytes on the wire per byte carried",
        of_run=cache(series.wire_ratio),
        show="{:.3f}".format,
        from_series=True,
    ),
    Metric(
        "marked",
        "marked by the bottleneck's queue",
        "packets",
        of_run=cache(series.bottleneck_marks),
        show=format_count,
        from_series=True,
    ),
    Metric(
        "reordered_share",
        "segments out of order, share",
        of_run=cache(series.reordered_share),
        show=format_percent,
        from_series=True,
    ),
    Metric(
        "ratio",
        "goodput, ratio",
        of_cell=goodput_ratio,
        show=format_ratio,
        axis_label="Goodput (ratio)",
    ),
    Metric(
        "goodput_best3",
        "goodput, mean of the fastest three",
        "Mbit/s",
        of_cell=mean_of_fastest_three,
        axis_label="Goodput, fastest three (Mbit/s)",
    ),
)
BY_KEY: Mapping[str, Metric] = MappingProxyType(
    {key: metric for metric in METRICS for key in (metric.name, metric.key)}
)


def metric_of(figure: str) -> Metric:
    """Return the metric of a name or column, with or without a flow. Raises KeyError."""
    return BY_KEY[figure.partition(":")[0]]


def value_of(run: RunFolder, figure: str) -> float | None:
    """Return a metric of a run ("goodput") or of one of its flows ("share:flow2")."""
    flow, metric = figure.partition(":")[2], metric_of(figure)
    if flow:
        value = metric.of_flow(run, flow) if metric.of_flow else None
    else:
        value = metric.of_run(run) if metric.of_run else None
    return None if value is None else float(value)
