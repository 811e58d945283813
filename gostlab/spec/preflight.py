# SPDX-License-Identifier: MIT
"""Detect known traps in a run's description before the run starts.

A trap spoils a run's results; each is reported with the value that decides and its limit. A run
with an error would answer another question, and is not started. A warning is meant for a reader of
the results; it is printed once before a matrix runs, and is recorded in fidelity.json of every run
that it concerns.
"""

import math
from bisect import bisect_left
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import astuple, dataclass, replace
from functools import lru_cache

from gostlab.registry.congestion_controls import needs_accurate_ecn
from gostlab.registry.kernels import version_of
from gostlab.registry.qdiscs import qdisc_kinds
from gostlab.registry.topologies import topology_of
from gostlab.registry.traffic import IPERF3_STREAMS
from gostlab.registry.tunnels import tunnel_kind
from gostlab.spec import units
from gostlab.spec.compatible_json import JsonObject
from gostlab.spec.flow import FlowSpec, delays_before_hosts_ms
from gostlab.spec.links_crossed import memory_path
from gostlab.spec.path_spec import DIRECTIONS, IMPAIRMENTS, ChangeSpec, DirectionSpec, jitter_reach
from gostlab.spec.run_spec import RunSpec
from gostlab.spec.tcp_windows import flow_windows
from gostlab.spec.verdict import Check
from gostlab.tcpmodel import socket_buffers
from gostlab.tcpmodel.netem_models import correlated_events
from gostlab.tcpmodel.response_functions import bdp_bytes, window_limit_bps
from gostlab.tcpmodel.run_limits import (
    DELAY_LIMIT_PKTS,
    DISTRIBUTION_SCALE,
    FIRST_WINDOW_PKTS,
    MIN_ROUND_TRIPS,
    MTU_BYTES,
    SUPER_PACKETS,
    UDP_BURST_PKTS,
    UNLIMITED_BPS,
)

# A burst above this share of the path's content builds a queue that no rate requested.
BURST_SHARE = 0.1
# The segments of a GSO super-packet: segmentation offload passes down 64 kB of full segments at
# once.
SUPER_PACKET_PKTS = 65_536 // MTU_BYTES
# With few rate changes, netem differs from a token bucket only while the old queue drains.
MAX_NETEM_RATES = 10
# The minimum probability that two flows are hashed into one queue for which a warning is given.
SHARED_QUEUE_CHANCE = 0.05
# The number of steps of the integral over jitter: the share is then exact to a few in ten thousand.
JITTER_STEPS = 1000
# The warnings after which a result may differ from the one requested, because something else
# decides: super-packets instead of packets (offloads_loss, offloads_queue, burst), or slow start
# (few_round_trips). The other warnings do not spoil the result: window_limit, as those sizes were
# requested, and Debian's are the default on purpose; reordering, as netem's jitter reorders, and
# `ordered` requests the alternative; tcp_memory and no_rate, as the run itself measures whether
# memory or the CPU decided (the checks tcp_memory and cpu_idle_share).
SPOILING = frozenset({"offloads_loss", "offloads_queue", "burst", "few_round_trips"})


@dataclass(frozen=True)
class Guard:
    """Represent a trap of a run, and the value that decides."""

    name: str
    sentence: str
    actual: float | None
    limit: float | None
    unit: str
    level: str = "warning"  # warning | error

    @property
    def distance(self) -> float:
        """Return the factor between value and limit; of several guards, the largest is reported."""
        if not self.actual or not self.limit:
            return math.inf
        return max(self.actual / self.limit, self.limit / self.actual)


def guards(run: RunSpec) -> tuple[Guard, ...]:
    """Return the traps of a run; of several with the same name, the worst."""
    worst: dict[str, Guard] = {}
    single_links, whole_run = list(each_link(run)), [run]
    for find_guards, runs in (
        (check_delay_line, single_links),  # A trap that concerns a path is searched on each link.
        (check_offloads, single_links),
        (check_memory, whole_run),
        (check_rates, single_links),
        (check_replays, whole_run),
        (check_windows, whole_run),
        (check_tunnel_windows, whole_run),
        (check_unmarked, whole_run),
        (check_shared_queues, whole_run),
        (check_bursts, whole_run),
        (check_short_queues, whole_run),
        (check_reordering, single_links),
        (check_ordering, single_links),
        (check_overtaking, single_links),
        (check_policers, single_links),
        (check_slots, single_links),
        (check_correlations, single_links),
        (check_packet_duplication, single_links),
        (check_least_buffers, single_links),
        (check_hops_in_a_row, whole_run),
        (check_lengths, whole_run),
        (check_meetings, whole_run),
        (check_first_windows, whole_run),
        (check_senders, whole_run),
    ):
        for guard in (guard for checked in runs for guard in find_guards(checked)):
            if guard.name not in worst or guard.distance > worst[guard.name].distance:
                worst[guard.name] = guard
    return tuple(worst.values())


