"""The pages of a graded class: one of feedback for each student, and the teacher's."""

import re
from collections.abc import Sequence
from pathlib import Path
from urllib.parse import quote

import jinja2
from markupsafe import Markup

from gostlab.classroom.batch_grading import MIN_DIGITS, MIN_NUMBERS, STATES, GradeRow
from gostlab.classroom.expressions import shown
from gostlab.classroom.feedback import sentences
from gostlab.classroom.grading import Grade
from gostlab.classroom.lab import CourseLab
from gostlab.terminal_escape import visible

FEEDBACK, INDEX = "feedback", "index.html"
HERE = Path(__file__).parent


def page(template: str, **names: object) -> str:
    """A template filled in; what is foreign can neither be markup nor turn the text."""
    found = jinja2.Environment(
        loader=jinja2.FileSystemLoader(HERE),
        autoescape=True,
        trim_blocks=True,
        undefined=jinja2.StrictUndefined,
        finalize=lambda value: visible(value) if type(value) is str else value,
    )
    css = (HERE / "page.css").read_text(encoding="utf-8")
    text = found.get_template(template).render(css=Markup(css), **names)
    return text.encode("utf-8", "replace").decode("utf-8")


def file_name(student: str) -> str:
    """A student's page, by a name that no other student's has and every system takes."""
    return re.sub(r"[^A-Za-z0-9._@+-]", "_", student)[:100] + ".html"


def feedback_page(grade: Grade, name: str, hidden: Sequence[str]) -> str:
    """What a student reads; hidden: the drawn values that he was to find out."""
    return page(
        "feedback.html.j2",
        grade=grade,
        name=name,
        values={key: shown(value) for key, value in grade.values.items() if key not in hidden},
        points=[(each, sentences(each)) for each in grade.scored],
    )


def class_page(
    lab: CourseLab,
    course: str,
    source: str,
    lines: Sequence[GradeRow],
    alike: Sequence[str],
    passed_over: Sequence[str],
) -> str:
    return page(
        "class.html.j2",
        lab=lab,
        course=course,
        source=source,
        lines=lines,
        alike=alike,
        passed_over=passed_over,
        summary=summary(lines),
        twice=[line for line in lines if line.others],
        place=lambda student: f"{FEEDBACK}/{quote(file_name(student))}",
        remark=remark,
        digits=MIN_DIGITS,
        least=MIN_NUMBERS,
    )


def remark(line: GradeRow) -> str:
    """What came of a student's hand-in, in a few words."""
    found = line.counts
    if found is None:
        return "missing"
    words = [f"handed in {line.hand_ins} times"] if line.others else []
    if line.pupil is None:
        words.append("not on the roster")
    if found.grade is None:
        words.append(f"not graded: {found.refused}")
    elif found.grade.problems:
        words.append(f"nothing counts: {found.grade.problems[0]}")
    return "; ".join(words) or "graded"


def summary(lines: Sequence[GradeRow]) -> str:
    """23 graded, 2 missing, …"""
    counts = {
        **{state: sum(line.state == state for line in lines) for state in STATES},
        "handed in more than once": sum(bool(line.others) for line in lines),
        "not on the roster": sum(line.pupil is None for line in lines),
    }
    return ", ".join(
        f"{count} {what}" for what, count in counts.items() if count or what == "graded"
    )
