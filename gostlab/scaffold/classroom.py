"""`./lab new lab` and `./lab new classroom`: a lab of the teacher's own, with its parts to write; a
repository that students hand in by, whose check is an exit code.
"""

import re
import shutil
from collections.abc import Mapping
from pathlib import Path

from gostlab.classroom.autograder_zip import program_files
from gostlab.classroom.cli import PUBLIC_COURSE
from gostlab.classroom.lab import list_labs, load_lab
from gostlab.classroom.workspace import FIGURE
from gostlab.errors import BadInput
from gostlab.scaffold import TEMPLATES, filled

LAB_NAME = re.compile(r"[a-z0-9]+(?:-[a-z0-9]+)*")
COURSE = re.compile(r"[A-Za-z0-9._@+-]{1,64}")
OWN_NUMBER = 99  # of a lab that is called by its folder
EXECUTABLE = 0o755
# Where the forges look.
PLACES = {"github.yml": ".github/workflows/check.yml", "gitlab.yml": ".gitlab-ci.yml"}


def write_lab(folder: Path) -> list[Path]:
    """A lab's folder with its parts to write; they. Raises BadInput, OSError."""
    if not LAB_NAME.fullmatch(folder.name):
        raise BadInput(
            f"{folder.name}: not a lab's name (small letters and digits, with - between words)"
        )
    if folder.name in {known.name for known in list_labs()}:
        raise BadInput(f"{folder.name}: there is a lab of that name")
    check_new(folder)
    marks = {"name": folder.name, "folder": shown(folder), "number": str(OWN_NUMBER)}
    return write_templates("lab", folder, marks)


def shown(folder: Path) -> str:
    """A folder as a command takes it: a path, and no name of a lab."""
    return str(folder) if folder.is_absolute() else f"./{folder}"


def write_classroom(folder: Path, lab_word: str, course: str) -> list[Path]:
    """A repository for hand-ins; what people read and change in it. Raises BadInput, OSError."""
    if not COURSE.fullmatch(course):
        raise BadInput(f"--course {course!r:.80}: not a course (letters, digits and ._@+- between)")
    lab = load_lab(lab_word)
    check_new(folder)
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


def check_new(folder: Path) -> None:
    """Raises BadInput where something stands that would be written over."""
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise BadInput(f"{folder}: is there already (name a folder that is not, or is empty)")


def write_templates(kind: str, folder: Path, marks: Mapping[str, str]) -> list[Path]:
    written = []
    for template in sorted((TEMPLATES / kind).iterdir()):
        path = folder / PLACES.get(template.name, template.name)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(filled(template, marks), encoding="utf-8")
        written.append(path)
    return written