def each_link(run: RunSpec) -> Iterator[RunSpec]:
    """Yield the run reduced to one link, for each link to check.

    These are the links with their own path or a named change; all other links share one.
    """
    named = {change.link for change in run.changes if change.link is not None}
    for link in ("", *dict.fromkeys([*run.links, *sorted(named)])):
        touching = (change for change in run.changes if change.touches(link, run.links))
        changes_alone = [replace(change, link=None) for change in touching]
        path = run.path_of_link(link)
        yield replace(run, path=path, links={}, hops=1, changes=changes_alone)


def checks(run: RunSpec) -> list[Check]:
    """Return a run's traps as checks of fidelity.json."""
    return [
        Check(
            f"guard_{guard.name}",
            "degraded" if guard.level == "error" or guard.name in SPOILING else "ok",
            guard.limit,
            guard.actual,
            guard.unit,
            guard.sentence,
        )
        for guard in guards(run)
    ]


@dataclass(frozen=True)
class MatrixWarning:
    """Represent a warning of a matrix: its worst guard, and the number of runs that have it."""

    matrix: str
    guard: Guard
    runs: int
    of: int

    @property
    def line(self) -> str:
        return f"warning: {self.matrix}, {self.runs} of {self.of} runs: {self.guard.sentence}"

    def to_json(self) -> JsonObject:
        return {
            "matrix": self.matrix,
            "runs": self.runs,
            "of": self.of,
            "name": self.guard.name,
            "sentence": self.guard.sentence,
            "asked": self.guard.actual,
            "limit": self.guard.limit,
            "unit": self.guard.unit,
            "level": self.guard.level,
        }


def survey_traps(
    runs: Iterable[RunSpec],
) -> tuple[list[tuple[RunSpec, Guard]], list[MatrixWarning]]:
    """Return the errors of all runs, and their warnings once per name and matrix."""
    errors: list[tuple[RunSpec, Guard]] = []
    warnings: dict[tuple[str, str], list[Guard]] = {}
    runs_of = Counter[str]()
    for run in runs:
        runs_of[run.matrix] += 1
        for guard in guards(run):
            if guard.level == "error":
                errors.append((run, guard))
            else:
                warnings.setdefault((run.matrix, guard.name), []).append(guard)
    return errors, [
        MatrixWarning(
            matrix, max(same, key=lambda guard: guard.distance), len(same), runs_of[matrix]
        )
        for (matrix, _), same in sorted(warnings.items())
    ]


def check_delay_line(run: RunSpec) -> Iterator[Guard]:
    """Report more packets in flight than netem's limit, which it would drop.

    At most rate times delay are in flight, and no more than all senders' buffers together hold.
    """
    buffered_bytes = sum(
        flow.streams * min(flow.buffers["rmem"][2], flow.buffers["wmem"][2])
        if isinstance(flow.buffers, Mapping)
        else math.inf
        for flow in run.flows
    )
    for direction, lines in delay_lines_ms(run).items():
        jitter_ms = largest_value(run, direction, "jitter_ms") * run.path[direction].jitter_reach[1]
        states: list[DirectionSpec | ChangeSpec] = [
            run.path[direction],
            *changes_of_direction(run, direction),
        ]
        slots_ms = (state.slot.reach_ms[1] for state in states if state.slot)
        longest_s = (max(lines) + jitter_ms + max(slots_ms, default=0.0)) / 1000
        rate_bps = largest_value(run, direction, "rate_bps") or UNLIMITED_BPS
        packets = min(buffered_bytes / MTU_BYTES, rate_bps * longest_s / (8 * MTU_BYTES))
        twice = (state.duplicate.share for state in states if state.duplicate)
        packets *= 1 + max(twice, default=0.0)
        if packets > DELAY_LIMIT_PKTS:
            sentence = (
                f"{packets:.0f} packets can be in flight {direction}, and the delay line holds "
                f"{DELAY_LIMIT_PKTS}: it would drop the rest (a lower rate or delay)"
            )
            values = round(packets), DELAY_LIMIT_PKTS, "packets"
            yield Guard("delay_line", sentence, *values, level="error")


