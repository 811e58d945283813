"""Check how far a run can be trusted: compare requested with measured values."""

import itertools
import math
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from gostlab.guest.flow_result import SERVER, FlowResult
from gostlab.guest.probes import binomial
from gostlab.guest.probes.first_last_byte import SendTimes
from gostlab.guest.probes.timer_lateness import DepartureGap
from gostlab.install.locate import version_tuple
from gostlab.install.parts_json import KernelJson
from gostlab.registry.kernels import DECIDING, FEATURES, SHIPPED
from gostlab.registry.tunnels import tunnel_kind
from gostlab.results import metrics
from gostlab.results.rows import HostRow, LegRow, QueueRow
from gostlab.spec.flow import FlowSpec, cc_at
from gostlab.spec.path_spec import LossSpec, PolicerSpec, ReorderSpec, ShareSpec, SlotSpec
from gostlab.spec.run_spec import RunSpec
from gostlab.spec.units import show_rate
from gostlab.spec.verdict import Check
from gostlab.tcpmodel.netem_models import LongRun, correlated_events, state_loss
from gostlab.tcpmodel.run_limits import MIN_ROUND_TRIPS, UDP_BURST_PKTS
from gostlab.tcpmodel.stepped_capacity import SteppedCapacity

# On the virtual clock the idle RTT is exact but for the cost of the ping's own system calls.
IDLE_RTT_TOLERANCE_MS = 0.1
# Below this idle share the CPU sets the rate and not the network. On the real clock it is sampled
# by a tick that an overloaded CPU itself delays, so that more must be left.
CPU_IDLE_DEGRADED = {"virtual": 0.05, "real": 0.2}
# The next jiffy (4 ms at 250 Hz, as fine as TCP's timers and CUBIC's clock are), and one more ms.
# 99 of 100 ticks must be better; if most are worse, no time in the run is what it says.
TICKER_LATE_MS = 5.0
# The least retransmission timeout (TCP_RTO_MIN): a longer stop makes TCP see loss.
STALL_MS = 200.0
SAMPLER_LATE_MS = 10.0
SAMPLER_GAP_INTERVALS = 2.0  # from here on at least one instant was left out
# Mininet-HiFi's gate asks for 99 % of the gaps to be in bounds and for their mean to be within 1 %;
# its own trace at 100 Mbit/s passes with 99.8 %, its overloaded one at 1 Gbit/s fails with 58.6 %.
# Once most are out of bounds, or a tenth of the rate is gone, it is another bottleneck.
LATE_GAPS_DEGRADED, LATE_GAPS_INVALID = 0.01, 0.5
RATE_OFF_DEGRADED, RATE_OFF_INVALID = 0.01, 0.1
RATE_CLOCKS = 0.002  # sender and receiver begin and end to count at different instants
# Less late than this is no flow: a tunnel may hold iperf3's word to begin for a delayed ACK
# (TCP_DELACK_MIN, 40 ms), and timers fire by ticks of 4 ms.
MIN_TRIP_MS = 50.0
MIN_GAPS = 100  # below this a share of 1 % is less than one packet
# A kernel that sleeps through its short timers: seen at a fifth of the rate, with the CPU mostly
# idle. The bottleneck of a sound one is at more than 99 %.
WAKEUP_RATE, WAKEUP_IDLE = 0.9, 0.5
DELAY_LINE_FULL = 0.5  # its peak may lie between two samples, and twice as high
UNCOUNTED_SHARE = 0.1  # maximum share of datagrams that a udp receiver knows nothing of
OFFERED_TOLERANCE = 0.03  # share of a udp flow's rate, beside a burst at either end
# What the kernel may have received beyond what the program has read in time.
RECEIVED_TOLERANCE, MAX_UNREAD_BYTES = 0.002, 4 * 1448
BURST_LATE_S = 0.01  # a burst's first write may be this late
MAX_APP_WRITE_BYTES = 128 * 1024  # iperf3's usual block
APP_RATE_ROUND_TRIPS = 3  # an application's first data: a connection, iperf3's words, the way
LOSS_CONFIDENCE = 0.9999  # one false alarm in ten thousand delay lines
# A path's replay is judged from so many changes of its rate on, and what it may be off: a packet in
# each sample of 100 ms is 2 % at 6 Mbit/s.
REPLAY_CHANGES = 10
# include/linux/panic.h: a bad page, an oops, a WARN, a lockup. Others say which modules it has.
TAINT_OF_FAULTS = 1 << 5 | 1 << 7 | 1 << 9 | 1 << 14
REPLAY_ERROR = 0.05

