# SPDX-License-Identifier: MIT
"""What samples say in one number each, of samples made up to have a known answer."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from gostlab.results import metrics
from gostlab.spec.run_spec import RunSpec
from tests.sandboxed import describe, direction, flow


def sent_by(
    t_s: float, sent_bytes: float, dev: str = "wan_a-eth1", direction: str = "forward"
) -> dict[str, Any]:
    where = {"role": "bottleneck", "direction": direction, "dev": dev}
    return {**where, "t_s": t_s, "sent_bytes": sent_bytes}


def test_the_bottleneck_that_sent_most_is_full_at_the_rate_that_it_has_just_then() -> None:
    changes = [
        {"at_s": 2.0, "direction": "forward", "rate_bps": 2_000_000},
        {"at_s": 2.5, "direction": "reverse", "rate_bps": 1},
    ]
    run = describe(direction(rate_bps=8_000_000), changes=changes)
    rows = []
    for t_s, sent in enumerate((0.0, 1e6, 2e6, 2.25e6, 2.5e6, 2.75e6)):
        rows.append(sent_by(float(t_s), 0.5 * sent, "near1-eth1"))
        rows.append(sent_by(float(t_s), sent, "near2-eth1"))
        rows.append(sent_by(float(t_s), 9 * sent, "far2-eth0", "reverse"))
    assert metrics.bottleneck_utilisation(run, rows) == pytest.approx(1.0)
    assert metrics.bottleneck_utilisation(run, rows[:3]) is None
    assert metrics.bottleneck_utilisation(replace(run, changes=[]), []) is None


def test_total_goodput_is_without_udp_unless_there_is_nothing_else(tmp_path: Path) -> None:
    def total(flows: object) -> float | None:
        (tmp_path / "flows.json").write_text(json.dumps({"flows": flows}))
        return metrics.goodput_bps(tmp_path)

    tcp, http, udp = (
        {"kind": kind, "goodput_bps": bps} for kind, bps in (("tcp", 3), ("http", 4), ("udp", 9))
    )
    assert (total([tcp, http, udp]), total([udp])) == (7, 9)
    assert metrics.udp_goodput_bps(tmp_path) is None  # it is the goodput
    assert total([tcp, udp]) == 3 and metrics.udp_goodput_bps(tmp_path) == 9
    rateless = [[{"kind": "tcp", "goodput_bps": rate}] for rate in ("many", None)]
    for damaged in (None, 3, [3], [{"kind": "tcp"}], *rateless):
        assert total(damaged) is None
    assert metrics.goodput_bps(tmp_path / "nowhere") is None
    assert metrics.udp_goodput_bps(tmp_path / "nowhere") is None


# -- the CPU


def test_the_idle_share_is_that_of_the_median_interval_of_what_was_counted() -> None:
    busy_s = [0.0, 0.1, 1.0, 1.9, 2.0]
    # the kernel's ticks may count more than a second of a second, and no share is above 1
    idle_s = [0.0, 1.2, 1.3, 1.4, 2.6]
    rows = [
        {"t_s": float(t), "cpu_busy_s": busy, "cpu_idle_s": idle}
        for t, (busy, idle) in enumerate(zip(busy_s, idle_s, strict=True))
    ]
    assert metrics.idle_share(rows) == pytest.approx((0.1 + 12 / 13) / 2)
    assert metrics.idle_share(rows, 1.0, 3.0) == pytest.approx(0.1)
    assert metrics.idle_share(rows, until_s=1.0) == pytest.approx(12 / 13)
    assert metrics.idle_share(rows[:1]) is None
    assert metrics.idle_share([{"t_s": 1.0}, {"t_s": 2.0}]) is None


# -- delays


def row(
    t_s: float, srtt_ms: float, *, flow: str = "flow1", end: str = "near", leg: str = "wan"
) -> dict[str, Any]:
    return {"t_s": t_s, "srtt_ms": srtt_ms, "flow": flow, "end": end, "leg": leg}


def asked(*flows: dict[str, Any], rate_bps: int | None = 8_000_000, **more: Any) -> RunSpec:
    """Return a run: 8 Mbit/s, 10 ms each way, for 10 s."""
    of_path = direction(rate_bps=rate_bps, delay_ms=10.0)
    usual = {"rtt_ms": 20.0, "duration_s": 10.0}
    written = [flow(**{**usual, **changes}) for changes in flows or ({},)]
    return describe(of_path, of_path, duration_s=10.0, flows=written, **more)


def test_a_round_trip_counts_for_as_long_as_its_sample_stands() -> None:
    # given 1 s at 20 ms, 8 s at 30 ms (samples were missed), 1 s at 100 ms: all 10 s of the flow
    rows = [row(0.0, 20.0), row(1.0, 30.0), row(9.0, 100.0), row(10.0, 999.0)]
    assert metrics.srtt_ms(asked(), [], rows) == metrics.Spread(30.0, 100.0)
    assert metrics.srtt_ms(asked(), [], rows[:2]) == metrics.Spread(
        30.0, 30.0
    )  # the last stands to the end
    assert metrics.srtt_ms(asked(), [], []) is None


def test_round_trips_are_the_senders_across_the_wan_while_their_flow_is_active() -> None:
    late = {"name": "late", "start_s": 5.0, "duration_s": 5.0, "direction": "download"}
    rows = [
        row(1.0, 20.0),
        row(1.0, 1.0, leg="app"),
        row(1.0, 2.0, end="far"),
        row(4.0, 7000.0, flow="late", end="far"),  # stands to 6.0: one second of it counts
        row(6.0, 40.0, flow="late", end="far"),
        row(6.0, 3.0, flow="late", end="near"),
    ]
    did = [{"name": "late", "started_s": 5.0, "ended_s": 8.0}]
    found = metrics.srtt_samples(asked({"duration_s": 2.0}, late), did, rows)
    held = [(each.value, each.seconds, flow) for each, flow in found]
    assert held == [(20.0, 1.0, "flow1"), (7000.0, 1.0, "late"), (40.0, 2.0, "late")]


def queue(t_s: float, backlog_bytes: int, role: str = "bottleneck") -> dict[str, Any]:
    """A sample of a queue of node a."""
    held = {"role": role, "backlog_bytes": backlog_bytes, "node": "a"}
    return sent_by(t_s, 1e6 * t_s) | held


def test_a_queue_s_delay_is_its_bytes_at_the_rate_of_that_moment() -> None:
    rows = [queue(0.0, 0), queue(4.0, 1000), queue(8.0, 50_000)]
    rows += [queue(t_s, 10**9, "delay") for t_s in (0.0, 4.0)]
    assert metrics.queue_delay_ms(asked(), [], rows) == metrics.Spread(1.0, 50.0)
    slower = [{"at_s": 5.0, "direction": "forward", "rate_bps": 800_000}]
    assert metrics.queue_delay_ms(asked(changes=slower), [], rows) == metrics.Spread(1.0, 500.0)


def test_a_queue_before_an_outage_waits_for_its_end_and_no_longer() -> None:
    rows = [queue(float(t_s), 50_000) for t_s in range(10)]
    outage = [
        {"at_s": 4.0, "direction": "forward", "rate_bps": 1000},
        {"at_s": 5.0, "direction": "forward", "rate_bps": 8_000_000},
    ]
    waited = metrics.queue_delay_ms(asked(changes=outage), [], rows)
    # 50 ms, and the second of the outage before them; by that moment's rate it would be 400 s
    assert waited is not None and waited.median == pytest.approx(50.0)
    assert waited.p95 == pytest.approx(1050.0, rel=1e-3)
    # an outage that nothing ends tells nothing of what waits in it
    endless = metrics.queue_delay_ms(asked(changes=outage[:1]), [], rows)
    assert endless is not None and endless.p95 == pytest.approx(50.0)


def test_a_path_without_a_rate_has_no_queue_delay() -> None:
    rows = [{**sent_by(0.0, 0.0), "backlog_bytes": 1000, "node": "a"}]
    assert metrics.queue_delay_ms(asked(rate_bps=None), [], rows) is None


def test_a_folder_s_delays(tmp_path: Path) -> None:
    assert metrics.latency_of_folder(tmp_path) is None
    run_json = asked().to_json()
    (tmp_path / "run.json").write_text(json.dumps(run_json))
    assert metrics.latency_of_folder(tmp_path) == metrics.Latency(20.0, None, None)
    lines = [
        {"t_s": t_s, "srtt_ms": ms, "leg": "wan", "flow": "flow1"}
        for t_s, ms in ((1.0, 25.0), (2.0, None))
    ]
    (tmp_path / "sockets.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    assert metrics.latency_of_folder(tmp_path) == metrics.Latency(
        20.0, metrics.Spread(25.0, 25.0), None
    )
    (tmp_path / "queues.jsonl").write_text(json.dumps(queue(1.0, 9)) + "\n")
    damaged = (
        run_json | {key: value} for key, value in (("path", {}), ("flows", [{}]), ("changes", [{}]))
    )
    for damage in ({}, {"path": 3}, *damaged):
        (tmp_path / "run.json").write_text(json.dumps(damage))
        assert metrics.latency_of_folder(tmp_path) is None


def test_the_idle_round_trip_is_that_of_the_nearest_flow() -> None:
    assert metrics.idle_rtt_ms(asked()) == 20.0
    assert metrics.idle_rtt_ms(asked({"rtt_ms": 80.0}, {"name": "flow2", "rtt_ms": 50.0})) == 50.0
