"""One run over time: rates, windows, queues and the order of packets.

Every function reads one run's folder and nothing else. What was not recorded is an empty series, an
empty dict or None. Times are seconds since the load began; rates are Mbit/s of payload, on the WAN
where there is a tunnel.
"""

from __future__ import annotations

import io
import math
import zlib
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, lru_cache
from pathlib import Path
from statistics import fmean
from typing import Any

import numpy as np
import pandas as pd

from gostlab import safe_read
from gostlab.analysis.load.json_safe import UnreadableFile, Value, optional_number, read_object
from gostlab.analysis.load.run_folder import RunFolder
from gostlab.analysis.load.run_json import FlowRecord, data_direction
from gostlab.results import BROKEN_RECORDS, is_number, metrics, read_series
from gostlab.results.metrics import Latency, path_leg

# The first part of a flow's (or of all flows' common) time, which no mean of a steady state
# includes: slow start ends far above what loss allows, and it takes CUBIC several losses, 0.7 times
# each, to come down.
WARM_UP_SHARE = 0.25
MAX_UNZIPPED_BYTES = 1 << 30
# BBR's pacing gain in ProbeBW is 1.25, 0.75 or 1; in Startup 2.89, in Drain 0.35 (Cardwell et al.,
# ACM Queue 14(5), 2016).
PROBE_BW_GAINS = (0.7, 1.3)
# The legs of a tunnel that do not cross the WAN.
ENDS = ("app", "exit")
ACK_COLUMNS = (
    *("t_s", "flow", "cwnd_pkts", "snd_ssthresh_pkts", "current_ssthresh_pkts"),
    *("srtt_ms", "snd_wnd_bytes", "inflight_bytes"),
)
# Version 0.1 called ssthresh what the kernel's tcp_current_ssthresh() says: outside recovery the
# larger of the threshold and 3/4 of the window. It tells whether the threshold is finite, not what
# it is.
ACK_COLUMNS_OF_0_1 = {"ssthresh_pkts": "current_ssthresh_pkts"}


@dataclass(frozen=True, eq=False)
class TimeSeries:
    """Values over time."""

    t_s: np.ndarray
    value: np.ndarray

    def __len__(self) -> int:
        return len(self.t_s)

    @classmethod
    def of(cls, table: pd.DataFrame, column: str) -> TimeSeries:
        """A column of a table that has t_s."""
        return cls(table["t_s"].to_numpy(float), table[column].to_numpy(float))

    @classmethod
    def at(cls, values: Mapping[float, float]) -> TimeSeries:
        """Of a value for each instant."""
        instants = sorted(values)
        return cls(np.array(instants), np.array([values[t_s] for t_s in instants]))


Curve = tuple[np.ndarray, np.ndarray]  # instants, and bytes until then
NOTHING = TimeSeries(np.array([]), np.array([]))


@dataclass(frozen=True, eq=False)
class DeliveryCurve:
    """What a flow had delivered by when: bytes over time of each socket, or of its receiver."""

    start_s: float
    end_s: float  # the flow's, or of its last sample if that is sooner
    curves: tuple[Curve, ...]

    def bytes_between(self, first_s: Any, last_s: Any) -> Any:
        """Bytes delivered between instants, or between arrays of them; between samples evenly."""
        return sum(
            np.interp(last_s, t_s, total) - np.interp(first_s, t_s, total)
            for t_s, total in self.curves
        )

    def mbit_between(self, first_s: float, last_s: float) -> float:
        return float(self.bytes_between(first_s, last_s)) * 8 / 1e6 / (last_s - first_s)


# -- series


def flow_rates(run: RunFolder, window_s: float, origin_s: float = 0.0) -> dict[str, TimeSeries]:
    """Each flow's rate in windows of that length; `t_s` is a window's end, `origin_s` where one
    begins.

    TCP's is what its receivers acknowledged, SACKed segments included (delivered_pkts × mss, all
    sockets of the flow), so a loss neither stops nor bursts it; UDP's is what its receiver reports,
    in intervals of its own. The first and last window count with the part in which the flow was
    active, and are left out if that is less than half.
    """
    found = {}
    for flow in run.flows:
        progress = progress_of(run, flow)
        if progress is None:
            continue
        first = math.floor((progress.start_s - origin_s) / window_s + 1e-9)
        last = math.ceil((progress.end_s - origin_s) / window_s - 1e-9)
        edges = origin_s + window_s * np.arange(first, last + 1)
        begin, end = np.maximum(edges[:-1], progress.start_s), np.minimum(edges[1:], progress.end_s)
        kept = end - begin >= window_s / 2
        begin, end, windows = begin[kept], end[kept], edges[1:][kept]
        mbit = progress.bytes_between(begin, end) * 8 / 1e6 / (end - begin)
        found[flow.name] = TimeSeries(windows, mbit)
    return found