# What is wrong where a check fails: the verdict, the unit of what was asked and got, the reason.
FAILURES: Mapping[str, str] = {
    "idle_rtt": "invalid, ms: the idle path is {off:+.3f} ms off its configured round trip{cause}",
    "cc_on_wan_sockets": "invalid, name: WAN sockets ran {seen}, not {asked}",
    "cc": "invalid, name: on {host} the sockets of the {leg} leg ran {seen}, not {asked}",
    "cpu_idle_share": (
        "degraded, share: {whose} was idle for only {share:.1%} of the time and the bottleneck was"
        " not full: {whose}, not the network, set this rate{work}"
    ),
    "tcp_memory": (
        "degraded, MiB: {whose} held up to {peak:.0f} MiB, and above {low:.0f} MiB this kernel lets"
        " no window grow: its limit of TCP memory had a say in the rate (the settings {settings}"
        " raise it)"
    ),
    "run_length": "invalid, s: {which} ended early",
    "data_start": (
        "degraded, s: {flow}'s first byte left {late:.3g} s late, more than its round trip of"
        " {rtt_ms:.3g} ms"
    ),
    "data_end": (
        "degraded, s: {flow}'s last byte left {late:.3g} s late, more than its round trip of"
        " {rtt_ms:.3g} ms: its sender had so much buffered when its time was up"
    ),
    "rate_within_bottleneck": (
        "invalid, bit/s: more payload of {whose} came through than the bottleneck carries: the path"
        " is not what was asked, or the lab counts wrongly (a bug of gostlab)"
    ),
    "rate_within_part": (
        "degraded, bit/s: of {whose} more payload was delivered in the measured part than the"
        " bottleneck carries in its time: some had crossed it before and was held back, as behind a"
        " lost packet (head-of-line blocking of TCP, QUIC and KCP): measure a longer part"
    ),
    "replay_error": (
        "degraded, share: a bottleneck whose rate changed {changes} times delivered, per sample,"
        " {percent} % more or less than asked"
    ),
    "udp_offered": "degraded, bit/s: {detail}",
    "udp_counted": (
        "degraded, datagrams: {flow}'s receiver knows of {got} of {asked} datagrams: the others"
        " neither arrived nor are counted as lost (a tunnel that drops them, or a path that was"
        " down at the end)"
    ),
    "app_rate": "degraded, bit/s: {detail}",
    "transfer": "degraded, bytes: {detail}",
    "streams": "degraded, streams: {detail}",
    "received": (
        "invalid, bytes: {flow} reports {got} bytes, and the kernel counted {asked} at its"
        " receiving sockets: one of them counts wrongly (a bug of gostlab)"
    ),
    "on_off": "degraded, s: {detail}",
    "counted_by": (
        "degraded, end: {flow}'s client gave up on its server's results, which waited behind the"
        " data: goodput is the server's, and what was sent again is not known"
    ),
    "sender_queue_drops": (
        "degraded, packets: fq on the senders' own cards dropped packets: the host, not the path,"
        " lost them"
    ),
    "delay_line_drops": "invalid, packets: the delay line dropped although no loss was asked",
    "loss": (
        "invalid, packets: {got} of {offered} packets were lost, {percent:g} % would be {low} to"
        " {high}"
    ),
    "loss_in_bursts": (
        "invalid, packets: {got} of {offered} packets were lost, this chain of states would lose"
        " {low} to {high}"
    ),
    "loss_correlated": (
        "invalid, packets: {got} of {offered} packets were lost, {percent:.3g} % of correlated"
        " numbers would be {low} to {high}"
    ),
    "impaired": (
        "invalid, packets: {got} of {offered} packets were {done}, {percent:.4g} % would be {low}"
        " to {high}"
    ),
    "policer_rate": (
        "invalid, bytes: {got} bytes passed a policer that lets {asked} bytes pass in this time"
    ),
    "slot_pkts": (
        "invalid, packets: {got} packets left in slots that send {asked} packets in this time"
    ),
    "outage": ("invalid, packets: {got} packets passed {where} while an outage let none pass"),
    "delay_line_backlog": (
        "degraded, packets: the delay line held {got} packets of the {asked} that it may: it may"
        " have dropped some"
    ),
    "kernel_warned": (
        "degraded: the guest's kernel found a fault in itself (a WARN, an oops or a bad page,"
        " taint {got:#x}): what it did after that need not be TCP's"
    ),
    "capture": (
        "invalid, packets: {got} packets are missing from {files}: the host could not write them"
        " ({error})"
    ),
    "kernel": "invalid: the run requested kernel {kernel}, and had another",
    "tunnel_alive": "invalid, nodes: {detail}",
    "sampler_lateness": "degraded, ms: a sampler woke {got:.0f} ms late: the CPU was overloaded",
    "sampler_gap": (
        "degraded, s: {longest:.3g} s lie between two samples, {asked:g} s were asked: the series"
        " have holes"
    ),
    "bottleneck_gaps": (
        "degraded, share: {late:.1%} of {count} packets left the bottleneck more than one packet"
        " time ({packet_us:.0f} us) late: its timer waited for the CPU"
    ),
    "bottleneck_rate": (
        "degraded, share: while packets waited the bottleneck sent at {rate:.1%} of its rate: the"
        " CPU, not its rate, paced them"
    ),
    "lost_wakeups": (
        "invalid, share: while packets waited the bottleneck sent at {rate:.1%} of its rate, though"
        " the CPU was idle for {idle:.0%} of the time and {ticks}: this kernel sleeps through"
        " timers that fire just before it does"
    ),
}


def make_check(
    what: str, bad: bool, asked: Any, got: Any, name: str = "", verdict: str = "", **values: Any
) -> Check:
    """Return a check that is ok, or fails with the verdict and reason of FAILURES.

    A name or a verdict may replace the default.
    """
    head, _, reason = FAILURES[what].partition(": ")
    usual, _, unit = head.partition(", ")
    if not bad:
        return Check(name or what, "ok", asked, got, unit)
    reason = reason.format(asked=asked, got=got, **values)
    return Check(name or what, verdict or usual, asked, got, unit, reason)


def check_idle_rtt(
    name: str,
    run: RunSpec,
    asked_ms: float,
    got_ms: Sequence[float],
    jitter_ms: tuple[float, float] = (0.0, 0.0),
) -> Check:
    """Check the minimum of a few pings against the configured delay.

    Jitter may shift it by `jitter_ms` (below and above). On the real clock the CPU adds to it.
    """
    min_ms = min(got_ms)
    # Each of the two hosts and three routers on the way adds its own processing on the real clock.
    virtual = run.clock == "virtual"
    tolerance = IDLE_RTT_TOLERANCE_MS + (20 * run.syscall_cost_us / 1000 if virtual else 0.9)
    if min_ms >= 100:
        tolerance += 0.5  # ping prints whole milliseconds from 100 ms up
    off = min_ms - min(max(min_ms, asked_ms + jitter_ms[0]), asked_ms + jitter_ms[1])
    cause = "; on the real clock a busy CPU adds to it" if not virtual and off > 0 else ""
    requested, bad = round(asked_ms, 4), abs(off) > tolerance
    return make_check("idle_rtt", bad, requested, min_ms, name=name, off=off, cause=cause)