def check_offloads(run: RunSpec) -> Iterator[Guard]:
    """Report offloads where losses or queues decide: netem then handles super-packets.

    One drop loses up to 43 segments, and one queued packet is 64 kB.
    """
    if not run.offloads:
        return
    allowed = SUPER_PACKETS in run.allow
    advice = "allowed, for repeating somebody's testbed" if allowed else "offloads: off, or auto"
    for direction in DIRECTIONS:
        changed = (change.loss for change in changes_of_direction(run, direction))
        for loss in (run.path[direction].loss, *changed):
            if loss and not loss.is_lossless:
                sentence = (
                    f"offloads are on and the {direction} direction loses packets: each loss would"
                    f" take up to {SUPER_PACKET_PKTS} segments at once ({advice})"
                )
                level = "warning" if allowed or "offloads" in run.factors else "error"
                yield Guard("offloads_loss", sentence, SUPER_PACKET_PKTS, 1, "packets", level)
        impaired = dict.fromkeys(run.path[direction].impairments)
        for change in changes_of_direction(run, direction):
            impaired |= dict.fromkeys(name for name in change.new_values if name in IMPAIRMENTS)
        for name in impaired:
            if name != "outages":
                sentence = (
                    f"offloads are on and the {direction} direction has {name}: it would act on"
                    f" super-packets of up to {SUPER_PACKET_PKTS} segments ({advice})"
                )
                level = "warning" if allowed or "offloads" in run.factors else "error"
                yield Guard("offloads_loss", sentence, SUPER_PACKET_PKTS, 1, "packets", level)
    flow, *others = run.flows
    max_bytes = flow_windows(run, flow).max_bytes
    if run.changes or others or not run.path.never_queues(flow.data_direction, max_bytes):
        limit_bps = socket_buffers.OFFLOAD_SHARE * min(rate_of(run, flow) for flow in run.flows)
        total_bps = sum(demand_bps(run, flow) for flow in run.flows)
        sentence = (
            "offloads are on where the queue (or jitter) decides: super-packets of up to"
            f" {SUPER_PACKET_PKTS} packets are queued, dropped or overtaken as one (the flows"
            f" demand {units.show_rate(total_bps)}; up to {units.show_rate(limit_bps)} no"
            " queue builds)"
        )
        yield Guard("offloads_queue", sentence, round(total_bps), round(limit_bps), "bit/s")


def check_memory(run: RunSpec) -> Iterator[Guard]:
    """Report a memory of the sandbox, or a limit of TCP, below the need of the streams' buffers."""
    if run.machine != "sandbox":
        return
    path = memory_path(run.path, run.links, run.hops)
    legs = len(tunnel_kind(run.tunnel).legs_over(run.hops))
    needed_mib = sum(
        socket_buffers.tcp_memory_needed_mib(flow.streams, legs, flow.buffers, path.content_bytes)
        for flow in run.flows
    )
    if run.tcp_memory_mib < needed_mib:
        sentence = (
            f"TCP may hold {run.tcp_memory_mib} MiB, and full buffers would be {needed_mib}: "
            "above half of its limit no window grows any more"
        )
        yield Guard("tcp_memory", sentence, run.tcp_memory_mib, needed_mib, "MiB")
    used_mib = min(run.tcp_memory_mib, needed_mib) // 2
    min_mib = socket_buffers.memory_needed_mib(used_mib, path.content_pkts)
    if run.memory_mib < min_mib:
        sentence = (
            f"the sandbox has {run.memory_mib} MiB, and kernel, packets and sockets can take "
            f"{min_mib}: it would run out in the middle (memory: auto, or a lower tcp_memory)"
        )
        yield Guard("memory", sentence, run.memory_mib, min_mib, "MiB", "error")


def check_rates(run: RunSpec) -> Iterator[Guard]:
    """Report a direction without a rate: nothing paces or queues its packets.

    Only the real clock allows it (spec.compile.check_paths).
    """
    for direction in data_directions(run):
        if run.path[direction].rate_bps is None:
            sentence = (
                f"the {direction} direction has no rate: the CPU is its bottleneck, without a queue"
            )
            yield Guard("no_rate", sentence, None, None, "bit/s")


def check_replays(run: RunSpec) -> Iterator[Guard]:
    """Report many changes of rate under netem.

    netem computes a packet's delay from the rate at its arrival: a packet from an outage delays all
    packets behind it.
    """
    changes = sum(change.rate_bps is not None for change in run.changes)
    if run.bottleneck == "netem" and changes > MAX_NETEM_RATES:
        sentence = (
            f"the rate changes {changes} times, and netem's queue keeps the rate at which a packet"
            " came: bottleneck: tbf follows each change at once"
        )
        yield Guard("netem_rates", sentence, changes, MAX_NETEM_RATES, "changes")


