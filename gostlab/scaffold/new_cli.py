"""Implement `./lab new`."""

import argparse
from pathlib import Path

from gostlab import scaffold
from gostlab.classroom.cli import PUBLIC_COURSE
from gostlab.cli.common import EXIT_OK, verb, word
from gostlab.errors import BadInput
from gostlab.registry import folders
from gostlab.scaffold import classroom

LAB, CLASSROOM = "lab", "classroom"


@verb(
    "new",
    "write the files of a new plugin or lab, with parts to fill in",
    word("kind", choices=[*scaffold.KINDS, LAB, CLASSROOM], help="type of plugin to add"),
    word("name", help="name in an experiment; for a lab or a classroom, the folder"),
    word("--lab", help="number, name or folder of the lab of a classroom"),
    word("--course", help="name of the course and year of a classroom"),
    example="./lab new tunnel socat  (CONTRIBUTING.md)",
)
def new_verb(arguments: argparse.Namespace) -> int:
    folder = Path(arguments.name)
    if arguments.kind == CLASSROOM:
        if arguments.lab is None:
            raise BadInput("--lab is missing: the lab that the classroom hands in (like --lab 3)")
        for path in classroom.write_classroom(
            folder, arguments.lab, arguments.course or PUBLIC_COURSE
        ):
            print(path)
        print(f"{folder}/grader: what the check reads; students leave it as it is")
        print(f"next: read {folder}/README.md; git init {folder}; push it as a template")
        return EXIT_OK
    if arguments.lab or arguments.course:
        raise BadInput(f"--lab and --course are for a classroom, not for a {arguments.kind}")
    if arguments.kind == LAB:
        for path in classroom.write_lab(folder):
            print(f"to fill in: {path}")
        print(
            f"then: ./lab lab start {classroom.as_path_argument(folder)} --student somebody:"
            " says what is left"
        )
        return EXIT_OK
    for path in scaffold.write_kind(arguments.kind, arguments.name):
        print(f"to fill in: {folders.from_root(path)}")
    print("then: make fast; python3 -m gostlab.reference makes its row in the docs")
    return EXIT_OK
