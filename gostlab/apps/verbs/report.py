"""`./lab report`, `compare`, `replay` and `catalogue`: they read what has been run."""

import argparse
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

from analysis.judge import change
from gostlab import api, machine
from gostlab.apps import catalogue, command, replay
from gostlab.declared.errors import BadInput
from gostlab.describe.file import experiment
from gostlab.runs import summary


@command.verb(
    "report",
    "tables, figures and one page from the results",
    command.word(
        "experiment",
        nargs="*",
        help="an experiment's name, or the path of its YAML file (default: every one with results);"
        " a run's folder is a page of that run with every sample",
    ),
    command.results("where the runs are"),
    command.word("--out", type=Path, help="the folder to write into (default: RESULTS/report)"),
    command.flag(
        "--site",
        "write site/ instead: pages of every study, figure and number, as HTML; where experiments"
        " are named, the other studies' sections stay as they are",
    ),
    command.flag(
        "--docs",
        "write docs/results.md and the tables between marks in docs/ instead, of cells with five"
        " runs and more; what has none here stays as it is",
    ),
    command.word(
        "--open",
        nargs="?",
        type=Path,
        const=True,
        metavar="RUN",
        help="open the page in the desktop's browser; with RUN (a run's folder, or its name in the"
        " results) it is a page of that run with every sample",
    ),
    command.flag("--json", 'print {"report": path}'),
    example="./lab report thesis-tunnel",
)
def report_verb(arguments: argparse.Namespace) -> int:
    run = arguments.open if isinstance(arguments.open, Path) else None
    named = arguments.experiment
    if not run and len(named) == 1 and Path(named[0], "run.json").is_file():
        run = Path(named.pop())
    if run:
        if arguments.site or arguments.docs or named:
            raise BadInput("--open RUN: a page of one run; name no experiment, --site or --docs")
        page = api.open_run(arguments.results, run, arguments.out)
    else:
        given = arguments.results, named, arguments.out
        if arguments.site and arguments.docs:
            raise BadInput("--site and --docs: only one of them (make results writes both)")
        if arguments.docs:
            page, *others = api.docs_pages(*given)
            if not arguments.json:
                print(*others, sep="\n", end="\n" if others else "")
        elif arguments.site:
            page = api.site(*given)
        else:
            page = api.report(*given, say=str if arguments.json else print)
    print(json.dumps({"report": str(page)}) if arguments.json else page)
    if arguments.open and not arguments.json:
        open_page(page)
    return command.EXIT_OK


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


@command.verb(
    "compare",
    "what changed between two experiments' results folders; exit code 1 if something is worse",
    command.word("before", type=Path, help="a results folder of an experiment"),
    command.word("after", type=Path, help="another, of the same questions"),
    command.word(
        "--threshold",
        type=float,
        default=5.0,
        metavar="PERCENT",
        help="a figure that moves by less is the same (default: 5)",
    ),
    command.JSON,
    example="./lab compare old/thesis-tunnel results/thesis-tunnel",
)
def compare_verb(arguments: argparse.Namespace) -> int:
    """`./lab compare BEFORE AFTER`: 1 if something got worse."""
    found = api.compare(arguments.before, arguments.after, arguments.threshold / 100)
    if arguments.json:
        command.print_json(found.to_json())
        return command.EXIT_FAILED if found.regressed else command.EXIT_OK
    told = change.to_table(found)
    console = summary.console_on(sys.stdout)
    if told.rows:
        table = summary.plain_table()
        for column in told.columns:
            table.add_column(column.heading, justify="right" if column.numeric else "left")
        for row in told.shown():
            table.add_row(*row)
        console.print(table)
    for heading, cells in (
        ("no run counts now", found.lost),
        ("only before", found.only_before),
        ("only after", found.only_after),
        ("made differently", found.made),
    ):
        if cells:
            console.print(f"{heading}: {'; '.join(cells)}", soft_wrap=True)
    console.print(told.note, soft_wrap=True)
    return command.EXIT_FAILED if found.regressed else command.EXIT_OK


@command.verb(
    "replay",
    "run a result's commands.sh again in the sandbox and compare",
    command.word("run", type=Path, nargs="+", help="a run's result folder"),
    command.flag("--json", "the figures as JSON and nothing else"),
    example="./lab replay results/thesis-tunnel/main-bbr-gost_ws-streams1-r1-0a1b2c3d",
)
def replay_verb(arguments: argparse.Namespace) -> int:
    """`./lab replay RUN`: 1 if a replay differs from its run."""
    replays = []
    for folder in arguments.run:
        replays.append(replay.replay(folder))
        if not arguments.json:
            print(*replays[-1].lines, sep="\n", flush=True)
    if arguments.json:
        print(json.dumps([each.to_json() for each in replays], indent=2))
    return command.EXIT_OK if all(each.same for each in replays) else command.EXIT_FAILED


@command.verb(
    "catalogue",
    "every experiment, what it costs, and how long it took here",
    command.word("experiment", nargs="*", help="with --sample: which (default: every one)"),
    command.results("where the runs are"),
    command.word(
        "--cores",
        type=command.count,
        help="the CPUs that the results were made with (default: this machine's)",
    ),
    command.word(
        "--sample",
        type=command.count,
        metavar="N",
        help="what it would take: run N runs of each matrix, and reckon with an interval; they are"
        " kept in RESULTS/sample, so that a larger N only adds",
    ),
    command.word("--seed", type=int, default=1, help="which runs --sample draws (default: 1)"),
    command.flag("--quick", "with --sample: of the quick forms, in place of the full ones"),
    command.JSON,
    example="./lab catalogue --cores 2",
)
def catalogue_verb(arguments: argparse.Namespace) -> int:
    if arguments.sample is not None:
        return sample_verb(arguments)
    forms = catalogue.survey(arguments.results, arguments.cores)
    command.print_either(arguments, forms, catalogue.to_markdown(forms))
    return command.EXIT_OK


def sample_verb(arguments: argparse.Namespace) -> int:
    strata = catalogue.take_sample(
        arguments.experiment or experiment.list_experiments(),
        arguments.results / "sample",
        arguments.sample,
        quick=arguments.quick,
        seed=arguments.seed,
        say=command.complain,
    )
    estimates = catalogue.estimated(strata)
    cpus = arguments.cores or len(machine.usable_cpus())
    command.print_either(arguments, estimates, catalogue.sample_to_markdown(estimates, cpus))
    return command.EXIT_OK
