"""`./lab validate`: its options, and the table that it prints."""

import argparse
import sys

from gostlab.apps import command
from gostlab.apps.validate import validation
from gostlab.runs import progress


def validate_arguments(verb: argparse.ArgumentParser) -> None:
    command.add_flag(verb, "--quick", "the short form")
    verb.add_argument(
        "--errors",
        type=int,
        metavar="N",
        help="how often the short form errs: run it with N users' seeds, and on labs that are"
        " broken on purpose (results go to RESULTS-errors; N = 40 takes hours)",
    )
    verb.add_argument(
        "--broken", type=int, default=3, help="with --errors: forms of each broken lab (default: 3)"
    )
    command.add_jobs(verb)
    command.add_results(verb, "where results go")
    command.add_json(verb)


@command.verb(
    "validate",
    "does the lab do what is known of Linux's congestion controls?",
    validate_arguments,
    "./lab validate --quick",
)
def validate_verb(arguments: argparse.Namespace) -> int:
    """`./lab validate`: target, lab and verdict; 1 if one disagrees."""
    with progress.progress_on_stderr("validation", quiet=False) as told:
        if arguments.errors is not None:
            found = validation.validation_errors(
                arguments.results.with_name(f"{arguments.results.name}-errors"),
                arguments.errors,
                arguments.broken,
                jobs=arguments.jobs,
                progress=told,
            )
            command.print_either(arguments, found.to_json(), found.text)
            return command.EXIT_OK
        judged = validation.validate(
            arguments.results, quick=arguments.quick, jobs=arguments.jobs, progress=told
        )
    for line in judged.outcome.complaints:
        command.complain(line)
    counts = f"{judged.outcome.counts_line} · {arguments.results}"
    if arguments.json:
        print(counts, file=sys.stderr)
        command.print_json([vars(row) for row in judged.rows])
    else:
        print(counts)
        print(judged.table)
    return command.EXIT_OK if judged.holds else command.EXIT_FAILED
