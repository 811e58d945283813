# SPDX-License-Identifier: MIT
"""Define the 22 test cases of draft-ietf-ccwg-bbr-06, Appendix A, on the state at every ACK."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence

from gostlab.cc_cases.case import (
    DRAFT,
    BoundCheck,
    Condition,
    Declare,
    Evaluators,
    NeverHappened,
    check_condition,
    check_near,
    upper_median,
)
from gostlab.cc_cases.scenarios import BDP_PKTS, PAYLOAD, RATE_BPS, StateRow, Trace

Checks = Iterator[BoundCheck | Condition]
STANDARD = "bbr"
BBR = Evaluators()
LINUX_UNDOES = ("TCPFullUndo", "TCPPartialUndo", "TCPDSACKUndo")
LINUX_UNDOES_TIMEOUT = ("TCPSpuriousRTOs", "TCPLossUndo")
RECOVERY = 3  # icsk_ca_state: TCP_CA_Recovery
# Pacing and window gains in 256ths.
DRAIN_GAIN, DOWN_GAIN, PROBE_RTT_CWND_GAIN = 128, 230, 128
MIN_PIPE_CWND = 4


def appendix(number: int, title: str, scenario: str) -> Declare:
    """Return a decorator that declares a case of Appendix A."""
    return BBR.case(f"bbr-a{number}", title, f"{DRAFT}, A.{number}", scenario, STANDARD)


def largest(values: Sequence[float], what: str) -> float:
    if not values:
        raise NeverHappened(f"no {what}")
    return max(values)


def first(trace: Trace, is_wanted: Callable[[StateRow], bool], what: str) -> StateRow:
    """Return the first row that is wanted. Raises NeverHappened."""
    for row in trace.rows:
        if is_wanted(row):
            return row
    raise NeverHappened(f"it never finds {what}")


@appendix(1, "Startup ends on a plateau", "long")
def a1(trace: Trace) -> Checks:
    before, after = trace.first_change("STARTUP", "DRAIN")
    yield check_near(
        "max_bw / the link's rate", after["max_bw_bps"] / (RATE_BPS * PAYLOAD), 1, 0.02
    )
    yield BoundCheck("rounds without growth", after["full_bw_count"], 3, 3)
    yield BoundCheck("and one ACK before", before["full_bw_count"], 2, 2)
    yield check_condition("full_bw_now at the end", after["full_bw_now"])
    yield check_condition("full_bw_reached at the end", after["full_bw_reached"])
    yield check_condition("not full_bw_reached before", not before["full_bw_reached"])
    yield BoundCheck("ends of Startup", len(trace.changes("STARTUP", "DRAIN")), 1, 1)


@appendix(2, "Startup ends on loss of an application-limited flow", "loss in startup")
def a2(trace: Trace) -> Checks:
    _, after = trace.first_end("STARTUP")  # one ACK may lead through Drain as well
    yield BoundCheck("Startup ends at", after["t"], 1, math.inf, "s")
    yield BoundCheck("rounds without growth (no plateau)", after["full_bw_count"], 0, 2)
    yield check_condition("full_bw_now", after["full_bw_now"])
    yield check_condition("full_bw_reached", after["full_bw_reached"])
    yield BoundCheck("inflight_longterm", after["inflight_longterm_pkts"], 1, math.inf, "packets")
    nearby = [row for row in trace.rows if after["t"] - 0.2 < row["t"] < after["t"]]
    yield check_condition(
        "application-limited before", any(row["is_app_limited"] for row in nearby)
    )


@appendix(3, "Drain ends when the BDP is in flight", "long")
def a3(trace: Trace) -> Checks:
    _, after = trace.first_end("DRAIN")  # one ACK may lead through DOWN as well
    excess = after["inflight_pkts"] - after["bdp_budget_pkts"]
    yield BoundCheck("in flight at the end, above the BDP", excess, high=0, unit="packets")
    drain = trace.rows_in_state("DRAIN")
    least = min(row["inflight_pkts"] - row["bdp_budget_pkts"] for row in drain[:-1] or drain)
    yield BoundCheck("in flight before the end, above the BDP", least, low=1, unit="packets")
    yield BoundCheck("rounds", after["round_count"] - after["drain_start_round"], 0, 3)
    gains = {row["pacing_gain"] for row in drain}
    yield check_condition("pacing gain 0.5 at every ACK", gains == {DRAIN_GAIN})
    yield BoundCheck("ends of Drain", len(trace.ends("DRAIN")), 1, 1)


@appendix(4, "Drain ends as its fourth round begins", "slower in drain")
def a4(trace: Trace) -> Checks:
    """Let the rate fall by more than the draft's tenth, at which Drain would empty any queue."""
    before, after = trace.first_change("DRAIN", "DOWN")
    yield BoundCheck(
        "rounds since Drain began", after["round_count"] - after["drain_start_round"], 4, 4
    )
    excess = before["inflight_pkts"] - before["bdp_budget_pkts"]
    yield BoundCheck("in flight before, above the BDP", excess, low=1, unit="packets")


