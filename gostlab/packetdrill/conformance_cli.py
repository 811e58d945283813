"""`./lab conform`: its options, and the table that it prints."""

from __future__ import annotations

import argparse
import shutil
import sys
from pathlib import Path

from gostlab.cli import common
from gostlab.errors import BadInput
from gostlab.install import locate
from gostlab.packetdrill import conformance, scripts
from gostlab.registry.kernels import SHIPPED
from gostlab.scheduler import summary
from gostlab.terminal_escape import StepOutput

MAX_NAMED = 3  # of the scripts that one reason holds for; --json has all
KINDS = ("passed", "timing", "options", "Linux", "older", "unexplained")


@common.verb(
    "conform",
    "is the sandbox's TCP Linux's? its own packetdrill scripts, on the virtual clock",
    common.word("scripts", nargs="*", metavar="SCRIPT", help="only these, or all that begin so"),
    common.word(
        "--kernel", default=SHIPPED, metavar="A,B", help="on these kernels (default: shipped)"
    ),
    common.word("--packetdrill", type=Path, metavar="FILE", help="the program (default: on PATH)"),
    common.jobs(),
    common.results("where results go"),
    common.JSON,
    example="./lab conform --kernel shipped,5.10 --packetdrill ./packetdrill",
)
def conform_verb(arguments: argparse.Namespace) -> int:
    """A table with a row for each kernel; 1 where a script fails and nobody knows why."""
    packetdrill = program(arguments.packetdrill)
    found = locate.find_parts()
    kernels = {name: locate.kernel_for(name, found) for name in arguments.kernel.split(",")}
    said = StepOutput()
    try:
        folder, version = scripts.provided_scripts(said)
        names = scripts.chosen(folder, arguments.scripts)
        all_of_it = []
        for name, file in kernels.items():
            its = str(locate.kernel_record(file)["version"])
            order = conformance.ConformanceOptions(
                name, file, its, packetdrill, folder, version, names
            )
            conformed = conformance.conform(order, arguments.results, jobs=arguments.jobs, say=said)
            all_of_it.append(conformed)
    finally:
        said.clear()
    if arguments.json:
        common.print_json(all_of_it)
    else:
        print_conformed(all_of_it, len(names), version)
    return (
        common.EXIT_FAILED
        if any(each.count("unexplained") for each in all_of_it)
        else common.EXIT_OK
    )


def program(named: Path | None) -> Path:
    """packetdrill, where it is. Raises BadInput."""
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


def print_conformed(found: list[conformance.Conformed], count: int, version: str) -> None:
    console = summary.console_on(sys.stdout)
    table = summary.plain_table()
    for heading in ("kernel", "scripts", *KINDS):
        table.add_column(heading, justify="left" if heading == "kernel" else "right")
    for each in found:
        counts = [str(each.count(kind)) for kind in KINDS]
        table.add_row(f"{each.kernel} ({each.version})", str(count), *counts)
    console.print(table)
    console.print(f"Linux {version}'s own packetdrill scripts, IPv4 but where one says otherwise")
    for each in found:
        reasons: dict[str, list[str]] = {}
        for script in each.found:
            if not script.passed:
                reasons.setdefault(script.why, []).append(script.name.removesuffix(".pkt"))
        for reason, names in sorted(reasons.items(), key=lambda pair: -len(pair[1])):
            more = f" and {len(names) - MAX_NAMED} more" if len(names) > MAX_NAMED else ""
            named = ", ".join(names[:MAX_NAMED])
            console.print(f"{each.kernel}: {reason}: {named}{more}", soft_wrap=True)
