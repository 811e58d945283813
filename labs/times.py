#!/usr/bin/python3
# SPDX-License-Identifier: MIT
"""Measure the times in the labs' plans: the projector's table, and the CPU time of each step.

    labs/times.py 3 4 --work FOLDER [--write] [--projector]     (without numbers: all of them)

A made-up student makes each step from `start` to `hand-in`. Their predictions are the formulas'
values, or a guess; the answers are read from the runs, which are made one at a time. It prints
a table per lab; --write puts both into the lab's plan.md, --projector only the projector's. Reading
and thinking are not included: the plan's 45 minutes are for those. The exit code is 1 if a lab's
hand-in earns less than all points but its guesses, or takes more than 15 minutes of the machine.
"""

import argparse
import ast
import os
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from subprocess import PIPE

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from gostlab.classroom.answers import SEALED, read_sealed, sheet_of  # noqa: E402
from gostlab.classroom.grading import RESULTS, collect_values, find_runs, grade  # noqa: E402
from gostlab.classroom.lab import ANSWERS, CourseLab, Point, list_labs, load_lab  # noqa: E402
from gostlab.classroom.student_assignment import Assignment  # noqa: E402
from gostlab.classroom.workspace import open_coursework  # noqa: E402
from tools.answer_sharing import right_answers  # noqa: E402

STUDENT = "timed"
MAX_MACHINE_S = 900  # beside the 45 minutes of a plan: an hour in all
STEPS = ("start", "predict", "run", "report", "hand-in")
HEAD = f"| of the machine | {' | '.join(f'`{step}`' for step in STEPS)} | all |\n"
RULER = f"{'|---' * (len(STEPS) + 2)}|\n"
MARK = re.compile(r"<!-- from: labs/times\.py \S+ --write -->\n")
SHOWN = re.compile(r"^    (\./lab .*--live.*)$", re.MULTILINE)


def timed(args: list[str], log: Path) -> float:
    """Run a command and return its CPU time with all children, s. Raises SystemExit on failure."""
    with log.open("ab") as file:
        process = subprocess.Popen(args, stdout=file, stderr=file, cwd=ROOT)
        _, status, used = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        sys.exit(f"labs/times.py: {' '.join(args)}: exit code {process.returncode}: see {log}")
    return used.ru_utime + used.ru_stime


def guess(point: Point) -> str:
    """Return an answer for a person to read, or before the runs of a formula exist."""
    if point.by_hand:
        return "written by labs/times.py"
    guesses = [
        node.value
        for node in ast.walk(ast.parse(point.expect or "1", mode="eval"))
        if isinstance(node, ast.Constant) and isinstance(node.value, str)
    ]
    return guesses[0] if guesses and point.within is None else "1"


def write_own(folder: Path, assignment: Assignment) -> None:
    """Write the experiment of the student as a copy of the reference."""
    experiment = assignment.lab.own
    if experiment is not None:
        text = (assignment.lab.folder / experiment.reference).read_text(encoding="utf-8")
        for name, value in assignment.fill_settings(experiment.sets).items():
            text = re.sub(rf"\b({name}: \[?)[^],\n]+", rf"\g<1>{value}", text, count=1)
        (folder / experiment.file).write_text(text, encoding="utf-8")


