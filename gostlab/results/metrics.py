# SPDX-License-Identifier: MIT
"""Define every metric of a run once, for the guest, the scheduler, the terminal and the analysis.

The guest's verdict, the scheduler's stopping rule, the terminal's tables and the analysis all use
these functions. They are plain Python:

    run        the description in run.json
    flow_rows  the list `flows` of flows.json
    rows       rows of sockets.jsonl or queues.jsonl, as gostlab.results.read_series returns them

Rows without the numbers that a definition needs are skipped. A metric that the samples do not
determine is None, and no exception is raised.
"""

import math
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

from gostlab.results import (
    BROKEN_RECORDS,
    is_number,
    read_object,
    read_run,
    read_series,
    valid_rows,
)
from gostlab.results.rows import FlowRow, HostRow, QueueRow, SocketRow
from gostlab.safe_read import read_lines
from gostlab.spec.run_spec import RunSpec
from gostlab.tcpmodel.mean_median import median
from gostlab.tcpmodel.stepped_capacity import SteppedCapacity

# A bottleneck with at least this utilisation counts as full.
BOTTLENECK_FULL = 0.95
# Exclude this initial share of a flow's (or of all flows' common) time from steady-state means:
# slow start ends far above the window that loss allows, and CUBIC reduces it by 0.7 per loss only.
WARM_UP_SHARE = 0.25
# Relative deviation from 1/n of a fair share: "0.1-fair" (Bansal, Balakrishnan, Floyd, Shenker,
# SIGCOMM 2001; RFC 5166, section 2.3).
FAIR_DELTA = 0.1
# Window length of shares, and the time that they must stay fair to count as converged.
FAIR_WINDOW_S, FAIR_HOLD_S = 1.0, 5.0
# The end of a connection that sends the data: near connected, far accepted.
SENDING_END: Mapping[str, str] = {"upload": "near", "download": "far"}


@dataclass(frozen=True)
class Spread:
    """Represent the distribution of a value over time by its median and 95th percentile."""

    median: float
    p95: float


@dataclass(frozen=True)
class RunCluster:
    """Represent one of several clusters that the runs of a multimodal cell fall into."""

    value: float  # median of the runs in this cluster
    runs: int


def format_clusters(states: Sequence[RunCluster], format_value: Callable[[float], str]) -> str:
    """Format clusters as text: 180 (7 of 10) or 570 (3 of 10)."""
    total = sum(state.runs for state in states)
    return " or ".join(f"{format_value(state.value)} ({state.runs} of {total})" for state in states)


def are_identical(values: Sequence[float]) -> bool:
    """Return whether several runs gave bit-identical values, so that no interval is meaningful."""
    return len(values) > 1 and min(values) == max(values)


def identical_words(runs: int) -> str:
    return f"{runs} identical runs"


@dataclass(frozen=True)
class Latency:
    """Represent the delays of a run under load, in ms; None without samples."""

    idle_rtt_ms: float  # configured RTT of the flow with the shortest one
    srtt_ms: Spread | None
    queue_delay_ms: Spread | None


@dataclass(frozen=True)
class ActiveInterval:
    """Represent when a flow was active, in seconds since the load began, and its direction."""

    name: str
    start_s: float
    end_s: float
    direction: str  # upload | download


@dataclass(frozen=True)
class HeldValue:
    """Represent a sampled value and for how many seconds it held."""

    value: float
    seconds: float


# -- goodput


def total_goodput_bps(flow_rows: Sequence[FlowRow]) -> float:
    """Return the total goodput of a run's flows in bit/s.

    It is the bytes of all flows over one window, from the first flow's start to the last flow's
    end. udp and ping flows, which send at a configured rate, count only if there are no others.
    Rows without times give the sum of their rates, which may exceed the link's rate. Raises
    KeyError, TypeError or ValueError.
    """
    return goodput_of_flows_bps(
        [row for row in flow_rows if row["kind"] not in ("udp", "ping")] or list(flow_rows)
    )


