# SPDX-License-Identifier: MIT
"""What several ways to answer a lab earn; labs/bands.md has what they earned beside real runs."""

import pytest

from gostlab.classroom.lab import CourseLab, list_labs, load_lab
from tests.classroom.handins import asked_of
from tools.answer_sharing import ANSWERERS, guessed_share, score_answerer

LABS = [load_lab(str(folder)) for folder in list_labs()]
STUDENTS = 60
MAX_SHARE = 0.25


@pytest.mark.parametrize("lab", LABS, ids=lambda lab: lab.name)
def test_another_students_formulas_are_mostly_not_ones_own(lab: CourseLab) -> None:
    students = [dict(asked_of(lab, f"student-{number}").values) for number in range(STUDENTS)]
    assert guessed_share(lab, students[:3], students) <= MAX_SHARE


def test_ones_own_numbers_earn_everything_and_another_runs_little() -> None:
    lab = load_lab("0")
    own = {**asked_of(lab).values, "rate_mbit": 10, "rtt_ms": 60, "idle_rtt": 60.0}
    own |= {"goodput": 9.5, "high_rtt": 119.0, "half_rtt": 89.0, "half_goodput": 9.5}
    for answerer in ANSWERERS.values():
        assert score_answerer(lab, [own], answerer).least == lab.most
    other = {**own, "rate_mbit": 20, "rtt_ms": 999, "goodput": 19.0, "high_rtt": 1990.0}
    other |= {"half_rtt": 1490.0, "idle_rtt": 999.0}
    assert guessed_share(lab, [own, other], [other]) < 0.6


def test_a_trial_is_judged_by_its_predictions_alone() -> None:
    lab = load_lab("7")
    row = {**asked_of(lab).values, "loss": 2, "rtt_ms": 36, "lost_ws": 2.3, "app_bbr": 2.3}
    score = score_answerer(lab, [row], ANSWERERS["the run"], [{"lost_ws": 2.1}, {"lost_ws": 4.0}])
    assert (score.of, score.least) == (2, 0)
    assert [line.partition(":")[0] for line in score.lost] == ["predict-loss"]
