# SPDX-License-Identifier: MIT
"""Two results folders: what got better, what worse, and when nobody can say."""

import json
import math
from pathlib import Path
from typing import Any

import pytest
import synthetic

from gostlab.analysis.load.runs import load_results
from gostlab.analysis.stats.cells import to_matrices
from gostlab.analysis.stats.compare_results import (
    MetricChange,
    ResultChanges,
    compare_runs,
    to_table,
)
from gostlab.cli import main
from gostlab.errors import BadInput


def write(results: Path, cc: str, *goodputs: float, seed: int = 0, **more: Any) -> None:
    for repetition, goodput in enumerate(goodputs, 1):
        run = synthetic.cell(cc, 16, repetition=repetition) | {"seed": seed + repetition}
        name = f"{cc}-{seed}-{repetition}"
        synthetic.write_run(results, run, goodput_mbit=goodput, name=name, **more)


def compared(tmp_path: Path, threshold: float = 0.05) -> ResultChanges:
    loaded = [to_matrices(load_results(tmp_path / name, "made-up").runs) for name in ("old", "new")]
    return compare_runs(loaded[0], loaded[1], threshold)


def goodput(found: ResultChanges, cc: str = "BBR") -> MetricChange:
    rows = [row for row in found.rows if row.figure == "goodput (Mbit/s)" and cc in row.cell]
    assert len(rows) == 1
    return rows[0]


def both(
    tmp_path: Path, old: tuple[float, ...], new: tuple[float, ...], **more: Any
) -> ResultChanges:
    write(tmp_path / "old", "bbr", *old)
    write(tmp_path / "new", "bbr", *new, **more)
    return compared(tmp_path)


@pytest.mark.parametrize(
    ("old", "new", "verdict"),
    [
        ((100.0,), (80.0,), "worse"),
        ((100.0,), (120.0,), "better"),
        ((100.0,), (90.0,), "unsure"),
        ((100.0,) * 6, (90.0,) * 6, "worse"),
        ((100.0,), (97.0,), "same"),
        ((100.0, 100.0, 100.0), (80.0, 85.0, 110.0), "unsure"),
        ((100.0,) * 6, (80.0, 81.0, 82.0, 83.0, 84.0, 85.0), "worse"),
        ((100.0,) * 6, (80.0, 81.0, 82.0, 83.0, 84.0, 150.0), "unsure"),
    ],
)
def test_a_change_is_one_that_all_pairs_or_the_interval_agree_on(
    old: tuple[float, ...], new: tuple[float, ...], verdict: str, tmp_path: Path
) -> None:
    found = both(tmp_path, old, new)
    row = goodput(found)
    assert row.verdict == verdict and row.n == len(old)
    assert found.regressed == (verdict == "worse")
    assert (row.low is None) == (len(old) < 6 or len(set(new)) == 1)


def test_runs_of_one_seed_are_compared_with_each_other(tmp_path: Path) -> None:
    # the seeds lie far apart, and every one of them lost a half
    found = both(tmp_path, (10.0, 100.0, 1000.0), (5.0, 50.0, 500.0))
    assert goodput(found).times == pytest.approx(0.5) and found.regressed


@pytest.mark.parametrize(("second", "verdict"), [(60.0, "unsure"), (95.0, "worse")])
def test_runs_of_other_seeds_decide_only_if_they_lie_apart(
    second: float, verdict: str, tmp_path: Path
) -> None:
    assert goodput(both(tmp_path, (100.0, second), (70.0, 65.0), seed=50)).verdict == verdict


def test_a_cell_whose_runs_count_no_more_is_a_regression(tmp_path: Path) -> None:
    found = both(tmp_path, (100.0,), (100.0,), verdict="invalid")
    assert found.lost == ("main: 16 streams, gost+ws, BBR",) and found.regressed


def test_cells_that_only_one_has_are_named_and_are_no_regression(tmp_path: Path) -> None:
    write(tmp_path / "old", "reno", 10.0)
    write(tmp_path / "new", "cubic", 10.0)
    found = both(tmp_path, (100.0,), (100.0,))
    assert found.only_before == ("main: 16 streams, gost+ws, Reno",)
    assert found.only_after == ("main: 16 streams, gost+ws, CUBIC",)
    assert not found.regressed and not found.program_changes


def write_version(results: Path, version: str, goodput_mbit: float) -> None:
    """A run with a congestion control of the user's own, of that version."""
    run = synthetic.cell("mine", 16) | {"own_cc": {"mine": version}}
    synthetic.write_run(results, run, goodput_mbit=goodput_mbit, name=f"mine-{version}")