def check_windows(run: RunSpec) -> Iterator[Guard]:
    """Report a flow whose buffers hold less than path and queue.

    Such a flow is limited by its buffers, whatever the congestion control. Debian's sizes are the
    default on purpose; `bdp` makes the buffers large enough.
    """
    for flow in run.flows:
        window = flow_windows(run, flow)
        if not flow.is_tcp or math.isinf(window.max_bytes) or not flow.rtt_ms:
            continue
        rate_bps = rate_of(run, flow)
        path_bytes = bdp_bytes(rate_bps, flow.rtt_ms / 1000)
        needed_bytes = path_bytes + room_pkts(run, flow) * MTU_BYTES
        if window.min_bytes >= needed_bytes:
            continue
        owner = f"{flow.name}'s" if len(run.flows) > 1 else "the"
        sizes = " to ".join(
            dict.fromkeys(map(units.show_size, (window.min_bytes, window.max_bytes)))
        )
        subject = (
            f"{owner} {sizes} of window are less than the {units.show_size(needed_bytes)}"
            " that path and"
        )
        limits_bps = (window_limit_bps(size, flow.rtt_ms / 1000) for size in astuple(window))
        limits = dict.fromkeys(units.show_rate(min(size, rate_bps)) for size in limits_bps)
        effect = (
            f"about {' to '.join(limits)} of {units.show_rate(rate_bps)}, by any congestion control"
            if window.min_bytes < path_bytes
            else "the queue is never full"
            if window.max_bytes < needed_bytes
            else "the queue may never be full"
        )
        sentence = f"{subject} queue hold: {effect}"
        yield Guard("window_limit", sentence, round(window.min_bytes), round(needed_bytes), "B")


def check_tunnel_windows(run: RunSpec) -> Iterator[Guard]:
    """Report a window of the tunnel that limits a flow.

    Besides TCP's, there is the program's limit of a stream's data in flight, and for OpenVPN over
    TCP the content of its fixed socket buffers.
    """
    tunnel = tunnel_kind(run.tunnel)
    for flow in run.flows:
        if not run.tunnel_ends(flow) or not flow.is_tcp or not flow.rtt_ms:
            continue
        rate_bps = rate_of(run, flow)
        path_bytes = bdp_bytes(rate_bps, flow.rtt_ms / 1000)
        back = flow.data_direction == "reverse"
        windows: dict[str, float] = {}
        if tunnel.stream_windows[back]:
            together = tunnel.connection_windows[back] or math.inf
            windows[tunnel.windows_by] = min(flow.streams * tunnel.stream_windows[back], together)
        if tunnel.over == "tcp" and tunnel.is_vpn:
            windows |= openvpn_windows(run)
        for owner, window in windows.items():
            if window < path_bytes:
                limit_bps = window_limit_bps(window, flow.rtt_ms / 1000)
                sentence = (
                    f"{owner} lets {flow.name} have {units.show_size(window)} in flight: at most"
                    f" {units.show_rate(limit_bps)} of {units.show_rate(rate_bps)} in a round trip"
                    f" of {flow.rtt_ms:g} ms, by any congestion control"
                )
                yield Guard("tunnel_window", sentence, round(window), round(path_bytes), "B")


def openvpn_windows(run: RunSpec) -> Iterator[tuple[str, float]]:
    """Yield the payload that sndbuf and rcvbuf hold in packets of one segment each.

    The kernel doubles a size that a program sets (socket(7)); a blocked writer is woken when a
    third of the buffer is free.
    """
    inner_mtu = tunnel_kind(run.tunnel).inner_mtu(run.mtu)
    share = socket_buffers.receive_window_share(
        version_of(run.kernel), inner_mtu, super_packets=False
    )
    for name, part in (
        ("sndbuf", 2 / 3 * inner_mtu / (inner_mtu + socket_buffers.SKB_OVERHEAD_BYTES)),
        ("rcvbuf", share),
    ):
        if name in run.tunnel_options:
            size = int(run.tunnel_options[name] or 0)
            yield f"OpenVPN's {name} of {units.show_size(size)}", 2 * part * size


def check_unmarked(run: RunSpec) -> Iterator[Guard]:
    """Report a scalable congestion control across queues that never mark: only losses slow it."""
    for flow in run.flows:
        if run.ecn == "off" and flow.is_tcp and needs_accurate_ecn(flow.cc or ""):
            sentence = (
                f"{flow.name}'s {flow.cc} meets no queue that marks packets: it answers losses"
                " alone, as Reno does (ecn: l4s with queue: dualpi2, or fq_codel, marks)"
            )
            yield Guard("unmarked", sentence, None, None, "")
            return


