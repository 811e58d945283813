# SPDX-License-Identifier: MIT
"""Read the time series of one run: rates, windows, queues and packet order.

Every function reads one run's folder and nothing else. Data that was not recorded is an empty
series, an empty dict or None. Times are seconds since the load began; rates are Mbit/s of payload,
measured on the WAN if there is a tunnel.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import cache, lru_cache
from statistics import fmean
from typing import TYPE_CHECKING, Any, TypeVar

from gostlab.analysis.load.run_folder import RunFolder
from gostlab.analysis.load.run_json import FlowRecord
from gostlab.analysis.load.untrusted_json import UnreadableFile, finite_number, read_json_object
from gostlab.results import BROKEN_RECORDS, is_number, metrics, read_run, read_series
from gostlab.results.metrics import (
    WARM_UP_SHARE,
    DeliveryCurve,
    Latency,
    delivery_curve,
    mean_held,
    path_leg,
)
from gostlab.results.rows import SocketRow
from gostlab.results.samples import read_acks
from gostlab.spec.path_spec import direction_of_data
from gostlab.spec.run_spec import RunSpec

if TYPE_CHECKING:
    import numpy as np
    import pandas as pd

Value = TypeVar("Value")

# BBR's pacing gain in ProbeBW is 1.25, 0.75 or 1; in Startup 2.89, in Drain 0.35 (Cardwell et al.,
# ACM Queue 14(5), 2016).
PROBE_BW_GAINS = (0.7, 1.3)
# The legs of a tunnel that do not cross the WAN.
NON_WAN_LEGS = ("app", "exit")


@dataclass(frozen=True, eq=False)
class TimeSeries:
    """Values over time."""

    t_s: np.ndarray
    value: np.ndarray

    def __len__(self) -> int:
        return len(self.t_s)

    @classmethod
    def from_table(cls, table: pd.DataFrame, column: str) -> TimeSeries:
        """Construct a series from a column of a table with t_s."""
        return cls(table["t_s"].to_numpy(float), table[column].to_numpy(float))

    @classmethod
    def from_instants(cls, values: Mapping[float, float]) -> TimeSeries:
        import numpy as np

        instants = sorted(values)
        return cls(np.array(instants), np.array([values[t_s] for t_s in instants]))


@cache
def empty_series() -> TimeSeries:
    return TimeSeries.from_instants({})


# -- series


@lru_cache(maxsize=1024)
def flow_rates(run: RunFolder, window_s: float) -> Mapping[str, TimeSeries]:
    """Return each flow's rate in windows of the given length.

    `t_s` is the end of a window. A TCP rate counts bytes acknowledged by the receivers, SACKed
    segments included (delivered_pkts × mss over all sockets of the flow), so a loss causes neither
    a gap nor a burst. A UDP rate is reported by the receiver, in its own intervals. The first and
    last window cover only the time when the flow was active, and are omitted if that is less than
    half a window.
    """
    curves = {flow.name: delivery_curve_of(run, flow) for flow in run.flows}
    return {
        name: TimeSeries.from_instants(curve.rates_mbit(window_s))
        for name, curve in curves.items()
        if curve is not None
    }


@lru_cache(maxsize=1024)
def socket_series(run: RunFolder, key: str) -> Mapping[str, TimeSeries]:
    """Return a field of sockets.jsonl by flow, at the sampling instants.

    Values of several sockets are added; times (…_ms) are averaged. A dot selects a nested key
    ("bbr.bw_bps"). Null (an infinite ssthresh) is no value; instants without a value are omitted.
    """
    sampled = {flow: aggregate_sockets(rows, key) for flow, rows in rows_by_flow(run).items()}
    return {flow: series for flow, series in sampled.items() if len(series)}


def aggregate_sockets(rows: Iterable[SocketRow], key: str) -> TimeSeries:
    """Aggregate a field over socket samples, as in socket_series."""
    at: dict[float, list[float]] = {}
    for row in rows:
        value: Any = row
        for name in key.split("."):
            value = value.get(name) if isinstance(value, Mapping) else None
        if is_number(value):
            at.setdefault(row["t_s"], []).append(float(value))
    of = fmean if key.endswith("_ms") else math.fsum
    return TimeSeries.from_instants({t_s: of(values) for t_s, values in at.items()})


def non_wan_socket_samples(run: RunFolder) -> dict[tuple[str, str], list[SocketRow]]:
    """Return the socket samples of the tunnel's legs outside the WAN, by flow and leg.

    Only samples of the sending end are returned; {} for a run without a tunnel.
    """
    headings = {flow.name: flow.direction for flow in run.flows}
    samples: dict[tuple[str, str], list[SocketRow]] = {}
    for row in read_series(run.folder, "sockets"):
        flow, leg = str(row.get("flow")), row.get("leg")
        if leg not in NON_WAN_LEGS or flow not in headings:
            continue
        sends = metrics.SENDING_END[headings[flow]]
        if row.get("end", sends) == sends:
            samples.setdefault((flow, str(leg)), []).append(row)
    return samples


def acknowledged_rate(rows: Iterable[SocketRow]) -> TimeSeries:
    """Return the rate acknowledged to some sockets between samples, in Mbit/s."""
    import numpy as np

    total = aggregate_sockets(rows, "bytes_acked")
    if len(total) < 2:
        return empty_series()
    # the total decreases when a socket closes
    gained = np.maximum(0.0, np.diff(total.value))
    return TimeSeries(total.t_s[1:], 8e-6 * gained / np.diff(total.t_s))


def queue_series(run: RunFolder, key: str = "backlog_pkts") -> TimeSeries:
    """Return the bottleneck's backlog in the data direction, in packets.

    `key` selects another field of queues.jsonl. Idle bottlenecks of a star add nothing.
    """
    wanted = ("bottleneck", direction_of_data(run.direction))
    at: dict[float, float] = {}
    for row in read_series(run.folder, "queues"):
        value = dict(row).get(key)
        if (row.get("role"), row.get("direction")) == wanted and is_number(value):
            at[row["t_s"]] = at.get(row["t_s"], 0.0) + float(value)
    return TimeSeries.from_instants(at)


def ssthresh_of(run: RunFolder, flow: str) -> TimeSeries:
    """Return a flow's slow start threshold in packets; no values while infinite.

    Values of acks.csv.gz are preferred to those of the socket samples.
    """
    table = read_acks(run.folder, ("t_s", "flow", "cwnd_pkts", "snd_ssthresh_pkts"))
    table = table[table["flow"] == flow]
    if table["snd_ssthresh_pkts"].notna().any():
        return TimeSeries.from_table(table, "snd_ssthresh_pkts")
    return socket_series(run, "ssthresh_pkts").get(flow, empty_series())


@cache
def latency_of_run(run: RunFolder) -> Latency:
    """Return the delays of a run under load, cached; see gostlab.results.metrics."""
    return metrics.latency_of_folder(run.folder) or Latency(run.rtt_ms, None, None)


def flow_srtt_ms(run: RunFolder, flow: str) -> metrics.Spread | None:
    """Return the RTT of a flow's sockets under load; None without samples."""
    return srtt_by_flow_ms(run).get(flow)


