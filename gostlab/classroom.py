"""The classroom's verbs: `./lab labs`, `./lab lab ACTION`, `./lab grade`.

docs/teaching.md is for the teacher, labs/README.md for the student.
"""

from __future__ import annotations

import argparse
import csv
import json
import os
import secrets
import sys
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

from gostlab.ask.document import BadInput
from gostlab.results import ResultsError, read_object

if TYPE_CHECKING:
    from gostlab.course.assignment import Assignment

EXIT_OK, EXIT_FAILED = 0, 1
ACTIONS: list[tuple[str, str, str]] = [
    ("start", "begin a lab: your own values, and a sheet for your answers", "3 --student me"),
    ("predict", "seal your predictions; the runs will belong to them", "3"),
    ("run", "run what the lab asks you to, and your own experiment where it asks for one", "3"),
    ("report", "tables, figures and one page of your runs", "3"),
    ("hand-in", "check that nothing is missing and pack it", "3"),
    (
        "ticket",
        "for teachers: the tickets of a course with a secret, as CSV",
        "3 --secret F --students names.txt",
    ),
    ("secret", "for teachers: make a course's secret", "course.secret"),
    ("autograder", "for teachers: what Gradescope or Classroom 50 needs", "3 --format gradescope"),
]


def add_verbs(verbs: Any, add_json: Callable[[Any], None]) -> None:
    """Add `labs`, `lab` and `grade` to the command line."""
    labs = verbs.add_parser("labs", help="the classroom labs, a line each")
    labs.set_defaults(verb=labs_verb)
    add_json(labs)
    lab = verbs.add_parser("lab", help="work on a classroom lab", description="Work on a lab.")
    actions = lab.add_subparsers(dest="action", metavar="ACTION", required=True)
    made = {}
    for name, summary, example in ACTIONS:
        made[name] = actions.add_parser(
            name, help=summary, description=summary, epilog=f"example: ./lab lab {name} {example}"
        )
        made[name].set_defaults(verb=lab_verb)
        if name != "secret":
            made[name].add_argument("lab", help="its number, its name, or a folder")
    start = made["start"]
    start.add_argument("--student", required=True, help="who you are: as your teacher knows you")
    start.add_argument("--ticket", help="from your teacher, in a course with a secret")
    start.add_argument("--folder", type=Path, help="where (default: coursework/LAB)")
    made["predict"].add_argument(
        "--again", action="store_true", help="seal others in place of those sealed before"
    )
    made["run"].add_argument("--jobs", type=int, help="runs side by side (default: one per CPU)")
    made["hand-in"].add_argument("--out", type=Path, help="the zip (default: beside the folder)")
    for each in (start, made["ticket"], made["autograder"]):
        add_course(each)
    made["ticket"].add_argument(
        "--students", type=Path, required=True, help="a file with a student a line"
    )
    made["secret"].add_argument("file", type=Path, help="what to write; keep it to yourself")
    made["autograder"].add_argument(
        "--format", choices=("gradescope", "classroom50"), required=True, help="for which"
    )
    made["autograder"].add_argument("--out", type=Path, help="what to write")
    add_grade(verbs)


def add_course(verb: argparse.ArgumentParser) -> None:
    """What tells one course from another."""
    from gostlab.course.assignment import PUBLIC_COURSE

    verb.add_argument("--course", default=PUBLIC_COURSE, help="a word for course and year")
    verb.add_argument("--secret", type=Path, help="the course's secret, a file")


def add_grade(verbs: Any) -> None:
    """`./lab grade`."""
    grade = verbs.add_parser(
        "grade",
        help="grade a hand-in from its files; no sandbox needed",
        description="Grade a hand-in: a folder, a zip or a tar. Exit code 0: it was graded.",
        epilog="example: ./lab grade labs/3 upload.zip --student alice --format gradescope",
    )
    grade.set_defaults(verb=grade_verb)
    grade.add_argument("lab", help="the lab: its number, its name, or a folder")
    grade.add_argument("submission", type=Path, help="a folder, a zip or a tar")
    grade.add_argument("--student", help="whose it must be (default: whose it says it is)")
    grade.add_argument(
        "--metadata", type=Path, help="Gradescope's submission_metadata.json: whose it must be"
    )
    add_course(grade)
    grade.add_argument(
        "--rerun", action="store_true", help="run one of its runs again and compare (sandbox)"
    )
    grade.add_argument(
        "--format",
        choices=("text", "json", "junit", "gradescope", "classroom50"),
        default="text",
        help="how to say it (default: text)",
    )
    grade.add_argument("--out", type=Path, help="write it there instead")


def complain(sentence: str) -> None:
    """One line for the person who can mend it."""
    print(f"gostlab: {sentence}", file=sys.stderr, flush=True)


# -- the verbs


