# SPDX-License-Identifier: MIT
"""Compute the metrics of a run from its raw records, and check the records for contradictions.

The raw records are the reports of both iperf3 ends and of pings, and the samples of sockets and
queues. A value
that a run's folder states about itself (flows.json, legs.json, fidelity.json) is computed again
from them, and if the two disagree the run does not count. A student may have edited any file: an
unreadable record results in a sentence, never in a traceback.
"""

import json
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from functools import cached_property, partial
from pathlib import Path
from statistics import median
from typing import Any

from gostlab.classroom.answers import TIME
from gostlab.registry.plugin_loader import plugin_module
from gostlab.registry.tunnels import tunnel_kind
from gostlab.results import (
    BROKEN_RECORDS,
    EPOCH,
    damage_of_folder,
    is_number,
    metrics,
    read_object,
    read_series,
)
from gostlab.results.rows import FlowRow, LegRow, QueueRow, SocketRow
from gostlab.spec.flow import FlowSpec
from gostlab.spec.run_spec import RunSpec
from gostlab.tcpmodel.response_functions import MSS_BYTES

# Maximum difference between the bytes of a connection and iperf3's count, due to iperf3's control
# bytes and a tunnel's frames and handshake.
COUNT_SLACK_BYTES = 2**16
FRAME_BYTES = 1514  # size of a full packet in the bottleneck's queue
BLOCK_BYTES = 2**17  # iperf3 counts only whole blocks
# From version 3.16 on iperf3 reads in one thread and closes its intervals in another. A block that
# is read meanwhile is in no interval, but in the total: 2 of the 60 intervals of one run, and none
# of nearly all others. This is the maximum share of a run's intervals that may lack one per stream.
LOSSY_INTERVALS = 0.1
# Segments of the last window may be retransmitted after iperf3 reads its counter for the last time:
# behind a queue of 18 BDP they were 31 of a window of 1,065, behind 3.4 BDP 34 of a smaller one.
LATE_SEGMENTS, LATE_SHARE, LATE_WINDOW_SHARE = 10, 0.02, 0.15
DIRECT_SLACK, TUNNEL_SLACK = 0.002, 0.03
# BBR's window in ProbeRTT, packets (Cardwell et al., ACM Queue 14(5), 2016).
PROBE_RTT_PKTS = 4
MIN_RTT_RISE_FACTOR = 1.4
# A valid run has these files, and possibly others.
NEEDED = ("run.json", "status.json", "fidelity.json", "flows.json", "legs.json", "env.json")
SERIES = ("sockets.jsonl", "queues.jsonl", "hosts.jsonl")
# Maximum difference between the clocks of a virtual machine and its host.
CLOCK_SLACK = timedelta(seconds=2)


class UnreadableRecord(ValueError):
    """A record that is missing or contradictory; the message explains why."""


