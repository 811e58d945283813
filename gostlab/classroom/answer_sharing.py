"""What a student earns with another's answers beside runs of his own: how far a lab's paths tell
its students apart (labs/bands.py measures it).
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
class Copied:
    """What copied answers earn of a lab's points of one kind, over all pairs of some students."""

    mean: float
    most: int  # of any pair
    of: int


def right_answers(
    lab: CourseLab,
    names: Mapping[str, Value],
    otherwise: Callable[[Point], str] = lambda _: "",
    student: str = "",
) -> Answers:
    """What a student with these values and runs has to answer. otherwise: what stands where a
    person reads, or a formula has no value yet.
    """
    found: dict[str, dict[str, str]] = {section: {} for section in SECTIONS}
    for point in lab.points:
        if point.answer is not None:
            section, key = point.answer
            found[section][key] = right_answer(point, names) or otherwise(point)
    return Answers(student, **found)


def right_answer(point: Point, names: Mapping[str, Value]) -> str:
    """ "" where only a person, or runs that are not there, can tell."""
    if point.by_hand:
        return ""
    try:
        value = evaluate(point.expect or "", names)
    except FormulaError:
        return ""
    return f"{value:.9g}" if isinstance(value, float) else str(value)


def copied(
    lab: CourseLab, students: Sequence[Mapping[str, Value]], points: Sequence[Point] | None = None
) -> Copied:
    """Over all pairs, either way.

    students: each one's drawn and measured values, two at least. points: of these alone (default:
    all that a machine gives).
    """
    points = [each for each in lab.points if not each.by_hand] if points is None else points
    told = [right_answers(lab, each) for each in students]
    found = [
        sum(score(point, answers, copier, {}).points for point in points)
        for (copier, _), (_, answers) in permutations(zip(students, told, strict=True), 2)
    ]
    return Copied(fmean(found), max(found), sum(point.points for point in points))
