# SPDX-License-Identifier: MIT
"""Read finished runs' folders, by the one definition of each metric, as what the page shows."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from gostlab import results
from gostlab.results import metrics
from gostlab.results.run_result import RunResult
from gostlab.scheduler.cell_result import CellResult, CellStatistics
from gostlab.serve.sentences import FlowAnswer, MetricSummary, PathAnswer, labels_of, sentence_of
from gostlab.spec.run_spec import RunSpec

# A page shows all values of a few runs: no interval, and no clusters.
NO_STATISTICS = CellStatistics(
    interval=lambda _: None, states=lambda _: (), halfwidth=lambda _: None
)


@dataclass(frozen=True)
class RunFlowMetrics:
    """Represent the metrics of one flow in one run; None: not measured, or the flow has none."""

    mbit: float | None
    share: float | None  # share of the competing flows' rates
    p95_ms: float | None  # round trip
    resent: int | None  # retransmitted segments
    resent_share: float | None
    lost: int | None  # pings or datagrams


@dataclass(frozen=True)
class RunMetrics:
    """Represent the metrics of one run: the bottleneck's delay, and those of each flow by name."""

    wait_p95_ms: float | None
    flows: Mapping[str, RunFlowMetrics]


def answer_of(ends: Sequence[RunResult], tunnel: str | None) -> dict[str, object]:
    """Return the answer of a question's finished runs, as the page takes it. Raises OSError."""
    run = ends[0].run
    counted = [end for end in ends if end.counts]
    cell = CellResult(runs=tuple(ends), statistics=NO_STATISTICS)
    measured = [run_metrics(end.folder, end.run) for end in counted]
    indexes = range(len(run.flows)) if measured else ()
    flows = [flow_answer(run, index, measured) for index in indexes]
    rate_bps = metrics.bottleneck_rate_bps(run, 0.0)
    mean_bps = metrics.mean_of_rate_steps_bps(metrics.bottleneck_rate_steps(run), run.length_s)
    waits = [one.wait_p95_ms for one in measured if one.wait_p95_ms is not None]
    path = PathAnswer(
        rate_mbit=(mean_bps or rate_bps) / 1e6 if rate_bps else None,
        wait_p95_ms=MetricSummary(tuple(waits)) if waits else None,
        tunnel=tunnel,
        runs=len(measured),
        flows=tuple(flows),
    )
    reasons = [reason.why for reason in cell.reasons]
    errors = [end.error for end in ends if end.error]
    return {
        "sentence": sentence_of(path) if measured else "These runs are no answer.",
        "verdict": cell.verdict,
        "reasons": (reasons or errors)[:3],
        "runs": len(measured),
        "folder": str(ends[0].folder),
        "name": ends[0].folder.name,
        "wall_s": round(sum(float(end.status.get("wall_s") or 0) for end in ends), 2),
        "wait_p95_ms": metric_json(path.wait_p95_ms),
        "flows": [flow_json(flow) for flow in flows],
    }


def run_metrics(folder: Path, run: RunSpec) -> RunMetrics:
    """Return the metrics of one run, by flow. Raises OSError."""
    from gostlab.analysis.load.run_folder import RunFolder, load_run
    from gostlab.analysis.load.series import flow_srtt_ms
    from gostlab.analysis.stats.coexistence import contest_of_run, retransmissions_of

    wait = metrics.queue_delay_of_folder(folder, run)
    rows = {row["name"]: row for row in (results.read_object(folder / "flows.json") or {})["flows"]}
    loaded = load_run(folder, has_utilisation=False)
    contest = contest_of_run(loaded) if isinstance(loaded, RunFolder) else None
    shares = {flow.name: flow for flow in contest.flows} if contest else {}
    flows: dict[str, RunFlowMetrics] = {}
    for flow in run.flows:
        row = rows.get(flow.name, {})
        trips = row.get("round_trips") or {}
        rival = shares.get(flow.name)
        spread = flow_srtt_ms(loaded, flow.name) if isinstance(loaded, RunFolder) else None
        resent = retransmissions_of(loaded, flow.name) if isinstance(loaded, RunFolder) else None
        goodput_bps = row.get("goodput_bps") if flow.traffic_type != "ping" else None
        goodput_mbit = None if goodput_bps is None else goodput_bps / 1e6
        flows[flow.name] = RunFlowMetrics(
            mbit=rival.rate_mbit if rival else goodput_mbit,
            share=rival.share if rival else None,
            p95_ms=trips.get("p95_ms") if trips else spread.p95 if spread else None,
            resent=resent.segments if resent and flow.is_tcp else None,
            resent_share=resent.share if resent and flow.is_tcp else None,
            lost=trips.get("lost", row.get("lost_datagrams")),
        )
    return RunMetrics(wait.p95 if wait else None, flows)


def flow_answer(run: RunSpec, index: int, measured: Sequence[RunMetrics]) -> FlowAnswer:
    """Return a flow's metrics over all runs that count."""
    flow = run.flows[index]
    by_run = [one.flows[flow.name] for one in measured]

    def over_runs(values: Iterable[float | None]) -> MetricSummary | None:
        known = tuple(float(value) for value in values if value is not None)
        return MetricSummary(known) if known else None

    return FlowAnswer(
        name=flow.name,
        label=labels_of(run.flows, run.cc)[flow.name],
        traffic_type=flow.traffic_type,
        idle_rtt_ms=flow.rtt_ms,
        mbit=over_runs(one.mbit for one in by_run),
        share=over_runs(one.share for one in by_run),
        p95_ms=over_runs(one.p95_ms for one in by_run),
        resent=over_runs(one.resent for one in by_run),
        resent_share=over_runs(one.resent_share for one in by_run),
        lost=over_runs(one.lost for one in by_run),
    )


def flow_json(flow: FlowAnswer) -> dict[str, object]:
    names = ("mbit", "share", "p95_ms", "resent", "resent_share", "lost")
    figures = {name: metric_json(getattr(flow, name)) for name in names}
    return {"name": flow.name, "label": flow.label, "kind": flow.traffic_type, **figures}


def metric_json(figure: MetricSummary | None) -> dict[str, float] | None:
    """Return a metric's median and, of several runs, the median's interval.

    coverage: the interval's, by the one definition of the analysis; without it (fewer than six
    runs, or runs in several clusters) low and high are the lowest and the highest value.
    """
    from gostlab.analysis.stats.statistics import summarise

    if figure is None:
        return None
    known = {"median": figure.median}
    spread = summarise(figure.values) if len(figure.values) > 1 else None
    if spread and spread.interval:
        interval = spread.interval
        return {**known, "low": interval.low, "high": interval.high, "coverage": interval.coverage}
    low, high = figure.ends
    return {**known, "low": low, "high": high}