def check_shared_queues(run: RunSpec) -> Iterator[Guard]:
    """Report queues per flow in which hashed flows probably collide, and each gets half a share."""
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


def check_bursts(run: RunSpec) -> Iterator[Guard]:
    """Report senders' bursts of more than a tenth of the path's content, which build queues."""
    for flow in run.flows:
        # The system's iperf3 may send bursts or not.
        datagrams = UDP_BURST_PKTS if flow.traffic_type == "udp" and run.iperf3 != "3.18" else 1
        burst = max(datagrams, SUPER_PACKET_PKTS if run.offloads else 1)
        limit = BURST_SHARE * bdp_bytes(rate_of(run, flow), flow.rtt_ms / 1000) / MTU_BYTES
        if burst > max(1, limit):
            sentence = (
                f"{flow.name} sends {burst} packets back to back where the path holds "
                f"{limit / BURST_SHARE:.3g}: bursts, not rates, make the queue"
            )
            yield Guard("burst", sentence, burst, round(limit, 3), "packets")


def check_short_queues(run: RunSpec) -> Iterator[Guard]:
    """Report a queue shorter than TCP's initial window, which then loses packets at every start."""
    for flow in run.flows:
        room = room_pkts(run, flow)
        if flow.is_tcp and 0 < room < FIRST_WINDOW_PKTS:
            sentence = (
                f"{flow.name} meets a queue of {room} packets, less than TCP's first window of "
                f"{FIRST_WINDOW_PKTS}: it loses at every start"
            )
            yield Guard("short_queue", sentence, room, float(FIRST_WINDOW_PKTS), "packets")


def check_reordering(run: RunSpec) -> Iterator[Guard]:
    """Report jitter that spreads packets further than their spacing, so that some are reordered."""
    for direction in data_directions(run):
        jitter_ms, state = largest_value(run, direction, "jitter_ms"), run.path[direction]
        low, high = state.jitter_reach
        spread_ms = jitter_ms * (high - low)
        spacing_ms = 8000 * MTU_BYTES / (largest_value(run, direction, "rate_bps") or UNLIMITED_BPS)
        if state.ordered or spread_ms <= spacing_ms:
            continue
        share = overtaken_share(spacing_ms / jitter_ms, state.distribution)
        sentence = (
            f"jitter spreads packets over {spread_ms:.3g} ms, and at the full rate they are"
            f" {spacing_ms:.3g} ms apart: {share:.0%} of them then come after a later one (ordered:"
            " on keeps the order)"
        )
        yield Guard("reordering", sentence, spread_ms, round(spacing_ms, 6), "ms")


def check_ordering(run: RunSpec) -> Iterator[Guard]:
    """Report a longer round trip due to jitter that preserves the order of packets.

    Packets wait for slower ones before them, so that a dense flow's round trip is longer than the
    configured delays. ACKs are assumed to be half as dense as data.
    """
    for direction in data_directions(run):
        spacing_ms = 8000 * MTU_BYTES / (largest_value(run, direction, "rate_bps") or UNLIMITED_BPS)
        longer_ms = spread_ms = 0.0
        for leg in DIRECTIONS:
            jitter_ms, state = largest_value(run, leg, "jitter_ms"), run.path[leg]
            if not (state.ordered and jitter_ms):
                continue
            low, high = state.jitter_reach
            spread_ms = max(spread_ms, jitter_ms * (high - low))
            apart = spacing_ms * (1 if leg == direction else 2) / jitter_ms
            longer_ms += jitter_ms * ordering_delay(apart, state.distribution)
        if spread_ms > spacing_ms:
            sentence = (
                "ordered: on lets no packet overtake a slower one: at the full rate the"
                f" {direction}"
                f" data and their ACKs take about {longer_ms:.3g} ms more than the idle round trip"
            )
            yield Guard("ordering", sentence, spread_ms, round(spacing_ms, 6), "ms")


def check_overtaking(run: RunSpec) -> Iterator[Guard]:
    """Report how many packets one that netem reorders overtakes: all that the delay line holds."""
    for direction in data_directions(run):
        state = run.path[direction]
        if not state.reorder:
            continue
        rate_bps = largest_value(run, direction, "rate_bps") or UNLIMITED_BPS
        overtaken = rate_bps * state.delay_ms / 1000 / (8 * MTU_BYTES)
        share = units.show_share(state.reorder.expected_share)
        sentence = (
            f"reorder sends {share} of the {direction} packets without the delay of"
            f" {state.delay_ms:g} ms: each overtakes up to {overtaken:.0f} packets at the full rate"
            " (a second hop with a short delay of its own makes it fewer)"
        )
        yield Guard("overtaking", sentence, round(overtaken, 1), 3.0, "packets")


