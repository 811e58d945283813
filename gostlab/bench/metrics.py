"""Represent a metric of the benchmark: measured values, target and verdict."""

import re
import statistics
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from gostlab.cli.common import say
from gostlab.install.locate import MissingPart

# A metric that raises one of these fails without affecting the others.
FAILURES = (RuntimeError, OSError, subprocess.SubprocessError, ValueError, KeyError, MissingPart)
PASS, MISSED = "pass", "FAIL"
EQUAL = "equal"  # target: all values are equal


@dataclass(frozen=True)
class BenchMetric:
    """A row of the table: values measured several times, or the reason for having none."""

    name: str
    unit: str
    target: str = ""  # "≤ 0.36", "≥ 2.6", "0.85 – 1.15"; "" for none
    values: Sequence[float] = ()
    failed: str = ""

    @property
    def numbers(self) -> tuple[float, float, float] | None:
        """Return median, minimum and maximum."""
        if not self.values:
            return None
        return statistics.median(self.values), min(self.values), max(self.values)

    @property
    def verdict(self) -> str:
        """Return whether the median meets the target; "" without a value or target."""
        if self.numbers is None or not self.target:
            return ""
        median, least, most = self.numbers
        is_met = least == most if self.target == EQUAL else meets(median, self.target)
        return PASS if is_met else MISSED

    def to_json(self) -> dict[str, Any]:
        median, least, most = self.numbers or (None, None, None)
        return {
            "name": self.name,
            "n": len(self.values),
            "median": median,
            "least": least,
            "most": most,
            "unit": self.unit,
            "target": self.target,
            "verdict": self.verdict,
            "failed": self.failed,
        }

    @property
    def row(self) -> str:
        if self.numbers is None:
            return f"| {self.name} | not taken: {self.failed} | | | {self.target} | |"
        median, least, most = map(format_number, self.numbers)
        taken = f"{median} {self.unit}".strip()
        spread = f"{least} – {most}" if len(self.values) > 1 else ""
        return (
            f"| {self.name} | {taken} | {spread} | {len(self.values)} | {self.target} |"
            f" {self.verdict} |"
        )

    @property
    def text(self) -> str:
        if self.numbers is None:
            return f"not taken: {self.failed}"
        median, least, most = map(format_number, self.numbers)
        judged = f"; {self.target}: {self.verdict}" if self.target else ""
        return f"{median} {self.unit} ({least} – {most}{judged})"


HEAD = "| what | median | least – most | n | target | |\n|---|---|---|---|---|---|"


def meets(value: float, target: str) -> bool:
    """Return whether a value meets a target. Raises ValueError for an invalid target."""
    between = re.match(r"([\d.]+) – ([\d.]+)", target)
    if between:
        return float(between[1]) <= value <= float(between[2])
    bound = re.match(r"([≤≥]) ([\d.]+)", target)
    if bound is None:
        raise ValueError(f"{target!r}: not a target (≤ 1, ≥ 1, 0.8 – 1.2)")
    return value <= float(bound[2]) if bound[1] == "≤" else value >= float(bound[2])


def format_number(value: float) -> str:
    """Format a value with three significant digits and without an exponent."""
    return f"{value:.3g}" if value < 1000 else f"{value:,.0f}".replace(",", " ")


def print_progress(text: str) -> None:
    """Print the progress of the benchmark."""
    say(f"bench: {text}")


def failed_metric(name: str, unit: str, target: str, why: Exception) -> BenchMetric:
    """Return the row of a metric that could not be measured."""
    message = " ".join(str(why).split()) or type(why).__name__
    return print_metric(BenchMetric(name, unit, target, failed=message))


def print_metric(metric: BenchMetric) -> BenchMetric:
    """Print a measured metric and return it."""
    print_progress(f"{metric.name}: {metric.text}")
    return metric