@lru_cache(maxsize=4096)
def srtt_by_flow_ms(run: RunFolder) -> Mapping[str, metrics.Spread | None]:
    """Return the RTT of each flow's sockets under load; None without samples."""

    def of_flows(spec: RunSpec, sockets: list[SocketRow]) -> Mapping[str, metrics.Spread | None]:
        results = read_json_object(run.folder / "flows.json").get("flows") or []
        held: dict[str, list[metrics.HeldValue]] = {}
        for srtt, name in metrics.srtt_samples(spec, results, sockets):
            held.setdefault(name, []).append(srtt)
        return {name: metrics.spread_over_time(values) for name, values in held.items()}

    return compute_metric(run, of_flows, "sockets") or {}


def wire_ratio(run: RunFolder) -> float | None:
    """Return the bytes leaving the bottleneck per byte reaching the sink (results.metrics)."""
    return compute_metric(run, metrics.wire_ratio, "queues", "sockets")


def bottleneck_marks(run: RunFolder) -> int | None:
    """Return the packets marked by the bottleneck's queue in the data direction.

    None if the queue cannot mark.
    """
    rows = compute_metric(run, metrics.bottleneck_samples, "queues")
    marks = rows[-1].get("marks") if rows else None
    return marks if isinstance(marks, int) else None