def goodput_of_flows_bps(rows: Sequence[FlowRow]) -> float:
    """Return the goodput of some flows over one window, in bit/s (see total_goodput_bps)."""
    times = all(is_number(row.get(key)) for row in rows for key in ("started_s", "seconds"))
    if len(rows) == 1 or not times:
        return math.fsum(float(row["goodput_bps"]) for row in rows)
    return 8 * sum(int(row["bytes"]) for row in rows) / window_s(rows)


def window_s(flow_rows: Sequence[FlowRow]) -> float:
    """Return the length of span_s in seconds."""
    start_s, end_s = span_s(flow_rows)
    return end_s - start_s


def span_s(flow_rows: Sequence[FlowRow]) -> tuple[float, float]:
    """Return the first start and last end of some flows, clipped to the measured interval."""
    spans = [
        (float(row["measured_from_s"]), float(row["measured_to_s"]))
        if is_number(row.get("measured_to_s"))
        else (float(row["started_s"]), float(row["started_s"]) + float(row["seconds"]))
        for row in flow_rows
    ]
    ran = [span for span in spans if span[1] > span[0]] or spans
    return min(start for start, _ in ran), max(end for _, end in ran)


def udp_goodput_bps(folder: Path) -> float | None:
    """Return the goodput of the udp flows of a run folder that also has flows of other types.

    None if the run has no udp flows, or if its goodput is that of its udp flows.
    """
    try:
        flow_rows = (read_object(folder / "flows.json") or {})["flows"]
        rows = [row for row in flow_rows if row["kind"] == "udp"]
        others = any(row["kind"] not in ("udp", "ping") for row in flow_rows)
        return goodput_of_flows_bps(rows) if rows and others else None
    except (KeyError, TypeError, ValueError, ZeroDivisionError):
        return None


def goodput_bps(folder: Path) -> float | None:
    """Return the total goodput of a run's folder in bit/s, or None if it cannot be read."""
    try:
        return total_goodput_bps((read_object(folder / "flows.json") or {})["flows"])
    except BROKEN_RECORDS:
        return None


# The metrics that a flow of some types of traffic has for itself: the object of its row that holds
# the value, the key in it, and how many of its units are one of the metric's.
FLOW_MEASURES: Mapping[str, tuple[str, str, float]] = {
    "completion_s": ("transfer", "completion_s", 1.0),
    "burst_mbit": ("on_off", "on_bps", 1e6),
    "startup_s": ("playback", "startup_s", 1.0),
    "stalls": ("playback", "stalls", 1.0),
    "stalled_s": ("playback", "stalled_s", 1.0),
    "bitrate_mbit": ("playback", "mean_bitrate_bps", 1e6),
    "switches": ("playback", "switches", 1.0),
    "stream_min_mbit": ("by_stream", "min_bps", 1e6),
    "stream_median_mbit": ("by_stream", "median_bps", 1e6),
    "stream_max_mbit": ("by_stream", "max_bps", 1e6),
    "stream_jain": ("by_stream", "jain", 1.0),
    "ping_median_ms": ("round_trips", "median_ms", 1.0),
    "ping_p95_ms": ("round_trips", "p95_ms", 1.0),
}


def flow_measures(flow_row: Mapping[str, object]) -> dict[str, float]:
    """Return the FLOW_MEASURES that a flow's row has, such as the time that its transfer took."""
    by_name = {}
    for name, (part, key, divisor) in FLOW_MEASURES.items():
        values = flow_row.get(part)
        value = values.get(key) if isinstance(values, Mapping) else None
        if is_number(value):
            by_name[name] = float(value) / divisor
    return by_name


def jain_index(shares: Sequence[float]) -> float:
    """Return Jain's fairness index, 1/n to 1; NaN for no or only zero shares.

    Source: Jain, Chiu, Hawe: DEC-TR-301, 1984. Pass active flows only, and show the shares beside
    it.
    """
    squares = math.fsum(share * share for share in shares)
    return math.fsum(shares) ** 2 / (len(shares) * squares) if squares else math.nan


def is_fair(rates: Sequence[float]) -> bool:
    """Return whether each of n rates is 1/n of their sum, within FAIR_DELTA."""
    total = math.fsum(rates)
    return total > 0 and all(
        abs(rate / total * len(rates) - 1) <= FAIR_DELTA + 1e-9 for rate in rates
    )


# -- rates over time