class RawRecords:
    """The raw records of one run, each read once. Its methods raise BROKEN_RECORDS."""

    def __init__(self, folder: Path, run: RunSpec) -> None:
        self.folder = folder
        self.run = run  # The grader's own copy of the run, not the one in the folder.

    def object(self, name: str) -> dict[str, Any]:
        data = read_object(self.folder / name)
        if data is None:
            raise UnreadableRecord(f"{name} is missing, or no JSON object")
        return data

    def report_name(self, flow: FlowSpec, end: str = "") -> str:
        """Return the file name of the report of one end of a flow."""
        suffix = f"-{flow.name}" if len(self.run.flows) > 1 else ""
        stem, extension = flow.traffic.report
        return f"{stem}{suffix}{end}{extension}"

    @property
    def tcp_flows(self) -> list[FlowSpec]:
        return [flow for flow in self.run.flows if flow.is_tcp]

    @cached_property
    def sockets(self) -> list[SocketRow]:
        return read_series(self.folder, "sockets")

    @cached_property
    def queues(self) -> list[QueueRow]:
        return read_series(self.folder, "queues")

    @cached_property
    def flow_rows(self) -> list[FlowRow]:
        """Return the rows of flows.json in the order of the run's flows."""
        rows = {row["name"]: row for row in self.object("flows.json")["flows"]}
        return [rows[flow.name] for flow in self.run.flows]

    def round_trips_ms(self, flow: FlowSpec) -> list[float]:
        """Return the answered round trips of a ping flow, from its client's report, ms."""
        rows = plugin_module(flow.traffic).rows(json.dumps(self.object(self.report_name(flow))))
        return [row["rtt_ms"] for _, row in rows if row["rtt_ms"] is not None]

    @cached_property
    def legs(self) -> list[LegRow]:
        return list(self.object("legs.json")["legs"])

    def received(self, flow: FlowSpec) -> tuple[float, float]:
        """Return the bytes and seconds of a flow from its receiver's report."""
        name = self.report_name(flow, "-server" if flow.direction == "upload" else "")
        report = self.object(name)
        total = report["end"]["sum_received"]
        got, seconds = total["bytes"], total["seconds"]
        summed = math.fsum(interval["sum"]["bytes"] for interval in report["intervals"])
        if not (is_number(got) and is_number(seconds) and got > 0 and seconds > 0):
            raise UnreadableRecord(f"{name} says nothing of what was received")
        lost_blocks = math.ceil(LOSSY_INTERVALS * len(report["intervals"])) * flow.streams
        max_missing = self.max_uncounted_bytes(flow) + lost_blocks * BLOCK_BYTES
        if not 0 <= got - summed <= max_missing:
            raise UnreadableRecord(
                f"{name}: its intervals sum to {summed:.0f} bytes, its end says {got}"
            )
        return float(got), float(seconds)

    def max_uncounted_bytes(self, flow: FlowSpec) -> float:
        """Return the maximum number of bytes in flight when iperf3 stops.

        They are the sockets' windows in their last second, at most the capacity of path and queue,
        and two blocks of each stream, one incomplete and one late. These bytes cross the WAN
        uncounted, or are counted after the last interval (a lost segment delays all later ones).
        The sender of a download stops a round trip later than the receiver, which doubles the
        bytes.
        """
        path = self.run.path[flow.data_direction]
        on_path = float(path.rate_bps or 0) / 8 * flow.rtt_ms / 1000
        window = self.last_window_bytes(flow)
        held = min(on_path + FRAME_BYTES * (path.buffer_pkts or 0), window)
        held *= 2 if flow.direction == "download" else 1
        return held + 2 * flow.streams * BLOCK_BYTES

    def last_window_bytes(self, flow: FlowSpec) -> float:
        """Return the sum of the windows that a flow's sockets had in their last second."""
        rows = self.wan_rows(flow)
        windows: dict[Any, float] = {}
        for row in rows:
            if row["t_s"] >= rows[-1]["t_s"] - 1:
                key, window = (row["local"], row["peer"]), float(row["cwnd_pkts"]) * row["mss"]
                windows[key] = max(windows.get(key, 0.0), window)
        return math.fsum(windows.values())

    def wan_rows(self, flow: FlowSpec) -> list[SocketRow]:
        """Return the samples of the sockets that sent a flow's data across the WAN."""
        end = metrics.SENDING_END[flow.direction]
        return [
            row
            for row in self.sockets
            if row.get("flow") == flow.name
            and row.get("leg") == "wan"
            and row.get("end", end) == end
        ]


# -- check whether a run counts


def find_problems(records: RawRecords, verdicts: Sequence[str], sealed: datetime) -> Iterator[str]:
    """Yield a sentence for each reason for which a run does not count.

    `verdicts` has the verdicts that count, `sealed` is the time at which the predictions were
    sealed.
    """
    try:
        yield from contradictions(records, verdicts, sealed)
    except BROKEN_RECORDS as error:
        yield f"its records cannot be read ({error_text(error)})"


def error_text(error: Exception) -> str:
    text = str(error) if isinstance(error, UnreadableRecord) else f"{type(error).__name__}: {error}"
    return text[:200]


