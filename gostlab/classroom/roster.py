"""A course's roster: a CSV file, with a header or without, as people write it or as Moodle, Canvas
and Gradescope export it.

A student may be known to the lab by any of his identifiers: whichever he typed at `start`.
"""

import csv
import io
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from gostlab.classroom.assignment import STUDENT
from gostlab.spec.yaml_source import BadInput, load_text

MAX_BYTES = 4 << 20
MAX_STUDENTS = 5000
# Headings by what they are of, small letters; the first of a kind that is there counts. Moodle's
# participants and grade export, Canvas' gradebook export, Gradescope's roster.
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
IDENTIFIERS = ("student", "login", "email", "number")
# In a Canvas export "Student" is a name; elsewhere it is who the lab knows.
CANVAS = ("sis login id", "sis user id")


@dataclass(frozen=True)
class Pupil:
    """A student of the course; "" for what the roster does not say."""

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
        """By which of them the lab may know him, the likeliest first."""
        named = (getattr(self, each) for each in IDENTIFIERS)
        return tuple(dict.fromkeys(each for each in named if STUDENT.fullmatch(each)))

    @property
    def primary(self) -> str:
        return self.identifiers[0]

    @property
    def shown_name(self) -> str:
        return self.name or f"{self.first} {self.last}".strip() or self.primary

    @property
    def spellings(self) -> frozenset[str]:
        """His name as an LMS may write it into a file's name: letters and digits alone."""
        first, last = self.first, self.last
        if not (first and last) and self.name:
            before, comma, after = self.name.partition(",")
            words = f"{after} {before}".split() if comma else self.name.split()
            first, last = " ".join(words[:-1]), "".join(words[-1:])
        return frozenset(
            each for each in (bare(self.name), bare(first + last), bare(last + first)) if each
        )


def bare(text: str) -> str:
    """A name's letters and digits, small."""
    return "".join(each for each in text.casefold() if each.isalnum())


@dataclass(frozen=True)
class Roster:
    """The students of a course, in the file's order."""

    pupils: tuple[Pupil, ...]

    def known_as(self, *words: str) -> Pupil | None:
        """Whom one of some identifiers is of; "" is nobody's."""
        wanted = {word.casefold() for word in words if word}
        for pupil in self.pupils:
            if wanted & {each.casefold() for each in pupil.identifiers}:
                return pupil
        return None

    def named(self, name: str) -> Pupil | None:
        """The only one whose name it can be; None for nobody, or several."""
        found = [pupil for pupil in self.pupils if bare(name) in pupil.spellings]
        return found[0] if len(found) == 1 else None

    def in_canvas(self, number: str) -> Pupil | None:
        return next((each for each in self.pupils if number and each.canvas_id == number), None)


def read_roster(path: Path) -> Roster:
    """A roster's file. Raises BadInput."""
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
    columns = columns_of(rows[0][1])
    if columns:
        if not set(columns) & set(IDENTIFIERS):
            raise BadInput(
                f"{path}:{rows[0][0]}: no column says by which name the lab knows a student"
                " (student, username, email address or ID number)"
            )
        pupils = [headed(number, row, columns) for number, row in rows[1:]]
    else:
        pupils = [unheaded(number, row) for number, row in rows]
    found = [each for each in pupils if each is not None]
    if not found:
        raise BadInput(f"{path}: a header and no student")
    check(found, path)
    return Roster(tuple(found))


def columns_of(row: Sequence[str]) -> dict[str, int]:
    """Which column has what; {} where the row is no header."""
    heads = [cell.casefold() for cell in row]
    found = {}
    for what, headings in HEADINGS.items():
        places = [heads.index(each) for each in headings if each in heads]
        if places:
            found[what] = places[0]
    if "student" in heads:
        of_canvas = any(each in heads for each in CANVAS)
        found["name" if of_canvas else "student"] = heads.index("student")
    return found


def headed(number: int, row: Sequence[str], columns: Mapping[str, int]) -> Pupil | None:
    """A student by a header; None for Canvas' row of points."""
    if row[0].casefold() == "points possible":
        return None
    return Pupil(
        number, **{what: row[place] for what, place in columns.items() if place < len(row)}
    )


def unheaded(number: int, row: Sequence[str]) -> Pupil:
    """A student, an address if one is there, a name if one is there."""
    more = [cell for cell in row[1:] if cell]
    email = next((cell for cell in more if "@" in cell), "")
    return Pupil(
        number, student=row[0], email=email, name=next((c for c in more if c != email), "")
    )


def check(pupils: Iterable[Pupil], path: Path) -> None:
    """Raises BadInput for a student without a name that the lab takes, or one that is two."""
    seen: dict[str, int] = {}
    for pupil in pupils:
        if not pupil.identifiers:
            given = next((getattr(pupil, each) for each in IDENTIFIERS if getattr(pupil, each)), "")
            raise BadInput(
                f"{path}:{pupil.line}: student {given!r:.80}: letters, digits and . _ @ + - only,"
                " 64 at most: as he typed it at ./lab lab start"
            )
        for each in pupil.identifiers:
            if each.casefold() in seen:
                line = seen[each.casefold()]
                raise BadInput(f"{path}:{pupil.line}: {each} is there already (line {line})")
        seen |= {each.casefold(): pupil.line for each in pupil.identifiers}
    if len(seen) > MAX_STUDENTS * len(IDENTIFIERS):
        raise BadInput(f"{path}: more than {MAX_STUDENTS} students")
