# SPDX-License-Identifier: MIT
"""Declare the classroom commands: `./lab new`, `labs`, `lab ACTION`, `grade`.

The implementations take a second to import and are imported when they are called.
docs/how-to/teaching.md is for the teacher, labs/README.md for the student.
"""

import argparse
from collections.abc import Callable
from importlib import import_module
from pathlib import Path

from gostlab.classroom.student_assignment import PUBLIC_COURSE
from gostlab.cli.common import JSON, Verb, add_actions, declare_flag, jobs_option, parse_folder


def lazy_command(module: str, function: str) -> Callable[[argparse.Namespace], int]:

    def call(arguments: argparse.Namespace) -> int:
        return int(getattr(import_module(f"{__package__}.{module}"), function)(arguments))

    return call


def lab_arguments(lab: argparse.ArgumentParser) -> None:
    actions = add_actions(lab)

    def action(
        module: str, name: str, summary: str, example: str, function: str = ""
    ) -> argparse.ArgumentParser:
        for_teachers = module in ("teacher_cli", "grade_class_cli")
        summary = f"for teachers: {summary}" if for_teachers else summary
        epilog = f"example: ./lab lab {name} {example}"
        parser: argparse.ArgumentParser = actions.add_parser(
            name, help=summary, description=summary, epilog=epilog
        )
        parser.set_defaults(verb=lazy_command(module, function or name.replace("-", "_")))
        if name != "secret":
            parser.add_argument("lab", help="number or name of a lab, or its folder")
        return parser

    student, teacher = "student_cli", "teacher_cli"
    says = "begin a lab with your own values and an answer sheet"
    start = action(student, "start", says, "3 --student me")
    start.add_argument("--student", required=True, help="your identifier, as your teacher knows it")
    start.add_argument("--ticket", help="ticket from your teacher, in a course with a secret")
    start.add_argument("--folder", type=Path, help="folder to create (default: coursework/LAB)")
    add_course(start)
    says = "seal your predictions, once: the seed of the runs follows from them"
    action(student, "predict", says, "3")
    says = "run the lab's experiment, and your own experiment if the lab has one"
    jobs_option()(action(student, "run", says, "3"))
    action(student, "report", "write tables, figures and a page about your runs", "3")
    says = "check your folder for missing parts and pack it"
    hand_in = action(student, "hand-in", says, "3")
    hand_in.add_argument("--out", type=Path, help="zip to write (default: next to the folder)")

    says = "rank congestion controls by how well they share a link (lab 9)"
    example = "9 coursework/9-two-tunnels/mine.c"
    rank = action("leaderboard_cli", "rank", says, example, "rank_students")
    says = "C file, hand-in's folder, or folder or zip with all hand-ins"
    rank.add_argument("what", type=Path, help=says)
    rank.add_argument("--roster", type=Path, help="CSV file with the course's students")
    rank.add_argument("--out", type=parse_folder, help="output folder (default: ranked-LAB)")
    jobs_option()(rank)
    add_course(rank)

    says = "print the tickets of a course with a secret, as CSV"
    ticket = action(teacher, "ticket", says, "3 --secret F --students T")
    add_course(ticket, is_secret=True)
    says = "CSV file with the course's students"
    ticket.add_argument("--students", type=Path, required=True, help=says)
    secret = action(teacher, "secret", "create a course's secret", "course.secret")
    secret.add_argument("file", type=Path, help="file to write; keep it secret")
    example = "3 --student alice --course C --secret F"
    says = "print the right answers of one student, in a course with a secret"
    key = action("grade_class_cli", "key", says, example, "print_answer_key")
    add_course(key, is_secret=True)
    key.add_argument("--student", required=True, help="student's identifier")
    says = "hand-in to read, for the answers that depend on its runs"
    key.add_argument("--hand-in", type=Path, help=says)
    says = "write the zip for Gradescope or Classroom 50"
    autograder = action(teacher, "autograder", says, "3 --format gradescope")
    add_course(autograder)
    choices, says = ("gradescope", "classroom50"), "autograder to write it for"
    autograder.add_argument("--format", choices=choices, required=True, help=says)
    autograder.add_argument("--out", type=Path, help="zip to write")


def add_course(verb: argparse.ArgumentParser, *, is_secret: bool = False) -> None:
    """Add the options that identify a course; `is_secret` if it needs one."""
    verb.add_argument("--course", default=PUBLIC_COURSE, help="name of the course and year")
    origin = ", which ./lab new course made" if is_secret else ""
    description = f"file with the course's secret{origin}"
    verb.add_argument("--secret", type=Path, help=description, required=is_secret)


def grade_arguments(grade: argparse.ArgumentParser) -> None:
    add = grade.add_argument
    add("lab", help="number or name of a lab, or its folder (optional with --roster)")
    says = "folder, zip or tar of a hand-in; with --roster, of all hand-ins"
    add("submission", type=Path, nargs="?", help=says)
    says = "grade a whole class: CSV file of its students, with or without a header"
    add("--roster", type=Path, help=says)
    jobs_option("hand-ins of a class to grade in parallel")(grade)
    says = "name of the assignment in gradebooks, for a class (default: the lab's title)"
    add("--assignment", help=says)
    says = "student whose hand-in it must be (default: the student whom it names)"
    add("--student", help=says)
    says = "Gradescope's submission_metadata.json, which names the student"
    add("--metadata", type=Path, help=says)
    add_course(grade)
    says = "CSV file with each student's receipt of `predict`: other predictions earn nothing"
    add("--receipts", type=Path, help=says)
    declare_flag("--rerun", "repeat one of its runs in the sandbox and compare")(grade)
    forms = ("text", "json", "junit", "gradescope", "classroom50")
    add("--format", choices=forms, default="text", help="output format (default: text)")
    says = "output file, or output folder for a class (default: standard output, or graded-LAB)"
    add("--out", type=Path, help=says)


def new_arguments(new: argparse.ArgumentParser) -> None:
    new.add_argument("kind", choices=["course", "lab", "classroom"], help="what to write")
    new.add_argument("name", help="folder to create")
    new.add_argument("--lab", help="number, name or folder of the lab of a classroom")
    new.add_argument("--course", help="name of the course and year of a classroom")
    says = "roster of a course: writes each student's tickets"
    new.add_argument("--students", type=Path, help=says)


new_verb = Verb(new_arguments, lazy_command("scaffold", "new_verb"), "./lab new course net-2027")
labs_verb = Verb(JSON, lazy_command("student_cli", "labs_verb"))
lab_verb = Verb(
    lab_arguments, lazy_command("student_cli", "ACTION"), parser={"description": "Work on a lab."}
)
grade_verb = Verb(
    grade_arguments,
    lazy_command("teacher_cli", "grade_verb"),
    "./lab grade labs/3 upload.zip --student alice --format gradescope",
    parser={
        "description": "Grade a hand-in: a folder, a zip or a tar; with --roster of a class,"
        " as Moodle, Canvas and Gradescope export them. Exit code 0 if all were graded."
    },
)
