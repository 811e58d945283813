# SPDX-License-Identifier: MIT
"""Repetitions until every cell is narrow enough: as many as needed, no more than asked."""

import json
import random
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from gostlab import results
from gostlab.analysis.stats.statistics import relative_halfwidth
from gostlab.cli import main as cli
from gostlab.spec.run_spec import RunSpec
from tests.scheduler.test_executor import GOOD, Job

EXPERIMENT = """name: narrow
title: Until it is narrow
settings: {profile: plain-100ms, duration: 5s}
matrices:
  - name: main
    settings: {buffers: bdp}
    factors: {cc: [cubic, bbr, reno]}
    until: {halfwidth: 5%, of: goodput, most: 12}
  - {name: plain, factors: {cc: [cubic]}, repetitions: 2}
"""
Answer = Callable[[RunSpec], "float | None"]


def noisy(run: RunSpec) -> float | None:
    """bbr is steady, cubic scatters a little, reno by half; the same run always says the same."""
    return 1e6 * random.Random(f"{run.cc}/{run.seed}").gauss(
        100, {"bbr": 1, "cubic": 5, "reno": 50}[run.cc]
    )


def over(folder: Path, goodput: float | None, samples: str = "") -> Job:
    """A run that is over at once: None fails, a negative goodput is invalid."""
    (folder / "queues.jsonl").write_text(samples, encoding="utf-8")
    if goodput is None:
        return Job(folder, {**GOOD, "outcome": "failed"}, polls=0)
    flow = {"kind": "tcp", "goodput_bps": abs(goodput)}
    results.write_json(folder / "flows.json", {"flows": [flow]})
    verdict = "ok" if goodput > 0 else "invalid"
    results.write_json(folder / "fidelity.json", {"verdict": verdict, "checks": []})
    return Job(folder, GOOD, polls=0)


@pytest.fixture
def lab(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., tuple[int, list[str]]]:
    """`./lab run` with a machine that answers at once: its exit code, and the runs it started."""
    from gostlab import sandbox
    from gostlab.install import locate
    from gostlab.sandbox import uml

    found = SimpleNamespace(iperf3={"3.18": None}, kernel=tmp_path)
    chosen = SimpleNamespace(name="sandbox", reason="a test")
    for module, name, answer in (
        (locate, "require_kernel", None),
        (locate, "find_parts", found),
        (sandbox, "build_parts_json", {"tunnel": None}),
        (sandbox, "visible_paths", ()),
        (sandbox, "choose_machine", chosen),
    ):
        monkeypatch.setattr(module, name, lambda *_, answer=answer, **more: answer)
    monkeypatch.setattr(sandbox, "POLL_S", 0.0)
    file = tmp_path / "narrow.yaml"

    def run(
        answer: Answer,
        *words: str,
        text: str = EXPERIMENT,
        stop_after: int = 10**6,
        folder: str = "results",
        samples: str = "",
    ) -> tuple[int, list[str]]:
        file.write_text(text)
        started: list[str] = []

        def boot_of(
            kernel: Any, described: RunSpec, *_: object, **_options: object
        ) -> SimpleNamespace:
            def boot(place: Path, _cpu: int) -> Job:
                if len(started) == stop_after:
                    raise KeyboardInterrupt
                started.append(described.name)
                return over(place, answer(described), samples)

            return SimpleNamespace(write_parts=lambda *_: None, boot=boot, can_wait=False)

        monkeypatch.setattr(uml, "run_boot", boot_of)
        where = ["--results", str(tmp_path / folder), "--jobs", "1"]
        return cli.main(["run", str(file), *where, *words]), started

    return run


def per_cc(started: list[str]) -> Counter[str]:
    return Counter(name.split("-")[1] for name in started if name.startswith("main-"))


def test_each_cell_is_repeated_until_it_is_narrow_or_there_are_most(
    lab: Callable, capsys: pytest.CaptureFixture[str]
) -> None:
    status, started = lab(noisy)

    count = per_cc(started)
    assert status == 0 and len(started) == len(set(started))
    assert count["bbr"] == 6 and 6 < count["cubic"] < 12 and count["reno"] == 12
    assert sum(name.startswith("plain-") for name in started) == 2
    said = capsys.readouterr()
    last = said.out.splitlines()[-2]
    assert last.startswith("not narrow enough after 12: main-reno-") and last.endswith(" %")
    assert "round 2, of cells that are not narrow enough: 2 runs to do" in said.err


def test_where_it_stops_is_where_the_interval_first_is_narrow(lab: Callable) -> None:
    count = per_cc(lab(noisy)[1])["cubic"]

    seeds = range(1001, 1001 + count)
    values = [random.Random(f"cubic/{seed}").gauss(100, 5) for seed in seeds]
    widths = [relative_halfwidth(values[:n]) for n in range(6, count + 1)]
    assert widths[-1] is not None and widths[-1] <= 0.05
    assert all(width is not None and width > 0.05 for width in widths[:-1])


def test_repetitions_are_the_outer_loop(lab: Callable) -> None:
    numbers = [int(name.rsplit("-r", 1)[1].split("-")[0]) for name in lab(noisy)[1]]
    assert numbers == sorted(numbers)