Curve = tuple[Sequence[float], Sequence[float]]  # (instants, cumulative bytes)


@dataclass(frozen=True)
class DeliveryCurve:
    """Represent the bytes that a flow delivered over time, for each socket or for its receiver."""

    start_s: float
    end_s: float  # end of the flow or its last sample, whichever is earlier
    curves: tuple[Curve, ...]

    def bytes_between(self, first_s: float, last_s: float) -> float:
        """Return the bytes delivered between two instants, interpolated between samples."""
        return sum(
            interpolate(last_s, *curve) - interpolate(first_s, *curve) for curve in self.curves
        )

    def mbit_between(self, first_s: float, last_s: float) -> float:
        return self.bytes_between(first_s, last_s) * 8 / 1e6 / (last_s - first_s)

    def rates_mbit(self, window_s: float, origin_s: float = 0.0) -> dict[float, float]:
        """Return the rate in windows by their ends; `origin_s` is the beginning of one.

        The first and last window cover only the time when the flow was active, and are omitted if
        that is less than half a window.
        """
        first = math.floor((self.start_s - origin_s) / window_s + 1e-9)
        last = math.ceil((self.end_s - origin_s) / window_s - 1e-9)
        edges = [origin_s + window_s * number for number in range(first, last + 1)]
        rates = {}
        for edge_s, next_s in pairwise(edges):
            begin_s, end_s = max(edge_s, self.start_s), min(next_s, self.end_s)
            if end_s - begin_s >= window_s / 2:
                rates[next_s] = self.mbit_between(begin_s, end_s)
        return rates


def interpolate(at_s: float, t_s: Sequence[float], values: Sequence[float]) -> float:
    """Return the linear interpolation of a curve, constant outside its first and last point."""
    index = bisect_right(t_s, at_s)
    if index == 0 or index == len(t_s):
        return values[min(index, len(t_s) - 1)]
    slope = (values[index] - values[index - 1]) / (t_s[index] - t_s[index - 1])
    return slope * (at_s - t_s[index - 1]) + values[index - 1]


def delivery_curve(
    rows: Iterable[SocketRow], instants: Sequence[float], start_s: float, end_s: float
) -> DeliveryCurve | None:
    """Return the delivery curve of a flow from its sockets' samples; None without any.

    instants: all sampling instants of the run, sorted. Bytes in the first sample of a socket were
    delivered since the instant before, when the socket did not exist. SACKed segments are included,
    so that a loss causes neither a gap nor a burst.
    """
    sockets: dict[Any, list[SocketRow]] = {}
    for row in rows:
        socket = (row.get("host"), row.get("local"), row.get("peer"))
        sockets.setdefault(socket, []).append(row)
    curves: list[Curve] = []
    for samples in filter(None, map(delivered_bytes, sockets.values())):
        seen = bisect_left(instants, samples[0][0])
        opened_s = max(start_s, instants[seen - 1] if seen else 0.0)
        points = [(opened_s, 0.0), *samples] if opened_s < samples[0][0] else samples
        curves.append(([at_s for at_s, _ in points], [total for _, total in points]))
    last_s = max((t_s[-1] for t_s, _ in curves), default=-math.inf)
    if last_s <= start_s:
        return None
    return DeliveryCurve(start_s, min(end_s, last_s), tuple(curves))


def delivered_bytes(rows: Iterable[SocketRow]) -> list[tuple[float, float]]:
    """Return (time, cumulative bytes) of one socket: segments × mss, or bytes_acked."""
    points: list[tuple[float, float]] = []
    last_pkts = 0.0
    for row in rows:
        delivered, mss = row.get("delivered_pkts"), row.get("mss")
        if is_number(delivered) and is_number(mss):
            before = points[-1][1] if points else 0.0
            total = before + (delivered - last_pkts) * mss
            last_pkts = delivered
        elif is_number(row.get("bytes_acked")):
            total = float(row["bytes_acked"])
        else:
            continue
        if not points or row["t_s"] > points[-1][0]:
            points.append((row["t_s"], total))
    return points


