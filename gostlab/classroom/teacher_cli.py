"""A teacher's verbs: `./lab lab ticket`, `secret`, `autograder`, and `./lab grade`, which needs
Python and PyYAML alone unless it is to run something again.
"""

import argparse
import csv
import json
import os
import secrets
import sys
from contextlib import ExitStack
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from tempfile import TemporaryDirectory

from gostlab import api
from gostlab.classroom import class_cli
from gostlab.classroom.answers import SEALED, read_sealed
from gostlab.classroom.assignment import (
    STUDENT,
    Assignment,
    assigned,
    hand_out,
    read_secret,
    ticket_of,
)
from gostlab.classroom.autograder_zip import write_bundle
from gostlab.classroom.grade_formats import written
from gostlab.classroom.grading import RESULTS, Grade, find_runs, grade, lacks, nothing
from gostlab.classroom.lab import load_lab
from gostlab.classroom.raw_metrics import Records
from gostlab.classroom.rerun import compare
from gostlab.classroom.safe_extract import NoHandIn, only_bad_input, opened
from gostlab.classroom.workspace import ASSIGNMENT
from gostlab.cli.common import EXIT_OK
from gostlab.results import ResultsError, read_object
from gostlab.spec.yaml_source import BadInput, load_text


def ticket(arguments: argparse.Namespace) -> int:
    lab = load_lab(arguments.lab)
    if arguments.secret is None:
        raise BadInput("--secret is missing: without one students need no tickets")
    key = read_secret(arguments.secret)
    names = load_text(arguments.students, MAX_STUDENTS_BYTES).split("\n")
    table = csv.writer(sys.stdout, lineterminator="\n")
    table.writerow(["student", "lab", "course", "ticket"])
    for student in dict.fromkeys(name.strip() for name in names if name.strip()):
        made = hand_out(
            lab, student, arguments.course, ticket_of(lab, student, arguments.course, key)
        )
        table.writerow([student, lab.name, arguments.course, made])
    return EXIT_OK


def secret(arguments: argparse.Namespace) -> int:
    try:
        handle = os.open(arguments.file, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    except FileExistsError:
        raise BadInput(f"{arguments.file}: there already, and a course keeps its secret") from None
    with os.fdopen(handle, "w", encoding="ascii") as file:
        file.write(secrets.token_hex(32) + "\n")
    print(f"{arguments.file}: readable by you alone; its holder can make tickets")
    return EXIT_OK


def autograder(arguments: argparse.Namespace) -> int:
    lab = load_lab(arguments.lab)
    key = read_secret(arguments.secret)
    out = arguments.out or Path(f"{lab.name}-{arguments.format}.zip")
    write_bundle(lab, arguments.format, arguments.course, key, out)
    print(out)
    return EXIT_OK


def grade_verb(arguments: argparse.Namespace) -> int:
    if arguments.roster is not None:
        return class_cli.grade_class(arguments)
    if arguments.submission is None:
        raise BadInput(f"grade {arguments.lab}: say which lab and what: ./lab grade LAB HAND-IN")
    for name in ("jobs", "assignment"):
        if getattr(arguments, name) is not None:
            raise BadInput(f"--{name}: of a class: name its --roster as well")
    text = written(graded(arguments), arguments.format, os.environ, datetime.now(UTC))
    if arguments.out:
        arguments.out.write_text(text + "\n", encoding="utf-8")
    else:
        print(text)
    return EXIT_OK


def graded(arguments: argparse.Namespace) -> Grade:
    """A hand-in's grade. Raises BadInput for what the teacher wrote alone."""
    lab = load_lab(arguments.lab)
    key = read_secret(arguments.secret)
    known = arguments.student or student_of(arguments.metadata)
    if not arguments.submission.exists():
        raise BadInput(f"{arguments.submission}: no such folder, zip or tar")

    def asked_of(student: str) -> Assignment:
        return assigned(lab, student, arguments.course, key)

    # An autograder has no teacher beside it who could give another option.
    asks_a_person = arguments.format in ("text", "json", "junit")
    try:
        with ExitStack() as held:
            with only_bad_input(arguments.submission):
                folder = held.enter_context(opened(arguments.submission))
                told = read_object(folder / ASSIGNMENT) or {}
                named = str(told.get("student", ""))
                student = known or (named if STUDENT.fullmatch(named) else "unknown")
                assignment = asked_of(student)
                lacking = lacks(assignment, told, key, arguments.submission)
                if asks_a_person and lacking:
                    raise NotGraded(lacking)
                found = grade(assignment, folder)
            if known is None:
                note = "the student is whom the hand-in names: --student says who it must be"
                found = replace(found, notes=(note,))
            return rerun(found, assignment, folder) if arguments.rerun else found
    except BadInput as error:
        if asks_a_person and isinstance(error, NoHandIn | NotGraded):
            raise
        # of the upload: the lab and what the teacher wrote were read before
        return nothing(asked_of(known or "unknown"), [str(error)])


MAX_STUDENTS_BYTES = 2**20


class NotGraded(BadInput):
    """The command does not name the hand-in's lab, course or secret."""


def student_of(metadata: Path | None) -> str | None:
    """Who handed in, by Gradescope's submission_metadata.json. Raises BadInput."""
    if metadata is None:
        return None
    users = (read_object(metadata) or {}).get("users")
    emails = [
        each["email"]
        for each in (users if isinstance(users, list) else ())
        if isinstance(each, dict) and isinstance(each.get("email"), str)
    ]
    if len(emails) != 1:
        raise BadInput(f"{metadata}: {len(emails)} users with an email: a lab is one student's")
    return emails[0]


def rerun(found: Grade, assignment: Assignment, folder: Path) -> Grade:
    """The grade with what a rerun of one run says; nothing counts where it says otherwise. Raises
    MissingPart, MachineError, ResultsError, OSError.
    """
    if found.problems:
        return replace(found, reran=("not made: nothing to compare with",))
    sealed = read_sealed(folder / SEALED, assignment.lab)
    runs = find_runs(assignment, sealed, folder / RESULTS)
    drawn = secrets.choice([*runs.records, *runs.own])
    with TemporaryDirectory(prefix="gostlab-rerun-") as scratch:
        asked = Path(scratch, "run.json")
        asked.write_text(json.dumps(drawn.run.to_json()), encoding="utf-8")
        end = api.execute(str(asked), Path(scratch, "again"))
        if end.outcome != "ok":
            raise ResultsError(f"{drawn.run.name}: could not be run again: {end.status}")
        is_same, lines = compare(drawn, Records(end.folder, drawn.run))
    if is_same:
        return replace(found, reran=lines)
    lost = nothing(assignment, [f"rerun: {line}" for line in lines])
    return replace(lost, by_hand=found.by_hand, notes=found.notes, reran=lines)
