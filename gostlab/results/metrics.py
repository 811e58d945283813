"""What a run's samples say, in one number each: the one place for each such definition.

The guest judges by these numbers, the scheduler repeats by them, the terminal prints them and the
analysis tabulates them. Everything is plain Python over plain JSON:

    asked   run.json's object, of this lab or an older one
    did     the list `flows` of flows.json; empty where an older lab left none
    rows    of sockets.jsonl or queues.jsonl, as gostlab.results.read_series gives them

Rows without the numbers that a definition needs are passed over. Nothing is raised for what samples
do not tell: that is None.
"""

import math
from bisect import bisect_right
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from statistics import median
from typing import Any

from gostlab.results import BROKEN_RECORDS, is_number, read_object, read_series
from gostlab.spec.link_paths import touches
from gostlab.tcpmodel.rate_steps import CapacityOf

Row = Mapping[str, Any]

# A bottleneck that sends for this share of the time is full.
BOTTLENECK_FULL = 0.95
# Which end of a connection sends the data: the one that connected, or the one that accepted.
SENDING_END: Mapping[str, str] = {"upload": "near", "download": "far"}


@dataclass(frozen=True)
class Spread:
    """Where values lie over time: half of the time at most `median`, 95 % of it at most `p95`."""

    median: float
    p95: float


@dataclass(frozen=True)
class RunCluster:
    """One of several states that the runs of a cell fall into: no mean is of all of them."""

    value: float  # the median of its runs
    runs: int


def states_words(states: Sequence[RunCluster], show: Callable[[float], str]) -> str:
    """180 (7 of 10) or 570 (3 of 10)."""
    of = sum(state.runs for state in states)
    return " or ".join(f"{show(state.value)} ({state.runs} of {of})" for state in states)


def are_identical(values: Sequence[float]) -> bool:
    """Whether several runs say the same to the bit: then no interval says anything of others."""
    return len(values) > 1 and min(values) == max(values)


def identical_words(runs: int) -> str:
    return f"{runs} identical runs"


@dataclass(frozen=True)
class Latency:
    """Delays while the load ran, in ms. None: nothing sampled tells it."""

    idle_rtt_ms: float  # as configured, of the flow that has the shortest
    srtt_ms: Spread | None
    queue_delay_ms: Spread | None


@dataclass(frozen=True)
class ActiveInterval:
    """When a flow was active, in seconds since the load began, and which way its data went."""

    name: str
    start_s: float
    end_s: float
    direction: str  # upload | download


@dataclass(frozen=True)
class HeldValue:
    """A sampled value and how long it stood."""

    value: float
    seconds: float


# -- goodput


def total_goodput_bps(did: Sequence[Row]) -> float:
    """What a run's flows got together: the bytes of all of them over one window, from the first
    one's start to the last one's end. Without udp and ping, which send what they were told to,
    unless there is nothing else. Of several flows without times (an older lab's) the sum of their
    own rates, which may be above the link's. Raises KeyError, TypeError or ValueError.
    """
    return goodput_of([row for row in did if row["kind"] not in ("udp", "ping")] or list(did))


def goodput_of(rows: Sequence[Row]) -> float:
    """Return what some flows got over one window, as `total_goodput_bps` does of all."""
    times = all(is_number(row.get(key)) for row in rows for key in ("started_s", "seconds"))
    if len(rows) == 1 or not times:
        return math.fsum(float(row["goodput_bps"]) for row in rows)
    return 8 * sum(int(row["bytes"]) for row in rows) / window_s(rows)


def window_s(did: Sequence[Row]) -> float:
    """How long some flows took together, or as much of that as is measured."""
    start_s, end_s = span_s(did)
    return end_s - start_s


def span_s(did: Sequence[Row]) -> tuple[float, float]:
    """Return some flows' first start and last end, or as much of that as is measured."""
    spans = [
        (float(row["measured_from_s"]), float(row["measured_to_s"]))
        if is_number(row.get("measured_to_s"))
        else (float(row["started_s"]), float(row["started_s"]) + float(row["seconds"]))
        for row in did
    ]
    ran = [span for span in spans if span[1] > span[0]] or spans
    return min(start for start, _ in ran), max(end for _, end in ran)


def udp_beside_bps(folder: Path) -> float | None:
    """Return what the udp flows of a run's folder got, which stand beside other kinds' goodput;
    None of a run whose goodput is that of udp flows, or that has none of them.
    """
    try:
        did = (read_object(folder / "flows.json") or {})["flows"]
        rows = [row for row in did if row["kind"] == "udp"]
        others = any(row["kind"] not in ("udp", "ping") for row in did)
        return goodput_of(rows) if rows and others else None
    except (KeyError, TypeError, ValueError, ZeroDivisionError):
        return None


