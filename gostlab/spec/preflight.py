"""Known traps, looked for before a run starts: what in its description would spoil its number, and
by how much.

An error is a run whose number would answer another question: it is not started. A warning is for
a reader of the number; it is said once before a matrix runs, and stands in fidelity.json of every
run that it holds for.
"""

import math
from bisect import bisect_left
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, astuple, dataclass, replace
from functools import lru_cache
from typing import Any

from gostlab.registry.congestion_controls import needs_accurate_ecn
from gostlab.registry.kernels import version_of
from gostlab.registry.qdiscs import qdisc_kinds
from gostlab.registry.topologies import topology_of
from gostlab.registry.tunnels import tunnel_kind
from gostlab.spec import units
from gostlab.spec.checks import Check
from gostlab.spec.flow import FlowSpec, delays_ms
from gostlab.spec.flow_windows import flow_windows
from gostlab.spec.link_paths import memory_path, touches
from gostlab.spec.run_spec import RunSpec
from gostlab.tcpmodel import buffer_sizing
from gostlab.tcpmodel.constants import (
    DELAY_LIMIT_PKTS,
    DISTRIBUTION_SCALE,
    FIRST_WINDOW_PKTS,
    MIN_ROUND_TRIPS,
    MTU_BYTES,
    SUPER_PACKETS,
    UDP_BURST_PKTS,
    UNLIMITED_BPS,
)
from gostlab.tcpmodel.response import bdp_bytes, window_limit_bps

# A burst above this share of the path's own content is a queue that no rate requested.
BURST_SHARE = 0.1
# A super-packet: what segmentation offload hands down at once, 64 kB of full segments.
LUMP_PKTS = 65_536 // MTU_BYTES
# A few changes of rate under netem differ from a token bucket's only while the old queue drains.
MAX_NETEM_RATES = 10
# How likely a hash that puts two flows into one queue must be to be said.
SHARED_QUEUE_CHANCE = 0.05
# Steps of the integral over jitter: the share is then exact to a few in ten thousand.
JITTER_STEPS = 1000
# The warnings after which a number may be another than the one requested, each with what has a say
# then: lumps instead of packets (offloads_loss, offloads_queue, burst), slow start
# (few_round_trips). The others leave it what was asked: window_limit, as those sizes were written
# down, and the default is Debian's on purpose; reordering, as netem's jitter is such, and `ordered`
# asks for the other; tcp_memory and no_rate, as the run itself measures whether memory or the CPU
# had a say (the checks tcp_memory and cpu_idle_share).
SPOILING = frozenset({"offloads_loss", "offloads_queue", "burst", "few_round_trips"})


@dataclass(frozen=True)
class Guard:
    """A trap that a run walks into, and the number that decides."""

    name: str
    sentence: str
    asked: float | None
    limit: float | None
    unit: str
    level: str = "warning"  # | error

    @property
    def distance(self) -> float:
        """How far beyond its limit, as a ratio: of several, the largest is shown."""
        if not self.asked or not self.limit:
            return math.inf
        return max(self.asked / self.limit, self.limit / self.asked)


def guards(run: RunSpec) -> tuple[Guard, ...]:
    """The traps that a run walks into: of several of one name, the worst."""
    found: dict[str, Guard] = {}
    alone, whole = list(each_link(run)), [run]
    for look, at in (
        (delay_line, alone),  # what concerns a path concerns that of each link
        (offloads, alone),
        (memory, whole),
        (rates, alone),
        (replays, whole),
        (windows, whole),
        (tunnel_windows, whole),
        (unmarked, whole),
        (shared_queues, whole),
        (bursts, whole),
        (short_queues, whole),
        (reordering, alone),
        (ordering, alone),
        (least_buffers, alone),
        (hops_in_a_row, whole),
        (lengths, whole),
        (meetings, whole),
        (senders, whole),
    ):
        for guard in (guard for each in at for guard in look(each)):
            if guard.name not in found or guard.distance > found[guard.name].distance:
                found[guard.name] = guard
    return tuple(found.values())


