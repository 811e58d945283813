"""The words of `./lab worst`. Apart from what they start, which takes a second to import."""

import argparse

from gostlab.apps.command import add_flag, add_jobs, add_machine, add_results, verb
from gostlab.apps.paths import profile_writer
from gostlab.apps.worst import SAYS, worst_verb

OVER = "rate,rtt,loss,buffer,queue"


def worst_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--cc", required=True, help="the congestion control to look into")
    parser.add_argument("--against", metavar="CC", help="one that shares the bottleneck with it")
    parser.add_argument(
        "--over",
        default=OVER,
        metavar="NAME,…",
        help="what is varied: a setting, or NAME=FROM..TO, or NAME=A|B|C (default: %(default)s)",
    )
    parser.add_argument(
        "--measure",
        choices=tuple(SAYS),
        help="what makes a path bad: "
        + "; ".join(f"{name}: {says}" for name, says in SAYS.items()).replace("%", "%%")
        + " (default: share with --against, else utilisation)",
    )
    parser.add_argument("--budget", type=int, default=200, help="runs in all (default: 200)")
    parser.add_argument(
        "--set", action="append", default=[], metavar="NAME=VALUE", help="a setting of all runs"
    )
    parser.add_argument("--seed", type=int, default=1, help="of search and runs (default: 1)")
    add_jobs(parser)
    add_flag(parser, "--dry-run", "say what would be searched and stop")
    add_flag(parser, "--json", "the outcome as JSON and nothing else")
    profile_writer.add_place(parser)
    add_results(parser, "where runs go")
    add_machine(parser)


@verb(
    "worst",
    "on which path does a congestion control do worst? An optimiser looks",
    worst_arguments,
    f"./lab worst --cc bbr --against cubic --over {OVER} --budget 200",
)
def worst(arguments: argparse.Namespace) -> int:
    return worst_verb.worst_verb(arguments)