def check_cc(
    legs: Sequence[LegRow], run: RunSpec, in_datagrams: Collection[str] = ()
) -> list[Check]:
    """Check the congestion control on the live sockets of every leg across the WAN, per flow.

    Where ends have their own, both ends of every leg are checked. Flows `in_datagrams` use none of
    the kernel's.
    """
    checks = check_cc_by_end(legs, run)
    declaration = tunnel_kind(run.tunnel)
    # Of a chain both of its paths' connections, unless ends have congestion controls of their own.
    crossing = {declaration.path_leg} | (set() if run.cc_by_end else {"wan2"})
    for flow in run.flows:
        if flow.cc is None or (
            flow.takes_tunnel and not declaration.is_direct and not declaration.path_leg
        ):
            continue
        if flow.name in in_datagrams:
            detail = (
                f"{flow.name} sends datagrams: its program, not the kernel, controls congestion"
            )
            checks.append(Check(f"sent_by_{flow.name}", "ok", flow.cc, "its program", "", detail))
            continue
        across = [leg for leg in legs if leg["leg"] in crossing]
        flow_legs = [leg for leg in across if leg["flow"] == flow.name]
        one_for_all = declaration.is_vpn or run.tunnel_options.get("shared") == "on"
        seen = sorted({cc for leg in flow_legs for cc in leg["cc"]})
        if not seen and (flow.traffic.is_brief or (one_for_all and not flow_legs)):
            # one connection for all that it carries, or the same program's others
            seen = sorted({cc for leg in across for cc in leg["cc"]})
        name = "cc_on_wan_sockets" + (f"_{flow.name}" if len(run.flows) > 1 else "")
        bad, detail = seen != [flow.cc], ", ".join(seen) or "unseen"
        checks.append(make_check("cc_on_wan_sockets", bad, flow.cc, seen, name, seen=detail))
    return checks


def check_cc_by_end(legs: Sequence[LegRow], run: RunSpec) -> list[Check]:
    """Check the congestion control at each end of each leg, also where one only acknowledges."""
    checks = []
    for leg in legs if run.cc_by_end else ():
        for end, host, seen in (
            ("sender", leg["sender"], leg["cc"]),
            ("receiver", leg["receiver"], leg["receiver_cc"]),
        ):
            requested_cc = cc_at(run.cc, run.cc_by_end, host, leg["leg"])
            name = f"cc_{leg['leg']}_{host}" + (f"_{end}" if leg["loopback"] else "")
            checks.append(
                make_check(
                    "cc",
                    seen != [requested_cc],
                    requested_cc,
                    seen,
                    name,
                    seen=", ".join(seen) or "unseen",
                    host=host,
                    leg=leg["leg"],
                )
            )
    return checks


def check_cpu(of_hosts: Sequence[HostRow], bottleneck_share: float | None, clock: str) -> Check:
    """Check the idle share of the CPU in the median second of the load.

    It is the least idle host's, if hosts have their own CPUs. An average would include the seconds
    in which iperf3 opens and drains its streams, when everything is idle. A CPU that polls packets
    singly uses all its time and still keeps the bottleneck full: it is blamed only if the
    bottleneck had capacity left.
    """
    host, idle = metrics.least_idle_cpu(of_hosts)
    share = 1.0 if idle is None else idle
    full = bottleneck_share is not None and bottleneck_share >= metrics.BOTTLENECK_FULL
    whose = f"the CPU of {host}" if host else "the CPU"
    least = CPU_IDLE_DEGRADED[clock]
    work = f" ({describe_cpu_work(of_hosts, host)})" if clock == "virtual" else ""
    bad, got = share < least and not full, round(share, 4)
    return make_check("cpu_idle_share", bad, least, got, whose=whose, share=share, work=work)


def describe_cpu_work(of_hosts: Sequence[HostRow], busiest: str | None) -> str:
    """Describe what kept a virtual CPU busy, and how busy the other hosts' CPUs were."""
    work = "the virtual CPU's cost per system call"
    if busiest is None:
        return work
    if for_packets := metrics.packets_share(of_hosts, busiest):
        work = f"{for_packets:.0%} of its work was receiving packets, the rest system calls"
    shares = metrics.busy_shares(of_hosts).items()
    return f"{work}; busy: {', '.join(f'{host} {share:.0%}' for host, share in shares)}"


def check_tcp_memory(
    peak_mib: float,
    low_mib: float,
    nstat: Mapping[str, Mapping[str, int]],
    whose: str = "TCP sockets",
) -> Check:
    """Check whether the limit of TCP memory (tcp_mem, or one host's) affected the rate.

    Above its first number ("low") no window grows; above its second the kernel shrinks windows.
    What a receiver drops for want of memory looks like loss to the sender.
    """
    dropped = sum(
        counters.get(name, 0)
        for counters in nstat.values()
        for name in ("TcpExtTCPRcvQDrop", "TcpExtRcvPruned", "TcpExtTCPMemoryPressures")
    )
    of_all = whose == "TCP sockets"
    return make_check(
        "tcp_memory",
        peak_mib >= low_mib or dropped > 0,
        round(low_mib, 1),
        round(peak_mib, 1),
        whose=whose,
        peak=peak_mib,
        low=low_mib,
        settings="tcp_memory and memory" if of_all else "host_memory and host_tcp_memory",
    )


def check_flow_durations(run: RunSpec, load_s: float, flows: Sequence[FlowResult] = ()) -> Check:
    """Check that every flow ran its time, and that the shortest time is long enough."""
    ran = {flow.name: flow.ended_s - flow.started_s for flow in flows}
    for flow in run.flows:
        length_s = ran.get(flow.name, load_s)
        if flow.traffic.by_iperf3 and length_s < 0.98 * flow.duration_s:
            which = flow.name if len(run.flows) > 1 else "the load"
            return make_check("run_length", True, flow.duration_s, round(length_s, 3), which=which)
    from_s, to_s = run.window_s
    measured = []
    for flow in run.flows:
        if flow.traffic.is_sized:  # how short it is, is its result
            continue
        end_s = flow.start_s + min(flow.duration_s, ran.get(flow.name, load_s))
        measured.append((min(end_s, to_s) - max(flow.start_s, from_s), flow))
    if not measured:
        return Check("run_length", "ok", run.length_s, round(load_s, 3), "s")
    # Of a flow that is over before what is measured, or begins behind it, there is nothing to say.
    length_s, shortest = min(
        [pair for pair in measured if pair[0] > 0] or measured,
        key=lambda pair: pair[0] / max(pair[1].rtt_ms, 1e-9),
    )
    if length_s >= MIN_ROUND_TRIPS * shortest.rtt_ms / 1000:
        return Check("run_length", "ok", run.length_s, round(load_s, 3), "s")
    trips = f"{MIN_ROUND_TRIPS} round trips of {shortest.rtt_ms:.0f} ms"
    reason = f"{length_s:.3g} s is less than {trips}"
    return Check("run_length", "degraded", shortest.duration_s, round(load_s, 3), "s", reason)


