"""A whole class's hand-ins, graded side by side: each once, and again only if it has changed.

What came of a hand-in is kept in the folder `graded`, a file for each, written whole or not at all.
An interruption costs the hand-ins that were being read.
"""

import contextlib
import hashlib
import json
import re
import signal
import sys
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import Future, ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from dataclasses import asdict, dataclass, field
from functools import lru_cache
from itertools import combinations
from pathlib import Path

from rich.progress import track

from gostlab import __version__
from gostlab.classroom import lms_export
from gostlab.classroom.answers import SEALED, as_number, read_answers, read_sealed
from gostlab.classroom.assignment import STUDENT, assigned
from gostlab.classroom.expressions import FormulaError
from gostlab.classroom.grading import (
    ByHand,
    Grade,
    Scored,
    grade,
    lacks,
    nothing,
    plain_word,
    score_answer,
)
from gostlab.classroom.lab import ANSWERS, CourseLab, load_lab
from gostlab.classroom.lms_export import Download, HandedIn
from gostlab.classroom.roster import Pupil, Roster
from gostlab.classroom.safe_extract import NoHandIn, only_bad_input
from gostlab.classroom.workspace import ASSIGNMENT
from gostlab.console import Console
from gostlab.install.locate import hash_of_files
from gostlab.results import BROKEN_RECORDS, EPOCH, read_object, write_json
from gostlab.spec.yaml_source import BadInput

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
    label: str
    student: str  # whose it is; "" where neither the platform nor the hand-in says
    claims: str  # whose the hand-in says it is
    refused: str = ""  # why it is not graded; "" where it is
    grade: Grade | None = None
    # What was answered, by section and key, and what of it is right for this student's own path, as
    # far as that can be said without his runs.
    answers: Mapping[str, str] = field(default_factory=dict)
    right: Mapping[str, bool] = field(default_factory=dict)
    is_kept: bool = False  # found as it was, and not graded now


def whose(handed: HandedIn, roster: Roster) -> Pupil | None:
    """Whom of the roster the platform says that it is from, or the name of the student's folder."""
    who = handed.who
    found = roster.known_as(who.email, who.sid) or roster.in_canvas(who.number)
    return found or roster.named(who.name or top_of(handed)) or roster.known_as(top_of(handed))


def top_of(handed: HandedIn) -> str:
    """The name of a hand-in's folder or archive at the top of the download, without suffix."""
    first = handed.label.partition("/")[0]
    archive = lms_export.ARCHIVE.fullmatch(first)
    return first[: archive.start(1) - 1] if archive else first


def claimed(folder: Path) -> str:
    """Whose a hand-in says that it is; "" where it says none."""
    claims = str((read_object(folder / ASSIGNMENT) or {}).get("student") or "")
    return claims if STUDENT.fullmatch(claims) else ""


def grade_one(path: Path, handed: HandedIn, course: Course, out: Path) -> Record:
    """What comes of one hand-in, as it was kept or graded now. Raises OSError where that cannot be
    kept; what reading the hand-in raises is its refusal.
    """
    pupil = whose(handed, course.roster)
    file = out / KEPT / f"{hashlib.sha256(handed.label.encode()).hexdigest()[:24]}.json"
    try:
        with only_bad_input(handed.label), lms_export.opened(path, handed) as folder:
            owners = pupil.identifiers if pupil else ()
            secret = hashlib.sha256(course.secret or b"").hexdigest()
            made_by = [__version__, str(EPOCH), program_sum(course.lab), course.name, secret]
            files = (each for each in folder.rglob("*") if not each.is_symlink())
            made_of = [hash_of_files(folder, files), *made_by, repr(owners), handed.label]
            key = hashlib.sha256("\n".join(made_of).encode()).hexdigest()
            kept = read_record(file, key)
            if kept is not None:
                return kept
            record = graded(folder, handed, pupil, course)
            json.dumps(asdict(record), ensure_ascii=False).encode("utf-8")
    except BadInput as error:
        # Of what cannot be opened nothing is kept: looking again costs nothing.
        return unopened(handed, pupil, course, error, path)
    write_json(file, {"key": key, "record": asdict(record)})
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
        return Record(handed.label, student, "", said)
    lab = load_lab(course.lab)
    unread = nothing(assigned(lab, student, course.name, course.secret), [said])
    return Record(handed.label, student, "", grade=unread)


def without_places(said: str) -> str:
    """A sentence without the temporary folder that an archive was unpacked into."""
    words = said.split(": ")
    return ": ".join(word for word in words if "gostlab-hand-in-" not in word) or said


