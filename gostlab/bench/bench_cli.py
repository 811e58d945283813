"""Implement `./lab bench`."""

import argparse
from pathlib import Path

from gostlab.bench import cpu_costs, speed
from gostlab.cli.common import EXIT_BAD_INPUT, EXIT_FAILED, JSON, complain, count, verb


def bench_arguments(verb: argparse.ArgumentParser) -> None:
    verb.add_argument(
        "--repeat", type=count, default=5, help="number of measurements of each metric (default: 5)"
    )
    verb.add_argument(
        "--part",
        action="append",
        default=[],
        metavar="PART",
        help="measure only these parts: before, native, pair, growth, overhead or root;"
        " or, measured only if they are named, streams, tunnels, repeatability, calls, interrupts,"
        " cpus, loopback or relay; may be given again",
    )
    verb.add_argument(
        "--before",
        metavar="COMMIT|none",
        default=speed.BEFORE[1],
        help="version to compare with; its kernel is built once, in the cache"
        f" (default: {speed.BEFORE[1]}, version {speed.BEFORE[0]})",
    )
    verb.add_argument("--write", type=Path, metavar="FILE", help="also write the page of timings")
    verb.add_argument(
        "--costs",
        nargs="?",
        const="",
        metavar="NAME",
        help="instead, measure the CPU costs of the programs' calls and bytes, and write them to"
        " machines/NAME.yaml, for `machine: NAME` (default: its CPU's name)",
    )
    verb.add_argument(
        "--dask",
        type=count,
        metavar="N",
        help="instead, measure a Dask scheduler's overhead per run by N empty runs",
    )


@verb(
    "bench",
    "measure the lab's speed on this machine and compare it with the previous version",
    JSON,
    bench_arguments,
    example="./lab bench --json",
)
def bench_verb(arguments: argparse.Namespace) -> int:
    if arguments.costs is not None:
        try:
            return cpu_costs.main(arguments.costs, arguments.repeat)
        except (OSError, RuntimeError, ValueError) as error:
            complain(f"bench --costs: {error}")
            return EXIT_FAILED
    for part in arguments.part:
        if part not in {**speed.PARTS, **speed.FURTHER}:
            known = ", ".join([*speed.PARTS, *speed.FURTHER])
            complain(f"--part {part}: not one of {known}")
            return EXIT_BAD_INPUT
    return speed.main(
        arguments.repeat,
        as_json=arguments.json,
        parts=arguments.part,
        stubs=arguments.dask,
        before=None if arguments.before == "none" else arguments.before,
        write=arguments.write,
    )
