"""How far a run can be trusted: what it was asked for against what was measured of it."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from gostlab.ask.checks import Check
from gostlab.ask.ends import cc_at
from gostlab.ask.flows import Flow
from gostlab.ask.limits import MIN_ROUND_TRIPS, UDP_BURST_PKTS
from gostlab.ask.profile import lossless
from gostlab.ask.run_description import RunDescription
from gostlab.ask.trace import CapacityOf
from gostlab.ask.units import show_rate
from gostlab.declared.kernels import DECIDING, FEATURES
from gostlab.declared.tunnels import tunnel_kind
from gostlab.guest.reports import DATAGRAM_BYTES, FlowResult
from gostlab.guest.watch import binomial
from gostlab.guest.watch.realclock import Gap
from gostlab.measures import BOTTLENECK_FULL

# On the virtual clock the idle RTT is exact but for the cost of the ping's own system calls.
IDLE_RTT_TOLERANCE_MS = 0.1
# Below this idle share of the one CPU that all hosts share, it sets the rate and not the network.
# On the real clock the share is sampled by a tick that an overloaded CPU itself delays, so that
# more must be left.
CPU_IDLE_DEGRADED = {"virtual": 0.05, "real": 0.2}
# On one CPU a process may have to wait for the next jiffy (4 ms at 250 Hz, as fine as TCP's timers
# and CUBIC's clock are), and one more ms is allowed. 99 of 100 ticks must be better; for most to be
# worse means that no time in the run is what it says.
TICKER_LATE_MS = 5.0
# The least retransmission timeout (TCP_RTO_MIN): a machine that stands still for longer makes TCP
# believe in loss.
STALL_MS = 200.0
SAMPLER_LATE_MS = 10.0
# From here on at least one instant was left out.
SAMPLER_GAP_INTERVALS = 2.0
# Mininet-HiFi's gate asks for 99 % of the gaps to be in bounds and for their mean to be within 1 %;
# its own trace at 100 Mbit/s passes with 99.8 %, its overloaded one at 1 Gbit/s fails with 58.6 %.
# Once most are out of bounds, or a tenth of the rate is gone, the bottleneck is no longer the one
# that was asked for.
LATE_GAPS_DEGRADED, LATE_GAPS_INVALID = 0.01, 0.5
RATE_OFF_DEGRADED, RATE_OFF_INVALID = 0.01, 0.1
# Below this a share of 1 % is less than one packet.
MIN_GAPS = 100
# A kernel that sleeps through its short timers: seen at a fifth of the rate, with the CPU mostly
# idle. The bottleneck of a sound one is at more than 99 %.
WAKEUP_RATE, WAKEUP_IDLE = 0.9, 0.5
# The delay line's queue is sampled: its peak may lie between two samples, and twice as high.
DELAY_LINE_FULL = 0.5
# How far a udp flow's offered rate may be from the asked one, besides a burst at either end.
OFFERED_TOLERANCE = 0.03
# One false alarm in ten thousand delay lines.
LOSS_CONFIDENCE = 0.9999
# A path's replay is judged from so many changes of its rate on, and what it may be off: a packet in
# each sample of 100 ms is 2 % at 6 Mbit/s.
REPLAY_CHANGES = 10
REPLAY_ERROR = 0.05


def check_unless(
    bad: bool, verdict: str, name: str, asked: Any, got: Any, unit: str, reason: str
) -> Check:
    """A check that is ok, or has this verdict for this reason."""
    if bad:
        return Check(name, verdict, asked, got, unit, reason)
    return Check(name, "ok", asked, got, unit)


def graded(value: float, degraded_above: float, invalid_above: float) -> str:
    """The verdict of something that should be small."""
    if value > invalid_above:
        return "invalid"
    return "degraded" if value > degraded_above else "ok"


def check_idle_rtt(
    name: str,
    asked_ms: float,
    got_ms: Sequence[float],
    *,
    clock: str,
    syscall_cost_us: float,
    jitter_ms: tuple[float, float] = (0.0, 0.0),
) -> Check:
    """The least of a few pings against the configured delay, or against what jitter may make of it
    (ms below and above).

    On the real clock the CPU adds to it.
    """
    least = min(got_ms)
    # Each of the two hosts and three routers on the way adds its own processing on the real clock.
    tolerance = IDLE_RTT_TOLERANCE_MS + (20 * syscall_cost_us / 1000 if clock == "virtual" else 0.9)
    if least >= 100:
        tolerance += 0.5  # ping prints whole milliseconds from 100 ms up
    off = least - min(max(least, asked_ms + jitter_ms[0]), asked_ms + jitter_ms[1])
    cpu_adds = clock == "real" and off > 0
    return check_unless(
        abs(off) > tolerance,
        "invalid",
        name,
        round(asked_ms, 4),
        least,
        "ms",
        f"the idle path is {off:+.3f} ms off its configured round trip"
        + ("; on the real clock a busy CPU adds to it" if cpu_adds else ""),
    )


def check_cc(legs: Sequence[Mapping[str, Any]], run: RunDescription) -> list[Check]:
    """The congestion control seen on the live sockets of every leg that crosses the WAN, flow by
    flow; at both ends of every leg where ends have congestion controls of their own.
    """
    checks = check_cc_by_end(legs, run)
    kind = tunnel_kind(run.tunnel)
    # Of a chain both of its paths' connections, unless ends have congestion controls of their own.
    crossing = {kind.path_leg} | (set() if run.cc_by_end else {"wan2"})
    for flow in run.flows:
        if flow.cc is None:
            continue
        across = [leg for leg in legs if leg["leg"] in crossing]
        own = [leg for leg in across if leg["flow"] == flow.name]
        if not own and (kind.is_vpn or run.tunnel_options.get("shared") == "on"):
            own = across  # one connection for all that it carries
        seen = sorted({cc for leg in own for cc in leg["cc"]})
        checks.append(
            check_unless(
                seen != [flow.cc],
                "invalid",
                "cc_on_wan_sockets" + (f"_{flow.name}" if len(run.flows) > 1 else ""),
                flow.cc,
                seen,
                "name",
                f"WAN sockets ran {', '.join(seen) or 'unseen'}, not {flow.cc}",
            )
        )
    return checks


def check_cc_by_end(legs: Sequence[Mapping[str, Any]], run: RunDescription) -> list[Check]:
    """The congestion control seen at each end of each leg. An end that only acknowledges has one
    too: it sends with it as soon as it has anything to send.
    """
    checks = []
    for leg in legs if run.cc_by_end else ():
        for end, key in (("sender", "cc"), ("receiver", "receiver_cc")):
            host, seen = leg[end], leg[key]
            asked = cc_at(run.cc, run.cc_by_end, host, leg["leg"])
            checks.append(
                check_unless(
                    seen != [asked],
                    "invalid",
                    f"cc_{leg['leg']}_{host}" + (f"_{end}" if leg["loopback"] else ""),
                    asked,
                    seen,
                    "name",
                    f"on {host} the sockets of the {leg['leg']} leg ran"
                    f" {', '.join(seen) or 'unseen'}, not {asked}",
                )
            )
    return checks


@dataclass(frozen=True)
class OwnCpus:
    """What hosts with CPUs of their own did with them."""

    busiest: str
    busy: Mapping[str, float]  # the share of its time that each host's CPUs were busy
    for_packets: float | None  # the share of the busiest's work that was receiving packets


def check_cpu(
    share: float, bottleneck_share: float | None, clock: str, own: OwnCpus | None = None
) -> Check:
    """The idle share of the CPU (the least idle host's, where they have their `own`), and the share
    of the bottleneck's rate that was in use.

    A CPU without idle time has not always decided: one that polls packets singly fills what time it
    has and still keeps the bottleneck full. So it is blamed only where the bottleneck (its share of
    the rate in use) had room left.
    """
    full = bottleneck_share is not None and bottleneck_share >= BOTTLENECK_FULL
    whose = f"the CPU of {own.busiest}" if own else "the CPU"
    return check_unless(
        share < CPU_IDLE_DEGRADED[clock] and not full,
        "degraded",
        "cpu_idle_share",
        CPU_IDLE_DEGRADED[clock],
        round(share, 4),
        "share",
        f"{whose} was idle for only {share:.1%} of the time and the bottleneck was not full:"
        f" {whose}, not the network, set this rate"
        + (f" ({what_cpus_did(own)})" if clock == "virtual" else ""),
    )


def what_cpus_did(own: OwnCpus | None) -> str:
    """What kept a virtual CPU busy, and how busy the others were."""
    work = "the virtual CPU's cost per system call"
    if own is None:
        return work
    if own.for_packets:
        work = f"{own.for_packets:.0%} of its work was receiving packets, the rest system calls"
    busy = ", ".join(f"{host} {share:.0%}" for host, share in own.busy.items())
    return f"{work}; busy: {busy}"


def check_tcp_memory(
    peak_mib: float,
    low_mib: float,
    nstat: Mapping[str, Mapping[str, int]],
    whose: str = "TCP sockets",
) -> Check:
    """Whether the kernel's limit of memory for all TCP sockets together (tcp_mem), or for those of
    one host, had a say. `whose` they are, in words.

    Above its first number ("low") no socket's buffer grows any more, and with it no window; above
    its second the kernel shrinks what is there; what a receiver drops for want of memory looks like
    loss to the sender.
    """
    dropped = sum(
        counters.get(name, 0)
        for counters in nstat.values()
        for name in ("TcpExtTCPRcvQDrop", "TcpExtRcvPruned", "TcpExtTCPMemoryPressures")
    )
    return check_unless(
        peak_mib >= low_mib or dropped > 0,
        "degraded",
        "tcp_memory",
        round(low_mib, 1),
        round(peak_mib, 1),
        "MiB",
        f"{whose} held up to {peak_mib:.0f} MiB, and above {low_mib:.0f} MiB this kernel lets"
        " no window grow: its limit of TCP memory had a say in the rate (the settings"
        + (
            " tcp_memory and memory raise it)"
            if whose == "TCP sockets"
            else " host_memory and host_tcp_memory raise it)"
        ),
    )


def check_length(run: RunDescription, load_s: float, flows: Sequence[FlowResult] = ()) -> Check:
    """Every flow ran its time, and the shortest time is long enough to mean something."""
    ran = {flow.name: flow.ended_s - flow.started_s for flow in flows}
    for flow in run.flows:
        if flow.kind in ("tcp", "udp") and ran.get(flow.name, load_s) < 0.98 * flow.duration_s:
            return Check(
                "run_length",
                "invalid",
                flow.duration_s,
                round(ran.get(flow.name, load_s), 3),
                "s",
                f"{flow.name} ended early" if len(run.flows) > 1 else "the load ended early",
            )
    shortest = min(
        run.flows,
        key=lambda flow: min(flow.duration_s, ran.get(flow.name, load_s)) / max(flow.rtt_ms, 1e-9),
    )
    length_s = min(shortest.duration_s, ran.get(shortest.name, load_s))
    if length_s < MIN_ROUND_TRIPS * shortest.rtt_ms / 1000:
        return Check(
            "run_length",
            "degraded",
            shortest.duration_s,
            round(load_s, 3),
            "s",
            f"{length_s:.3g} s is less than {MIN_ROUND_TRIPS} round trips of"
            f" {shortest.rtt_ms:.0f} ms",
        )
    return Check("run_length", "ok", run.length_s, round(load_s, 3), "s")


def check_rate(received_bits: float, rate_bps: float, load_s: float) -> Check:
    """No more came through than the bottleneck can carry."""
    got = received_bits / load_s if load_s else 0.0
    return check_unless(
        bool(rate_bps) and got > rate_bps,
        "invalid",
        "rate_within_bottleneck",
        rate_bps or None,
        round(got),
        "bit/s",
        "more came through than the bottleneck carries: the path is not what was asked",
    )


def check_replay(
    run: RunDescription, samples: Sequence[Mapping[str, Any]], started_s: float = 0.0
) -> list[Check]:
    """What the bottleneck delivered while its rate changed, against what the changes asked.

    Between two samples, a queue that held at the first as much as the rate carries until the second
    was never empty, and must have carried all of it, but for the packet that is on its way. The
    error is the sum of the differences of those intervals over the sum of what was asked.

    samples: rows of queues.jsonl; started_s: the load's begin on their clock. No check where fewer
    than REPLAY_CHANGES changes of rate were asked, or no interval was full.
    """
    way = run.data_direction
    rows = [row for row in samples if (row["role"], row["direction"]) == ("bottleneck", way)]
    link = rows[0].get("link", "") if rows else ""
    steps = [(0.0, run.links.get(link, run.path)[way]["rate_bps"] or 0)] + [
        (change["at_s"], change["rate_bps"])
        for change in run.changes_of(link, way)
        if "rate_bps" in change
    ]
    if len(steps) <= REPLAY_CHANGES or len({row["dev"] for row in rows}) != 1:
        return []
    asked = error = 0.0
    capacity = CapacityOf(steps)
    for before, after in itertools.pairwise(rows):
        wanted = capacity.bits(before["t_s"] - started_s, after["t_s"] - started_s)
        if 8 * before["backlog_bytes"] >= wanted:
            asked += wanted
            error += abs(8 * (after["sent_bytes"] - before["sent_bytes"]) - wanted)
    if not asked:
        return []
    return [
        check_unless(
            error / asked > REPLAY_ERROR,
            "degraded",
            "replay_error",
            REPLAY_ERROR,
            round(error / asked, 5),
            "share",
            f"a bottleneck whose rate changed {len(steps) - 1} times delivered, per sample,"
            f" {100 * error / asked:.1f} % more or less than asked",
        )
    ]


def check_offered(
    run: RunDescription, flows: Sequence[FlowResult], cpu_idle_shares: Mapping[str, float | None]
) -> list[Check]:
    """Every udp flow offered the rate that it was asked to offer.

    iperf3 sends bursts, so a slow flow's rate over a short time is coarse: a burst at either end of
    its time may be one too many or too few. `cpu_idle_shares`: of each flow's own time, None where
    it was too short to be sampled.
    """
    results = {result.name: result for result in flows}
    checks = []
    for flow in run.flows:
        sent = results.get(flow.name)
        if flow.kind != "udp" or sent is None or not flow.rate_bps:
            continue
        got_bps = 8 * (sent.sent_datagrams or 0) * DATAGRAM_BYTES / flow.duration_s
        burst_bps = 8 * UDP_BURST_PKTS * DATAGRAM_BYTES / flow.duration_s
        tolerance_bps = OFFERED_TOLERANCE * flow.rate_bps + 2 * burst_bps
        checks.append(
            check_unless(
                abs(got_bps - flow.rate_bps) > tolerance_bps,
                "degraded",
                f"udp_offered_{flow.name}",
                flow.rate_bps,
                round(got_bps),
                "bit/s",
                offered_reason(flow, got_bps, cpu_idle_shares.get(flow.name), run.clock),
            )
        )
    return checks


def offered_reason(flow: Flow, got_bps: float, cpu_idle_share: float | None, clock: str) -> str:
    """Why a udp flow offered another rate: its CPU is named only where it was busy."""
    said = f"{flow.name} offered {show_rate(got_bps)} of {show_rate(flow.rate_bps)}"
    if got_bps > (flow.rate_bps or 0.0):
        return f"{said}: more than it was asked for"
    if cpu_idle_share is None:
        return f"{said}; how busy its sender's CPU was is not known"
    if cpu_idle_share < CPU_IDLE_DEGRADED[clock]:
        return f"{said}: its sender had no more CPU (idle for {cpu_idle_share:.1%} of the time)"
    return f"{said}, and not for want of CPU (idle for {cpu_idle_share:.1%} of the time)"


def check_drops(queues: Iterable[Mapping[str, Any]], run: RunDescription) -> list[Check]:
    """Drops only where the design drops: the bottleneck's buffer, or the delay line's configured
    loss, and that as often as configured. A row is the last sample of a queue.
    """
    queues = list(queues)
    lines = sorted((row for row in queues if row["role"] == "delay"), key=lambda row: row["dev"])
    several = sum(row["direction"] == "forward" for row in lines) > 1
    senders = [row for row in queues if row["role"] == "sender"]
    own = [check_sender_queue(senders)] if senders else []
    return own + [
        check_drops_of(
            f"delay_line_drops_{line['direction']}" + (f"_{line['dev']}" if several else ""),
            line,
            losses_of(run, line["direction"], line.get("link", "")),
        )
        for line in lines
    ]


def check_sender_queue(senders: Sequence[Mapping[str, Any]]) -> Check:
    """An end host's own queue paces and never drops: what it drops no path has lost."""
    drops = sum(row["drops"] for row in senders)
    reason = "fq on the senders' own cards dropped packets: the host, not the path, lost them"
    return check_unless(drops > 0, "degraded", "sender_queue_drops", 0, drops, "packets", reason)


def losses_of(run: RunDescription, direction: str, link: str = "") -> list[Mapping[str, Any]]:
    """Every loss that one direction of the path, or of one of several links, had during the run."""
    changed = [change["loss"] for change in run.changes_of(link, direction) if "loss" in change]
    return [run.links.get(link, run.path)[direction]["loss"], *changed]


def check_drops_of(
    name: str, last: Mapping[str, Any], losses: Sequence[Mapping[str, Any]]
) -> Check:
    """One delay line's drops against its losses: none, one of the random model, or something that
    only a run's own trace could judge.
    """
    drops = last["drops"]
    if all(lossless(loss) for loss in losses) or losses[0]["model"] == "periodic":
        reason = "the delay line dropped although no loss was asked"
        return check_unless(drops > 0, "invalid", name, 0, drops, "packets", reason)
    if len(losses) == 1 and losses[0]["model"] == "random":
        return check_loss(name, losses[0]["p"], drops, drops + last["sent_pkts"])
    return Check(name, "ok", None, drops, "packets")


def check_loss(name: str, asked: float, drops: int, offered: int) -> Check:
    """A delay line's drops against the binomial interval of its configured loss that holds with
    99.99 %: beyond it, something else dropped, or netem lost packets in lumps.
    """
    low, high = binomial.interval(LOSS_CONFIDENCE, offered, asked)
    return check_unless(
        not low <= drops <= high,
        "invalid",
        name,
        [low, high],
        drops,
        "packets",
        f"{drops} of {offered} packets were lost, {100 * asked:g} % would be {low} to {high}",
    )


def check_delay_line(samples: Iterable[Mapping[str, Any]], limit_pkts: int) -> list[Check]:
    """The delay line's own limit was never near: at it, netem drops what no loss was asked for.
    `samples`: of every queue.
    """
    most: dict[tuple[str, str], int] = {}
    for row in samples:
        if row["role"] == "delay":
            key = str(row["direction"]), str(row["dev"])
            most[key] = max(most.get(key, 0), row["backlog_pkts"])
    several = len(most) > 2
    checks = []
    for (direction, device), pkts in sorted(most.items()):
        checks.append(
            check_unless(
                pkts > DELAY_LINE_FULL * limit_pkts,
                "invalid" if pkts >= limit_pkts else "degraded",
                f"delay_line_backlog_{direction}" + (f"_{device}" if several else ""),
                limit_pkts,
                pkts,
                "packets",
                f"the delay line held {pkts} packets of the {limit_pkts} that it may: it may have"
                " dropped some",
            )
        )
    return checks


def check_kernel(
    run: RunDescription, described: Mapping[str, Any] | None, release: str
) -> list[Check]:
    """Whether a run that asked for another kernel had it, and what that one cannot do.

    described  what the machine knows of it; None: the shipped one was asked for
    release    what the running kernel says it is
    """
    if described is None:
        return []
    lacking = [
        FEATURES[name].says
        for name in described["lacks"]
        if FEATURES[name].clock in (None, run.clock)
    ]
    deciding = [
        name
        for name in described["lacks"]
        if name in DECIDING and FEATURES[name].clock in (None, run.clock)
    ]
    reason = "what this kernel lacks: " + "; ".join(f"no {words}" for words in lacking)
    return [
        check_unless(
            release != described["version"],
            "invalid",
            "kernel",
            described["version"],
            release,
            "",
            f"the run asked for kernel {run.kernel}, and had another",
        ),
        Check(
            "kernel_lacks",
            "degraded" if deciding else "ok",
            [],
            described["lacks"],
            "",
            reason if lacking else "",
        ),
    ]


def check_tunnel(ends: Mapping[str, int | None]) -> Check:
    """Both ends of the tunnel are alive when the load is over. `ends`: the exit status of each
    node's end, None: alive.
    """
    dead = {node: status for node, status in sorted(ends.items()) if status is not None}
    said = ", ".join(
        f"the tunnel's end on {node} died (exit status {status})" for node, status in dead.items()
    )
    alive = sorted(set(ends) - set(dead))
    return check_unless(bool(dead), "invalid", "tunnel_alive", sorted(ends), alive, "nodes", said)


# -- the real clock


def check_virtual_clock() -> list[Check]:
    """What cannot fail on the virtual clock, said once instead of measured."""
    return [
        Check(
            "virtual_clock",
            "ok",
            None,
            "exact by construction",
            "",
            "time stands still while the CPU works, so that timers, samplers and the bottleneck's"
            " departures are never late for want of the host's CPU; what the model's own cost per"
            " system call takes is in cpu_idle_share",
        )
    ]


def check_ticker(late_ms: Sequence[float]) -> Check:
    """How late a 10 ms ticker woke: whatever else sleeps to an instant (netem, pacing, iperf3) was
    as late.
    """
    if not late_ms:
        return not_measured(
            "ticker_lateness", TICKER_LATE_MS, "ms", "the load was shorter than a tick"
        )
    ordered = sorted(late_ms)
    median, most, worst_ms = (
        ordered[min(len(ordered) - 1, int(share * len(ordered)))] for share in (0.5, 0.99, 1.0)
    )
    verdict, reason = ticker_verdict(median, most, worst_ms)
    got = {"median": round(median, 3), "p99": round(most, 3), "worst": round(worst_ms, 3)}
    return Check("ticker_lateness", verdict, TICKER_LATE_MS, got, "ms", reason)


def ticker_verdict(median_ms: float, most_ms: float, worst_ms: float) -> tuple[str, str]:
    """What the lateness of half of all ticks, of 99 in 100 and of the worst one means."""
    if median_ms > TICKER_LATE_MS:
        return "invalid", (
            f"half of all timers fired more than {median_ms:.0f} ms late: nothing here happened in"
            " time"
        )
    if most_ms > TICKER_LATE_MS:
        return "degraded", (
            f"one timer in a hundred fired more than {most_ms:.0f} ms late: the CPU was overloaded"
        )
    if worst_ms > STALL_MS:
        return "degraded", (
            f"the machine stood still for {worst_ms:.0f} ms: TCP's retransmission timers may have"
            " fired"
        )
    return "ok", ""


def check_sampler(lateness_ms: Sequence[float]) -> Check:
    """How late the samplers woke: a busy CPU shows here first."""
    late = round(max(lateness_ms, default=0.0), 3)
    return check_unless(
        late > SAMPLER_LATE_MS,
        "degraded",
        "sampler_lateness",
        SAMPLER_LATE_MS,
        late,
        "ms",
        f"a sampler woke {late:.0f} ms late: the CPU was overloaded",
    )


def check_sampler_gap(interval_s: float, longest_s: float) -> Check:
    """The longest time between two samples: an instant that passed while the CPU was busy is left
    out of the series.
    """
    return check_unless(
        longest_s >= SAMPLER_GAP_INTERVALS * interval_s,
        "degraded",
        "sampler_gap",
        interval_s,
        round(longest_s, 6),
        "s",
        f"{longest_s:.3g} s lie between two samples, {interval_s:g} s were asked: the series have"
        " holes",
    )


def check_departures(gaps: Sequence[Gap] | str) -> list[Check]:
    """What left the bottleneck while its queue was backlogged, against the rate: each gap, and all
    of them together. A sentence instead of gaps says why none were measured.

    Mininet-HiFi's measure (Handigol et al., CoNEXT 2012): a link is emulated well if its packets
    leave when they should.
    """
    late_name, rate_name = "bottleneck_gaps", "bottleneck_rate"
    if not isinstance(gaps, str) and len(gaps) < MIN_GAPS:
        gaps = f"the bottleneck's queue was backlogged for only {len(gaps)} packets of the sample"
    if isinstance(gaps, str):
        return [
            not_measured(late_name, LATE_GAPS_DEGRADED, "share", gaps),
            not_measured(rate_name, 1.0, "share", gaps),
        ]
    late = sum(gap.got_s > 2 * gap.due_s for gap in gaps) / len(gaps)
    rate = sum(gap.due_s for gap in gaps) / sum(gap.got_s for gap in gaps)
    packet_us = 1e6 * sum(gap.due_s for gap in gaps) / len(gaps)
    return [
        check_unless(
            late > LATE_GAPS_DEGRADED,
            graded(late, LATE_GAPS_DEGRADED, LATE_GAPS_INVALID),
            late_name,
            LATE_GAPS_DEGRADED,
            round(late, 4),
            "share",
            f"{late:.1%} of {len(gaps)} packets left the bottleneck more than one packet time"
            f" ({packet_us:.0f} us) late: its timer waited for the CPU",
        ),
        check_unless(
            abs(rate - 1) > RATE_OFF_DEGRADED,
            graded(abs(rate - 1), RATE_OFF_DEGRADED, RATE_OFF_INVALID),
            rate_name,
            1.0,
            round(rate, 4),
            "share",
            f"while packets waited the bottleneck sent at {rate:.1%} of its rate: the CPU, not its"
            " rate, paced them",
        ),
    ]


def check_wakeups(
    late_ms: Sequence[float],
    gaps: Sequence[Gap] | str,
    idle_share: float,
    *,
    known_to_lose: bool = False,
) -> Check:
    """Whether the kernel lost wake-ups: packets waited beyond their time at the bottleneck, and
    neither was the CPU busy nor did it come late to a timer of 10 ms.

    known_to_lose  the run's kernel has an idle that loses some: ticks that are late are its too

    An idle that does not look whether its timer has fired just before sleeps through it, and the
    short timers of a queue or of pacing are the ones that fire just before (User-Mode Linux up to
    5.10). A host without time for the guest makes the ticks late too, and is not meant.
    """
    name = "lost_wakeups"
    if isinstance(gaps, str) or len(gaps) < MIN_GAPS or not late_ms:
        return not_measured(
            name, WAKEUP_RATE, "share", "too few packets waited in the bottleneck's queue"
        )
    rate = sum(gap.due_s for gap in gaps) / sum(gap.got_s for gap in gaps)
    ordered = sorted(late_ms)
    in_time = ordered[min(len(ordered) - 1, int(0.99 * len(ordered)))] <= TICKER_LATE_MS
    ticks = "its ticks came in time" if in_time else "its idle is known for it"
    return check_unless(
        rate < WAKEUP_RATE and idle_share > WAKEUP_IDLE and (in_time or known_to_lose),
        "invalid",
        name,
        WAKEUP_RATE,
        round(rate, 4),
        "share",
        f"while packets waited the bottleneck sent at {rate:.1%} of its rate, though the CPU was"
        f" idle for {idle_share:.0%} of the time and {ticks}: this kernel sleeps through timers"
        " that fire just before it does",
    )


def not_measured(name: str, asked: Any, unit: str, why: str) -> Check:
    """A check that could not be made speaks neither for nor against a run."""
    return Check(name, "ok", asked, "not measured", unit, why)