def socket_series(run: RunFolder, key: str) -> dict[str, TimeSeries]:
    """A field of sockets.jsonl by flow, at the instants of sampling: of several sockets the sum, of
    times (…_ms) the mean.

    A dot reaches inside ("bbr.bw_bps"). What is null (an infinite ssthresh) is no value; an instant
    without one is left out.
    """
    sampled = {flow: over_sockets(rows, key) for flow, rows in rows_by_flow(run).items()}
    return {flow: series for flow, series in sampled.items() if len(series)}


def over_sockets(rows: Iterable[Mapping[str, Any]], key: str) -> TimeSeries:
    """A field of some sockets' rows, as socket_series has it of a flow's."""
    at: dict[float, list[float]] = {}
    for row in rows:
        value: Any = row
        for name in key.split("."):
            value = value.get(name) if isinstance(value, Mapping) else None
        if is_number(value):
            at.setdefault(row["t_s"], []).append(float(value))
    of = fmean if key.endswith("_ms") else math.fsum
    return TimeSeries.at({t_s: of(values) for t_s, values in at.items()})


def ends_rows(run: RunFolder) -> dict[tuple[str, str], list[dict[str, Any]]]:
    """The rows of sockets.jsonl that are of a tunnel's other connections, to and from its ends, by
    flow and leg; of the end that sends. {} of a run without a tunnel.
    """
    headings = {flow.name: flow.direction for flow in run.flows}
    found: dict[tuple[str, str], list[dict[str, Any]]] = {}
    for row in read_series(run.folder, "sockets"):
        flow, leg = row.get("flow") or run.flows[0].name, row.get("leg")
        if leg not in ENDS or flow not in headings:
            continue
        sends = metrics.SENDING_END[headings[flow]]
        if row.get("end", sends) == sends:
            found.setdefault((flow, str(leg)), []).append(row)
    return found


def acknowledged_rate(rows: Iterable[Mapping[str, Any]]) -> TimeSeries:
    """What some sockets' receivers acknowledged, in Mbit/s, from each sample to the next."""
    total = over_sockets(rows, "bytes_acked")
    if len(total) < 2:
        return NOTHING
    # a socket that has closed takes its count with it
    gained = np.maximum(0.0, np.diff(total.value))
    return TimeSeries(total.t_s[1:], 8e-6 * gained / np.diff(total.t_s))


def queue_series(run: RunFolder, key: str = "backlog_pkts") -> TimeSeries:
    """The bottleneck's backlog (or another field of queues.jsonl) in the direction that the data
    takes, in packets. A star's idle bottlenecks add nothing.
    """
    wanted = ("bottleneck", data_direction(run.direction))
    at: dict[float, float] = {}
    for row in read_series(run.folder, "queues"):
        if (row.get("role"), row.get("direction")) == wanted and is_number(row.get(key)):
            at[row["t_s"]] = at.get(row["t_s"], 0.0) + row[key]
    return TimeSeries.at(at)


def acks(run: RunFolder, columns: Sequence[str] = ACK_COLUMNS) -> pd.DataFrame:
    """acks.csv.gz: a row per ACK that a sending socket got, by time. Empty, with its columns, where
    it is absent.

    An infinite ssthresh is NaN, and so is one that was not recorded (ssthresh_of tells them apart).
    A file that was cut short gives what is whole of it. columns: t_s, cwnd_pkts, and which else of
    ACK_COLUMNS; a run may have 10^5 rows.
    """
    nothing = pd.DataFrame(columns=list(columns), dtype=float)
    try:
        text = unzipped(run.folder / "acks.csv.gz")
        # the last line may be half a line; a whole file ends with a line's end
        found = pd.read_csv(
            io.BytesIO(text[: text.rfind(b"\n") + 1]),
            usecols=lambda name: ACK_COLUMNS_OF_0_1.get(name, name) in columns,
            dtype={"flow": str},
            on_bad_lines="skip",
            encoding_errors="replace",
        )
    except (OSError, ValueError):
        return nothing
    found = found.rename(columns=ACK_COLUMNS_OF_0_1)
    if not {"t_s", "cwnd_pkts"} <= set(found.columns):
        return nothing
    found = found.reindex(columns=list(columns))
    for name in set(columns) - {"flow"}:
        found[name] = pd.to_numeric(found[name], errors="coerce")
    known = found.dropna(subset=["t_s", "cwnd_pkts"])
    return known.sort_values("t_s", kind="stable", ignore_index=True)


