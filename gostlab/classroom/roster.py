# SPDX-License-Identifier: MIT
"""Read a course's roster from a CSV file, with a header or without.

The file may be written by a person or exported by Moodle, Canvas or Gradescope. A student may use
any of their identifiers at `start`.
"""

import csv
import io
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from gostlab.classroom.student_assignment import STUDENT
from gostlab.spec.yaml_source import BadInput, load_text

MAX_BYTES = 4 << 20
MAX_STUDENTS = 5000
# Lower-case headings by field, in order of preference: those of Moodle's participants and grade
# export, Canvas' gradebook export, and Gradescope's roster.
HEADINGS: Mapping[str, tuple[str, ...]] = {
    "student": ("student id", "student_id", "studentid", "account", "github"),
    "login": ("sis login id", "username", "login", "user name", "login id"),
    "email": ("email", "email address", "e-mail", "e-mail address", "mail"),
    "number": ("sis user id", "id number", "sid", "number", "matriculation number"),
    "canvas_id": ("id", "canvas id"),
    "name": ("name", "full name", "student name"),
    "first": ("first name", "first", "given name"),
    "last": ("last name", "surname", "last", "family name"),
    "section": ("section", "sections"),
}
RECEIPT = re.compile(r"[0-9a-f]{4}-[0-9a-f]{4}")
IDENTIFIERS = ("student", "login", "email", "number")
# "Student" is a name in a Canvas export, which has one of these headings, and else an identifier.
CANVAS = ("sis login id", "sis user id")


@dataclass(frozen=True)
class Student:
    """A student of the course; "" for fields that the roster does not have."""

    line: int
    student: str = ""
    login: str = ""
    email: str = ""
    number: str = ""
    canvas_id: str = ""
    name: str = ""
    first: str = ""
    last: str = ""
    section: str = ""

    @property
    def identifiers(self) -> tuple[str, ...]:
        """Return the student's identifiers that a lab accepts, the most likely first."""
        values = (getattr(self, field) for field in IDENTIFIERS)
        return tuple(dict.fromkeys(value for value in values if STUDENT.fullmatch(value)))

    @property
    def primary_identifier(self) -> str:
        return self.identifiers[0]

    @property
    def mailbox(self) -> str:
        """Return the part of the address before @ in lower case, or "" without an address."""
        return self.email.partition("@")[0].casefold()

    @property
    def display_name(self) -> str:
        return self.name or f"{self.first} {self.last}".strip() or self.primary_identifier

    @property
    def spellings(self) -> frozenset[str]:
        """Return the student's name in the spellings that an LMS uses in file names.

        Only letters and digits remain.
        """
        first, last = self.first, self.last
        if not (first and last) and self.name:
            before, comma, after = self.name.partition(",")
            parts = f"{after} {before}".split() if comma else self.name.split()
            first, last = " ".join(parts[:-1]), "".join(parts[-1:])
        return frozenset(
            spelling
            for spelling in (
                alphanumeric(self.name),
                alphanumeric(first + last),
                alphanumeric(last + first),
            )
            if spelling
        )


def alphanumeric(text: str) -> str:
    """Return a name's letters and digits in lower case."""
    return "".join(character for character in text.casefold() if character.isalnum())


@dataclass(frozen=True)
class Roster:
    """The students of a course, in the order of the file."""

    pupils: tuple[Student, ...]

    def find_by_identifier(self, *identifiers: str) -> Student | None:
        """Return the student with one of these identifiers; an empty one matches nobody.

        The part of an address before @ counts as well, if one student alone has it.
        """
        wanted = {identifier.casefold() for identifier in identifiers if identifier}
        for pupil in self.pupils:
            if wanted & {identifier.casefold() for identifier in pupil.identifiers}:
                return pupil
        known = [pupil for pupil in self.pupils if pupil.mailbox in wanted]
        return known[0] if len(known) == 1 else None

    def find_by_name(self, name: str) -> Student | None:
        """Return the only student with a name, or None if there is none, or several."""
        pupils = [pupil for pupil in self.pupils if alphanumeric(name) in pupil.spellings]
        return pupils[0] if len(pupils) == 1 else None

    def find_by_canvas_id(self, number: str) -> Student | None:
        return next((pupil for pupil in self.pupils if number and pupil.canvas_id == number), None)


