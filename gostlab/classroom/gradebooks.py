# SPDX-License-Identifier: MIT
"""Write the points of a class as CSV files for Moodle, Canvas, Gradescope and spreadsheets.

- Moodle: Grades, Import, CSV file (docs.moodle.org, "Grade import"): users are mapped by email
    address or ID number, and the columns of grade and feedback are to be mapped together, as a file
    without one of them empties it.
- Canvas: Grades, Import (canvas-lms, lib/gradebook_importer.rb): the columns Student, ID, SIS User
    ID, SIS Login ID and Section, then one named as the assignment; a row of points possible.
- Gradescope imports no CSV of scores (use `--format gradescope` in an autograder). The
    file has the columns of its "Download Grades", as public scripts that read those expect them.

A hand-in that is missing, or could not be graded, has an empty cell and no zero: a person decides.
"""

import csv
import io
from collections.abc import Callable, Mapping, Sequence

from gostlab.classroom.batch_grading import GradeRow
from gostlab.classroom.feedback import point_sentences
from gostlab.classroom.grading import Grade
from gostlab.classroom.lab import CourseLab
from gostlab.classroom.roster import Student

Row = Sequence[object]


def to_csv_text(head: Row, rows: Sequence[Row]) -> str:
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\r\n")  # line ends of RFC 4180
    writer.writerow(head)
    writer.writerows([[escape_formula(cell) for cell in row] for row in rows])
    return text.getvalue()


def escape_formula(cell: object) -> object:
    """Quote a cell that a spreadsheet would execute as a formula."""
    if isinstance(cell, str) and cell[:1] in ("=", "+", "-", "@", "\t", "\r"):
        return "'" + cell
    return cell


def points(line: GradeRow) -> object:
    return line.grade.points if line.grade else ""


def points_by_point(line: GradeRow, lab: CourseLab) -> list[object]:
    """Return the points earned on each point, in the lab's order; "" where still to be marked."""
    earned: dict[str, object] = {}
    if line.grade:
        earned = {point.name: point.points for point in line.grade.scored}
        papers = (paper for paper in line.grade.by_hand if paper.points is not None)
        earned |= {paper.name: paper.points for paper in papers}
    return [earned.get(point.name, "") for point in lab.points]


def to_moodle(lines: Sequence[GradeRow], _lab: CourseLab, assignment: str) -> str:
    head = ["ID number", "Username", "Email address", assignment, f"{assignment} (feedback)"]
    rows: list[Row] = []
    for line in lines:
        if pupil := line.pupil:
            login = pupil.login or pupil.student
            rows.append([pupil.number, login, pupil.email, points(line), feedback_text(line.grade)])
    return to_csv_text(head, rows)


def feedback_text(grade: Grade | None) -> str:
    if grade is None:
        return ""
    lines = [grade.total]
    lines += [f"Nothing counts: {problem}" for problem in grade.problems]
    if not grade.problems:
        lines += [
            f"{point.points} of {point.most}: {point.says}: {point_sentences(point)[0]}"
            for point in grade.scored
        ]
        lines += [
            f"{paper.most} to mark: {paper.says}"
            if paper.points is None
            else f"{paper.points} of {paper.most}: {paper.says}"
            for paper in grade.by_hand
        ]
    return "\n".join(lines)


def to_canvas(lines: Sequence[GradeRow], lab: CourseLab, assignment: str) -> str:
    head = ["Student", "ID", "SIS User ID", "SIS Login ID", "Section", assignment]
    rows: list[Row] = [["    Points Possible", "", "", "", "", lab.points_with_texts]]
    for line in lines:
        if pupil := line.pupil:
            login = pupil.login or pupil.student or pupil.email
            who = [line.name, pupil.canvas_id, pupil.number, login, pupil.section]
            rows.append([*who, points(line)])
    return to_csv_text(head, rows)


def to_gradescope(lines: Sequence[GradeRow], lab: CourseLab, _assignment: str) -> str:
    head = ["First Name", "Last Name", "SID", "Email", "Sections", "Total Score", "Max Points"]
    head += ["Status", "Submission ID", "Submission Time", "Lateness (H:M:S)", "View Count"]
    head += ["Submission Count"]
    head += [
        f"{number}: {point.name} ({point.points:.1f} pts)"
        for number, point in enumerate(lab.points, 1)
    ]
    states = {"graded": "Graded", "missing": "Missing", "not graded": "Ungraded"}
    rows: list[Row] = []
    for line in lines:
        pupil = line.pupil or Student(0)
        first, last = pupil.first, pupil.last
        if not first and not last:
            first, _, last = pupil.name.rpartition(" ")
        who = [first, last, pupil.number, pupil.email or line.student, pupil.section]
        what = [points(line), lab.points_with_texts, states[line.state], *[""] * 4, line.hand_ins]
        rows.append([*who, *what, *points_by_point(line, lab)])
    return to_csv_text(head, rows)


def to_gostlab_csv(lines: Sequence[GradeRow], lab: CourseLab, _assignment: str) -> str:
    """Return gostlab's own table, with one row per student."""
    head = ["student", "name", "on_the_roster", "state", "points", "most", "to_mark"]
    head += ["hand_ins", "counts", *(point.name for point in lab.points)]
    rows: list[Row] = []
    for line in lines:
        refused, label = (line.counts.refused, line.counts.label) if line.counts else ("", "")
        why = "; ".join(line.grade.problems) if line.grade else refused
        who = [line.student, line.name, "yes" if line.pupil else "no", line.state]
        to_mark = line.grade.to_mark if line.grade else ""
        what = [points(line), lab.points_with_texts, to_mark, line.hand_ins, label]
        rows.append([*who, *what, *points_by_point(line, lab), why])
    return to_csv_text([*head, "why_nothing_counts"], rows)


GRADEBOOKS: Mapping[str, Callable[[Sequence[GradeRow], CourseLab, str], str]] = {
    "grades.csv": to_gostlab_csv,
    "moodle.csv": to_moodle,
    "canvas.csv": to_canvas,
    "gradescope.csv": to_gradescope,
}
