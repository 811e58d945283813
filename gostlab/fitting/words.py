"""The words of `./lab fit`. Apart from what they start, which takes a second to import."""

from __future__ import annotations

import argparse
from pathlib import Path

from gostlab.ask import profile as profiles

POINTS_PER_PARAMETER = 10
JUDGE_PATHS = 3


def add_arguments(parser: argparse.ArgumentParser, results: Path) -> None:
    """What `./lab fit` takes."""
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
    parser.add_argument("--name", help="the new profile's name (default: PROFILE-fitted)")
    parser.add_argument(
        "--out",
        type=Path,
        default=profiles.FOLDER,
        help="where to write it (default: netem_profiles/)",
    )
    parser.add_argument("--force", action="store_true", help="replace a profile of that name")
    parser.add_argument(
        "--points",
        type=int,
        help=f"paths to try (default: {POINTS_PER_PARAMETER} for each free parameter, and"
        f" {POINTS_PER_PARAMETER})",
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
        default=JUDGE_PATHS,
        help="where no path meets all that judge: paths that fit as well to run besides, in case"
        f" one does (default: {JUDGE_PATHS})",
    )
    parser.add_argument(
        "--repeat", type=int, help="runs of each number on those (default: the file's, or 1)"
    )
    parser.add_argument("--screen", help="how long the cheap runs last, like 5s")
    parser.add_argument("--seed", type=int, default=1, help="of search and runs (default: 1)")
    parser.add_argument("--jobs", type=int, help="runs side by side (default: one per CPU)")
    parser.add_argument("--retry-failed", action="store_true", help="run failed runs again")
    parser.add_argument("--dry-run", action="store_true", help="say what would be done and stop")
    parser.add_argument("--json", action="store_true", help="the outcome as JSON and nothing else")
    parser.add_argument(
        "--results", type=Path, default=results, help=f"where runs go (default: {results})"
    )
