# SPDX-License-Identifier: MIT
"""Define `./lab run`, `try`, `exec`, `shell` and `python topo.py`, which execute runs."""

from __future__ import annotations

import argparse
import math
import os
import shlex
import sys
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import TYPE_CHECKING

from gostlab import api, sandbox, shell
from gostlab.atomic_write import write_whole
from gostlab.cli import (
    app_metrics,
    coexistence_table,
    common,
    expectation_table,
    live_view,
    result_table,
    settling_time,
)
from gostlab.errors import BadInput
from gostlab.install import locate
from gostlab.results import capture_files
from gostlab.scheduler import executor, progress, summary
from gostlab.scheduler.experiment_result import ExperimentResult
from gostlab.spec import adhoc, expand, gost_config, settings
from gostlab.spec.yaml_source import split_name_values

if TYPE_CHECKING:
    from gostlab.analysis.stats.expectations import Judgement

USUAL_SETTINGS = ("rate", "rtt", "loss", "buffer", "cc", "tunnel", "streams", "duration")
LIVE_SAMPLE = "100ms"  # ten frames a second
REPEAT = "runs of each combination; from 6 on there is an interval (default: 1)"


def parse_pace(text: str) -> float:
    """Parse the pace of the live picture. Raises ArgumentTypeError."""
    try:
        value = float(text)
    except ValueError:
        value = 0.0
    if not 0 < value < math.inf:
        raise argparse.ArgumentTypeError(f"{text:.40}: not a pace (a number above 0, like 4)")
    return value


def add_set_option(verb: argparse.ArgumentParser) -> None:
    """Add --set, whose help names every setting; settings are loaded only when needed."""
    names = ", ".join(settings.SETTINGS)
    help_text = f"override a factor, or a setting: {names} (./lab settings NAME says more)"
    common.declare_repeatable_option("--set", "FACTOR=A,B", help_text)(verb)


LIVE = (  # options for drawing runs on the terminal
    common.declare_flag("--live", "show queue and windows on the terminal, of 4 runs at most"),
    common.declare_argument(
        "--pace",
        type=parse_pace,
        default=1.0,
        help="with --live: network seconds per second of real time (default: 1)",
    ),
)
JUNIT = common.declare_argument(
    "--junit", type=Path, metavar="FILE", help="write cells and expectations as JUnit XML, too"
)
RUN_OPTIONS = (  # options that `run` and topo.py share
    common.declare_flag("--quick", "the experiment's short form"),
    add_set_option,
    common.declare_repeatable_option("--matrix", "MATRIX", "only this matrix of the experiment"),
    common.MACHINE,
    common.declare_argument(
        "--clock", choices=("virtual", "real"), help="override the experiment's clock"
    ),
    common.declare_argument(
        "--seed", type=int, help="seed of the random number generators (default: the file's)"
    ),
    common.declare_argument("--repeat", type=int, help="runs of each cell (default: the file's)"),
    common.jobs_option("number of parallel runs (default: one per CPU; native: 1)"),
    common.results_option("where results go"),
    common.declare_flag("--retry-failed", "run failed runs again"),
    common.declare_flag("--dry-run", "list the runs (--json: their descriptions) and stop"),
    common.declare_argument(
        "--capture",
        metavar="WHAT",
        help="record packets in pcapng files: wan, links, legs, or a link (as --set capture=WHAT)",
    ),
    common.declare_argument(
        "--shard",
        metavar="I/N",
        help="run only the I-th of N parts (3/40); other processes run the others",
    ),
    common.declare_argument(
        "--dask",
        metavar="SCHEDULER|local:N",
        help="run on the workers of a Dask scheduler (tls://host:8786), or on N local processes",
    ),
    common.declare_flag(
        "--check-hosts", "with --dask: first see whether two workers agree bit for bit"
    ),
    common.declare_flag("--json", "print the outcome as JSON and nothing else"),
    JUNIT,
    *LIVE,
    common.QUIET,
    common.VERBOSE,
    common.GOST,
)