@appendix(5, "ProbeBW_UP ends on a plateau", "long")
def a5(trace: Trace) -> Checks:
    trace.first_change("UP", "DOWN")
    changes = trace.changes("UP", "DOWN")
    plateaus = sum(after["full_bw_count"] == 3 for _, after in changes)
    yield BoundCheck(
        "ends of UP with 3 rounds without growth", plateaus, len(changes), len(changes)
    )
    yield check_condition("full_bw_now at each", all(after["full_bw_now"] for _, after in changes))
    lost = sum(after["lost_pkts"] - before["lost_pkts"] for before, after in changes)
    yield BoundCheck("lost at these ends", lost, 0, 0, "packets")


@appendix(6, "ProbeBW_UP ends on loss of an application-limited flow", "loss in up")
def a6(trace: Trace) -> Checks:
    _, after = trace.first_change("UP", "DOWN", from_s=1)
    yield check_condition("loss was too high", after["too_high"])
    yield check_condition("no plateau", not after["full_bw_now"])


@appendix(7, "An application-limited flow without loss stays in Startup", "limited")
def a7(trace: Trace) -> Checks:
    early = [row for row in trace.rows if row["t"] < 4.8]
    others = sum(row["state"] != "STARTUP" for row in early)
    yield BoundCheck("ACKs outside of Startup before ProbeRTT", others, 0, 0)
    yield check_condition(
        "never full_bw_reached", not any(row["full_bw_reached"] for row in trace.rows)
    )


@appendix(8, "ProbeBW_DOWN ends when no queue is left", "long")
def a8(trace: Trace) -> Checks:
    trace.first_change("DOWN", "CRUISE")
    ends = [after for _, after in trace.changes("DOWN", "CRUISE")]
    excess = max(row["inflight_pkts"] - row["bdp_budget_pkts"] for row in ends)
    yield BoundCheck("in flight at the ends, above the BDP", excess, high=0, unit="packets")
    bounded = [row for row in ends if row["headroom_pkts"] >= 0]
    above = max((row["inflight_pkts"] - row["headroom_pkts"] for row in bounded), default=0)
    yield BoundCheck("and above the bound with headroom", above, high=0, unit="packets")
    gains = {row["pacing_gain"] for row in trace.rows_in_state("DOWN")}
    yield check_condition("pacing gain 0.9 at every ACK", gains == {DOWN_GAIN})


@appendix(9, "ProbeBW_DOWN ends when it is time to probe", "slower in down")
def a9(trace: Trace) -> Checks:
    before, _ = trace.first_change("DOWN", "REFILL")
    excess = before["inflight_pkts"] - before["bdp_budget_pkts"]
    yield BoundCheck("in flight at the end, above the BDP", excess, low=1, unit="packets")
    first = trace.states.index("DOWN")
    yield check_condition(
        "no CRUISE after the first DOWN", "CRUISE" not in trace.states[first : first + 2]
    )


@appendix(10, "ProbeRTT begins and ends", "long")
def a10(trace: Trace) -> Checks:
    inside = trace.rows_in_state("PROBE_RTT")
    began_s = inside[0]["t"]
    ended_s = trace.first_change("PROBE_RTT", "CRUISE")[1]["t"]
    yield BoundCheck("it lasts", ended_s - began_s, 0.2, 0.5, "s")
    yield BoundCheck("it begins at", began_s, 5, math.inf, "s")
    least = min(row["cwnd_pkts"] for row in inside)
    yield BoundCheck("least window", least, BDP_PKTS / 2 - 3, BDP_PKTS / 2 + 3, "packets")
    gains = {row["cwnd_gain"] for row in inside}
    yield check_condition("window gain 0.5 at every ACK", gains == {PROBE_RTT_CWND_GAIN})