def contradictions(records: RawRecords, verdicts: Sequence[str], sealed: datetime) -> Iterator[str]:
    """Yield the contradictions in the records of a run. Raises BROKEN_RECORDS."""
    run, status = records.run, records.object("status.json")
    if records.object("run.json") != run.to_json():
        yield "run.json: not this student's assignment"
        return
    if status.get("outcome") != "ok":
        yield f"status.json: outcome {str(status.get('outcome'))[:40]}"
        return
    if status.get("epoch") != EPOCH:
        yield f"status.json: of another lab (epoch {str(status.get('epoch'))[:20]}, now {EPOCH})"
    yield from wrong_lengths(records, status)
    finished = datetime.strptime(status["finished"], TIME).replace(tzinfo=sealed.tzinfo)
    began = finished - timedelta(seconds=float(status["wall_s"]))
    if began < sealed - CLOCK_SLACK:
        yield f"status.json: began before the predictions were sealed ({sealed:{TIME}})"
    yield from wrong_verdict(records, verdicts)
    for flow, row in zip(run.flows, records.flow_rows, strict=True):
        yield from (wrong_counts if flow.is_tcp else wrong_pings)(records, flow, row)
    yield from wrong_samples(records)


def wrong_lengths(records: RawRecords, status: Mapping[str, dict[str, int]]) -> Iterator[str]:
    """Yield files that are missing, or whose length has changed since the run finished."""
    lengths = status["files"]
    reports = [
        records.report_name(flow, end)
        for flow in records.run.flows
        for end in (("", "-server") if flow.is_tcp else ("",))
    ]
    for name in (*NEEDED, *SERIES, *reports):
        if name != "status.json" and name not in lengths:
            yield f"status.json: no length of {name}"
    wrong = damage_of_folder(records.folder, status)
    if wrong:
        yield wrong


def wrong_verdict(records: RawRecords, verdicts: Sequence[str]) -> Iterator[str]:
    """Yield reasons if a verdict does not count, or contradicts its checks or the samples."""
    fidelity = records.object("fidelity.json")
    verdict, checks = fidelity["verdict"], fidelity["checks"]
    order = ("ok", "degraded", "invalid")
    worst = max((order.index(check["verdict"]) for check in checks), default=2)
    if order.index(verdict) != worst:
        yield f"fidelity.json: {verdict}, and its checks say {order[worst]}"
    if verdict not in verdicts:
        reasons = [str(check["reason"]) for check in checks if check["verdict"] != "ok"]
        yield f"fidelity.json: {verdict}: {'; '.join(reasons)[:300]}"
    by_name = {check["name"]: check for check in checks}
    for name in ("idle_rtt_before", "cpu_idle_share", "run_length"):
        if name not in by_name and not any(check_name.startswith(name) for check_name in by_name):
            yield f"fidelity.json: no check {name}"
    idle = metrics.idle_share(read_series(records.folder, "hosts"))
    reported = by_name.get("cpu_idle_share", {}).get("got")
    if idle is not None and is_number(reported) and abs(idle - reported) > 0.002:
        yield f"fidelity.json: {reported} of the CPU idle, and hosts.jsonl says {idle:.3f}"


def wrong_counts(records: RawRecords, flow: FlowSpec, row: FlowRow) -> Iterator[str]:
    """Yield contradictions between flows.json, both iperf3 reports and legs.json about a flow."""
    got, seconds = records.received(flow)
    server = records.object(records.report_name(flow, "-server"))
    client = records.object(records.report_name(flow))
    if row["bytes"] != got or not nearly_equal(row["goodput_bps"], 8 * got / seconds):
        reported = row["goodput_bps"]
        yield f"flows.json: {flow.name} got {reported} bit/s, iperf3 says {8 * got / seconds:.0f}"
    for report, name in ((client, "iperf3.json"), (server, "iperf3-server.json")):
        end = report["end"]["sum_received"]
        # The sender of a download never receives the counts.
        is_reported = report is client or flow.direction == "upload"
        agrees = end["bytes"] == got and nearly_equal(
            end["bits_per_second"], 8 * end["bytes"] / end["seconds"]
        )
        if is_reported and not agrees:
            yield f"{name}: {flow.name}: the two ends disagree about what was received"
        start = report["start"]["test_start"]
        if start["duration"] != flow.duration_s or start["num_streams"] != flow.streams:
            yield f"{name}: {flow.name}: {start['duration']} s, {start['num_streams']} streams"
    if client["start"]["cookie"] != server["start"]["cookie"]:
        yield f"iperf3.json: {flow.name}: its two ends are of two tests"
    if not flow.duration_s - 1 <= seconds <= flow.duration_s + 60:
        yield f"iperf3.json: {flow.name} took {seconds:.1f} s of {flow.duration_s:g}"
    retransmits = client["end"]["sum_sent"].get("retransmits")
    if row["retransmits"] != retransmits and flow.direction == "upload":
        stated = row["retransmits"]
        yield f"flows.json: {flow.name}: {stated} retransmitted, iperf3 says {retransmits}"
    yield from wrong_leg(records, flow, got, retransmits)


