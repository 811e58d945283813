# SPDX-License-Identifier: MIT
"""One run over time, on made-up folders whose rates are known: what is read, and what fairness and
settling make of it.
"""

import json
import math
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import synthetic
from scipy import integrate
from synthetic import loaded, matrices_of

from gostlab.analysis.load import series
from gostlab.analysis.load.run_folder import RunFolder
from gostlab.analysis.load.study import Study
from gostlab.analysis.stats import fairness
from gostlab.analysis.stats.cells import natural_sort_key, to_table, value_of
from gostlab.analysis.stats.statistics import mean_of_greatest
from gostlab.results.samples import ACK_COLUMNS, read_acks
from gostlab.spec.experiment import Published

TWO = ({}, {"start_s": 10.0, "duration_s": 50.0})


def made(
    tmp_path: Path,
    run: Mapping[str, Any],
    rates: Mapping[str, synthetic.Over[float]] | None = None,
    name: str = "one",
    **kept: Any,
) -> RunFolder:
    folder = synthetic.write_run(tmp_path, run, name=name)
    if rates is not None:
        synthetic.write_over_time(folder, run, rates, **kept)
    return loaded(folder)


def test_a_flow_s_rate_is_its_sockets_payload_together(tmp_path: Path) -> None:
    asked = synthetic.several({"streams": 4})
    run = made(tmp_path, asked, {"flow1": lambda t: 40.0 if t < 30 else 80.0})
    rates = series.flow_rates(run, 1.0)["flow1"]
    assert list(rates.t_s) == [float(t) for t in range(1, 61)]
    assert rates.value == pytest.approx([40.0] * 30 + [80.0] * 30)


@pytest.mark.parametrize("window_s", [0.1, 0.25, 0.7, 1.0, 5.0])
def test_the_windows_hold_what_was_delivered_and_no_more(tmp_path: Path, window_s: float) -> None:
    def rate(t: float) -> float:
        return 50 + 40 * math.sin(t)

    run = made(tmp_path, synthetic.several({}), {"flow1": rate})
    rates = series.flow_rates(run, window_s)["flow1"]
    assert rates.t_s[0] == pytest.approx(window_s)
    ends = np.minimum(rates.t_s, 60.0)
    delivered, _ = integrate.quad(rate, 0, ends[-1], limit=200)
    found = float(np.dot(rates.value, np.diff(ends, prepend=0.0)))
    assert found == pytest.approx(delivered, rel=1e-3)


def test_a_flow_that_starts_and_ends_within_a_window_has_its_own_rate_there(tmp_path: Path) -> None:
    asked = synthetic.several({}, {"start_s": 10.3, "duration_s": 20.0})
    run = made(tmp_path, asked, {"flow1": 50.0, "flow2": 30.0})
    rates = series.flow_rates(run, 1.0)["flow2"]
    assert (rates.t_s[0], rates.t_s[-1]) == (11.0, 30.0)  # 30.0 to 30.3 is less than half a window
    assert rates.value == pytest.approx([30.0] * 20)


@pytest.mark.parametrize("heading", ["upload", "download"])
def test_udp_s_rate_is_what_its_receiver_reports(tmp_path: Path, heading: str) -> None:
    udp = {"kind": "udp", "cc": None, "rate_bps": 30_000_000, "start_s": 5.0, "duration_s": 10.0}
    udp["direction"] = heading
    rates = {"flow1": 50.0, "flow2": lambda t: 29.0 if t < 10 else 27.0}
    run = made(tmp_path, synthetic.several({}, udp), rates)
    rates = series.flow_rates(run, 1.0)["flow2"]
    assert rates.t_s[0] == 6.0 and rates.value == pytest.approx([29.0] * 5 + [27.0] * 5)


def test_fields_add_up_over_sockets_and_times_are_means(tmp_path: Path) -> None:
    asked, windows = synthetic.several({"streams": 3}), {"flow1": 7}
    run = made(tmp_path, asked, {"flow1": 30.0}, windows=windows)
    for key, value in (("cwnd_pkts", 21.0), ("srtt_ms", 11.0)):
        assert set(series.socket_series(run, key)["flow1"].value) == {value}
    for key in ("ssthresh_pkts", "bbr.bw_bps"):
        assert series.socket_series(run, key) == {}


def test_the_queue_is_the_bottleneck_s_where_the_data_goes(tmp_path: Path) -> None:
    queue = series.queue_series(made(tmp_path, synthetic.several({})))
    assert (list(queue.value), list(queue.t_s)) == ([0, 50, 100, 150], [1, 2, 3, 4])


