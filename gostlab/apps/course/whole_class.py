"""A whole class's hand-ins, graded side by side: each once, and again only if it has changed.

What came of a hand-in is kept in the folder `graded`, a file for each, written whole or not at all.
An interruption costs the hand-ins that were being read.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import signal
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from dataclasses import asdict, dataclass, field
from functools import lru_cache
from pathlib import Path

from gostlab import __version__
from gostlab.apps.course import download
from gostlab.apps.course.answers import SEALED, as_number, read_answers, read_sealed
from gostlab.apps.course.assignment import STUDENT, assign, ticket_of
from gostlab.apps.course.coursework import ASSIGNMENT
from gostlab.apps.course.download import Download, HandedIn
from gostlab.apps.course.formats import from_object, to_object
from gostlab.apps.course.formula import FormulaError
from gostlab.apps.course.grading import Grade, grade, lacks, nothing, plain_word, score_answer
from gostlab.apps.course.lab import ANSWERS, Lab, load_lab
from gostlab.apps.course.roster import Pupil, Roster
from gostlab.apps.course.upload import NoHandIn
from gostlab.describe.file.document import BadInput
from gostlab.results import EPOCH, ResultsError, read_object, write_json

KEPT = "graded"  # the folder of what is done


@dataclass(frozen=True)
class Course:
    """What every hand-in of a class is graded by."""

    lab: str  # its folder
    name: str
    secret: bytes | None
    roster: Roster


@dataclass(frozen=True)
class Record:
    """What came of a hand-in."""

    label: str
    student: str  # whose it is; "" where neither the platform nor the hand-in says
    claims: str  # whose the hand-in says it is
    refused: str  # why it is not graded; "" where it is
    grade: Grade | None
    # What was answered, by section and key, and whether it is right for this student's own path;
    # None where nobody can say without his runs.
    answers: Mapping[str, str] = field(default_factory=dict)
    right: Mapping[str, bool | None] = field(default_factory=dict)
    key: str = ""  # what it was made of
    again: bool = False  # graded now, and not found as it was


def whose(handed: HandedIn, roster: Roster) -> Pupil | None:
    """Whom of the roster the platform says that it is from."""
    who = handed.who
    return (
        roster.known_as(who.email, who.sid)
        or (roster.in_canvas(who.number) if who.number else None)
        or (roster.named(who.name) if who.name else None)
    )


def grade_one(path: Path, handed: HandedIn, course: Course, out: Path) -> Record:
    """What comes of one hand-in, as it was kept or graded now. Raises OSError."""
    pupil = whose(handed, course.roster)
    file = out / KEPT / f"{hashlib.sha256(handed.label.encode()).hexdigest()[:24]}.json"
    try:
        with download.opened(path, handed) as folder:
            owners = pupil.identifiers if pupil else ()
            made_of = [tree_sum(folder), *key_parts(course), repr(owners), handed.label]
            key = hashlib.sha256("\n".join(made_of).encode()).hexdigest()
            kept = read_record(file, key)
            if kept is not None:
                return kept
            record = graded(folder, handed, pupil, course, key)
    except BadInput as error:
        # Of what cannot be opened nothing is kept: looking again costs nothing.
        return unopened(handed, pupil, course, error, path)
    value = asdict(record) | {"grade": to_object(record.grade) if record.grade else None}
    write_json(file, value)
    return record


def unopened(
    handed: HandedIn, pupil: Pupil | None, course: Course, error: BadInput, path: Path
) -> Record:
    """What comes of a hand-in that cannot be read: no hand-in at all is not graded, and one that is
    refused counts for nothing.
    """
    said = without_places(str(error).replace(f"{path}/", ""))
    student = pupil.primary if pupil else ""
    if not student or isinstance(error, NoHandIn):
        return Record(handed.label, student, "", said, None, again=True)
    lab = load_lab(course.lab)
    ticket = ticket_of(lab, student, course.name, course.secret)
    unread = nothing(assign(lab, student, course.name, ticket), [said])
    return Record(handed.label, student, "", "", unread, again=True)


def without_places(said: str) -> str:
    """A sentence without the temporary folder that an archive was unpacked into."""
    words = said.split(": ")
    return ": ".join(word for word in words if "gostlab-hand-in-" not in word) or said


def graded(folder: Path, handed: HandedIn, pupil: Pupil | None, course: Course, key: str) -> Record:
    """Grade one hand-in. Raises BadInput for a lab that is not whole."""
    lab = load_lab(course.lab)
    told = read_object(folder / ASSIGNMENT) or {}
    claims = str(told.get("student", ""))
    claims = claims if STUDENT.fullmatch(claims) else ""
    owner = pupil or course.roster.known_as(claims)
    student = claims
    if owner is not None and claims.casefold() not in {
        each.casefold() for each in owner.identifiers
    }:
        student = owner.primary  # the hand-in says another: it counts for nothing, and says so
    if not student:
        said = f"{ANSWERS}, {ASSIGNMENT}: say no student"
        return Record(handed.label, "", claims, said, None, key=key, again=True)
    ticket = ticket_of(lab, student, course.name, course.secret)
    assignment = assign(lab, student, course.name, ticket)
    lacking = lacks(assignment, told, course.secret, handed.label)
    if lacking:
        return Record(handed.label, student, claims, lacking, None, key=key, again=True)
    found = grade(assignment, folder)
    answers = answered(folder, lab)
    right: dict[str, bool | None] = {}
    passed = {each.name: each.passed for each in found.scored}
    for point in lab.points:
        if point.answer is None or point.by_hand:
            continue
        name = ".".join(point.answer)
        if not found.problems:
            right[name] = passed[point.name]
            continue
        try:
            right[name] = not score_answer(point, answers.get(name, ""), assignment.values)[-1]
        except FormulaError:  # it hangs on runs that do not count
            right[name] = None
    return Record(handed.label, student, claims, "", found, answers, right, key, again=True)


def answered(folder: Path, lab: Lab) -> dict[str, str]:
    """What stands on the sheet, and what was sealed in place of the sheet's predictions; nothing of
    one that cannot be read.
    """
    try:
        answers = read_answers(folder / ANSWERS, lab)
    except BadInput:
        return {}
    predictions = answers.predictions
    with contextlib.suppress(BadInput):
        predictions = read_sealed(folder / SEALED, lab).predictions
    return {
        **{f"predictions.{key}": text for key, text in predictions.items()},
        **{f"answers.{key}": text for key, text in answers.answers.items()},
    }


# -- what a record is made of


def tree_sum(folder: Path) -> str:
    """A hash of all files of a folder, with their names. Raises OSError."""
    total = hashlib.sha256()
    for path in sorted(folder.rglob("*")):
        if path.is_file() and not path.is_symlink():
            digest = hashlib.sha256(path.read_bytes()).hexdigest()
            total.update(f"{path.relative_to(folder)}\0{digest}\n".encode("utf-8", "replace"))
    return total.hexdigest()


@lru_cache(maxsize=8)
def program_sum(lab_folder: str) -> str:
    """A hash of the grader and of the lab: with another of them, grades are others."""
    total = hashlib.sha256()
    own = Path(__file__).parent
    for path in [*sorted(own.glob("*.py")), *sorted(Path(lab_folder).glob("*.yaml"))]:
        total.update(path.name.encode() + b"\0" + path.read_bytes() + b"\0")
    return total.hexdigest()


def key_parts(course: Course) -> list[str]:
    secret = hashlib.sha256(course.secret or b"").hexdigest()
    return [__version__, str(EPOCH), program_sum(course.lab), course.name, secret]


def read_record(file: Path, key: str) -> Record | None:
    """What was kept of a hand-in, if it was made of the same."""
    kept = read_object(file)
    if kept is None or kept.get("key") != key:
        return None
    try:
        made = from_object(kept["grade"]) if kept["grade"] else None
        rest = {name: kept[name] for name in Record.__dataclass_fields__ if name != "grade"}
        return Record(**{**rest, "grade": made, "again": False})
    except (KeyError, TypeError, ValueError):
        return None


# -- all of them


def grade_all(
    found: Download, course: Course, out: Path, jobs: int, done: Callable[[int, Record], None]
) -> list[Record]:
    """What came of every hand-in, in the download's order. done: is told after each how many there
    are by now. Raises OSError, ResultsError.
    """
    (out / KEPT).mkdir(parents=True, exist_ok=True)
    path = found.path.resolve()
    records: dict[int, Record] = {}
    waiting = iter(enumerate(found.hand_ins))
    running: dict[Future[Record], int] = {}
    with ProcessPoolExecutor(max_workers=jobs, initializer=leave_interrupts) as pool:

        def start(count: int) -> None:
            for _, (index, handed) in zip(range(count), waiting, strict=False):
                running[pool.submit(grade_one, path, handed, course, out)] = index

        try:
            start(2 * jobs)
            while running:
                ended, _ = wait(running, return_when=FIRST_COMPLETED)
                for each in ended:
                    index = running.pop(each)
                    records[index] = each.result()
                    done(len(records), records[index])
                start(len(ended))
        except BrokenProcessPool:
            raise ResultsError(
                f"{out}: a process that graded was ended (too little memory?): what was graded is"
                " kept, and the same command goes on"
            ) from None
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            raise
    return [records[index] for index in sorted(records)]


def leave_interrupts() -> None:
    """Ctrl-C is for who started the processes."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)


