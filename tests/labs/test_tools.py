"""The tools beside the labs, on the smallest of them: bands and figures come from real runs."""

from pathlib import Path

import pytest

from tests.lab_command import ROOT, script_here


@pytest.mark.sandbox
def test_bands_of_two_students_are_a_table_and_a_row_of_copied_work(tmp_path: Path) -> None:
    words = ("0", "--students", "2", "--results", tmp_path)
    done = script_here(ROOT / "labs/bands.py", *words)
    assert done.returncode == 0, done.stderr
    rows = [line.split(" | ") for line in done.stdout.splitlines() if line.startswith("| ")]
    named = {row[0].strip("| "): row for row in rows}
    assert {"goodput", "run-goodput", "predict-bdp, expected"} <= set(named)
    least, most = (float(named["run-goodput"][at]) for at in (1, 3))
    assert 0.85 <= least <= most <= 1
    assert max(map(len, done.stdout.splitlines())) <= 120
    assert named["0"][4].endswith(" of 18")


@pytest.mark.sandbox
def test_a_figure_is_of_the_labs_own_runs(tmp_path: Path) -> None:
    words = ("0", "--results", tmp_path / "results", "--out", tmp_path)
    done = script_here(ROOT / "labs/figures.py", *words)
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "0-warm-up.png").stat().st_size > 10_000