def check_flow_times(run: RunSpec, times: Callable[[str], SendTimes | None]) -> list[Check]:
    """Check that the data of several iperf3 flows began and ended on time, but for a round trip.

    For a start it is the idle path's round trip; for an end the last one that its socket saw, as
    its buffered data take one. The end of the last flow is not checked.
    """
    checks = []
    timed = [flow for flow in run.flows if flow.traffic.by_iperf3]
    last_s = max((flow.end_s for flow in timed), default=0.0)
    for flow in timed if len(timed) > 1 else ():
        sent = times(flow.name)
        # A flow that connects at its start is late on request; a pause hides when data began.
        if sent is None or flow.connects_at_start or flow.pauses:
            continue
        offset_s = run.start_offset_s(flow.name)
        ends = [("data_start", flow.start_s + offset_s, sent.began_s, flow.rtt_ms)]
        if flow.end_s < last_s:
            end_s, trip_ms = flow.end_s + offset_s, max(flow.rtt_ms, sent.srtt_ms)
            ends.append(("data_end", end_s, sent.ended_s, trip_ms))
        for what, asked_s, got_s, rtt_ms in ends:
            late_s, trip_s = got_s - asked_s, max(rtt_ms, MIN_TRIP_MS) / 1000
            checks.append(
                make_check(
                    what,
                    late_s > trip_s,
                    asked_s,
                    got_s,
                    name=f"{what}_{flow.name}",
                    flow=flow.name,
                    late=late_s,
                    rtt_ms=1000 * trip_s,
                )
            )
    return checks


def payload_share(run: RunSpec, *, datagrams: bool) -> float:
    """Return how much of a bottleneck's rate can be a flow's payload.

    Ethernet's header of 14 bytes and TCP's and IP's 52 (UDP's and IP's 28) are in every packet. A
    GSO super-packet of TCP has them once.
    """
    if run.offloads and not datagrams:
        return 1.0
    return (run.mtu - (28 if datagrams else 52)) / (run.mtu + 14)


@dataclass(frozen=True)
class CarriedRate:
    """The rate that one flow, or all of a direction, got through one bottleneck."""

    whose: str
    got_bps: float  # payload
    max_bps: float  # the most payload that the bottleneck carries in that time; 0: any
    under_way_bps: float = 0.0  # may have been in flight when the measured part began

    @property
    def excess(self) -> float:
        return self.got_bps / self.max_bps if self.max_bps else 0.0


def check_rate(carried: CarriedRate) -> Check:
    """Compare what came through a bottleneck with what it can carry.

    The clocks at both ends are allowed for. In a part of the load the payload may also be what a
    loss, or a queue of ACKs, held back before.
    """
    got_bps, max_bps = round(carried.got_bps), round(carried.max_bps)
    bad = bool(max_bps) and got_bps > (1 + RATE_CLOCKS) * max_bps
    from_before = bad and got_bps <= (1 + RATE_CLOCKS) * max_bps + carried.under_way_bps
    what = "rate_within_part" if from_before else "rate_within_bottleneck"
    name, whose = "rate_within_bottleneck", carried.whose
    return make_check(what, bad, max_bps or None, got_bps, name, whose=whose)


def check_replay(run: RunSpec, samples: Sequence[QueueRow]) -> list[Check]:
    """Check what the bottleneck delivered against its changing rate.

    A queue that held at one sample (a row of queues.jsonl) as much as the rate carries until the
    next was never empty, and must have carried all of it, but for the packet on its way. The error
    is the sum of these intervals' differences over that of what was asked. No check below
    REPLAY_CHANGES changes, or without such an interval.
    """
    direction = run.data_direction
    rows = [row for row in samples if (row["role"], row["direction"]) == ("bottleneck", direction)]
    link = rows[0].get("link", "") if rows else ""
    base_bps = run.path_of_link(link)[direction].rate_bps or 0
    steps = [(0.0, base_bps), *run.rate_changes(link, direction)]
    if len(steps) <= REPLAY_CHANGES or len({row["dev"] for row in rows}) != 1:
        return []
    requested = error = 0.0
    capacity = SteppedCapacity(steps)
    for before, after in itertools.pairwise(rows):
        wanted = capacity.bits(before["t_s"], after["t_s"])
        if 8 * before["backlog_bytes"] >= wanted:
            requested += wanted
            error += abs(8 * (after["sent_bytes"] - before["sent_bytes"]) - wanted)
    if not requested:
        return []
    off = error / requested
    bad, changes, percent = off > REPLAY_ERROR, str(len(steps) - 1), f"{100 * off:.1f}"
    return [
        make_check(
            "replay_error", bad, REPLAY_ERROR, round(off, 5), changes=changes, percent=percent
        )
    ]


def check_offered(
    run: RunSpec, flows: Sequence[FlowResult], cpu_idle_shares: Mapping[str, float | None]
) -> list[Check]:
    """Check that every udp flow offered its rate, but for a burst of iperf3's at either end.

    `cpu_idle_shares` are those of each flow's own time, None if it was too short to be sampled.
    """
    results = {result.name: result for result in flows}
    checks = []
    for flow in run.flows:
        sent = results.get(flow.name)
        if flow.traffic_type != "udp" or sent is None or not flow.rate_bps:
            continue
        got_bps = sent.offered_bps or 0.0
        burst_bps = 8 * UDP_BURST_PKTS * flow.datagram_bytes / flow.duration_s
        tolerance_bps = OFFERED_TOLERANCE * flow.rate_bps + 2 * burst_bps
        detail = offered_reason(flow, got_bps, cpu_idle_shares.get(flow.name), run.clock)
        name, bad = f"udp_offered_{flow.name}", abs(got_bps - flow.rate_bps) > tolerance_bps
        checks.append(
            make_check("udp_offered", bad, flow.rate_bps, round(got_bps), name, detail=detail)
        )
        checks.append(check_datagram_count(flow, sent))
    return checks