@appendix(11, "A pause replaces ProbeRTT", "pause")
def a11(trace: Trace) -> Checks:
    pause_s = largest([later["t"] - one["t"] for one, later in trace.pairs()], "ACKs")
    yield BoundCheck("visits of ProbeRTT", trace.states.count("PROBE_RTT"), 0, 0)
    yield BoundCheck("longest pause", pause_s, low=5, unit="s")


@appendix(12, "Startup finds the rate although ACKs are aggregated", "aggregation")
def a12(trace: Trace) -> Checks:
    """Bound the rate above, too: half a round trip of ACKs at once inflates its estimate."""
    _, after = trace.first_change("STARTUP", "DRAIN")
    yield BoundCheck(
        "max_bw / the link's rate", after["max_bw_bps"] / (RATE_BPS * PAYLOAD), 0.95, 1.25
    )
    yield BoundCheck("extra_acked", after["extra_acked_pkts"], low=1, unit="packets")
    yield BoundCheck("window / BDP", after["cwnd_pkts"] / BDP_PKTS, low=2)


@appendix(13, "ProbeBW_CRUISE keeps the rate although ACKs are aggregated", "aggregation")
def a13(trace: Trace) -> Checks:
    cruise = [row for row in trace.rows_in_state("CRUISE") if row["t"] > 2]
    rate = upper_median([row["delivery_rate_bps"] for row in cruise])
    yield BoundCheck("median delivery rate / the link's rate", rate / (RATE_BPS * PAYLOAD), low=0.9)
    least = min(row["extra_acked_pkts"] for row in cruise)
    yield BoundCheck("least extra_acked", least, low=11, unit="packets")


@appendix(14, "A BDP below one packet has four packets in flight", "sub-packet")
def a14(trace: Trace) -> Checks:
    least = largest([-row["cwnd_pkts"] for row in trace.rows], "ACKs")
    yield BoundCheck("least window", -least, low=MIN_PIPE_CWND, unit="packets")
    states = ("CRUISE", "DOWN", "REFILL")
    late = [row for row in trace.rows if row["t"] > 34 and row["state"] in states]
    cruising = [row["pacing_bps"] for row in late if row["pacing_gain"] == 256]
    if not cruising:
        raise NeverHappened("not in ProbeBW at a pacing gain of 1 after 34 s")
    yield check_near("bw / the link's rate", late[-1]["bw_bps"] / (64e3 * PAYLOAD), 1, 0.1)
    yield check_near("pacing rate / the link's rate", cruising[-1] / (64e3 * PAYLOAD), 0.99, 0.1)


@appendix(15, "Ten times the rate is found in a few rounds", "ten times more")
def a15(trace: Trace) -> Checks:
    fast = first(trace, lambda row: row["max_bw_bps"] > 0.9 * 60e6 * PAYLOAD, "the new rate")
    probe = [row for row in trace.rows if row["state"] == "UP" and 2 < row["t"] < fast["t"]]
    if not probe:
        raise NeverHappened("no ProbeBW_UP between the change and the new rate")
    bdp_pkts = 60e6 / 8 / 1514 * 0.04
    rounds = fast["round_count"] - probe[0]["round_count"]
    yield BoundCheck("rounds to 90 % of the new rate", rounds, high=4 * math.log2(bdp_pkts))
    steps = [row["probe_up_rounds"] for row in probe]
    yield check_condition("steps grow from round to round", steps == sorted(steps))


@appendix(16, "A tenth of the rate is learned in two cycles", "ten times less")
def a16(trace: Trace) -> Checks:
    bounds = [row["bw_shortterm_bps"] for row in trace.rows if 2 < row["t"] < 5]
    yield check_near(
        "max_bw / the new rate", trace.rows[-1]["max_bw_bps"] / (6e6 * PAYLOAD), 1, 0.1
    )
    least = -largest([-bound for bound in bounds if bound > 0], "bw_shortterm after the change")
    yield BoundCheck("least bw_shortterm / the old rate", least / (60e6 * PAYLOAD), high=0.5)