@pytest.mark.slow
def test_an_interrupted_matrix_ends_with_the_same_runs(lab: Callable) -> None:
    undisturbed = lab(noisy)[1]

    for stop_after in (0, 3, 19, 21, 25):
        folder = f"disturbed-{stop_after}"
        status, before = lab(noisy, stop_after=stop_after, folder=folder)
        assert status == 130
        after = lab(noisy, folder=folder)[1]

        assert before + after == undisturbed
        assert lab(noisy, folder=folder) == (0, [])


def test_invalid_runs_do_not_count(lab: Callable) -> None:
    def spoilt(run: RunSpec) -> float | None:
        return -1e6 if run.cc == "bbr" and run.repetition in (2, 5) else 1e8

    status, started = lab(spoilt)

    assert status == 3
    assert per_cc(started) == {"bbr": 8, "cubic": 6, "reno": 6}


@pytest.mark.slow
def test_failures_do_not_go_on_for_ever(lab: Callable, capsys: pytest.CaptureFixture[str]) -> None:
    def broken(run: RunSpec) -> float | None:
        return None if run.cc == "bbr" or (run.cc == "reno" and run.repetition > 1) else 1e8

    assert per_cc(lab(broken)[1]) == {"bbr": 6, "cubic": 6, "reno": 12}
    out = capsys.readouterr().out.splitlines()[:-1]
    for line, begin, end in (
        (out[-2], "not narrow enough after 6: main-bbr-", " (0 of its runs count)"),
        (out[-1], "not narrow enough after 12: main-reno-", " (1 of its runs count)"),
    ):
        assert line.startswith(begin) and line.endswith(end)
    assert lab(broken)[1] == []
    assert per_cc(lab(lambda run: 1e8, "--retry-failed")[1]) == {"bbr": 6, "reno": 5}


def test_a_cell_of_copies_is_repeated_no_more_than_least(
    lab: Callable, capsys: pytest.CaptureFixture[str]
) -> None:
    """They agree to the bit, and say nothing: it is not narrow."""
    assert per_cc(lab(lambda run: 1e8, samples='{"t_s": 1.0}\n')[1]) == {
        "bbr": 6,
        "cubic": 6,
        "reno": 6,
    }
    assert "not narrow enough after 6: main-bbr-" in capsys.readouterr().out


def test_least_is_what_must_count_before_a_cell_is_judged(lab: Callable) -> None:
    text = EXPERIMENT.replace("most: 12}", "most: 12, least: 9}\n    repetitions: 6")
    assert per_cc(lab(lambda run: 1e8, text=text)[1]) == {"bbr": 9, "cubic": 9, "reno": 9}


def test_what_is_too_wide_is_in_the_json(lab: Callable, capsys: pytest.CaptureFixture[str]) -> None:
    lab(noisy, "--json")

    said = capsys.readouterr()
    [cell] = json.loads(said.out)["not_narrow_enough"]
    assert cell["cell"].startswith("main-reno-") and cell["halfwidth"] > 0.05
    assert cell["repetitions"] == cell["runs_that_count"] == 12
    assert said.err == ""
    assert [warning["name"] for warning in json.loads(said.out)["guards"]] == []


def test_a_cell_in_two_states_is_repeated_to_the_end_and_told_by_state(
    lab: Callable, capsys: pytest.CaptureFixture[str]
) -> None:
    def two_states(run: RunSpec) -> float:
        return (570e6 if run.repetition % 3 == 0 else 180e6) + 1e5 * run.repetition

    assert set(per_cc(lab(two_states)[1]).values()) == {12}
    out = capsys.readouterr().out
    assert "in 2 states after 12: main-bbr-" in out
    assert "181 Mbit/s (8 of 12) or 571 Mbit/s (4 of 12)" in out
    assert "181 (8 of 12) or 571 (4 of 12)" in " ".join(out.split())


def test_a_dry_run_lists_the_first_block_and_says_so(
    lab: Callable, capsys: pytest.CaptureFixture[str]
) -> None:
    status, started = lab(noisy, "--dry-run")

    said = capsys.readouterr()
    assert (status, started) == (0, [])
    assert len(said.out.split()) == 3 * 6 + 2
    assert "main: this is the first block; there may be more" in said.err
    assert "12 repetitions at most" in said.err


def test_one_matrix_alone_is_repeated_alone(lab: Callable) -> None:
    assert len(lab(noisy, "--matrix", "plain")[1]) == 2
    main = lab(noisy, "--matrix", "main", folder="other")[1]
    assert not any(name.startswith("plain") for name in main)


def test_the_half_width_of_the_edges() -> None:
    assert relative_halfwidth([1.0] * 5) is None
    assert relative_halfwidth([7.0] * 6) == 0.0 == relative_halfwidth([0.0] * 6)
    # Hahn & Meeker: n = 10 takes x(2)..x(9).
    assert relative_halfwidth(range(1, 11)) == pytest.approx((9 - 2) / 2 / 5.5)
    assert relative_halfwidth([-1.0, -1.0, 0.0, 0.0, 1.0, 1.0]) == float("inf")
