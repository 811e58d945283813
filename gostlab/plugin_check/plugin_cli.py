# SPDX-License-Identifier: MIT
"""Implement `./lab plugin`: list the plugins, and check some of them."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from gostlab.cli import common
from gostlab.plugin_check.check_steps import FAILED, StepOutcome, check_plugin
from gostlab.plugin_check.discovery import all_plugins, bench_for
from gostlab.registry.installed_plugins import GROUPS
from gostlab.registry.plugin_loader import plugin_of
from gostlab.scheduler import summary
from gostlab.terminal_escape import StepOutput


@common.verb(
    common.declare_argument(
        "group", nargs="?", choices=GROUPS, help="the plugins of this group (default: all)"
    ),
    common.declare_argument(
        "names", nargs="*", metavar="NAME", help="check these (default: list what there is)"
    ),
    common.declare_argument(
        "--sample",
        type=Path,
        action="append",
        default=[],
        metavar="FILE",
        help="a recording that an importer reads; once for each of its files",
    ),
    common.results_option("folder of the runs, under plugin-check"),
    common.JSON,
    example="./lab plugin tunnels mine",
)
def plugin_verb(arguments: argparse.Namespace) -> int:
    """Print a row for each plugin or step; return 1 if a step fails."""
    if not arguments.names:
        list_plugins(arguments.group, as_json=arguments.json)
        return common.EXIT_OK
    folder = arguments.results / "plugin-check"
    for name in arguments.names:
        bench_for(arguments.group, name, folder, ())
    steps = StepOutput()
    outcomes: list[StepOutcome] = []
    try:
        for name in arguments.names:
            steps(f"{arguments.group} {name}")
            outcomes += check_plugin(
                arguments.group, name, results=folder, samples=arguments.sample
            )
    finally:
        steps.clear()
    if arguments.json:
        common.print_json(outcomes)
    else:
        print_outcomes(outcomes)
    failed = any(outcome.result == FAILED for outcome in outcomes)
    return common.EXIT_FAILED if failed else common.EXIT_OK


def list_plugins(group: str | None, *, as_json: bool) -> None:
    """Print every plugin with its package."""
    rows = []
    for one, name in all_plugins():
        if group in (None, one):
            module = bench_for(one, name, Path(), ()).module.__name__
            plugin = plugin_of(one, module)
            package = f"{plugin.package} {plugin.version}" if plugin else "gostlab"
            rows.append({"group": one, "name": name, "package": package, "module": module})
    if as_json:
        common.print_json(rows)
        return
    table = summary.plain_table()
    for heading in ("group", "name", "package", "module"):
        table.add_column(heading)
    for row in rows:
        table.add_row(*row.values())
    summary.console_on(sys.stdout).print(table)


def print_outcomes(outcomes: list[StepOutcome]) -> None:
    table = summary.plain_table()
    for heading in ("plugin", "step", "result"):
        table.add_column(heading)
    for outcome in outcomes:
        table.add_row(outcome.plugin, outcome.step, outcome.result)
    summary.console_on(sys.stdout).print(table)
    for outcome in outcomes:
        if outcome.reason:
            print(f"{outcome.plugin}: {outcome.step}: {outcome.result}: {outcome.reason}")
