"""What a student earns with another's numbers beside runs of his own: how far a lab's paths tell
its students apart (labs/bands.py measures it).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import permutations
from statistics import fmean

from gostlab.apps.course.answers import Answers
from gostlab.apps.course.formula import FormulaError, Value, evaluate
from gostlab.apps.course.grading import score
from gostlab.apps.course.lab import SECTIONS, Lab


@dataclass(frozen=True)
class Copied:
    """Points that copied work earns, over all pairs of some students."""

    pairs: int
    mean: float
    most: int
    of: int

    @property
    def words(self) -> str:
        return (
            f"Copied work earns {self.mean:.1f} of {self.of} points in the mean of {self.pairs}"
            f" pairs, {self.most} at most."
        )


def right_answers(lab: Lab, names: Mapping[str, Value]) -> Answers:
    """What a student with these values and runs has to answer."""
    found: dict[str, dict[str, str]] = {section: {} for section in SECTIONS}
    for point in lab.points:
        if point.answer is None or point.by_hand:
            continue
        section, key = point.answer
        try:
            value = evaluate(point.expect or "", names)
        except FormulaError:
            continue
        found[section][key] = f"{value:.6g}" if isinstance(value, float) else str(value)
    return Answers("", found["predictions"], found["answers"])


def copied_points(lab: Lab, source: Mapping[str, Value], copier: Mapping[str, Value]) -> int:
    """What the copier's hand-in earns with the source's right answers."""
    answers = right_answers(lab, source)
    return sum(
        score(point, answers, copier, {}).points for point in lab.points if not point.by_hand
    )


def copied(lab: Lab, students: Sequence[Mapping[str, Value]]) -> Copied:
    """Over all pairs, either way. students: each one's drawn and measured values, two at least."""
    found = [copied_points(lab, source, copier) for source, copier in permutations(students, 2)]
    return Copied(len(found), fmean(found), max(found), lab.most)
