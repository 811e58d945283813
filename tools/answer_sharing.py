# SPDX-License-Identifier: MIT
"""Compute the points that several ways to answer a lab earn a student who has runs of their own.

The scores tell whether each right answerer has all points, and how well the paths of a lab separate
its students; labs/bands.py reports them.
"""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean

from gostlab.classroom.answers import Answers
from gostlab.classroom.expressions import FormulaError, Value, evaluate
from gostlab.classroom.grading import evaluate_number, score
from gostlab.classroom.lab import SECTIONS, CourseLab, PageClaim, Point

Row = dict[str, Value]  # drawn and measured values by name
Answerer = Callable[[Point], str | None]
# The formula by which each answers a point. `also` has the run's own value first, then the
# textbook's formulas.
ANSWERERS: Mapping[str, Answerer] = {
    "the run": lambda point: point.also[0] if point.also else point.expect,
    "the page's formula": lambda point: point.expect,
    "another formula": lambda point: (point.also[1:] or (point.expect,))[0],
}
TABLE = "bands.json"


def read_table(folder: Path) -> dict[str, dict[str, list[Row]]]:
    """Return each lab's rows of students, and of other seeds of the first one."""
    path = folder / TABLE
    return json.loads(path.read_text("utf-8")) if path.is_file() else {}


def rows_of(folder: Path, lab: CourseLab, of: str = "students") -> list[Row]:
    """Return the rows of a lab that are of its present draws and metrics."""
    rows = read_table(folder).get(lab.name, {}).get(of, [])
    needed = set(lab.measured) if of == "students" else set()
    return [
        row
        for row in rows
        if needed <= set(row) and all(row.get(name) in levels for name, levels in lab.drawn.items())
    ]


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


def guessed_share(
    lab: CourseLab, students: Sequence[Row], classmates: Sequence[Mapping[str, Value]]
) -> float:
    """Return the mean share of the grader's points that another student's right answers earn.

    `students` have drawn and measured values; `classmates` may have drawn ones alone. An answer
    that runs alone tell is taken from the other students.
    """
    points = [point for point in lab.points if point.answer and not point.by_hand]
    earned = 0.0
    for point in points:
        shares = []
        for student in students:
            others = [other for other in students if other is not student]
            given = [right_answer(point, mate) for mate in classmates]
            guesses = list(filter(None, given)) or [right_answer(point, other) for other in others]
            passed = [is_passed(point, guess, student) for guess in guesses]
            shares.append(fmean(passed) if passed else 0.0)
        earned += point.points * fmean(shares)
    return earned / lab.most


def is_passed(point: Point, text: str, row: Mapping[str, Value]) -> bool:
    """Return whether an answer earns its points from a student with these values and runs."""
    section, key = point.answer or ("", "")
    given: dict[str, dict[str, str]] = {name: {} for name in SECTIONS}
    given[section][key] = text
    return score(point, Answers("", **given), row, {}).passed


@dataclass(frozen=True)
class AnswererScore:
    """Represent the points that one way to answer earns."""

    least: float  # minimum over the students
    of: int
    lost: tuple[str, ...]  # points that somebody lost


def score_answerer(
    lab: CourseLab, students: Sequence[Row], answerer: Answerer, pilots: Sequence[Row] | None = None
) -> AnswererScore:
    """Return the points of students who answer every point by a formula.

    With `pilots`, runs of other seeds of one student, that student answers from each of them; only
    the points whose formula these runs can answer are scored.
    """
    earned, lost, of = [], [], 0
    for row in students:
        for source in pilots or [row]:
            points, of = 0, 0
            for point in lab.points:
                if point.by_hand or not (point.is_prediction if pilots else point.answer):
                    continue
                try:
                    value = evaluate(answerer(point) or "", source)
                except FormulaError:
                    continue
                text = f"{value:.4g}" if isinstance(value, float) else str(value)
                of += point.points
                if is_passed(point, text, row):
                    points += point.points
                else:
                    lost.append(f"{point.name}: {text} of {source}")
            earned.append(points)
    return AnswererScore(min(earned), of, tuple(lost))


def claimed_values(claim: PageClaim, row: Mapping[str, Value]) -> tuple[float, bool]:
    """Return a claim's value in a student's runs, and whether it holds. Raises FormulaError."""
    got = evaluate_number(claim.got, row)
    is_met = (claim.least is None or got >= evaluate_number(claim.least, row)) and (
        claim.most is None or got <= evaluate_number(claim.most, row)
    )
    return got, is_met
