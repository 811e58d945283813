# SPDX-License-Identifier: MIT
"""Implement `./lab bench`."""

import argparse

from gostlab.bench import cpu_costs
from gostlab.cli.common import EXIT_FAILED, parse_count, print_error, verb


def bench_arguments(verb: argparse.ArgumentParser) -> None:
    verb.add_argument(
        "--costs",
        nargs="?",
        const="",
        required=True,
        metavar="NAME",
        help="measure the CPU costs of the programs' calls and bytes, and write them to"
        " machines/NAME.yaml, for `machine: NAME` (default: its CPU's name)",
    )
    verb.add_argument(
        "--repeat",
        type=parse_count,
        default=5,
        help="number of measurements of each load (default: 5)",
    )


@verb(bench_arguments, example="./lab bench --costs my-server")
def bench_verb(arguments: argparse.Namespace) -> int:
    try:
        return cpu_costs.main(arguments.costs, arguments.repeat)
    except (OSError, RuntimeError, ValueError) as error:
        print_error(f"bench --costs: {error}")
        return EXIT_FAILED
