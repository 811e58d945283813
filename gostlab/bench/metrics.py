"""A figure of the benchmark: what was taken several times, what it should be, and whether it is."""

import re
import statistics
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from gostlab.cli.common import say
from gostlab.install.locate import MissingPart

# What a figure that cannot be taken raises; it costs no other figure.
FAILURES = (RuntimeError, OSError, subprocess.SubprocessError, ValueError, KeyError, MissingPart)
PASS, MISSED = "pass", "FAIL"
EQUAL = "equal"  # a target: of all values


@dataclass(frozen=True)
class Figure:
    """A line of the table: what was taken several times, or why it has no numbers."""

    name: str
    unit: str
    target: str = ""  # "≤ 0.36", "≥ 2.6", "0.85 – 1.15"; "": none
    values: Sequence[float] = ()
    failed: str = ""

    @property
    def numbers(self) -> tuple[float, float, float] | None:
        """Median, least and most."""
        if not self.values:
            return None
        return statistics.median(self.values), min(self.values), max(self.values)

    @property
    def verdict(self) -> str:
        """Whether its median meets its target; "" without either."""
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
        median, least, most = map(number, self.numbers)
        taken = f"{median} {self.unit}".strip()
        spread = f"{least} – {most}" if len(self.values) > 1 else ""
        return (
            f"| {self.name} | {taken} | {spread} | {len(self.values)} | {self.target} |"
            f" {self.verdict} |"
        )

    @property
    def words(self) -> str:
        if self.numbers is None:
            return f"not taken: {self.failed}"
        median, least, most = map(number, self.numbers)
        judged = f"; {self.target}: {self.verdict}" if self.target else ""
        return f"{median} {self.unit} ({least} – {most}{judged})"


HEAD = "| what | median | least – most | n | target | |\n|---|---|---|---|---|---|"


def meets(value: float, target: str) -> bool:
    """Whether a number is as a target asks. Raises ValueError for a target that says nothing."""
    between = re.match(r"([\d.]+) – ([\d.]+)", target)
    if between:
        return float(between[1]) <= value <= float(between[2])
    bound = re.match(r"([≤≥]) ([\d.]+)", target)
    if bound is None:
        raise ValueError(f"{target!r}: not a target (≤ 1, ≥ 1, 0.8 – 1.2)")
    return value <= float(bound[2]) if bound[1] == "≤" else value >= float(bound[2])


def number(value: float) -> str:
    """Three figures, never in powers of ten."""
    return f"{value:.3g}" if value < 1000 else f"{value:,.0f}".replace(",", " ")


def tell(text: str) -> None:
    """What the benchmark does, as it does it."""
    say(f"bench: {text}")


def failed_figure(name: str, unit: str, target: str, why: Exception) -> Figure:
    """The line of a figure that could not be taken."""
    said = " ".join(str(why).split()) or type(why).__name__
    return told(Figure(name, unit, target, failed=said))


def told(figure: Figure) -> Figure:
    """A figure that has been taken, said."""
    tell(f"{figure.name}: {figure.words}")
    return figure
