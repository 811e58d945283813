# SPDX-License-Identifier: MIT
"""Render the HTML pages of a graded class: feedback for each student, and an overview."""

import re
from collections.abc import Sequence
from pathlib import Path
from urllib.parse import quote

from gostlab.classroom.batch_grading import MIN_DIGITS, MIN_NUMBERS, STATES, GradeRow
from gostlab.classroom.expressions import format_value
from gostlab.classroom.feedback import point_sentences
from gostlab.classroom.grading import Grade
from gostlab.classroom.lab import CourseLab
from gostlab.text_safety import escape_controls

FEEDBACK, INDEX, MARKING = "feedback", "index.html", "marking.html"
HERE = Path(__file__).parent


def render_template(template: str, **names: object) -> str:
    """Render a template; untrusted text is escaped and cannot change the text direction."""
    import jinja2
    from markupsafe import Markup

    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(HERE),
        autoescape=True,
        trim_blocks=True,
        undefined=jinja2.StrictUndefined,
        finalize=lambda value: escape_controls(value) if type(value) is str else value,
    )
    css = (HERE / "page.css").read_text(encoding="utf-8")
    text = environment.get_template(template).render(css=Markup(css), **names)
    return text.encode("utf-8", "replace").decode("utf-8")


def file_name(student: str) -> str:
    """Return the file name of a student's page, in characters that every system allows."""
    return re.sub(r"[^A-Za-z0-9._@+-]", "_", student)[:100] + ".html"


def feedback_page(grade: Grade, name: str, hidden: Sequence[str]) -> str:
    """Render a student's feedback page without the values of the drawn names in `hidden`."""
    return render_template(
        "feedback.html.j2",
        grade=grade,
        name=name,
        values={
            key: format_value(value) for key, value in grade.values.items() if key not in hidden
        },
        points=[(point, point_sentences(point)) for point in grade.scored],
    )


def class_page(
    lab: CourseLab,
    course: str,
    source: str,
    lines: Sequence[GradeRow],
    alike: Sequence[str],
    passed_over: Sequence[str],
) -> str:
    return render_template(
        "class.html.j2",
        lab=lab,
        course=course,
        source=source,
        lines=lines,
        alike=alike,
        passed_over=passed_over,
        summary=class_summary(lines),
        twice=[line for line in lines if line.others],
        to_mark=sum(line.grade.to_mark > 0 for line in lines if line.grade),
        marking=MARKING,
        place=lambda student: f"{FEEDBACK}/{quote(file_name(student))}",
        remark=describe_hand_in,
        digits=MIN_DIGITS,
        least=MIN_NUMBERS,
    )


def marking_page(lab: CourseLab, course: str, marks: str, lines: Sequence[GradeRow]) -> str:
    """Render the sheet of everybody's texts, question by question, with the marking scheme."""
    questions = [
        (
            point,
            [
                (line.student, paper)
                for line in lines
                for paper in (line.grade.by_hand if line.grade else ())
                if paper.name == point.name
            ],
        )
        for point in lab.points
        if point.by_hand
    ]
    return render_template(
        "marking.html.j2", lab=lab, course=course, marks=marks, questions=questions
    )


def describe_hand_in(line: GradeRow) -> str:
    """Return a short description of a student's hand-in."""
    record = line.counts
    if record is None:
        return "missing"
    remarks = [f"handed in {line.hand_ins} times"] if line.others else []
    if line.pupil is None:
        remarks.append("not on the roster")
    if record.grade is None:
        remarks.append(f"not graded: {record.refused}")
    elif record.grade.problems:
        remarks.append(f"nothing counts: {record.grade.problems[0]}")
    return "; ".join(remarks) or "graded"


def class_summary(lines: Sequence[GradeRow]) -> str:
    """Return a summary such as "23 graded, 2 missing"."""
    counts = {
        **{state: sum(line.state == state for line in lines) for state in STATES},
        "handed in more than once": sum(bool(line.others) for line in lines),
        "not on the roster": sum(line.pupil is None for line in lines),
    }
    return ", ".join(
        f"{count} {what}" for what, count in counts.items() if count or what == "graded"
    )