def goodput_bps(folder: Path) -> float | None:
    """The same of a run's folder, in bit/s at the receivers; None where it cannot be read."""
    try:
        return total_goodput_bps((read_object(folder / "flows.json") or {})["flows"])
    except BROKEN_RECORDS:
        return None


# -- retransmissions


@dataclass(frozen=True)
class Resent:
    """Segments that the WAN's sending sockets sent again, and of how many; or packets lost."""

    segments: int
    of: int

    @property
    def share(self) -> float:
        """Of all segments sent."""
        return self.segments / self.of if self.of else 0.0


def path_leg(names: Iterable[str]) -> str:
    """The leg whose congestion control meets the path: in a VPN over UDP the connection inside."""
    return "wan" if "wan" in set(names) else "inner"


def wan_resent(folder: Path) -> Resent | None:
    """What a run's folder says was sent again across the WAN; None where it has no counts."""
    try:
        legs = (read_object(folder / "legs.json") or {})["legs"]
        crossing = path_leg(row["leg"] for row in legs)
        wan = [row for row in legs if row["leg"] == crossing]
        again = sum(int(row["segments_retransmitted"]) for row in wan)
        sent = sum(int(row["segments_out"]) for row in wan)
        return Resent(again, sent) if sent else None  # a program that sends datagrams has none
    except BROKEN_RECORDS:
        return None


def path_lost(folder: Path) -> Resent | None:
    """Packets that the path's queues dropped in the direction of the first flow's data, where no
    socket counts what was sent again: all of them, and of how many. None where nothing was sampled.
    """
    asked = read_object(folder / "run.json")
    try:
        way = loaded_direction(asked or {})
        last = {
            (row["role"], row["dev"]): row
            for row in read_series(folder, "queues")
            if row["direction"] == way
        }
        drops = sum(int(row["drops"]) for row in last.values())
        offered = (
            int(row["sent_pkts"]) + int(row["drops"])
            for (role, _), row in last.items()
            if role == "bottleneck"
        )
        return Resent(drops, max(offered))
    except BROKEN_RECORDS:
        return None


# Of a load's length: what is under way changes little from here on.
SETTLED_SHARE = 0.2


def wire_ratio(asked: Row, queues: Iterable[Row], sockets: Iterable[Row]) -> float | None:
    """Bytes that left the bottleneck, Ethernet's headers included, per byte that the sink has
    acknowledged; None where that was not sampled.

    The median over all pairs of samples that are as far apart as half of the load that is looked
    at, which is from a fifth of it to its end: while a lost segment is awaited, what arrives behind
    it is not acknowledged, and a pair that begins or ends there is off.
    """
    way, load_s = loaded_direction(asked), float(asked["duration_s"])
    sent = {
        row["t_s"]: int(row["sent_bytes"])
        for row in queues
        if (row["role"], row["direction"]) == ("bottleneck", way)
    }
    rows = list(sockets)
    names = {row["leg"] for row in rows}
    last = next((leg for leg in ("exit", "inner", "wan") if leg in names), None)
    sending = SENDING_END[asked["direction"]]
    acked: dict[float, int] = {}
    for row in rows:
        if (row["leg"], row["end"]) == (last, sending):
            acked[row["t_s"]] = acked.get(row["t_s"], 0) + int(row["bytes_acked"])
    both = sorted(sent.keys() & acked.keys())
    instants = [t_s for t_s in both if SETTLED_SHARE * load_s <= t_s <= load_s]
    half = len(instants) // 2
    pairs = zip(instants[:-half], instants[half:], strict=True) if half else ()
    slopes = [
        (sent[end] - sent[start]) / (acked[end] - acked[start])
        for start, end in pairs
        if acked[end] > acked[start]
    ]
    return median(slopes) if slopes else None


# -- the bottleneck


def data_direction(heading: str) -> str:
    """Which direction of the path the data of an upload or a download takes."""
    return "reverse" if heading == "download" else "forward"


def loaded_direction(asked: Row) -> str:
    """The direction of the path that carries the first flow's data."""
    flows = asked.get("flows") or [asked]
    return data_direction(flows[0]["direction"])


def path_of_link(asked: Row, link: str) -> Row:
    """The path of one of several links: its own, or the run's."""
    path: Row = (asked.get("links") or {}).get(link) or asked["path"]
    return path