def compute_metric(
    run: RunFolder, measure: Callable[..., Value | None], *names: str
) -> Value | None:
    """Compute a metric of run.json and some series; None if they lack its data."""
    try:
        spec = read_run(run.folder)
        samples = (read_series(run.folder, name) for name in names)
        return None if spec is None else measure(spec, *samples)
    except (UnreadableFile, *BROKEN_RECORDS):
        return None


# -- the edge: rows to flows


@lru_cache(maxsize=2)  # all plots of a run read it
def rows_by_flow(run: RunFolder) -> dict[str, list[SocketRow]]:
    """Return the samples of the sockets on the WAN by flow."""
    rows = [row for row in read_series(run.folder, "sockets") if row.get("leg") not in NON_WAN_LEGS]
    crossing = path_leg(str(row.get("leg", "wan")) for row in rows)
    by_flow: dict[str, list[SocketRow]] = {flow.name: [] for flow in run.flows}
    for row in rows:
        name = row.get("flow", "")
        if row.get("leg", crossing) == crossing and name in by_flow:
            by_flow[name].append(row)
    return {name: rows for name, rows in by_flow.items() if rows}


def delivery_curve_of(run: RunFolder, flow: FlowRecord) -> DeliveryCurve | None:
    """Return the delivery curve of a flow; None if it was not recorded."""
    start_s, end_s = flow_span_s(flow)
    if flow.traffic_type == "udp":
        return udp_curve(run, flow, start_s, end_s)
    by_flow = rows_by_flow(run)
    instants = sorted({row["t_s"] for rows in by_flow.values() for row in rows})
    return delivery_curve(by_flow.get(flow.name, ()), instants, start_s, end_s)


def flow_span_s(flow: FlowRecord) -> tuple[float, float]:
    """Return the start and end of a flow, measured if known, requested otherwise.

    The end is never later than requested.
    """
    start_s = flow.start_s if flow.started_s is None else flow.started_s
    ended_s = math.inf if flow.ended_s is None else flow.ended_s
    return start_s, min(start_s + flow.duration_s, ended_s)


def udp_curve(
    run: RunFolder, flow: FlowRecord, start_s: float, end_s: float
) -> DeliveryCurve | None:
    """Return the bytes received by a UDP flow over time; None without a receiver report."""
    receiver = "" if flow.direction == "download" else "-server"
    alone = [f"iperf3{receiver}.json"] if len(run.flows) == 1 else []
    for name in (f"iperf3-{flow.name}{receiver}.json", *alone):
        try:
            intervals = read_json_object(run.folder / name).get("intervals")
        except UnreadableFile:
            continue
        t_s, totals = [start_s], [0.0]
        for interval in intervals if isinstance(intervals, list) else ():
            summary = interval.get("sum") if isinstance(interval, dict) else None
            summary = summary if isinstance(summary, dict) else {}
            begin, end, bits_per_s = (
                finite_number(summary.get(key)) for key in ("start", "end", "bits_per_second")
            )
            if begin is None or end is None or bits_per_s is None:
                break
            if start_s + end > t_s[-1]:
                t_s.append(start_s + end)
                totals.append(totals[-1] + bits_per_s / 8 * (end - begin))
        if len(t_s) > 1:
            return DeliveryCurve(start_s, min(end_s, t_s[-1]), ((t_s, totals),))
    return None


# -- windows


def mean_window_pkts(run: RunFolder, flow: str | None = None) -> float | None:
    """Return a flow's mean congestion window after its start-up, in packets.

    The mean is weighted by time; None without data. flow: None selects the first flow with a
    congestion control. The start-up is the first quarter of the flow's time (WARM_UP_SHARE), or the
    time before the measured part of the load, or lasts until the flow leaves slow start (BBR:
    Startup and Drain) if that is later. Windows are read from acks.csv.gz if it is recorded and the
    flow has one socket (its rows do not distinguish sockets), else from the samples of the sockets,
    added up.
    """
    competitor = next(
        (candidate for candidate in run.competitors if flow in (None, candidate.name)), None
    )
    if competitor is None:
        return None
    start_s, end_s = flow_span_s(competitor)
    warm_s = start_s + WARM_UP_SHARE * (end_s - start_s)
    if run.measures_part:
        warm_s, end_s = max(start_s, run.measured_s[0]), min(end_s, run.measured_s[1])
    windows, left_s = window_and_slow_start_end(run, competitor)
    if not len(windows):
        return None
    end_s = min(end_s, float(windows.t_s[-1]))
    return mean_held(windows.t_s.tolist(), windows.value.tolist(), max(warm_s, left_s), end_s)


