# SPDX-License-Identifier: MIT
"""Grade the hand-ins of a class in parallel, each once unless it has changed.

The result of each hand-in is cached in the folder `graded`, one file per hand-in, written
atomically. An interruption loses only the hand-ins that were being graded.
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

from gostlab import __version__
from gostlab.atomic_write import write_json
from gostlab.classroom import lms_downloads
from gostlab.classroom.answers import SEALED, parse_number, read_answers, read_sealed
from gostlab.classroom.expressions import FormulaError
from gostlab.classroom.grading import (
    Grade,
    HandMarkedAnswer,
    ScoredPoint,
    find_mismatch,
    grade,
    grade_nothing,
    normalize_word,
    score_answer,
)
from gostlab.classroom.lab import ANSWERS, GUIDE, CourseLab, load_lab
from gostlab.classroom.lms_downloads import Download, HandIn
from gostlab.classroom.roster import Roster, Student
from gostlab.classroom.safe_extract import NoHandIn, only_bad_input
from gostlab.classroom.student_assignment import STUDENT, assignment_in_course
from gostlab.classroom.workspace import ASSIGNMENT
from gostlab.install.locate import hash_of_files
from gostlab.results import BROKEN_RECORDS, EPOCH, read_object
from gostlab.spec.yaml_source import MAX_BYTES, BadInput, load_text

CACHE_FOLDER = "graded"  # the folder of the cached results


@dataclass(frozen=True)
class GradingContext:
    """The parameters with which every hand-in of a class is graded."""

    lab: str  # path of the lab's folder
    name: str
    secret: bytes | None
    roster: Roster
    receipts: Mapping[str, str] | None = None  # by student, in lower case

    def receipt_of(self, *names: str) -> str | None:
        """Return a student's receipt, "" if there is none, and None if none was collected."""
        if self.receipts is None:
            return None
        known = (self.receipts.get(name.casefold(), "") for name in names)
        return next(filter(None, known), "")


@dataclass(frozen=True)
class GradeRecord:
    label: str
    student: str  # owner; "" if neither the platform nor the hand-in names one
    claims: str  # student whom the hand-in names
    refused: str = ""  # reason for not grading it; "" if it was graded
    grade: Grade | None = None
    # Answer texts by section and key, and whether each is right for this student's path, as far as
    # that can be decided without their runs.
    answers: Mapping[str, str] = field(default_factory=dict)
    right: Mapping[str, bool] = field(default_factory=dict)
    # Expected values by section and key, as far as they are known.
    expected: Mapping[str, str] = field(default_factory=dict)
    is_kept: bool = False  # read from the cache instead of graded now


def find_pupil(handed: HandIn, roster: Roster) -> Student | None:
    """Return the student on the roster whom the platform or the name of the folder identifies."""
    who = handed.who
    pupil = roster.find_by_identifier(who.email, who.sid) or roster.find_by_canvas_id(who.number)
    return (
        pupil
        or roster.find_by_name(who.name or hand_in_name(handed))
        or roster.find_by_identifier(hand_in_name(handed))
    )


def hand_in_name(handed: HandIn) -> str:
    """Return the name, without suffix, of a hand-in's folder or archive in the download."""
    first = handed.label.partition("/")[0]
    archive = lms_downloads.ARCHIVE.fullmatch(first)
    return first[: archive.start(1) - 1] if archive else first


def read_claimed_student(folder: Path) -> str:
    """Return the student whom a hand-in names, or "" if it names none."""
    claims = str((read_object(folder / ASSIGNMENT) or {}).get("student") or "")
    return claims if STUDENT.fullmatch(claims) else ""


def grade_one(path: Path, handed: HandIn, course: GradingContext, out: Path) -> GradeRecord:
    """Return the cached record of a hand-in, or grade it.

    Raises OSError if the record cannot be saved. An error in the hand-in becomes part of its
    record.
    """
    pupil = find_pupil(handed, course.roster)
    file = out / CACHE_FOLDER / f"{hashlib.sha256(handed.label.encode()).hexdigest()[:24]}.json"
    try:
        with only_bad_input(handed.label), lms_downloads.open_hand_in(path, handed) as folder:
            owners = pupil.identifiers if pupil else ()
            secret = hashlib.sha256(course.secret or b"").hexdigest()
            made_by = [__version__, str(EPOCH), grader_digest(course.lab), course.name, secret]
            files = (path for path in folder.rglob("*") if not path.is_symlink())
            receipt = course.receipt_of(*owners, read_claimed_student(folder))
            made_of = [hash_of_files(folder, files), *made_by, repr(owners), handed.label]
            made_of.append(repr(receipt))
            key = hashlib.sha256("\n".join(made_of).encode()).hexdigest()
            cached = read_record(file, key)
            if cached is not None:
                return cached
            record = grade_hand_in(folder, handed, pupil, course)
            json.dumps(asdict(record), ensure_ascii=False).encode("utf-8")
    except BadInput as error:
        # A hand-in that cannot be opened is not cached: opening it again is cheap.
        return unreadable_record(handed, pupil, course, error, path)
    write_json(file, {"key": key, "record": asdict(record)})
    return record


