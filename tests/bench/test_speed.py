"""The benchmark's parts. Nothing is timed."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from gostlab.bench import compare_commits, speed, write_docs
from gostlab.bench.metrics import BenchMetric, meets

LAB = Path(__file__).parents[2] / "lab"


@pytest.fixture
def parts(monkeypatch: pytest.MonkeyPatch) -> dict[str, speed.Part]:
    """The benchmark's parts, none to begin with, and nothing that takes long."""
    found: dict[str, speed.Part] = {}
    monkeypatch.setattr(speed, "Bench", lambda *_: Timer())
    monkeypatch.setattr(speed, "PARTS", found)
    monkeypatch.setattr(speed, "plain_root", lambda: None)
    return found


class Timer(speed.Bench):
    def __init__(self) -> None:
        self.repeat = 2


def test_the_parts_asked_for_are_taken_alone_and_in_that_order(
    parts: dict[str, speed.Part], capsys: pytest.CaptureFixture[str]
) -> None:
    def part(name: str) -> speed.Part:
        return lambda bench: [BenchMetric(name, "s", "", [bench.repeat])]

    parts |= {name: part(name) for name in ("one", "two", "three")}
    speed.main(2, as_json=False, parts=["three", "one"])
    rows = capsys.readouterr().out.splitlines()[2:]
    assert [row.split(" | ")[0:2] for row in rows] == [["| three", "2 s"], ["| one", "2 s"]]
    speed.main(2, as_json=False)
    assert len(capsys.readouterr().out.splitlines()) == 2 + 3


def test_a_figure_that_fails_is_shown_as_failed_and_costs_no_other(
    parts: dict[str, speed.Part], capsys: pytest.CaptureFixture[str]
) -> None:
    def broken() -> float:
        raise RuntimeError("a run of the benchmark failed:\niperf3 said nothing")

    def part(bench: speed.Bench) -> list[BenchMetric]:
        return [
            bench.metric("boots", "s", "≤ 1", lambda: 0.5),
            bench.metric("crowd", "µs", "", broken),
        ]

    def none(_bench: speed.Bench) -> list[BenchMetric]:
        raise OSError("no such program")

    parts |= {"one": part, "two": none}
    assert speed.main(2, as_json=False) == 1
    rows = capsys.readouterr().out.splitlines()[2:]
    assert rows[0] == "| boots | 0.5 s | 0.5 – 0.5 | 2 | ≤ 1 | pass |"
    assert "a run of the benchmark failed: iperf3 said nothing" in rows[1]
    assert "the part two" in rows[2] and "no such program" in rows[2]
    assert speed.main(2, as_json=True, parts=["two"]) == 1
    assert '"median": null' in capsys.readouterr().out


@pytest.mark.parametrize(
    ("value", "target", "met"),
    [
        (0.36, "≤ 0.36", True),
        (0.37, "≤ 0.36", False),
        (2.6, "≥ 2.6", True),
        (1.2, "0.8 – 1.2", True),
        (1.3, "0.8 – 1.2", False),
    ],
)
def test_a_figure_is_judged_by_its_median(value: float, target: str, met: bool) -> None:
    assert meets(value, target) is met
    assert BenchMetric("one", "×", target, [0.0, value, 99.0]).verdict == (
        "pass" if met else "FAIL"
    )


def test_a_figure_without_target_or_numbers_is_not_judged() -> None:
    assert BenchMetric("one", "×", "", [1.0]).verdict == ""
    assert BenchMetric("one", "×", "≤ 1", failed="no").verdict == ""


def test_every_target_can_be_read() -> None:
    targets = [each.packets or each.speed for each in speed.COMPARED] + [speed.MAX_GROWTH]
    for target in filter(None, targets):
        meets(1.0, target)


def test_a_packets_cost_is_what_a_long_run_takes_more_over_the_packets_between(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    load = compare_commits.TimedLoad("full", "bbr", "rate: 1gbit", 4, 10)
    took = {"short0": (2.0, 100_000), "long0": (5.0, 400_000)}
    monkeypatch.setattr(
        compare_commits.Version, "run", lambda _self, matrix, _scratch: took[matrix]
    )

    slope = compare_commits.Version(tmp_path, {}).slope(load, 0, tmp_path)

    assert (slope.packet_us, slope.times_real) == (pytest.approx(10.0), pytest.approx(2.0))


def test_each_version_goes_first_as_often(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    order: list[str] = []

    def slope(self: compare_commits.Version, *_: object) -> compare_commits.Slope:
        order.append(self.checkout.name)
        return compare_commits.Slope(1.0, 1.0, 1)

    monkeypatch.setattr(compare_commits.Version, "slope", slope)
    both = [compare_commits.Version(tmp_path / name, {}) for name in ("now", "before")]
    found = compare_commits.alternate(
        compare_commits.TimedLoad("", "", "", 1, 2), 0, both, 2, tmp_path
    )

    assert order == ["now", "before", "before", "now"]
    assert [len(each) for each in found] == [2, 2]


@pytest.mark.slow
def test_a_version_plans_its_own_runs_of_the_loads(tmp_path: Path) -> None:
    loads = speed.COMPARED
    mine = compare_commits.compile_version(LAB.parent, loads, tmp_path)

    assert len(mine.tasks) == 2 * len(loads)
    first = mine.tasks["long0"]["run"]
    assert first["flows"][0]["duration_s"] == loads[0].long_s
    assert first["path"]["forward"]["rate_bps"] == 1e9
    assert first["offloads"] is False and first["clock"] == "virtual"


def test_a_commit_that_is_not_there_is_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GOSTLAB_CACHE", str(tmp_path))
    with pytest.raises(RuntimeError, match="no-such-commit: git does not have it"):
        compare_commits.check_out("no-such-commit", lambda _: None)
    assert not (tmp_path / "versions" / "no-such-commit").exists()


def test_the_page_has_all_that_was_printed_and_says_little_else() -> None:
    figures = [
        BenchMetric(f"a load by its name, {n}", "µs", "≤ 1.5", [1.0, 2.0]) for n in range(14)
    ]
    text = write_docs.to_page(figures, "0.2.0", 0.0, list(speed.FURTHER))

    assert all(figure.row in text for figure in figures)
    assert "14 of 14 targets are met" in text
    others = text.replace("\n".join(figure.row for figure in figures), "")
    assert len(re.findall(r"\S*\w\S*", others)) < 140