def path_options(when: str = "") -> tuple[common.AddArgument, common.AddArgument]:
    return (
        common.declare_argument(
            "--profile", default="la-hamina", help=f"{when}the path (default: la-hamina)"
        ),
        common.declare_argument(
            "--cc", default="cubic", help=f"{when}congestion control (default: cubic)"
        ),
    )


def add_setting_options(parser: common.ArgumentParser) -> None:
    """Add every setting as an option of `try`."""
    usual_group = parser.add_argument_group("what most questions vary; a list is compared")
    other_group = parser.add_argument_group("any other setting (./lab settings NAME says more)")
    defaults = {**settings.DEFAULTS, **adhoc.PATH_DEFAULTS, **adhoc.TRY_DEFAULTS}
    names = settings.known_names()
    for name in (*USUAL_SETTINGS, *(name for name in names if name not in USUAL_SETTINGS)):
        option = adhoc.option_of(name)
        option_names = [option] + ([option.replace("_", "-")] if "_" in name else [])
        option_names = ["--for", *option_names] if name == "duration" else option_names
        help_text = argparse.SUPPRESS  # settings of one direction (forward.loss) are not listed
        if name in settings.SETTINGS:
            default = f" (default: {defaults[name]})" if name in defaults else ""
            help_text = (settings.SETTINGS[name].says + default).replace("%", "%%")
        group = usual_group if name in USUAL_SETTINGS else other_group
        parser.add_argument(
            *option_names, group=group, dest=f"ask {name}", metavar="A,B", help=help_text
        )


# -- the verbs


def progress_observer(
    arguments: argparse.Namespace, experiments: Sequence[api.Experiment], *, quiet: bool
) -> AbstractContextManager[executor.RunObserver]:
    """Return the observer that shows the runs' progress. Raises BadInput."""
    experiment, *others = experiments
    if arguments.verbose and (arguments.live or arguments.quiet):
        raise BadInput(f"--verbose and {'--live' if arguments.live else '--quiet'}: only one")
    if not arguments.live:
        title = f"{len(experiments)} experiments" if others else experiment.name
        hidden = quiet or arguments.quiet
        return progress.progress_on_stderr(title, quiet=hidden, verbose=arguments.verbose)
    if quiet:
        raise BadInput("--live and --json or --csv: only one of them")
    if others:
        raise BadInput("--live shows one experiment, of 4 runs at most")
    return live_view.live_picture_on_stderr(
        experiment.file.title, arguments.results, arguments.pace, experiment.levels
    )


def parse_overrides(pairs: Sequence[str]) -> dict[str, str]:
    """Parse the values of --set by name. Raises BadInput."""
    levels: dict[str, str] = {}
    for name, value in split_name_values("--set", pairs, "factor=value (like streams=1,4)"):
        if name in levels:
            raise BadInput(f"--set {name}: given twice (write {name}=a,b)")
        levels[name] = value
    return levels


@common.verb(
    common.declare_argument(
        "experiment",
        nargs="+",
        help="a name in experiments/ or the path of a YAML file; several share the CPUs",
    ),
    *RUN_OPTIONS,
    example="./lab run thesis-tunnel --quick --set streams=1,4",
)
def run_verb(arguments: argparse.Namespace) -> int:
    experiments = [
        api.Experiment.from_file(
            name,
            settings=parse_overrides([*arguments.set, *capture_settings(arguments.capture)]),
            matrices=arguments.matrix,
            quick=arguments.quick,
            machine=arguments.machine,
            clock=arguments.clock,
            seed=arguments.seed,
            repeat=arguments.repeat,
            shard=arguments.shard,
        )
        for name in arguments.experiment
    ]
    names = [experiment.name for experiment in experiments]
    for name in names:
        if names.count(name) > 1:
            raise BadInput(f"{name}: two of the experiments are called so (say each one once)")
    if arguments.dry_run:
        return list_runs(experiments, arguments.results, as_json=arguments.json)
    cluster = {"dask": arguments.dask, "check_hosts": arguments.check_hosts}
    outcomes = execute_runs(experiments, arguments, quiet=arguments.json, **cluster)
    judged = evaluate_all_expectations(experiments, outcomes, arguments.junit)
    return print_outcomes(outcomes, arguments.results, judged, as_json=arguments.json)


