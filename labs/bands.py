#!/usr/bin/python3
"""How a lab's bands were made: run it for students whose values cover its ranges, and say what each
of its figures and formulas came to, and what one of them earns with the numbers of another.

    labs/bands.py 3 --students 5 --results FOLDER      prints labs/bands.md's table of lab 3

Every level of everything drawn is there at least once where --students allows; all predictions are
what check.yaml expects. Results stay in FOLDER, and the same command goes on from there.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from statistics import median

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from gostlab import api  # noqa: E402
from gostlab.apps.course.assignment import Assignment, assign, ticket_of  # noqa: E402
from gostlab.apps.course.copying import copied  # noqa: E402
from gostlab.apps.course.evidence import Records, Unreadable, complaints  # noqa: E402
from gostlab.apps.course.formula import FormulaError, Value, evaluate, shown  # noqa: E402
from gostlab.apps.course.grading import Found, measured  # noqa: E402
from gostlab.apps.course.lab import Lab, load_lab  # noqa: E402
from gostlab.runs.progress import progress_on_stderr  # noqa: E402

TRIED = 400  # made-up students among whom those are chosen that cover most


def chosen(lab: Lab, wanted: int) -> list[Assignment]:
    """Students whose values cover the ranges: each next one adds the most levels."""
    pool = [
        assign(lab, name, "bands", ticket_of(lab, name, "bands", None))
        for name in (f"student-{number}" for number in range(TRIED))
    ]
    taken: list[Assignment] = []
    seen: set[tuple[str, object]] = set()
    for _ in range(wanted):
        best = max(pool, key=lambda each: len(set(each.values.items()) - seen))
        taken.append(best)
        seen |= set(best.values.items())
    return taken


def values_of(assignment: Assignment, results: Path, jobs: int | None) -> dict[str, Value]:
    """Everything that check.yaml names, of one student's runs."""
    lab = assignment.lab
    seed = assignment.seed({})
    plan = api.plan(str(lab.experiment_path), overrides=assignment.sets, on="sandbox", seed=seed)
    with progress_on_stderr(f"{lab.name} {assignment.student}", quiet=False) as progress:
        api.run(plan, results, jobs=jobs, progress=progress)
    found = Found()
    for run in assignment.runs(seed):
        records = Records(results / run.experiment / run.name, run)
        wrong = list(complaints(records, lab.verdicts, None))
        if wrong:
            print(f"{run.name}: {'; '.join(wrong)}", file=sys.stderr)
        else:
            found.records.append(records)
    names: dict[str, Value] = dict(assignment.values)
    for name, wanted in lab.measured.items():
        try:
            names[name] = measured(wanted, assignment, found)
        except (Unreadable, FormulaError) as error:
            print(f"{assignment.student}: {name}: {error}", file=sys.stderr)
    return names


def table(lab: Lab, rows: list[dict[str, Value]]) -> list[str]:
    """What each measured value and each point's formula came to."""
    lines = ["| | least | median | most | band |", "|---|---|---|---|---|"]
    formulas = [(name, name, "") for name in lab.measured]
    formulas += [
        (point.name, point.got, f"{point.least or '–'} to {point.most or '–'}")
        for point in lab.points
        if point.got
    ]
    formulas += [
        (f"{point.name}, expected", point.expect, point.within.words)
        for point in lab.points
        if point.is_prediction and point.expect and point.within
    ]
    for name, formula, band in formulas:
        values = []
        for row in rows:
            try:
                values.append(float(evaluate(formula, row)))
            except (FormulaError, ValueError):
                continue
        if values:
            told = [
                shown(float(f"{each:.4g}")) for each in (min(values), median(values), max(values))
            ]
            lines.append(f"| {name} | {' | '.join(told)} | {band} |")
    return lines


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("lab")
    parser.add_argument("--students", type=int, default=5)
    parser.add_argument("--results", type=Path, required=True)
    parser.add_argument("--jobs", type=int)
    arguments = parser.parse_args()
    lab = load_lab(arguments.lab)
    asked = chosen(lab, arguments.students)
    rows = [values_of(each, arguments.results, arguments.jobs) for each in asked]
    print(f"## {lab.title}\n")
    print(
        f"{len(rows)} students: "
        + "; ".join(
            ", ".join(f"{name} {shown(value)}" for name, value in each.values.items())
            for each in asked
        )
        + ".\n"
    )
    print("\n".join(table(lab, rows)) + "\n")
    if len(rows) > 1:
        print(f"{copied(lab, rows).words}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
