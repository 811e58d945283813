"""The benchmark's parts. Nothing is timed."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from gostlab.apps.bench import speed

LAB = Path(__file__).parents[3] / "lab"


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
        return lambda bench: [speed.Figure(name, "s", "", [bench.repeat])]

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
