# SPDX-License-Identifier: MIT
"""Write the sheets on which a person marks a class' texts, and read the marks back.

`marks.csv` has a row for each text. A mark belongs to the text beside it: if the student hands in
another text, the row is empty again.
"""

import csv
import io
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from gostlab.classroom.batch_grading import GradeRow
from gostlab.classroom.gradebooks import escape_formula, to_csv_text
from gostlab.classroom.lab import CourseLab
from gostlab.safe_read import read_named
from gostlab.spec.yaml_source import BadInput

MARKS = "marks.csv"
HEAD = ("question", "student", "points", "of", "text")
Marks = Mapping[tuple[str, str, str], int]  # points by question, student and text


def read_marks(path: Path, lab: CourseLab) -> Marks:
    """Read the marks that a person has given. Raises BadInput."""
    if not path.is_file():
        return {}
    most = {point.name: point.points for point in lab.points if point.by_hand}
    written = read_named(path).decode("utf-8-sig", "replace")
    delimiter = max(",;\t", key=written.partition("\n")[0].count)
    rows = csv.DictReader(io.StringIO(written, newline=""), delimiter=delimiter)
    marks = {}
    for row in rows:
        question, student, points, text = (row.get(name) or "" for name in HEAD if name != "of")
        if not points.strip():
            continue
        where = f"{path}:{rows.line_num}: {student}"
        if question not in most:
            raise BadInput(f"{where}: question {question!r:.40}: not one that a person reads")
        if not points.strip().isdecimal() or int(points) > most[question]:
            raise BadInput(f"{where}: points {points!r:.20}: not a number of 0 to {most[question]}")
        marks[question, student, normalize_lines(text)] = int(points)
    return marks


def normalize_lines(text: str) -> str:
    """Return a text as it is after a spreadsheet has saved it, without its kinds of line ends."""
    return str(escape_formula("\n".join(text.split("\r\n"))))


def apply_marks(line: GradeRow, marks: Marks) -> GradeRow:
    """Return a student's row with the points that a person has given."""
    if line.counts is None or line.grade is None:
        return line
    papers = tuple(
        replace(
            paper,
            points=marks.get((paper.name, line.student, normalize_lines(paper.text)), paper.points),
        )
        for paper in line.grade.by_hand
    )
    grade = replace(line.grade, by_hand=papers)
    return replace(line, counts=replace(line.counts, grade=grade))


def texts_by_question(lines: Sequence[GradeRow], lab: CourseLab) -> str:
    """Return marks.csv: question by question, everybody's text."""
    rows = [
        (paper.name, line.student, "" if paper.points is None else paper.points, paper.most, text)
        for point in lab.points
        for line in lines
        for paper in (line.grade.by_hand if line.grade else ())
        if paper.name == point.name and (text := paper.text.strip())
    ]
    return to_csv_text(HEAD, rows)
