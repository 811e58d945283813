"""Evaluate a run: compute its checks from its series, flows and legs."""

from __future__ import annotations

import os
from collections.abc import Collection, Sequence
from pathlib import Path

from gostlab.guest.flow_result import FlowResult
from gostlab.guest.host_config import tcp_memory_limits, tcp_memory_of
from gostlab.guest.namespaces import sysctl_file
from gostlab.guest.network import Interface
from gostlab.guest.probes import fidelity
from gostlab.guest.probes.sampler import Probes
from gostlab.guest.probes.timer_lateness import LatenessProbes
from gostlab.guest.shaping import ImpairmentCounts, carries_data, path_of
from gostlab.guest.socket_accounting import LINKS
from gostlab.guest.workload import LoadResult
from gostlab.results import metrics, read_series
from gostlab.results.rows import LegsFile, QueueRow
from gostlab.spec import preflight
from gostlab.spec.flow import FlowSpec
from gostlab.spec.path_spec import ChangeSpec, DirectionSpec, random_loss
from gostlab.spec.run_spec import RunSpec
from gostlab.spec.verdict import Check
from gostlab.tcpmodel.netem_models import correlated_events
from gostlab.tcpmodel.run_limits import DELAY_LIMIT_PKTS
from gostlab.tcpmodel.stepped_capacity import SteppedCapacity

ETHERNET_BYTES = 14


def whole_run_checks(
    run: RunSpec,
    folder: Path,
    load: LoadResult,
    probes: Probes,
    queues: Sequence[Interface],
    legs: LegsFile,
    watch: LatenessProbes | None,
    kernel_lacks: Collection[str] = (),
) -> list[Check]:
    """Return the checks that need the whole run.

    `queues` are those in which the flows' packets may have waited; `kernel_lacks` lists features
    that the run's kernel lacks (gostlab.registry.kernels).
    """
    samples, host_samples = read_series(folder, "queues"), read_series(folder, "hosts")
    # The share is None if fewer than two samples fall into a flow's time.
    idle = {
        flow.name: metrics.idle_share(host_samples, flow.started_s, flow.ended_s)
        for flow in load.flows
    }
    last_samples = {row["dev"]: row for row in samples}
    return [
        *fidelity.check_cc(
            legs["legs"],
            run,
            {flow_result.name for flow_result in load.flows if flow_result.counted_by == LINKS},
        ),
        check_tcp_memory(run, probes, legs),
        fidelity.check_cpu(host_samples, metrics.bottleneck_utilisation(run, samples), run.clock),
        fidelity.check_flow_durations(run, load.ended_s - load.started_s, load.flows),
        *fidelity.check_flow_times(run, probes.send_times),
        *fidelity.check_offered(run, load.flows, idle),
        *fidelity.check_app_rates(run, load.flows),
        *fidelity.check_transfers(run, load.flows),
        *fidelity.check_on_off(run, load.flows),
        *fidelity.check_streams(load.flows),
        *fidelity.check_counts(load.flows),
        *fidelity.check_unexpected_drops(last_samples.values(), run),
        *fidelity.check_delay_line(samples, DELAY_LIMIT_PKTS),
        *fidelity.check_replay(run, samples),
        *check_outages(run, queues, samples),
        *(
            fidelity.check_virtual_clock()
            if watch is None
            else [
                fidelity.check_ticker(watch.late_ms),
                fidelity.check_sampler(probes.lateness_ms),
                fidelity.check_sampler_gap(probes.interval_s, probes.longest_gap_s),
                *fidelity.check_departures(watch.gaps),
                fidelity.check_wakeups(
                    watch.late_ms,
                    watch.gaps,
                    metrics.idle_share(host_samples) or 0.0,
                    known_to_lose="idle" in kernel_lacks,
                ),
            ]
        ),
        *preflight.checks(run),
    ]