def check_datagram_count(flow: FlowSpec, result: FlowResult) -> Check:
    """Check that the receiver knows of nearly all datagrams of a udp flow, arrived or lost.

    iperf3's receiver takes gaps between arrived datagrams for losses: it sees none after the last
    one. Datagrams of two round trips may be under way when it stops.
    """
    rate = (result.offered_bps or 0.0) / (8 * flow.datagram_bytes)
    sent, got = round(rate * min(result.seconds, flow.duration_s)), result.sent_datagrams or 0
    missing = UNCOUNTED_SHARE * sent + 2 * flow.rtt_ms / 1000 * rate + 2 * UDP_BURST_PKTS
    name, verdict = f"udp_counted_{flow.name}", "" if got else "invalid"
    return make_check("udp_counted", got < sent - missing, sent, got, name, verdict, flow=flow.name)


def check_app_rates(run: RunSpec, flows: Sequence[FlowResult]) -> list[Check]:
    """Check that every tcp flow at a rate of its application reached it.

    Its first data reach the receiver some round trips after its start.
    """
    results = {result.name: result for result in flows}
    checks = []
    for flow in run.flows:
        result = results.get(flow.name)
        if flow.traffic_type != "tcp" or not flow.rate_bps or result is None:
            continue
        mean_bps = 8 * result.bytes / flow.duration_s
        missing_s = APP_RATE_ROUND_TRIPS * flow.rtt_ms / 1000
        min_bps = flow.rate_bps * (1 - OFFERED_TOLERANCE) * (1 - missing_s / flow.duration_s)
        # Of a slow application the first write of each stream is a part of what it sends.
        burst_bps = 8 * flow.streams * MAX_APP_WRITE_BYTES / flow.duration_s
        max_bps = flow.rate_bps * (1 + OFFERED_TOLERANCE) + burst_bps
        detail = app_rate_reason(flow, result)
        checks.append(
            make_check(
                "app_rate",
                not min_bps <= mean_bps <= max_bps,
                flow.rate_bps,
                round(result.goodput_bps),
                f"app_rate_{flow.name}",
                detail=detail,
            )
        )
    return checks


def check_transfers(run: RunSpec, flows: Sequence[FlowResult]) -> list[Check]:
    """Check that every transfer finished by the end of its flow's time."""
    checks = []
    durations_s = {flow.name: flow.duration_s for flow in run.flows}
    for result in flows:
        if result.transfer is None:
            continue
        requested_bytes = result.transfer["size_bytes"]
        detail = (
            f"{result.name} did not finish: {result.bytes} of {requested_bytes} bytes arrived by"
            f" the end of its {durations_s[result.name]:g} s (a longer duration, or fewer bytes)"
        )
        unfinished, name = result.transfer["completion_s"] is None, f"transfer_{result.name}"
        checks.append(
            make_check("transfer", unfinished, requested_bytes, result.bytes, name, detail=detail)
        )
    return checks


def check_streams(flows: Sequence[FlowResult]) -> list[Check]:
    """Check flows of many streams: that all lasted, and what they report against the kernel.

    The kernel's count at the receiving sockets is no less, and a little more: each began with some
    bytes that are no data, and may have got a few segments between its last read and its end.
    """
    checks = []
    for result in flows:
        if (by_stream := result.by_stream) is None:
            continue
        name, streams = result.name, by_stream["streams"]
        early, counted = by_stream["ended_early"], by_stream["socket_bytes"]
        detail = f"{early} of {name}'s {streams} connections ended before their time"
        lasted = make_check(
            "streams", early > 0, streams, streams - early, f"streams_{name}", detail=detail
        )
        most = result.bytes * (1 + RECEIVED_TOLERANCE) + MAX_UNREAD_BYTES * streams
        bad = not result.bytes <= counted <= most
        received = make_check("received", bad, counted, result.bytes, f"received_{name}", flow=name)
        checks += [lasted, received]
    return checks


def check_on_off(run: RunSpec, flows: Sequence[FlowResult]) -> list[Check]:
    """Check that every on-off source's bursts began on time, and reached their rate if any."""
    checks = []
    results = {result.name: result for result in flows}
    for flow in run.flows:
        result = results.get(flow.name)
        if result is None or result.on_off is None:
            continue
        on_off = result.on_off
        late_s = on_off["max_late_s"]
        detail = (
            f"{flow.name}: a burst began {late_s:.3g} s after it was due: its sender waited for"
            " the CPU, or its connection was made late"
        )
        checks.append(
            make_check(
                "on_off", late_s > BURST_LATE_S, 0.0, late_s, f"on_off_{flow.name}", detail=detail
            )
        )
        if flow.rate_bps:
            asked_bps, got_bps = flow.rate_bps, on_off["on_bps"]
            detail = (
                f"{flow.name}'s bursts got {show_rate(got_bps)} of the {show_rate(asked_bps)} that"
                " its application offers: the path, its window or other flows limited it"
            )
            bad = got_bps < (1 - OFFERED_TOLERANCE) * asked_bps
            name = f"app_rate_{flow.name}"
            checks.append(
                make_check("app_rate", bad, asked_bps, round(got_bps), name, detail=detail)
            )
    return checks


def app_rate_reason(flow: FlowSpec, result: FlowResult) -> str:
    """Explain why a flow did not have its application's rate, with tcp_info's evidence."""
    sentence = (
        f"{flow.name} got {show_rate(result.goodput_bps)} of the {show_rate(flow.rate_bps)} that"
        " its application offers"
    )
    if result.goodput_bps > (flow.rate_bps or 0.0):
        return f"{sentence}: more than requested"
    sentence += ": the path, its window or other flows limited it"
    if result.app_limited_share is None:
        return sentence
    return f"{sentence} (application-limited in {result.app_limited_share:.0%} of its samples)"


def check_counts(flows: Sequence[FlowResult]) -> list[Check]:
    """Return a check for each flow that only its server counted."""
    return [
        make_check(
            "counted_by", True, "client", SERVER, name=f"counted_by_{flow.name}", flow=flow.name
        )
        for flow in flows
        if flow.counted_by == SERVER
    ]


