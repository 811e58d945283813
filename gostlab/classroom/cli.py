"""The words of the classroom's verbs: `./lab labs`, `./lab lab ACTION`, `./lab grade`. Apart from
what they start, which takes a second to import.

docs/how-to/teaching.md is for the teacher, labs/README.md for the student.
"""

import argparse
from collections.abc import Callable
from pathlib import Path
from types import ModuleType

from gostlab.classroom import class_cli, leaderboard_cli, student_cli, teacher_cli
from gostlab.cli.common import JSON, Verb, add_actions, flag, folder, jobs

PUBLIC_COURSE = "public"
STUDENT, TEACHER, CLASS, RANK = student_cli, teacher_cli, class_cli, leaderboard_cli
# action (and, with _ for -, its function): whose, what it does, an example
ACTIONS = {
    "start": (STUDENT, "begin a lab: your own values, and a sheet for answers", "3 --student me"),
    "predict": (STUDENT, "seal your predictions; the runs will belong to them", "3"),
    "run": (
        STUDENT,
        "make the lab's runs, and those of your own experiment if the lab has one",
        "3",
    ),
    "report": (STUDENT, "tables, figures and one page of your runs", "3"),
    "hand-in": (STUDENT, "check that nothing is missing and pack it", "3"),
    "rank": (
        RANK,
        "whose congestion control shares a link best (lab 9)",
        "9 coursework/9-two-tunnels/mine.c",
    ),
    "ticket": (
        TEACHER,
        "the tickets of a course with a secret, as CSV",
        "3 --secret F --students T",
    ),
    "secret": (TEACHER, "make a course's secret", "course.secret"),
    "key": (
        CLASS,
        "what would be right for one student",
        "3 --student alice --course C --secret F",
    ),
    "autograder": (TEACHER, "what Gradescope or Classroom 50 needs", "3 --format gradescope"),
}


def starts(module: ModuleType, function: str) -> Callable[[argparse.Namespace], int]:
    """A function of a module, which is read when it is called."""
    return lambda arguments: int(getattr(module, function)(arguments))


def lab_arguments(lab: argparse.ArgumentParser) -> None:
    actions = add_actions(lab)
    made = {}
    for name, (module, summary, example) in ACTIONS.items():
        said = summary if module in (STUDENT, RANK) else f"for teachers: {summary}"
        made[name] = actions.add_parser(
            name, help=said, description=said, epilog=f"example: ./lab lab {name} {example}"
        )
        function = "rank_students" if name == "rank" else name.replace("-", "_")
        made[name].set_defaults(verb=starts(module, function))
        if name != "secret":
            made[name].add_argument("lab", help="its number, its name, or a folder")
    start = made["start"]
    start.add_argument("--student", required=True, help="who you are: as your teacher knows you")
    start.add_argument("--ticket", help="from your teacher, in a course with a secret")
    start.add_argument("--folder", type=Path, help="where (default: coursework/LAB)")
    flag("--again", "seal others in place of those sealed before")(made["predict"])
    jobs()(made["run"])
    made["hand-in"].add_argument("--out", type=Path, help="the zip (default: beside the folder)")
    made["rank"].add_argument(
        "what", type=Path, help="a C file, a hand-in's folder, or a folder or zip with everybody's"
    )
    made["rank"].add_argument("--roster", type=Path, help="the course's students, a CSV file")
    made["rank"].add_argument(
        "--out", type=folder, help="the folder to write (default: ranked-LAB)"
    )
    jobs()(made["rank"])
    for each in (start, made["ticket"], made["key"], made["rank"], made["autograder"]):
        add_course(each)
    made["key"].add_argument("--student", required=True, help="whose")
    made["key"].add_argument(
        "--hand-in", type=Path, help="the hand-in: then also what depends on the runs"
    )
    made["ticket"].add_argument(
        "--students", type=Path, required=True, help="a file with a student a line"
    )
    made["secret"].add_argument("file", type=Path, help="what to write; keep it to yourself")
    made["autograder"].add_argument(
        "--format", choices=("gradescope", "classroom50"), required=True, help="for which"
    )
    made["autograder"].add_argument("--out", type=Path, help="what to write")


def add_course(verb: argparse.ArgumentParser) -> None:
    """What tells one course from another."""
    verb.add_argument("--course", default=PUBLIC_COURSE, help="a word for course and year")
    verb.add_argument("--secret", type=Path, help="the course's secret, a file")


def grade_arguments(grade: argparse.ArgumentParser) -> None:
    grade.add_argument("lab", help="its number, its name, or a folder (a class's hand-ins say it)")
    grade.add_argument(
        "submission",
        type=Path,
        nargs="?",
        help="a folder, a zip or a tar; with --roster: with everybody's in it",
    )
    grade.add_argument(
        "--roster", type=Path, help="a class at once: its students, a CSV file with or without head"
    )
    jobs("of a class: hand-ins side by side")(grade)
    grade.add_argument(
        "--assignment", help="of a class: what gradebooks call it (default: its title)"
    )
    grade.add_argument("--student", help="whose it must be (default: whose it says it is)")
    grade.add_argument(
        "--metadata", type=Path, help="Gradescope's submission_metadata.json: whose it must be"
    )
    add_course(grade)
    flag("--rerun", "run one of its runs again and compare (sandbox)")(grade)
    grade.add_argument(
        "--format",
        choices=("text", "json", "junit", "gradescope", "classroom50"),
        default="text",
        help="how to say it (default: text)",
    )
    grade.add_argument("--out", type=Path, help="write it there instead; of a class: the folder")


VERBS = (
    Verb("labs", "the classroom labs, a line each", JSON, starts(STUDENT, "labs_verb")),
    Verb(
        "lab",
        "work on a classroom lab",
        lab_arguments,
        starts(STUDENT, "ACTION"),
        parser={"description": "Work on a lab."},
    ),
    Verb(
        "grade",
        "grade a hand-in from its files; no sandbox needed",
        grade_arguments,
        starts(TEACHER, "grade_verb"),
        "./lab grade labs/3 upload.zip --student alice --format gradescope",
        parser={
            "description": "Grade a hand-in: a folder, a zip or a tar; with --roster a class's, as"
            " Moodle, Canvas and Gradescope hand them over. Exit code 0: all was graded."
        },
    ),
)