def ssthresh_of(run: RunFolder, flow: str) -> TimeSeries:
    """A flow's slow start threshold in packets; no values while it is infinite.

    At every ACK where acks.csv.gz has the socket's own, else as the sockets were sampled.
    """
    table = acks(run, ("t_s", "flow", "cwnd_pkts", "snd_ssthresh_pkts"))
    table = table[table["flow"] == flow]
    if table["snd_ssthresh_pkts"].notna().any():
        return TimeSeries.of(table, "snd_ssthresh_pkts")
    return socket_series(run, "ssthresh_pkts").get(flow, NOTHING)


def unzipped(path: Path) -> bytes:
    """A gzip file's content, as far as it goes, but no more than MAX_UNZIPPED_BYTES. Raises
    OSError.
    """
    data, whole = safe_read.read_bytes(path), b""
    try:
        while data and len(whole) < MAX_UNZIPPED_BYTES:
            part = zlib.decompressobj(wbits=31)
            whole += part.decompress(data, MAX_UNZIPPED_BYTES - len(whole))
            data = part.unused_data
    except zlib.error:
        return whole
    return whole


@cache
def latency(run: RunFolder) -> Latency:
    """The delays of a run while its load ran, read once; see gostlab.results.metrics."""
    return metrics.latency(run.folder) or Latency(run.rtt_ms, None, None)


@cache
def flow_srtt_ms(run: RunFolder, flow: str) -> metrics.Spread | None:
    """The round trip under load of one flow's sockets; None where none was sampled."""

    def of_flow(asked: metrics.Row, sockets: list[dict[str, Any]]) -> metrics.Spread | None:
        did = read_object(run.folder / "flows.json").get("flows") or []
        held = metrics.srtt_held(asked, did, sockets)
        return metrics.spread(each for each, name in held if name == flow)

    return told_by(run, of_flow, "sockets")


def wire_ratio(run: RunFolder) -> float | None:
    """Bytes that left the bottleneck per byte that reached the sink; see results.measures."""
    return told_by(run, metrics.wire_ratio, "queues", "sockets")


def bottleneck_marks(run: RunFolder) -> int | None:
    """The packets that the bottleneck's queue marked where the data goes; None if it cannot."""
    rows = told_by(run, metrics.bottleneck_samples, "queues")
    marks = rows[-1].get("marks") if rows else None
    return marks if isinstance(marks, int) else None


def told_by(run: RunFolder, measure: Callable[..., Value | None], *names: str) -> Value | None:
    """A measure of run.json and of some series; None where they do not tell it."""
    try:
        asked = read_object(run.folder / "run.json")
        return measure(asked, *(read_series(run.folder, name) for name in names))
    except (UnreadableFile, *BROKEN_RECORDS):
        return None


# -- the edge: rows to flows


@lru_cache(maxsize=2)  # all of one run's figures ask for it
def rows_by_flow(run: RunFolder) -> dict[str, list[dict[str, Any]]]:
    """The rows of sockets.jsonl that are of the WAN's sockets, by flow."""
    rows = [row for row in read_series(run.folder, "sockets") if row.get("leg") not in ENDS]
    crossing = path_leg(str(row.get("leg", "wan")) for row in rows)
    found: dict[str, list[dict[str, Any]]] = {flow.name: [] for flow in run.flows}
    for row in rows:
        # an older lab had one flow and did not name it
        name = row.get("flow") or run.flows[0].name
        if row.get("leg", crossing) == crossing and name in found:
            found[name].append(row)
    return {name: rows for name, rows in found.items() if rows}


def progress_of(run: RunFolder, flow: FlowRecord) -> DeliveryCurve | None:
    """How a flow progressed; None where nothing tells."""
    start_s, end_s = span(flow)
    curves_of = udp_curves if flow.kind == "udp" else socket_curves
    curves = curves_of(run, flow, start_s)
    last_s = max((float(t_s[-1]) for t_s, _ in curves), default=-math.inf)
    if last_s <= start_s:
        return None
    return DeliveryCurve(start_s, min(end_s, last_s), tuple(curves))


