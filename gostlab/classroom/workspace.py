"""A student's folder for one lab: what is in it, and what he has to do next."""

import json
import re
import shutil
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

from gostlab import results
from gostlab.classroom.answers import (
    SEALED,
    Answers,
    Sealed,
    as_number,
    read_answers,
    read_sealed,
    seal,
)
from gostlab.classroom.assignment import Assignment, assign
from gostlab.classroom.expressions import filled, shown
from gostlab.classroom.grading import what_was_asked
from gostlab.classroom.lab import (
    ANSWERS,
    CHECKS,
    GUIDE,
    CourseLab,
    Point,
    formulas_of,
    list_labs,
    load_lab,
)
from gostlab.registry.folders import ROOT
from gostlab.spec.run_spec import RunSpec
from gostlab.spec.yaml_source import MAX_BYTES, BadInput, Node, load_document, load_text, mapping_of

ASSIGNMENT, TASK, FIGURE = "assignment.json", "TASK.md", "figure.png"
FOLDER = Path("coursework")
TASK_TEMPLATE = Path(__file__).with_name("task.md.j2")


def begin(assignment: Assignment, folder: Path) -> None:
    """A folder with a student's values and sheet. Raises BadInput if it is another's, OSError."""
    there = results.read_object(folder / ASSIGNMENT)
    if there is not None and there != assignment.to_json():
        raise BadInput(
            f"{folder}: another assignment is there ({there.get('lab')}, {there.get('student')}):"
            " choose another --folder"
        )
    with formulas_of(assignment.lab):
        task, sheet = task_of(assignment), empty_sheet(assignment)
    folder.mkdir(parents=True, exist_ok=True)
    results.write_json(folder / ASSIGNMENT, assignment.to_json())
    (folder / TASK).write_text(task, encoding="utf-8")
    for name in (GUIDE, FIGURE):  # the lab itself may lie in an image, out of reach
        if (assignment.lab.folder / name).is_file():
            shutil.copyfile(assignment.lab.folder / name, folder / name)
    if not (folder / ANSWERS).exists():
        (folder / ANSWERS).write_text(sheet, encoding="utf-8")
    rank = assignment.lab.rank
    if rank and not (folder / rank.file).exists():
        shutil.copyfile(ROOT / rank.start, folder / rank.file)


def open_coursework(folder: Path) -> Assignment:
    """The assignment of a folder that `start` made. Raises BadInput."""
    told = results.read_object(folder / ASSIGNMENT)
    if told is None:
        raise BadInput(f"{folder}: no lab was begun there: ./lab lab start LAB --student ID")
    try:
        own = str(told.get("folder", ""))
        there = own and Path(own, CHECKS).is_file()
        known = {path.name for path in list_labs()}
        if own and not there and told["lab"] not in known:
            raise BadInput(f"{folder / ASSIGNMENT}: its lab is in {own}: not there from here")
        lab = load_lab(own if there else str(told["lab"]))
        return assign(lab, str(told["student"]), str(told["course"]), str(told["ticket"]))
    except KeyError as error:
        raise BadInput(f"{folder / ASSIGNMENT}: {error} is missing: start again") from None


def find_coursework(word: str) -> tuple[Path, Assignment]:
    """The folder that a lab's number or name, or a path, stands for, and what is asked there.
    Raises BadInput.
    """
    path = Path(word)
    folder = path if (path / ASSIGNMENT).is_file() else FOLDER / load_lab(word).name
    return folder, open_coursework(folder)


def empty_sheet(assignment: Assignment) -> str:
    """The lab's answers.yaml with a student's name and values. Raises BadInput, FormulaError."""
    template = load_text(assignment.lab.folder / ANSWERS, MAX_BYTES)
    student = f"student: {json.dumps(assignment.student)}"
    sheet = re.sub(r"^student:.*$", lambda _: student, template, count=1, flags=re.MULTILINE)
    return filled(sheet, assignment.told)


def task_of(assignment: Assignment) -> str:
    import jinja2  # not where hand-ins are graded

    lab, values = assignment.lab, assignment.told
    page = TASK_TEMPLATE.read_text(encoding="utf-8")
    template = jinja2.Template(page, trim_blocks=True, undefined=jinja2.StrictUndefined)
    return template.render(
        assignment=assignment,
        lab=lab,
        answers=ANSWERS,
        guide=GUIDE,
        values={name: shown(value) for name, value in values.items()},
        settings=settings_of(assignment),
        filled=lambda text: filled(text, values),
    )