def wrong_pings(records: RawRecords, flow: FlowSpec, row: FlowRow) -> Iterator[str]:
    """Yield contradictions between a ping flow's report, flows.json and pings.jsonl."""
    rtts_ms = records.round_trips_ms(flow)
    reported = metrics.flow_measures(row)
    for name, share in (("ping_median_ms", 0.5), ("ping_p95_ms", 0.95)):
        got = median(rtts_ms) if share == 0.5 else nearest_rank(rtts_ms, share)
        if not nearly_equal(reported.get(name), got):
            yield f"flows.json: {flow.name}: {name} {reported.get(name)}, its report says {got:.3f}"
    sampled = [
        ping["rtt_ms"]
        for ping in read_series(records.folder, "pings")
        if ping["flow"] == flow.name and ping["rtt_ms"] is not None
    ]
    if sampled != rtts_ms:
        yield f"pings.jsonl: {flow.name}: its round trips are not those of its report"
    wanted = 1000 * flow.duration_s / flow.interval_ms
    if len(rtts_ms) < 0.8 * wanted:
        yield f"pings.jsonl: {flow.name}: {len(rtts_ms)} round trips of {wanted:.0f}"


def nearest_rank(values: Sequence[float], share: float) -> float:
    """Return the smallest value that at most 1 - share of all exceed."""
    return sorted(values)[max(0, math.ceil(share * len(values)) - 1)]


def wrong_leg(records: RawRecords, flow: FlowSpec, got: float, retransmits: Any) -> Iterator[str]:
    """Yield contradictions between iperf3's received bytes and a flow's leg across the WAN."""
    legs = [leg for leg in records.legs if (leg["leg"], leg["flow"]) == ("wan", flow.name)]
    carried = math.fsum(leg["bytes_acked"] for leg in legs)
    on_wan = sum(leg["segments_retransmitted"] for leg in legs)
    direct = tunnel_kind(records.run.tunnel).is_direct
    slack = (DIRECT_SLACK if direct else TUNNEL_SLACK) * got
    slack += COUNT_SLACK_BYTES + records.max_uncounted_bytes(flow)
    if abs(carried - got) > slack:
        yield f"legs.json: {carried:.0f} bytes across the WAN, iperf3 received {got:.0f}"
    late = LATE_SEGMENTS + LATE_SHARE * on_wan
    late += LATE_WINDOW_SHARE * records.last_window_bytes(flow) / MSS_BYTES
    if direct and flow.direction == "upload" and not 0 <= on_wan - retransmits <= late:
        yield f"legs.json: {on_wan} retransmitted on the WAN, iperf3 says {retransmits}"
    last: dict[Any, SocketRow] = {}
    for row in records.wan_rows(flow):
        key = row["local"], row["peer"]
        if key in last and row["bytes_acked"] < last[key]["bytes_acked"]:
            yield f"sockets.jsonl: {flow.name}: bytes that were acknowledged became fewer"
            return
        last[key] = row
    sampled = math.fsum(row["bytes_acked"] for row in last.values())
    rate_bps = records.run.path[records.run.data_direction].rate_bps or 0
    later = rate_bps / 8 * (2 * records.run.sample_ms + 4 * flow.rtt_ms + 1000) / 1000
    if not carried - slack - later <= sampled <= carried + slack:
        yield f"sockets.jsonl: {sampled:.0f} bytes acknowledged, legs.json says {carried:.0f}"
    if sum(row["segments_retransmitted"] for row in last.values()) > on_wan:
        yield "sockets.jsonl: more segments were retransmitted than legs.json says"


