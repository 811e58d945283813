"""How often a quick form errs, counted on figures made up for it."""

import pytest

from analysis.judge.statistics import Summary
from analysis.judge.targets import AGREES, DISAGREES, Target
from analysis.read.study import Claim
from gostlab.apps.validate.errors import (
    Calibration,
    calibration_table,
    calibrations,
    errors_of,
    errors_table,
)


def target(value: float, name: str = "m", low: float = 90.0, high: float = 110.0) -> Target:
    claim = Claim("goodput_mbit", None, low, high)
    verdict = AGREES if low <= value <= high else DISAGREES
    got = Summary((value,), value, None)
    return Target(name, name, "goodput", claim.sentence, got, verdict, "source", "", claim)


def test_a_form_complains_if_one_of_its_targets_disagrees() -> None:
    forms = {
        1: [target(100.0), target(1.0, "other")],
        2: [target(100.0), target(100.0, "other")],
        3: [target(1.0), target(1.0, "other")],
    }

    found = errors_of("x", "is made up", forms)

    assert (found.forms, found.complained) == (3, 2)
    assert found.by_target == {"m": 1, "other": 2}
    low, high = found.interval
    assert low == pytest.approx(0.094, abs=0.001) and high == pytest.approx(0.992, abs=0.001)


def test_nothing_in_twenty_is_at_most_a_sixth() -> None:
    found = errors_of("correct", "", {number: [target(100.0)] for number in range(20)})
    assert found.interval == (0.0, pytest.approx(0.168, abs=0.001))


def test_a_band_is_four_deviations_or_eight_percent() -> None:
    wide = Calibration(target(100.0), (90.0, 100.0, 110.0), ())
    narrow = Calibration(target(100.0), (100.0, 100.0, 100.001), ())
    assert wide.band == pytest.approx((60.0, 140.0))
    assert narrow.band == pytest.approx((92.0, 108.0))


def test_the_forms_that_calibrate_do_not_judge() -> None:
    forms = {number: [target(100.0 if number < 4 else 80.0)] for number in range(1, 6)}

    [found] = calibrations(forms, 3)

    assert (len(found.calibrating), len(found.judged), found.outside) == (3, 2, 2)
    assert "| 2 |" in calibration_table([found]).to_markdown()


def test_the_table_says_which_targets_noticed() -> None:
    table = errors_table([errors_of("broken", "halves it", {1: [target(50.0)]})]).to_markdown()
    assert "halves it" in table and "m: 1" in table and "2.5 % to 100 %" in table
