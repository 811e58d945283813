#!/usr/bin/python3
"""What a lab's plan says that the machine says: the projector's table, and what CPU time a
student's lab takes, step by step from `start` to `hand-in`.

    labs/times.py 3 4 --work FOLDER [--write] [--projector]     (without numbers: all of them)

A made-up student types what a hand-out says. His predictions are the formulas' values, or a guess;
his answers are read from his own runs, which are made one at a time. It prints a table per lab;
--write puts both into the lab's plan.md, --projector the projector's alone. Reading and thinking
are in none of it. The exit code is 1 if a lab's hand-in earns less than all but its guesses.
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

from gostlab.classroom.answer_sharing import right_answers  # noqa: E402
from gostlab.classroom.answers import SEALED, read_sealed, sheet_of  # noqa: E402
from gostlab.classroom.assignment import Assignment  # noqa: E402
from gostlab.classroom.grading import RESULTS, collect_values, find_runs, grade  # noqa: E402
from gostlab.classroom.lab import ANSWERS, CourseLab, Point, list_labs, load_lab  # noqa: E402
from gostlab.classroom.workspace import open_coursework  # noqa: E402

STUDENT = "timed"
STEPS = ("start", "predict", "run", "report", "hand-in")
HEAD = f"| of the machine | {' | '.join(f'`{step}`' for step in STEPS)} | all |\n"
RULER = f"{'|---' * (len(STEPS) + 2)}|\n"
MARK = re.compile(r"<!-- from: labs/times\.py \S+ --write -->\n")
SHOWN = re.compile(r"^    (\./lab .*--live.*)$", re.MULTILINE)


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


def guess(point: Point) -> str:
    """What stands where a person reads, or before the runs that a formula hangs on."""
    if point.by_hand:
        return "written by labs/times.py"
    words = [
        node.value
        for node in ast.walk(ast.parse(point.expect or "1", mode="eval"))
        if isinstance(node, ast.Constant) and isinstance(node.value, str)
    ]
    return words[0] if words and point.within is None else "1"


def write_own(folder: Path, assignment: Assignment) -> None:
    """The experiment that the student has to write, as the reference has it."""
    own = assignment.lab.own
    if own is not None:
        text = (assignment.lab.folder / own.reference).read_text(encoding="utf-8")
        for name, value in assignment.fill_settings(own.sets).items():
            text = re.sub(rf"\b({name}: \[?)[^],\n]+", rf"\g<1>{value}", text, count=1)
        (folder / own.file).write_text(text, encoding="utf-8")


def do_lab(lab: CourseLab, folder: Path) -> dict[str, float]:
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
    told = right_answers(lab, assignment.values, guess, STUDENT)
    (folder / ANSWERS).write_text(sheet_of(told), encoding="utf-8")
    write_own(folder, assignment)
    for step in ("predict", "run", "report"):
        took[step] = timed(words[step], log)
    found = find_runs(assignment, read_sealed(folder / SEALED, lab), folder / RESULTS)
    known, _ = collect_values(assignment, found)
    read = replace(right_answers(lab, known, guess, STUDENT), predictions=told.predictions)
    (folder / ANSWERS).write_text(sheet_of(read), encoding="utf-8")
    took["hand-in"] = timed(words["hand-in"], log)
    return took


def missed(lab: CourseLab, folder: Path) -> list[str]:
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
    cells = [f"{took[step]:.1f}" for step in STEPS]
    return f"| CPU time, s | {' | '.join(cells)} | {sum(took.values()):.1f} |\n"


def projected(command: str, log: Path) -> str:
    """What the projector's command prints at its end, as a block. Raises SystemExit."""
    words = shlex.split(command)
    words = words[: words.index("--live")]  # --pace follows it
    results = log.with_suffix(".projector")
    with log.open("ab") as file:
        done = subprocess.run(
            [*words, "--results", results],
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
    """Put the projector's block, and a table of times, below their marks in the lab's plan. Raises
    SystemExit.
    """
    plan = lab.folder / "plan.md"
    text = plan.read_text(encoding="utf-8")
    *before, last = MARK.finditer(text) if MARK.search(text) else [None]
    if last is None:
        sys.exit(
            f"{plan}: <!-- from: labs/times.py {lab.word} --write --> is missing: write it where"
            " the table is to stand"
        )
    if table is not None:
        text = text[: last.end()] + table + re.sub(r"\A(?:\|.*\n)*", "", text[last.end() :])
    for mark in before:
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
            table = HEAD + RULER + row(do_lab(lab, folder))
            print(f"{lab.name}\n{table}", flush=True)
            for line in missed(lab, folder):
                print(f"{lab.name}: {line}", file=sys.stderr, flush=True)
                status = 1
        if arguments.write or arguments.projector:
            write_plan(lab, folder.with_suffix(".log"), table)
    return status


if __name__ == "__main__":
    sys.exit(main())