def wrong_samples(records: RawRecords) -> Iterator[str]:
    """Yield gaps in the series, and a bottleneck that sent less than was received."""
    run = records.run
    instants = {row["t_s"] for row in records.sockets}
    wanted = 1000 * run.length_s / run.sample_ms
    if len(instants) < 0.8 * wanted - 3:
        yield f"sockets.jsonl: {len(instants)} samples of {wanted:.0f}"
    rows = metrics.bottleneck_samples(run, records.queues)
    if len(rows) < 0.8 * wanted - 3:
        yield f"queues.jsonl: {len(rows)} samples of the bottleneck, of {wanted:.0f}"
        return
    same = [flow for flow in records.tcp_flows if flow.data_direction == run.data_direction]
    got = math.fsum(records.received(flow)[0] for flow in same)
    passed = rows[-1]["sent_bytes"]
    if not got <= passed <= 1.5 * got + 2**20:
        yield f"queues.jsonl: {passed} bytes left the bottleneck, iperf3 received {got:.0f}"


def nearly_equal(one: Any, other: float) -> bool:
    """Return whether two numbers are equal except for rounding."""
    return is_number(one) and math.isclose(one, other, rel_tol=1e-6)


# -- metrics


def flow_of(records: RawRecords, name: str | None) -> FlowSpec:
    flows = [flow for flow in records.run.flows if name in (None, flow.name)]
    if not flows:
        raise UnreadableRecord(f"no flow is called {name}")
    return flows[0]


def goodput_mbit(records: RawRecords, flow: str | None) -> float:
    flows = [flow_of(records, flow)] if flow else records.tcp_flows
    return math.fsum(8 * got / seconds for got, seconds in map(records.received, flows)) / 1e6


def retransmitted_segments(records: RawRecords, flow: str | None, *, leg: str = "wan") -> float:
    rows = [row for row in records.legs if row["leg"] == leg and flow in (None, row["flow"])]
    return float(sum(row["segments_retransmitted"] for row in rows))


def retr(records: RawRecords, flow: str | None) -> float:
    """Return iperf3's Retr, the retransmissions of iperf3's own sockets."""
    report = records.object(records.report_name(flow_of(records, flow)))
    return float(report["end"]["sum_sent"]["retransmits"])


def delay(records: RawRecords, _flow: str | None, *, of: str, part: str) -> float:
    """Return the median or 95th percentile over time of the RTT or the queueing delay, ms."""
    take = metrics.srtt_ms if of == "sockets" else metrics.queue_delay_ms
    distribution = take(records.run, records.flow_rows, getattr(records, of))
    if distribution is None:
        raise UnreadableRecord(f"no samples of {of}")
    return float(getattr(distribution, part))


def ping_ms(records: RawRecords, flow: str | None, *, part: str) -> float:
    """Return the median or 95th percentile of a ping flow's round trips, ms."""
    if flow is None:
        raise UnreadableRecord(f"ping_{part}_ms: of which flow (`flow`)?")
    rows = {row["name"]: row for row in records.flow_rows}
    return metrics.flow_measures(rows[flow])[f"ping_{part}_ms"]


def idle_rtt_ms(records: RawRecords, _flow: str | None) -> float:
    """Return the RTT of the idle path, measured before the load."""
    checks = records.object("fidelity.json")["checks"]
    return float(next(check["got"] for check in checks if check["name"] == "idle_rtt_before"))


def window_pkts(records: RawRecords, flow: str | None) -> float:
    """Return the time-weighted mean congestion window after the start-up.

    The start-up ends after the first quarter of the connection's time, or when slow start ends if
    that is later.
    """
    selected = flow_of(records, flow)
    span = span_of(records, selected)
    rows = records.wan_rows(selected)
    limited = [row["t_s"] for row in rows if is_number(row["ssthresh_pkts"])]
    end_s = min(span[1], rows[-1]["t_s"])
    steady_s = span[0] + metrics.WARM_UP_SHARE * (end_s - span[0])
    first_s = max([steady_s, *limited[:1], rows[0]["t_s"]])
    instants = [float(row["t_s"]) for row in rows]
    mean = metrics.mean_held(instants, [row["cwnd_pkts"] for row in rows], first_s, end_s)
    if mean is None:
        raise UnreadableRecord(f"{selected.name}: no window was sampled after its start-up")
    return mean


def span_of(records: RawRecords, flow: FlowSpec) -> tuple[float, float]:
    flows = metrics.active_flows(records.run, records.flow_rows)
    return next(
        (active_flow.start_s, active_flow.end_s)
        for active_flow in flows
        if active_flow.name == flow.name
    )