def read_roster(path: Path) -> Roster:
    """Read a roster. Raises BadInput."""
    text = load_text(path, MAX_BYTES)
    first = text.partition("\n")[0]
    delimiter = max(",;\t", key=first.count)
    try:
        rows = [
            (number, [cell.strip() for cell in row])
            for number, row in enumerate(csv.reader(io.StringIO(text), delimiter=delimiter), 1)
        ]
    except csv.Error as error:
        raise BadInput(f"{path}: not a CSV file: {error}") from None
    rows = [(number, row) for number, row in rows if any(row)]
    if not rows:
        raise BadInput(f"{path}: empty: a roster has a student a line")
    columns = find_columns(rows[0][1])
    if columns:
        if not set(columns) & set(IDENTIFIERS):
            raise BadInput(
                f"{path}:{rows[0][0]}: no column says by which name the lab knows a student"
                " (student, username, email address or ID number)"
            )
        pupils = [parse_row(number, row, columns) for number, row in rows[1:]]
    else:
        pupils = [parse_row_without_header(number, row) for number, row in rows]
    students = [pupil for pupil in pupils if pupil is not None]
    if not students:
        raise BadInput(f"{path}: a header and no student")
    reject_invalid_students(students, path)
    return Roster(tuple(students))


def find_columns(row: Sequence[str]) -> dict[str, int]:
    """Return the column of each field, or {} if the row is not a header."""
    heads = [cell.casefold() for cell in row]
    columns = {}
    for field, headings in HEADINGS.items():
        indices = [heads.index(heading) for heading in headings if heading in heads]
        if indices:
            columns[field] = indices[0]
    if "student" in heads:
        is_canvas = any(heading in heads for heading in CANVAS)
        columns["name" if is_canvas else "student"] = heads.index("student")
    return columns


def parse_row(number: int, row: Sequence[str], columns: Mapping[str, int]) -> Student | None:
    """Return the student in a row of a file with a header; None for Canvas' row of points."""
    if row[0].casefold() == "points possible":
        return None
    return Student(
        number, **{field: row[column] for field, column in columns.items() if column < len(row)}
    )


def parse_row_without_header(number: int, row: Sequence[str]) -> Student:
    """Return the student in a row without a header: identifier, address and name."""
    more = [cell for cell in row[1:] if cell]
    email = next((cell for cell in more if "@" in cell), "")
    return Student(
        number, student=row[0], email=email, name=next((c for c in more if c != email), "")
    )


def read_receipts(path: Path | None) -> dict[str, str] | None:
    """Return the first receipt of each student in a CSV file, by name in lower case.

    None without a file. Raises BadInput.
    """
    if path is None:
        return None
    receipts: dict[str, str] = {}
    for number, row in enumerate(csv.reader(io.StringIO(load_text(path, MAX_BYTES))), 1):
        row_receipts = [
            cell.strip().lower() for cell in row if RECEIPT.fullmatch(cell.strip().lower())
        ]
        if len(row_receipts) != 1 and any(cell.strip() for cell in row) and number > 1:
            raise BadInput(
                f"{path}:{number}: {len(row_receipts)} receipts (like 3f9a-1c0e) of a student"
            )
        for name in (cell.strip().casefold() for cell in row):
            if row_receipts and name and name != row_receipts[0]:
                receipts.setdefault(name, row_receipts[0])
    return receipts


def reject_invalid_students(pupils: Iterable[Student], path: Path) -> None:
    """Reject students without a valid identifier, and duplicates. Raises BadInput."""
    seen: dict[str, int] = {}
    for pupil in pupils:
        if not pupil.identifiers:
            given = next(
                (getattr(pupil, field) for field in IDENTIFIERS if getattr(pupil, field)), ""
            )
            raise BadInput(
                f"{path}:{pupil.line}: student {given!r:.80}: letters, digits and . _ @ + - only,"
                " 64 at most: as typed at ./lab lab start"
            )
        for identifier in pupil.identifiers:
            if identifier.casefold() in seen:
                line = seen[identifier.casefold()]
                raise BadInput(f"{path}:{pupil.line}: {identifier} is there already (line {line})")
        seen |= {identifier.casefold(): pupil.line for identifier in pupil.identifiers}
    if len(seen) > MAX_STUDENTS * len(IDENTIFIERS):
        raise BadInput(f"{path}: more than {MAX_STUDENTS} students")
