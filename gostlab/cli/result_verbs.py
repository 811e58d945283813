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
    "report",
    "tables, figures and one page from the results",
    common.word(
        "experiment",
        nargs="*",
        help="an experiment's name, or the path of its YAML file (default: every one with results);"
        " a run's folder is a page of that run with every sample",
    ),
    common.results("where the runs are"),
    common.word("--out", type=Path, help="the folder to write into (default: RESULTS/report)"),
    common.word(
        "--open",
        nargs="?",
        type=Path,
        const=True,
        metavar="RUN",
        help="open the page in the desktop's browser; with RUN (a run's folder, or its name in the"
        " results) it is a page of that run with every sample",
    ),
    common.flag("--json", 'print {"report": path}'),
    example="./lab report thesis-tunnel",
)
def report_verb(arguments: argparse.Namespace) -> int:
    run = arguments.open if isinstance(arguments.open, Path) else None
    named = arguments.experiment
    if not run and len(named) == 1 and Path(named[0], "run.json").is_file():
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
    "compare",
    "what changed between two experiments' results folders; exit code 1 if something is worse",
    common.word("before", type=Path, help="a results folder of an experiment"),
    common.word("after", type=Path, help="another, of the same questions"),
    common.word(
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
    changes = api.compare(arguments.before, arguments.after, arguments.threshold / 100)
    if arguments.json:
        common.print_json(changes.to_json())
        return common.EXIT_FAILED if changes.regressed else common.EXIT_OK
    changes_table = compare_results.to_table(changes)
    console = summary.console_on(sys.stdout)
    if changes_table.rows:
        table = summary.plain_table()
        for column in changes_table.columns:
            table.add_column(column.heading, justify="right" if column.numeric else "left")
        for row in changes_table.shown():
            table.add_row(*row)
        console.print(table)
    for heading, cells in (
        ("no run counts now", changes.lost),
        ("only before", changes.only_before),
        ("only after", changes.only_after),
        ("made differently", changes.made),
    ):
        if cells:
            console.print(f"{heading}: {'; '.join(cells)}", soft_wrap=True)
    console.print(changes_table.note, soft_wrap=True)
    return common.EXIT_FAILED if changes.regressed else common.EXIT_OK


@common.verb(
    "replay",
    "run a result's commands.sh again in the sandbox and compare",
    common.word("run", type=Path, nargs="+", help="a run's result folder"),
    common.flag("--json", "the figures as JSON and nothing else"),
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
    "catalogue",
    "every experiment, what it costs, and how long it took here",
    common.results("where the runs are"),
    common.word(
        "--cores",
        type=common.count,
        help="the CPUs that the results were made with (default: this machine's)",
    ),
    common.JSON,
    example="./lab catalogue --cores 2",
)
def catalogue_verb(arguments: argparse.Namespace) -> int:
    forms = list_experiments.survey(arguments.results, arguments.cores)
    common.print_either(arguments, forms, list_experiments.to_markdown(forms))
    return common.EXIT_OK
