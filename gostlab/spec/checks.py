"""What was looked at in a run, each with what was asked and what was got, and the one verdict.

`ok`: nothing speaks against the number. `degraded`: something other than the network and the
congestion control had a say, and the reason says what. `invalid`: the number is not an answer to
the question.
"""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

VERDICTS = ("ok", "degraded", "invalid")


@dataclass(frozen=True)
class Check:
    """One thing that was looked at."""

    name: str
    verdict: str  # one of VERDICTS
    asked: Any
    got: Any
    unit: str
    reason: str = ""


def worst(checks: Sequence[Check]) -> str:
    """The verdict of a run: that of its worst check."""
    return max((check.verdict for check in checks), key=VERDICTS.index, default="ok")


def report(checks: Sequence[Check]) -> dict[str, Any]:
    return {"verdict": worst(checks), "checks": [asdict(check) for check in checks]}
