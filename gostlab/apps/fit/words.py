"""The words of `./lab fit`. Apart from what they start, which takes a second to import."""

import argparse
import os

from gostlab.apps import command
from gostlab.apps.fit import fit_verb, free
from gostlab.apps.paths import profile_writer


def fit_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "profile", help="the path to begin with: a name in netem_profiles/, or a file"
    )
    parser.add_argument(
        "--from",
        dest="measurements",
        required=True,
        metavar="MEASUREMENTS",
        help="a name in measurements/, a file, or an experiment whose study published rates",
    )
    for name, metavar, says in (
        ("--matrix", "MATRIX", "only this matrix of an experiment"),
        (
            "--free",
            "NAME=FROM..TO",
            "what may explain the rates, from where to where, on a log scale (or …:linear); in"
            " place of the file's of that name",
        ),
        ("--fit-on", "FACTOR=A,B", "fit on the numbers of these levels; the rest is judged"),
        (
            "--judge-on",
            "FACTOR=A,B",
            "judge by the numbers of these levels, and do not fit on them",
        ),
        ("--set", "NAME=VALUE", "a setting of all runs"),
    ):
        command.add_list(parser, name, metavar, says)
    profile_writer.add_place(parser)
    each = free.POINTS_PER_PARAMETER
    for name, default, says in (
        ("--points", None, f"paths to try (default: {each} for each free parameter, and {each})"),
        ("--members", 3, "paths that fit as well to run at full length, besides the best"),
        (
            "--judge-paths",
            3,
            "where no path meets all that judge: paths that fit as well to run besides, in case"
            " one does",
        ),
        ("--repeat", None, "runs of each number on those (default: the file's, or 1)"),
    ):
        told = f" (default: {default})" if default else ""
        parser.add_argument(name, type=int, default=default, help=says + told)
    parser.add_argument("--screen", help="how long the cheap runs last, like 5s")
    parser.add_argument("--seed", type=int, default=1, help="of search and runs (default: 1)")
    command.add_jobs(parser)
    command.add_flag(parser, "--retry-failed", "run failed runs again")
    command.add_flag(parser, "--dry-run", "say what would be done and stop")
    command.add_flag(parser, "--json", "the outcome as JSON and nothing else")
    command.add_results(parser, "where runs go")
    command.add_machine(parser)
    command.add_gost(parser)


@command.verb(
    "fit",
    "the inverse question: which path makes the lab say what was measured?",
    fit_arguments,
    "./lab fit la-hamina --from tunnel-rates",
)
def fit(arguments: argparse.Namespace) -> int:
    # Its matrices are small: threads would only wait for each other beside the runs.
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    return fit_verb.fit_verb(arguments)