# The judged expectations of each experiment, by its name.
Judged = Mapping[str, "Sequence[Judgement]"]


def evaluate_all_expectations(
    experiments: Sequence[api.Experiment], outcomes: Sequence[ExperimentResult], junit: Path | None
) -> Judged:
    """Judge every experiment's expectations, and write the JUnit file, if one is requested."""
    judged = {
        experiment.name: api.judge(experiment, outcome)
        for experiment, outcome in zip(experiments, outcomes, strict=True)
    }
    for experiment in experiments:
        if experiment.shard and any(matrix.expect for matrix in experiment.file.matrices):
            common.print_error(
                f"{experiment.name}: a shard judges no expectation: ./lab run without --shard,"
                " with all of its runs there, does"
            )
    if junit:
        api.write_junit(junit, outcomes, judged)
    return judged


def capture_settings(captured: str | None) -> list[str]:
    """Return --capture as --set takes it."""
    return [] if captured is None else [f"capture={captured}"]


def execute_runs(
    experiments: Sequence[api.Experiment],
    arguments: argparse.Namespace,
    *,
    quiet: bool,
    dask: str | None = None,
    check_hosts: bool = False,
) -> list[ExperimentResult]:
    """Provide missing parts, execute the experiments' runs, and return their outcomes."""
    jobs, gost = arguments.jobs, arguments.gost
    runs = [run for experiment in experiments for run in experiment.runs]
    missing = None if dask else api.missing_parts(runs, jobs=jobs, gost=gost)
    if missing and missing.any:
        build_time = " (a kernel: about three minutes on two idle CPUs)" if missing.kernels else ""
        common.print_error(
            f"{missing.names_line}: not there yet: fetched and built now, once{build_time}"
        )
        hidden = quiet or arguments.quiet
        api.provide_parts(missing, jobs=len(os.sched_getaffinity(0)), quiet=hidden)
    workers = None
    if dask or check_hosts:
        from gostlab.cluster import dask_cluster

        workers = dask_cluster.join_cluster(dask, experiments, gost, jobs, check_hosts=check_hosts)
    options = {"jobs": jobs, "gost": gost, "retry_failed": arguments.retry_failed}
    with progress_observer(arguments, experiments, quiet=quiet) as observer:
        return api.run_together(
            experiments, arguments.results, progress=observer, workers=workers, **options
        )