def unreadable_record(
    handed: HandIn, pupil: Student | None, course: GradingContext, error: BadInput, path: Path
) -> GradeRecord:
    """Return the record of a hand-in that cannot be read.

    If there is no hand-in in it, it is not graded; if it was refused, it earns no points.
    """
    reason = strip_temporary_path(str(error).replace(f"{path}/", ""))
    student = pupil.primary_identifier if pupil else ""
    if not student or isinstance(error, NoHandIn):
        return GradeRecord(handed.label, student, "", reason)
    lab = load_lab(course.lab)
    unread = grade_nothing(assignment_in_course(lab, student, course.name, course.secret), [reason])
    return GradeRecord(handed.label, student, "", grade=unread)


def strip_temporary_path(message: str) -> str:
    """Remove the temporary folder of an unpacked archive from an error message."""
    parts = message.split(": ")
    return ": ".join(part for part in parts if "gostlab-hand-in-" not in part) or message


def grade_hand_in(
    folder: Path, handed: HandIn, pupil: Student | None, course: GradingContext
) -> GradeRecord:
    """Grade one hand-in. Raises BadInput for an incomplete lab."""
    lab = load_lab(course.lab)
    claims = student = read_claimed_student(folder)
    if course.secret is None and (why := find_owner_doubt(handed, pupil, claims)):
        return GradeRecord(handed.label, "", "", f"{why}, or give the course a --secret")
    owner = pupil or course.roster.find_by_identifier(claims)
    if owner is not None and course.roster.find_by_identifier(claims) != owner:
        # A hand-in in another student's name earns no points and reports the reason.
        student = owner.primary_identifier
    if not student:
        reason = f"{ANSWERS}, {ASSIGNMENT}: say no student"
        return GradeRecord(handed.label, "", claims, reason)
    assignment = assignment_in_course(lab, student, course.name, course.secret)
    lacking = find_mismatch(
        assignment, read_object(folder / ASSIGNMENT) or {}, course.secret, handed.label
    )
    if lacking:
        return GradeRecord(handed.label, student, claims, lacking)
    names = owner.identifiers if owner else (student,)
    result = grade(assignment, folder, course.receipt_of(*names))
    answers = read_answer_texts(folder, lab)
    right, expected = {}, {}
    expected_by_point = {scored.name: scored.asked for scored in result.scored}
    passed = {point.name: point.passed for point in result.scored} if not result.problems else {}
    for point in lab.points:
        if point.answer and not point.by_hand:
            name = ".".join(point.answer)
            # An answer that depends on runs which do not count is never right.
            with contextlib.suppress(FormulaError):
                alone = score_answer(point, answers.get(name, ""), assignment.values)
                right[name] = passed.get(point.name) or not alone[-1]
                expected[name] = alone[0]
            if expected_by_point.get(point.name):
                right[name] = passed.get(point.name, False)
                expected[name] = expected_by_point[point.name]
    return GradeRecord(handed.label, student, claims, "", result, answers, right, expected)


def find_owner_doubt(handed: HandIn, pupil: Student | None, claims: str) -> str:
    """Return why a hand-in may not belong to the student it names, or "" if its owner is confirmed.

    The owner is confirmed if the platform names them, or if the hand-in's own folder or archive is
    named after the student whom it names.
    """
    if pupil is not None or not claims:
        return ""
    if by := handed.who.label:
        return (
            f"{handed.label}: handed in by {by}, whom the roster does not have, as {claims}'s: add"
            " the platform's name or ID to the roster"
        )
    if re.search(rf"(?<![^\W_]){re.escape(claims)}(?![^\W_])", hand_in_name(handed), re.IGNORECASE):
        return ""
    return (
        f"{handed.label}: claims to be {claims}'s, and its name says another: name it after its"
        " student, or add that name to the roster"
    )


def read_answer_texts(folder: Path, lab: CourseLab) -> dict[str, str]:
    """Return the answers of a hand-in with the sealed predictions, or {} if they cannot be read."""
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


# -- cache


