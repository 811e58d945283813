# SPDX-License-Identifier: MIT
"""Read class.yaml, which says who learns what by the page, and derive codes and sessions.

Nothing is drawn at random: a student's code and session follow from the course's secret, so that
they hold after the server was ended and begun again.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from urllib.parse import urlsplit

from gostlab.classroom.lab import CourseLab, load_lab
from gostlab.classroom.roster import Roster, Student, read_roster
from gostlab.classroom.student_assignment import (
    PUBLIC_COURSE,
    Assignment,
    assignment_in_course,
    read_secret,
)
from gostlab.errors import BadInput
from gostlab.spec.yaml_source import (
    Node,
    key,
    list_of,
    load_document,
    record_reader,
    takes,
    text_of,
)

CODE_BYTES = 5  # 8 letters and digits of base32: guesses are counted (class_app)
WORK = "class-work"


@takes({"type": "string"})
def read_lab(node: Node) -> CourseLab:
    """Return the lab of a number, a name or a folder. Raises BadInput."""
    try:
        return load_lab(text_of(node))
    except BadInput as error:
        raise node.bad(str(error)) from None


@takes({"type": "string"})
def read_address(node: Node) -> str:
    """Return the address of a page, as browsers write an origin. Raises BadInput."""
    text = text_of(node).lower().rstrip("/")
    parts = urlsplit(text)
    if parts.scheme not in ("http", "https") or text != f"{parts.scheme}://{parts.netloc}":
        raise node.bad_value("no address of a server (like https://lab.example.org)")
    return text


@dataclass(frozen=True)
class ClassFile:
    """Represent a course: its secret, its students and its labs."""

    secret_file: str = key(text_of, "file of the course's secret", named="secret")
    roster_file: str = key(text_of, "CSV file of its students", named="roster")
    labs: tuple[CourseLab, ...] = key(list_of(read_lab, least=1), "labs, in their order")
    course: str = key(text_of, "name of the course and year", default=PUBLIC_COURSE)
    work: str = key(text_of, "folder of the students' work", default=WORK)
    address: str = key(read_address, "where students open the page, if not here", default="")
    secret: bytes = field(default=b"", repr=False)
    roster: Roster = field(default_factory=lambda: Roster(()))
    here: Path = Path()  # the file's folder

    @property
    def roster_path(self) -> Path:
        return self.here / self.roster_file

    @property
    def secret_path(self) -> Path:
        return self.here / self.secret_file

    @property
    def folder(self) -> Path:
        return self.here / self.work

    def lab(self, name: str) -> CourseLab | None:
        return next((lab for lab in self.labs if lab.name == name), None)

    def assignment(self, lab: CourseLab, student: str) -> Assignment:
        return assignment_in_course(lab, student, self.course, self.secret)

    def derive(self, purpose: str, student: str) -> bytes:
        """Return what only a holder of the secret can compute, for one purpose and student."""
        message = json.dumps([self.course, purpose, student]).encode()
        return hmac.new(self.secret, message, hashlib.sha256).digest()

    def code(self, student: str) -> str:
        """Return the code by which a student joins, like k7m4-9qzp."""
        digest = self.derive("code", student)[:CODE_BYTES]
        text = base64.b32encode(digest).decode("ascii").lower()
        return f"{text[:4]}-{text[4:]}"

    def joining(self, name: str, code: str) -> Student | None:
        """Return the student with a name and a code, or None if they are not of one."""
        pupil = self.roster.find_by_identifier(name.strip())
        wanted = self.code(pupil.primary_identifier if pupil else "").replace("-", "")
        given = "".join(code.split()).replace("-", "").lower()
        is_right = hmac.compare_digest(given.encode("utf-8", "replace"), wanted.encode())
        return pupil if pupil and is_right else None

    def session(self, student: str) -> str:
        return self.derive("session", student).hex()

    @cached_property
    def students_by_session(self) -> Mapping[str, str]:
        return {
            self.session(pupil.primary_identifier): pupil.primary_identifier
            for pupil in self.roster.pupils
        }


READ_CLASS = record_reader(ClassFile)


def load_class(path: Path) -> ClassFile:
    """Read class.yaml with its roster and its secret. Raises BadInput."""
    document = load_document(path)
    read = READ_CLASS(document)
    fields = document.fields or {}
    numbers = [lab.name for lab in read.labs]
    for node, name in zip(fields["labs"].items or (), numbers, strict=True):
        if numbers.count(name) > 1:
            raise node.bad(f"{name} is there twice")
    read = replace(read, here=path.parent)
    for name, file in (("secret", read.secret_path), ("roster", read.roster_path)):
        if not file.is_file():
            advice = f" (./lab lab secret {file} makes one)" if name == "secret" else ""
            raise fields[name].bad(f"{file}: no such file{advice}")
    secret, roster = read_secret(read.secret_path), read_roster(read.roster_path)
    return replace(read, secret=secret or b"", roster=roster)