@common.verb(
    add_setting_options,
    common.declare_argument(
        "--path",
        metavar="FILE",
        help="the path, as you have it: any file that `./lab profile import` reads (a recording, tc"
        " lines, Mininet's TCLink); two files: A,B",
    ),
    common.declare_argument(
        "--gost-config",
        metavar="FILE",
        help="the tunnel, as your GOST has it: its YAML or JSON, or a file with its command lines;"
        " the client's, or CLIENT,SERVER",
    ),
    common.declare_argument(
        "--run-server",
        metavar="COMMAND",
        help="server command in place of iperf3's; it listens on $HOST and $PORT",
    ),
    common.declare_argument(
        "--run-client",
        metavar="COMMAND",
        help="client command; it connects for $SECONDS at most (--direction download: it receives)",
    ),
    common.declare_argument("--repeat", type=int, default=1, help=REPEAT),
    common.declare_argument(
        "--seed", type=int, default=1, help="seed of the random number generators (default: 1)"
    ),
    common.JSON,
    common.declare_flag("--csv", "the table as CSV and nothing else"),
    common.declare_repeatable_option(
        "--expect",
        "TEXT",
        'what must hold, or the exit code is 1: "goodput >= 8 Mbit/s", "bbr.goodput >= 3 ×'
        ' cubic.goodput", "verdict: ok"; several times for several',
    ),
    JUNIT,
    common.declare_argument(
        "--save", type=Path, metavar="FILE", help="also write the question as an experiment file"
    ),
    common.declare_flag("--dry-run", "list the runs and stop"),
    common.declare_flag("--retry-failed", "run failed runs again"),
    *LIVE,
    common.QUIET,
    common.VERBOSE,
    common.jobs_option(),
    common.results_option("where results go"),
    common.MACHINE,
    common.GOST,
    example="./lab try --rate 100mbit --rtt 80ms --loss 0.5% --cc cubic,bbr"
    " --tunnel direct,gost+ws",
    usage="./lab try [--SETTING A,B …] [--repeat N] [--json | --csv] [--save FILE] …",
    description="Run every combination of what is asked and print a table. A list (cubic,bbr) is"
    " compared, one value is a setting. Results are kept: the same question is answered at once,"
    " more --repeat goes on from the runs that there are.",
    # Settings cannot be abbreviated, so that a new setting does not change the meaning of --rat.
    allow_abbrev=False,
)
def try_verb(arguments: argparse.Namespace) -> int:
    if arguments.json and arguments.csv:
        raise BadInput("--json and --csv: only one of them")
    given = {
        name.removeprefix("ask "): value
        for name, value in vars(arguments).items()
        if name.startswith("ask ") and value is not None
    }
    if arguments.live:
        given.setdefault("sample", LIVE_SAMPLE)
    if arguments.path:
        given = add_imported_path(arguments.path, given)
    tunnel = str(given.get("tunnel", ""))
    if tunnel.endswith((".yml", ".yaml", ".json")):
        raise BadInput(f"--tunnel {tunnel}: a file; GOST's configuration is --gost-config {tunnel}")
    if arguments.gost_config:
        given = add_gost_tunnel(arguments.gost_config, given)
    programs, repetitions = (arguments.run_server, arguments.run_client), arguments.repeat
    question = adhoc.to_question(
        given, repetitions=repetitions, seed=arguments.seed, own=programs, expect=arguments.expect
    )
    experiment = api.Experiment.asking(question, arguments.machine)
    if arguments.save:
        write_whole(arguments.save, question.text)
    if arguments.dry_run:
        return list_runs([experiment], arguments.results, as_json=arguments.json)
    [outcome] = execute_runs([experiment], arguments, quiet=arguments.json or arguments.csv)
    judged = evaluate_all_expectations([experiment], [outcome], arguments.junit)
    cells = api.contest_cells(outcome) if question.ranks_flows else api.cell_results(outcome)
    measures = app_metrics.flow_measures(cells)
    if arguments.json:
        identity = {"experiment": question.name, "folder": str(arguments.results / question.name)}
        of_flows = {"flow_measures": measures} if measures else {}
        common.print_json({**identity, **outcome_json(outcome, judged), "cells": cells, **of_flows})
        return exit_code(outcome, judged)
    for line in outcome.complaints:
        common.print_error(line)
    if arguments.csv:
        print((coexistence_table if question.ranks_flows else result_table).to_csv(cells), end="")
        return exit_code(outcome, judged)
    if question.ranks_flows:
        coexistence_table.print_contest(cells, sys.stdout)
        for line in app_metrics.flow_lines(measures):
            print(line)
    else:
        settled = [*app_metrics.flow_lines(measures), *settling_time.settling_lines(cells)]
        result_table.print_answer(cells, outcome.first_cc, sys.stdout, settled)
    expectation_table.print_judgements(judged[question.name], sys.stdout)
    print(f"kept in {arguments.results / question.name}", end="")
    print("" if arguments.repeat >= 6 else " · --repeat 6 gives intervals and keeps these runs")
    for line in capture_lines(outcome):
        print(line)
    print(f"figures: {next_command(outcome, arguments.results)}", end="")
    print(f" · as a file: {arguments.save}" if arguments.save else " · as a file: --save NAME.yaml")
    return exit_code(outcome, judged)


