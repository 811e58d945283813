# SPDX-License-Identifier: MIT
"""Create and read a student's folder for one lab."""

import json
import re
import shutil
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

from gostlab import results
from gostlab.atomic_write import write_whole
from gostlab.classroom.answers import (
    SEALED,
    Answers,
    SealedPredictions,
    parse_number,
    read_answers,
    read_sealed,
    seal,
)
from gostlab.classroom.expressions import fill_formulas, format_value
from gostlab.classroom.grading import settings_key
from gostlab.classroom.lab import (
    ANSWERS,
    CHECKS,
    GUIDE,
    CourseLab,
    Point,
    formula_errors,
    list_labs,
    load_lab,
)
from gostlab.classroom.student_assignment import Assignment, assignment_from_ticket
from gostlab.registry.folders import ROOT
from gostlab.spec.run_spec import RunSpec
from gostlab.spec.yaml_source import MAX_BYTES, BadInput, Node, load_document, load_text, mapping_of

ASSIGNMENT, TASK, FIGURE = "assignment.json", "TASK.md", "figure.png"
FOLDER = Path("coursework")
PATH_SETTINGS = ("rate", "rtt", "buffer")
# Keys of run.json that name a run, that others decide, and that are a setting by another name.
NAMES_OF_RUN = ("experiment", "matrix", "factors", "repetition", "seed", "flows")
DERIVED = ("memory_mib", "tcp_memory_mib")
SETTING_OF_KEY = {
    "rate_bps": "rate",
    "delay_ms": "rtt",
    "jitter_ms": "jitter",
    "buffer_pkts": "buffer",
    "duration_s": "duration",
    "sample_ms": "sample",
}
TASK_TEMPLATE = Path(__file__).with_name("task.md.j2")


def create_coursework(assignment: Assignment, folder: Path) -> None:
    """Create a folder with a student's values and answer sheet.

    Raises BadInput if it is another student's folder, OSError.
    """
    there = results.read_object(folder / ASSIGNMENT)
    if there is not None and there != assignment.to_json():
        raise BadInput(
            f"{folder}: another assignment is there ({there.get('lab')}, {there.get('student')}):"
            " choose another --folder"
        )
    with formula_errors(assignment.lab):
        task, sheet = task_of(assignment), empty_sheet(assignment)
    folder.mkdir(parents=True, exist_ok=True)
    results.write_json(folder / ASSIGNMENT, assignment.to_json())
    write_whole(folder / TASK, task)
    # The lab's own folder may be in an image that the student cannot open.
    for name in (GUIDE, FIGURE):
        if (assignment.lab.folder / name).is_file():
            shutil.copyfile(assignment.lab.folder / name, folder / name)
    if not (folder / ANSWERS).exists():
        write_whole(folder / ANSWERS, sheet)
    rank = assignment.lab.rank
    if rank and not (folder / rank.file).exists():
        shutil.copyfile(ROOT / rank.start, folder / rank.file)


def open_coursework(folder: Path) -> Assignment:
    """Return the assignment of a folder that `start` created. Raises BadInput."""
    data = results.read_object(folder / ASSIGNMENT)
    if data is None:
        raise BadInput(f"{folder}: no lab was begun there: ./lab lab start LAB --student ID")
    try:
        folder_of_lab = str(data.get("folder", ""))
        there = folder_of_lab and Path(folder_of_lab, CHECKS).is_file()
        known = {path.name for path in list_labs()}
        if folder_of_lab and not there and data["lab"] not in known:
            raise BadInput(
                f"{folder / ASSIGNMENT}: its lab is in {folder_of_lab}: not there from here"
            )
        lab = load_lab(folder_of_lab if there else str(data["lab"]))
        return assignment_from_ticket(
            lab, str(data["student"]), str(data["course"]), str(data["ticket"])
        )
    except KeyError as error:
        raise BadInput(f"{folder / ASSIGNMENT}: {error} is missing: start again") from None


def find_coursework(word: str) -> tuple[Path, Assignment]:
    """Return the folder and assignment of a lab's number or name, or of a path. Raises BadInput."""
    path = Path(word)
    folder = path if (path / ASSIGNMENT).is_file() else FOLDER / load_lab(word).name
    return folder, open_coursework(folder)


def empty_sheet(assignment: Assignment) -> str:
    """Return answers.yaml with the student's name and values. Raises BadInput, FormulaError."""
    template = load_text(assignment.lab.folder / ANSWERS, MAX_BYTES)
    student = f"student: {json.dumps(assignment.student)}"
    sheet = re.sub(r"^student:.*$", lambda _: student, template, count=1, flags=re.MULTILINE)
    return fill_formulas(sheet, assignment.visible_values)


def task_of(assignment: Assignment) -> str:
    import jinja2  # Grading must not require Jinja.

    lab, values = assignment.lab, assignment.visible_values
    page = TASK_TEMPLATE.read_text(encoding="utf-8")
    template = jinja2.Template(page, trim_blocks=True, undefined=jinja2.StrictUndefined)
    return template.render(
        assignment=assignment,
        lab=lab,
        answers=ANSWERS,
        guide=GUIDE,
        values={name: format_value(value) for name, value in values.items()},
        settings=settings_of(assignment),
        filled=lambda text: fill_formulas(text, values),
        look=" ".join(f"--{name} {text}" for name, text in path_settings(assignment).items()),
        prompt="--profile plain-100ms "
        + " ".join(f"--set {name}={text}" for name, text in path_settings(assignment).items()),
    )