@lru_cache(maxsize=8)
def grader_digest(lab_folder: str) -> str:
    """Return a digest of the grader's and the lab's files; a change invalidates cached grades."""
    package, lab = Path(__file__).parent, Path(lab_folder)
    return hash_of_files(package, package.glob("*.py")) + hash_of_files(lab, lab.glob("*.yaml"))


def read_record(file: Path, key: str) -> GradeRecord | None:
    """Return the cached record of a hand-in if its key matches, else None."""
    cached = read_object(file)
    if cached is None or cached.get("key") != key:
        return None
    try:
        record = cached["record"]
        if values := record["grade"]:
            scored = tuple(ScoredPoint(**row) for row in values["scored"])
            by_hand = tuple(HandMarkedAnswer(**row) for row in values["by_hand"])
            record["grade"] = Grade(**values | {"scored": scored, "by_hand": by_hand})
        return GradeRecord(**record | {"is_kept": True})
    except BROKEN_RECORDS:
        return None


# -- the whole class


def grade_all(
    download: Download, course: GradingContext, out: Path, jobs: int
) -> list[GradeRecord]:
    """Return the records of all hand-ins in the download's order. Raises OSError."""
    from rich.progress import track

    from gostlab.console import Console

    (out / CACHE_FOLDER).mkdir(parents=True, exist_ok=True)
    path = download.path.resolve()
    # Only this process handles Ctrl-C.
    with ProcessPoolExecutor(jobs, None, signal.signal, (signal.SIGINT, signal.SIG_IGN)) as pool:
        running = [
            pool.submit(grade_one, path, handed, course, out) for handed in download.hand_ins
        ]
        try:
            for future in track(
                as_completed(running),
                "grading",
                len(running),
                console=Console(),
                transient=True,
                disable=not sys.stderr.isatty(),
            ):
                future.result()
        except BrokenProcessPool:
            # A hand-in that was being graded crashed the pool: each is graded again in its own
            # process.
            pass
        finally:
            pool.shutdown(wait=False, cancel_futures=True)
    return [
        grade_in_subprocess(path, handed, course, out) if is_lost(future) else future.result()
        for handed, future in zip(download.hand_ins, running, strict=True)
    ]


def is_lost(grade_hand_in: Future[GradeRecord]) -> bool:
    """Return whether a hand-in has no record because a process of the pool ended."""
    return grade_hand_in.cancelled() or isinstance(grade_hand_in.exception(), BrokenProcessPool)


def grade_in_subprocess(
    path: Path, handed: HandIn, course: GradingContext, out: Path
) -> GradeRecord:
    """Grade a hand-in in a separate process. Raises OSError."""
    with ProcessPoolExecutor(1, None, signal.signal, (signal.SIGINT, signal.SIG_IGN)) as pool:
        try:
            return pool.submit(grade_one, path, handed, course, out).result()
        except BrokenProcessPool:
            error = BadInput(f"{handed.label}: grading it ended its process (too little memory?)")
            return unreadable_record(handed, find_pupil(handed, course.roster), course, error, path)


# -- select the hand-in that counts

STATES = ("graded", "not graded", "missing")


@dataclass(frozen=True)
class GradeRow:
    """A student of the class and their hand-ins."""

    pupil: Student | None  # None if not on the roster
    student: str
    counts: GradeRecord | None  # None if nothing was handed in
    others: tuple[GradeRecord, ...]  # earlier hand-ins, which do not count

    @property
    def grade(self) -> Grade | None:
        return self.counts.grade if self.counts else None

    @property
    def name(self) -> str:
        return self.pupil.display_name if self.pupil else ""

    @property
    def hand_ins(self) -> int:
        return len(self.others) + (self.counts is not None)

    @property
    def state(self) -> str:
        if self.counts is None:
            return "missing"
        return "graded" if self.counts.grade else "not graded"


def make_rows(download: Download, records: Sequence[GradeRecord], roster: Roster) -> list[GradeRow]:
    """Return rows of the roster's students in its order, then of students who are not on it."""
    by_student: dict[object, list[tuple[HandIn, GradeRecord]]] = {}
    for handed, record in zip(download.hand_ins, records, strict=True):
        pupil = find_pupil(handed, roster) or roster.find_by_identifier(record.claims)
        name = record.student.casefold() or f"? {record.label}"
        by_student.setdefault(pupil.line if pupil else name, []).append((handed, record))
    lines = [
        make_row(pupil, pupil.primary_identifier, by_student.pop(pupil.line, []))
        for pupil in roster.pupils
    ]
    for rest in by_student.values():
        lines.append(make_row(None, rest[0][1].student or rest[0][1].label, rest))
    return lines


