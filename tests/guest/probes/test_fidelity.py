# SPDX-License-Identifier: MIT
"""Every check on figures made up for it: what passes, what fires, and what it then says."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import pytest

from gostlab.guest.flow_result import FlowResult
from gostlab.guest.probes import fidelity
from gostlab.guest.probes.fidelity import CarriedRate
from gostlab.guest.probes.first_last_byte import SendTimes
from gostlab.guest.probes.timer_lateness import (
    DepartureGap,
    QdiscEvent,
    backlogged_gaps,
    lateness_ms,
    parse_events,
    trace_window,
)
from gostlab.results import metrics
from gostlab.spec.run_spec import RunSpec
from gostlab.spec.verdict import VERDICTS, Check, worst_verdict
from gostlab.tcpmodel.run_limits import DELAY_LIMIT_PKTS
from tests.sandboxed import describe, direction, flow

PACKET_S = 8 * 1514 / 100e6


def verdicts(checks: Sequence[Check]) -> dict[str, str]:
    return {check.name: check.verdict for check in checks}


def result(
    name: str = "flow1", started_s: float = 0.0, ended_s: float = 5.0, **more: Any
) -> FlowResult:
    kind = more.pop("kind", "tcp")
    counts = {"lost_datagrams": None, "sent_datagrams": None}
    return FlowResult(name, kind, started_s, ended_s, 1e6, 625_000, 5.0, 0, **counts | more)


# -- when data began and ended


@pytest.mark.parametrize(
    ("began_s", "ended_s", "expected"),
    [
        (3.039, 5.1, {"data_start_late": "ok", "data_end_late": "ok"}),
        (3.2, 5.1, {"data_start_late": "degraded", "data_end_late": "ok"}),
        (3.0, 5.3, {"data_start_late": "ok", "data_end_late": "degraded"}),
    ],
)
def test_data_begin_and_end_within_a_round_trip_of_what_was_asked(
    began_s: float, ended_s: float, expected: dict[str, str]
) -> None:
    run = describe(flows=[flow("first", duration_s=9.0), flow("late", start_s=3.0, duration_s=2.0)])
    times = {"first": SendTimes(0.0, 12.0, 40.0), "late": SendTimes(began_s, ended_s, 200.0)}

    checks = fidelity.check_flow_times(run, times.get)
    assert verdicts(checks) == {"data_start_first": "ok", **expected}
    assert all(("late" in check.reason) == (check.verdict != "ok") for check in checks)
    assert not fidelity.check_flow_times(describe(), {"flow1": SendTimes(1.0, 9.0, 40.0)}.get)


# -- the path


@pytest.mark.parametrize(
    ("clock", "got_ms", "jitter_ms", "verdict"),
    [
        ("virtual", 40.09, 0.0, "ok"),
        ("virtual", 40.3, 0.0, "invalid"),
        ("virtual", 39.8, 0.0, "invalid"),
        ("real", 40.9, 0.0, "ok"),
        ("real", 41.1, 0.0, "invalid"),
        ("virtual", 35.5, 5.0, "ok"),
        ("virtual", 34.5, 5.0, "invalid"),
    ],
)
def test_idle_rtt_must_be_the_configured_one_or_what_jitter_makes_of_it(
    clock: str, got_ms: float, jitter_ms: float, verdict: str
) -> None:
    run = describe(clock=clock, syscall_cost_us=0.0)
    jitter_both_ms = -jitter_ms, jitter_ms
    check = fidelity.check_idle_rtt("idle", run, 40.0, [got_ms, got_ms + 3], jitter_both_ms)
    assert check.verdict == verdict
    assert ("off its configured round trip" in check.reason) == (verdict == "invalid")


def test_each_end_of_each_leg_is_held_to_its_own_cc() -> None:
    run = describe(cc="bbr", cc_by_end={"target": "reno"})
    wan = {"leg": "wan", "flow": "flow1", "loopback": False, "cc": ["bbr"]}
    wan |= {"sender": "client", "receiver": "target"}
    for seen, verdict in ((["reno"], "ok"), (["bbr"], "invalid"), ([], "invalid")):
        checks = fidelity.check_cc([{**wan, "receiver_cc": seen}], run)
        ends = {"cc_wan_client": "ok", "cc_wan_target": verdict}
        assert verdicts(checks) == {**ends, "cc_on_wan_sockets": "ok"}
    said = next(check.reason for check in checks if check.name == "cc_wan_target")
    assert all(word in said for word in ("target", "wan", "unseen", "not reno"))


def test_a_cc_that_is_not_the_asked_one_is_invalid() -> None:
    run = describe(cc="bbr")
    legs = [
        {"leg": "wan", "flow": "flow1", "cc": ["cubic"]},
        {"leg": "app", "flow": "flow1", "cc": ["bbr"]},
    ]
    [check] = fidelity.check_cc(legs, run)
    assert (check.verdict, check.requested, check.got) == ("invalid", "bbr", ["cubic"])
    assert "ran cubic, not bbr" in check.reason
    assert fidelity.check_cc([{**legs[0], "cc": ["bbr"]}], run)[0].verdict == "ok"
    assert fidelity.check_cc([], run)[0].reason == "WAN sockets ran unseen, not bbr"


def test_of_a_brief_flow_the_same_tunnels_other_sockets_speak() -> None:
    flow = describe(cc="bbr").flows[0]
    run = replace(describe(cc="bbr"), flows=(flow, replace(flow, name="web", traffic_type="short")))
    seen = {"leg": "wan", "flow": "flow1", "cc": ["bbr"]}
    between_samples = {"leg": "wan", "flow": "web", "cc": []}

    assert [each.verdict for each in fidelity.check_cc([seen, between_samples], run)] == ["ok"] * 2
    checks = fidelity.check_cc([{**seen, "cc": []}, between_samples], run)
    assert {each.reason for each in checks} == {"WAN sockets ran unseen, not bbr"}


def idle(share: float) -> list[dict[str, Any]]:
    """hosts.jsonl of a CPU that was idle for this share of the time."""
    return [{"t_s": t, "cpu_idle_s": share * t, "cpu_busy_s": (1 - share) * t} for t in (1.0, 2.0)]


PRUNED = {"target": {"TcpExtRcvPruned": 1}}


@pytest.mark.parametrize(
    ("check", "seen", "verdict"),
    [
        # What the bottleneck carried, and its rate.
        (fidelity.check_rate, (CarriedRate("a", 100e6, 100e6),), "ok"),
        (fidelity.check_rate, (CarriedRate("a", 101e6, 100e6),), "invalid"),
        (fidelity.check_rate, (CarriedRate("a", 101e6, 100e6, under_way_bps=2e6),), "degraded"),
        (fidelity.check_rate, (CarriedRate("a", 101e6, 0),), "ok"),  # no bottleneck
        # Drops of 100,000 packets, 1 % asked: a standard deviation of 31.5.
        (fidelity.check_loss, ("drops", 0.01, 1000, 100_000), "ok"),
        (fidelity.check_loss, ("drops", 0.01, 870, 100_000), "invalid"),
        (fidelity.check_loss, ("drops", 0.01, 1130, 100_000), "invalid"),
        (fidelity.check_loss, ("drops", 0.01, 0, 100_000), "invalid"),
        # The CPU's idle share, how full the bottleneck was, the clock.
        (fidelity.check_cpu, (idle(0.01), 0.5, "virtual"), "degraded"),
        (fidelity.check_cpu, (idle(0.1), 0.5, "virtual"), "ok"),
        (fidelity.check_cpu, (idle(0.1), 0.5, "real"), "degraded"),
        (fidelity.check_cpu, (idle(0.0), 0.99, "real"), "ok"),
        (fidelity.check_cpu, (idle(0.0), None, "virtual"), "degraded"),
        # Pages at the peak, the first limit, drops for want of memory.
        (fidelity.check_tcp_memory, (10, 256, {"target": {"TcpExtTCPRcvQDrop": 0}}), "ok"),
        (fidelity.check_tcp_memory, (256, 256, {"target": {"TcpExtTCPRcvQDrop": 0}}), "degraded"),
        (fidelity.check_tcp_memory, (10, 256, PRUNED), "degraded"),
        # How late samples came, ms; how far apart they were asked and are, s.
        (fidelity.check_sampler, ([1.0, 9.0],), "ok"),
        (fidelity.check_sampler, ([1.0, 11.0],), "degraded"),
        (fidelity.check_sampler_gap, (0.1, 0.15), "ok"),
        (fidelity.check_sampler_gap, (0.1, 0.31), "degraded"),
    ],
)
def test_a_check_fires_beyond_its_bound(
    check: Callable[..., Check], seen: tuple[Any, ...], verdict: str
) -> None:
    assert check(*seen).verdict == verdict


def test_of_a_rate_on_the_wire_payload_has_its_packets_share() -> None:
    assert fidelity.payload_share(describe(), datagrams=False) == 1448 / 1514
    assert fidelity.payload_share(describe(), datagrams=True) == 1472 / 1514
    lumps = describe(offloads=True)
    assert fidelity.payload_share(lumps, datagrams=False) == 1
    assert fidelity.payload_share(lumps, datagrams=True) == 1472 / 1514


def queue(drops: int = 0, backlog: int = 5, role: str = "delay") -> dict[str, Any]:
    where = {"role": role, "direction": "forward", "dev": "wan_b-eth1"}
    return {**where, "drops": drops, "sent_pkts": 1000, "backlog_pkts": backlog}


@pytest.mark.parametrize(
    ("loss", "drops", "verdict"),
    [(0.0, 1, "invalid"), (0.0, 0, "ok"), (0.01, 10, "ok"), (0.01, 100, "invalid")],
)
def test_a_delay_line_drops_only_what_was_asked(loss: float, drops: int, verdict: str) -> None:
    last = [queue(drops=drops), queue(drops=9, role="bottleneck")]
    found = fidelity.check_unexpected_drops(last, describe(direction(loss=loss), direction()))
    assert verdicts(found) == {"delay_line_drops_forward": verdict}


@pytest.mark.parametrize(
    ("backlog", "verdict"), [(7000, "ok"), (600_000, "degraded"), (DELAY_LIMIT_PKTS, "invalid")]
)
def test_a_delay_line_must_not_come_near_its_limit(backlog: int, verdict: str) -> None:
    samples = [queue(backlog=backlog), queue(backlog=1), queue(backlog=10**7, role="bottleneck")]
    [check] = fidelity.check_delay_line(samples, DELAY_LIMIT_PKTS)
    assert (check.name, check.verdict) == ("delay_line_backlog_forward", verdict)
    assert check.got == backlog


# -- the load


LONG = describe(*2 * [direction(delay_ms=300.0)])
TWO = describe(flows=[flow(), flow("flow2")])


@pytest.mark.parametrize(
    ("check", "seen", "verdict", "why"),
    [
        # A run, how long its load took, s, and when its flows ended.
        (fidelity.check_flow_durations, (describe(), 5.1, [result()]), "ok", ""),
        (
            fidelity.check_flow_durations,
            (describe(), 5.1, [result(ended_s=4.0)]),
            "invalid",
            "load ended",
        ),
        (
            fidelity.check_flow_durations,
            (TWO, 5.1, [result(), result("flow2", ended_s=2.0)]),
            "invalid",
            "flow2 ended early",
        ),
        (
            fidelity.check_flow_durations,
            (LONG, 5.1, [result()]),
            "degraded",
            "less than 20 round trips",
        ),
        # How each end of the tunnel ended: not, or with an exit status.
        (fidelity.check_tunnel, ({"client": None, "target": None},), "ok", ""),
        (fidelity.check_tunnel, ({"client": None, "target": 3},), "invalid", "target died (exit"),
        # How late ticks came, ms.
        (fidelity.check_ticker, ([0.2] * 1000,), "ok", ""),
        (fidelity.check_ticker, ([0.2] * 995 + [50.0] * 5,), "ok", ""),
        (fidelity.check_ticker, ([0.2] * 980 + [50.0] * 20,), "degraded", "50 ms late: the CPU"),
        (fidelity.check_ticker, ([0.2] * 999 + [300.0],), "degraded", "stood still for 300 ms"),
        (fidelity.check_ticker, ([0.2] * 400 + [9.0] * 600,), "invalid", "more than 9 ms late"),
        (fidelity.check_ticker, ([],), "ok", "shorter than a tick"),
    ],
)
def test_a_check_that_fires_says_why(
    check: Callable[..., Check], seen: tuple[Any, ...], verdict: str, why: str
) -> None:
    found = check(*seen)
    assert found.verdict == verdict and why in found.reason


@pytest.mark.parametrize(
    ("rate_bps", "sent", "idle", "verdict", "cause"),
    [
        (100_000, 90, 0.97, "ok", ""),  # 104,256 bit/s: iperf3 sends whole bursts
        (50_000_000, 43_163, None, "ok", ""),
        (50_000_000, 42_300, None, "ok", ""),
        # The CPU is named only where it was busy.
        (50_000_000, 30_000, 0.01, "degraded", "no more CPU (idle for 1.0% of the time)"),
        (50_000_000, 30_000, 0.97, "degraded", "not for want of CPU (idle for 97.0% of the time)"),
        (50_000_000, 38_847, None, "degraded", "is not known"),
        (50_000_000, 47_480, 0.01, "degraded", "more than requested"),
        (1_000_000, 431, 0.97, "degraded", "flow1 offered 499.3 kbit/s of 1 Mbit/s"),
    ],
)
def test_udp_must_offer_what_it_was_asked_to(
    rate_bps: int, sent: int, idle: float | None, verdict: str, cause: str
) -> None:
    run = describe(flows=[flow(kind="udp", cc=None, rate_bps=rate_bps, duration_s=10.0)])
    offered = [result(kind="udp", offered_bps=8 * 1448 * sent / 10)]

    check, _ = fidelity.check_offered(run, offered, {"flow1": idle})

    assert (check.name, check.verdict) == ("udp_offered_flow1", verdict)
    assert cause in check.reason and bool(check.reason) == (verdict != "ok")


@pytest.mark.parametrize(
    ("counted", "verdict"),
    [(800, "ok"), (770, "ok"), (600, "degraded"), (25, "degraded"), (0, "invalid")],
)
def test_a_udp_receiver_must_know_of_nearly_all_datagrams(counted: int, verdict: str) -> None:
    udp = flow(kind="udp", cc=None, rate_bps=2_000_000, duration_s=5.0)
    counts = {"offered_bps": 2e6, "sent_datagrams": counted, "lost_datagrams": 0}

    run = describe(flows=[udp])
    checks = fidelity.check_offered(run, [result(kind="udp", **counts)], {"flow1": None})

    assert verdicts(checks)["udp_counted_flow1"] == verdict
    assert ("863 datagrams" in checks[-1].reason) == (verdict != "ok")


# -- the real clock


def test_a_tick_that_never_came_is_as_late_as_the_end() -> None:
    # Ticks at 1.01, 1.02 …; only the second to fourth are requested, of which the last did not
    # come.
    late_ms = lateness_ms(1.0, [0.5, 0.001, 0.002, 0.0, 0.0], 1.015, 1.045)
    assert late_ms == pytest.approx([1.0, 2.0, 5.0])


def gaps(*factors: float) -> list[DepartureGap]:
    return [DepartureGap(factor * PACKET_S, PACKET_S) for factor in factors]


@pytest.mark.parametrize(
    ("seen", "late", "rate"),
    [
        (gaps(*[1.0] * 1000), "ok", "ok"),
        (gaps(*[1.0] * 995, *[2.5] * 5), "ok", "ok"),
        (gaps(*[0.1, 1.9] * 500), "ok", "ok"),  # less than a packet time off, and on time together
        (gaps(*[1.0] * 960, *[2.5, 0.0] * 20), "degraded", "ok"),  # late, and made up for
        (gaps(*[1.0] * 900, *[2.5] * 100), "degraded", "invalid"),
        (gaps(*[1.02] * 1000), "ok", "degraded"),
        (gaps(*[2.5] * 600, *[1.0] * 400), "invalid", "invalid"),
    ],
)
def test_a_bottleneck_that_sends_late_speaks(
    seen: list[DepartureGap], late: str, rate: str
) -> None:
    found = verdicts(fidelity.check_departures(seen))
    assert found == {"bottleneck_gaps": late, "bottleneck_rate": rate}


@pytest.mark.parametrize("seen", [gaps(*[9.0] * 50), "this kernel has no tracepoint"])
def test_what_was_not_measured_is_said_and_speaks_neither_way(
    seen: list[DepartureGap] | str,
) -> None:
    checks = fidelity.check_departures(seen)
    assert {(check.verdict, check.got) for check in checks} == {("ok", "not measured")}
    assert all(check.reason for check in checks)


def test_only_gaps_between_packets_that_waited_count() -> None:
    seen = [
        QdiscEvent(0.0, True, "before", 1000),  # entered before the sample began
        QdiscEvent(0.001, False, "a", 1000),
        QdiscEvent(0.0018, False, "dropped", 1000),
        QdiscEvent(0.002, True, "a", 1000),
        QdiscEvent(0.0015, False, "b", 1000),
        QdiscEvent(0.003, True, "b", 1000),
    ]
    assert backlogged_gaps(seen, 8e6) == [DepartureGap(pytest.approx(0.001), pytest.approx(0.001))]
    # What was in the queue when the sample began had waited too.
    left = [QdiscEvent(0.0, True, "x", 1000), QdiscEvent(0.001, True, "y", 1000)]
    assert len(backlogged_gaps(left, 8e6)) == 1


def test_a_trace_is_read_for_one_device() -> None:
    idle, xmit = "  <idle>-0  [000] b.s..  ", "queue_mapping=0 skbaddr=0000a1 vlan_tagged=0"
    lines = [
        "# tracer: nop",
        f"{idle}1.522089: net_dev_queue: dev=wan_a-eth1 skbaddr=0000a1 len=66 net_cookie=20",
        f"{idle}1.523: net_dev_queue: dev=wan_b-eth1 skbaddr=0000a1 len=66 net_cookie=20",
        f"{idle}1.522189: net_dev_start_xmit: dev=wan_a-eth1 {xmit} len=1514 data_len=0 network_offset=14",
    ]
    assert parse_events(lines, "wan_a-eth1") == [
        QdiscEvent(1.522089, False, "0000a1", 66),
        QdiscEvent(1.522189, True, "0000a1", 1514),
    ]


def test_departures_are_looked_at_in_the_middle_at_the_rate_of_that_time() -> None:
    def changed(at_s: float) -> RunSpec:
        return describe(changes=[{"at_s": at_s, "direction": "forward", "rate_bps": 10_000_000}])

    assert trace_window(describe()) == (2.25, 100_000_000)
    assert trace_window(changed(1.0)) == (2.25, 10_000_000)
    assert trace_window(changed(4.0)) == (2.25, 100_000_000)
    assert "in the middle of the load" in str(trace_window(changed(2.5)))
    assert "no bottleneck" in str(trace_window(describe({**direction(), "rate_bps": None})))


def test_the_virtual_clock_says_once_what_cannot_fail() -> None:
    [check] = fidelity.check_virtual_clock()
    assert check.verdict == "ok" and "never late for want of the host's CPU" in check.reason


def test_a_run_is_as_good_as_its_worst_check() -> None:
    good, bad, worse = (Check("x", verdict, 1, 1, "") for verdict in VERDICTS)
    found = [worst_verdict(checks) for checks in ([], [good], [bad, good], [bad, worse, good])]
    assert found == ["ok", "ok", "degraded", "invalid"]


def host_rows(**busy_s_per_s: float) -> list[dict[str, Any]]:
    """hosts.jsonl of a sandbox whose hosts have CPUs of their own, this busy."""
    return [
        {
            "t_s": t_s,
            "cpu_idle_s": 0.99 * t_s,
            "cpu_busy_s": 0.01 * t_s,
            "host_busy_s": {host: share * t_s for host, share in busy_s_per_s.items()},
        }
        for t_s in (1.0, 2.0, 3.0)
    ]


def test_the_verdict_names_the_host_whose_cpu_had_no_time_left() -> None:
    host, idle = metrics.least_idle_cpu(host_rows(client=0.3, gost=0.995, target=0.5))
    assert (host, idle) == ("gost", pytest.approx(0.005))

    rows = host_rows(client=0.3, gost=0.995, target=0.5)
    rows[-1]["host_packets_s"] = {"client": 0.0, "gost": 0.995, "target": 0.1}
    check = fidelity.check_cpu(rows, 0.5, "virtual")
    assert check.verdict == "degraded" and "the CPU of gost was idle" in check.reason
    assert "33% of its work was receiving packets" in check.reason
    assert "busy: client 30%, gost 99%, target 50%" in check.reason


def test_where_hosts_share_a_cpu_it_is_that_ones_idle_time() -> None:
    assert metrics.least_idle_cpu(idle(0.25)) == (None, pytest.approx(0.25))
    assert metrics.least_idle_cpu([]) == (None, None)
