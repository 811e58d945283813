# SPDX-License-Identifier: MIT
"""Format a grade as text, JSON, JUnit XML, or the results of Gradescope and Classroom 50."""

import json
from collections.abc import Callable, Mapping
from dataclasses import asdict
from datetime import UTC, datetime
from xml.etree import ElementTree

from gostlab.classroom.answers import TIME
from gostlab.classroom.feedback import point_sentences
from gostlab.classroom.grading import Grade
from gostlab.text_safety import replace_controls

CLASSROOM50 = "classroom50/result/v1"


def to_text(grade: Grade) -> str:
    lines = [f"{grade.title} · {grade.student} · {grade.total}"]
    lines += [f"problem: {problem}" for problem in grade.problems]
    lines += [f"note: {note}" for note in grade.notes]
    for point in grade.scored:
        lines.append(f"{point.points:3} of {point.most:2}  {point.name}: {point.says}")
        lines += [f"           {line}" for line in point_sentences(point)]
    for paper in grade.by_hand:
        points = " --" if paper.points is None else f"{paper.points:3}"
        lines.append(f"{points} of {paper.most:2}  {paper.name} (read by a person): {paper.says}")
        lines.append(f"           {' '.join(paper.text.split()) or '(nothing written)'}")
    lines += [f"rerun: {line}" for line in grade.reran]
    return "\n".join(lines)


def to_json(grade: Grade) -> dict[str, object]:
    return {
        **asdict(grade),
        "schema": 1,
        "points": grade.points,
        "most": grade.most,
        "to_mark": grade.to_mark,
        "scored": [{**asdict(point), "passed": point.passed} for point in grade.scored],
    }


def to_junit(grade: Grade) -> str:
    failed = sum(not point.passed for point in grade.scored)
    counts = {"tests": str(len(grade.scored)), "failures": str(failed), "errors": "0"}
    suite = ElementTree.Element(
        "testsuite", {"name": grade.lab, **counts, "skipped": "0", "time": "0"}
    )
    properties = ElementTree.SubElement(suite, "properties")
    for name in ("student", "points", "most"):
        ElementTree.SubElement(properties, "property", name=name, value=str(getattr(grade, name)))
    for point in grade.scored:
        attributes = {"classname": grade.lab, "name": point.name, "time": "0"}
        case = ElementTree.SubElement(suite, "testcase", attributes)
        if not point.passed:
            failure = ElementTree.SubElement(case, "failure", message=point.why, type="points")
            failure.text = "\n".join([point.says, *point_sentences(point)])
    if grade.problems or grade.reran:
        ElementTree.SubElement(suite, "system-out").text = "\n".join(
            [*grade.problems, *grade.reran]
        )
    ElementTree.indent(suite)
    return replace_controls(ElementTree.tostring(suite, encoding="unicode", xml_declaration=True))


def to_gradescope(grade: Grade) -> dict[str, object]:
    """Return Gradescope's results.json (gradescope-autograders.readthedocs.io, specs)."""
    head = "\n".join([*grade.problems, *grade.notes, *(f"rerun: {line}" for line in grade.reran)])
    return {
        "score": grade.points,
        "visibility": "visible",
        "stdout_visibility": "hidden",
        "output": "\n".join(filter(None, (head, grade.total))),
        "extra_data": {"lab": grade.lab, "student": grade.student, "values": grade.values},
        "tests": [
            {
                "number": str(number),
                "name": f"{point.name}: {point.says}",
                "score": point.points,
                "max_score": point.most,
                "status": "passed" if point.passed else "failed",
                "output": "\n".join(point_sentences(point)),
                "output_format": "text",
                "tags": [point.name],
                "visibility": "visible",
            }
            for number, point in enumerate(grade.scored, 1)
        ],
    }


def to_classroom50(grade: Grade, environ: Mapping[str, str], now: datetime) -> dict[str, object]:
    """Return Classroom 50's result.json (its wiki, Advanced Autograding).

    Its runner passes the values that only it knows in the environment, and adds owner and type.
    """
    stamp = now.astimezone(UTC).strftime(TIME)
    commit = environ.get("COMMIT_URL", "not known outside a runner")
    return {
        "schema": CLASSROOM50,
        "classroom": environ.get("CLASSROOM", grade.course),
        "assignment": environ.get("ASSIGNMENT", grade.lab),
        "owner": environ.get("OWNER", grade.student),
        "submission": environ.get("SUBMISSION_TAG", "none"),
        "commit": commit,
        "release": environ.get("RELEASE_URL", commit),
        "review": environ.get("REVIEW_URL", commit),
        "datetime": stamp,
        "graded_at": stamp,
        "score": grade.points,
        "max-score": grade.most,
        "tests": [
            {
                "test-name": point.name,
                "passed": point.passed,
                "score": point.points,
                "max-score": point.most,
                "message": "\n".join([point.says, *point_sentences(point)]),
            }
            for point in grade.scored
        ],
        "problems": [*grade.problems],
    }


PLAIN: Mapping[str, Callable[[Grade], str | dict[str, object]]] = {
    "text": to_text,
    "json": to_json,
    "junit": to_junit,
    "gradescope": to_gradescope,
}
FORMATS = (*PLAIN, "classroom50")


def format_grade(grade: Grade, form: str, environ: Mapping[str, str], now: datetime) -> str:
    result = PLAIN[form](grade) if form in PLAIN else to_classroom50(grade, environ, now)
    if isinstance(result, str):
        return result
    return json.dumps(result, indent=2, sort_keys=form == "json", ensure_ascii=False)