def do_lab(lab: CourseLab, folder: Path) -> dict[str, float]:
    """Make all steps of a lab and return the CPU time of each. Raises SystemExit."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.parent.mkdir(parents=True, exist_ok=True)
    log = folder.with_suffix(".log")
    log.unlink(missing_ok=True)
    args_of = {step: ["./lab", "lab", step, str(folder)] for step in STEPS}
    args_of["run"] += ["--jobs", "1"]  # independent of the machine's number of CPUs
    args_of["start"][3:] = [str(lab.folder), "--student", STUDENT, "--folder", str(folder)]
    took = {"start": timed(args_of["start"], log)}
    assignment = open_coursework(folder)
    answers = right_answers(lab, assignment.values, guess, STUDENT)
    (folder / ANSWERS).write_text(sheet_of(answers), encoding="utf-8")
    write_own(folder, assignment)
    for step in ("predict", "run", "report"):
        took[step] = timed(args_of[step], log)
    runs = find_runs(assignment, read_sealed(folder / SEALED, lab), folder / RESULTS)
    known, _ = collect_values(assignment, runs)
    read = replace(right_answers(lab, known, guess, STUDENT), predictions=answers.predictions)
    (folder / ANSWERS).write_text(sheet_of(read), encoding="utf-8")
    took["hand-in"] = timed(args_of["hand-in"], log)
    return took


def missed(lab: CourseLab, folder: Path) -> list[str]:
    """Return the points that the hand-in did not earn, except guessed predictions."""
    result = grade(open_coursework(folder), folder)
    guessed = {point.name for point in lab.points if point.is_prediction}
    lost = [
        f"{point.name}: {point.why}"
        for point in result.scored
        if not point.passed and point.name not in guessed
    ]
    return [*result.problems, *lost]


def row(took: Mapping[str, float]) -> str:
    cells = [f"{took[step]:.1f}" for step in STEPS]
    return f"| CPU time, s | {' | '.join(cells)} | {sum(took.values()):.1f} |\n"


def projected(command: str, log: Path) -> str:
    """Return the final output of the projector's command as a block. Raises SystemExit."""
    args = shlex.split(command)
    args = args[: args.index("--live")]  # --pace follows --live.
    results = log.with_suffix(".projector")
    with log.open("ab") as file:
        done = subprocess.run(
            [*args, "--results", results],
            stdout=PIPE,
            stderr=file,
            cwd=ROOT,
            text=True,
            env={**os.environ, "COLUMNS": "100"},
        )
    if done.returncode not in (0, 3):
        sys.exit(f"labs/times.py: {command}: exit code {done.returncode}: see {log}")
    table = re.split(r"^(?:Fastest|kept in|\d+ runs?:)", done.stdout, flags=re.MULTILINE)[0]
    return "```\n" + "".join(f"{row.rstrip()}\n" for row in table.splitlines() if row) + "```\n"


def write_plan(lab: CourseLab, log: Path, table: str | None) -> None:
    """Write the projector's block and a table of times into the lab's plan. Raises SystemExit."""
    plan = lab.folder / "plan.md"
    text = plan.read_text(encoding="utf-8")
    *before, last = MARK.finditer(text) if MARK.search(text) else [None]
    if last is None:
        sys.exit(
            f"{plan}: <!-- from: labs/times.py {lab.number} --write --> is missing: write it where"
            " the table is to stand"
        )
    if table is not None:
        text = text[: last.end()] + table + re.sub(r"\A(?:\|.*\n)*", "", text[last.end() :])
    for mark in filter(None, before):
        command = SHOWN.search(text)
        if command is None:
            sys.exit(
                f"{plan}: there is no `    ./lab … --live` whose table could stand at its mark"
            )
        rest = re.sub(r"\A```\n[^`]*```\n", "", text[mark.end() :])
        text = text[: mark.end()] + projected(command[1], log) + rest
    plan.write_text(text, encoding="utf-8")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("lab", nargs="*")
    parser.add_argument("--work", type=Path, required=True, help="where the folders go")
    parser.add_argument("--write", action="store_true", help="into each lab's plan.md")
    parser.add_argument("--projector", action="store_true", help="the projector's table alone")
    arguments = parser.parse_args()
    status = 0
    for word in arguments.lab or [str(folder) for folder in list_labs()]:
        lab = load_lab(word)
        folder = (arguments.work / lab.name).resolve()
        table = None
        if not arguments.projector:
            took = do_lab(lab, folder)
            table = HEAD + RULER + row(took)
            print(f"{lab.name}\n{table}", flush=True)
            if sum(took.values()) > MAX_MACHINE_S:
                print(f"{lab.name}: more than {MAX_MACHINE_S} s of the machine", file=sys.stderr)
                status = 1
            for line in missed(lab, folder):
                print(f"{lab.name}: {line}", file=sys.stderr, flush=True)
                status = 1
        if arguments.write or arguments.projector:
            write_plan(lab, folder.with_suffix(".log"), table)
    return status


if __name__ == "__main__":
    sys.exit(main())