def labs_verb(arguments: argparse.Namespace) -> int:
    """`./lab labs`."""
    from gostlab.course.lab import list_labs, load_lab

    found = [load_lab(str(folder)) for folder in list_labs()]
    if arguments.json:
        told = [
            {
                "lab": lab.number,
                "name": lab.name,
                "title": lab.title,
                "goals": lab.goals,
                "minutes": lab.minutes,
                "points": lab.most,
                "folder": str(lab.folder),
            }
            for lab in found
        ]
        print(json.dumps(told, indent=2))
        return EXIT_OK
    for lab in found:
        print(f"{lab.number}  {lab.title} ({lab.minutes:g} min of runs, {lab.most} points)")
        for goal in lab.goals:
            print(f"     {goal}")
    print("begin: ./lab lab start 0 --student NAME · labs/README.md")
    return EXIT_OK


def lab_verb(arguments: argparse.Namespace) -> int:
    """`./lab lab ACTION`."""
    return {
        "start": start,
        "predict": predict,
        "run": run,
        "report": report,
        "hand-in": hand_in,
        "ticket": tickets,
        "secret": make_secret,
        "autograder": autograder,
    }[arguments.action](arguments)


def start(arguments: argparse.Namespace) -> int:
    """`./lab lab start`."""
    from gostlab.course.assignment import assign, read_secret, ticket_of
    from gostlab.course.desk import FOLDER, TASK, make_desk
    from gostlab.course.lab import ANSWERS, load_lab

    lab = load_lab(arguments.lab)
    secret = read_secret(arguments.secret) if arguments.secret else None
    ticket = arguments.ticket or ticket_of(lab, arguments.student, arguments.course, secret)
    assignment = assign(lab, arguments.student, arguments.course, ticket)
    folder = arguments.folder or FOLDER / lab.name
    make_desk(assignment, folder)
    print(f"{lab.title}: {folder}")
    for name, text in assignment.sets.items():
        print(f"  {name}: {text}")
    print(f"read {folder / TASK}, fill in the predictions of {folder / ANSWERS}")
    print(f"next: ./lab lab predict {named(lab.number, arguments.folder)}")
    return EXIT_OK


def named(number: int, folder: Path | None) -> str:
    """How to call a lab's folder in the next command."""
    return str(folder) if folder else str(number)


def desk(word: str) -> tuple[Path, Assignment]:
    """A student's folder and what he is asked. Raises BadInput."""
    from gostlab.course.desk import find_desk, open_desk

    folder = find_desk(word)
    return folder, open_desk(folder)


def predict(arguments: argparse.Namespace) -> int:
    """`./lab lab predict`."""
    from gostlab.course.answers import TIME
    from gostlab.course.desk import seal_predictions

    folder, assignment = desk(arguments.lab)
    sealed = seal_predictions(folder, assignment, again=arguments.again)
    for key, text in sealed.predictions.items():
        print(f"  {key}: {text}")
    print(f"sealed {sealed.at.strftime(TIME)}: the seed of your runs is made of them")
    print(f"next: ./lab lab run {arguments.lab}")
    return EXIT_OK


def run(arguments: argparse.Namespace) -> int:
    """`./lab lab run`."""
    from gostlab import api
    from gostlab.course.desk import differences, sealed_seed
    from gostlab.course.grading import RESULTS
    from gostlab.matrix.progress import progress_on_stderr
    from gostlab.matrix.summary import print_summary

    folder, assignment = desk(arguments.lab)
    seed = sealed_seed(folder, assignment)
    plans = [
        api.plan(
            str(assignment.lab.experiment_path), overrides=assignment.sets, on="sandbox", seed=seed
        )
    ]
    own = assignment.lab.own
    if own and (folder / own.file).is_file():
        plans.append(api.plan(str(folder / own.file), on="sandbox", seed=seed))
        other = differences(list(plans[-1].runs), assignment, seed)
        if other:
            complain(f"{folder / own.file}: not what is asked yet: {', '.join(other)}")
    elif own:
        complain(f"{folder / own.file}: not there yet: {assignment.lab.title} asks for it")
    status = EXIT_OK
    for plan in plans:
        with progress_on_stderr(plan.experiment.name, quiet=False) as progress:
            outcome = api.run(plan, folder / RESULTS, jobs=arguments.jobs, progress=progress)
        for line in outcome.complaints:
            complain(line)
        print_summary(api.summary(outcome), outcome.first_cc, sys.stdout)
        print(f"{outcome.counts_line} · {folder / RESULTS}")
        if outcome.failed or outcome.invalid or outcome.nothing_answered:
            status = EXIT_FAILED
    print(f"next: ./lab lab report {arguments.lab}, then ./lab lab hand-in {arguments.lab}")
    return status


def report(arguments: argparse.Namespace) -> int:
    """`./lab lab report`."""
    from gostlab import api
    from gostlab.course.grading import RESULTS

    folder, _ = desk(arguments.lab)
    print(api.report(folder / RESULTS, out=folder / "report"))
    return EXIT_OK