def check_policers(run: RunSpec) -> Iterator[Guard]:
    """Report a policer that never drops, since its bottleneck is no faster."""
    for direction in data_directions(run):
        state = run.path[direction]
        if state.policer and state.rate_bps and state.policer.rate_bps >= state.rate_bps:
            sentence = (
                f"the {direction} policer lets {units.show_rate(state.policer.rate_bps)} pass, and"
                f" its bottleneck {units.show_rate(state.rate_bps)}: what it passes waits in the"
                " queue behind it"
            )
            values = state.policer.rate_bps, state.rate_bps
            yield Guard("policer_idle", sentence, *values, "bit/s")


def check_slots(run: RunSpec) -> Iterator[Guard]:
    """Report slots that send less than the bottleneck, and so are the bottleneck."""
    for direction in data_directions(run):
        state = run.path[direction]
        if not state.slot or not state.rate_bps or not state.slot.mean_ms:
            continue
        sizes = [state.slot.packets * (run.mtu + 14)] if state.slot.packets else []
        sizes += [state.slot.bytes] if state.slot.bytes else []
        slots_bps = 8000 * min(sizes, default=math.inf) / state.slot.mean_ms
        if slots_bps < state.rate_bps:
            sentence = (
                f"the {direction} slots send at most {units.show_rate(slots_bps)}, and the"
                f" bottleneck {units.show_rate(state.rate_bps)}: packets wait for slots in a delay"
                f" line of {DELAY_LIMIT_PKTS} packets, and not in the bottleneck's queue"
            )
            yield Guard("slot_rate", sentence, round(slots_bps), state.rate_bps, "bit/s")


def check_correlations(run: RunSpec) -> Iterator[Guard]:
    """Report a correlation of netem's, which makes another share than the requested one."""
    for direction in DIRECTIONS:
        state = run.path[direction]
        shares = [
            ("loss", state.loss.p, state.loss.correlation),
            *(
                (name, one.share, one.correlation)
                for name in ("reorder", "duplicate", "corrupt")
                if (one := getattr(state, name))
            ),
        ]
        for name, share, correlation in shares:
            if correlation:
                achieved = correlated_events(share, correlation).share
                sentence = (
                    f"{direction} {name} of {units.show_share(share)} with a correlation of"
                    f" {units.show_share(correlation)} is {units.show_share(achieved)} of packets:"
                    " netem's correlated numbers lie nearer to the middle"
                )
                yield Guard("correlation", sentence, share, round(achieved, 9), "")


def check_packet_duplication(run: RunSpec) -> Iterator[Guard]:
    """Report duplicates of datagrams, which iperf3 and irtt take for datagrams of their own."""
    in_tunnel = run.tunnel != "direct"  # its ends deliver a duplicate once
    counting = [
        flow.name
        for flow in run.flows
        if flow.traffic_type in ("udp", "ping") and not (in_tunnel and flow.takes_tunnel)
    ]
    for direction in DIRECTIONS if counting else ():
        states: list[DirectionSpec | ChangeSpec] = [
            run.path[direction],
            *changes_of_direction(run, direction),
        ]
        share = max((state.duplicate.share for state in states if state.duplicate), default=0.0)
        if share:
            sentence = (
                f"{counting[0]}: iperf3 and irtt count a duplicate as a datagram of its own, and a"
                f" {direction} duplicate of {units.show_share(share)} would change what they"
                " report (tcp, short, video and http flows tell duplicates apart)"
            )
            yield Guard("duplicates", sentence, share, None, "", level="error")


def check_least_buffers(run: RunSpec) -> Iterator[Guard]:
    """Report a queue enlarged from its 1bdp to TCP's initial window, on a short path."""
    for direction in data_directions(run):
        room = run.path[direction].buffer_pkts
        bdp_pkts = bdp_bytes(run.path[direction].rate_bps or 0, run.path.rtt_ms / 1000) / run.mtu
        if room == FIRST_WINDOW_PKTS and 0 < round(bdp_pkts, 1) < FIRST_WINDOW_PKTS - 0.5:
            sentence = (
                f"the {direction} queue holds {room} packets, and the path's BDP is"
                f" {bdp_pkts:.2g}: a buffer of 1bdp or more has room for TCP's first window"
                f" ({room}pkts says so,"
                f" {max(1, round(bdp_pkts))}pkts is the BDP)"
            )
            yield Guard("least_buffer", sentence, round(bdp_pkts, 3), float(room), "packets")


