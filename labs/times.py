#!/usr/bin/python3
"""What CPU time a student's lab takes, step by step from `start` to `hand-in`.

    labs/times.py 3 4 --work FOLDER [--write]      (without numbers: all of them)

A made-up student types what a hand-out says. His predictions are the formulas' values, or a guess;
his answers are read from his own runs, which are made one at a time. It prints a table per lab;
--write puts it into the lab's plan.md. Reading and thinking are in none of it. The exit code is 1
if a lab's hand-in earns less than all but its guesses.
"""

import argparse
import ast
import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from gostlab.apps.course.answers import SEALED, read_sealed  # noqa: E402
from gostlab.apps.course.assignment import Assignment  # noqa: E402
from gostlab.apps.course.coursework import open_coursework  # noqa: E402
from gostlab.apps.course.formula import FormulaError, Value, evaluate, filled  # noqa: E402
from gostlab.apps.course.grading import RESULTS, find_runs, grade, measured  # noqa: E402
from gostlab.apps.course.lab import ANSWERS, Lab, Point, list_labs, load_lab  # noqa: E402

STUDENT = "timed"
STEPS = ("start", "predict", "run", "report", "hand-in")
HEAD = f"| of the machine | {' | '.join(f'`{step}`' for step in STEPS)} | all |\n"
RULER = f"{'|---' * (len(STEPS) + 2)}|\n"
MARK = re.compile(r"<!-- from: labs/times\.py \S+ --write -->\n")


def timed(words: list[str], log: Path) -> float:
    """Run one command to its end; its CPU time in seconds, with all that it started. Raises
    SystemExit where it fails.
    """
    with log.open("ab") as file:
        process = subprocess.Popen(words, stdout=file, stderr=file, cwd=ROOT)
        _, status, used = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        sys.exit(f"labs/times.py: {' '.join(words)}: exit code {process.returncode}: see {log}")
    return used.ru_utime + used.ru_stime


def guess(point: Point, values: Mapping[str, Value]) -> str:
    """A prediction before the runs: the formula's value; where it hangs on the runs, anything."""
    with suppress(FormulaError):
        value = evaluate(point.expect or "", values)
        return f"{value:.9g}" if isinstance(value, float) else str(value)
    words = [
        node.value
        for node in ast.walk(ast.parse(point.expect or "1", mode="eval"))
        if isinstance(node, ast.Constant) and isinstance(node.value, str)
    ]
    return words[0] if words and point.within is None else "1"


def write_sheet(folder: Path, lab: Lab, values: Mapping[str, Value]) -> None:
    """answers.yaml with all that these values say."""
    lines = [f"student: {STUDENT}"]
    for section in ("predictions", "answers"):
        lines.append(f"{section}:")
        for point in lab.points:
            if point.answer is not None and point.answer[0] == section:
                said = "written by labs/times.py" if point.by_hand else guess(point, values)
                lines.append(f"  {point.answer[1]}: {json.dumps(said)}")
    (folder / ANSWERS).write_text("\n".join(lines) + "\n", encoding="utf-8")


def write_own(folder: Path, assignment: Assignment) -> None:
    """The experiment that the student has to write, as the reference has it."""
    own = assignment.lab.own
    if own is not None:
        text = (assignment.lab.folder / own.reference).read_text(encoding="utf-8")
        for name, drawn in own.sets.items():
            value = filled(drawn, assignment.values)
            text = re.sub(rf"\b({name}: \[?)[^],\n]+", rf"\g<1>{value}", text, count=1)
        (folder / own.file).write_text(text, encoding="utf-8")


def read_values(assignment: Assignment, folder: Path) -> dict[str, Value]:
    """What is drawn, and what the runs measured."""
    found = find_runs(assignment, read_sealed(folder / SEALED, assignment.lab), folder / RESULTS)
    return dict(assignment.values) | {
        name: measured(wanted, assignment, found)
        for name, wanted in assignment.lab.measured.items()
    }


def do_lab(lab: Lab, folder: Path) -> dict[str, float]:
    """A whole lab, as a student does it; the CPU time of each step. Raises SystemExit."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.parent.mkdir(parents=True, exist_ok=True)
    log = folder.with_suffix(".log")
    log.unlink(missing_ok=True)
    words = {step: ["./lab", "lab", step, str(folder)] for step in STEPS}
    words["run"] += ["--jobs", "1"]  # with more CPUs one waits less
    words["start"][3:] = [str(lab.folder), "--student", STUDENT, "--folder", str(folder)]
    took = {"start": timed(words["start"], log)}
    assignment = open_coursework(folder)
    write_sheet(folder, lab, assignment.values)
    write_own(folder, assignment)
    for step in ("predict", "run", "report"):
        took[step] = timed(words[step], log)
    sealed = read_sealed(folder / SEALED, lab).predictions
    write_sheet(folder, lab, read_values(assignment, folder))
    sheet = (folder / ANSWERS).read_text(encoding="utf-8").partition("answers:")[2]
    kept = "".join(f"  {key}: {json.dumps(text)}\n" for key, text in sealed.items())
    (folder / ANSWERS).write_text(
        f"student: {STUDENT}\npredictions:\n{kept}answers:{sheet}", encoding="utf-8"
    )
    took["hand-in"] = timed(words["hand-in"], log)
    return took


def missed(lab: Lab, folder: Path) -> list[str]:
    """The points that the hand-in did not earn, but for predictions, which were guessed."""
    found = grade(open_coursework(folder), folder)
    guessed = {point.name for point in lab.points if point.is_prediction}
    lost = [
        f"{each.name}: {each.why}"
        for each in found.scored
        if not each.passed and each.name not in guessed
    ]
    return [*found.problems, *lost]


def row(took: Mapping[str, float]) -> str:
    """The table's row."""
    cells = [f"{took[step]:.1f}" for step in STEPS]
    return f"| CPU time, s | {' | '.join(cells)} | {sum(took.values()):.1f} |\n"


def write_plan(lab: Lab, table: str) -> None:
    """Put the table below its mark in the lab's plan. Raises SystemExit."""
    plan = lab.folder / "plan.md"
    text = plan.read_text(encoding="utf-8")
    mark = MARK.search(text)
    if mark is None:
        sys.exit(
            f"{plan}: <!-- from: labs/times.py {lab.word} --write --> is missing: write it where"
            " the table is to stand"
        )
    rest = text[mark.end() :].splitlines(keepends=True)
    while rest and rest[0].startswith("|"):
        rest.pop(0)
    plan.write_text(text[: mark.end()] + table + "".join(rest), encoding="utf-8")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("lab", nargs="*")
    parser.add_argument("--work", type=Path, required=True, help="where the folders go")
    parser.add_argument("--write", action="store_true", help="into each lab's plan.md")
    arguments = parser.parse_args()
    status = 0
    for word in arguments.lab or [str(folder) for folder in list_labs()]:
        lab = load_lab(word)
        folder = (arguments.work / lab.name).resolve()
        table = HEAD + RULER + row(do_lab(lab, folder))
        print(f"{lab.name}\n{table}", flush=True)
        for line in missed(lab, folder):
            print(f"{lab.name}: {line}", file=sys.stderr, flush=True)
            status = 1
        if arguments.write:
            write_plan(lab, table)
    return status


if __name__ == "__main__":
    sys.exit(main())