def bottleneck_rate_bps(asked: Row, at_s: float, link: str = "") -> float | None:
    """The bottleneck's rate in the direction of the data at an instant of the load, after the
    changes so far; None: unlimited. `link`: of which, where there are several.
    """
    rate_bps = path_of_link(asked, link)[loaded_direction(asked)]["rate_bps"]
    for changed_s, changed_bps in changed_rates(asked, link):
        if changed_s <= at_s:
            rate_bps = changed_bps
    return float(rate_bps) if is_number(rate_bps) else None


def changed_rates(asked: Row, link: str) -> list[tuple[float, float]]:
    """(when in s, bit/s) of each change of a link's rate in the direction of the data, by time."""
    own = asked.get("links") or ()
    return sorted(
        (each["at_s"], float(each["rate_bps"]))
        for each in asked.get("changes") or ()
        if each["direction"] == loaded_direction(asked)
        and each.get("rate_bps")
        and touches(each, link, own)
    )


def bottleneck_samples(asked: Row, rows: Iterable[Row], until_s: float = math.inf) -> list[Row]:
    """The samples of the bottleneck's queue in the direction of the data, by time. Of several
    bottlenecks (of several links; an older lab sampled every site of a star) it is the one that
    sent most for its rate.
    """
    queues: dict[Any, list[Row]] = {}
    for row in rows:
        if (
            (row.get("role"), row.get("direction")) == ("bottleneck", loaded_direction(asked))
            and row["t_s"] <= until_s
            and is_number(row.get("sent_bytes"))
        ):
            queues.setdefault((row.get("node"), row.get("dev")), []).append(row)

    def used(rows: list[Row]) -> float:
        own = mean_of_rate_steps_bps(
            bottleneck_steps(asked, rows[-1].get("link", "")), rows[-1]["t_s"]
        )
        common = asked["path"][loaded_direction(asked)]["rate_bps"]
        of_its_own = own / common if own and common else 1.0
        return float(rows[-1]["sent_bytes"] / of_its_own)

    return max(queues.values(), key=used, default=[])


def bottleneck_used(asked: Row, rows: Iterable[Row], until_s: float = math.inf) -> float | None:
    """The share of the bottleneck's rate that was in use, in the median interval between samples;
    of the rate that it had at that moment. None without a rate or two samples.
    """
    shares = []
    for before, after in pairwise(bottleneck_samples(asked, rows, until_s)):
        rate_bps = bottleneck_rate_bps(asked, before["t_s"], before.get("link", ""))
        seconds = after["t_s"] - before["t_s"]
        if rate_bps and seconds > 0:
            shares.append(8 * (after["sent_bytes"] - before["sent_bytes"]) / seconds / rate_bps)
    return median(shares) if shares else None


# -- the CPU


def idle_share(
    rows: Iterable[Row], since_s: float = -math.inf, until_s: float = math.inf
) -> float | None:
    """The idle share of the CPU, which all hosts share, or of the busiest host's where each has its
    own: in the median interval between samples of hosts.jsonl; of the time that the kernel counted,
    busy and idle. None without two samples.

    Not the share of the whole: while connections open and the last data drain the CPU rests, and a
    run that had none left for all of its seconds between would look as if it had.
    """
    return least_idle_cpu(rows, since_s, until_s)[1]


def least_idle_cpu(
    rows: Iterable[Row], since_s: float = -math.inf, until_s: float = math.inf
) -> tuple[str | None, float | None]:
    """The host whose CPUs were the least idle, None where all hosts share one, and idle_share."""
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


def busy_shares(rows: Iterable[Row]) -> dict[str, float]:
    """How busy each host's own CPUs were, in the median interval; {} where all share one."""
    counted = list(rows)
    hosts = counted[-1].get("host_busy_s", {}) if counted else {}
    idle = {
        host: median_idle(
            (row["t_s"] - row["host_busy_s"][host], row["host_busy_s"][host]) for row in counted
        )
        for host in hosts
    }
    return {host: 1 - share for host, share in idle.items() if share is not None}


def packets_share(rows: Iterable[Row], host: str) -> float | None:
    """What a host's own CPUs did to receive packets, of all; None where nothing was counted."""
    last = max(rows, key=lambda row: row["t_s"], default={})
    busy_s = (last.get("host_busy_s") or {}).get(host)
    packets_s = (last.get("host_packets_s") or {}).get(host)
    return None if not busy_s or packets_s is None else min(1.0, packets_s / busy_s)