def check_hops_in_a_row(run: RunSpec) -> Iterator[Guard]:
    """Report that the second hop repeats the path, unless it has its own."""
    if run.hops > 1 and "hop2" not in run.links:
        hop_ms = run.path.rtt_ms
        sentence = (
            f"{run.hops} hops are the path {run.hops} times in a row: the idle round trip is"
            f" {run.hops * hop_ms:g} ms, each hop's {hop_ms:g} ms (links: {{hop2: …}} gives the"
            " second a path of its own)"
        )
        yield Guard("hops", sentence, run.hops * hop_ms, hop_ms, "ms")


def check_lengths(run: RunSpec) -> Iterator[Guard]:
    """Report a flow of fewer than twenty round trips, which is mostly slow start."""
    for flow in run.flows:
        rtt_ms = flow.rtt_ms + sum(
            largest_value(run, direction, "delay_ms") - run.path[direction].delay_ms
            for direction in DIRECTIONS
        )
        min_s = MIN_ROUND_TRIPS * rtt_ms / 1000
        if flow.traffic.by_iperf3 and flow.duration_s < min_s:
            sentence = (
                f"{flow.name} lasts {flow.duration_s:g} s, less than {MIN_ROUND_TRIPS} "
                f"round trips of {rtt_ms:g} ms: mostly its own beginning"
            )
            yield Guard("few_round_trips", sentence, flow.duration_s, round(min_s, 3), "s")


def check_meetings(run: RunSpec) -> Iterator[Guard]:
    """Report a flow that starts after all other flows have ended."""
    for flow in run.flows:
        others_s = max((other.end_s for other in run.flows if other is not flow), default=math.inf)
        if flow.start_s >= others_s:
            sentence = (
                f"{flow.name} starts at {flow.start_s:g} s, when every other flow is over"
                f" ({others_s:g} s): they do not meet"
            )
            yield Guard("flow_alone", sentence, flow.start_s, others_s, "s")


def check_first_windows(run: RunSpec) -> Iterator[Guard]:
    """Report streams that begin at once with more packets than path and queue hold.

    A stream that loses its first window begins again after a second (RFC 6298).
    """
    for flow in run.flows:
        packets = FIRST_WINDOW_PKTS * flow.streams
        path = run.path[flow.data_direction]
        under_way = bdp_bytes(path.rate_bps or UNLIMITED_BPS, path.delay_ms / 1000) / MTU_BYTES
        held = under_way + (path.buffer_pkts or 0)
        if flow.streams > IPERF3_STREAMS and packets > held:
            sentence = (
                f"{flow.name}'s {flow.streams} streams begin at once with {packets} packets, and"
                f" path and queue hold {held:.0f}: many begin again after a timeout (buffer:"
                f" {packets}pkts, or fewer streams)"
            )
            yield Guard("first_windows", sentence, packets, round(held), "packets")
            return


def check_senders(run: RunSpec) -> Iterator[Guard]:
    """Report a tunnel whose program sends datagrams with a congestion control of its own."""
    tunnel = tunnel_kind(run.tunnel)
    if not tunnel.sent_by:
        return
    scope = "is that of the inner TCP" if tunnel.is_vpn else "has no effect there"
    observer = "no socket" if not tunnel.is_vpn else "only the inner socket"
    sentence = (
        f"{tunnel.sent_by} sends across the path: the kernel's congestion control {scope}, and"
        f" {observer} reports RTT and losses (the path's queues do)"
    )
    name = f"sent_by_{tunnel.sent_by.split()[0].lower()}"
    yield Guard(name, sentence, None, None, "")


def changes_of_direction(run: RunSpec, direction: str) -> list[ChangeSpec]:
    return [change for change in run.changes if change.direction == direction]


def largest_value(run: RunSpec, direction: str, key: str) -> float:
    """Return the maximum of a direction's rate, delay or jitter over the load; 0 for no rate."""
    states = (run.path[direction], *changes_of_direction(run, direction))
    return max(getattr(state, key) or 0 for state in states)


