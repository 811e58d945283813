#!/usr/bin/python3
"""Measure the tolerance bands of labs: run them for students whose values cover the ranges.

    labs/bands.py 3 4 --results FOLDER [--write]      (without numbers: all of them)

It prints the range of every metric and formula, and the points that a student earns with the
answers of another. Every level of every drawn value occurs if --students allows it; all predictions
are those of check.yaml. Results stay in FOLDER, and the same command continues from there. --write
puts each lab's table and its row of *Copied work* into labs/bands.md.
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
from gostlab.classroom.answers import Sealed  # noqa: E402
from gostlab.classroom.assignment import Assignment, assigned  # noqa: E402
from gostlab.classroom.expressions import FormulaError, Value, evaluate, format_value  # noqa: E402
from gostlab.classroom.grading import collect_values, find_runs  # noqa: E402
from gostlab.classroom.lab import CourseLab, list_labs, load_lab  # noqa: E402
from gostlab.scheduler.progress import progress_on_stderr  # noqa: E402
from tools.answer_sharing import score_copied_answers  # noqa: E402

TRIED = 400  # made-up students from whom those with the most levels are chosen
BANDS = ROOT / "labs/bands.md"
COLUMNS = 100


def chosen(lab: CourseLab, wanted: int) -> list[Assignment]:
    """Return students whose values cover the ranges; each next one adds the most levels."""
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
    """Return all values that check.yaml names of one student's runs, making missing runs."""
    lab, seed = assignment.lab, assignment.seed({})
    places = [(lab.experiment_path, assignment.sets)]
    if lab.own:
        places.append((lab.folder / lab.own.reference, assignment.fill_settings(lab.own.sets)))
    for path, sets in places:
        experiment = api.Experiment.from_file(path, settings=sets, machine="sandbox", seed=seed)
        with progress_on_stderr(f"{lab.name} {assignment.student}", quiet=False) as progress:
            experiment.run(results, jobs=jobs, progress=progress).wait()
    runs = find_runs(assignment, Sealed({}, datetime.fromtimestamp(0, UTC)), results)
    names, lacking = collect_values(assignment, runs)
    for line in (*runs.problems, *lacking.values()):
        print(f"{assignment.student}: {line}", file=sys.stderr)
    return names


def table(
    lab: CourseLab, assignments: Sequence[Assignment], rows: Sequence[dict[str, Value]]
) -> str:
    """Return a table of the range of each measured value and each point's formula."""
    values = [
        ", ".join(f"{name} {format_value(value)}" for name, value in assignment.values.items())
        for assignment in assignments
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
            cells = [
                format_value(float(f"{value:.4g}"))
                for value in (min(came_to), median(came_to), max(came_to))
            ]
            lines.append(f"| {name} | {' | '.join(cells)} | {band} |")
    return "\n".join(lines) + "\n"


def copied_row(lab: CourseLab, rows: Sequence[dict[str, Value]]) -> str:
    """Return a row of the points that copied answers earn: numbers, words, own runs, all."""
    points = [point for point in lab.points if not point.by_hand]
    numbers = [point for point in points if point.answer and point.within]
    word_points = [point for point in points if point.answer and not point.within]
    kinds = (numbers, word_points, [point for point in points if not point.answer], points)
    scores = [score_copied_answers(lab, rows, group) for group in kinds]
    cells = [f"{score.mean:.1f} of {score.of}" if score.of else "–" for score in scores]
    return f"| {lab.number} | {' | '.join(cells)} | {scores[-1].most} |\n"


def write(lab: CourseLab, text: str, row: str) -> None:
    """Write the table and the row into labs/bands.md. Raises SystemExit."""
    page = BANDS.read_text(encoding="utf-8")
    below = re.escape(f"<!-- from: labs/bands.py {lab.number} --write -->\n")
    page, count = re.subn(rf"(?s)({below}).*?(?=\n## |\Z)", lambda at: at[1] + text, page)
    page, there = re.subn(rf"(?m)^\| {lab.number} \|.*\n", lambda _: row, page, count=1)
    if not (count and there):
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
        assignments = chosen(lab, arguments.students)
        rows = [
            values_of(assignment, arguments.results / lab.name, arguments.jobs)
            for assignment in assignments
        ]
        text, row = table(lab, assignments, rows), copied_row(lab, rows)
        print(f"## {lab.title}\n\n{text}\n{row}", flush=True)
        if arguments.write:
            write(lab, text, row)
    return 0


if __name__ == "__main__":
    sys.exit(main())
