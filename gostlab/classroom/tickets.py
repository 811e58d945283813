# SPDX-License-Identifier: MIT
"""Make a course's secret, and the tickets of its students."""

import csv
import io
import os
import secrets
from collections.abc import Iterable, Iterator
from pathlib import Path

from gostlab.classroom.lab import CourseLab
from gostlab.classroom.student_assignment import format_ticket, ticket_of
from gostlab.spec.yaml_source import BadInput

HEAD = ("student", "lab", "course", "ticket")


def write_secret(path: Path) -> bytes:
    """Write a new secret and return it. Raises BadInput if the file exists, OSError."""
    secret = secrets.token_hex(32)
    write_private(path, secret + "\n")
    return secret.encode()


def write_private(path: Path, text: str) -> None:
    """Write a new file that its owner alone can read. Raises BadInput if it exists, OSError."""
    try:
        handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    except FileExistsError:
        raise BadInput(f"{path}: there already, and a course keeps its secret") from None
    with os.fdopen(handle, "w", encoding="utf-8") as file:
        file.write(text)


def ticket_lines(
    labs: Iterable[CourseLab], students: Iterable[str], course: str, secret: bytes | None
) -> Iterator[str]:
    """Yield a CSV line for each student and lab, after a header. Raises BadInput."""
    rows = (
        (student, lab.name, course, format_ticket(lab, student, course, ticket))
        for lab in labs
        for student in students
        for ticket in [ticket_of(lab, student, course, secret)]
    )
    for row in (HEAD, *rows):
        line = io.StringIO()
        csv.writer(line, lineterminator="\n").writerow(row)
        yield line.getvalue()
