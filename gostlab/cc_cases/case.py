# SPDX-License-Identifier: MIT
"""Represent test cases of a congestion control, and what they found.

A case is a run or a scenario, and checks: values with the bounds that a document sets.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

PASSED, FAILED, NOT_APPLICABLE = "passed", "failed", "not applicable"
DRAFT = "draft-ietf-ccwg-bbr-06"


Evaluate = Callable[..., Iterator["BoundCheck | Condition"]]
Declare = Callable[[Evaluate], Evaluate]


class NeverHappened(Exception):
    """Report that what a case is about did not happen: the case fails."""


def upper_median(
    values: Sequence[float], what: str = "ACK in the part of the scenario that the case is about"
) -> float:
    """Return the upper median. Raises NeverHappened without values."""
    if not values:
        raise NeverHappened(f"no {what}")
    return sorted(values)[len(values) // 2]


class NotShown(Exception):
    """Report that a congestion control does not show what a case needs: it is not applicable."""


@dataclass(frozen=True)
class CaseFinding:
    """Represent a value and its bound as text, and whether the value is within it."""

    value: str
    bound: str
    passed: bool


@dataclass(frozen=True)
class BoundCheck:
    """Represent a value with its bounds, which are inclusive."""

    label: str
    value: float
    low: float = -math.inf
    high: float = math.inf
    unit: str = ""

    @property
    def finding(self) -> CaseFinding:
        is_met = self.low <= self.value <= self.high
        return CaseFinding(
            f"{self.label}: {format_with_unit(self.value, self.unit)}", self.bound, is_met
        )

    @property
    def bound(self) -> str:
        if self.low == self.high:
            return f"= {format_with_unit(self.low, self.unit)}"
        if self.high == math.inf:
            return f"≥ {format_with_unit(self.low, self.unit)}"
        if self.low == -math.inf:
            return f"≤ {format_with_unit(self.high, self.unit)}"
        return f"{format_number(self.low)} to {format_with_unit(self.high, self.unit)}"


@dataclass(frozen=True)
class Condition:
    """Represent what must hold."""

    label: str
    is_met: bool

    @property
    def finding(self) -> CaseFinding:
        return CaseFinding(f"{self.label}: {'yes' if self.is_met else 'no'}", "yes", self.is_met)


def format_number(value: float) -> str:
    """Format a number with four significant digits, without an exponent below a million."""
    rounded = float(f"{value:.4g}")
    return f"{rounded:,.0f}" if abs(rounded) >= 1000 else f"{rounded:g}"


def format_with_unit(value: float, unit: str) -> str:
    return f"{format_number(value)} {unit}".strip()


def check_condition(label: str, is_met: object) -> Condition:
    return Condition(label, bool(is_met))


def check_near(
    label: str, value: float, expected: float, share: float, unit: str = ""
) -> BoundCheck:
    """Return a check of a value within a share of the expected one."""
    width = abs(expected) * share
    return BoundCheck(label, value, expected - width, expected + width, unit)


@dataclass(frozen=True)
class CaseOutcome:
    """Represent what a case found. There are no findings if it could not be evaluated."""

    state: str
    findings: tuple[CaseFinding, ...] = ()
    reason: str = ""

    @classmethod
    def of(cls, evaluate: Callable[[], Iterable[BoundCheck | Condition]]) -> CaseOutcome:
        findings: list[CaseFinding] = []
        try:
            findings.extend(check.finding for check in evaluate())
        except NeverHappened as never:
            return cls(FAILED, tuple(findings), str(never))
        except NotShown as missing:
            return cls(NOT_APPLICABLE, (), str(missing))
        return cls.judged(findings)

    @classmethod
    def judged(cls, findings: Iterable[CaseFinding]) -> CaseOutcome:
        findings = tuple(findings)
        return cls(PASSED if all(finding.passed for finding in findings) else FAILED, findings)

    @property
    def decisive_finding(self) -> CaseFinding | None:
        """Return the first finding that failed, or else the first."""
        failed = [finding for finding in self.findings if not finding.passed]
        return next(iter((*failed, *self.findings)), None)


@dataclass(frozen=True)
class Case:
    """Represent a test case."""

    name: str  # bbr-a1, rfc9743-fairness
    title: str
    source: str  # document and section
    run: str  # name of the scenario or matrix that it evaluates
    standard: str  # the document that a control must claim; "" for every control


@dataclass(frozen=True)
class CaseResult:
    """Represent a case of one congestion control, with its picture."""

    case: Case
    outcome: CaseOutcome
    seconds: float = 0.0  # wall-clock time of its runs; 0 if they were there
    folders: tuple[Path, ...] = ()
    picture: Path | None = None

    @property
    def value(self) -> str:
        """Return the telling value, or why there is none."""
        telling = self.outcome.decisive_finding
        return self.outcome.reason or (telling.value if telling else "")

    @property
    def bound(self) -> str:
        telling = self.outcome.decisive_finding
        return telling.bound if telling and not self.outcome.reason else ""

    def to_json(self) -> dict[str, object]:
        return {
            "case": self.case.name,
            "title": self.case.title,
            "source": self.case.source,
            "state": self.outcome.state,
            "value": self.value,
            "bound": self.bound,
            "findings": [vars(finding) for finding in self.outcome.findings],
            "seconds": round(self.seconds, 2),
            "picture": self.picture and str(self.picture),
            "folders": [str(folder) for folder in self.folders],
        }


@dataclass
class Evaluators:
    """Collect functions that evaluate cases, by the case's name."""

    cases: dict[str, Case] = field(default_factory=dict)
    functions: dict[str, Evaluate] = field(default_factory=dict)

    def case(self, name: str, title: str, source: str, run: str, standard: str) -> Declare:
        """Return a decorator that declares a case with the function that yields its checks."""

        def declare(function: Evaluate) -> Evaluate:
            self.cases[name] = Case(name, title, source, run, standard)
            self.functions[name] = function
            return function

        return declare
