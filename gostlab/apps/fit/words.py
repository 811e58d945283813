"""The words of `./lab fit`. Apart from what they start, which takes a second to import."""

import argparse
import os

from gostlab.apps.command import add_flag, add_gost, add_jobs, add_machine, add_results, verb
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
    parser.add_argument(
        "--matrix", action="append", default=[], help="only this matrix of an experiment"
    )
    parser.add_argument(
        "--free",
        action="append",
        default=[],
        metavar="NAME=FROM..TO",
        help="what may explain the rates, from where to where, on a log scale (or …:linear); in"
        " place of the file's of that name",
    )
    parser.add_argument(
        "--fit-on",
        action="append",
        default=[],
        metavar="FACTOR=A,B",
        help="fit on the numbers of these levels; the rest is judged",
    )
    parser.add_argument(
        "--judge-on",
        action="append",
        default=[],
        metavar="FACTOR=A,B",
        help="judge by the numbers of these levels, and do not fit on them",
    )
    parser.add_argument(
        "--set", action="append", default=[], metavar="NAME=VALUE", help="a setting of all runs"
    )
    profile_writer.add_place(parser)
    parser.add_argument(
        "--points",
        type=int,
        help=f"paths to try (default: {free.POINTS_PER_PARAMETER} for each free parameter, and"
        f" {free.POINTS_PER_PARAMETER})",
    )
    parser.add_argument(
        "--members",
        type=int,
        default=3,
        help="paths that fit as well to run at full length, besides the best (default: 3)",
    )
    parser.add_argument(
        "--judge-paths",
        type=int,
        default=3,
        help="where no path meets all that judge: paths that fit as well to run besides, in case"
        " one does (default: 3)",
    )
    parser.add_argument(
        "--repeat", type=int, help="runs of each number on those (default: the file's, or 1)"
    )
    parser.add_argument("--screen", help="how long the cheap runs last, like 5s")
    parser.add_argument("--seed", type=int, default=1, help="of search and runs (default: 1)")
    add_jobs(parser)
    add_flag(parser, "--retry-failed", "run failed runs again")
    add_flag(parser, "--dry-run", "say what would be done and stop")
    add_flag(parser, "--json", "the outcome as JSON and nothing else")
    add_results(parser, "where runs go")
    add_machine(parser)
    add_gost(parser)


@verb(
    "fit",
    "the inverse question: which path makes the lab say what was measured?",
    fit_arguments,
    "./lab fit la-hamina --from tunnel-rates",
)
def fit(arguments: argparse.Namespace) -> int:
    """`./lab fit PROFILE --from MEASUREMENTS`."""
    # Its matrices are small: threads would only wait for each other beside the runs.
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    return fit_verb.fit_verb(arguments)