def offered_reason(flow: FlowSpec, got_bps: float, cpu_idle_share: float | None, clock: str) -> str:
    """Explain why a udp flow offered another rate; its CPU is named only if it was busy."""
    sentence = f"{flow.name} offered {show_rate(got_bps)} of {show_rate(flow.rate_bps)}"
    if got_bps > (flow.rate_bps or 0.0):
        return f"{sentence}: more than requested"
    if cpu_idle_share is None:
        return f"{sentence}; how busy its sender's CPU was is not known"
    if cpu_idle_share < CPU_IDLE_DEGRADED[clock]:
        return f"{sentence}: its sender had no more CPU (idle for {cpu_idle_share:.1%} of the time)"
    return f"{sentence}, and not for want of CPU (idle for {cpu_idle_share:.1%} of the time)"


def check_unexpected_drops(queues: Iterable[QueueRow], run: RunSpec) -> list[Check]:
    """Check that packets were dropped only by the bottleneck's buffer or the configured loss.

    The loss must be as frequent as configured. A row is the last sample of a queue.
    """
    queues = list(queues)
    lines = sorted((row for row in queues if row["role"] == "delay"), key=lambda row: row["dev"])
    several = sum(row["direction"] == "forward" for row in lines) > 1
    senders = [row for row in queues if row["role"] == "sender"]
    drops = sum(row["drops"] for row in senders)
    # An end host's own queue paces and never drops: what it drops no path has lost.
    checks = [make_check("sender_queue_drops", drops > 0, 0, drops)] if senders else []
    if run.offloads:  # a drop is of a lump, and what passed is counted in segments
        lossy = [
            row
            for row in lines
            if not all(loss.is_lossless for loss in run.losses_of("", str(row["direction"])))
        ]
        lines = [row for row in lines if row not in lossy]
        checks += [Check(f"lumps_lost_{row['dev']}", "ok", None, row["drops"], "") for row in lossy]
    return checks + [
        check_delay_line_drops(
            f"delay_line_drops_{line['direction']}" + (f"_{line['dev']}" if several else ""),
            line,
            run.losses_of(line.get("link", ""), str(line["direction"])),
            counted=not duplicates(run, line),
        )
        for line in lines
    ]


def duplicates(run: RunSpec, line: QueueRow) -> bool:
    """Return whether a delay line's netem duplicates packets."""
    direction = str(line["direction"])
    return run.path_of_link(line.get("link", ""))[direction].duplicate is not None


def check_delay_line_drops(
    name: str, last: QueueRow, losses: Sequence[LossSpec], *, counted: bool = True
) -> Check:
    """Check one delay line's drops against its losses.

    The requested value is None if only a trace could judge, or if netem does not count every loss
    as a drop: a packet that is lost and duplicated is one that passes.
    """
    drops = last["drops"]
    if not counted:
        return Check(name, "ok", None, drops, "packets")
    if all(loss.is_lossless for loss in losses) or losses[0].model == "periodic":
        return make_check("delay_line_drops", drops > 0, 0, drops, name=name)
    offered = drops + last["sent_pkts"]
    if len(losses) == 1 and losses[0].model == "random" and not losses[0].correlation:
        return check_loss(name, losses[0].p, drops, offered)
    if len(losses) == 1 and (expected := long_run_of(losses[0])):
        what = "loss_in_bursts" if losses[0].model == "state" else "loss_correlated"
        low, high = expected.interval(offered)
        bad, percent = not low <= drops <= high, 100 * expected.share
        values: dict[str, Any] = {"offered": offered, "percent": percent, "low": low, "high": high}
        return make_check(what, bad, [low, high], drops, name, **values)
    return Check(name, "ok", None, drops, "packets")


def long_run_of(loss: LossSpec) -> LongRun | None:
    """Return the long run of a loss whose packets are not independent, or None if unknown."""
    if loss.model == "state":
        p31, p32, p23, p14 = (value or 0.0 for value in (loss.r, loss.p32, loss.p23, loss.p14))
        return state_loss(loss.p, p31, p32, p23, p14)
    if loss.model == "random" and loss.correlation:
        return correlated_events(loss.p, loss.correlation)
    return None


def check_share(name: str, what: str, expected: LongRun, got: int | None, trials: int) -> Check:
    """Check how many packets something happened to; None: this kernel does not count them."""
    if got is None:
        reason = f"this kernel does not count the packets that netem has {what}"
        return Check(name, "ok", None, None, "packets", reason)
    independent = expected.variance == expected.share * (1 - expected.share)
    low, high = (
        binomial.central_interval(LOSS_CONFIDENCE, trials, expected.share)
        if independent
        else expected.interval(trials)
    )
    bad, percent = not low <= got <= high, 100 * expected.share
    return make_check(
        "impaired",
        bad,
        [low, high],
        got,
        name,
        done=what,
        offered=trials,
        percent=percent,
        low=low,
        high=high,
    )


def check_reordered(name: str, reorder: ReorderSpec, counts: Mapping[str, int]) -> Check:
    """Check how many packets left at once, among those that netem could choose.

    After each of them the next distance - 1 packets cannot be chosen.
    """
    passed = counts["sent_pkts"] + counts["backlog_pkts"]
    reordered = counts["reordered"]
    choices = max(reordered, passed - (reorder.distance - 1) * (reordered + 1))
    expected = correlated_events(reorder.share, reorder.correlation)
    return check_share(name, "reordered", expected, reordered, choices)


def check_duplicated(
    name: str, duplicate: ShareSpec, loss: LossSpec, counts: Mapping[str, int]
) -> Check:
    """Check how many packets were duplicated, among those that are no duplicates themselves."""
    entered = counts["sent_pkts"] + counts["backlog_pkts"] + counts["drops"]
    duplicated = counts.get("duplicated")
    # A packet that is duplicated and lost is one that passes.
    clones = 0 if duplicated is None else round(duplicated * (1 - loss.p))
    expected = correlated_events(duplicate.share, duplicate.correlation)
    return check_share(name, "duplicated", expected, duplicated, entered - clones)


def check_corrupted(name: str, corrupt: ShareSpec, counts: Mapping[str, int]) -> Check:
    """Check in how many packets netem flipped a bit, among those that it did not lose."""
    passed = counts["sent_pkts"] + counts["backlog_pkts"]
    expected = correlated_events(corrupt.share, corrupt.correlation)
    return check_share(name, "corrupted", expected, counts.get("corrupted"), passed)