def make_row(
    pupil: Student | None, student: str, handed: Sequence[tuple[HandIn, GradeRecord]]
) -> GradeRow:
    """Return the row of a student: their last hand-in counts, preferably one that can be graded."""
    ranked = sorted(handed, key=lambda pair: (pair[1].grade is not None, pair[0].order))
    records = [record for _, record in ranked]
    if not records:
        return GradeRow(pupil, student, None, ())
    named = records[-1].student or student
    return GradeRow(pupil, named, records[-1], tuple(reversed(records[:-1])))


# -- similar answers

MIN_DIGITS = 2  # minimum digits of a number for equality to be significant
MIN_CHARACTERS = 40  # minimum length of a text to be compared
MIN_NUMBERS = 3  # minimum equal numbers of a pair to be reported


@dataclass(frozen=True)
class SimilarPair:
    """Two students with equal answers that are not right for both."""

    one: str
    other: str
    compared: int  # numbers that both gave
    same: frozenset[str]  # names of equal numbers
    texts: frozenset[str]  # names of equal texts
    wrong_for: frozenset[str]  # those of the two for whom an equal number is wrong

    @property
    def equal_answers(self) -> frozenset[str]:
        return self.same | self.texts

    @property
    def sentence(self) -> str:
        predictions = sum(name.startswith("predictions.") for name in self.same)
        return (
            f"{self.one} and {self.other}: of {self.compared} numbers"
            f" {len(self.same) - predictions} equal answers and {predictions} equal predictions"
            " that are not right for both"
        ) + (f"; {len(self.texts)} texts are equal, word for word" if self.texts else "")

    def is_explained_by(self, pairs: Sequence["SimilarPair"]) -> bool:
        """Return whether all that is equal has a nearer source.

        Whoever copied a student's numbers resembles all who were to give some of those, too. So a
        pair is explained if each of the two with a wrong number shares all of the pair's, and
        more, with somebody else.
        """
        return not self.texts and all(
            any(
                student in (pair.one, pair.other) and pair.equal_answers > self.equal_answers
                for pair in pairs
            )
            for student in self.wrong_for
        )


def find_similar_answers(lines: Sequence[GradeRow], lab: CourseLab) -> Iterator[str]:
    """Yield a sentence for each pair of students with suspiciously equal answers.

    Each student has a path of their own, so equal digits of numbers that are not right for both
    are suspicious. Where both were to give the same number, equal mistakes are no sign: the same
    wrong formula makes them. A text that the lab's page has is no sign either. A pair is reported
    from three such numbers, or one equal text, on, unless another pair explains it. The sentence
    counts and does not judge.
    """
    pairs = [
        pair for pair in compare_answers(lines, lab) if len(pair.same) >= MIN_NUMBERS or pair.texts
    ]
    yield from (pair.sentence for pair in pairs if not pair.is_explained_by(pairs))


def compare_answers(lines: Sequence[GradeRow], lab: CourseLab) -> Iterator[SimilarPair]:
    """Yield every two students with the numbers and texts that they gave alike."""
    numbers = {".".join(p.answer) for p in lab.points if p.answer and p.within and not p.by_hand}
    texts = {".".join(p.answer) for p in lab.points if p.answer and p.by_hand}
    page = normalize_word(load_text(lab.folder / GUIDE, MAX_BYTES))
    read = []
    for line in lines:
        if record := line.counts:
            given = {name: parse_number(record.answers.get(name, "")) for name in numbers}
            texts_given = {name: normalize_word(record.answers.get(name, "")) for name in texts}
            read.append((line.student, record, given, texts_given))
    for (one, first, gave, wrote), (other, second, theirs, text_of) in combinations(read, 2):
        both = [name for name in numbers if gave[name] is not None and theirs[name] is not None]
        same = frozenset(
            name
            for name in both
            if gave[name] == theirs[name]
            and count_significant_digits(first.answers[name]) >= MIN_DIGITS
            and not (first.right.get(name) and second.right.get(name))
            and first.expected.get(name) != second.expected.get(name)
        )
        equal = frozenset(
            name
            for name, text in wrote.items()
            if len(text) >= MIN_CHARACTERS and text == text_of[name] and text not in page
        )
        wrong_for = frozenset(
            student
            for student, record in ((one, first), (other, second))
            if any(not record.right.get(name) for name in same)
        )
        yield SimilarPair(one, other, len(both), same, equal, wrong_for)


def count_significant_digits(text: str) -> int:
    """Return the number of significant digits in a number's text."""
    return len(
        "".join(character for character in text.partition("e")[0] if character.isdigit()).lstrip(
            "0"
        )
    )