def add_imported_path(files: str, given: Mapping[str, str]) -> dict[str, str]:
    """Return a question's settings on an imported path. Raises BadInput."""
    from gostlab.profile_import import import_cli

    imported = import_cli.import_for_question(files, given)
    for line in imported.lines:
        common.say(line)
    of_path = {"profile": str(imported.path), **imported.settings}
    # A single round trip has gone into the path, by direction.
    others = {n: text for n, text in given.items() if n != "rtt" or "," in text}
    return {**of_path, **others}


def add_gost_tunnel(files: str, given: Mapping[str, str]) -> dict[str, str]:
    """Return a question's settings with the tunnel of GOST's configuration. Raises BadInput."""
    config = gost_config.read_gost_config(files)
    for line in config.taken:
        common.say(f"took {line}")
    for line in config.left_out:
        common.say(f"left out {line}")
    common.say(f"asked: {' '.join(f'--{name} {text}' for name, text in config.settings.items())}")
    # Another tunnel of the question is compared with the configuration's.
    tunnels = ",".join(filter(None, (given.get("tunnel"), config.settings["tunnel"])))
    return {**config.settings, **given, "tunnel": tunnels}


def list_runs(experiments: Sequence[api.Experiment], results: Path, *, as_json: bool) -> int:
    """List the runs of `run --dry-run` on standard output, and notes on standard error."""
    if as_json:
        tasks = [task for experiment in experiments for task in experiment.tasks(results)]
        common.print_json([task.to_json() for task in tasks])
    for experiment in experiments:
        prefix = f"{experiment.name}/" if len(experiments) > 1 else ""
        for run in () if as_json else experiment.runs:
            print(f"{prefix}{run.name}")
        for line in (*(warning.line for warning in experiment.warned), *experiment.notes):
            print(line, file=sys.stderr)
        for name, rule in experiment.until.items():
            print(
                f"{name}: this is the first block; there may be more, until every cell's {rule.of}"
                f" is known to ± {100 * rule.halfwidth:g} %, {rule.most} repetitions at most",
                file=sys.stderr,
            )
    return common.EXIT_OK


@common.verb(
    common.declare_argument(
        "run",
        metavar="RUN.json",
        help="a run.json, or one entry of `./lab run X --dry-run --json`; - for standard input",
    ),
    common.declare_argument(
        "folder",
        metavar="FOLDER",
        nargs="?",
        type=Path,
        help="path of the run's folder (default: the entry's)",
    ),
    common.declare_flag("--retry-failed", "make it again if it failed before"),
    common.declare_flag("--json", "print its status as JSON and nothing else"),
    common.GOST,
    example="./lab exec run.json results/mine/again",
)
def exec_verb(arguments: argparse.Namespace) -> int:
    """Run `./lab exec`; return 0 as soon as there is a status, of any outcome."""
    end = api.execute_run_file(
        arguments.run, arguments.folder, gost=arguments.gost, retry_failed=arguments.retry_failed
    )
    result = end.verdict if end.outcome == "ok" else end.error
    value = {"folder": str(end.folder), "verdict": end.verdict, "status": dict(end.status)}
    common.print_either(arguments, value, f"{end.folder}: {end.outcome}: {result}")
    return common.EXIT_OK


def print_outcomes(
    outcomes: Sequence[ExperimentResult], results: Path, judged: Judged, *, as_json: bool
) -> int:
    """Print the outcomes of `run`, and return the most severe exit code."""
    several = len(outcomes) > 1
    if as_json:
        by_experiment = {
            outcome.experiment: {
                **outcome_json(outcome, judged),
                "cells": api.cell_results(outcome),
            }
            for outcome in outcomes
        }
        common.print_json(by_experiment if several else by_experiment[outcomes[0].experiment])
    for outcome in () if as_json else outcomes:
        if several:
            print(f"\n{outcome.experiment}")
        print_outcome(outcome, results, judged)
    codes = [exit_code(outcome, judged) for outcome in outcomes]
    return common.EXIT_FAILED if common.EXIT_FAILED in codes else max(codes)