def check_policer(
    name: str, policers: Sequence[PolicerSpec], passed_bytes: int, length_s: float
) -> Check:
    """Check what passed a policer in some time against its bucket and its rate.

    Less may have come. Of several policers in turn the largest bounds it, each with a full bucket.
    """
    rate_bps = max(policer.rate_bps for policer in policers)
    bursts = sum(policer.burst_bytes for policer in policers)
    most = math.ceil((bursts + rate_bps * length_s / 8) * (1 + RATE_CLOCKS))
    return make_check("policer_rate", passed_bytes > most, most, passed_bytes, name)


def check_slots(
    name: str, slot: SlotSpec, packets: int, passed_pkts: int, length_s: float
) -> Check:
    """Check the packets that left in slots of so many packets against the slots' least distance."""
    shortest_s = slot.reach_ms[0] / 1000
    if not shortest_s:
        return Check(name, "ok", None, passed_pkts, "packets", "slots may follow at once")
    most = packets * (math.floor(length_s / shortest_s) + 1)
    return make_check("slot_pkts", passed_pkts > most, most, passed_pkts, name)


def check_outages(
    name: str, spans_s: Sequence[tuple[float, float]], rows: Sequence[QueueRow]
) -> list[Check]:
    """Check that a delay line sent nothing in an outage, once what it held had left.

    `spans_s` are these times: from an outage's start plus the longest delay to its end plus the
    shortest. `rows` are the samples of one delay line. No check if no two samples lie in one.
    """
    passed, seen = 0, False
    for from_s, to_s in spans_s:
        within = [row["sent_pkts"] for row in rows if from_s <= row["t_s"] <= to_s]
        if len(within) > 1:
            seen, passed = True, passed + within[-1] - within[0]
    return [make_check("outage", passed > 0, 0, passed, name, where=name)] if seen else []


def check_loss(name: str, asked: float, drops: int, offered: int) -> Check:
    """Check a delay line's drops against the 99.99 % interval of its loss."""
    low, high = binomial.central_interval(LOSS_CONFIDENCE, offered, asked)
    bad, percent = not low <= drops <= high, 100 * asked
    return make_check(
        "loss", bad, [low, high], drops, name, offered=offered, percent=percent, low=low, high=high
    )


def check_delay_line(samples: Iterable[QueueRow], limit_pkts: int) -> list[Check]:
    """Check that the delay line's queue never came near its limit, where netem drops.

    `samples` are those of every queue.
    """
    most: dict[tuple[str, str], int] = {}
    for row in samples:
        if row["role"] == "delay":
            key = str(row["direction"]), str(row["dev"])
            most[key] = max(most.get(key, 0), row["backlog_pkts"])
    several = len(most) > 2
    checks = []
    for (direction, device), pkts in sorted(most.items()):
        name = f"delay_line_backlog_{direction}" + (f"_{device}" if several else "")
        bad, verdict = pkts > DELAY_LINE_FULL * limit_pkts, "invalid" if pkts >= limit_pkts else ""
        checks.append(make_check("delay_line_backlog", bad, limit_pkts, pkts, name, verdict))
    return checks


def check_kernel(run: RunSpec, described: KernelJson | None, release: str) -> list[Check]:
    """Check whether a run had the requested kernel, and list the features that it lacks.

    `described` is the machine's description of it; None: the shipped one was requested. `release`
    is the running kernel's.
    """
    if described is None:
        return check_own_kernel(run, release)
    mattering = [name for name in described["lacks"] if FEATURES[name].clock in (None, run.clock)]
    lacking = "; ".join(f"no {FEATURES[name].says}" for name in mattering)
    requested = described["version"]
    return [
        make_check("kernel", release != requested, requested, release, kernel=run.kernel),
        Check(
            "kernel_lacks",
            "ok" if set(DECIDING).isdisjoint(mattering) else "degraded",
            [],
            described["lacks"],
            "",
            lacking and f"what this kernel lacks: {lacking}",
        ),
    ]


def check_taint(run: RunSpec, taint: int) -> list[Check]:
    """Check that a run caused no WARN, oops or bad page.

    A machine's kernel may have had its own before. `taint` is the value of
    /proc/sys/kernel/tainted.
    """
    faults = taint & TAINT_OF_FAULTS
    if run.machine != "sandbox" or not faults:
        return []
    return [make_check("kernel_warned", True, 0, faults)]


def check_capture(lost: Mapping[str, int], error: str | None) -> Check:
    """Check that the host wrote every captured packet.

    lost   packets that are missing from each file
    error  why a write failed, None if none did
    """
    lacking = [name for name, count in lost.items() if count]
    total = sum(lost.values())
    bad = bool(lacking or error)
    return make_check("capture", bad, 0, total, files=" and ".join(lacking), error=error)


def check_own_kernel(run: RunSpec, release: str) -> list[Check]:
    """Check a native run's kernel for the requested version and for seeded losses."""
    checks = []
    if run.kernel != SHIPPED and not release.startswith(f"{run.kernel}."):
        reason = f"a native run has this machine's own kernel: Linux {release}, not {run.kernel}"
        checks.append(Check("kernel", "ok", run.kernel, release, "", reason))
    draws = any(direction.loss.p or direction.jitter_ms for direction in run.path)
    seeds = run.machine != "native" or version_tuple(release) >= FEATURES["netem seed"].since
    if draws and not seeds:
        sentence = (
            f"Linux {release} has no seed of netem's: what this run lost follows from no seed"
        )
        checks.append(Check("kernel_lacks", "ok", [], ["netem seed"], "", sentence))
    return checks


def check_tunnel(ends: Mapping[str, int | None]) -> Check:
    """Check that the tunnel's ends are alive after the load.

    `ends` holds each node's exit status; None: alive.
    """
    dead = {node: status for node, status in sorted(ends.items()) if status is not None}
    died = (f"the tunnel's end on {node} died (exit status {dead[node]})" for node in dead)
    alive = sorted(set(ends) - set(dead))
    return make_check("tunnel_alive", bool(dead), sorted(ends), alive, detail=", ".join(died))


