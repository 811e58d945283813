#!/usr/bin/python3
# SPDX-License-Identifier: MIT
"""Test the bands and claims of labs on many drawn students, each with runs of their own.

    labs/bands.py 3 4 --results FOLDER [--students 30]     (without numbers: all of them)
    labs/bands.py 7 --results FOLDER --seeds 10 --matrix lossy --set tunnel=relay+ws
    labs/bands.py                                          (makes no runs: writes bands.md again)

It keeps each student's drawn and measured values in labs/bands.json, and writes the tables of
labs/bands.md from there: what each claim of a lab's page came to, and the points of who answers
from the run, by the page's formula, by the textbook's better one, and by a guess. Runs stay in
FOLDER, and the same command continues from there. --seeds runs other seeds of the first student,
of one matrix, to show what chance alone does. Predictions are those of check.yaml.
"""

import argparse
import json
import re
import sys
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from statistics import median

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from gostlab import api  # noqa: E402
from gostlab.classroom.answers import SealedPredictions  # noqa: E402
from gostlab.classroom.expressions import Value, format_value  # noqa: E402
from gostlab.classroom.grading import collect_values, find_runs  # noqa: E402
from gostlab.classroom.lab import CourseLab, list_labs, load_lab  # noqa: E402
from gostlab.classroom.student_assignment import Assignment, assignment_in_course  # noqa: E402
from gostlab.scheduler.progress import progress_on_stderr  # noqa: E402
from tools.answer_sharing import (  # noqa: E402
    ANSWERERS,
    TABLE,
    Row,
    claimed_values,
    guessed_share,
    read_table,
    rows_of,
    score_answerer,
)

PAGE = "bands.md"
COURSE = "bands"
MATES = 100
MARK = re.compile(r"(?s)(<!-- from: labs/bands\.py -->\n).*?(?=<!-- end of bands -->)")


def student(number: int) -> str:
    return f"student-{number}"


def measure(
    assignment: Assignment,
    machines: api.Lab,
    seed: str = "",
    matrices: Sequence[str] = (),
    sets: Mapping[str, str] = {},
) -> Row:
    """Return the drawn and measured values of one student, making missing runs.

    Every student's runs use the same booted sandboxes, `machines`.
    """
    lab, predictions = assignment.lab, {"pilot": seed} if seed else {}
    places = [(lab.experiment_path, {**assignment.sets, **sets})]
    if lab.own and not matrices:
        places.append((lab.folder / lab.own.reference, assignment.fill_settings(lab.own.sets)))
    for path, settings in places:
        experiment = api.Experiment.from_file(
            path,
            settings=settings,
            matrices=matrices,
            machine="sandbox",
            seed=assignment.seed(predictions),
        )
        title = f"{lab.name} {assignment.student} {seed}"
        with progress_on_stderr(title, quiet=False) as progress:
            machines.execute(experiment, progress=progress).wait()
    sealed = SealedPredictions(predictions, datetime.fromtimestamp(0, UTC))
    runs = find_runs(assignment, sealed, machines.results)
    names, lacking = collect_values(assignment, runs)
    if not matrices:
        for line in (*runs.problems, *lacking.values()):
            print(f"{assignment.student}: {line}", file=sys.stderr)
    return names


def keep(folder: Path, lab: CourseLab, kind: str, rows: Sequence[Row]) -> None:
    """Write a lab's rows into the table, one a line."""
    table = read_table(folder)
    table.setdefault(lab.name, {})[kind] = [
        {name: rounded(value) for name, value in row.items()} for row in rows
    ]
    labs = []
    for name in sorted(table):
        kinds = (
            f"  {json.dumps(value_type)}: [\n   "
            + ",\n   ".join(json.dumps(row) for row in rows)
            + "\n  ]"
            for value_type, rows in sorted(table[name].items())
        )
        labs.append(f" {json.dumps(name)}: {{\n" + ",\n".join(kinds) + "\n }")
    (folder / TABLE).write_text("{\n" + ",\n".join(labs) + "\n}\n", encoding="utf-8")


def rounded(value: Value) -> Value:
    """Return a number with six significant digits."""
    return float(f"{value:.6g}") if isinstance(value, float) else value


# -- the tables


def classmates(lab: CourseLab) -> list[Mapping[str, Value]]:
    """Return the drawn values of students who guess with their own right answers."""
    return [assignment_in_course(lab, student(number), COURSE).values for number in range(MATES)]


