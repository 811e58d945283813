# SPDX-License-Identifier: MIT
"""Write a course, a teacher's lab, or a repository for hand-ins: `./lab new course|lab|classroom`.

The parts of the lab are to be written by the teacher. The repository's check is an exit code.
"""

import argparse
import re
import shutil
from collections.abc import Mapping
from pathlib import Path

from gostlab.classroom.autograder_zip import SECRET, program_files
from gostlab.classroom.lab import list_labs, load_lab
from gostlab.classroom.roster import read_roster
from gostlab.classroom.student_assignment import PUBLIC_COURSE
from gostlab.classroom.tickets import ticket_lines, write_private, write_secret
from gostlab.classroom.workspace import FIGURE
from gostlab.cli.common import EXIT_OK
from gostlab.errors import BadInput

TEMPLATES = Path(__file__).with_name("templates")
LAB, CLASSROOM, COURSE_FOLDER = "lab", "classroom", "course"
TICKETS = "tickets.csv"
LAB_NAME = re.compile(r"[a-z0-9]+(?:-[a-z0-9]+)*")
COURSE = re.compile(r"[A-Za-z0-9._@+-]{1,64}")
PRIVATE_LAB_NUMBER = 99  # number of a lab that is called by its folder
EXECUTABLE = 0o755
# The forges look for their configuration at these paths.
FORGE_PATHS = {"github.yml": ".github/workflows/check.yml", "gitlab.yml": ".gitlab-ci.yml"}


def new_verb(arguments: argparse.Namespace) -> int:
    folder = Path(arguments.name)
    if arguments.kind == COURSE_FOLDER:
        if arguments.lab or arguments.course:
            raise BadInput(
                "--lab and --course are for a classroom: a course is named as its folder"
            )
        return new_course(folder, arguments.students)
    if arguments.students:
        raise BadInput(f"--students: for a course, not for a {arguments.kind}")
    if arguments.kind == CLASSROOM:
        if arguments.lab is None:
            raise BadInput("--lab is missing: the lab that the classroom hands in (like --lab 3)")
        for path in write_classroom(folder, arguments.lab, arguments.course or PUBLIC_COURSE):
            print(path)
        print(f"{folder}/grader: what the check reads; students leave it as it is")
        print(f"next: read {folder}/README.md; git init {folder}; push it as a template")
        return EXIT_OK
    if arguments.lab or arguments.course:
        raise BadInput(f"--lab and --course are for a classroom, not for a {arguments.kind}")
    for path in write_lab(folder):
        print(f"to fill in: {path}")
    start = f"./lab lab start {as_path_argument(folder)} --student somebody"
    print(f"then: {start}: says what is left")
    return EXIT_OK


def new_course(folder: Path, students: Path | None) -> int:
    """Write a course's secret, and each student's ticket of each lab. Raises BadInput, OSError."""
    course = folder.name
    check_course_name(course, "a course's name")
    roster = read_roster(students) if students else None
    reject_existing_files(folder)
    folder.mkdir(parents=True, exist_ok=True)
    secret = write_secret(folder / SECRET)
    print(f"{folder / SECRET}: readable by you alone; its holder can make tickets and keys")
    options = f"--course {course} --secret {folder / SECRET}"
    if roster is None:
        print(f"tickets: ./lab lab ticket 3 {options} --students ROSTER")
    else:
        names = [pupil.primary_identifier for pupil in roster.pupils]
        labs = [load_lab(str(path)) for path in list_labs()]
        tickets = "".join(ticket_lines(labs, names, course, secret))
        write_private(folder / TICKETS, tickets)
        print(f"{folder / TICKETS}: {len(names)} students, {len(labs)} labs: give each their own")
    print(f"to grade: ./lab grade HAND-INS --roster ROSTER {options}")
    return EXIT_OK


def write_lab(folder: Path) -> list[Path]:
    """Write a lab's folder and return the parts to be written. Raises BadInput, OSError."""
    if not LAB_NAME.fullmatch(folder.name):
        raise BadInput(
            f"{folder.name}: not a lab's name (small letters and digits, with - between words)"
        )
    if folder.name in {known.name for known in list_labs()}:
        raise BadInput(f"{folder.name}: there is a lab of that name")
    reject_existing_files(folder)
    marks = {
        "name": folder.name,
        "folder": as_path_argument(folder),
        "number": str(PRIVATE_LAB_NUMBER),
    }
    return write_templates("lab", folder, marks)


def as_path_argument(folder: Path) -> str:
    """Return a folder in a form that a command does not take for the name of a lab."""
    return str(folder) if folder.is_absolute() else f"./{folder}"


def write_classroom(folder: Path, lab_word: str, course: str) -> list[Path]:
    """Write a repository for hand-ins and return the files that people read and change.

    Raises BadInput, OSError.
    """
    check_course_name(course, "--course")
    lab = load_lab(lab_word)
    reject_existing_files(folder)
    marks = {
        "title": lab.title,
        "lab": lab.name,
        "course_words": "" if course == PUBLIC_COURSE else f" --course {course}",
        "lab_word": repr(lab.name),
        "course_word": repr(course),
    }
    written = write_templates("classroom", folder, marks)
    (folder / "check").chmod(EXECUTABLE)
    for name, content in program_files(lab):
        path = folder / "grader" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
    if (lab.folder / FIGURE).is_file():
        shutil.copyfile(lab.folder / FIGURE, folder / "grader/labs" / lab.name / FIGURE)
    return written


def check_course_name(course: str, what: str) -> None:
    """Reject a course's name with other characters. Raises BadInput."""
    if not COURSE.fullmatch(course):
        raise BadInput(f"{what} {course!r:.80}: not a course (letters, digits and ._@+- between)")


def reject_existing_files(folder: Path) -> None:
    """Reject a folder with files that would be replaced. Raises BadInput."""
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise BadInput(f"{folder}: is there already (name a folder that is not, or is empty)")


def write_templates(kind: str, folder: Path, marks: Mapping[str, str]) -> list[Path]:
    written = []
    for template in sorted((TEMPLATES / kind).iterdir()):
        path = folder / FORGE_PATHS.get(template.name, template.name)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(fill_template(template, marks), encoding="utf-8")
        written.append(path)
    return written


def fill_template(template: Path, marks: Mapping[str, str]) -> str:
    """Return a template's text with its @marks@ replaced."""
    text = template.read_text(encoding="utf-8")
    for mark, value in marks.items():
        text = text.replace(f"@{mark}@", value)
    return text