def delay_lines_ms(run: RunSpec) -> dict[str, list[float]]:
    """Return the longest delay of every delay line that the flows' packets cross, by direction."""
    lines: dict[str, list[float]] = {}
    host_delays = (
        delays_before_hosts_ms(run.flows, run.path) if topology_of(run.topology).own_rtts else {}
    )
    for direction, ends in (
        ("forward", {flow.receiver for flow in run.flows}),
        ("reverse", {flow.sender for flow in run.flows}),
    ):
        base_ms = run.path[direction].delay_ms
        extra_ms = largest_value(run, direction, "delay_ms") - base_ms
        lines[direction] = [host_delays.get(end, base_ms) + extra_ms for end in sorted(ends)]
    return lines


def data_directions(run: RunSpec) -> list[str]:
    return sorted({flow.data_direction for flow in run.flows})


def rate_of(run: RunSpec, flow: FlowSpec) -> float:
    """Return the maximum rate of the slowest link in a flow's direction, in bit/s."""
    ahead_direction = flow.data_direction
    opposite = "reverse" if ahead_direction == "forward" else "forward"
    link_rates = []
    for link, is_ahead in run.links_of(flow) or [("", True)]:
        direction = ahead_direction if is_ahead else opposite
        changed = [rate_bps for _, rate_bps in run.rate_changes(link, direction)]
        link_rates.append(max([run.path_of_link(link)[direction].rate_bps or 0, *changed]))
    return min((rate for rate in link_rates if rate), default=UNLIMITED_BPS)


def room_pkts(run: RunSpec, flow: FlowSpec) -> int:
    """Return the capacity of the queue of a flow's slowest link, in packets."""
    directions = [path[flow.data_direction] for path in run.paths_of(flow)]
    slowest = min(directions, key=lambda direction: direction.rate_bps or UNLIMITED_BPS)
    return slowest.buffer_pkts or 0


def demand_bps(run: RunSpec, flow: FlowSpec) -> float:
    """Return a flow's rate in bit/s if only its windows or its configured rate limit it."""
    if flow.traffic_type == "udp":
        return float(flow.rate_bps or 0)
    if flow.traffic_type == "ping":
        return 0.0
    window = flow_windows(run, flow).max_bytes
    if math.isinf(window) or not flow.rtt_ms:
        return rate_of(run, flow)
    return window_limit_bps(window, flow.rtt_ms / 1000)


@lru_cache(maxsize=1000)
def overtaken_share(spacing: float, table: tuple[int, ...] | None = None) -> float:
    """Return the share of packets that are reordered in RFC 4737's sense.

    The packets are sent `spacing` jitters apart; a reordered packet arrives after one that was sent
    later.

    A packet that is delayed by x is in order if none of the packets behind it, k spacings later,
    has a delay below x - k spacings: the product of 1 - F(x - k spacing) over k, and its mean over
    x. F is the delay's distribution, uniform or from a table.
    """
    below, delays = distribution_of(table)
    lowest = min(delays)
    in_order = 0.0
    for x in delays:
        product, behind = 1.0, x - spacing
        while behind > lowest and product > 1e-6:
            product *= 1 - below(behind)
            behind -= spacing
        in_order += product
    return 1 - in_order / len(delays)


@lru_cache(maxsize=1000)
def ordering_delay(spacing: float, table: tuple[int, ...] | None = None) -> float:
    """Return the mean additional delay, in jitters, of packets that may not overtake each other.

    The packets are sent `spacing` jitters apart. A packet leaves when all packets before it have
    left: with the maximum of x_k - k spacings over k from 0, x_k being the delay of the k-th packet
    before it. The maximum is at most y with the product of F(y + k spacing) over k, and the mean is
    low + the integral of 1 - that product from low to high.
    """
    below, _ = distribution_of(table)
    low, high = jitter_reach(table)
    step = (high - low) / JITTER_STEPS
    mean = low
    for index in range(JITTER_STEPS):
        product, y = 1.0, low + (index + 0.5) * step
        while y < high and product > 1e-6:
            product *= below(y)
            y += spacing
        mean += (1 - product) * step
    return mean


def distribution_of(
    table: Sequence[int] | None,
) -> tuple[Callable[[float], float], Sequence[float]]:
    """Return the distribution function of delays and the sorted delays, in jitters.

    The delays are uniform, or from a table.
    """
    if not table:
        uniform = [2 * (step + 0.5) / JITTER_STEPS - 1 for step in range(JITTER_STEPS)]
        return (lambda x: min(1.0, max(0.0, (x + 1) / 2))), uniform
    ordered = sorted(entry / DISTRIBUTION_SCALE for entry in table)
    thinned = ordered[:: max(1, len(ordered) // JITTER_STEPS)]
    return (lambda x: bisect_left(ordered, x) / len(ordered)), thinned
