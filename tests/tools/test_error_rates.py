# SPDX-License-Identifier: MIT
"""How often a quick form errs, on made-up values; and every faulty lab makes other runs."""

import pytest

from gostlab.analysis.load.study import PublishedClaim
from gostlab.analysis.stats.published_targets import AGREES, DISAGREES, TargetComparison
from gostlab.analysis.stats.statistics import Summary
from gostlab.spec.expand import expand
from gostlab.spec.experiment import load_experiment
from tools import error_rates
from tools.error_rates import FAULTS, Fault, faulty_runs

QUICK = expand(load_experiment("validation"), quick=True)


def target(value: float, name: str = "m") -> TargetComparison:
    claim = PublishedClaim("goodput_mbit", None, 90.0, 110.0)
    verdict = AGREES if 90.0 <= value <= 110.0 else DISAGREES
    got = Summary((value,), value, None)
    return TargetComparison(
        name, name, "goodput", claim.sentence, got, verdict, "source", "", claim
    )


def test_a_form_disagrees_if_one_of_its_targets_does() -> None:
    forms = {
        1: [target(100.0), target(1.0, "other")],
        2: [target(100.0), target(100.0, "other")],
        3: [target(1.0), target(1.0, "other")],
    }
    row = error_rates.error_row("x", "is made up", forms)
    assert row == "| x | is made up | 3 | 2 | 9.4 % to 99 % | m: 1, other: 2 |"
    none_of_twenty = {number: [target(100.0)] for number in range(20)}
    assert "0 % to 17 %" in error_rates.error_row("correct", "", none_of_twenty)


def test_a_band_is_four_deviations_or_eight_percent() -> None:
    assert error_rates.calibrate_band((90.0, 100.0, 110.0)) == pytest.approx((60.0, 140.0))
    assert error_rates.calibrate_band((100.0, 100.0, 100.001)) == pytest.approx((92.0, 108.0))
    forms = {number: [target(100.0 if number < 4 else 80.0)] for number in range(1, 6)}
    [row] = error_rates.calibration_rows(forms, 3)
    assert row.startswith("| m | 3 | 100 | 0 % | 92 to 108 |")


@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.name)
def test_a_faulty_lab_makes_another_run_of_the_same_cell_and_seed(fault: Fault) -> None:
    assert any(fault.change(run) != run for run in QUICK)
    for run in QUICK:
        done = fault.change(run)
        assert (done.matrix, done.factors, done.seed) == (run.matrix, run.factors, run.seed)


def test_faulty_runs_are_those_that_differ_of_the_first_repetitions() -> None:
    runs = faulty_runs(QUICK, 1)
    assert {run.experiment for run in runs} == {fault.experiment for fault in FAULTS}
    assert len({(run.experiment, run.name) for run in runs}) == len(runs)
    assert faulty_runs(QUICK, 0) == []