# -- who counts


@dataclass(frozen=True)
class Line:
    """A student of the class, and what there is of him."""

    pupil: Pupil | None  # None: not on the roster
    student: str
    counts: Record | None  # None: nothing was handed in
    others: tuple[Record, ...]  # handed in before it, which do not count

    @property
    def state(self) -> str:
        """graded, not graded, missing."""
        if self.counts is None:
            return "missing"
        return "graded" if self.counts.grade else "not graded"


def lines_of(found: Download, records: Sequence[Record], roster: Roster) -> list[Line]:
    """The roster's students in its order, and then whoever handed in and is not on it."""
    of_whom: dict[object, list[tuple[HandedIn, Record]]] = {}
    for handed, record in zip(found.hand_ins, records, strict=True):
        pupil = whose(handed, roster) or roster.known_as(record.claims)
        name = record.student.casefold() or f"? {record.label}"
        of_whom.setdefault(pupil.line if pupil else name, []).append((handed, record))
    lines = [line_of(pupil, pupil.primary, of_whom.pop(pupil.line, [])) for pupil in roster.pupils]
    for rest in of_whom.values():
        lines.append(line_of(None, rest[0][1].student or rest[0][1].label, rest))
    return lines


def line_of(pupil: Pupil | None, student: str, handed: Sequence[tuple[HandedIn, Record]]) -> Line:
    """The last counts; what can be graded before what cannot."""
    ranked = sorted(handed, key=lambda each: (each[1].grade is not None, each[0].order))
    records = [record for _, record in ranked]
    if not records:
        return Line(pupil, student, None, ())
    named = records[-1].student or student
    return Line(pupil, named, records[-1], tuple(reversed(records[:-1])))