@appendix(17, "A policer's rate is kept", "policer")
def a17(trace: Trace) -> Checks:
    late = [row for row in trace.rows if row["t"] > 6]
    rate = upper_median([row["delivery_rate_bps"] for row in late])
    lost = late[-1]["lost_pkts"] - late[0]["lost_pkts"]
    carried = 10e6 / 8 / 1514 * (late[-1]["t"] - late[0]["t"])
    yield BoundCheck("lost share", 100 * lost / carried, high=5, unit="%")
    yield check_near("median delivery rate / the policer's", rate / (10e6 * PAYLOAD), 1, 0.1)
    yield check_condition(
        "bw_shortterm is set", any(row["bw_shortterm_bps"] > 0 for row in trace.rows)
    )
    is_bounded = any(row["inflight_shortterm_pkts"] > 0 for row in trace.rows)
    yield check_condition("inflight_shortterm is set", is_bounded)


@appendix(18, "A spurious recovery is undone", "reordering")
def a18(trace: Trace) -> Checks:
    undone = sum(trace.counters[name] for name in LINUX_UNDOES)
    after = [
        other
        for one, other in trace.pairs()
        if one["ca_state"] >= RECOVERY and other["ca_state"] < RECOVERY
    ]
    window = largest([row["cwnd_pkts"] for row in after], "end of a recovery")
    yield BoundCheck("window after a recovery / BDP", window / BDP_PKTS, low=1.5)
    yield BoundCheck("recoveries that Linux undid", undone, low=1)
    yield check_condition("no undo_state left", all(row["undo_state"] == "NONE" for row in after))


@appendix(19, "A spurious timeout is undone", "delay spike")
def a19(trace: Trace) -> Checks:
    if len(trace.rows) < 2:
        raise NeverHappened("no ACKs")
    resumed = max(trace.pairs(), key=lambda pair: pair[1]["t"] - pair[0]["t"])[1]
    soon = [row for row in trace.rows if resumed["t"] <= row["t"] < resumed["t"] + 0.3]
    window = max(row["cwnd_pkts"] for row in soon)
    yield BoundCheck("window after the timeout / BDP", window / BDP_PKTS, low=1.5)
    yield BoundCheck("timeouts", trace.counters["TCPTimeouts"], low=1)
    undone = sum(trace.counters[name] for name in LINUX_UNDOES_TIMEOUT)
    yield BoundCheck("timeouts that Linux undid", undone, low=1)
    in_probe_bw = resumed["state"] in ("DOWN", "CRUISE", "REFILL", "UP")
    yield check_condition("it resumes in ProbeBW", in_probe_bw)
    bw = trace.rows[-1]["bw_bps"]
    yield BoundCheck("bw at the end / the link's rate", bw / (RATE_BPS * PAYLOAD), low=0.9)


@appendix(20, "ProbeRTT in Startup leads back to Startup", "limited")
def a20(trace: Trace) -> Checks:
    expected = ["STARTUP", "PROBE_RTT", "STARTUP"]
    yield check_condition("STARTUP, PROBE_RTT, STARTUP", trace.states[:3] == expected)


@appendix(21, "Loss in ProbeBW_UP lowers the long-term bound and ends it", "shallow")
def a21(trace: Trace) -> Checks:
    high = [after for _, after in trace.changes("UP", "DOWN") if after["too_high"]]
    bound = largest([row["inflight_longterm_pkts"] for row in high], "UP that ends on loss")
    queue_pkts, slack_pkts = 12, 10
    most = BDP_PKTS + queue_pkts + slack_pkts
    yield BoundCheck("largest inflight_longterm at the ends", bound, high=most, unit="packets")
    least = min(row["inflight_longterm_pkts"] for row in high)
    yield BoundCheck("least inflight_longterm at the ends", least, low=1, unit="packets")


@appendix(22, "Application-limited samples do not lower max_bw", "pause in refill")
def a22(trace: Trace) -> Checks:
    before, after = trace.first_change("REFILL", "UP", from_s=1)
    yield BoundCheck("max_bw after / before", after["max_bw_bps"] / before["max_bw_bps"], low=1)
    yield BoundCheck(
        "max_bw before / the link's", before["max_bw_bps"] / (RATE_BPS * PAYLOAD), low=0.9
    )
    nearby = [row for row in trace.rows if abs(row["t"] - after["t"]) < 0.3]
    yield check_condition(
        "application-limited samples", any(row["is_app_limited"] for row in nearby)
    )
