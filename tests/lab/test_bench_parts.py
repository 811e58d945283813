"""The benchmark's parts, and the script that loads loopback in the sandbox. Nothing is timed."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from gostlab.ask.costs import MeasuredCost
from gostlab.bench import loopback, speed
from gostlab.bench.costs import Load, Spent, by_program, cheapest

LAB = Path(__file__).parents[2] / "lab"


def test_a_part_that_is_not_there_is_refused_with_those_that_are() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "gostlab", "bench", "--part", "sped"],
        cwd=LAB.parent,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 2
    assert "--part sped: not one of overhead, speed," in done.stderr


def test_the_parts_asked_for_are_taken_alone_and_in_that_order(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def part(name: str):
        return lambda bench: [speed.Figure(name, bench.repeat, 1, 2, "s", "")]

    monkeypatch.setattr(speed, "Bench", lambda scratch, repeat: type("B", (), {"repeat": repeat}))
    monkeypatch.setattr(speed, "PARTS", {name: part(name) for name in ("one", "two", "three")})
    monkeypatch.setattr(speed.machine, "compile_lab", lambda: None)
    speed.main(7, as_json=False, parts=["three", "one"])
    rows = capsys.readouterr().out.splitlines()[2:]
    assert [row.split(" | ")[0:2] for row in rows] == [["| three", "7"], ["| one", "7"]]
    speed.main(7, as_json=False)
    assert len(capsys.readouterr().out.splitlines()) == 2 + 3


def test_a_figure_that_fails_is_shown_as_failed_and_costs_no_other(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    bench = object.__new__(speed.Bench)
    bench.repeat = 2

    def broken() -> float:
        raise RuntimeError("a run of the benchmark failed:\niperf3 said nothing")

    def part(_bench: speed.Bench) -> list[speed.Figure]:
        return [
            bench.figure("boots", "s", "≤ 1", lambda: 0.5),
            bench.figure("crowd", "µs", "", broken),
        ]

    def none(_bench: speed.Bench) -> list[speed.Figure]:
        raise OSError("no such program")

    monkeypatch.setattr(speed, "Bench", lambda scratch, repeat: bench)
    monkeypatch.setattr(speed, "PARTS", {"one": part, "two": none})
    monkeypatch.setattr(speed.machine, "compile_lab", lambda: None)
    assert speed.main(2, as_json=False) == 1
    said = capsys.readouterr()
    assert said.out.splitlines()[2:] == [
        "| boots | 0.5 | 0.5 – 0.5 | s | ≤ 1 |",
        "| crowd | failed: a run of the benchmark failed: iperf3 said nothing | | |  |",
        "| the part two | failed: no such program | | |  |",
    ]
    assert "bench: boots: 0.5 s (0.5 – 0.5; target ≤ 1)" in said.err
    assert speed.main(2, as_json=True, parts=["two"]) == 1
    assert '"median": null' in capsys.readouterr().out


def test_every_program_of_the_chain_pays_what_was_measured_of_it() -> None:
    programs = {
        "iperf3/sender": MeasuredCost(1, {1: 5, 16: 10}),
        "iperf3-3.18/receiver": MeasuredCost(2, {1: 20}),
        "iperf3/receiver": MeasuredCost(9, {1: 90}),
        "gost+ws/near": MeasuredCost(3, {1: 30}),
        "gost+ws/far": MeasuredCost(4, {1: 40}),
    }
    script = loopback.script("/i/iperf3", "/r/relay", "ws", Load(16), programs)
    charged = [line for line in script.splitlines() if "program_cost" in line]
    assert [line.partition(" >/proc")[0] for line in charged] == [
        "(echo iperf3/receiver 2 20",
        "(echo gost+ws/far 4 40",
        "(echo gost+ws/near 3 30",
        "(echo iperf3/sender 1 10",
    ]
    assert "-P 16" in charged[-1] and f"-p {loopback.NEAR}" in charged[-1]


def test_the_comparison_has_twelve_rows_and_four_that_judge() -> None:
    assert len(loopback.chains()) == 12 + 4


def test_of_repeats_the_cheapest_counts_as_other_work_only_adds() -> None:
    taken = [Spent(300.0, 3.0, 100.0), Spent(400.0, 8.0, 200.0), Spent(900.0, 3.0, 300.0)]
    assert cheapest(taken) == Spent(2.0, 0.04, 1.0)


def test_a_chain_carries_what_all_of_its_programs_time_allows() -> None:
    spent = {
        "iperf3/sender": Spent(100.0, 1.0, 1000.0),
        "gost+ws/near": Spent(500.0, 10.0, 2000.0),
        "iperf3/receiver": Spent(200.0, 1.0, 1000.0),
    }
    assert loopback.chain_mbit(spent) == 8e3 * 1000 / 800


def test_iperf3s_cost_is_taken_where_it_is_alone_and_each_load_from_its_cheapest_repeat() -> None:
    alone, through = (None, Load(1)), ("ws", Load(1))
    taken = {
        alone: [
            {"iperf3/sender": Spent(20.0, 1.0, 10.0)},
            {"iperf3/sender": Spent(9.0, 1.0, 10.0)},
        ],
        through: [{"iperf3/sender": Spent(1.0, 1.0, 10.0), "gost+ws/far": Spent(4.0, 2.0, 8.0)}],
    }
    assert by_program(taken) == {
        "iperf3/sender": {alone: Spent(0.9, 0.1, 1.0)},
        "gost+ws/far": {through: Spent(0.5, 0.25, 1.0)},
    }


def test_the_guest_takes_over_what_tcp_may_hold_here() -> None:
    # 128 streams over loopback were at half of this machine's rate by the guest's own small limit.
    cost = MeasuredCost(1, {1: 1})
    script = loopback.script(
        "/i/iperf3", "/r/relay", None, Load(1), {"iperf3/sender": cost, "iperf3/receiver": cost}
    )
    here = Path("/proc/sys/net/ipv4/tcp_mem").read_text(encoding="ascii").split()
    assert f"echo {' '.join(here)} >/proc/sys/net/ipv4/tcp_mem" in script
