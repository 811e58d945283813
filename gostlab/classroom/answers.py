# SPDX-License-Identifier: MIT
"""Read a student's answers.yaml, and write and read predictions.json, its sealed first half."""

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from gostlab.classroom.lab import SECTIONS, CourseLab
from gostlab.classroom.student_assignment import predictions_digest
from gostlab.results import read_object
from gostlab.spec.yaml_source import BadInput, Node, known_fields, load_document

SEALED = "predictions.json"
MAX_CHARACTERS = 20_000
NUMBER = re.compile(r"[+-]?[0-9]{1,15}(\.[0-9]{1,30})?([eE][+-]?[0-9]{1,2})?")
TIME = "%Y-%m-%dT%H:%M:%SZ"


@dataclass(frozen=True)
class Answers:
    """A student's answer texts by key; "" for an empty answer."""

    student: str
    predictions: Mapping[str, str]
    answers: Mapping[str, str]

    def text(self, section: str, key: str) -> str:
        return str(getattr(self, section).get(key, ""))


@dataclass(frozen=True)
class SealedPredictions:
    """A student's predictions as they were when they were sealed."""

    predictions: Mapping[str, str]
    at: datetime


def read_answers(path: Path, lab: CourseLab) -> Answers:
    """Read answers.yaml.

    Raises BadInput for a key that the lab does not have, and for a file that is not YAML.
    """
    given = known_fields(load_sheet(path), ("student", *SECTIONS))
    texts: dict[str, dict[str, str]] = {}
    for section in SECTIONS:
        node = given.get(section)
        wanted = lab.keys(section)
        written = (
            {} if node is None or node.type_phrase == "nothing" else known_fields(node, wanted)
        )
        for value in written.values():
            if value.items is not None or value.fields is not None:
                raise value.bad(f"{value.type_phrase} where one answer should be")
            if len(value.text or "") > MAX_CHARACTERS:
                raise value.bad(f"more than {MAX_CHARACTERS} characters")
        texts[section] = {
            key: (written[key].text or "").strip() if key in written else "" for key in wanted
        }
    student = given["student"].text if "student" in given else None
    return Answers((student or "").strip(), texts["predictions"], texts["answers"])


def load_sheet(path: Path) -> Node:
    """Parse a sheet. Raises BadInput, with advice where a text may be what is no YAML."""
    try:
        return load_document(path)
    except BadInput as error:
        if "not YAML" not in str(error):
            raise
        raise BadInput(f"{error} (write a text in quotes: it may then have : and #)") from None


def sheet_of(answers: Answers) -> str:
    lines = [f"student: {json.dumps(answers.student)}"]
    for section in SECTIONS:
        given = getattr(answers, section).items()
        lines += [f"{section}:", *(f"  {key}: {json.dumps(text)}" for key, text in given)]
    return "\n".join(lines) + "\n"


def parse_number(text: str) -> float | None:
    """Return the number in a text such as 41.2, 1e-4 or 3%, or None if it is not a number."""
    bare = text.strip().removesuffix("%").strip()
    return float(bare) if NUMBER.fullmatch(bare) else None


def seal(
    predictions: Mapping[str, str], lab: CourseLab, student: str, now: datetime
) -> dict[str, object]:
    return {
        "schema": 1,
        "lab": lab.name,
        "student": student,
        "sealed": now.astimezone(UTC).strftime(TIME),
        "predictions": dict(predictions),
        "sha256": predictions_digest(predictions),
    }


def read_sealed(path: Path, lab: CourseLab) -> SealedPredictions:
    """Read predictions.json. Raises BadInput if it is not valid, or belongs to another lab."""
    data = read_object(path)
    if data is None:
        raise BadInput(
            f"{path.name}: not there: predictions are sealed by"
            f" ./lab lab predict {lab.command_word}"
        )
    written = data.get("predictions")
    keys = lab.keys("predictions")
    if not isinstance(written, dict) or set(written) != set(keys):
        raise BadInput(f"{path.name}: not this lab's predictions ({', '.join(keys)})")
    if not all(isinstance(text, str) and len(text) <= MAX_CHARACTERS for text in written.values()):
        raise BadInput(f"{path.name}: a prediction that is no text")
    if data.get("sha256") != predictions_digest(written):
        raise BadInput(f"{path.name}: changed since it was sealed")
    try:
        at = datetime.strptime(str(data.get("sealed")), TIME).replace(tzinfo=UTC)
    except ValueError:
        raise BadInput(f"{path.name}: sealed: not a time") from None
    return SealedPredictions(written, at)
