# SPDX-License-Identifier: MIT
"""The committed table of measured students: right answerers have all points, a guess has few."""

import pytest

from gostlab.classroom.lab import CourseLab, list_labs, load_lab
from gostlab.classroom.student_assignment import assignment_in_course
from tests.lab_command import ROOT
from tools.answer_sharing import ANSWERERS, claimed_values, guessed_share, rows_of, score_answerer

FOLDER = ROOT / "labs"
# A guess needs two students at least. labs/bands.py measures a lab that is not there yet.
LABS = [lab for lab in map(load_lab, map(str, list_labs())) if len(rows_of(FOLDER, lab)) >= 2]
MAX_GUESSED_SHARE = 0.2


@pytest.mark.parametrize("answerer", ANSWERERS)
@pytest.mark.parametrize("lab", LABS, ids=lambda lab: lab.name)
def test_a_right_answerer_has_every_point(lab: CourseLab, answerer: str) -> None:
    rows = rows_of(FOLDER, lab)
    score = score_answerer(lab, rows, ANSWERERS[answerer])
    assert (score.least, score.lost) == (lab.most, ())


@pytest.mark.parametrize("lab", LABS, ids=lambda lab: lab.name)
def test_a_trial_on_ones_own_path_predicts_as_well(lab: CourseLab) -> None:
    seeds = rows_of(FOLDER, lab, "seeds")
    if seeds:
        score = score_answerer(lab, rows_of(FOLDER, lab)[:1], ANSWERERS["the run"], seeds)
        assert score.lost == ()


@pytest.mark.parametrize("lab", LABS, ids=lambda lab: lab.name)
def test_a_guess_earns_a_fifth_at_most(lab: CourseLab) -> None:
    mates = [
        assignment_in_course(lab, f"student-{number}", "bands").values for number in range(100)
    ]
    assert guessed_share(lab, rows_of(FOLDER, lab), mates) <= MAX_GUESSED_SHARE


@pytest.mark.parametrize("lab", LABS, ids=lambda lab: lab.name)
def test_every_claim_of_a_page_holds_in_every_students_runs(lab: CourseLab) -> None:
    for row in rows_of(FOLDER, lab):
        for claim in lab.claims:
            got, is_met = claimed_values(claim, row)
            assert is_met, f"{claim.says}: {got:g} of student {row['student']}"
