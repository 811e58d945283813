# SPDX-License-Identifier: MIT
"""Represent a metric of the benchmark: measured values, target and verdict."""

import re
import statistics
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import asdict, dataclass

from gostlab.install.locate import MissingPart

# A metric that raises one of these fails without affecting the others.
FAILURES = (RuntimeError, OSError, subprocess.SubprocessError, ValueError, KeyError, MissingPart)
PASS, MISSED = "pass", "FAIL"
HEAD = "| what | median | min – max | n | target | |\n|---|---|---|---|---|---|"


@dataclass(frozen=True)
class BenchMetric:
    """A row of the table: values measured several times, or the reason for having none."""

    name: str
    unit: str
    target: str = ""  # "≤ 0.36", "≥ 2.6", "0.85 – 1.15"; "" for none
    values: Sequence[float] = ()
    failed: str = ""

    @property
    def median(self) -> float:
        return statistics.median(self.values)

    @property
    def verdict(self) -> str:
        """Return whether the median meets the target; "" without a value or target."""
        if not self.values or not self.target:
            return ""
        return PASS if meets(self.median, self.target) else MISSED

    def to_json(self) -> dict[str, object]:
        median = self.median if self.values else None
        return {**asdict(self), "median": median, "verdict": self.verdict}

    @property
    def row(self) -> str:
        if not self.values:
            return f"| {self.name} | not taken: {self.failed} | | | {self.target} | |"
        spread = f"{format_number(min(self.values))} – {format_number(max(self.values))}"
        taken = f"{format_number(self.median)} {self.unit}".strip()
        return (
            f"| {self.name} | {taken} | {spread} | {len(self.values)} | {self.target} |"
            f" {self.verdict} |"
        )


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


def failed_metric(name: str, unit: str, target: str, why: Exception) -> BenchMetric:
    """Return the row of a metric that could not be measured."""
    message = " ".join(str(why).split()) or type(why).__name__
    return print_metric(BenchMetric(name, unit, target, failed=message))


def print_metric(metric: BenchMetric) -> BenchMetric:
    """Print a measured metric on standard error and return it."""
    print(metric.row, file=sys.stderr, flush=True)
    return metric