def span(flow: FlowRecord) -> tuple[float, float]:
    """When a flow was active: as measured where that is known, and never longer than asked."""
    start_s = flow.start_s if flow.started_s is None else flow.started_s
    ended_s = math.inf if flow.ended_s is None else flow.ended_s
    return start_s, min(start_s + flow.duration_s, ended_s)


def socket_curves(run: RunFolder, flow: FlowRecord, start_s: float) -> list[Curve]:
    """(time, bytes delivered) of each of a flow's sockets, from its opening on."""
    by_flow = rows_by_flow(run)
    instants = np.array(sorted({row["t_s"] for rows in by_flow.values() for row in rows}))
    sockets: dict[Any, list[dict[str, Any]]] = {}
    for row in by_flow.get(flow.name, ()):
        socket = (row.get("host"), row.get("local"), row.get("peer"))
        sockets.setdefault(socket, []).append(row)
    curves = []
    for samples in filter(None, map(delivered_bytes, sockets.values())):
        # what its first sample tells was delivered since the sample before, which did not have
        # it yet
        seen = int(np.searchsorted(instants, samples[0][0]))
        opened = max(start_s, float(instants[seen - 1]) if seen else 0.0)
        points = [(opened, 0.0), *samples] if opened < samples[0][0] else samples
        curves.append(curve_of(points))
    return curves


def delivered_bytes(rows: Iterable[Mapping[str, Any]]) -> list[tuple[float, float]]:
    """(time, bytes delivered so far) of one socket's rows: segments × mss, else bytes_acked."""
    found: list[tuple[float, float]] = []
    last_pkts = 0.0
    for row in rows:
        delivered, mss = row.get("delivered_pkts"), row.get("mss")
        if is_number(delivered) and is_number(mss):
            before = found[-1][1] if found else 0.0
            total = before + (delivered - last_pkts) * mss  # type: ignore[operator]
            last_pkts = delivered  # type: ignore[assignment]
        elif is_number(row.get("bytes_acked")):
            total = float(row["bytes_acked"])
        else:
            continue
        if not found or row["t_s"] > found[-1][0]:
            found.append((row["t_s"], total))
    return found


def curve_of(points: Sequence[tuple[float, float]]) -> Curve:
    t_s, values = zip(*points, strict=True)
    return np.array(t_s), np.array(values)


def udp_curves(run: RunFolder, flow: FlowRecord, start_s: float) -> list[Curve]:
    """(time, bytes received) of a UDP flow by its receiver's report; [] where none tells."""
    receiver = "" if flow.direction == "download" else "-server"
    alone = [f"iperf3{receiver}.json"] if len(run.flows) == 1 else []
    for name in (f"iperf3-{flow.name}{receiver}.json", *alone):
        try:
            intervals = read_object(run.folder / name).get("intervals")
        except UnreadableFile:
            continue
        points = [(start_s, 0.0)]
        for interval in intervals if isinstance(intervals, list) else ():
            told = interval.get("sum") if isinstance(interval, dict) else None
            told = told if isinstance(told, dict) else {}
            begin, end, bits_per_s = (
                optional_number(told, key) for key in ("start", "end", "bits_per_second")
            )
            if begin is None or end is None or bits_per_s is None:
                break
            if start_s + end > points[-1][0]:
                points.append((start_s + end, points[-1][1] + bits_per_s / 8 * (end - begin)))
        if len(points) > 1:
            return [curve_of(points)]
    return []


# -- windows


def mean_window_pkts(run: RunFolder, flow: str | None = None) -> float | None:
    """A flow's mean congestion window after its start-up, weighted by time, in packets; None where
    nothing tells.

    flow: None is the first that has a congestion control. The start-up is the first quarter of the
    flow's time (WARM_UP_SHARE), or what comes before the part of the load that is measured, or
    until it leaves slow start (BBR: Startup and Drain) if that is later. The windows are those of
    acks.csv.gz where it is recorded and the flow is one socket (its rows do not tell sockets
    apart), else the samples of the sockets, added up.
    """
    asked = next((each for each in run.competitors if flow in (None, each.name)), None)
    if asked is None:
        return None
    start_s, end_s = span(asked)
    warm_s = start_s + WARM_UP_SHARE * (end_s - start_s)
    if run.measures_a_part:
        warm_s, end_s = max(start_s, run.measured_s[0]), min(end_s, run.measured_s[1])
    windows, left_s = windows_of(run, asked)
    if not len(windows):
        return None
    end_s = min(end_s, float(windows.t_s[-1]))
    return step_mean(windows, max(warm_s, left_s), end_s)


