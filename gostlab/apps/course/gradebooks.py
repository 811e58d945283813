"""A class's points as gradebooks take them: CSV for Moodle, Canvas and Gradescope, and a plain one.

- Moodle: Grades, Import, CSV file (docs.moodle.org, "Grade import"): users are mapped by email
  address or ID number, and the columns of grade and feedback are to be mapped together, as a file
  without one of them empties it.
- Canvas: Grades, Import (canvas-lms, lib/gradebook_importer.rb): the columns Student, ID, SIS User
  ID, SIS Login ID and Section, then one named as the assignment; a row of points possible.
- Gradescope takes no CSV of scores (its own way is `--format gradescope` in an autograder). The
  file has the columns of its own "Download Grades", as public scripts that read those expect them.

A hand-in that is missing, or could not be graded, has an empty cell and no zero: a person decides.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Callable, Mapping, Sequence

from gostlab.apps.course.feedback import sentences
from gostlab.apps.course.grading import Grade
from gostlab.apps.course.lab import Lab
from gostlab.apps.course.roster import Pupil
from gostlab.apps.course.whole_class import Line

Row = Sequence[object]
NOBODY = Pupil(0)


def table(head: Row, rows: Sequence[Row]) -> str:
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\r\n")  # RFC 4180
    writer.writerow(head)
    writer.writerows([[plain(cell) for cell in row] for row in rows])
    return text.getvalue()


def plain(cell: object) -> object:
    """A cell that no spreadsheet takes for a formula: names and answers are of other people."""
    if isinstance(cell, str) and cell[:1] in ("=", "+", "-", "@", "\t", "\r"):
        return "'" + cell
    return cell


def graded(line: Line) -> Grade | None:
    return line.counts.grade if line.counts else None


def points(line: Line) -> object:
    found = graded(line)
    return "" if found is None else found.points


def to_moodle(lines: Sequence[Line], _lab: Lab, assignment: str) -> str:
    head = ["ID number", "Username", "Email address", assignment, f"{assignment} (feedback)"]
    return table(
        head,
        [
            [
                line.pupil.number,
                line.pupil.login or line.pupil.student,
                line.pupil.email,
                points(line),
                in_words(graded(line)),
            ]
            for line in lines
            if line.pupil
        ],
    )


def in_words(grade: Grade | None) -> str:
    """The feedback in one cell."""
    if grade is None:
        return ""
    lines = [f"{grade.points} of {grade.most} points"]
    lines += [f"Nothing counts: {each}" for each in grade.problems]
    if not grade.problems:
        lines += [
            f"{each.points} of {each.most}: {each.says}: {sentences(each)[0]}"
            for each in grade.scored
        ]
    return "\n".join(lines)


def to_canvas(lines: Sequence[Line], lab: Lab, assignment: str) -> str:
    head = ["Student", "ID", "SIS User ID", "SIS Login ID", "Section", assignment]
    rows: list[Row] = [["    Points Possible", "", "", "", "", lab.most]]
    for line in lines:
        if line.pupil:
            pupil = line.pupil
            login = pupil.login or pupil.student or pupil.email
            rows.append(
                [
                    pupil.shown_name,
                    pupil.canvas_id,
                    pupil.number,
                    login,
                    pupil.section,
                    points(line),
                ]
            )
    return table(head, rows)


def to_gradescope(lines: Sequence[Line], lab: Lab, _assignment: str) -> str:
    scored = [point for point in lab.points if not point.by_hand]
    head = ["First Name", "Last Name", "SID", "Email", "Sections", "Total Score", "Max Points"]
    head += ["Status", "Submission ID", "Submission Time", "Lateness (H:M:S)", "View Count"]
    head += ["Submission Count"]
    head += [
        f"{number}: {point.name} ({point.points:.1f} pts)" for number, point in enumerate(scored, 1)
    ]
    rows: list[Row] = []
    for line in lines:
        pupil, found = line.pupil or NOBODY, graded(line)
        by_name = {each.name: each.points for each in found.scored} if found else {}
        first, last = pupil.first, pupil.last
        if not first and not last:
            first, _, last = pupil.name.rpartition(" ")
        state = {"graded": "Graded", "missing": "Missing"}.get(line.state, "Ungraded")
        count = len(line.others) + (line.counts is not None)
        rows.append(
            [first, last, pupil.number, pupil.email or line.student, pupil.section]
            + [points(line), lab.most, state, "", "", "", "", count]
            + [by_name.get(point.name, "") for point in scored]
        )
    return table(head, rows)


def to_plain(lines: Sequence[Line], lab: Lab, _assignment: str) -> str:
    """What the lab itself knows, a row for each student."""
    scored = [point.name for point in lab.points if not point.by_hand]
    head = ["student", "name", "on_the_roster", "state", "points", "most", "hand_ins", "counts"]
    rows: list[Row] = []
    for line in lines:
        found = graded(line)
        by_name = {each.name: each.points for each in found.scored} if found else {}
        why = "; ".join(found.problems) if found else (line.counts.refused if line.counts else "")
        rows.append(
            [line.student, line.pupil.shown_name if line.pupil else ""]
            + ["yes" if line.pupil else "no", line.state, points(line), lab.most]
            + [len(line.others) + (line.counts is not None)]
            + [line.counts.label if line.counts else ""]
            + [by_name.get(name, "") for name in scored]
            + [why]
        )
    return table([*head, *scored, "why_nothing_counts"], rows)


GRADEBOOKS: Mapping[str, Callable[[Sequence[Line], Lab, str], str]] = {
    "grades.csv": to_plain,
    "moodle.csv": to_moodle,
    "canvas.csv": to_canvas,
    "gradescope.csv": to_gradescope,
}