def each_link(run: RunSpec) -> Iterator[RunSpec]:
    """The run over each link's path alone that is its own or named by a change, and the others'."""
    named = {change["link"] for change in run.changes if "link" in change}
    for link in ("", *dict.fromkeys([*run.links, *sorted(named)])):
        touching = [change for change in run.changes if touches(change, link, run.links)]
        alone = replace(run, path=run.links.get(link, run.path), links={}, hops=1)
        unnamed = ({key: each[key] for key in each if key != "link"} for each in touching)
        yield replace(alone, changes=list(unnamed))


def checks(run: RunSpec) -> list[Check]:
    """The same as lines of fidelity.json."""
    return [
        Check(
            f"guard_{guard.name}",
            "degraded" if guard.level == "error" or guard.name in SPOILING else "ok",
            guard.limit,
            guard.asked,
            guard.unit,
            guard.sentence,
        )
        for guard in guards(run)
    ]


@dataclass(frozen=True)
class Warned:
    """A warning of a matrix: the worst of its runs', and how many have it."""

    matrix: str
    guard: Guard
    runs: int
    of: int

    @property
    def line(self) -> str:
        return f"warning: {self.matrix}, {self.runs} of {self.of} runs: {self.guard.sentence}"

    def to_json(self) -> dict[str, Any]:
        return {"matrix": self.matrix, "runs": self.runs, "of": self.of, **asdict(self.guard)}


def survey(runs: Iterable[RunSpec]) -> tuple[list[tuple[RunSpec, Guard]], list[Warned]]:
    """All runs' errors, and their warnings once per kind and matrix."""
    errors: list[tuple[RunSpec, Guard]] = []
    held: dict[tuple[str, str], list[Guard]] = {}
    of = Counter[str]()
    for run in runs:
        of[run.matrix] += 1
        for guard in guards(run):
            if guard.level == "error":
                errors.append((run, guard))
            else:
                held.setdefault((run.matrix, guard.name), []).append(guard)
    return errors, [
        Warned(matrix, max(found, key=lambda each: each.distance), len(found), of[matrix])
        for (matrix, _), found in sorted(held.items())
    ]


def delay_line(run: RunSpec) -> Iterator[Guard]:
    """netem counts what is in flight against its limit, and drops what is too much. In flight is no
    more than rate times delay, and no more than all senders' buffers together.
    """
    held_bytes = sum(
        flow.streams * min(flow.buffers["rmem"][2], flow.buffers["wmem"][2])
        if isinstance(flow.buffers, Mapping)
        else math.inf
        for flow in run.flows
    )
    for way, lines in delay_lines_ms(run).items():
        jitter_ms = largest(run, way, "jitter_ms") * reach(run.path[way]["distribution"])[1]
        longest_s = (max(lines) + jitter_ms) / 1000
        rate_bps = largest(run, way, "rate_bps") or UNLIMITED_BPS
        packets = min(held_bytes / MTU_BYTES, rate_bps * longest_s / (8 * MTU_BYTES))
        if packets > DELAY_LIMIT_PKTS:
            sentence = (
                f"{packets:.0f} packets can be in flight {way}, and the delay line holds "
                f"{DELAY_LIMIT_PKTS}: it would drop the rest (a lower rate or delay)"
            )
            asked = round(packets), DELAY_LIMIT_PKTS, "packets"
            yield Guard("delay_line", sentence, *asked, level="error")


def offloads(run: RunSpec) -> Iterator[Guard]:
    """Offloads hand netem super-packets: one drop loses up to 43 segments, one queued is 64 kB."""
    if not run.offloads:
        return
    allowed = SUPER_PACKETS in run.allow
    instead = "allowed, for repeating somebody's testbed" if allowed else "offloads: off, or auto"
    for way in run.path:
        changed = (change["loss"] for change in changes(run, way) if "loss" in change)
        for loss in (run.path[way]["loss"], *changed):
            if not buffer_sizing.lossless(loss):
                sentence = (
                    f"offloads are on and the {way} direction loses packets: each loss would take"
                    f" up to {LUMP_PKTS} segments at once ({instead})"
                )
                level = "warning" if allowed or "offloads" in run.factors else "error"
                yield Guard("offloads_loss", sentence, LUMP_PKTS, 1, "packets", level)
    flow, *others = run.flows
    max_bytes = flow_windows(run, flow).max_bytes
    if (
        run.changes
        or others
        or not buffer_sizing.queue_never_decides(run.path, flow.direction, max_bytes)
    ):
        limit_bps = buffer_sizing.OFFLOAD_SHARE * min(rate_of(run, flow) for flow in run.flows)
        wanted_bps = sum(wanted(run, flow) for flow in run.flows)
        sentence = (
            "offloads are on where the queue (or jitter) decides: packets come in lumps of up to"
            f" {LUMP_PKTS}, and what is queued, dropped or overtaken is lumps (the flows want"
            f" {units.show_rate(wanted_bps)}; up to {units.show_rate(limit_bps)} no"
            " queue builds)"
        )
        yield Guard("offloads_queue", sentence, round(wanted_bps), round(limit_bps), "bit/s")