def check_go_seed(program: str, counter_at: int | None) -> Check:
    """Check whether runs of one seed are equal through a Go program that seeds from the TSC.

    `counter_at` is where its file reads the TSC; None: unknown.
    """
    got, reason = "equal runs of one seed", ""
    if counter_at is None:
        got = f"nearly {got}"
        reason = (
            f"{program} seeds its random numbers with the CPU's cycle counter, in a place that is"
            " not known here: another run of this seed differs a little"
            " (docs/explanation/repeatability.md)"
        )
    return Check("tunnel_repeats", "ok", None, got, "", reason)


# -- the real clock


def check_virtual_clock() -> list[Check]:
    """Return a check that states what cannot fail on the virtual clock."""
    reason = (
        "time stands still while the CPU works, so that timers, samplers and the bottleneck's"
        " departures are never late for want of the host's CPU; what the model's own cost per"
        " system call takes is in cpu_idle_share"
    )
    return [Check("virtual_clock", "ok", None, "exact by construction", "", reason)]


def check_ticker(late_ms: Sequence[float]) -> Check:
    """Check how late a 10 ms ticker woke; other sleeping processes were as late."""
    if not late_ms:
        why = "the load was shorter than a tick"
        return not_measured("ticker_lateness", TICKER_LATE_MS, "ms", why)
    half, most, worst = (quantile(late_ms, share) for share in (0.5, 0.99, 1.0))
    verdict, reason = "ok", ""
    if half > TICKER_LATE_MS:
        verdict, what = "invalid", "nothing here happened in time"
        reason = f"half of all timers fired more than {half:.0f} ms late: {what}"
    elif most > TICKER_LATE_MS:
        verdict, what = "degraded", "the CPU was overloaded"
        reason = f"one timer in a hundred fired more than {most:.0f} ms late: {what}"
    elif worst > STALL_MS:
        verdict, what = "degraded", "TCP's retransmission timers may have fired"
        reason = f"the machine stood still for {worst:.0f} ms: {what}"
    got = {"median": round(half, 3), "p99": round(most, 3), "worst": round(worst, 3)}
    return Check("ticker_lateness", verdict, TICKER_LATE_MS, got, "ms", reason)


def quantile(values: Sequence[float], share: float) -> float:
    """Return the value that this share of all values are below."""
    return sorted(values)[min(len(values) - 1, int(share * len(values)))]


def check_sampler(lateness_ms: Sequence[float]) -> Check:
    """Check how late the samplers woke: a busy CPU shows here first."""
    late = round(max(lateness_ms, default=0.0), 3)
    return make_check("sampler_lateness", late > SAMPLER_LATE_MS, SAMPLER_LATE_MS, late)


def check_sampler_gap(interval_s: float, longest_s: float) -> Check:
    """Check the longest time between two samples: instants missed by a busy CPU are skipped."""
    bad = longest_s >= SAMPLER_GAP_INTERVALS * interval_s
    return make_check("sampler_gap", bad, interval_s, round(longest_s, 6), longest=longest_s)


def check_departures(gaps: Sequence[DepartureGap] | str) -> list[Check]:
    """Check the departures from a backlogged bottleneck against its rate.

    Each gap is checked, and all of them together; `gaps` may be the reason why none were measured.
    This is Mininet-HiFi's measure (Handigol et al., CoNEXT 2012): a link is emulated well if its
    packets leave when they should.
    """
    if not isinstance(gaps, str) and len(gaps) < MIN_GAPS:
        gaps = f"the bottleneck's queue was backlogged for only {len(gaps)} packets of the sample"
    if isinstance(gaps, str):
        return [
            not_measured("bottleneck_gaps", LATE_GAPS_DEGRADED, "share", gaps),
            not_measured("bottleneck_rate", 1.0, "share", gaps),
        ]
    late = sum(gap.got_s > 2 * gap.due_s for gap in gaps) / len(gaps)
    rate = sum(gap.due_s for gap in gaps) / sum(gap.got_s for gap in gaps)
    packet_us = 1e6 * sum(gap.due_s for gap in gaps) / len(gaps)
    most, off = LATE_GAPS_DEGRADED, abs(rate - 1)
    verdict = "invalid" if off > RATE_OFF_INVALID else ""
    return [
        make_check(
            "bottleneck_gaps",
            late > most,
            most,
            round(late, 4),
            verdict="invalid" if late > LATE_GAPS_INVALID else "",
            late=late,
            count=len(gaps),
            packet_us=packet_us,
        ),
        make_check(
            "bottleneck_rate",
            off > RATE_OFF_DEGRADED,
            1.0,
            round(rate, 4),
            verdict=verdict,
            rate=rate,
        ),
    ]


def check_wakeups(
    late_ms: Sequence[float],
    gaps: Sequence[DepartureGap] | str,
    idle_share: float,
    *,
    known_to_lose: bool = False,
) -> Check:
    """Check whether the kernel lost wake-ups.

    It did if packets waited too long at the bottleneck, while the CPU was idle and the 10 ms timers
    were on time (unless its idle loop is `known_to_lose` some).

    An idle loop that does not check whether its timer has just fired sleeps through the short
    timers of a queue or of pacing (User-Mode Linux up to 5.10). A host without time for the guest
    makes the ticks late, too, and is not meant.
    """
    if isinstance(gaps, str) or len(gaps) < MIN_GAPS or not late_ms:
        why = "too few packets waited in the bottleneck's queue"
        return not_measured("lost_wakeups", WAKEUP_RATE, "share", why)
    rate = sum(gap.due_s for gap in gaps) / sum(gap.got_s for gap in gaps)
    in_time = quantile(late_ms, 0.99) <= TICKER_LATE_MS
    return make_check(
        "lost_wakeups",
        rate < WAKEUP_RATE and idle_share > WAKEUP_IDLE and (in_time or known_to_lose),
        WAKEUP_RATE,
        round(rate, 4),
        rate=rate,
        idle=idle_share,
        ticks="its ticks came in time" if in_time else "its idle is known for it",
    )


def not_measured(name: str, asked: Any, unit: str, why: str) -> Check:
    """Return an ok check for something that could not be measured."""
    return Check(name, "ok", asked, "not measured", unit, why)