def hand_in(arguments: argparse.Namespace) -> int:
    """`./lab lab hand-in`."""
    from gostlab.course.desk import unfinished
    from gostlab.course.grading import grade
    from gostlab.course.upload import check_folder, pack

    folder, assignment = desk(arguments.lab)
    left = unfinished(folder, assignment)
    check_folder(folder)
    left += grade(assignment, folder).problems
    for line in left:
        complain(line)
    archive = arguments.out or folder.with_name(f"{folder.name}-{assignment.student}.zip")
    pack(folder, archive)
    print(f"{'packed as it is' if left else 'complete'}: {archive}")
    return EXIT_FAILED if left else EXIT_OK


def tickets(arguments: argparse.Namespace) -> int:
    """`./lab lab ticket`."""
    from gostlab.course.assignment import read_secret, ticket_of
    from gostlab.course.lab import load_lab

    lab = load_lab(arguments.lab)
    if arguments.secret is None:
        raise BadInput("--secret is missing: without one students need no tickets")
    secret = read_secret(arguments.secret)
    names = arguments.students.read_text(encoding="utf-8").split("\n")
    table = csv.writer(sys.stdout, lineterminator="\n")
    table.writerow(["student", "lab", "course", "ticket"])
    for student in dict.fromkeys(name.strip() for name in names if name.strip()):
        ticket = ticket_of(lab, student, arguments.course, secret)
        table.writerow([student, lab.name, arguments.course, ticket])
    return EXIT_OK


def make_secret(arguments: argparse.Namespace) -> int:
    """`./lab lab secret`."""
    try:
        handle = os.open(arguments.file, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    except FileExistsError:
        raise BadInput(f"{arguments.file}: there already, and a course keeps its secret") from None
    with os.fdopen(handle, "w", encoding="ascii") as file:
        file.write(secrets.token_hex(32) + "\n")
    print(f"{arguments.file}: readable by you alone; whoever has it can make tickets")
    return EXIT_OK


def autograder(arguments: argparse.Namespace) -> int:
    """`./lab lab autograder`."""
    from gostlab.course.assignment import read_secret
    from gostlab.course.bundle import write_bundle
    from gostlab.course.lab import load_lab

    lab = load_lab(arguments.lab)
    secret = read_secret(arguments.secret) if arguments.secret else None
    out = arguments.out or Path(f"{lab.name}-{arguments.format}.zip")
    write_bundle(lab, arguments.format, arguments.course, secret, out)
    print(out)
    return EXIT_OK


def grade_verb(arguments: argparse.Namespace) -> int:
    """`./lab grade`."""
    from gostlab.course.formats import written

    grade = graded(arguments)
    text = written(grade, arguments.format, os.environ, datetime.now(UTC))
    if arguments.out:
        arguments.out.write_text(text + "\n", encoding="utf-8")
    else:
        print(text)
    return EXIT_OK


def graded(arguments: argparse.Namespace) -> Any:
    """A hand-in's grade. Raises BadInput for what the teacher wrote; what is wrong with the hand-in
    is in the grade.
    """
    from dataclasses import replace

    from gostlab.course.assignment import STUDENT, assign, read_secret, ticket_of
    from gostlab.course.desk import ASSIGNMENT
    from gostlab.course.grading import grade, nothing
    from gostlab.course.lab import load_lab
    from gostlab.course.upload import opened

    lab = load_lab(arguments.lab)
    secret = read_secret(arguments.secret) if arguments.secret else None
    known = arguments.student or student_of(arguments.metadata)
    if not arguments.submission.exists():
        raise BadInput(f"{arguments.submission}: no such folder, zip or tar")

    def asked_of(student: str) -> Assignment:
        ticket = ticket_of(lab, student, arguments.course, secret)
        return assign(lab, student, arguments.course, ticket)

    try:
        with opened(arguments.submission) as folder:
            told = str((read_object(folder / ASSIGNMENT) or {}).get("student", ""))
            student = known or (told if STUDENT.fullmatch(told) else "unknown")
            assignment = asked_of(student)
            found = grade(assignment, folder)
            if known is None:
                note = "the student is whom the hand-in names: --student says who it must be"
                found = replace(found, notes=(note,))
            return rerun(found, assignment, folder) if arguments.rerun else found
    except BadInput as error:
        # of the upload: the lab and what the teacher wrote were read before
        return nothing(asked_of(known or "unknown"), [str(error)])


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


def rerun(found: Any, assignment: Assignment, folder: Path) -> Any:
    """The grade with what a rerun of one run says; nothing counts where it says otherwise. Raises
    MissingPart, MachineError, ResultsError, OSError.
    """
    from dataclasses import replace

    from gostlab import api
    from gostlab.course.answers import SEALED, read_sealed
    from gostlab.course.evidence import Records
    from gostlab.course.grading import RESULTS, find_runs, nothing
    from gostlab.course.rerun import compare

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
        compared = compare(drawn, Records(end.folder, drawn.run))
    if compared.same:
        return replace(found, reran=compared.lines)
    lost = nothing(assignment, [f"rerun: {line}" for line in compared.lines])
    return replace(lost, by_hand=found.by_hand, notes=found.notes, reran=compared.lines)
