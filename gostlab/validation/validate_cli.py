"""Implement `./lab validate`: run the experiment `validation` and compare with known results."""

import argparse
import sys

from gostlab import api
from gostlab.analysis.load import published
from gostlab.analysis.load import runs as answers
from gostlab.analysis.stats import cells, published_targets
from gostlab.cli import common
from gostlab.validation import error_rates


@common.verb(
    "validate",
    "compare the lab with published results of Linux's congestion controls",
    common.flag("--quick", "run the short form"),
    common.word(
        "--errors",
        type=int,
        metavar="N",
        help="measure the error rates of the short form: run it with N users' seeds,"
        " and on faulty labs (results go to RESULTS-errors; N = 40 takes hours)",
    ),
    common.word(
        "--broken", type=int, default=3, help="with --errors: forms of each broken lab (default: 3)"
    ),
    common.jobs(),
    common.results("folder of the results"),
    common.JSON,
    example="./lab validate --quick",
)
def validate_verb(arguments: argparse.Namespace) -> int:
    """Print target, lab and verdict; return 1 if one disagrees or a run does not count."""
    if arguments.errors is not None:
        folder = arguments.results.with_name(f"{arguments.results.name}-errors")
        forms = arguments.errors, arguments.broken
        tables = error_rates.measure_error_rates(folder, *forms, jobs=arguments.jobs)
        text = "\n\n".join(table.to_markdown() for table in tables)
        common.print_either(arguments, {table.name: table.rows for table in tables}, text)
        return common.EXIT_OK
    experiment = api.Experiment.from_file("validation", quick=arguments.quick, machine="sandbox")
    outcome = experiment.run(arguments.results, jobs=arguments.jobs, progress=True).wait()
    questions = published.questions("validation", quick=arguments.quick)
    loaded = answers.load_results(arguments.results, "validation", questions).runs
    known = published.load_study("validation", arguments.results)
    matrices = {run.matrix for run in experiment.runs}
    judged = published_targets.target_rows(known, cells.to_matrices(loaded))
    rows = [row for row in judged if row.matrix in matrices]
    for line in outcome.complaints:
        common.complain(line)
    counts = f"{outcome.counts_line} · {arguments.results}"
    print(counts, file=sys.stderr if arguments.json else sys.stdout)
    table = published_targets.to_table(rows, "validation", "Target, lab, verdict")
    common.print_either(arguments, [vars(row) for row in rows], table.to_markdown())
    spoilt = outcome.broke or outcome.in_state("invalid")
    holds = not spoilt and published_targets.validation_verdict(rows)
    return common.EXIT_OK if holds else common.EXIT_FAILED
