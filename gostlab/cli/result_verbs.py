# SPDX-License-Identifier: MIT
"""Define `./lab report`, `compare`, `replay` and `catalogue`, which read results."""

import argparse
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

from gostlab import api, reproduce
from gostlab.analysis.stats import compare_results
from gostlab.cli import common, list_experiments
from gostlab.errors import BadInput
from gostlab.scheduler import summary


@common.verb(
    common.declare_argument(
        "experiment",
        nargs="*",
        help="an experiment's name, or the path of its YAML file (default: every one with results);"
        " a run's folder, or its name, is a page of that run with every sample",
    ),
    common.results_option("where the runs are"),
    common.declare_argument(
        "--out", type=Path, help="the folder to write into (default: RESULTS/report)"
    ),
    common.declare_argument(
        "--open",
        nargs="?",
        type=Path,
        const=True,
        metavar="RUN",
        help="open the page in the desktop's browser; with RUN (a run's folder, or its name in the"
        " results) it is a page of that run with every sample",
    ),
    common.declare_flag("--json", 'print {"report": path}'),
    example="./lab report thesis-tunnel",
)
def report_verb(arguments: argparse.Namespace) -> int:
    run = arguments.open if isinstance(arguments.open, Path) else None
    named = arguments.experiment
    if not run and len(named) == 1 and is_run(arguments.results, named[0]):
        run = Path(named.pop())
    if run:
        if named:
            raise BadInput("--open RUN: a page of one run: name no experiment")
        page = api.write_run_page(arguments.results, run, arguments.out)
    else:
        say = str if arguments.json else print
        page = api.report(arguments.results, named, arguments.out, say=say)
    print(json.dumps({"report": str(page)}) if arguments.json else page)
    if arguments.open and not arguments.json:
        open_page(page)
    return common.EXIT_OK


def is_run(results: Path, name: str) -> bool:
    """Return whether a name is a run's folder, or the name of a run in the results."""
    return Path(name, "run.json").is_file() or bool(api.find_runs_by_name(results, name))


def open_page(page: Path) -> None:
    """Show a page in the desktop's browser, if there is a desktop; its path has been printed."""
    has_desktop = os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY")
    opener = shutil.which("xdg-open")
    if has_desktop and opener:
        subprocess.Popen(
            [opener, page.absolute()],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )


@common.verb(
    common.declare_argument("before", type=Path, help="a results folder of an experiment"),
    common.declare_argument(
        "after",
        type=Path,
        nargs="+",
        help="another, of the same questions; or reports of `iperf3 -J` on your machines",
    ),
    common.declare_argument(
        "--threshold",
        type=float,
        default=5.0,
        metavar="PERCENT",
        help="a metric that changes by less counts as the same (default: 5)",
    ),
    common.JSON,
    example="./lab compare old/thesis-tunnel results/thesis-tunnel",
)
def compare_verb(arguments: argparse.Namespace) -> int:
    """Run `./lab compare BEFORE AFTER`; return 1 if something got worse."""
    if not any(path.is_dir() for path in arguments.after):
        return compare_own_reports(arguments)
    if len(arguments.after) > 1:
        raise BadInput("compare takes one other results folder, or iperf3 reports alone")
    changes = api.compare(arguments.before, arguments.after[0], arguments.threshold / 100)
    if arguments.json:
        common.print_json(changes.to_json())
        return common.EXIT_FAILED if changes.regressed else common.EXIT_OK
    changes_table = compare_results.to_table(changes)
    console = summary.console_on(sys.stdout)
    if changes_table.rows:
        table = summary.plain_table()
        for column in changes_table.columns:
            table.add_column(column.heading, justify="right" if column.numeric else "left")
        for row in changes_table.formatted_rows():
            table.add_row(*row)
        console.print(table)
    for heading, cells in (
        ("no run counts now", changes.lost),
        ("only before", changes.only_before),
        ("only after", changes.only_after),
        ("made differently", changes.program_changes),
    ):
        if cells:
            console.print(f"{heading}: {'; '.join(cells)}", soft_wrap=True)
    console.print(changes_table.note, soft_wrap=True)
    return common.EXIT_FAILED if changes.regressed else common.EXIT_OK


def compare_own_reports(arguments: argparse.Namespace) -> int:
    """Run `./lab compare RESULTS mine.json …`: print one table with a column for the reports."""
    from gostlab.apply import compare_measurements

    rows = compare_measurements.compare_own(arguments.before, arguments.after)
    if arguments.json:
        common.print_json(rows)
        return common.EXIT_OK
    console, table = summary.console_on(sys.stdout), summary.plain_table()
    for heading, justify in (
        ("cell", "left"),
        ("metric", "left"),
        ("lab", "right"),
        ("95 % interval", "right"),
        ("yours", "right"),
        ("yours / lab", "right"),
        ("yours is", "left"),
    ):
        table.add_column(heading, justify=justify)
    for row in rows:
        yours = f"{row.yours:.4g}" + (f" (n = {row.tests})" if row.tests > 1 else "")
        spread = compare_measurements.format_interval(row)
        table.add_row(
            row.cell, row.metric, f"{row.lab:.4g}", spread, yours, f"{row.times:.3g}", row.verdict
        )
    console.print(table)
    console.print(compare_measurements.verdict_note(rows), soft_wrap=True)
    return common.EXIT_OK


@common.verb(
    common.declare_argument("run", type=Path, nargs="+", help="a run's result folder"),
    common.declare_flag("--json", "the figures as JSON and nothing else"),
    example="./lab replay results/thesis-tunnel/main-bbr-gost_ws-streams1-r1-0a1b2c3d",
)
def replay_verb(arguments: argparse.Namespace) -> int:
    """Run `./lab replay RUN`; return 1 if a replay differs from its run."""
    replays = []
    for folder in arguments.run:
        replays.append(reproduce.replay(folder))
        if not arguments.json:
            print(*replays[-1].lines, sep="\n", flush=True)
    if arguments.json:
        print(json.dumps([replay.to_json() for replay in replays], indent=2))
    return common.EXIT_OK if all(replay.same for replay in replays) else common.EXIT_FAILED


@common.verb(
    common.results_option("where the runs are"),
    common.declare_argument(
        "--cores",
        type=common.parse_count,
        help="the CPUs that the results were made with (default: this machine's)",
    ),
    common.JSON,
    example="./lab catalogue --cores 2",
)
def catalogue_verb(arguments: argparse.Namespace) -> int:
    forms = list_experiments.survey(arguments.results, arguments.cores)
    common.print_either(arguments, forms, list_experiments.to_markdown(forms))
    return common.EXIT_OK
