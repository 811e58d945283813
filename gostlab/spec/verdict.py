# SPDX-License-Identifier: MIT
"""Represent the checks of a run, each with expected and actual value, and the run's verdict.

`ok`: nothing speaks against the result. `degraded`: something other than the network and the
congestion control had an influence, which the reason names. `invalid`: the result does not answer
the question.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, TypedDict

from gostlab.spec.compatible_json import JsonObject

VERDICTS = ("ok", "degraded", "invalid")


@dataclass(frozen=True)
class Check:
    """Represent one check of a run."""

    name: str
    verdict: str  # The verdict is one of VERDICTS.
    requested: Any
    got: Any
    unit: str
    reason: str = ""


class CheckRow(TypedDict):
    """One check of a run: an entry of fidelity.json."""

    name: str
    verdict: str
    asked: object
    got: object
    unit: str
    reason: str


def worst_verdict(checks: Sequence[Check]) -> str:
    """Return the verdict of a run: that of its worst check."""
    return max((check.verdict for check in checks), key=VERDICTS.index, default="ok")


def check_json(check: Check) -> CheckRow:
    return {
        "name": check.name,
        "verdict": check.verdict,
        "asked": check.requested,
        "got": check.got,
        "unit": check.unit,
        "reason": check.reason,
    }


def checks_json(checks: Sequence[Check]) -> JsonObject:
    return {"verdict": worst_verdict(checks), "checks": [check_json(check) for check in checks]}
