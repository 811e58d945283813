# SPDX-License-Identifier: MIT
"""Implement the teacher's commands: `./lab lab ticket|secret|autograder` and `./lab grade`.

Grading needs only Python and PyYAML, unless a run is to be repeated.
"""

import argparse
import json
import os
import secrets
from contextlib import ExitStack
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from tempfile import TemporaryDirectory

from gostlab import api
from gostlab.classroom import grade_class_cli
from gostlab.classroom.answers import SEALED, read_sealed
from gostlab.classroom.autograder_zip import write_bundle
from gostlab.classroom.grade_formats import format_grade
from gostlab.classroom.grading import RESULTS, Grade, find_mismatch, find_runs, grade, grade_nothing
from gostlab.classroom.lab import load_lab
from gostlab.classroom.raw_metrics import RawRecords
from gostlab.classroom.rerun import compare_with_rerun
from gostlab.classroom.roster import read_receipts, read_roster
from gostlab.classroom.safe_extract import NoHandIn, only_bad_input, open_upload
from gostlab.classroom.student_assignment import (
    STUDENT,
    Assignment,
    assignment_in_course,
    read_secret,
)
from gostlab.classroom.tickets import ticket_lines, write_secret
from gostlab.classroom.workspace import ASSIGNMENT
from gostlab.cli.common import EXIT_OK
from gostlab.results import ResultsError, read_object
from gostlab.spec.yaml_source import BadInput


def ticket(arguments: argparse.Namespace) -> int:
    lab = load_lab(arguments.lab)
    key = read_secret(arguments.secret)
    students = [pupil.primary_identifier for pupil in read_roster(arguments.students).pupils]
    for line in ticket_lines([lab], students, arguments.course, key):
        print(line, end="")
    return EXIT_OK


def secret(arguments: argparse.Namespace) -> int:
    write_secret(arguments.file)
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
        return grade_class_cli.grade_class(arguments)
    if arguments.submission is None:
        raise BadInput(f"grade {arguments.lab}: say which lab and what: ./lab grade LAB HAND-IN")
    for name in ("jobs", "assignment"):
        if getattr(arguments, name) is not None:
            raise BadInput(f"--{name}: of a class: name its --roster as well")
    text = format_grade(
        grade_submission(arguments), arguments.format, os.environ, datetime.now(UTC)
    )
    if arguments.out:
        arguments.out.write_text(text + "\n", encoding="utf-8")
    else:
        print(text)
    return EXIT_OK


def grade_submission(arguments: argparse.Namespace) -> Grade:
    """Return a hand-in's grade. Raises BadInput only for errors in the command or in the lab."""
    lab = load_lab(arguments.lab)
    key = read_secret(arguments.secret)
    known = arguments.student or student_of(arguments.metadata)
    receipts = read_receipts(arguments.receipts)
    if not arguments.submission.exists():
        raise BadInput(f"{arguments.submission}: no such folder, zip or tar")

    def assignment_of(student: str) -> Assignment:
        return assignment_in_course(lab, student, arguments.course, key)

    # An autograder runs without a teacher who could change the options.
    is_interactive = arguments.format in ("text", "json", "junit")
    try:
        with ExitStack() as stack:
            with only_bad_input(arguments.submission):
                folder = stack.enter_context(open_upload(arguments.submission))
                metadata = read_object(folder / ASSIGNMENT) or {}
                named = str(metadata.get("student", ""))
                student = known or (named if STUDENT.fullmatch(named) else "unknown")
                assignment = assignment_of(student)
                lacking = find_mismatch(assignment, metadata, key, arguments.submission)
                if is_interactive and lacking:
                    raise NotGraded(lacking)
                receipt = None if receipts is None else receipts.get(student.casefold(), "")
                result = grade(assignment, folder, receipt)
            if known is None:
                note = "the student is whom the hand-in names: --student says who it must be"
                result = replace(result, notes=(note,))
            return rerun(result, assignment, folder) if arguments.rerun else result
    except BadInput as error:
        if is_interactive and isinstance(error, NoHandIn | NotGraded):
            raise
        # The error is in the upload: the lab and the teacher's files were read before.
        return grade_nothing(assignment_of(known or "unknown"), [str(error)])


class NotGraded(BadInput):
    """A command that does not match the lab, course or secret of the hand-in."""


def student_of(metadata: Path | None) -> str | None:
    """Return the submitter's email in Gradescope's submission_metadata.json. Raises BadInput."""
    if metadata is None:
        return None
    users = (read_object(metadata) or {}).get("users")
    emails = [
        user["email"]
        for user in (users if isinstance(users, list) else ())
        if isinstance(user, dict) and isinstance(user.get("email"), str)
    ]
    if len(emails) != 1:
        raise BadInput(f"{metadata}: {len(emails)} users with an email: a lab is one student's")
    return emails[0]


def rerun(result: Grade, assignment: Assignment, folder: Path) -> Grade:
    """Repeat one run of a hand-in and return the grade; no points count if the rerun differs.

    Raises MissingPart, MachineError, ResultsError, OSError.
    """
    if result.problems:
        return replace(result, reran=("not made: nothing to compare with",))
    sealed = read_sealed(folder / SEALED, assignment.lab)
    runs = find_runs(assignment, sealed, folder / RESULTS)
    drawn = secrets.choice([*runs.records, *runs.own_runs])
    with TemporaryDirectory(prefix="gostlab-rerun-") as scratch:
        description = Path(scratch, "run.json")
        description.write_text(json.dumps(drawn.run.to_json()), encoding="utf-8")
        end = api.execute_run_file(str(description), Path(scratch, "again"))
        if end.outcome != "ok":
            raise ResultsError(f"{drawn.run.name}: could not be run again: {end.status}")
        is_same, lines = compare_with_rerun(drawn, RawRecords(end.folder, drawn.run))
    if is_same:
        return replace(result, reran=lines)
    lost = grade_nothing(assignment, [f"rerun: {line}" for line in lines])
    return replace(lost, by_hand=result.by_hand, notes=result.notes, reran=lines)