def check_impairments(run: RunSpec, rows: Sequence[ImpairmentCounts]) -> list[Check]:
    """Check what policers and netems did to packets against what was requested of them.

    What changed during the load is reported and not judged.
    """
    several = len({(row.interface.role, row.interface.direction) for row in rows}) < len(rows)
    checks = []
    for row in rows:
        interface, counts = row.interface, row.counts
        state = path_of(run, interface)
        changes = run.changes_of(interface.link, str(interface.direction))
        suffix = f"_{interface.direction}" + (f"_{interface.name}" if several else "")
        if interface.role == "bottleneck":
            policers = [state.policer, *(change.policer for change in changes)]
            checks.append(
                fidelity.check_policer(
                    f"policer_rate{suffix}",
                    [policer for policer in policers if policer and policer.rate_bps],
                    counts["sent_bytes"],
                    row.elapsed_s,
                )
            )
            dropped, offered = counts["policer_drops"], counts["offered_pkts"]
            checks.append(Check(f"policer_drops{suffix}", "ok", None, dropped, f"of {offered}"))
            continue
        changed = {name for change in changes for name in change.new_values}
        if state.reorder and "reorder" not in changed:
            checks.append(fidelity.check_reordered(f"reordered{suffix}", state.reorder, counts))
        if state.duplicate and changed.isdisjoint({"duplicate", "loss"}):
            name = f"duplicated{suffix}"
            checks.append(fidelity.check_duplicated(name, state.duplicate, state.loss, counts))
            if state.loss.model == "random" and not state.loss.is_lossless:
                entered = counts["sent_pkts"] + counts["backlog_pkts"] + counts["drops"]
                expected = correlated_events(state.loss.p, state.loss.correlation)
                lost = counts.get("dropped")
                checks.append(
                    fidelity.check_share(f"lost{suffix}", "lost", expected, lost, entered)
                )
        if state.corrupt and "corrupt" not in changed:
            checks.append(fidelity.check_corrupted(f"corrupted{suffix}", state.corrupt, counts))
        if state.slot and state.slot.packets and "slot" not in changed:
            name, most = f"slot_pkts{suffix}", state.slot.packets
            sent = counts["sent_pkts"]
            checks.append(fidelity.check_slots(name, state.slot, most, sent, row.elapsed_s))
    return checks


def check_outages(
    run: RunSpec, queues: Sequence[Interface], samples: Sequence[QueueRow]
) -> list[Check]:
    """Check that nothing passed a delay line while all of its packets were lost."""
    checks = []
    lines = [queue for queue in queues if queue.role == "delay"]
    for queue in lines:
        changes = run.changes_of(queue.link, str(queue.direction))
        state = path_of(run, queue)
        edges = [change for change in changes if change.loss is not None]
        if not edges:
            continue
        states: list[DirectionSpec | ChangeSpec] = [state, *changes]
        longest_ms = max(one.delay_ms or 0.0 for one in states)
        shortest_ms = min(one.delay_ms for one in states if one.delay_ms is not None)
        jitter_ms = max(one.jitter_ms or 0.0 for one in states)
        slot_ms = max((one.slot.reach_ms[1] for one in states if one.slot), default=0.0)
        low, high = state.jitter_reach
        late_s = (longest_ms + high * jitter_ms + slot_ms) / 1000
        early_s = (0.0 if state.reorder else shortest_ms + low * jitter_ms) / 1000
        ends_s = [*(change.at_s for change in edges[1:]), run.length_s]
        spans_s = [
            (change.at_s + late_s, end_s + early_s)
            for change, end_s in zip(edges, ends_s, strict=True)
            if change.loss == random_loss(1.0)
        ]
        rows = [row for row in samples if (row["node"], row["dev"]) == (queue.node, queue.name)]
        suffix = f"_{queue.name}" if len(lines) > 2 else ""
        checks += fidelity.check_outages(f"outage_{queue.direction}{suffix}", spans_s, rows)
    return checks


