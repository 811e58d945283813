"""How often a quick form errs, counted on figures made up for it."""

import pytest

from gostlab.analysis.load.published import Claim
from gostlab.analysis.stats.published_targets import AGREES, DISAGREES, Target
from gostlab.analysis.stats.statistics import Summary
from gostlab.validation import error_rates


def target(value: float, name: str = "m") -> Target:
    claim = Claim("goodput_mbit", None, 90.0, 110.0)
    verdict = AGREES if 90.0 <= value <= 110.0 else DISAGREES
    got = Summary((value,), value, None)
    return Target(name, name, "goodput", claim.sentence, got, verdict, "source", "", claim)


def test_a_form_complains_if_one_of_its_targets_disagrees() -> None:
    forms = {
        1: [target(100.0), target(1.0, "other")],
        2: [target(100.0), target(100.0, "other")],
        3: [target(1.0), target(1.0, "other")],
    }
    row = error_rates.count_errors("x", "is made up", forms)
    assert (row["forms"], row["complained"], row["by"]) == (3, 2, "m: 1, other: 2")
    assert row["interval"] == "9.4 % to 99 %"
    table = error_rates.errors_table([row]).to_markdown()
    assert "is made up" in table and "m: 1" in table


def test_nothing_in_twenty_is_at_most_a_sixth() -> None:
    found = error_rates.count_errors(
        "correct", "", {number: [target(100.0)] for number in range(20)}
    )
    assert found["interval"] == "0 % to 17 %"


def test_a_band_is_four_deviations_or_eight_percent() -> None:
    assert error_rates.calibrate_band((90.0, 100.0, 110.0)) == pytest.approx((60.0, 140.0))
    assert error_rates.calibrate_band((100.0, 100.0, 100.001)) == pytest.approx((92.0, 108.0))


def test_the_forms_that_calibrate_do_not_judge() -> None:
    forms = {number: [target(100.0 if number < 4 else 80.0)] for number in range(1, 6)}
    [found] = error_rates.calibrations(forms, 3)
    assert (found["n"], found["judged"], found["outside"]) == (3, 2, 2)
    assert "| 2 |" in error_rates.calibration_table([found]).to_markdown()