def common_interval_s(
    curves: Iterable[DeliveryCurve], measured_s: tuple[float, float] = (0.0, math.inf)
) -> tuple[float, float]:
    """Return the time of active_rates: while all flows are active; (0, 0) without flows.

    It is the measured part of the load, or, if all of it is measured, the common time without its
    first quarter (WARM_UP_SHARE).
    """
    known = list(curves)
    first_s = max((curve.start_s for curve in known), default=0.0)
    last_s = min((curve.end_s for curve in known), default=0.0)
    if measured_s != (0.0, math.inf):
        return max(first_s, measured_s[0]), min(last_s, measured_s[1])
    return first_s + WARM_UP_SHARE * (last_s - first_s), last_s


def active_rates_mbit(
    curves: Mapping[str, DeliveryCurve], measured_s: tuple[float, float] = (0.0, math.inf)
) -> dict[str, float]:
    """Return each flow's mean rate over common_interval_s; empty if it has no length."""
    first_s, last_s = common_interval_s(curves.values(), measured_s)
    if last_s <= first_s:
        return {}
    return {name: curve.mbit_between(first_s, last_s) for name, curve in curves.items()}


def common_windows(
    curves: Iterable[DeliveryCurve], window_s: float, since_s: float
) -> dict[float, tuple[float, ...]]:
    """Return the rates of all flows in their common windows after an instant, by windows' ends."""
    columns = [
        {round(end_s, 6): mbit for end_s, mbit in curve.rates_mbit(window_s, since_s).items()}
        for curve in curves
    ]
    shared = set(columns[0]).intersection(*columns) if columns else set()
    later = sorted(end_s for end_s in shared if end_s > since_s + 1e-6)
    return {end_s: tuple(column[end_s] for column in columns) for end_s in later}


def fair_after_s(curves: Sequence[DeliveryCurve]) -> float | None:
    """Return the time from the last flow's start until the shares are fair; None for never.

    Shares are taken in windows of FAIR_WINDOW_S and must stay fair for FAIR_HOLD_S.
    """
    since_s = max((curve.start_s for curve in curves), default=0.0)
    windows = common_windows(curves, FAIR_WINDOW_S, since_s).values()
    return first_lasting_window([is_fair(rates) for rates in windows], FAIR_WINDOW_S, FAIR_HOLD_S)


def first_lasting_window(good: Sequence[bool], window_s: float, hold_s: float) -> float | None:
    """Return the begin of the first window after which all are good for the hold time."""
    needed = math.ceil(hold_s / window_s - 1e-9)
    starts = range(len(good) - needed + 1)
    return next((at * window_s for at in starts if all(good[at : at + needed])), None)


def mean_held(
    t_s: Sequence[float], values: Sequence[float], first_s: float, last_s: float
) -> float | None:
    """Return the mean of a step function over an interval; None if it is empty."""
    begin_s = max(first_s, t_s[0]) if t_s else first_s
    if not t_s or last_s <= begin_s:
        return None
    first, last = bisect_right(t_s, begin_s), bisect_left(t_s, last_s)
    edges = [begin_s, *t_s[first:last], last_s]
    held = zip(values[first - 1 : last], pairwise(edges), strict=True)
    return math.fsum(value * (later - sooner) for value, (sooner, later) in held) / (
        last_s - begin_s
    )


# -- retransmissions


@dataclass(frozen=True)
class Retransmissions:
    """Represent retransmitted segments (or lost packets) and the number of segments sent."""

    segments: int
    of: int

    @property
    def share(self) -> float:
        """Return the fraction of all segments sent."""
        return self.segments / self.of if self.of else 0.0


def path_leg(names: Iterable[str]) -> str:
    """Return the leg whose congestion control reacts to the path.

    In a VPN over UDP it is the connection inside the tunnel.
    """
    return "wan" if "wan" in set(names) else "inner"


def wan_retransmissions(folder: Path) -> Retransmissions | None:
    """Return the retransmissions of the WAN leg of a run's folder, or None without counts."""
    try:
        legs = (read_object(folder / "legs.json") or {})["legs"]
        crossing = path_leg(row["leg"] for row in legs)
        wan = [row for row in legs if row["leg"] == crossing]
        again = sum(int(row["segments_retransmitted"]) for row in wan)
        sent = sum(int(row["segments_out"]) for row in wan)
        return (
            Retransmissions(again, sent) if sent else None
        )  # a program that sends datagrams has no segments
    except BROKEN_RECORDS:
        return None