def answerers_table(folder: Path) -> Iterator[str]:
    """Yield the lines of the table of who earns what."""
    yield "| lab | students | " + " | ".join(ANSWERERS) + " | other seeds | a guess |"
    yield "|---|---|" + "---|" * (len(ANSWERERS) + 2)
    for lab in map(load_lab, map(str, list_labs())):
        rows, seeds = rows_of(folder, lab), rows_of(folder, lab, "seeds")
        if len(rows) < 2:
            continue
        scores = [score_answerer(lab, rows, answerer) for answerer in ANSWERERS.values()]
        pilots = score_answerer(lab, rows[:1], ANSWERERS["the run"], seeds) if seeds else None
        guess = guessed_share(lab, rows, classmates(lab))
        cells = [f"{score.least:.0f} of {score.of}" for score in scores]
        cells.append(f"{pilots.least:.0f} of {pilots.of} ({len(seeds)})" if pilots else "–")
        cells.append(f"{100 * guess:.0f} %")
        yield f"| {lab.number} | {len(rows)} | {' | '.join(cells)} |"


def claims_table(folder: Path, lab: CourseLab) -> Iterator[str]:
    """Yield the lines of a table of what each claim came to."""
    rows = rows_of(folder, lab)
    yield f"\n## {lab.title}\n"
    yield f"{len(rows)} students.\n"
    yield "| claim | least | median | most | holds in | from |"
    yield "|---|---|---|---|---|---|"
    for claim in lab.claims:
        values = [claimed_values(claim, row) for row in rows]
        if not values:
            continue
        cells = [
            format_value(float(f"{take(got for got, _ in values):.3g}"))
            for take in (min, median, max)
        ]
        holds = f"{sum(is_met for _, is_met in values)} of {len(values)}"
        band = f"{claim.least or '–'} to {claim.most or '–'}"
        yield f"| {claim.says} ({band}) | {' | '.join(cells)} | {holds} | {claim.source} |"


def write_page(folder: Path) -> None:
    """Write the tables into bands.md. Raises SystemExit without the mark."""
    labs = [load_lab(str(path)) for path in list_labs()]
    claims = (line for lab in labs for line in claims_table(folder, lab))
    text = "\n".join([*answerers_table(folder), *claims]) + "\n"
    page, count = MARK.subn(lambda at: at[1] + text, (folder / PAGE).read_text(encoding="utf-8"))
    if not count:
        sys.exit(f"{folder / PAGE}: no <!-- from: labs/bands.py -->")
    (folder / PAGE).write_text(page, encoding="utf-8")
    print(text, end="")


def measure_lab(lab: CourseLab, arguments: argparse.Namespace) -> None:
    """Measure a lab's missing students, or the other seeds of its first one, and keep them."""
    out = arguments.out
    with api.Lab(arguments.results / lab.name, jobs=arguments.jobs) as machines:
        if arguments.seeds:
            sets = dict(pair.partition("=")[::2] for pair in arguments.set)
            first = assignment_in_course(lab, student(0), COURSE)
            rows = [
                measure(first, machines, str(seed), arguments.matrix, sets)
                for seed in range(1, arguments.seeds + 1)
            ]
            keep(out, lab, "seeds", rows)
            return
        measured = {int(row["student"] or 0): row for row in rows_of(out, lab)}
        for number in range(arguments.students):
            if number not in measured:
                row = measure(assignment_in_course(lab, student(number), COURSE), machines)
                measured[number] = {"student": number, **row}
                keep(out, lab, "students", [measured[at] for at in sorted(measured)])


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("lab", nargs="*")
    parser.add_argument("--students", type=int, default=30)
    parser.add_argument("--results", type=Path, help="where the runs are; without it none is made")
    parser.add_argument("--jobs", type=int, default=2, help="number of parallel runs (default: 2)")
    parser.add_argument("--seeds", type=int, help="so many other seeds of the first student")
    parser.add_argument("--matrix", action="append", default=[], help="of --seeds: these alone")
    parser.add_argument("--set", action="append", default=[], help="of --seeds: NAME=LEVELS")
    parser.add_argument("--out", type=Path, default=ROOT / "labs", help="of bands.json, bands.md")
    arguments = parser.parse_args()
    if arguments.results:
        for word in arguments.lab or [str(folder) for folder in list_labs()]:
            measure_lab(load_lab(word), arguments)
    write_page(arguments.out)
    return 0


if __name__ == "__main__":
    sys.exit(main())