def median_idle(counted: Iterable[tuple[float, float]]) -> float | None:
    """The idle share in the median interval between counts (idle, busy); None of less than two."""
    shares = []
    for (idle_before, busy_before), (idle_after, busy_after) in pairwise(counted):
        idle, busy = idle_after - idle_before, busy_after - busy_before
        if idle + busy > 0:
            shares.append(idle / (idle + busy))
    return median(shares) if shares else None


# -- delays under load


def srtt_ms(asked: Row, did: Sequence[Row], rows: Iterable[Row]) -> Spread | None:
    """The round trip under load: median and 95th percentile of the kernel's smoothed RTT (srtt of
    tcp_info, RFC 6298) over the time of every socket that sent the flows' data across the WAN.

    A sample stands until the sampler's next instant, and only while the socket's own flow was
    active; every socket's seconds count alike, so of two flows the longer counts for more. The
    median is the least value that half of those seconds did not exceed. In a tunnel it is the WAN
    leg's RTT, not that of the connections to its ends. None where no such socket was sampled, as
    for udp.
    """
    return spread(held for held, _ in srtt_held(asked, did, rows))


def srtt_held(asked: Row, did: Sequence[Row], rows: Iterable[Row]) -> list[tuple[HeldValue, str]]:
    """(srtt in ms and how long it stood, its flow) of all that `srtt_ms` is a summary of."""
    flows = {flow.name: flow for flow in active_flows(asked, did)}
    only = next(iter(flows.values())) if len(flows) == 1 else None
    sampled = list(rows)
    following = next_instants(sampled)
    crossing = path_leg(str(row.get("leg")) for row in sampled)
    found = []
    for row in sampled:
        flow = flows.get(row.get("flow") or "", only)
        if flow is None or not is_number(row.get("srtt_ms")) or row.get("leg") != crossing:
            continue
        if row.get("end", SENDING_END[flow.direction]) != SENDING_END[flow.direction]:
            continue
        seconds = standing_s(row["t_s"], following, flow.start_s, flow.end_s)
        if seconds > 0:
            found.append((HeldValue(row["srtt_ms"], seconds), flow.name))
    return found


def queue_delay_ms(asked: Row, did: Sequence[Row], rows: Iterable[Row]) -> Spread | None:
    """How long a packet that arrived at the bottleneck would have waited: median and 95th
    percentile over the time of the load.

    That is until the backlog of that moment has been sent, at the rates that the path then has one
    after the other: a queue before an outage of a second waits for a second, not for backlog /
    the outage's rate. What is still there when the load ends goes at its last rate, and if that is
    an outage's (below OUTAGE_SHARE of the greatest), nobody knows how long: such a sample is left
    out. A sample stands until the next, and only from the first flow's start to the last one's end.
    None without a rate or a sample.
    """
    flows = active_flows(asked, did)
    start_s, end_s = min(flow.start_s for flow in flows), max(flow.end_s for flow in flows)
    queue = bottleneck_samples(asked, rows)
    following = next_instants(queue)
    steps = bottleneck_steps(asked, queue[0].get("link", "") if queue else "")
    held = []
    for row in queue:
        seconds = standing_s(row["t_s"], following, start_s, end_s)
        if not steps or seconds <= 0 or not is_number(row.get("backlog_bytes")):
            continue
        waited_s = draining_s(steps, row["t_s"], 8 * row["backlog_bytes"])
        if waited_s is not None:
            held.append(HeldValue(1000 * waited_s, seconds))
    return spread(held)


# A rate below this share of the path's greatest is an outage: a trace writes what carries nothing
# as 1 kbit/s.
OUTAGE_SHARE = 0.001


def bottleneck_steps(asked: Row, link: str = "") -> list[tuple[float, float]]:
    """(since when in s, bit/s) of the bottleneck in the direction of the data, by time; [] without
    a rate. `link`: of which, where there are several.
    """
    heading = loaded_direction(asked)
    rate_bps = path_of_link(asked, link)[heading]["rate_bps"]
    if not is_number(rate_bps) or rate_bps <= 0:
        return []
    return [(-math.inf, float(rate_bps)), *changed_rates(asked, link)]


def mean_of_rate_steps_bps(steps: Sequence[tuple[float, float]], until_s: float) -> float | None:
    """The mean rate of such steps from 0 to an instant; None without a rate or such a time."""
    if not steps or until_s <= 0:
        return steps[0][1] if steps else None
    from_the_start = [(max(0.0, at_s), rate_bps) for at_s, rate_bps in steps]
    return CapacityOf(from_the_start).bits(0.0, until_s) / until_s