def windows_of(run: RunFolder, flow: FlowRecord) -> tuple[TimeSeries, float]:
    """A flow's window over time, and when it left slow start (BBR: Drain); -inf: not seen."""
    windows = socket_series(run, "cwnd_pkts").get(flow.name, NOTHING)
    limits = socket_series(run, "ssthresh_pkts").get(flow.name, NOTHING)  # of those that are finite
    limited_s = limits.t_s
    if flow.streams != 1:
        return windows, first_of(limited_s)
    thresholds = ["snd_ssthresh_pkts", "current_ssthresh_pkts"]
    found = acks(run, ("t_s", "flow", "cwnd_pkts", *thresholds))
    found = found[found["flow"] == flow.name]
    if len(found):
        windows = TimeSeries.of(found, "cwnd_pkts")
        at_acks = found.loc[found[thresholds].notna().any(axis="columns"), "t_s"].to_numpy(float)
        limited_s = at_acks if len(at_acks) else limited_s
    gains = socket_series(run, "bbr.pacing_gain").get(flow.name, NOTHING)
    low, high = PROBE_BW_GAINS
    probing_s = gains.t_s[(gains.value > low) & (gains.value < high)]
    return windows, max(first_of(limited_s), first_of(probing_s))


def first_of(instants: np.ndarray) -> float:
    """The first of instants in order; -inf of none."""
    return float(instants[0]) if len(instants) else -math.inf


def step_mean(series: TimeSeries, first_s: float, last_s: float) -> float | None:
    """The mean over a time of what holds its value until the next; None of no time."""
    first_s = max(first_s, float(series.t_s[0])) if len(series) else first_s
    if not len(series) or last_s <= first_s:
        return None
    inside = (series.t_s > first_s) & (series.t_s < last_s)
    edges = np.concatenate(([first_s], series.t_s[inside], [last_s]))
    held = series.value[np.searchsorted(series.t_s, edges[:-1], side="right") - 1]
    return float(np.dot(held, np.diff(edges)) / (last_s - first_s))


# -- order


def reordered_share(run: RunFolder) -> float | None:
    """Data segments that arrived ahead of one that was due, per data segment that arrived; None
    where nothing tells.

    Linux counts them at the receiver (TCPOFOQueue), and after a loss all that come before the gap
    is filled, so it is reordering alone only on a path without loss. Hosts that receive no data
    over the WAN count none, nor do loopbacks, so the counts of all hosts are added up. What arrived
    is what the WAN legs' senders sent less what was lost, and what was lost is what was sent again,
    but for that which DSACKs say arrived twice: sent - sent again + DSACKs. TcpInSegs would not do:
    it counts ACKs and the tunnel's loopback legs too.
    """
    sent, again, counted = wan_counts(run)
    twice = counted["TcpExtTCPDSACKRecv"] + counted["TcpExtTCPDSACKOfoRecv"]
    arrived = sent - again + twice
    if arrived <= 0 or "TcpExtTCPOFOQueue" not in counted:
        return None
    return counted["TcpExtTCPOFOQueue"] / arrived


def wan_counts(run: RunFolder) -> tuple[int, int, Counter[str]]:
    """(data segments sent on the WAN, those sent again, all hosts' counters) of legs.json."""
    counted: Counter[str] = Counter()
    try:
        told = read_object(run.folder / "legs.json")
    except UnreadableFile:
        return 0, 0, counted
    legs, nodes = told.get("legs"), told.get("nstat")
    rows = [leg for leg in legs if isinstance(leg, dict)] if isinstance(legs, list) else []
    crossing = path_leg(str(leg.get("leg")) for leg in rows)
    sent, again = (
        sum(int(leg[key]) for leg in rows if leg.get("leg") == crossing and is_number(leg.get(key)))
        for key in ("data_segments_out", "segments_retransmitted")
    )
    for node in nodes.values() if isinstance(nodes, dict) else ():
        if isinstance(node, dict):
            counted.update({key: int(value) for key, value in node.items() if is_number(value)})
    return sent, again, counted