# -- who resembles whom

LEAST_DIGITS = 2  # of a number, for its being equal to say anything
LEAST_CHARACTERS = 40  # of a text
LEAST_NUMBERS = 3  # of a pair, to be shown


@dataclass(frozen=True)
class Alike:
    """Two students, and what of theirs is equal without having to be."""

    one: str
    other: str
    predictions: int
    answers: int
    texts: int  # word for word, of those that a person reads
    of: int  # numbers that both gave

    @property
    def sentence(self) -> str:
        text = f"; {self.texts} texts are equal, word for word" if self.texts else ""
        return (
            f"{self.one} and {self.other}: of {self.of} numbers {self.answers} equal answers and"
            f" {self.predictions} equal predictions that are not right for both{text}"
        )


def resembling(lines: Sequence[Line], lab: Lab) -> Iterator[Alike]:
    """Pairs whose numbers are equal to the last digit although they are not right for both: each
    student has a path of his own. A pair has at least three such numbers, or one text.

    It counts and does not judge: two who work together may share a wrong formula.
    """
    numbers = {".".join(p.answer) for p in lab.points if p.answer and p.within and not p.by_hand}
    texts = {".".join(p.answer) for p in lab.points if p.answer and p.by_hand}
    handed = [(line.student, line.counts) for line in lines if line.counts and line.counts.answers]
    read = [
        (
            student,
            record.right,
            {name: as_number(record.answers.get(name, "")) for name in numbers},
            {
                name: text
                for name in texts
                if len(text := plain_word(record.answers.get(name, ""))) >= LEAST_CHARACTERS
            },
            record.answers,
        )
        for student, record in handed
    ]
    for index, (one, right, gave, wrote, said) in enumerate(read):
        for other, their_right, they_gave, they_wrote, _ in read[index + 1 :]:
            both = [n for n in numbers if gave[n] is not None and they_gave[n] is not None]
            same = [
                name
                for name in both
                if gave[name] == they_gave[name]
                and digits(said[name]) >= LEAST_DIGITS
                and not (right.get(name) and their_right.get(name))
            ]
            predictions = sum(name.startswith("predictions.") for name in same)
            equal = sum(they_wrote.get(name) == text for name, text in wrote.items())
            if len(same) >= LEAST_NUMBERS or equal:
                found = Alike(one, other, predictions, len(same) - predictions, equal, len(both))
                yield found


def digits(text: str) -> int:
    """A number's digits, without zeros before it."""
    return len("".join(each for each in text.partition("e")[0] if each.isdigit()).lstrip("0"))


def default_jobs() -> int:
    """One hand-in at a time for each CPU."""
    return len(os.sched_getaffinity(0))