def outcome_json(outcome: ExperimentResult, judged: Judged) -> dict[str, object]:
    """Return an outcome for programs, with its judged expectations."""
    expectations = [judgement.to_json() for judgement in judged[outcome.experiment]]
    return {**outcome.to_json(), "expectations": expectations}


def print_outcome(outcome: ExperimentResult, results: Path, judged: Judged) -> None:
    """Print an experiment's outcome, and the next command."""
    for line in outcome.complaints:
        common.print_error(line)
    summary.print_summary(api.cell_results(outcome), outcome.first_cc, sys.stdout)
    print(f"{outcome.counts_line} · {results}")
    for line in capture_lines(outcome):
        print(line)
    for cell in outcome.wide:
        print(summary.stopping_line(cell))
    expectation_table.print_judgements(judged[outcome.experiment], sys.stdout)
    print(f"next: {next_command(outcome, results)}")


def capture_lines(outcome: ExperimentResult) -> list[str]:
    """Return the command that opens the first run's capture; none without a capture."""
    captured = [end for end in outcome.in_order if end.run.capture != "off"]
    files = (capture_files.main_file(end.folder, end.run) for end in captured)
    return [f"packets: wireshark {shlex.quote(str(file))}" for file in files if file][:1]


def next_command(outcome: ExperimentResult, results: Path) -> str:
    """Return the command to type after a run."""
    results_option = "" if results == common.RESULTS else f" --results {shlex.quote(str(results))}"
    return f"./lab report {shlex.quote(outcome.experiment)}{results_option}"


def exit_code(outcome: ExperimentResult, judged: Judged) -> int:
    """Return the exit code of an outcome; unsupported runs alone are no failure."""
    if outcome.broke or not all(judgement.passed for judgement in judged[outcome.experiment]):
        return common.EXIT_FAILED
    return common.EXIT_INVALID if outcome.in_state("invalid") else common.EXIT_OK


@common.verb(
    *path_options(),
    common.declare_argument(
        "--clock",
        choices=("virtual", "real"),
        default="real",
        help="the guest's clock (default: real, as a person types in real time)",
    ),
    common.MACHINE,
    common.GOST,
    common.declare_repeatable_option(
        "--set", "SETTING=VALUE", "override a setting, like rate=20mbit"
    ),
    example="./lab shell --profile plain-100ms --set rate=20mbit --set rtt=60ms",
)
def shell_verb(arguments: argparse.Namespace) -> int:
    choice = sandbox.choose_machine(arguments.machine)
    is_native = choice.name == "native"
    clock = "real" if is_native else arguments.clock or "real"
    run = expand.single_run(
        profile=arguments.profile,
        cc=arguments.cc,
        machine=choice.name,
        clock=clock,
        overrides=parse_overrides(arguments.set),
    )
    needs_terminal = not is_native and os.environ.get("GOSTLAB_ALLOW_PIPE") != "1"
    if needs_terminal and not sys.stdin.isatty():
        raise BadInput("shell needs a terminal to talk to (standard input is not one)")
    parts = locate.find_parts(arguments.gost)
    common.print_error(f"machine: {choice.name} ({choice.reason})")
    return shell.open_shell(run, parts)


@common.verb(
    common.declare_flag("--cli", "Mininet's prompt in the lab instead of a matrix"),
    common.declare_argument(
        "--experiment",
        nargs="+",
        default=["thesis-tunnel"],
        help="what to run (default: thesis-tunnel)",
    ),
    common.declare_flag("--full", "the full matrix instead of the quick one"),
    *path_options("with --cli: "),
    *RUN_OPTIONS,
    prog="topo.py",
    description="Build the lab: open it (--cli), or run the quick matrix and report it.",
    epilog="examples: python topo.py --cli · sudo python topo.py",
)
def topo_verb(arguments: argparse.Namespace) -> int:
    if arguments.cli:
        return shell_verb.run(arguments)
    arguments.quick = not arguments.full
    status = run_verb.run(arguments)
    if arguments.dry_run or arguments.json:
        return status

    print(api.report(arguments.results, arguments.experiment))
    common.say("./lab serve: a page on which you turn the knobs yourself")
    return status
