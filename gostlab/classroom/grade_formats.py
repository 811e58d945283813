"""A grade as others read it: text, JSON, JUnit's XML, Gradescope's and Classroom 50's results."""

import json
import re
from collections.abc import Callable, Mapping
from dataclasses import asdict
from datetime import UTC, datetime
from typing import Any
from xml.etree import ElementTree

from gostlab.classroom.answers import TIME
from gostlab.classroom.feedback import sentences
from gostlab.classroom.grading import Grade

CLASSROOM50 = "classroom50/result/v1"


def to_text(grade: Grade) -> str:
    lines = [f"{grade.title} · {grade.student} · {grade.points} of {grade.most} points"]
    lines += [f"problem: {each}" for each in grade.problems]
    lines += [f"note: {each}" for each in grade.notes]
    for each in grade.scored:
        lines.append(f"{each.points:3} of {each.most:2}  {each.name}: {each.says}")
        lines += [f"           {line}" for line in sentences(each)]
    for paper in grade.by_hand:
        lines.append(f" -- of {paper.most:2}  {paper.name} (read by a person): {paper.says}")
        lines.append(f"           {' '.join(paper.text.split()) or '(nothing written)'}")
    lines += [f"rerun: {each}" for each in grade.reran]
    return "\n".join(lines)


def to_json(grade: Grade) -> dict[str, Any]:
    return {
        **asdict(grade),
        "schema": 1,
        "points": grade.points,
        "most": grade.most,
        "scored": [{**asdict(each), "passed": each.passed} for each in grade.scored],
    }


def to_junit(grade: Grade) -> str:
    failed = sum(not each.passed for each in grade.scored)
    counts = {"tests": str(len(grade.scored)), "failures": str(failed), "errors": "0"}
    suite = ElementTree.Element(
        "testsuite", {"name": grade.lab, **counts, "skipped": "0", "time": "0"}
    )
    properties = ElementTree.SubElement(suite, "properties")
    for name in ("student", "points", "most"):
        ElementTree.SubElement(properties, "property", name=name, value=str(getattr(grade, name)))
    for each in grade.scored:
        words = {"classname": grade.lab, "name": each.name, "time": "0"}
        case = ElementTree.SubElement(suite, "testcase", words)
        if not each.passed:
            failure = ElementTree.SubElement(case, "failure", message=each.why, type="points")
            failure.text = "\n".join([each.says, *sentences(each)])
    if grade.problems or grade.reran:
        ElementTree.SubElement(suite, "system-out").text = "\n".join(
            [*grade.problems, *grade.reran]
        )
    ElementTree.indent(suite)
    return printable(ElementTree.tostring(suite, encoding="unicode", xml_declaration=True))


def to_gradescope(grade: Grade) -> dict[str, Any]:
    """Gradescope's results.json (gradescope-autograders.readthedocs.io, specs)."""
    head = "\n".join([*grade.problems, *grade.notes, *(f"rerun: {each}" for each in grade.reran)])
    return {
        "score": grade.points,
        "visibility": "visible",
        "stdout_visibility": "hidden",
        "output": head or f"{grade.points} of {grade.most} points",
        "extra_data": {"lab": grade.lab, "student": grade.student, "values": grade.values},
        "tests": [
            {
                "number": str(number),
                "name": f"{each.name}: {each.says}",
                "score": each.points,
                "max_score": each.most,
                "status": "passed" if each.passed else "failed",
                "output": "\n".join(sentences(each)),
                "output_format": "text",
                "tags": [each.name],
                "visibility": "visible",
            }
            for number, each in enumerate(grade.scored, 1)
        ],
    }


def to_classroom50(grade: Grade, environ: Mapping[str, str], now: datetime) -> dict[str, Any]:
    """Classroom 50's result.json (its wiki, Advanced Autograding). Its runner hands over what only
    it knows in the environment, and stamps owner and type itself.
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
                "test-name": each.name,
                "passed": each.passed,
                "score": each.points,
                "max-score": each.most,
                "message": "\n".join([each.says, *sentences(each)]),
            }
            for each in grade.scored
        ],
        "problems": [*grade.problems],
    }


def printable(text: str) -> str:
    """A text without the characters that XML has no place for."""
    return re.sub(r"[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]", "?", text)


PLAIN: Mapping[str, Callable[[Grade], str | dict[str, Any]]] = {
    "text": to_text,
    "json": to_json,
    "junit": to_junit,
    "gradescope": to_gradescope,
}
FORMATS = (*PLAIN, "classroom50")


def written(grade: Grade, form: str, environ: Mapping[str, str], now: datetime) -> str:
    made = PLAIN[form](grade) if form in PLAIN else to_classroom50(grade, environ, now)
    if isinstance(made, str):
        return made
    return json.dumps(made, indent=2, sort_keys=form == "json", ensure_ascii=False)