def test_a_changed_source_is_compared_with_its_old_version_also_in_one_folder(
    tmp_path: Path,
) -> None:
    write_version(tmp_path / "old", "aa11", 100.0)
    write_version(tmp_path / "new", "aa11", 100.0)
    write_version(tmp_path / "new", "bb22", 70.0)

    found = compared(tmp_path)

    assert goodput(found, "mine").verdict == "worse"
    assert "own_cc.mine: aa11 before, bb22 after" in found.program_changes
    assert not found.only_before and not found.only_after


@pytest.mark.parametrize(("old", "new"), [("ab", "ab"), ("ab", "c"), ("a", "abc")])
def test_which_of_several_versions_is_meant_is_not_guessed(
    old: str, new: str, tmp_path: Path
) -> None:
    for folder, versions in (("old", old), ("new", new)):
        for version in versions:
            write_version(tmp_path / folder, version * 4, 100.0)

    with pytest.raises(BadInput, match=r"nothing says which to compare.*mine aaaa; mine bbbb"):
        compared(tmp_path)


def test_a_variant_is_compared_with_the_one_of_its_own_settings_alone(tmp_path: Path) -> None:
    write(tmp_path / "old", "bbr", 100.0)
    for duration_s, goodput_mbit in ((30.0, 100.0), (10.0, 50.0)):
        run = synthetic.cell("bbr", 16, duration_s=duration_s) | {"seed": 1}
        name = f"bbr-{duration_s:g}"
        synthetic.write_run(tmp_path / "new", run, goodput_mbit=goodput_mbit, name=name)

    found = compared(tmp_path)

    assert goodput(found).verdict == "same" and not found.program_changes
    assert found.only_after == ("main: 16 streams, gost+ws, BBR (duration 10 s)",)


def test_what_made_them_is_compared(tmp_path: Path) -> None:
    tunnel = {"kind": "gost", "version": "9", "path": "/x", "sha256": "ab" * 32}
    found = both(tmp_path, (100.0,), (100.0,), env={"tunnel": tunnel})
    assert len(found.program_changes) == 1 and "ab" * 8 in found.program_changes[0]


def test_the_table_has_the_worse_first_and_counts_the_rest(tmp_path: Path) -> None:
    write(tmp_path / "old", "cubic", 100.0)
    write(tmp_path / "new", "cubic", 200.0)
    table = to_table(both(tmp_path, (100.0,), (50.0,)))
    verdicts = [row["verdict"] for row in table.rows]
    assert verdicts == sorted(verdicts, key=("worse", "better").index)
    assert table.rows[0]["show_as"] == "100 → 50" and "of 2 cells" in table.note
    assert [row["cell"].split(", ")[-1] for row in table.rows] == ["BBR", "CUBIC"]
    times = next(column for column in table.columns if column.key == "times")
    assert [times.show(row["times"]) for row in table.rows] == ["0.50", "2.00"]
    assert times.show(math.inf) == "from none"


@pytest.mark.parametrize(("new", "status"), [(100.0, 0), (50.0, 1)])
def test_the_command_s_exit_code_is_the_answer(
    new: float, status: int, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    both(tmp_path, (100.0,), (new,))
    folders = [str(tmp_path / name / "made-up") for name in ("old", "new")]

    assert main.main(["compare", *folders, "--json"]) == status
    assert json.loads(capsys.readouterr().out)["regressed"] == bool(status)
    assert main.main(["compare", *folders]) == status
    assert ("worse" in capsys.readouterr().out) == bool(status)


@pytest.mark.parametrize("words", [["nowhere", "."], ["EMPTY", "EMPTY"], ["OLD", "OTHER"]])
def test_bad_folders_are_one_line_and_exit_code_2(
    words: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write(tmp_path / "old", "bbr", 1.0)
    write(tmp_path / "other", "reno", 1.0)
    (tmp_path / "empty").mkdir()
    places = {"EMPTY": tmp_path / "empty", "OLD": tmp_path / "old/made-up"}
    places["OTHER"] = tmp_path / "other/made-up"
    assert main.main(["compare", *(str(places.get(word, word)) for word in words)]) == 2
    told = capsys.readouterr().err
    assert len(told.splitlines()) == 1 and told.startswith("gostlab: ")


def test_copies_are_one_pair(tmp_path: Path) -> None:
    for name, rate in (("old", 100.0), ("new", 80.0)):
        for repetition in range(1, 7):
            run = synthetic.cell("bbr", 16, repetition=repetition) | {"seed": 1}
            synthetic.write_run(tmp_path / name, run, goodput_mbit=rate, name=f"r{repetition}")
    row = goodput(compared(tmp_path))
    assert (row.n, row.low, row.high) == (1, None, None)
