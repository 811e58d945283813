"""Declare the classroom commands: `./lab new`, `labs`, `lab ACTION`, `grade`.

The implementations take a second to import and are imported when they are called.
docs/how-to/teaching.md is for the teacher, labs/README.md for the student.
"""

import argparse
from collections.abc import Callable
from pathlib import Path
from types import ModuleType

from gostlab.classroom import class_cli, leaderboard_cli, scaffold, student_cli, teacher_cli
from gostlab.classroom.assignment import PUBLIC_COURSE
from gostlab.cli.common import JSON, Verb, add_actions, flag, folder, jobs

STUDENT, TEACHER, CLASS, RANK = student_cli, teacher_cli, class_cli, leaderboard_cli
# Each action (its function has _ for -) has a module, a summary and an example.
ACTIONS = {
    "start": (STUDENT, "begin a lab with your own values and an answer sheet", "3 --student me"),
    "predict": (STUDENT, "seal your predictions, from which the seed of the runs follows", "3"),
    "run": (STUDENT, "run the lab's experiment, and your own experiment if the lab has one", "3"),
    "report": (STUDENT, "write tables, figures and a page about your runs", "3"),
    "hand-in": (STUDENT, "check your folder for missing parts and pack it", "3"),
    "rank": (
        RANK,
        "rank congestion controls by how well they share a link (lab 9)",
        "9 coursework/9-two-tunnels/mine.c",
    ),
    "ticket": (
        TEACHER,
        "print the tickets of a course with a secret, as CSV",
        "3 --secret F --students T",
    ),
    "secret": (TEACHER, "create a course's secret", "course.secret"),
    "key": (
        CLASS,
        "print the right answers of one student",
        "3 --student alice --course C --secret F",
    ),
    "autograder": (
        TEACHER,
        "write the zip for Gradescope or Classroom 50",
        "3 --format gradescope",
    ),
}


def defer(module: ModuleType, function: str) -> Callable[[argparse.Namespace], int]:
    """Return a function that looks up and calls a function of a module."""
    return lambda arguments: int(getattr(module, function)(arguments))


def lab_arguments(lab: argparse.ArgumentParser) -> None:
    actions = add_actions(lab)
    parsers = {}
    for name, (module, summary, example) in ACTIONS.items():
        summary_line = summary if module in (STUDENT, RANK) else f"for teachers: {summary}"
        parsers[name] = actions.add_parser(
            name,
            help=summary_line,
            description=summary_line,
            epilog=f"example: ./lab lab {name} {example}",
        )
        function = "rank_students" if name == "rank" else name.replace("-", "_")
        parsers[name].set_defaults(verb=defer(module, function))
        if name != "secret":
            parsers[name].add_argument("lab", help="number or name of a lab, or its folder")
    start = parsers["start"]
    start.add_argument("--student", required=True, help="your identifier, as your teacher knows it")
    start.add_argument("--ticket", help="ticket from your teacher, in a course with a secret")
    start.add_argument("--folder", type=Path, help="folder to create (default: coursework/LAB)")
    flag("--again", "replace the predictions that are sealed already")(parsers["predict"])
    jobs()(parsers["run"])
    parsers["hand-in"].add_argument(
        "--out", type=Path, help="zip to write (default: next to the folder)"
    )
    parsers["rank"].add_argument(
        "what", type=Path, help="C file, hand-in's folder, or folder or zip with all hand-ins"
    )
    parsers["rank"].add_argument("--roster", type=Path, help="CSV file with the course's students")
    parsers["rank"].add_argument("--out", type=folder, help="output folder (default: ranked-LAB)")
    jobs()(parsers["rank"])
    for parser in (
        start,
        parsers["ticket"],
        parsers["key"],
        parsers["rank"],
        parsers["autograder"],
    ):
        add_course(parser)
    parsers["key"].add_argument("--student", required=True, help="student's identifier")
    parsers["key"].add_argument(
        "--hand-in", type=Path, help="hand-in to read, for the answers that depend on its runs"
    )
    parsers["ticket"].add_argument(
        "--students", type=Path, required=True, help="file with one student per line"
    )
    parsers["secret"].add_argument("file", type=Path, help="file to write; keep it secret")
    parsers["autograder"].add_argument(
        "--format",
        choices=("gradescope", "classroom50"),
        required=True,
        help="autograder to write it for",
    )
    parsers["autograder"].add_argument("--out", type=Path, help="zip to write")


def add_course(verb: argparse.ArgumentParser) -> None:
    """Add the options that identify a course."""
    verb.add_argument("--course", default=PUBLIC_COURSE, help="name of the course and year")
    verb.add_argument("--secret", type=Path, help="file with the course's secret")


def grade_arguments(grade: argparse.ArgumentParser) -> None:
    grade.add_argument(
        "lab", help="number or name of a lab, or its folder (optional with --roster)"
    )
    grade.add_argument(
        "submission",
        type=Path,
        nargs="?",
        help="folder, zip or tar of a hand-in; with --roster, of all hand-ins",
    )
    grade.add_argument(
        "--roster",
        type=Path,
        help="grade a whole class: CSV file of its students, with or without a header",
    )
    jobs("hand-ins of a class to grade in parallel")(grade)
    grade.add_argument(
        "--assignment",
        help="name of the assignment in gradebooks, for a class (default: the lab's title)",
    )
    grade.add_argument(
        "--student", help="student whose hand-in it must be (default: the student whom it names)"
    )
    grade.add_argument(
        "--metadata",
        type=Path,
        help="Gradescope's submission_metadata.json, which names the student",
    )
    add_course(grade)
    flag("--rerun", "repeat one of its runs in the sandbox and compare")(grade)
    grade.add_argument(
        "--format",
        choices=("text", "json", "junit", "gradescope", "classroom50"),
        default="text",
        help="output format (default: text)",
    )
    grade.add_argument(
        "--out",
        type=Path,
        help="output file, or output folder for a class (default: standard output, or graded-LAB)",
    )


def new_arguments(new: argparse.ArgumentParser) -> None:
    new.add_argument("kind", choices=[scaffold.LAB, scaffold.CLASSROOM], help="what to write")
    new.add_argument("name", help="folder to create")
    new.add_argument("--lab", help="number, name or folder of the lab of a classroom")
    new.add_argument("--course", help="name of the course and year of a classroom")


VERBS = (
    Verb(
        "new",
        "write the files of a new lab or classroom, with parts to fill in",
        new_arguments,
        defer(scaffold, "new_verb"),
        "./lab new lab my-lab",
    ),
    Verb("labs", "list the classroom labs", JSON, defer(STUDENT, "labs_verb")),
    Verb(
        "lab",
        "work on a classroom lab",
        lab_arguments,
        defer(STUDENT, "ACTION"),
        parser={"description": "Work on a lab."},
    ),
    Verb(
        "grade",
        "grade a hand-in from its files; no sandbox needed",
        grade_arguments,
        defer(TEACHER, "grade_verb"),
        "./lab grade labs/3 upload.zip --student alice --format gradescope",
        parser={
            "description": "Grade a hand-in: a folder, a zip or a tar; with --roster of a class,"
            " as Moodle, Canvas and Gradescope export them. Exit code 0 if all were graded."
        },
    ),
)
