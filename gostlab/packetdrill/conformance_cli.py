# SPDX-License-Identifier: MIT
"""Implement `./lab conform`: its options and its table."""

from __future__ import annotations

import argparse
import shutil
import sys
from pathlib import Path

from gostlab.cli import common
from gostlab.errors import BadInput
from gostlab.install import locate
from gostlab.packetdrill import conformance, extract_scripts
from gostlab.registry.kernels import SHIPPED
from gostlab.scheduler import summary
from gostlab.terminal_escape import StepOutput

MAX_NAMED = 3  # maximum number of scripts named per reason; --json has all
KINDS = ("passed", "timing", "options", "Linux", "older", "unexplained")


@common.verb(
    common.declare_argument(
        "scripts",
        nargs="*",
        metavar="SCRIPT",
        help="name or prefix of scripts to run (default: all)",
    ),
    common.declare_argument(
        "--kernel", default=SHIPPED, metavar="A,B", help="kernels to test (default: shipped)"
    ),
    common.declare_argument(
        "--packetdrill", type=Path, metavar="FILE", help="path of packetdrill (default: on PATH)"
    ),
    common.jobs_option(),
    common.results_option("folder of the results"),
    common.JSON,
    example="./lab conform --kernel shipped,5.10 --packetdrill ./packetdrill",
)
def conform_verb(arguments: argparse.Namespace) -> int:
    """Print a row for each kernel; return 1 if a failure is unexplained."""
    packetdrill = find_packetdrill(arguments.packetdrill)
    parts = locate.find_parts()
    kernels = {name: locate.kernel_for(name, parts) for name in arguments.kernel.split(",")}
    steps = StepOutput()
    try:
        folder, version = extract_scripts.fetch_scripts(steps)
        names = extract_scripts.select_scripts(folder, arguments.scripts)
        all_of_it = []
        for name, file in kernels.items():
            version_of_kernel = str(locate.kernel_record(file)["version"])
            order = conformance.ConformanceOptions(
                name, file, version_of_kernel, packetdrill, folder, version, names
            )
            conformed = conformance.conform(
                order, arguments.results, jobs=arguments.jobs, say=steps
            )
            all_of_it.append(conformed)
    finally:
        steps.clear()
    if arguments.json:
        common.print_json(all_of_it)
    else:
        print_results(all_of_it, len(names), version)
    return (
        common.EXIT_FAILED
        if any(kernel_result.count("unexplained") for kernel_result in all_of_it)
        else common.EXIT_OK
    )


def find_packetdrill(named: Path | None) -> Path:
    """Return the path of packetdrill. Raises BadInput."""
    there = str(named) if named else shutil.which("packetdrill")
    if there is None:
        raise BadInput(
            "packetdrill is not on PATH: Debian has none; build it from"
            " github.com/google/packetdrill, and name it with --packetdrill"
        )
    file = Path(there).resolve()
    if shutil.which(str(file)) is None:
        raise BadInput(f"--packetdrill {there}: no program that can be run")
    return file


def print_results(results: list[conformance.ConformanceResult], count: int, version: str) -> None:
    console = summary.console_on(sys.stdout)
    table = summary.plain_table()
    for heading in ("kernel", "scripts", *KINDS):
        table.add_column(heading, justify="left" if heading == "kernel" else "right")
    for result in results:
        counts = [str(result.count(failure)) for failure in KINDS]
        table.add_row(f"{result.kernel} ({result.version})", str(count), *counts)
    console.print(table)
    console.print(f"Linux {version}'s own packetdrill scripts, IPv4 but where one says otherwise")
    for result in results:
        reasons: dict[str, list[str]] = {}
        for script in result.results:
            if not script.passed:
                reasons.setdefault(script.why, []).append(script.name.removesuffix(".pkt"))
        for reason, names in sorted(reasons.items(), key=lambda pair: -len(pair[1])):
            more = f" and {len(names) - MAX_NAMED} more" if len(names) > MAX_NAMED else ""
            named = ", ".join(names[:MAX_NAMED])
            console.print(f"{result.kernel}: {reason}: {named}{more}", soft_wrap=True)
