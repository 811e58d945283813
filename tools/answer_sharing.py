"""Compute the points that copied answers earn a student who has runs of his own.

The score measures how well the paths of a lab separate its students; labs/bands.py reports it.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import permutations
from statistics import fmean

from gostlab.classroom.answers import Answers
from gostlab.classroom.expressions import FormulaError, Value, evaluate
from gostlab.classroom.grading import score
from gostlab.classroom.lab import SECTIONS, CourseLab, Point


@dataclass(frozen=True)
class CopiedScore:
    """Represent the points that copied answers earn, over all pairs of some students."""

    mean: float
    most: int  # maximum over all pairs
    of: int


def right_answers(
    lab: CourseLab,
    names: Mapping[str, Value],
    otherwise: Callable[[Point], str] = lambda _: "",
    student: str = "",
) -> Answers:
    """Return the correct answers of a student with these values and runs.

    `otherwise` gives the answer to a point which a person reads, or whose formula has no value yet.
    """
    answers: dict[str, dict[str, str]] = {section: {} for section in SECTIONS}
    for point in lab.points:
        if point.answer is not None:
            section, key = point.answer
            answers[section][key] = right_answer(point, names) or otherwise(point)
    return Answers(student, **answers)


def right_answer(point: Point, names: Mapping[str, Value]) -> str:
    """Return the correct answer to a point, or "" if it needs a person or missing runs."""
    if point.by_hand:
        return ""
    try:
        value = evaluate(point.expect or "", names)
    except FormulaError:
        return ""
    return f"{value:.9g}" if isinstance(value, float) else str(value)


def score_copied_answers(
    lab: CourseLab, students: Sequence[Mapping[str, Value]], points: Sequence[Point] | None = None
) -> CopiedScore:
    """Return the points that copied answers earn, over all ordered pairs of students.

    `students` has the drawn and measured values of each student, at least two. `points` limits the
    score to these points (default: all that are graded by machine).
    """
    points = [point for point in lab.points if not point.by_hand] if points is None else points
    sheets = [right_answers(lab, values) for values in students]
    scores = [
        sum(score(point, answers, copier, {}).points for point in points)
        for (copier, _), (_, answers) in permutations(zip(students, sheets, strict=True), 2)
    ]
    return CopiedScore(fmean(scores), max(scores), sum(point.points for point in points))
