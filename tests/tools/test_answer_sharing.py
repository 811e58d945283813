"""Copied numbers: what they earn as far as drawn values alone decide. labs/bands.md has what they
earned beside real runs.
"""

import re

import pytest

from gostlab.classroom.expressions import names_in
from gostlab.classroom.lab import CourseLab, Point, list_labs, load_lab
from gostlab.registry.folders import ROOT
from tests.classroom.handins import asked_of
from tools.answer_sharing import CopiedScore, score_copied_answers

LABS = [load_lab(str(folder)) for folder in list_labs()]
STUDENTS = 60
# Of the points of numbers that follow from drawn values alone, which copied work earns in the mean
# of all pairs. Labs 5 and 8 have none.
MAX_SHARE = 0.3


def by_drawn_values(lab: CourseLab) -> list[Point]:
    """The points whose number hangs on a drawn value and on no run."""
    return [
        point
        for point in lab.points
        if point.expect
        and point.within
        and names_in(point.expect)
        and names_in(point.expect) <= set(lab.drawn)
    ]


@pytest.mark.parametrize("lab", LABS, ids=lambda lab: lab.name)
def test_another_students_numbers_are_mostly_not_ones_own(lab: CourseLab) -> None:
    points = by_drawn_values(lab)
    if lab.number in (5, 8):
        assert points == []
        return
    students = [asked_of(lab, f"student-{number}").values for number in range(STUDENTS)]
    found = score_copied_answers(lab, students, points)
    assert found.of > 0 and found.mean <= MAX_SHARE * found.of, found


def test_beside_real_runs_copies_earn_a_third_at_most() -> None:
    """As labs/bands.py wrote it: of numbers, words and one's own runs together."""
    page = (ROOT / "labs/bands.md").read_text("utf-8")
    rows = re.findall(r"(?m)^\| (\d) \|.*\| ([\d.]+) of (\d+) \| \d+ \|$", page)
    assert [int(number) for number, _, _ in rows] == [lab.number for lab in LABS]
    for lab, (_, mean, of) in zip(LABS, rows, strict=True):
        assert int(of) == lab.most and float(mean) <= 0.35 * lab.most, lab.name


def test_ones_own_numbers_earn_everything() -> None:
    lab = load_lab("0")
    own = {**asked_of(lab).values, "goodput": 9.5, "idle_rtt": 60.0, "high_rtt": 119.0}
    own["rate_mbit"] = 10
    assert score_copied_answers(lab, [own, own]) == CopiedScore(lab.most, lab.most, lab.most)
    other = {**own, "rate_mbit": 20, "rtt_ms": 999, "goodput": 19.0}
    assert score_copied_answers(lab, [own, other]).most < lab.most / 2