def path_drops(folder: Path) -> Retransmissions | None:
    """Return the packets dropped by the path's queues in the direction of the first flow's data.

    It stands in for retransmissions where no socket counts any. None without samples.
    """
    run = read_run(folder)
    if run is None:
        return None
    try:
        last = {
            (row["role"], row["dev"]): row
            for row in read_series(folder, "queues")
            if row["direction"] == run.data_direction
        }
        drops = sum(int(row["drops"]) for row in last.values())
        offered = (
            int(row["sent_pkts"]) + int(row["drops"])
            for (role, _), row in last.items()
            if role == "bottleneck"
        )
        return Retransmissions(drops, max(offered))
    except BROKEN_RECORDS:
        return None


# Share of the load after which the amount of data in flight changes little.
SETTLED_SHARE = 0.2


def wire_ratio(
    run: RunSpec, queues: Iterable[QueueRow], sockets: Iterable[SocketRow]
) -> float | None:
    """Return the bytes that left the bottleneck per byte that the sink acknowledged, or None.

    Bytes at the bottleneck include Ethernet headers. The result is the median over all pairs of
    samples that are half of the observed load apart; the observed load is from a fifth of the load
    to its end. A pair that begins or ends while a lost segment is awaited is an outlier, as data
    behind the gap is not yet acknowledged.
    """
    sent = {
        row["t_s"]: int(row["sent_bytes"])
        for row in queues
        if (row["role"], row["direction"]) == ("bottleneck", run.data_direction)
    }
    rows = list(sockets)
    names = {row["leg"] for row in rows}
    last = next((leg for leg in ("exit", "inner", "wan") if leg in names), None)
    sending = SENDING_END[run.direction]
    acked: dict[float, int] = {}
    for row in rows:
        if (row["leg"], row["end"]) == (last, sending):
            acked[row["t_s"]] = acked.get(row["t_s"], 0) + int(row["bytes_acked"])
    both = sorted(sent.keys() & acked.keys())
    instants = [t_s for t_s in both if SETTLED_SHARE * run.duration_s <= t_s <= run.duration_s]
    half = len(instants) // 2
    pairs = zip(instants[:-half], instants[half:], strict=True) if half else ()
    slopes = [
        (sent[end] - sent[start]) / (acked[end] - acked[start])
        for start, end in pairs
        if acked[end] > acked[start]
    ]
    return median(slopes) if slopes else None


# -- the bottleneck


def bottleneck_rate_bps(run: RunSpec, at_s: float, link: str = "") -> float | None:
    """Return the bottleneck's rate in the data direction at an instant of the load.

    Rate changes up to that instant are applied. None means unlimited. `link` selects one of several
    links.
    """
    rate_bps = run.path_of_link(link)[run.data_direction].rate_bps
    for changed_s, changed_bps in run.rate_changes(link, run.data_direction):
        if changed_s <= at_s:
            rate_bps = changed_bps
    return None if rate_bps is None else float(rate_bps)


def bottleneck_samples(
    run: RunSpec, rows: Iterable[QueueRow], until_s: float = math.inf
) -> list[QueueRow]:
    """Return the samples of the bottleneck's queue in the data direction, by time.

    Of several bottlenecks it is the one with the highest utilisation.
    """
    queues: dict[Any, list[QueueRow]] = {}
    direction = run.data_direction
    for row in rows:
        if (
            row.get("role") == "bottleneck"
            and row.get("direction") == direction
            and row["t_s"] <= until_s
            and is_number(row.get("sent_bytes"))
        ):
            queues.setdefault((row.get("node"), row.get("dev")), []).append(row)

    def used(rows: list[QueueRow]) -> float:
        mean_bps = mean_of_rate_steps_bps(
            bottleneck_rate_steps(run, rows[-1].get("link", "")), rows[-1]["t_s"]
        )
        default_bps = run.path[run.data_direction].rate_bps
        relative_rate = mean_bps / default_bps if mean_bps and default_bps else 1.0
        return float(rows[-1]["sent_bytes"] / relative_rate)

    return max(queues.values(), key=used, default=[])


