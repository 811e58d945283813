# SPDX-License-Identifier: MIT
"""Curves of samples, and the sentence of a run's metrics."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from gostlab.serve.curves import RunCurves, bbr_state
from gostlab.serve.sentences import FlowAnswer, MetricSummary, PathAnswer, labels_of, sentence_of
from tests.serve.serving import asked


def socket_row(t_s: float, flow: str, delivered: int, **more: object) -> str:
    row = {"t_s": t_s, "flow": flow, "leg": "wan", "end": "near", "host": "s1", "mss": 1250}
    row |= {"delivered_pkts": delivered, "cwnd_pkts": 10, "unacked_pkts": 8, "srtt_ms": 50.0}
    return json.dumps({**row, "local": "l", "peer": "p", "cc": "cubic", **more}) + "\n"


def test_goodput_is_what_was_delivered_between_two_samples(tmp_path: Path) -> None:
    curves = RunCurves(asked().run, tmp_path)
    file = tmp_path / "sockets.jsonl"
    file.write_text(socket_row(0.05, "a", 10) + socket_row(0.1, "a", 60) + socket_row(0.1, "b", 4))

    first = curves.read()["flows"]
    assert first == {
        "a": {
            "at": [1],
            "mbit": [2.0],
            "srtt_ms": [50.0],
            "cwnd_pkts": [10.0],
            "unacked_pkts": [8.0],
            "bbr": [None],
        }
    }  # the second instant may not be complete

    rest = curves.read(ended=True)["flows"]
    assert rest["a"]["mbit"] == [10.0] and rest["b"]["at"] == [2]
    assert curves.read(ended=True) == {}


def test_the_first_goodput_is_over_the_time_since_the_flows_start(tmp_path: Path) -> None:
    run = asked(flows="{a: {cc: cubic}, late: {cc: bbr, start: 2s, duration: 8s}}").run
    rows = socket_row(0.3, "a", 60) + socket_row(2.1, "late", 30) + socket_row(2.15, "late", 40)
    (tmp_path / "sockets.jsonl").write_text(rows)

    flows = RunCurves(run, tmp_path).read(ended=True)["flows"]

    assert flows["a"]["mbit"] == [2.0] and flows["late"]["mbit"] == [3.0, 2.0]


def test_a_flows_sockets_add_up_and_no_leg_on_a_loopback_counts(tmp_path: Path) -> None:
    curves = RunCurves(asked().run, tmp_path)
    rows = [socket_row(0.05, "a", 10, local=f"l{i}", srtt_ms=40.0 + 20 * i) for i in range(2)]
    rows.append(socket_row(0.05, "a", 1000, leg="app", local="x"))
    (tmp_path / "sockets.jsonl").write_text("".join(rows))

    flow = curves.read(ended=True)["flows"]["a"]

    assert (flow["mbit"], flow["cwnd_pkts"], flow["srtt_ms"]) == ([4.0], [20.0], [50.0])


@pytest.mark.parametrize(
    ("pacing", "window", "state"),
    [
        (2.887, 2.887, "Startup"),
        (0.347, 2.887, "Drain"),
        (1.25, 2.0, "Up"),
        (0.75, 2.0, "Down"),
        (1.0, 2.0, "Cruise"),
        (1.0, 1.0, "ProbeRTT"),
    ],
)
def test_the_gains_tell_bbrs_states_apart(pacing: float, window: float, state: str) -> None:
    assert bbr_state({"pacing_gain": pacing, "cwnd_gain": window}) == state


def flow(name: str, mbit: list[float], share: list[float] | None = None) -> FlowAnswer:
    return FlowAnswer(
        name=name,
        label=name.upper(),
        traffic_type="tcp",
        idle_rtt_ms=40.0,
        mbit=MetricSummary(tuple(mbit)),
        share=MetricSummary(tuple(share)) if share else None,
        resent_share=MetricSummary((0.021,)),
    )


def sentence(*flows: FlowAnswer, wait_ms: float = 35.2, rate: float = 20.0, runs: int = 1) -> str:
    wait = MetricSummary((wait_ms,))
    answer = PathAnswer(rate_mbit=rate, wait_p95_ms=wait, tunnel=None, runs=runs, flows=flows)
    return sentence_of(answer).replace("\u00a0", " ").replace("\u2060", "")


def test_the_sentence_says_who_gets_how_much_and_who_waits() -> None:
    waits = "packets wait 35 ms (p95) in the queue."
    assert sentence(flow("a", [14], [0.71]), flow("b", [5.6], [0.29])) == (
        f"A takes 71 % of the traffic; {waits}"
    )
    assert sentence(flow("a", [10], [0.52]), flow("b", [9], [0.48])) == (
        f"A and B share evenly (52 : 48); {waits}"
    )
    assert sentence(flow("a", [5], [0.7]), flow("b", [2], [0.3])) == (
        "A takes 70 % of the traffic; 65 % of the link stays unused."
    )
    assert sentence(flow("a", [18.8])) == f"A fills 94 % of the link; {waits}"
    assert sentence(flow("a", [2.9]), wait_ms=0.2) == (
        "A gets 2.9 of 20 Mbit/s; 2.1 % of its packets were retransmitted."
    )
    assert sentence(flow("a", [18]), wait_ms=0.2).endswith("the queue stays almost empty.")


def test_the_sentence_of_several_runs_says_their_span() -> None:
    five = [14.0] * 5
    lead = flow("a", five, [0.72, 0.73, 0.74]), flow("b", [5.0], [0.28, 0.27, 0.26])
    assert "A takes 73 % of the traffic (72–74 % in 5 runs)" in sentence(*lead, runs=5)
    either = flow("a", five, [0.4, 0.55, 0.6]), flow("b", [5.0], [0.6, 0.45, 0.4])
    assert sentence(*either, runs=5).startswith(
        "Either may lead: A takes 40 to 60 % of the traffic in 5 runs"
    )


def test_six_runs_have_an_interval_and_fewer_a_span() -> None:
    from gostlab.serve.answers import metric_json

    values = (10.0, 11.0, 12.0, 13.0, 14.5, 15.0)
    six, five = metric_json(MetricSummary(values)), metric_json(MetricSummary(values[:5]))
    assert six is not None and five is not None
    assert (six["low"], six["high"]) == (10.0, 15.0) and 0.95 < six["coverage"] < 0.98
    assert (five["low"], five["high"]) == (10.0, 14.5) and "coverage" not in five


def test_a_ping_is_compared_with_the_idle_path() -> None:
    ping = FlowAnswer("c", "Ping", "ping", 20.0, p95_ms=MetricSummary((178.0,)))
    assert sentence(ping, flow("a", [9.2]), rate=10) == (
        "Pings take 178 ms (p95), 8.9 times the idle 20 ms: A keeps the queue full."
    )
    fast = FlowAnswer("c", "Ping", "ping", 20.0, p95_ms=MetricSummary((20.9,)))
    assert sentence(fast, flow("a", [9.2]), rate=10) == (
        "Pings stay fast: 21 ms (p95), 20 ms when idle; A fills 92 % of the link."
    )


def test_flows_of_one_label_are_told_apart_by_name() -> None:
    run = asked(flows="{a: {cc: cubic}, b: {cc: cubic}, c: {cc: bbr, streams: 4}}").run
    assert labels_of(run.flows, run.cc) == {"a": "CUBIC a", "b": "CUBIC b", "c": "BBR ×4"}