def graded(folder: Path, handed: HandedIn, pupil: Pupil | None, course: Course) -> Record:
    """Grade one hand-in. Raises BadInput for a lab that is not whole."""
    lab = load_lab(course.lab)
    claims = student = claimed(folder)
    if course.secret is None and (why := unconfirmed(handed, pupil, claims)):
        return Record(handed.label, "", "", f"{why}, or give the course a --secret")
    owner = pupil or course.roster.known_as(claims)
    if owner is not None and course.roster.known_as(claims) != owner:
        student = owner.primary  # the hand-in says another: it counts for nothing, and says so
    if not student:
        said = f"{ANSWERS}, {ASSIGNMENT}: say no student"
        return Record(handed.label, "", claims, said)
    assignment = assigned(lab, student, course.name, course.secret)
    lacking = lacks(assignment, read_object(folder / ASSIGNMENT) or {}, course.secret, handed.label)
    if lacking:
        return Record(handed.label, student, claims, lacking)
    found = grade(assignment, folder)
    answers = answered(folder, lab)
    right = {}
    passed = {each.name: each.passed for each in found.scored} if not found.problems else {}
    for point in lab.points:
        if point.answer and not point.by_hand:
            name = ".".join(point.answer)
            # What hangs on runs that do not count is right for nobody.
            with contextlib.suppress(FormulaError):
                right[name] = (
                    passed.get(point.name)
                    or not (score_answer(point, answers.get(name, ""), assignment.values)[-1])
                )
    return Record(handed.label, student, claims, "", found, answers, right)


def unconfirmed(handed: HandedIn, pupil: Pupil | None, claims: str) -> str:
    """Return why a hand-in may be another's than it claims; "" if its owner is known or its own
    folder or archive is named after the student whom it claims.
    """
    if pupil is not None or not claims:
        return ""
    if by := handed.who.words:
        return (
            f"{handed.label}: handed in by {by}, whom the roster does not have, as {claims}'s: add"
            " the platform's name or ID to the roster"
        )
    if re.search(rf"(?<![^\W_]){re.escape(claims)}(?![^\W_])", top_of(handed), re.IGNORECASE):
        return ""
    return (
        f"{handed.label}: claims to be {claims}'s, and its name says another: name it after its"
        " student, or add that name to the roster"
    )


def answered(folder: Path, lab: CourseLab) -> dict[str, str]:
    """What stands on the sheet, its predictions as sealed; {} where it cannot be read."""
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


@lru_cache(maxsize=8)
def program_sum(lab_folder: str) -> str:
    """A hash of the grader and of the lab: with another of them, grades are others."""
    own, lab = Path(__file__).parent, Path(lab_folder)
    return hash_of_files(own, own.glob("*.py")) + hash_of_files(lab, lab.glob("*.yaml"))


def read_record(file: Path, key: str) -> Record | None:
    """What was kept of a hand-in, if it was made of the same."""
    kept = read_object(file)
    if kept is None or kept.get("key") != key:
        return None
    try:
        record = kept["record"]
        if made := record["grade"]:
            scored = tuple(Scored(**row) for row in made["scored"])
            by_hand = tuple(ByHand(**row) for row in made["by_hand"])
            record["grade"] = Grade(**made | {"scored": scored, "by_hand": by_hand})
        return Record(**record | {"is_kept": True})
    except BROKEN_RECORDS:
        return None


# -- all of them


def grade_all(found: Download, course: Course, out: Path, jobs: int) -> list[Record]:
    """What came of every hand-in, in the download's order. Raises OSError."""
    (out / KEPT).mkdir(parents=True, exist_ok=True)
    path = found.path.resolve()
    # Ctrl-C goes to this process alone.
    with ProcessPoolExecutor(jobs, None, signal.signal, (signal.SIGINT, signal.SIG_IGN)) as pool:
        running = [pool.submit(grade_one, path, each, course, out) for each in found.hand_ins]
        try:
            for each in track(
                as_completed(running),
                "grading",
                len(running),
                console=Console(),
                transient=True,
                disable=not sys.stderr.isatty(),
            ):
                each.result()
        except BrokenProcessPool:
            pass  # one of those that were being graded is to blame: each is graded by itself
        finally:
            pool.shutdown(wait=False, cancel_futures=True)
    return [
        grade_alone(path, handed, course, out) if is_lost(each) else each.result()
        for handed, each in zip(found.hand_ins, running, strict=True)
    ]


def is_lost(graded: Future[Record]) -> bool:
    """Whether a hand-in has no record because a process of the pool ended."""
    return graded.cancelled() or isinstance(graded.exception(), BrokenProcessPool)