def bottleneck_utilisation(
    run: RunSpec, rows: Iterable[QueueRow], until_s: float = math.inf
) -> float | None:
    """Return the median utilisation of the bottleneck over the intervals between samples.

    Each interval counts relative to the rate at its begin. None without a rate or two samples.
    """
    shares = []
    for before, after in pairwise(bottleneck_samples(run, rows, until_s)):
        rate_bps = bottleneck_rate_bps(run, before["t_s"], before.get("link", ""))
        seconds = after["t_s"] - before["t_s"]
        if rate_bps and seconds > 0:
            shares.append(8 * (after["sent_bytes"] - before["sent_bytes"]) / seconds / rate_bps)
    return median(shares) if shares else None


# -- the CPU


def idle_share(
    rows: Iterable[HostRow], since_s: float = -math.inf, until_s: float = math.inf
) -> float | None:
    """Return the median idle share of the CPU over the intervals between samples of hosts.jsonl.

    Hosts that have CPUs of their own give the share of the busiest host. The share is of the CPU
    time that the kernel counted, busy and idle. None without two samples.

    It is a median and not the share of the whole run, because the CPU is idle while connections
    open and the last data drain. A saturated run would otherwise seem to have idle time.
    """
    return least_idle_cpu(rows, since_s, until_s)[1]


def least_idle_cpu(
    rows: Iterable[HostRow], since_s: float = -math.inf, until_s: float = math.inf
) -> tuple[str | None, float | None]:
    """Return the host with the least idle CPUs (None if all share one) and its idle share."""
    within = [row for row in rows if since_s <= row["t_s"] <= until_s]
    busy = busy_shares(within)
    if busy:
        busiest = max(busy, key=busy.__getitem__)
        return busiest, 1 - busy[busiest]
    return None, median_idle(
        (row["cpu_idle_s"], row["cpu_busy_s"])
        for row in within
        if is_number(row.get("cpu_idle_s")) and is_number(row.get("cpu_busy_s"))
    )


def busy_shares(rows: Iterable[HostRow]) -> dict[str, float]:
    """Return every host's median busy share of its own CPUs; empty if all hosts share a CPU."""
    counted = list(rows)
    hosts = counted[-1].get("host_busy_s", {}) if counted else {}
    idle = {
        host: median_idle(
            (row["t_s"] - row["host_busy_s"][host], row["host_busy_s"][host]) for row in counted
        )
        for host in hosts
    }
    return {host: 1 - share for host, share in idle.items() if share is not None}


def packets_share(rows: Iterable[HostRow], host: str) -> float | None:
    """Return the fraction of a host's CPU time that received packets, or None without counts."""
    last = max(rows, key=lambda row: row["t_s"], default=None)
    if last is None:
        return None
    busy_s = (last.get("host_busy_s") or {}).get(host)
    packets_s = (last.get("host_packets_s") or {}).get(host)
    return None if not busy_s or packets_s is None else min(1.0, packets_s / busy_s)


def median_idle(counted: Iterable[tuple[float, float]]) -> float | None:
    """Return the median idle share between successive counts (idle, busy), or None below two."""
    shares = []
    for (idle_before, busy_before), (idle_after, busy_after) in pairwise(counted):
        idle, busy = idle_after - idle_before, busy_after - busy_before
        if idle + busy > 0:
            shares.append(idle / (idle + busy))
    return median(shares) if shares else None


# -- delays under load


def srtt_ms(run: RunSpec, flow_rows: Sequence[FlowRow], rows: Iterable[SocketRow]) -> Spread | None:
    """Return the RTT under load: median and 95th percentile of the smoothed RTT over time.

    Values are srtt of tcp_info (RFC 6298) of every socket that sent the flows' data across the WAN.
    A sample holds until the sampler's next instant, and only while the socket's flow was active.
    Every socket's seconds count alike, so the longer of two flows has more weight. The median is
    the smallest value that half of those seconds did not exceed. In a tunnel it is the WAN leg's
    RTT, not that of the connections to the tunnel's ends. None if no such socket was sampled, as
    for udp.
    """
    return spread_over_time(held for held, _ in srtt_samples(run, flow_rows, rows))


