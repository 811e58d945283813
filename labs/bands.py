#!/usr/bin/python3
"""How a lab's bands were made: run it for students whose values cover its ranges, and say what each
of its figures and formulas came to, and what one of them earns with the answers of another.

    labs/bands.py 3 4 --results FOLDER [--write]      (without numbers: all of them)

Every level of everything drawn is there at least once where --students allows; all predictions are
what check.yaml expects. Results stay in FOLDER, and the same command goes on from there. It prints
each lab's table and its row of *Copied work*; --write puts both into labs/bands.md.
"""

import argparse
import re
import sys
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from statistics import median
from textwrap import wrap

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from gostlab import api  # noqa: E402
from gostlab.classroom.answer_sharing import score_copied_answers  # noqa: E402
from gostlab.classroom.answers import Sealed  # noqa: E402
from gostlab.classroom.assignment import Assignment, assigned  # noqa: E402
from gostlab.classroom.expressions import FormulaError, Value, evaluate, format_value  # noqa: E402
from gostlab.classroom.grading import collect_values, find_runs  # noqa: E402
from gostlab.classroom.lab import CourseLab, list_labs, load_lab  # noqa: E402
from gostlab.scheduler.progress import progress_on_stderr  # noqa: E402

TRIED = 400  # made-up students among whom those are chosen that cover most
BANDS = ROOT / "labs/bands.md"
COLUMNS = 100


def chosen(lab: CourseLab, wanted: int) -> list[Assignment]:
    """Students whose values cover the ranges: each next one adds the most levels."""
    pool = [
        assigned(lab, name, "bands") for name in (f"student-{number}" for number in range(TRIED))
    ]
    taken: list[Assignment] = []
    seen: set[tuple[str, object]] = set()
    for _ in range(wanted):
        best = max(pool, key=lambda each: len(set(each.values.items()) - seen))
        taken.append(best)
        seen |= set(best.values.items())
    return taken


def values_of(assignment: Assignment, results: Path, jobs: int | None) -> dict[str, Value]:
    """Everything that check.yaml names, of one student's runs, made where they are not there."""
    lab, seed = assignment.lab, assignment.seed({})
    places = [(lab.experiment_path, assignment.sets)]
    if lab.own:
        places.append((lab.folder / lab.own.reference, assignment.fill_settings(lab.own.sets)))
    for path, sets in places:
        asked = api.Experiment.from_file(path, settings=sets, machine="sandbox", seed=seed)
        with progress_on_stderr(f"{lab.name} {assignment.student}", quiet=False) as progress:
            asked.run(results, jobs=jobs, progress=progress).wait()
    found = find_runs(assignment, Sealed({}, datetime.fromtimestamp(0, UTC)), results)
    names, lacking = collect_values(assignment, found)
    for line in (*found.problems, *lacking.values()):
        print(f"{assignment.student}: {line}", file=sys.stderr)
    return names


def table(lab: CourseLab, asked: Sequence[Assignment], rows: Sequence[dict[str, Value]]) -> str:
    """What each measured value and each point's formula came to, and of whom."""
    values = [
        ", ".join(f"{name} {format_value(value)}" for name, value in each.values.items())
        for each in asked
    ]
    lines = [*wrap(f"{len(rows)} students: {'; '.join(values)}.", COLUMNS), ""]
    lines += ["| | least | median | most | band |", "|---|---|---|---|---|"]
    formulas = [(name, name, "") for name in lab.measured]
    formulas += [
        (point.name, point.got, f"{point.least or '–'} to {point.most or '–'}")
        for point in lab.points
        if point.got
    ]
    formulas += [
        (f"{point.name}, expected", point.expect, point.within.text)
        for point in lab.points
        if point.is_prediction and point.expect and point.within
    ]
    for name, formula, band in formulas:
        came_to = []
        for row in rows:
            try:
                came_to.append(float(evaluate(formula, row)))
            except (FormulaError, ValueError):
                continue
        if came_to:
            told = [
                format_value(float(f"{each:.4g}"))
                for each in (min(came_to), median(came_to), max(came_to))
            ]
            lines.append(f"| {name} | {' | '.join(told)} | {band} |")
    return "\n".join(lines) + "\n"


def copied_row(lab: CourseLab, rows: Sequence[dict[str, Value]]) -> str:
    """What copied answers earn: of numbers, of words, of one's own runs, and of all points."""
    points = [point for point in lab.points if not point.by_hand]
    numbers = [point for point in points if point.answer and point.within]
    words = [point for point in points if point.answer and not point.within]
    kinds = (numbers, words, [point for point in points if not point.answer], points)
    found = [score_copied_answers(lab, rows, kind) for kind in kinds]
    cells = [f"{each.mean:.1f} of {each.of}" if each.of else "–" for each in found]
    return f"| {lab.number} | {' | '.join(cells)} | {found[-1].most} |\n"


def write(lab: CourseLab, text: str, row: str) -> None:
    """Put both where labs/bands.md has them. Raises SystemExit."""
    page = BANDS.read_text(encoding="utf-8")
    below = re.escape(f"<!-- from: labs/bands.py {lab.number} --write -->\n")
    page, found = re.subn(rf"(?s)({below}).*?(?=\n## |\Z)", lambda at: at[1] + text, page)
    page, there = re.subn(rf"(?m)^\| {lab.number} \|.*\n", lambda _: row, page, count=1)
    if not (found and there):
        sys.exit(f"{BANDS}: no mark, or no row of copied work, of {lab.title}")
    BANDS.write_text(page, encoding="utf-8")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("lab", nargs="*")
    parser.add_argument("--students", type=int, default=5, help="two at least")
    parser.add_argument("--results", type=Path, required=True)
    parser.add_argument("--jobs", type=int)
    parser.add_argument("--write", action="store_true", help="into labs/bands.md")
    arguments = parser.parse_args()
    for word in arguments.lab or [str(folder) for folder in list_labs()]:
        lab = load_lab(word)
        asked = chosen(lab, arguments.students)
        rows = [values_of(each, arguments.results / lab.name, arguments.jobs) for each in asked]
        text, row = table(lab, asked, rows), copied_row(lab, rows)
        print(f"## {lab.title}\n\n{text}\n{row}", flush=True)
        if arguments.write:
            write(lab, text, row)
    return 0


if __name__ == "__main__":
    sys.exit(main())
