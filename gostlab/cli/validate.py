# SPDX-License-Identifier: MIT
"""Implement `./lab validate`: run the experiment `validation` and compare with known results."""

import argparse
import sys

from gostlab import api
from gostlab.analysis.load import runs as answers
from gostlab.analysis.load import study
from gostlab.analysis.stats import cells, published_targets
from gostlab.cli import common


@common.verb(
    common.declare_flag("--quick", "run the short form"),
    common.jobs_option(),
    common.results_option("folder of the results"),
    common.JSON,
    example="./lab validate --quick",
)
def validate_verb(arguments: argparse.Namespace) -> int:
    """Print target, lab and verdict; return 1 if one disagrees or a run does not count."""
    experiment = api.Experiment.from_file("validation", quick=arguments.quick, machine="sandbox")
    outcome = experiment.run(arguments.results, jobs=arguments.jobs, progress=True).wait()
    questions = study.question_keys("validation", quick=arguments.quick)
    loaded = answers.load_results(arguments.results, "validation", questions).runs
    known = study.load_study("validation", arguments.results)
    matrices = {run.matrix for run in experiment.runs}
    judged = published_targets.target_rows(known, cells.to_matrices(loaded))
    rows = [row for row in judged if row.matrix in matrices]
    for line in outcome.complaints:
        common.print_error(line)
    counts = f"{outcome.counts_line} · {arguments.results}"
    print(counts, file=sys.stderr if arguments.json else sys.stdout)
    table = published_targets.to_table(rows, "validation", "Target, lab, verdict")
    common.print_either(arguments, [vars(row) for row in rows], table.to_markdown())
    spoilt = outcome.broke or outcome.in_state("invalid")
    holds = not spoilt and published_targets.validation_verdict(rows)
    return common.EXIT_OK if holds else common.EXIT_FAILED