def memory(run: RunSpec) -> Iterator[Guard]:
    """The sandbox's memory, and TCP's limit, against what the streams' buffers can hold."""
    if run.machine != "sandbox":
        return
    path = memory_path(run.path, run.links, run.hops)
    legs = len(tunnel_kind(run.tunnel).legs_over(run.hops))
    needed_mib = sum(
        buffer_sizing.tcp_memory_needed_mib(flow.streams, legs, flow.buffers, path)
        for flow in run.flows
    )
    if run.tcp_memory_mib < needed_mib:
        sentence = (
            f"TCP may hold {run.tcp_memory_mib} MiB, and full buffers would be {needed_mib}: "
            "above half of its limit no window grows any more"
        )
        yield Guard("tcp_memory", sentence, run.tcp_memory_mib, needed_mib, "MiB")
    least_mib = buffer_sizing.memory_needed_mib(min(run.tcp_memory_mib, needed_mib) // 2, path)
    if run.memory_mib < least_mib:
        sentence = (
            f"the sandbox has {run.memory_mib} MiB, and kernel, packets and sockets can take "
            f"{least_mib}: it would run out in the middle (memory: auto, or a lower tcp_memory)"
        )
        yield Guard("memory", sentence, run.memory_mib, least_mib, "MiB", "error")


def rates(run: RunSpec) -> Iterator[Guard]:
    """Without a rate nothing paces or queues; on the real clock alone (resolve.run.check_paths)."""
    for way in data_ways(run):
        if run.path[way]["rate_bps"] is None:
            sentence = (
                f"the {way} direction has no rate: the CPU is its bottleneck, without a queue"
            )
            yield Guard("no_rate", sentence, None, None, "bit/s")


def replays(run: RunSpec) -> Iterator[Guard]:
    """netem keeps the rate of a packet's arrival: one from an outage holds up all behind it."""
    changes = sum("rate_bps" in change for change in run.changes)
    if run.bottleneck == "netem" and changes > MAX_NETEM_RATES:
        sentence = (
            f"the rate changes {changes} times, and netem's queue keeps the rate at which a packet"
            " came: bottleneck: tbf follows each change at once"
        )
        yield Guard("netem_rates", sentence, changes, MAX_NETEM_RATES, "changes")


def windows(run: RunSpec) -> Iterator[Guard]:
    """A flow whose buffers allow less than what path and queue hold is limited by them, whatever
    the congestion control. Debian's are the default on purpose; `bdp` makes them large enough.
    """
    for flow in run.flows:
        found = flow_windows(run, flow)
        if not flow.is_tcp or math.isinf(found.max_bytes) or not flow.rtt_ms:
            continue
        rate_bps = rate_of(run, flow)
        path_bytes = bdp_bytes(rate_bps, flow.rtt_ms / 1000)
        needed = path_bytes + room_pkts(run, flow) * MTU_BYTES
        if found.min_bytes >= needed:
            continue
        which = f"{flow.name}'s" if len(run.flows) > 1 else "the"
        held = " to ".join(dict.fromkeys(map(units.show_size, (found.min_bytes, found.max_bytes))))
        what = f"{which} {held} of window are less than the {units.show_size(needed)} that path and"
        limits_bps = (window_limit_bps(each, flow.rtt_ms / 1000) for each in astuple(found))
        shown = dict.fromkeys(units.show_rate(min(each, rate_bps)) for each in limits_bps)
        effect = (
            f"about {' to '.join(shown)} of {units.show_rate(rate_bps)}, by any congestion control"
            if found.min_bytes < path_bytes
            else "the queue is never full"
            if found.max_bytes < needed
            else "the queue may never be full"
        )
        sentence = f"{what} queue hold: {effect}"
        yield Guard("window_limit", sentence, round(found.min_bytes), round(needed), "B")


def tunnel_windows(run: RunSpec) -> Iterator[Guard]:
    """A window of the tunnel's own, beside TCP's: what its program lets one stream have in flight,
    and of OpenVPN over TCP what its fixed socket buffers hold.
    """
    kind = tunnel_kind(run.tunnel)
    for flow in run.flows:
        if not run.tunnel_way(flow) or not flow.is_tcp or not flow.rtt_ms:
            continue
        rate_bps = rate_of(run, flow)
        path_bytes = bdp_bytes(rate_bps, flow.rtt_ms / 1000)
        back = flow.data_way == "reverse"
        windows: dict[str, float] = {}
        if kind.stream_windows[back]:
            together = kind.connection_windows[back] or math.inf
            windows[kind.windows_by] = min(flow.streams * kind.stream_windows[back], together)
        if kind.over == "tcp" and kind.is_vpn:
            windows |= openvpn_windows(run)
        for whose, window in windows.items():
            if window < path_bytes:
                limit_bps = window_limit_bps(window, flow.rtt_ms / 1000)
                sentence = (
                    f"{whose} lets {flow.name} have {units.show_size(window)} in flight: at most"
                    f" {units.show_rate(limit_bps)} of {units.show_rate(rate_bps)} in a round trip"
                    f" of {flow.rtt_ms:g} ms, by any congestion control"
                )
                yield Guard("tunnel_window", sentence, round(window), round(path_bytes), "B")


def openvpn_windows(run: RunSpec) -> Iterator[tuple[str, float]]:
    """What sndbuf and rcvbuf hold of packets of one segment each. The kernel doubles a size that a
    program sets (socket(7)); a writer that waits is woken when a third of it is free.
    """
    inside = tunnel_kind(run.tunnel).inner_mtu(run.mtu)
    share = buffer_sizing.receive_window_share(version_of(run.kernel), inside, super_packets=False)
    for name, part in (
        ("sndbuf", 2 / 3 * inside / (inside + buffer_sizing.SKB_OVERHEAD_BYTES)),
        ("rcvbuf", share),
    ):
        if name in run.tunnel_options:
            size = run.tunnel_options[name]
            yield f"OpenVPN's {name} of {units.show_size(size)}", 2 * part * size


def unmarked(run: RunSpec) -> Iterator[Guard]:
    """A scalable congestion control across queues that never mark: losses alone slow it."""
    for flow in run.flows:
        if run.ecn == "off" and flow.is_tcp and needs_accurate_ecn(flow.cc or ""):
            sentence = (
                f"{flow.name}'s {flow.cc} meets no queue that marks packets: it answers losses"
                " alone, as Reno does (ecn: l4s with queue: dualpi2, or fq_codel, marks)"
            )
            yield Guard("unmarked", sentence, None, None, "")
            return


def shared_queues(run: RunSpec) -> Iterator[Guard]:
    """A queue for each flow by a hash: of many flows two share one, and each has half a share."""
    queues = qdisc_kinds()[run.queue].flow_queues if run.queue in qdisc_kinds() else 0
    connections = sum(flow.streams for flow in run.flows)
    if not queues or connections < 2:
        return
    apart = math.prod(1 - index / queues for index in range(min(connections, queues + 1)))
    if 1 - apart >= SHARED_QUEUE_CHANCE:
        sharing = connections * (1 - (1 - 1 / queues) ** (connections - 1))
        sentence = (
            f"{run.queue} hashes {connections} connections into {queues} queues: in"
            f" {1 - apart:.0%} of runs at least two share one, and each of those gets half of what"
            f" others get ({sharing:.2g} connections on average)"
        )
        yield Guard("shared_queue", sentence, round(1 - apart, 4), SHARED_QUEUE_CHANCE, "")


def bursts(run: RunSpec) -> Iterator[Guard]:
    """What leaves a sender back to back: beyond a tenth of the path's content it makes queues."""
    for flow in run.flows:
        # The system's iperf3 may be of either kind.
        datagrams = UDP_BURST_PKTS if flow.kind == "udp" and run.iperf3 != "3.18" else 1
        burst = max(datagrams, LUMP_PKTS if run.offloads else 1)
        limit = BURST_SHARE * bdp_bytes(rate_of(run, flow), flow.rtt_ms / 1000) / MTU_BYTES
        if burst > max(1, limit):
            sentence = (
                f"{flow.name} sends {burst} packets back to back where the path holds "
                f"{limit / BURST_SHARE:.3g}: bursts, not rates, make the queue"
            )
            yield Guard("burst", sentence, burst, round(limit, 3), "packets")


def short_queues(run: RunSpec) -> Iterator[Guard]:
    """A queue that a first window fills: what TCP sends at once is lost, at every start."""
    for flow in run.flows:
        room = room_pkts(run, flow)
        if flow.is_tcp and 0 < room < FIRST_WINDOW_PKTS:
            sentence = (
                f"{flow.name} meets a queue of {room} packets, less than TCP's first window of "
                f"{FIRST_WINDOW_PKTS}: it loses at every start"
            )
            yield Guard("short_queue", sentence, room, float(FIRST_WINDOW_PKTS), "packets")


def reordering(run: RunSpec) -> Iterator[Guard]:
    """Jitter that spreads further than packets are apart lets some overtake others."""
    for way in data_ways(run):
        jitter_ms, table = largest(run, way, "jitter_ms"), run.path[way]["distribution"]
        low, high = reach(table)
        spread_ms = jitter_ms * (high - low)
        spacing_ms = 8000 * MTU_BYTES / (largest(run, way, "rate_bps") or UNLIMITED_BPS)
        if run.path[way]["ordered"] or spread_ms <= spacing_ms:
            continue
        share = overtaken_share(spacing_ms / jitter_ms, tuple(table) if table else None)
        sentence = (
            f"jitter spreads packets over {spread_ms:.3g} ms, and at the full rate they are"
            f" {spacing_ms:.3g} ms apart: {share:.0%} of them then come after a later one (ordered:"
            " on keeps the order)"
        )
        yield Guard("reordering", sentence, spread_ms, round(spacing_ms, 6), "ms")


def ordering(run: RunSpec) -> Iterator[Guard]:
    """Jitter that keeps the order makes packets wait for slower ones before them: a dense flow's
    round trip is longer than the delays say. ACKs are taken to be half as dense as data.
    """
    for way in data_ways(run):
        spacing_ms = 8000 * MTU_BYTES / (largest(run, way, "rate_bps") or UNLIMITED_BPS)
        longer_ms = spread_ms = 0.0
        for each in run.path:
            jitter_ms, table = largest(run, each, "jitter_ms"), run.path[each]["distribution"]
            if not (run.path[each]["ordered"] and jitter_ms):
                continue
            low, high = reach(table)
            spread_ms = max(spread_ms, jitter_ms * (high - low))
            apart = spacing_ms * (1 if each == way else 2) / jitter_ms
            longer_ms += jitter_ms * ordering_delay(apart, tuple(table) if table else None)
        if spread_ms > spacing_ms:
            sentence = (
                f"ordered: on lets no packet overtake a slower one: at the full rate the {way} data"
                f" and their ACKs take about {longer_ms:.3g} ms more than the idle round trip"
            )
            yield Guard("ordering", sentence, spread_ms, round(spacing_ms, 6), "ms")


def least_buffers(run: RunSpec) -> Iterator[Guard]:
    """A buffer of 1bdp or more has room for TCP's first window: on a short path that is more than
    was written.
    """
    rtt_s = sum(run.path[way]["delay_ms"] for way in run.path) / 1000
    for way in data_ways(run):
        rate_bps, room = run.path[way]["rate_bps"], run.path[way]["buffer_pkts"]
        bdp_pkts = bdp_bytes(rate_bps or 0, rtt_s) / run.mtu
        if room == FIRST_WINDOW_PKTS and 0 < round(bdp_pkts, 1) < FIRST_WINDOW_PKTS - 0.5:
            sentence = (
                f"the {way} queue holds {room} packets, and the path's BDP is {bdp_pkts:.2g}: a"
                f" buffer of 1bdp or more has room for TCP's first window ({room}pkts says so,"
                f" {max(1, round(bdp_pkts))}pkts is the BDP)"
            )
            yield Guard("least_buffer", sentence, round(bdp_pkts, 3), float(room), "packets")


def hops_in_a_row(run: RunSpec) -> Iterator[Guard]:
    """Of two hops the second is the path again, unless it has one of its own."""
    if run.hops > 1 and "hop2" not in run.links:
        once_ms = sum(run.path[way]["delay_ms"] for way in run.path)
        sentence = (
            f"{run.hops} hops are the path {run.hops} times in a row: the idle round trip is"
            f" {run.hops * once_ms:g} ms, each hop's {once_ms:g} ms (links: {{hop2: …}} gives the"
            " second a path of its own)"
        )
        yield Guard("hops", sentence, run.hops * once_ms, once_ms, "ms")


def lengths(run: RunSpec) -> Iterator[Guard]:
    """A flow of fewer than twenty round trips is mostly its own beginning (an http flow never)."""
    for flow in run.flows:
        rtt_ms = flow.rtt_ms + sum(
            largest(run, way, "delay_ms") - run.path[way]["delay_ms"] for way in run.path
        )
        least_s = MIN_ROUND_TRIPS * rtt_ms / 1000
        if flow.traffic.by_iperf3 and flow.duration_s < least_s:
            sentence = (
                f"{flow.name} lasts {flow.duration_s:g} s, less than {MIN_ROUND_TRIPS} "
                f"round trips of {rtt_ms:g} ms: mostly its own beginning"
            )
            yield Guard("few_round_trips", sentence, flow.duration_s, round(least_s, 3), "s")


def meetings(run: RunSpec) -> Iterator[Guard]:
    """A flow that starts when all others are over meets none of them."""
    for flow in run.flows:
        others_s = max((each.end_s for each in run.flows if each is not flow), default=math.inf)
        if flow.start_s >= others_s:
            sentence = (
                f"{flow.name} starts at {flow.start_s:g} s, when every other flow is over"
                f" ({others_s:g} s): they do not meet"
            )
            yield Guard("flow_alone", sentence, flow.start_s, others_s, "s")


def senders(run: RunSpec) -> Iterator[Guard]:
    """Who sends datagrams across the path has a congestion control of its own, or none."""
    kind = tunnel_kind(run.tunnel)
    if not kind.sent_by:
        return
    inside = "is of the TCP inside" if kind.is_vpn else "has no say there"
    seen = "no socket" if not kind.is_vpn else "only the socket inside"
    sentence = (
        f"{kind.sent_by} sends across the path: the kernel's congestion control {inside}, and"
        f" {seen} tells RTT and losses (the path's queues do)"
    )
    name = f"sent_by_{kind.sent_by.split()[0].lower()}"
    yield Guard(name, sentence, None, None, "")


def changes(run: RunSpec, way: str) -> list[Mapping[str, Any]]:
    return [change for change in run.changes if change["direction"] == way]


def largest(run: RunSpec, way: str, key: str) -> float:
    """The largest that a direction's rate, delay or jitter ever is; 0 for no rate."""
    return max(run.path[way][key] or 0, *(change.get(key, 0) for change in changes(run, way)), 0)


def delay_lines_ms(run: RunSpec) -> dict[str, list[float]]:
    """The longest delay of every delay line that the flows' packets cross, by direction."""
    found: dict[str, list[float]] = {}
    own = delays_ms(run.flows, run.path) if topology_of(run.topology).own_rtts else {}
    for way, ends in (
        ("forward", {flow.receiver for flow in run.flows}),
        ("reverse", {flow.sender for flow in run.flows}),
    ):
        extra_ms = largest(run, way, "delay_ms") - run.path[way]["delay_ms"]
        found[way] = [own.get(end, run.path[way]["delay_ms"]) + extra_ms for end in sorted(ends)]
    return found


def data_ways(run: RunSpec) -> list[str]:
    return sorted({flow.data_way for flow in run.flows})


def rate_of(run: RunSpec, flow: FlowSpec) -> float:
    """The most that a flow's direction ever carries, bit/s: the slowest of the links on its way."""
    ahead_way = flow.data_way
    other_way = "reverse" if ahead_way == "forward" else "forward"
    found = []
    for link, ahead in run.links_of(flow) or [("", True)]:
        way = ahead_way if ahead else other_way
        rates = [change.get("rate_bps") or 0 for change in run.changes_of(link, way)]
        found.append(max([run.links.get(link, run.path)[way]["rate_bps"] or 0, *rates]))
    return min((rate for rate in found if rate), default=UNLIMITED_BPS)


def room_pkts(run: RunSpec, flow: FlowSpec) -> int:
    """What the queue of a flow's slowest link may hold, in packets."""
    ways = [path[flow.data_way] for path in run.paths_of(flow)]
    slowest = min(ways, key=lambda way: way["rate_bps"] or UNLIMITED_BPS)
    return slowest["buffer_pkts"] or 0


def wanted(run: RunSpec, flow: FlowSpec) -> float:
    """What a flow would send if held by its windows or its own rate alone, bit/s."""
    if flow.kind == "udp":
        return float(flow.rate_bps or 0)
    if flow.kind == "ping":
        return 0.0
    window = flow_windows(run, flow).max_bytes
    if math.isinf(window) or not flow.rtt_ms:
        return rate_of(run, flow)
    return window_limit_bps(window, flow.rtt_ms / 1000)


def reach(table: Sequence[int] | None) -> tuple[float, float]:
    """How far jitter reaches around the delay, in jitters: evenly -1 to 1 without a table."""
    least, most = (min(table), max(table)) if table else (-DISTRIBUTION_SCALE, DISTRIBUTION_SCALE)
    return least / DISTRIBUTION_SCALE, most / DISTRIBUTION_SCALE


@lru_cache(maxsize=1000)
def overtaken_share(spacing: float, table: tuple[int, ...] | None = None) -> float:
    """The share of packets, sent `spacing` jitters apart, that arrive after one sent later
    (reordered in RFC 4737's sense).

    A packet that is delayed by x is in order if none of those behind it, k spacings later, has a
    delay below x - k spacings: the product of 1 - F(x - k spacing) over k, and its mean over x. F
    is the delay's distribution, even or a table's.
    """
    below, delays = distribution_of(table)
    least = min(delays)
    in_order = 0.0
    for x in delays:
        product, behind = 1.0, x - spacing
        while behind > least and product > 1e-6:
            product *= 1 - below(behind)
            behind -= spacing
        in_order += product
    return 1 - in_order / len(delays)


@lru_cache(maxsize=1000)
def ordering_delay(spacing: float, table: tuple[int, ...] | None = None) -> float:
    """Return by how many jitters packets, sent `spacing` jitters apart, are delayed on average if
    none may overtake another.

    A packet leaves when all before it have: with the largest of x_k - k spacings over k from 0,
    x_k being the k-th before it. That is at most y with the product of F(y + k spacing) over k,
    and the mean is low + the integral of 1 - that product from low to high.
    """
    below, _ = distribution_of(table)
    low, high = reach(table)
    step = (high - low) / JITTER_STEPS
    mean = low
    for number in range(JITTER_STEPS):
        product, y = 1.0, low + (number + 0.5) * step
        while y < high and product > 1e-6:
            product *= below(y)
            y += spacing
        mean += (1 - product) * step
    return mean


def distribution_of(
    table: Sequence[int] | None,
) -> tuple[Callable[[float], float], Sequence[float]]:
    """Return the share of delays below one, and delays in order, all in jitters: even ones, or a
    table's.
    """
    if not table:
        even = [2 * (step + 0.5) / JITTER_STEPS - 1 for step in range(JITTER_STEPS)]
        return (lambda x: min(1.0, max(0.0, (x + 1) / 2))), even
    ordered = sorted(entry / DISTRIBUTION_SCALE for entry in table)
    thinned = ordered[:: max(1, len(ordered) // JITTER_STEPS)]
    return (lambda x: bisect_left(ordered, x) / len(ordered)), thinned