def grade_alone(path: Path, handed: HandedIn, course: Course, out: Path) -> Record:
    """Grade a hand-in in a process that nothing else depends on. Raises OSError."""
    with ProcessPoolExecutor(1, None, signal.signal, (signal.SIGINT, signal.SIG_IGN)) as pool:
        try:
            return pool.submit(grade_one, path, handed, course, out).result()
        except BrokenProcessPool:
            error = BadInput(f"{handed.label}: grading it ended its process (too little memory?)")
            return unopened(handed, whose(handed, course.roster), course, error, path)


# -- who counts

STATES = ("graded", "not graded", "missing")


@dataclass(frozen=True)
class GradeRow:
    """A student of the class, and what there is of him."""

    pupil: Pupil | None  # None: not on the roster
    student: str
    counts: Record | None  # None: nothing was handed in
    others: tuple[Record, ...]  # handed in before it, which do not count

    @property
    def grade(self) -> Grade | None:
        return self.counts.grade if self.counts else None

    @property
    def name(self) -> str:
        return self.pupil.shown_name if self.pupil else ""

    @property
    def hand_ins(self) -> int:
        return len(self.others) + (self.counts is not None)

    @property
    def state(self) -> str:
        if self.counts is None:
            return "missing"
        return "graded" if self.counts.grade else "not graded"


def lines_of(found: Download, records: Sequence[Record], roster: Roster) -> list[GradeRow]:
    """The roster's students in its order, then those who handed in and are not on it."""
    of_whom: dict[object, list[tuple[HandedIn, Record]]] = {}
    for handed, record in zip(found.hand_ins, records, strict=True):
        pupil = whose(handed, roster) or roster.known_as(record.claims)
        name = record.student.casefold() or f"? {record.label}"
        of_whom.setdefault(pupil.line if pupil else name, []).append((handed, record))
    lines = [line_of(pupil, pupil.primary, of_whom.pop(pupil.line, [])) for pupil in roster.pupils]
    for rest in of_whom.values():
        lines.append(line_of(None, rest[0][1].student or rest[0][1].label, rest))
    return lines


def line_of(
    pupil: Pupil | None, student: str, handed: Sequence[tuple[HandedIn, Record]]
) -> GradeRow:
    """The last counts; what can be graded before what cannot."""
    ranked = sorted(handed, key=lambda each: (each[1].grade is not None, each[0].order))
    records = [record for _, record in ranked]
    if not records:
        return GradeRow(pupil, student, None, ())
    named = records[-1].student or student
    return GradeRow(pupil, named, records[-1], tuple(reversed(records[:-1])))


# -- who resembles whom

MIN_DIGITS = 2  # of a number, for its being equal to say anything
MIN_CHARACTERS = 40  # of a text
MIN_NUMBERS = 3  # of a pair, to be shown


def resembling(lines: Sequence[GradeRow], lab: CourseLab) -> Iterator[str]:
    """Pairs whose numbers are equal to the last digit although they are not right for both: each
    student has a path of his own. A pair has at least three such numbers, or one text. A sentence
    each.

    It counts and does not judge: two who work together may share a wrong formula.
    """
    numbers = {".".join(p.answer) for p in lab.points if p.answer and p.within and not p.by_hand}
    texts = {".".join(p.answer) for p in lab.points if p.answer and p.by_hand}
    read = []
    for line in lines:
        if found := line.counts:
            given = {name: as_number(found.answers.get(name, "")) for name in numbers}
            said = {name: plain_word(found.answers.get(name, "")) for name in texts}
            read.append((line.student, found, given, said))
    for (one, first, gave, wrote), (other, second, theirs, text_of) in combinations(read, 2):
        both = [name for name in numbers if gave[name] is not None and theirs[name] is not None]
        same = [
            name
            for name in both
            if gave[name] == theirs[name]
            and digits(first.answers[name]) >= MIN_DIGITS
            and not (first.right.get(name) and second.right.get(name))
        ]
        equal = sum(
            text == text_of[name] for name, text in wrote.items() if len(text) >= MIN_CHARACTERS
        )
        if len(same) >= MIN_NUMBERS or equal:
            predictions = sum(name.startswith("predictions.") for name in same)
            yield (
                f"{one} and {other}: of {len(both)} numbers {len(same) - predictions} equal answers"
                f" and {predictions} equal predictions that are not right for both"
            ) + (f"; {equal} texts are equal, word for word" if equal else "")


def digits(text: str) -> int:
    """A number's digits, without zeros before it."""
    return len("".join(each for each in text.partition("e")[0] if each.isdigit()).lstrip("0"))
