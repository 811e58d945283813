"""The verdict of a run: what its series, its flows and its legs say together."""

import os
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Any

from gostlab.describe import guards
from gostlab.describe.checks import Check
from gostlab.describe.physics.limits import DELAY_LIMIT_PKTS
from gostlab.describe.resolve.run_description import RunDescription
from gostlab.guest.counted import LINKS
from gostlab.guest.hosts import tcp_memory_limits, tcp_memory_of
from gostlab.guest.namespaces import sysctl_file
from gostlab.guest.network import Interface
from gostlab.guest.shaping import carries_data, path_of
from gostlab.guest.traffic import Load
from gostlab.guest.watch import fidelity
from gostlab.guest.watch.probes import Probes
from gostlab.guest.watch.realclock import Watch
from gostlab.results import measures, read_series


def judge(
    run: RunDescription,
    folder: Path,
    load: Load,
    probes: Probes,
    queues: Sequence[Interface],
    legs: Mapping[str, Any],
    watched: Watch | None,
    kernel_lacks: Collection[str] = (),
) -> list[Check]:
    """The checks that need the whole run. `queues`: where the flows' packets may have waited;
    `kernel_lacks`: features that the run's kernel has not (gostlab.declared.kernels).
    """
    samples, of_hosts = read_series(folder, "queues"), read_series(folder, "hosts")
    # None where fewer than two samples fall into a flow's time.
    idle = {
        flow.name: measures.idle_share(of_hosts, flow.started_s, flow.ended_s)
        for flow in load.flows
    }
    last = {row["dev"]: row for row in samples}
    received_bps, rate_bps = most_received(run, load, queues)
    return [
        *fidelity.check_cc(
            legs["legs"], run, {each.name for each in load.flows if each.counted_by == LINKS}
        ),
        check_tcp_memory(run, probes, legs),
        fidelity.check_cpu(of_hosts, measures.bottleneck_used(run.to_json(), samples), run.clock),
        fidelity.check_length(run, load.ended_s - load.started_s, load.flows),
        *fidelity.check_instants(run, probes.data_times),
        fidelity.check_rate(received_bps, rate_bps * fidelity.payload_share(run)),
        *fidelity.check_offered(run, load.flows, idle),
        *fidelity.check_counts(load.flows),
        *fidelity.check_drops(last.values(), run),
        *fidelity.check_delay_line(samples, DELAY_LIMIT_PKTS),
        *fidelity.check_replay(run, samples),
        *(
            fidelity.check_virtual_clock()
            if watched is None
            else [
                fidelity.check_ticker(watched.late_ms),
                fidelity.check_sampler(probes.lateness_ms),
                fidelity.check_sampler_gap(probes.interval_s, probes.longest_gap_s),
                *fidelity.check_departures(watched.gaps),
                fidelity.check_wakeups(
                    watched.late_ms,
                    watched.gaps,
                    measures.idle_share(of_hosts) or 0.0,
                    known_to_lose="idle" in kernel_lacks,
                ),
            ]
        ),
        *guards.checks(run),
    ]


def most_received(
    run: RunDescription, load: Load, queues: Sequence[Interface]
) -> tuple[float, float]:
    """What came through the fullest bottleneck that carries data, over one window of all of its
    flows, and its highest rate; bit/s.
    """
    did = {flow.name: flow.to_json() for flow in load.flows}
    mine = [flow for flow in run.flows if flow.direction == run.flows[0].direction]
    found = [(0.0, float(run.path[run.data_direction]["rate_bps"] or 0))]
    for queue in queues:
        if (queue.role, queue.direction) != ("bottleneck", run.data_direction):
            continue
        rows = [did[flow.name] for flow in mine if flow.name in did and carries_data(queue, flow)]
        window_s = measures.window_s(rows) if rows else 0.0
        got_bps = 8 * sum(row["bytes"] for row in rows) / window_s if window_s else 0.0
        own_bps = path_of(run, queue)["rate_bps"] or 0
        changes = run.changes_of(queue.link, run.data_direction)
        found.append((got_bps, max([own_bps, *(change.get("rate_bps", 0) for change in changes)])))
    return max(found, key=lambda each: each[0] / each[1] if each[1] else 0.0)


def check_tcp_memory(run: RunDescription, probes: Probes, legs: Mapping[str, Any]) -> Check:
    """The peak of TCP's memory against the kernel's first threshold, of the fullest pool."""
    page_mib = os.sysconf("SC_PAGE_SIZE") / 2**20
    of_all = sysctl_file("net.ipv4.tcp_mem").read_text(encoding="ascii")

    def low_pages(host: str) -> int:
        pool_mib = tcp_memory_of(run, host)
        return int((tcp_memory_limits(pool_mib) if pool_mib else of_all).split()[0])

    peaks = probes.tcp_memory_peak_pages
    fullest = max(peaks, key=lambda host: peaks[host] / low_pages(host))
    return fidelity.check_tcp_memory(
        peaks[fullest] * page_mib,
        low_pages(fullest) * page_mib,
        legs["nstat"],
        whose=f"{fullest}'s TCP sockets" if tcp_memory_of(run, fullest) else "TCP sockets",
    )