def window_and_slow_start_end(run: RunFolder, flow: FlowRecord) -> tuple[TimeSeries, float]:
    """Return a flow's window over time and the end of its slow start.

    The end of BBR's Drain for BBR; -inf if it was not observed.
    """
    windows = socket_series(run, "cwnd_pkts").get(flow.name, empty_series())
    limits = socket_series(run, "ssthresh_pkts").get(
        flow.name, empty_series()
    )  # finite thresholds only
    limited_s = limits.t_s
    if flow.streams != 1:
        return windows, first_instant(limited_s)
    thresholds = ["snd_ssthresh_pkts", "current_ssthresh_pkts"]
    rows = read_acks(run.folder, ("t_s", "flow", "cwnd_pkts", *thresholds))
    rows = rows[rows["flow"] == flow.name]
    if len(rows):
        windows = TimeSeries.from_table(rows, "cwnd_pkts")
        at_acks = rows.loc[rows[thresholds].notna().any(axis="columns"), "t_s"].to_numpy(float)
        limited_s = at_acks if len(at_acks) else limited_s
    gains = socket_series(run, "bbr.pacing_gain").get(flow.name, empty_series())
    low, high = PROBE_BW_GAINS
    probing_s = gains.t_s[(gains.value > low) & (gains.value < high)]
    return windows, max(first_instant(limited_s), first_instant(probing_s))


def first_instant(instants: np.ndarray) -> float:
    """Return the first of sorted instants; -inf if there is none."""
    return float(instants[0]) if len(instants) else -math.inf


# -- order


def reordered_share(run: RunFolder) -> float | None:
    """Return the share of data segments that arrived out of order; None without data.

    The Linux receiver counts these segments (TCPOFOQueue). After a loss the count includes all
    segments before the gap is filled, so it measures reordering alone only on a path without loss.
    Hosts that receive no data over the WAN count none, nor do loopbacks, so the counts of all hosts
    are added. The number of arrivals is the number of segments sent on the WAN legs less those
    lost. Lost segments equal retransmitted ones except for duplicates reported by DSACKs: sent -
    retransmitted + DSACKs. TcpInSegs is unsuitable: it counts ACKs and the tunnel's loopback legs
    too.
    """
    sent, retransmitted, counted = wan_counts(run)
    duplicates = counted["TcpExtTCPDSACKRecv"] + counted["TcpExtTCPDSACKOfoRecv"]
    arrived = sent - retransmitted + duplicates
    if arrived <= 0 or "TcpExtTCPOFOQueue" not in counted:
        return None
    return counted["TcpExtTCPOFOQueue"] / arrived


def wan_counts(run: RunFolder) -> tuple[int, int, Counter[str]]:
    """Return data segments sent and retransmitted on the WAN, and all hosts' counters.

    Source: legs.json.
    """
    counted: Counter[str] = Counter()
    try:
        legs_json = read_json_object(run.folder / "legs.json")
    except UnreadableFile:
        return 0, 0, counted
    legs, nodes = legs_json.get("legs"), legs_json.get("nstat")
    rows = [leg for leg in legs if isinstance(leg, dict)] if isinstance(legs, list) else []
    crossing = path_leg(str(leg.get("leg")) for leg in rows)
    sent, retransmitted = (
        sum(int(leg[key]) for leg in rows if leg.get("leg") == crossing and is_number(leg.get(key)))
        for key in ("data_segments_out", "segments_retransmitted")
    )
    for node in nodes.values() if isinstance(nodes, dict) else ():
        if isinstance(node, dict):
            counted.update({key: int(value) for key, value in node.items() if is_number(value)})
    return sent, retransmitted, counted