def test_acks_are_read_and_an_absent_or_broken_file_is_empty(tmp_path: Path) -> None:
    run = made(tmp_path, synthetic.several({}))
    assert read_acks(run.folder).empty and list(read_acks(run.folder).columns) == list(ACK_COLUMNS)
    synthetic.write_acks(run.folder, [(0.1, "flow1", 10, ""), (0.2, "flow1", 20, 15)])
    found = read_acks(run.folder)
    assert list(found["cwnd_pkts"]) == [10.0, 20.0]
    assert math.isnan(found["snd_ssthresh_pkts"][0]) and found["snd_ssthresh_pkts"][1] == 15.0
    assert found["current_ssthresh_pkts"].isna().all()
    synthetic.write_acks(run.folder, [(t / 1000, "flow1", t, 9) for t in range(1, 20000)])
    whole = (run.folder / "acks.csv.gz").read_bytes()
    (run.folder / "acks.csv.gz").write_bytes(whole[: len(whole) // 2])
    cut = read_acks(run.folder)
    assert 1000 < len(cut) < 19999 and (np.diff(cut["cwnd_pkts"]) == 1).all()
    for damage in (b"", b"no gzip", whole[:5], b"\x1f\x8b" + bytes(50)):
        (run.folder / "acks.csv.gz").write_bytes(damage)
        assert read_acks(run.folder).empty


def test_the_mean_window_is_weighted_by_time_not_by_acks(tmp_path: Path) -> None:
    run = made(tmp_path, synthetic.several({"duration_s": 40.0}))
    # given a window of 100 that is acknowledged a hundred times as often as the one of 10
    rows = [
        (0.5, "flow1", 500, ""),
        *((10 + t / 100, "flow1", 100, 50) for t in range(2000)),
        *((30 + t, "flow1", 10, 50) for t in range(11)),
    ]
    synthetic.write_acks(run.folder, rows)
    # from 10 s on: a quarter of 40
    assert series.mean_window_pkts(run, "flow1") == pytest.approx((100 * 20 + 10 * 10) / 30)
    assert series.mean_window_pkts(run, "flow9") is None


def test_a_saw_tooth_s_mean_window_is_its_integral(tmp_path: Path) -> None:
    asked = synthetic.several({"duration_s": 40.0})
    tooth = {"flow1": lambda t: int(100 + 10 * (t % 10))}
    run = made(tmp_path, asked, {"flow1": 9.0}, windows=tooth, sample_s=0.05)
    mean, _ = integrate.quad(lambda t: 100 + 10 * (t % 10), 10, 40, points=[20, 30])
    assert series.mean_window_pkts(run) == pytest.approx(mean / 30, abs=1.0)


def test_a_mean_window_begins_when_slow_start_ends_if_that_is_late(tmp_path: Path) -> None:
    run = made(tmp_path, synthetic.several({"duration_s": 40.0}))
    starting, steady = (1000, ""), (40, 20)
    rows = [(t / 10, "flow1", *(starting if t < 300 else steady)) for t in range(401)]
    synthetic.write_acks(run.folder, rows)
    assert series.mean_window_pkts(run) == pytest.approx(40.0)


def test_several_sockets_of_a_flow_are_added_up_though_acks_are_there(tmp_path: Path) -> None:
    asked, windows = synthetic.several({"streams": 2}), {"flow1": 7}
    run = made(tmp_path, asked, {"flow1": 30.0}, windows=windows)
    synthetic.write_acks(run.folder, [(1.0, "flow1", 7, ""), (50.0, "flow1", 7, "")])
    assert series.mean_window_pkts(run) == pytest.approx(14.0)


def turning(*edges: float, to: float, else_: float) -> Callable[[float], float]:
    """A rate that is `to` from the first edge to the second (or for good), else another."""
    first, last = (*edges, math.inf)[:2]
    return lambda t: to if first <= t < last else else_


UDP = {"kind": "udp", "cc": None, "rate_bps": 30_000_000}
APART = ({"duration_s": 10.0}, {"start_s": 20.0, "duration_s": 10.0})


@pytest.mark.parametrize(
    ("flows", "rates", "active"),
    [
        # The first has the path for itself for 10 s, and in 12.5 s of the common 50 the second
        # starts up.
        (
            TWO,
            [turning(22.5, to=60.0, else_=90.0), turning(22.5, to=30.0, else_=1.0)],
            {"flow1": 60.0, "flow2": 30.0},
        ),
        (({},), [50.0], {"flow1": 50.0}),
        (APART, [50.0, 50.0], {}),
        (({}, {}, UDP), [40.0, 30.0, 30.0], {"flow1": 40.0, "flow2": 30.0}),
    ],
    ids=["two", "alone", "never together", "beside UDP"],
)
def test_shares_are_of_the_time_when_all_flows_are_active(
    tmp_path: Path, flows: Any, rates: Any, active: dict[str, float]
) -> None:
    named = {f"flow{number}": rate for number, rate in enumerate(rates, 1)}
    run = made(tmp_path, synthetic.several(*flows), named)
    total = sum(active.values())
    assert fairness.active_rates(run) == pytest.approx(active)
    assert fairness.flow_shares(run) == pytest.approx(
        {name: r / total for name, r in active.items()}
    )
    if len(active) > 1:
        even = total**2 / (2 * sum(rate**2 for rate in active.values()))
        assert fairness.jain_of_run(run) == pytest.approx(even)
    else:
        assert fairness.jain_of_run(run) is fairness.convergence_s(run) is None
        assert not fairness.can_converge(run)


def test_a_flow_yields_since_its_share_is_below_a_fair_one_for_good(tmp_path: Path) -> None:
    # a moment's turn, as when BBR probes the round trip, is no change of sides
    def rate(t: float, own: float) -> float:
        return 50.0 if t < 30 or 50 <= t < 50.5 else own

    rates = {"flow1": partial(rate, own=80.0), "flow2": partial(rate, own=20.0)}
    run = made(tmp_path, synthetic.several({}, {}), rates)

    found = fairness.fair_share_sides(run)
    assert {name: each.side for name, each in found.items()} == {"flow1": 1, "flow2": -1}
    assert all(each.since_s == pytest.approx(27, abs=3) for each in found.values())
    even = made(tmp_path / "even", synthetic.several({}, {}), dict.fromkeys(rates, 50.0))
    assert {(each.side, each.since_s) for each in fairness.fair_share_sides(even).values()} == {
        (0, 0.0)
    }


def test_shares_of_a_part_are_of_that_part(tmp_path: Path) -> None:
    rates = {"flow1": turning(30, to=60.0, else_=90.0), "flow2": turning(30, to=40.0, else_=10.0)}
    run = made(tmp_path, synthetic.several({}, {}), rates)

    part = replace(run, measured_s=(32.0, 42.0))
    assert fairness.active_rates(part) == pytest.approx({"flow1": 60.0, "flow2": 40.0})
    assert fairness.active_rates(replace(run, measured_s=(100.0, 110.0))) == {}


def second_from(fair_s: float, *end_s: float) -> dict[str, Callable[[float], float]]:
    """Two flows that share 100 Mbit/s, 52 to 48 from fair_s on, 99 to 1 before and after."""
    return {
        "flow1": turning(fair_s, *end_s, to=52.0, else_=99.0),
        "flow2": turning(fair_s, *end_s, to=48.0, else_=1.0),
    }


@pytest.mark.parametrize("after_s", [0.0, 3.0, 17.0])
def test_convergence_is_counted_from_the_last_start(tmp_path: Path, after_s: float) -> None:
    run = made(tmp_path, synthetic.several(*TWO), second_from(10 + after_s))
    assert fairness.convergence_s(run) == pytest.approx(after_s)


def test_fair_shares_that_do_not_last_are_no_convergence(tmp_path: Path) -> None:
    passing = made(tmp_path, synthetic.several(*TWO), second_from(20.0, 24.0))
    assert fairness.convergence_s(passing) is None and fairness.can_converge(passing)
    late = made(tmp_path, synthetic.several(*TWO), second_from(56.0), name="late")
    assert fairness.convergence_s(late) is None  # 4 s of the 5 s that it takes


@pytest.mark.parametrize(("share", "fair"), [(0.54, True), (0.56, False)])
def test_delta_is_that_of_rfc_5166(tmp_path: Path, share: float, fair: bool) -> None:
    # (1 + delta)/2 with delta = 0.1 is 0.55
    rates = {"flow1": 100 * share, "flow2": 100 * (1 - share)}
    run = made(tmp_path, synthetic.several(*TWO), rates)
    assert (fairness.convergence_s(run) == 0.0) is fair


IN_THE_MIDDLE = {**UDP, "start_s": 20.0, "duration_s": 20.0}


def test_settling_is_counted_from_the_event_to_the_new_value(tmp_path: Path) -> None:
    def tcp(t: float) -> float:
        return float(np.interp(t, [20, 20, 23, 23, 40, 45], [95, 20, 20, 45, 45, 95]))

    run = made(tmp_path, synthetic.several({}, IN_THE_MIDDLE), {"flow1": tcp, "flow2": 50.0})
    assert fairness.convergence_events_s(run) == (20.0, 40.0)
    found = fairness.settling_times_s(run)
    assert found[20.0] == pytest.approx(3.0)
    assert found[40.0] == pytest.approx(4.05, abs=0.25)  # within 10 % of 95 from 85.5 on
    assert fairness.convergence_s(run) == found[40.0]


def test_a_rate_that_swings_until_the_next_event_never_settles(tmp_path: Path) -> None:
    def tcp(t: float) -> float:
        return (20.0 if int(t) % 2 else 60.0) if 20 <= t < 40 else 95.0

    run = made(tmp_path, synthetic.several({}, IN_THE_MIDDLE), {"flow1": tcp, "flow2": 50.0})
    found = fairness.settling_times_s(run)
    assert found[20.0] is None and found[40.0] == 0.0
    assert fairness.convergence_s(run) is None


def test_changes_of_the_path_are_events_unless_it_never_rests(tmp_path: Path) -> None:
    change = {"direction": "forward", "rate_bps": 50_000_000}
    few = synthetic.several({}, changes=[{"at_s": at, **change} for at in (20.0, 20.5, 59.0)])
    assert fairness.convergence_events_s(made(tmp_path, few, {"flow1": 50.0})) == (20.5,)
    trace = synthetic.several({}, changes=[{"at_s": float(t), **change} for t in range(1, 50)])
    assert fairness.convergence_events_s(made(tmp_path, trace, {"flow1": 50.0}, name="trace")) == ()


def test_segments_out_of_order_are_counted_per_segment_that_arrived(tmp_path: Path) -> None:
    run = made(tmp_path, synthetic.several({}))
    counted = ("leg", "data_segments_out", "segments_retransmitted", "segments_out")
    legs = [("wan", 1010, 20, 1100), ("exit", 5000, 0, 5000)]
    client = {"TcpExtTCPDSACKRecv": 8, "TcpExtTCPDSACKOfoRecv": 2, "TcpExtTCPOFOQueue": 0}
    told = {
        "legs": [dict(zip(counted, leg, strict=True)) for leg in legs],
        "nstat": {"client": client, "target": {"TcpExtTCPOFOQueue": 50}},
    }
    synthetic.put(run.folder, "legs.json", told)
    # given 20 sent again, 10 of them for nothing: 10 of 1010 were lost
    assert series.reordered_share(run) == pytest.approx(50 / 1000)
    for damage in ({}, {"legs": 3, "nstat": []}, {"legs": [None], "nstat": {"a": 1}}):
        synthetic.put(run.folder, "legs.json", damage)
        assert series.reordered_share(run) is None


def test_the_best_three_of_five() -> None:
    assert mean_of_greatest([1.0, 9.0, 7.0, 2.0, 8.0]) == 8.0
    assert mean_of_greatest([1.0, 2.0]) is None


HALF = '{"t_s": 1.0, "flow": "flow1", "delivered_pkts": "x", "mss": 1}\n'


@pytest.mark.parametrize("damage", ["", "{", '{"t_s": 1}\n', HALF, "[]\n"])
def test_a_damaged_series_raises_nothing(tmp_path: Path, damage: str) -> None:
    run = made(tmp_path, synthetic.several(*TWO))
    for name in ("sockets.jsonl", "queues.jsonl", "iperf3-flow2-server.json"):
        (run.folder / name).write_text(damage)
    assert series.flow_rates(run, 1.0) == {} and len(series.queue_series(run)) == 0
    assert (
        fairness.jain_of_run(run)
        is fairness.convergence_s(run)
        is series.mean_window_pkts(run)
        is None
    )
    assert not fairness.can_converge(run)


def test_a_series_without_delivered_segments_is_read_by_bytes_acked(tmp_path: Path) -> None:
    run = synthetic.description(tunnel="direct", duration_s=4.0)
    folder = synthetic.write_run(tmp_path, run)
    socket = {"flow": "flow1", "leg": "wan", "local": "a", "peer": "b", "cwnd_pkts": 10}
    rows = [{**socket, "t_s": float(t), "bytes_acked": 125_000 * t} for t in range(1, 5)]
    synthetic.put_lines(folder, "sockets", rows)
    assert series.flow_rates(loaded(folder), 1.0)["flow1"].value == pytest.approx([1.0] * 4)


def test_series_are_read_only_where_a_matrix_asks_for_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = synthetic.description()
    synthetic.write_run(tmp_path, run)
    (matrix,) = matrices_of(tmp_path)

    def read(*_: Any) -> None:
        raise AssertionError("it was read")

    monkeypatch.setattr(series, "rows_by_flow", read)
    monkeypatch.setattr(series, "read_acks", read)
    table = to_table(matrix.cells, synthetic.STUDY)
    assert table["jain"].isna().all() and table["window_pkts"].isna().all()
    published = Published("main", {}, figure="window_pkts", value=10.0, source="s")
    for asks in ({"matrix_draws": (("main", ("by-loss",)),)}, {"published": (published,)}):
        with pytest.raises(AssertionError, match="it was read"):
            to_table(matrix.cells, Study("x", "x", **asks))


def test_a_table_has_the_flows_figures_beside_each_other(tmp_path: Path) -> None:
    for repetition in range(1, 4):
        run = synthetic.several(*TWO, repetition=repetition, seed=repetition)
        rates = second_from(20.0 if repetition < 3 else 70.0)
        if repetition == 2:  # samples equal to the first one's would make it a copy
            rates["flow2"] = turning(20.0, to=48.001, else_=1.0)
        made(tmp_path, run, rates, name=f"r{repetition}")
    (matrix,) = matrices_of(tmp_path)
    (row,) = [row for _, row in to_table(matrix.cells, Study("x", "x")).iterrows()]
    asked = {"topology": "dumbbell", "rtt_ms": 10.0, "loss_p": 0.0, "ordered": 0.0, "flows": 2}
    assert dict(row[list(asked)]) == asked
    assert row["goodput:flow1"] == 50.0 and row["goodput"] == pytest.approx(50 * (120 + 100) / 120)
    assert row["share:flow1"] == pytest.approx(0.52) and len(row["share:flow2_values"]) == 3
    assert row["total_mbit"] == pytest.approx(100.0)
    assert row["convergence_s"] == pytest.approx(10.0) and row["never_converged"] == 1
    assert math.isnan(row["window_pkts"]) and row["goodput_best3"] == row["goodput"]
    assert value_of(matrix.cells[0].runs[0], "window_pkts:flow2") == pytest.approx(100.0)


def test_levels_stand_in_the_order_of_what_they_say() -> None:
    levels = ["10gbit", "100mbit", "ample", "1gbit"]
    assert sorted(levels, key=natural_sort_key) == ["100mbit", "1gbit", "10gbit", "ample"]
    assert sorted(["1460MiB", "365MiB", "2GiB"], key=natural_sort_key) == [
        "365MiB",
        "1460MiB",
        "2GiB",
    ]
    assert (
        sorted(["30s", "500ms", "0.1bdp", "8000pkts", "100pkts"], key=natural_sort_key)[-1]
        == "8000pkts"
    )


def test_a_cell_that_the_kernel_lacks_says_so(tmp_path: Path) -> None:
    error = "congestion control bbr2: kernel module not built yet"
    synthetic.write_run(tmp_path, synthetic.cell("bbr2", 1), outcome="unsupported", error=error)
    synthetic.write_run(tmp_path, synthetic.cell("cubic", 1), verdict="invalid")
    (matrix,) = matrices_of(tmp_path)
    assert [cell.absent for cell in matrix.cells] == ["", "kernel module not built yet"]
    absent = to_table(matrix.cells, Study("made-up", "x"))["absent"]
    assert list(absent) == ["no valid run", "kernel module not built yet"]


@pytest.mark.parametrize(
    ("column", "at_acks", "sampled", "found", "left_s"),
    [
        # The socket's own, at every ACK.
        ("snd_ssthresh_pkts", {0.15: "", 0.25: 28}, 20, ["nan", "28.0"], 0.25),
        ("snd_ssthresh_pkts", {0.1: "", 0.2: ""}, None, [], -math.inf),  # infinite
        # What a kernel without the lab's field writes.
        ("unknown", {0.15: 7}, 20, ["20.0"], 0.1),
    ],
)
def test_ssthresh_is_the_sockets_own_where_acks_have_it_and_else_the_samples(
    tmp_path: Path,
    column: str,
    at_acks: Mapping[float, Any],
    sampled: int | None,
    found: list[str],
    left_s: float,
) -> None:
    run = made(tmp_path, synthetic.several({}), {"flow1": 30.0})
    file = run.folder / "sockets.jsonl"
    rows = [json.loads(row) for row in file.read_text(encoding="utf-8").splitlines()]
    synthetic.put_lines(run.folder, "sockets", [{**row, "ssthresh_pkts": sampled} for row in rows])
    synthetic.write_acks(run.folder, [(t, "flow1", 40, at) for t, at in at_acks.items()], column)

    assert list(dict.fromkeys(map(str, series.ssthresh_of(run, "flow1").value))) == found
    assert series.window_and_slow_start_end(run, run.flows[0])[1] == pytest.approx(left_s)
