# SPDX-License-Identifier: MIT
"""Check that a teacher's lab is complete before `start` gives anybody values."""

from collections.abc import Mapping

from gostlab.classroom.answers import read_answers
from gostlab.classroom.expressions import FormulaError, Value, evaluate, fill_formulas
from gostlab.classroom.grading import select_runs
from gostlab.classroom.lab import ANSWERS, CHECKS, EXPERIMENT, GUIDE, PLAN, SECTIONS, CourseLab
from gostlab.classroom.raw_metrics import FIGURES, UnreadableRecord
from gostlab.classroom.student_assignment import Assignment, assignment_in_course
from gostlab.spec.yaml_source import BadInput, Node, load_document, mapping_of, suggest_name

NEEDED = (GUIDE, EXPERIMENT, ANSWERS, CHECKS, PLAN)


def check_lab(lab: CourseLab) -> None:
    """Reject, by file and line, a lab in which a student could not get all points.

    Causes are a missing part, a key that the sheet or the page lacks, and an unknown metric or run.
    Raises BadInput.
    """
    for name in NEEDED:
        if not (lab.folder / name).is_file():
            raise BadInput(f"{lab.folder / name}: not there: ./lab new lab writes one to fill in")
    root = mapping_of(load_document(lab.folder / CHECKS))
    check_answers_template(lab)
    check_readme(lab)
    assignment = assignment_in_course(lab, "somebody", "")
    check_metrics(lab, assignment, root)
    check_formulas(lab, assignment, root)


def check_answers_template(lab: CourseLab) -> None:
    """Reject answers.yaml unless it has one line for every answer that earns points."""
    path = lab.folder / ANSWERS
    read_answers(path, lab)
    root = mapping_of(load_document(path))
    for section in SECTIONS:
        node = root.get(section)
        there = {} if node is None or node.fields is None else node.fields
        for key in lab.keys(section):
            if key not in there:
                line = "" if node is None or node.line is None else f":{node.line}"
                raise BadInput(f"{path}{line}: {section}.{key} is missing: {CHECKS} names it")


def check_readme(lab: CourseLab) -> None:
    """Reject README.md unless it mentions every answer and every value that is not hidden."""
    page = (lab.folder / GUIDE).read_text(encoding="utf-8")
    answers = [f"{section}.{key}" for section in SECTIONS for key in lab.keys(section)]
    values = [name for name in lab.drawn if name not in lab.hidden]
    for name in (*answers, *values):
        if f"`{name}`" not in page:
            raise BadInput(f"{lab.folder / GUIDE}: `{name}` is not on the page: say what it is")


def check_metrics(lab: CourseLab, assignment: Assignment, root: Mapping[str, Node]) -> None:
    """Reject metrics that do not exist and metrics of runs that do not exist."""
    nodes = mapping_of(root["measured"]) if lab.measured else {}
    for name, wanted in lab.measured.items():
        node = nodes[name]
        if wanted.figure not in FIGURES:
            raise node.bad(
                f"figure {wanted.figure!r:.60}: none of a run"
                f" ({suggest_name(wanted.figure, FIGURES)})"
            )
        runs = assignment.own_runs(1) if wanted.own else assignment.runs(1)
        try:
            select_runs(wanted, assignment, runs)
        except FormulaError as error:
            raise node.bad(str(error)) from None
        except UnreadableRecord as error:
            raise node.bad(
                f"{error}: name one by its matrix and levels (`of`), or say which of several"
                " (`take`)"
            ) from None


def check_formulas(lab: CourseLab, assignment: Assignment, root: Mapping[str, Node]) -> None:
    nodes = root["points"].items or ()
    names: dict[str, Value] = {**assignment.values, **dict.fromkeys(lab.measured, 1.0)}
    for point, node in zip(lab.points, nodes, strict=True):
        try:
            for formula in point.formulas:
                evaluate(formula, names)
            fill_formulas(point.says, assignment.visible_values)
        except FormulaError as error:
            raise node.bad(f"{point.name}: {error}") from None