def check_rates(run: RunSpec, results: Sequence[FlowResult], queues: Sequence[Interface]) -> Check:
    """Check that no flow got more through a bottleneck than it carries in that time.

    The flows of a direction are checked together, too. The check is that of the flow nearest to the
    capacity.
    """
    results_by_name = {result.name: result for result in results}
    rates = []
    for queue in queues:
        crossing_flows = [flow for flow in run.flows if sends_through(queue, flow)]
        rows = [
            results_by_name[flow.name] for flow in crossing_flows if flow.traffic_type != "ping"
        ]
        if queue.role == "bottleneck" and rows:
            rates += [bottleneck_throughput(run, queue, [row]) for row in rows]
            rates.append(bottleneck_throughput(run, queue, rows))
    return fidelity.check_rate(
        max(rates, key=lambda rate: rate.excess, default=fidelity.CarriedRate("", 0.0, 0.0))
    )


def sends_through(queue: Interface, flow: FlowSpec) -> bool:
    """Return whether a flow's data leave through a queue. A queue may serve one direction."""
    ordered = any(">" in host or "<" in host for host in queue.hosts)
    return carries_data(queue, flow) and (ordered or queue.direction == flow.data_direction)


def bottleneck_throughput(
    run: RunSpec, queue: Interface, results: Sequence[FlowResult]
) -> fidelity.CarriedRate:
    """Return the rate that some flows got through a bottleneck, and the maximum it carries."""
    rows = [result.to_json() for result in results]
    from_s, to_s = metrics.span_s(rows)
    path, seconds = path_of(run, queue), to_s - from_s
    payload = sum(result.bytes for result in results)
    if not path.rate_bps or seconds <= 0 or not payload:
        return fidelity.CarriedRate("", 0.0, 0.0)
    rtt_s = max(flow.rtt_ms for flow in run.flows) / 1000
    steps = [(0.0, path.rate_bps), *run.rate_changes(queue.link, str(queue.direction))]
    # Data leave before they arrive, and iperf3's seconds begin some round trips late.
    shifts_s = [rtt_s * step / 4 for step in range(-4, 25)] if len(steps) > 1 else [0.0]
    capacity = SteppedCapacity(steps)
    max_bits = max(capacity.bits(from_s + by_s, to_s + by_s) for by_s in shifts_s)
    wire_bytes = sum(
        result.bytes / fidelity.payload_share(run, datagrams=sends_datagrams(result))
        for result in results
    )
    share = payload / wire_bytes
    under_way_bits = 0.0
    if run.measures_part:
        queued_bits = 8 * (path.buffer_pkts or 0) * (run.mtu + ETHERNET_BYTES)
        under_way_bits = rtt_s * max(rate_bps for _, rate_bps in steps) + queued_bits
    return fidelity.CarriedRate(
        whose=" and ".join(result.name for result in results),
        got_bps=8 * payload / seconds,
        max_bps=max_bits * share / seconds,
        under_way_bps=under_way_bits / seconds,
    )


def sends_datagrams(result: FlowResult) -> bool:
    return result.traffic_type == "udp" or result.counted_by == LINKS


def check_tcp_memory(run: RunSpec, probes: Probes, legs: LegsFile) -> Check:
    """Check the peak of TCP memory against the kernel's first threshold, in the fullest pool."""
    page_mib = os.sysconf("SC_PAGE_SIZE") / 2**20
    all_limits = sysctl_file("net.ipv4.tcp_mem").read_text(encoding="ascii")

    def low_pages(host: str) -> int:
        pool_mib = tcp_memory_of(run, host)
        return int((tcp_memory_limits(pool_mib) if pool_mib else all_limits).split()[0])

    peaks = probes.tcp_memory_peak_pages
    fullest = max(peaks, key=lambda host: peaks[host] / low_pages(host))
    return fidelity.check_tcp_memory(
        peaks[fullest] * page_mib,
        low_pages(fullest) * page_mib,
        legs["nstat"],
        whose=f"{fullest}'s TCP sockets" if tcp_memory_of(run, fullest) else "TCP sockets",
    )