def delivery_curves(records: RawRecords) -> dict[str, metrics.DeliveryCurve]:
    """Return the bytes that every flow delivered over time. Raises UnreadableRecord."""
    instants = sorted({row["t_s"] for row in records.sockets})
    curves = {}
    for flow in records.tcp_flows:
        rows = records.wan_rows(flow)
        curve = metrics.delivery_curve(rows, instants, *span_of(records, flow))
        if curve is None:
            raise UnreadableRecord(f"{flow.name}: its sockets were not sampled")
        curves[flow.name] = curve
    return curves


def steady_rates(records: RawRecords) -> dict[str, float]:
    """Return each flow's mean rate, Mbit/s, while all are active, without the first quarter."""
    rates = metrics.active_rates_mbit(delivery_curves(records))
    if not rates:
        raise UnreadableRecord("its flows were never active at once")
    return rates


def share(records: RawRecords, flow: str | None) -> float:
    rates = steady_rates(records)
    return rates[flow_of(records, flow).name] / math.fsum(rates.values())


def jain(records: RawRecords, _flow: str | None) -> float:
    return metrics.jain_index(list(steady_rates(records).values()))


def fair_after_s(records: RawRecords, _flow: str | None) -> float:
    """Return the time from the last flow's start until the shares are fair for five seconds."""
    fair_s = metrics.fair_after_s(list(delivery_curves(records).values()))
    if fair_s is None:
        raise UnreadableRecord("the shares never became fair")
    return fair_s


def probe_rtt_s(records: RawRecords, flow: str | None, *, number: int) -> float:
    """Return the time of BBR's n-th ProbeRTT, seconds since the load began.

    It is the first sample of a period in which the congestion window was four packets.
    """
    rows = records.wan_rows(flow_of(records, flow))
    small = [row["t_s"] for row in rows if row["cwnd_pkts"] <= PROBE_RTT_PKTS]
    begins = [at for index, at in enumerate(small) if index == 0 or at - small[index - 1] > 1.0]
    if len(begins) < number:
        raise UnreadableRecord(f"BBR's window fell to four packets {len(begins)} times")
    return float(begins[number - 1])


def min_rtt_rises_s(records: RawRecords, flow: str | None) -> float:
    """Return the time at which BBR's min_rtt first exceeded its minimum by MIN_RTT_RISE_FACTOR.

    The part of its own queue that remains in ProbeRTT raises min_rtt by only a tenth.
    """
    rows = records.wan_rows(flow_of(records, flow))
    samples = [
        (row["t_s"], row["bbr"]["min_rtt_ms"])
        for row in rows
        if row["bbr"] and is_number(row["bbr"]["min_rtt_ms"])
    ]
    min_rtt = math.inf
    for at, value in samples:
        min_rtt = min(min_rtt, value)
        if value > MIN_RTT_RISE_FACTOR * min_rtt:
            return float(at)
    raise UnreadableRecord("BBR's shortest round trip never rose")


FIGURES: Mapping[str, Callable[[RawRecords, str | None], float]] = {
    "goodput_mbit": goodput_mbit,
    "window_pkts": window_pkts,
    "srtt_median_ms": partial(delay, of="sockets", part="median"),
    "srtt_p95_ms": partial(delay, of="sockets", part="p95"),
    "queue_delay_median_ms": partial(delay, of="queues", part="median"),
    "queue_delay_p95_ms": partial(delay, of="queues", part="p95"),
    "ping_median_ms": partial(ping_ms, part="median"),
    "ping_p95_ms": partial(ping_ms, part="p95"),
    "idle_rtt_ms": idle_rtt_ms,
    "retr": retr,
    **{leg: partial(retransmitted_segments, leg=leg) for leg in ("app", "wan", "exit")},
    "share": share,
    "jain": jain,
    "fair_after_s": fair_after_s,
    "first_probe_rtt_s": partial(probe_rtt_s, number=1),
    "second_probe_rtt_s": partial(probe_rtt_s, number=2),
    "min_rtt_rises_s": min_rtt_rises_s,
}


def metric_value(records: RawRecords, name: str, flow: str | None) -> float:
    """Return a metric of a run. Raises UnreadableRecord."""
    try:
        value = FIGURES[name](records, flow)
    except BROKEN_RECORDS as error:
        raise UnreadableRecord(f"{name}: {error_text(error)}") from None
    if not is_number(value):
        raise UnreadableRecord(f"{name}: no number")
    return value