def srtt_samples(
    run: RunSpec, flow_rows: Sequence[FlowRow], rows: Iterable[SocketRow]
) -> list[tuple[HeldValue, str]]:
    """Return (srtt in ms with its duration, flow name) for all samples that srtt_ms summarises."""
    flows = {flow.name: flow for flow in active_flows(run, flow_rows)}
    single_flow = next(iter(flows.values())) if len(flows) == 1 else None
    sampled = list(rows)
    following = next_instants(sampled)
    crossing = path_leg(str(row.get("leg")) for row in sampled)
    values = []
    for row in sampled:
        flow, srtt_ms = flows.get(row.get("flow") or "", single_flow), row.get("srtt_ms")
        if flow is None or not is_number(srtt_ms) or row.get("leg") != crossing:
            continue
        if row.get("end", SENDING_END[flow.direction]) != SENDING_END[flow.direction]:
            continue
        seconds = seconds_held(row["t_s"], following, flow.start_s, flow.end_s)
        if seconds > 0:
            values.append((HeldValue(srtt_ms, seconds), flow.name))
    return values


def queue_delay_ms(
    run: RunSpec, flow_rows: Sequence[FlowRow], rows: Iterable[QueueRow]
) -> Spread | None:
    """Return the queueing delay at the bottleneck: median and 95th percentile over the load.

    The delay of a sample is the time until its backlog has been sent, at the rates that the path
    has from then on: a queue before an outage of one second waits for a second, not for backlog /
    the outage's rate. Backlog left when the load ends is sent at the last rate. If that is an
    outage's rate (below OUTAGE_SHARE of the maximum), the delay is unknown and the sample is
    skipped. A sample holds until the next one, and only from the first flow's start to the last
    flow's end. None without a rate or a sample.
    """
    flows = active_flows(run, flow_rows)
    start_s, end_s = min(flow.start_s for flow in flows), max(flow.end_s for flow in flows)
    queue = bottleneck_samples(run, rows)
    following = next_instants(queue)
    steps = bottleneck_rate_steps(run, queue[0].get("link", "") if queue else "")
    held = []
    for row in queue:
        seconds = seconds_held(row["t_s"], following, start_s, end_s)
        if not steps or seconds <= 0 or not is_number(row.get("backlog_bytes")):
            continue
        waited_s = draining_s(steps, row["t_s"], 8 * row["backlog_bytes"])
        if waited_s is not None:
            held.append(HeldValue(1000 * waited_s, seconds))
    return spread_over_time(held)


# A rate below this share of the path's maximum is an outage: traces encode a rate of zero as
# 1 kbit/s.
OUTAGE_SHARE = 0.001


def bottleneck_rate_steps(run: RunSpec, link: str = "") -> list[tuple[float, float]]:
    """Return (start in s, rate in bit/s) steps of the bottleneck in the data direction, by time.

    The list is empty without a rate. `link` selects one of several links.
    """
    rate_bps = run.path_of_link(link)[run.data_direction].rate_bps
    if not rate_bps or rate_bps < 0:
        return []
    changed = run.rate_changes(link, run.data_direction)
    return [(-math.inf, float(rate_bps)), *((at_s, float(bps)) for at_s, bps in changed)]


def mean_of_rate_steps_bps(steps: Sequence[tuple[float, float]], until_s: float) -> float | None:
    """Return the mean of rate steps from 0 to an instant, or None without a rate."""
    if not steps or until_s <= 0:
        return steps[0][1] if steps else None
    from_the_start = [(max(0.0, at_s), rate_bps) for at_s, rate_bps in steps]
    return SteppedCapacity(from_the_start).bits(0.0, until_s) / until_s


def draining_s(steps: Sequence[tuple[float, float]], at_s: float, bits: float) -> float | None:
    """Return how long a bottleneck takes to send `bits` from an instant on, in seconds.

    None if bits are left when a final outage begins.
    """
    index = bisect_right(steps, at_s, key=lambda step: step[0]) - 1
    now_s, left_bits = at_s, bits
    while index + 1 < len(steps):
        until_s, rate_bps = steps[index + 1][0], steps[index][1]
        if left_bits <= rate_bps * (until_s - now_s):
            return (now_s - at_s) + left_bits / rate_bps
        left_bits -= rate_bps * (until_s - now_s)
        now_s, index = until_s, index + 1
    last_bps = steps[-1][1]
    if left_bits and last_bps < OUTAGE_SHARE * max(rate for _, rate in steps):
        return None
    return (now_s - at_s) + left_bits / last_bps


