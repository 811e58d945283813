# SPDX-License-Identifier: MIT
"""The tools beside the labs, on the smallest of them: bands and figures come from real runs."""

import shutil
from pathlib import Path

import pytest

from gostlab.classroom.lab import CourseLab, list_labs, load_lab
from labs import minutes
from tests.lab_command import ROOT, script_here
from tools.answer_sharing import rows_of

LABS = [load_lab(str(folder)) for folder in list_labs()]


@pytest.mark.sandbox
def test_bands_of_two_students_are_kept_and_make_the_page(tmp_path: Path) -> None:
    shutil.copy(ROOT / "labs/bands.md", tmp_path)
    words = ("0", "--students", "2", "--results", tmp_path / "results", "--out", tmp_path)
    done = script_here(ROOT / "labs/bands.py", *words)
    assert done.returncode == 0, done.stderr
    lab = load_lab("0")
    assert len(rows_of(tmp_path, lab)) == 2
    assert f"| 0 | 2 | {lab.most} of {lab.most} |" in done.stdout
    assert done.stdout in (tmp_path / "bands.md").read_text("utf-8")
    assert all(claim.says in done.stdout for claim in lab.claims)


@pytest.mark.sandbox
def test_a_figure_is_of_the_labs_own_runs(tmp_path: Path) -> None:
    words = ("0", "--results", tmp_path / "results", "--out", tmp_path)
    done = script_here(ROOT / "labs/figures.py", *words)
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "0-warm-up.png").stat().st_size > 10_000


@pytest.mark.parametrize("lab", LABS, ids=lambda lab: lab.name)
def test_a_lab_takes_between_45_and_60_minutes(lab: CourseLab) -> None:
    assert minutes.MIN_MINUTES <= minutes.estimate(lab).total <= minutes.MAX_MINUTES


def test_the_table_of_minutes_is_what_the_tool_prints() -> None:
    assert f"{minutes.table(LABS)}\n" in minutes.PAGE.read_text("utf-8")