def settings_of(assignment: Assignment) -> dict[str, str]:
    """What all runs of the experiment have, as its file writes it, with the student's values."""
    root = mapping_of(load_document(assignment.lab.experiment_path))
    settings = mapping_of(root["settings"]) if "settings" in root else {}
    return {name: as_written(node) for name, node in settings.items()} | assignment.sets


def as_written(node: Node) -> str:
    """A value on one line of YAML."""
    if node.fields is not None:
        inner = ", ".join(f"{name}: {as_written(each)}" for name, each in node.fields.items())
        return f"{{{inner}}}"
    if node.items is not None:
        return f"[{', '.join(map(as_written, node.items))}]"
    return node.text or ""


def seal_predictions(folder: Path, assignment: Assignment, *, again: bool) -> Sealed:
    """Seal what answers.yaml predicts; what was sealed stays, unless `again`. Raises BadInput."""
    answers = read_answers(folder / ANSWERS, assignment.lab)
    for point, why in unjudged(assignment.lab, answers):
        if point.is_prediction and not point.by_hand and point.answer:
            raise BadInput(f"{folder / ANSWERS}: {'.'.join(point.answer)}: {why}")
    before = results.read_object(folder / SEALED)
    is_same = before is not None and before.get("predictions") == answers.predictions
    if before is not None and not is_same and not again:
        raise BadInput(
            f"{folder / SEALED}: other predictions are sealed already, and the runs belong to them"
            " (--again seals these instead; then everything is run again)"
        )
    if not is_same:
        made = seal(answers.predictions, assignment.lab, assignment.student, datetime.now(UTC))
        results.write_json(folder / SEALED, made)
    return read_sealed(folder / SEALED, assignment.lab)


def unjudged(lab: CourseLab, answers: Answers) -> Iterator[tuple[Point, str]]:
    """The points whose answer cannot be judged, and why."""
    for point in lab.points:
        if point.answer is None:
            continue
        text = answers.text(*point.answer)
        if not text:
            yield point, "nothing there (a guess is better than nothing)"
        elif point.within is not None and as_number(text) is None:
            yield point, f"{text[:60]!r}: not a number (like 41.2, without a unit)"


def sealed_seed(folder: Path, assignment: Assignment) -> int:
    """The seed of the runs that belong to the sealed predictions. Raises BadInput."""
    sealed = read_sealed(folder / SEALED, assignment.lab)
    answers = read_answers(folder / ANSWERS, assignment.lab)
    if answers.predictions != sealed.predictions:
        raise BadInput(
            f"{folder / ANSWERS}: the predictions are others than the sealed ones: write those"
            f" back, or seal these (./lab lab predict {assignment.lab.word} --again)"
        )
    return assignment.seed(sealed.predictions)


def differences(runs: list[RunSpec], assignment: Assignment, seed: int) -> list[str]:
    """What of a student's own experiment is other than it should be: names of settings."""
    wanted = assignment.own_runs(seed)
    keys = {what_was_asked(run.to_json()) for run in wanted}
    if keys <= {what_was_asked(run.to_json()) for run in runs}:
        return []
    if len(runs) < len(wanted):
        return [f"{len(runs)} runs, and the lab needs {len(wanted)}"]
    mine, theirs = runs[0].to_json(), wanted[0].to_json()
    named = ("experiment", "matrix", "factors", "repetition", "seed", "flows")
    return [key for key in theirs if key not in named and mine.get(key) != theirs[key]] or ["flows"]


def unfinished(folder: Path, assignment: Assignment) -> list[str]:
    """What is left to write before a hand-in, a line each. Raises BadInput."""
    lab = assignment.lab
    sealed_seed(folder, assignment)
    answers = read_answers(folder / ANSWERS, lab)
    left = [
        f"{ANSWERS}: {'.'.join(point.answer or ())}: {why}" for point, why in unjudged(lab, answers)
    ]
    if lab.rank and not (folder / lab.rank.file).is_file():
        left.append(f"{lab.rank.file}: not there, and {lab.title} needs it")
    return left