def settings_of(assignment: Assignment) -> dict[str, str]:
    """Return the settings of all runs as in the experiment's file, with the student's values."""
    root = mapping_of(load_document(assignment.lab.experiment_path))
    settings = mapping_of(root["settings"]) if "settings" in root else {}
    return {name: to_flow_yaml(node) for name, node in settings.items()} | assignment.sets


def path_settings(assignment: Assignment) -> dict[str, str]:
    """Return rate, round trip and queue of the student's path, of several the first."""
    settings = {"buffer": "1bdp"} | settings_of(assignment)
    return {name: settings[name].split(",")[0] for name in PATH_SETTINGS if name in settings}


def to_flow_yaml(node: Node) -> str:
    """Return a value as one line of YAML."""
    if node.fields is not None:
        inner = ", ".join(f"{name}: {to_flow_yaml(field)}" for name, field in node.fields.items())
        return f"{{{inner}}}"
    if node.items is not None:
        return f"[{', '.join(map(to_flow_yaml, node.items))}]"
    return node.text or ""


def seal_predictions(folder: Path, assignment: Assignment) -> SealedPredictions:
    """Seal the predictions in answers.yaml, once: what was sealed first counts.

    Raises BadInput, also if others are sealed already.
    """
    answers = read_answers(folder / ANSWERS, assignment.lab)
    for point, why in find_unanswered(assignment.lab, answers):
        if point.is_prediction and not point.by_hand and point.answer:
            raise BadInput(f"{folder / ANSWERS}: {'.'.join(point.answer)}: {why}")
    before = results.read_object(folder / SEALED)
    is_same = before is not None and before.get("predictions") == answers.predictions
    if before is not None and not is_same:
        raise BadInput(
            f"{folder / SEALED}: other predictions are sealed already, and those count: write them"
            f" back into {ANSWERS}"
        )
    if not is_same:
        sealed = seal(answers.predictions, assignment.lab, assignment.student, datetime.now(UTC))
        results.write_json(folder / SEALED, sealed)
    return read_sealed(folder / SEALED, assignment.lab)


def find_unanswered(lab: CourseLab, answers: Answers) -> Iterator[tuple[Point, str]]:
    """Yield the points whose answers cannot be graded, with the reasons."""
    for point in lab.points:
        if point.answer is None:
            continue
        text = answers.text(*point.answer)
        if not text:
            yield point, "nothing there (a guess is better than nothing)"
        elif point.within is not None and parse_number(text) is None:
            yield point, f"{text[:60]!r}: not a number (like 41.2, without a unit)"


def seed_of_predictions(folder: Path, assignment: Assignment) -> int:
    """Return the seed of the runs that belong to the sealed predictions. Raises BadInput."""
    sealed = read_sealed(folder / SEALED, assignment.lab)
    answers = read_answers(folder / ANSWERS, assignment.lab)
    if answers.predictions != sealed.predictions:
        raise BadInput(
            f"{folder / ANSWERS}: the predictions are others than the sealed ones in {SEALED}:"
            " write those back"
        )
    return assignment.seed(sealed.predictions)


def setting_differences(runs: list[RunSpec], assignment: Assignment, seed: int) -> list[str]:
    """Return the settings in which a student's own experiment differs from the required one."""
    wanted = assignment.own_runs(seed)
    keys = {settings_key(run.to_json()) for run in wanted}
    if keys <= {settings_key(run.to_json()) for run in runs}:
        return []
    if len(runs) < len(wanted):
        return [f"{len(runs)} runs, and the lab needs {len(wanted)}"]
    mine, theirs = runs[0].to_json(), wanted[0].to_json()
    different = [
        SETTING_OF_KEY.get(key, key)
        for key in theirs
        if key not in (*NAMES_OF_RUN, *DERIVED, "path") and mine.get(key) != theirs[key]
    ]
    return [*different_path_settings(mine["path"], theirs["path"]), *different] or ["flows"]


def different_path_settings(mine: object, theirs: object) -> list[str]:
    """Return the settings in which a path, as run.json has it, differs from another."""
    if not (isinstance(mine, dict) and isinstance(theirs, dict)):
        return [] if mine == theirs else ["path"]
    different = [
        SETTING_OF_KEY.get(key, key)
        for direction, fields in theirs.items()
        for key, value in fields.items()
        if mine[direction].get(key) != value
    ]
    return list(dict.fromkeys(different))


def find_unfinished(folder: Path, assignment: Assignment) -> list[str]:
    """Return a line for each item that is missing from a hand-in. Raises BadInput."""
    lab = assignment.lab
    seed_of_predictions(folder, assignment)
    answers = read_answers(folder / ANSWERS, lab)
    left = [
        f"{ANSWERS}: {'.'.join(point.answer or ())}: {why}"
        for point, why in find_unanswered(lab, answers)
    ]
    if lab.rank and not (folder / lab.rank.file).is_file():
        left.append(f"{lab.rank.file}: not there, and {lab.title} needs it")
    return left