def latency_of_folder(folder: Path) -> Latency | None:
    """Return the delays of a run's folder.

    Without samples it has only the idle RTT. None if run.json cannot be read.
    """
    run = read_run(folder)
    if run is None:
        return None
    flow_rows = (read_object(folder / "flows.json") or {}).get("flows") or []
    try:
        return Latency(
            idle_rtt_ms(run),
            srtt_ms(run, flow_rows, read_series(folder, "sockets")),
            queue_delay_ms(run, flow_rows, read_series(folder, "queues")),
        )
    except BROKEN_RECORDS:
        return None


BOTTLENECK_ROLE = b'"bottleneck"'  # part of each row of a queue with this role


def queue_delay_of_folder(folder: Path, run: RunSpec) -> Spread | None:
    """Return the queueing delay at the bottleneck of a run in its folder, None without one."""
    flow_rows = (read_object(folder / "flows.json") or {}).get("flows") or []
    try:  # most rows are of other queues
        rows = valid_rows(
            line for line in read_lines(folder / "queues.jsonl") if BOTTLENECK_ROLE in line
        )
        return queue_delay_ms(run, flow_rows, rows)
    except BROKEN_RECORDS:
        return None


def idle_rtt_ms(run: RunSpec) -> float:
    """Return the configured RTT without queueing, of the flow with the shortest RTT."""
    return float(min(flow.rtt_ms for flow in run.flows))


def active_flows(run: RunSpec, flow_rows: Sequence[FlowRow]) -> list[ActiveInterval]:
    """Return when each flow was active within the measured part of the load.

    Times come from the flows' rows and are limited by the requested duration.
    """
    from_s, to_s = run.window_s
    measured = {row["name"]: row for row in flow_rows}
    intervals = []
    for flow in run.flows:
        row = measured.get(flow.name)
        started_s, ended_s = (row.get("started_s"), row.get("ended_s")) if row else (None, None)
        start_s = flow.start_s if started_s is None else started_s
        end_s = min(start_s + flow.duration_s, math.inf if ended_s is None else ended_s)
        within = max(start_s, from_s), min(end_s, to_s)
        intervals.append(ActiveInterval(flow.name, *within, flow.direction))
    return intervals


def format_window(window_s: tuple[float, float]) -> str:
    """Format the measured part of the load: the whole load; 40 s to 100 s of the load."""
    from_s, to_s = window_s
    if window_s == (0.0, math.inf):
        return "the whole load"
    return f"{from_s:g} s to {'the end' if to_s == math.inf else f'{to_s:g} s'} of the load"


def next_instants(rows: Iterable[QueueRow] | Iterable[SocketRow]) -> dict[float, float]:
    """Return a map from each sampling instant to the next; the last one maps to infinity."""
    instants = sorted({row["t_s"] for row in rows})
    return dict(zip(instants, [*instants[1:], math.inf], strict=True)) if instants else {}


def seconds_held(
    at_s: float, following: Mapping[float, float], start_s: float, end_s: float
) -> float:
    """Return how many seconds within an interval the sample of an instant represents."""
    return min(following[at_s], end_s) - max(at_s, start_s)


def spread_over_time(held: Iterable[HeldValue]) -> Spread | None:
    """Return median and 95th percentile over time, or None without values."""
    ordered = sorted(held, key=lambda item: item.value)
    if not ordered:
        return None
    return Spread(quantile(ordered, 0.5), quantile(ordered, 0.95))


def quantile(ordered: Sequence[HeldValue], share: float) -> float:
    """Return the smallest of ordered values that a share of their time did not exceed."""
    needed_s = share * math.fsum(item.seconds for item in ordered)
    passed_s = 0.0
    for item in ordered:
        passed_s += item.seconds
        if passed_s >= needed_s * (1 - 1e-12):
            return item.value
    return ordered[-1].value
