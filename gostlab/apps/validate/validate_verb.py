"""`./lab validate`: the experiment `validation`, run, and held against what is known."""

import argparse
import sys

from analysis.judge import cells, targets
from analysis.read import runs as answers
from analysis.read import study
from gostlab import api
from gostlab.apps import command
from gostlab.apps.validate import errors


@command.verb(
    "validate",
    "does the lab do what is known of Linux's congestion controls?",
    command.flag("--quick", "the short form"),
    command.word(
        "--errors",
        type=int,
        metavar="N",
        help="how often the short form errs: run it with N users' seeds, and on labs that are"
        " broken on purpose (results go to RESULTS-errors; N = 40 takes hours)",
    ),
    command.word(
        "--broken", type=int, default=3, help="with --errors: forms of each broken lab (default: 3)"
    ),
    command.jobs(),
    command.results("where results go"),
    command.JSON,
    example="./lab validate --quick",
)
def validate_verb(arguments: argparse.Namespace) -> int:
    """`./lab validate`: target, lab and verdict; 1 if one disagrees, or a run does not count."""
    if arguments.errors is not None:
        folder = arguments.results.with_name(f"{arguments.results.name}-errors")
        forms = arguments.errors, arguments.broken
        tables = errors.tables_of(folder, *forms, jobs=arguments.jobs)
        text = "\n\n".join(each.to_markdown() for each in tables)
        command.print_either(arguments, {each.name: each.rows for each in tables}, text)
        return command.EXIT_OK
    asked = api.Experiment.from_file("validation", quick=arguments.quick, machine="sandbox")
    outcome = asked.run(arguments.results, jobs=arguments.jobs, progress=True).wait()
    questions = study.questions("validation", quick=arguments.quick)
    loaded = answers.load_results(arguments.results, "validation", questions).runs
    known = study.load_study("validation", arguments.results)
    matrices = {run.matrix for run in asked.runs}
    judged = targets.target_rows(known, cells.to_matrices(loaded))
    rows = [row for row in judged if row.matrix in matrices]
    for line in outcome.complaints:
        command.complain(line)
    counts = f"{outcome.counts_line} · {arguments.results}"
    print(counts, file=sys.stderr if arguments.json else sys.stdout)
    table = targets.to_table(rows, "validation", "Target, lab, verdict")
    command.print_either(arguments, [vars(row) for row in rows], table.to_markdown())
    spoilt = outcome.broke or outcome.those("invalid")
    holds = not spoilt and targets.validation_verdict(rows)
    return command.EXIT_OK if holds else command.EXIT_FAILED