def draining_s(steps: Sequence[tuple[float, float]], at_s: float, bits: float) -> float | None:
    """How long a bottleneck needs from an instant for so many bits; None: an outage at the end."""
    place = bisect_right(steps, at_s, key=lambda step: step[0]) - 1
    now_s, left = at_s, bits
    while place + 1 < len(steps):
        until_s, rate_bps = steps[place + 1][0], steps[place][1]
        if left <= rate_bps * (until_s - now_s):
            return (now_s - at_s) + left / rate_bps
        left -= rate_bps * (until_s - now_s)
        now_s, place = until_s, place + 1
    last_bps = steps[-1][1]
    if left and last_bps < OUTAGE_SHARE * max(rate for _, rate in steps):
        return None
    return (now_s - at_s) + left / last_bps


def latency(folder: Path) -> Latency | None:
    """A run folder's delays; without samples its idle RTT; None where run.json lacks the path."""
    asked = read_object(folder / "run.json")
    if asked is None:
        return None
    did = (read_object(folder / "flows.json") or {}).get("flows") or []
    try:
        return Latency(
            idle_rtt_ms(asked),
            srtt_ms(asked, did, read_series(folder, "sockets")),
            queue_delay_ms(asked, did, read_series(folder, "queues")),
        )
    except BROKEN_RECORDS:
        return None


def idle_rtt_ms(asked: Row) -> float:
    """The configured round trip without any queue, of the flow that has the shortest."""
    path_ms = math.fsum(asked["path"][way]["delay_ms"] for way in ("forward", "reverse"))
    own = [flow.get("rtt_ms") for flow in asked.get("flows") or ()]
    return float(min((each for each in own if each is not None), default=path_ms))


def active_flows(asked: Row, did: Sequence[Row]) -> list[ActiveInterval]:
    """When each flow was active in the part of the load that is measured: as its row says, never
    longer than asked. An older lab had one flow and did not name it.
    """
    own = {"name": "flow1", "direction": asked["direction"], "duration_s": asked["duration_s"]}
    from_s, to_s = measured_window_s(asked)
    measured = {row["name"]: row for row in did}
    found = []
    for flow in asked.get("flows") or [own]:
        row = measured.get(flow["name"], {})
        started_s, ended_s = row.get("started_s"), row.get("ended_s")
        start_s = flow.get("start_s") or 0.0 if started_s is None else started_s
        end_s = min(start_s + flow["duration_s"], math.inf if ended_s is None else ended_s)
        within = max(start_s, from_s), min(end_s, to_s)
        found.append(ActiveInterval(flow["name"], *within, flow["direction"]))
    return found


def measured_window_s(asked: Row) -> tuple[float, float]:
    """From when to when of the load a run's results are taken over."""
    return float(asked.get("measure_from_s") or 0.0), float(asked.get("measure_to_s") or math.inf)


def measured_words(asked: Row) -> str:
    """The same for people: the whole load; 40 s to 100 s of the load."""
    from_s, to_s = measured_window_s(asked)
    if (from_s, to_s) == (0.0, math.inf):
        return "the whole load"
    return f"{from_s:g} s to {'the end' if to_s == math.inf else f'{to_s:g} s'} of the load"


def next_instants(rows: Iterable[Row]) -> dict[float, float]:
    """Instant of sampling -> the next one; the last one stands to the end of whatever is asked."""
    instants = sorted({row["t_s"] for row in rows})
    return dict(zip(instants, [*instants[1:], math.inf], strict=True)) if instants else {}


def standing_s(
    at_s: float, following: Mapping[float, float], start_s: float, end_s: float
) -> float:
    """How much of a time the sample of an instant stands for."""
    return min(following[at_s], end_s) - max(at_s, start_s)


def spread(held: Iterable[HeldValue]) -> Spread | None:
    """Median and 95th percentile over time; None of no time."""
    ordered = sorted(held, key=lambda each: each.value)
    if not ordered:
        return None
    return Spread(quantile(ordered, 0.5), quantile(ordered, 0.95))


def quantile(ordered: Sequence[HeldValue], share: float) -> float:
    """The least of ordered values that a share of their time did not exceed."""
    needed_s = share * math.fsum(each.seconds for each in ordered)
    passed_s = 0.0
    for each in ordered:
        passed_s += each.seconds
        if passed_s >= needed_s * (1 - 1e-12):
            return each.value
    return ordered[-1].value
