"""`./lab run`, `try`, `exec`, `shell`, and what `python topo.py` does: they make runs."""

from __future__ import annotations

import argparse
import math
import os
import shlex
import sys
from collections.abc import Sequence
from contextlib import AbstractContextManager
from pathlib import Path

from gostlab import api, sandbox, shell
from gostlab.cli import coexistence, common, live_view, result_table, settling
from gostlab.cluster import dask_cluster
from gostlab.errors import BadInput
from gostlab.install import locate
from gostlab.results import write_whole
from gostlab.scheduler import batch_result as finished
from gostlab.scheduler import progress, queue, summary
from gostlab.spec import adhoc, expand, settings
from gostlab.spec.yaml_source import named_values

USUALLY_ASKED = ("rate", "rtt", "loss", "buffer", "cc", "tunnel", "streams", "duration")
LIVE_SAMPLE = "100ms"  # ten frames a second
REPEAT = "runs of each combination; from 6 on there is an interval (default: 1)"


def pace(text: str) -> float:
    """How fast the picture goes. Raises ArgumentTypeError."""
    try:
        found = float(text)
    except ValueError:
        found = 0.0
    if not 0 < found < math.inf:
        raise argparse.ArgumentTypeError(f"{text:.40}: not a pace (a number above 0, like 4)")
    return found


def set_word(verb: argparse.ArgumentParser) -> None:
    """--set, whose help names every setting: they are read when a run needs its words."""
    known = ", ".join(settings.SETTINGS)
    says = f"override a factor, or a setting: {known} (./lab settings NAME says more)"
    common.listed("--set", "FACTOR=A,B", says)(verb)


LIVE = (  # drawn on the terminal as it goes on
    common.flag("--live", "show queue and windows on the terminal, of 4 runs at most"),
    common.word(
        "--pace",
        type=pace,
        default=1.0,
        help="with --live: seconds of the network in a second of yours (default: 1)",
    ),
)
RUN_WORDS = (  # what `run` and topo.py share
    common.flag("--quick", "the experiment's short form"),
    set_word,
    common.listed("--matrix", "MATRIX", "only this matrix of the experiment"),
    common.MACHINE,
    common.word("--clock", choices=("virtual", "real"), help="override the experiment's clock"),
    common.word("--seed", type=int, help="other random numbers: in place of the experiment's seed"),
    common.word("--repeat", type=int, help="runs of each cell, in place of what the file says"),
    common.jobs("runs side by side (default: one per CPU; native: 1)"),
    common.results("where results go"),
    common.flag("--retry-failed", "run failed runs again"),
    common.flag("--dry-run", "list the runs (--json: their descriptions) and stop"),
    common.word(
        "--shard",
        metavar="I/N",
        help="only the I-th of N parts, beside other processes that run the others (3/40)",
    ),
    common.word(
        "--dask",
        metavar="SCHEDULER|local:N",
        help="on the workers of a Dask scheduler (tls://host:8786), or of N processes here",
    ),
    common.flag("--check-hosts", "with --dask: first see whether two workers agree bit for bit"),
    common.flag("--json", "print the outcome as JSON and nothing else"),
    *LIVE,
    common.GOST,
)


def path_words(when: str = "") -> tuple[common.AddArgument, common.AddArgument]:
    return (
        common.word("--profile", default="la-hamina", help=f"{when}the path (default: la-hamina)"),
        common.word("--cc", default="cubic", help=f"{when}congestion control (default: cubic)"),
    )


def setting_words(asked: argparse.ArgumentParser) -> None:
    """Every setting as an option of `try`."""
    usual = asked.add_argument_group("what most questions vary; a list is compared")
    others = asked.add_argument_group("any other setting (./lab settings NAME says more)")
    holds = {**settings.DEFAULTS, **adhoc.PATH_DEFAULTS, **adhoc.TRY_DEFAULTS}
    names = settings.known_names()
    for name in (*USUALLY_ASKED, *(name for name in names if name not in USUALLY_ASKED)):
        option = adhoc.option_of(name)
        words = [option] + ([option.replace("_", "-")] if "_" in name else [])
        words = ["--for", *words] if name == "duration" else words
        says = argparse.SUPPRESS  # forward.loss: of one direction, as ./lab settings says
        if name in settings.SETTINGS:
            default = f" (default: {holds[name]})" if name in holds else ""
            says = (settings.SETTINGS[name].says + default).replace("%", "%%")
        group = usual if name in USUALLY_ASKED else others
        group.add_argument(*words, dest=f"ask {name}", metavar="A,B", help=says)


# -- what they do


def told(
    arguments: argparse.Namespace, experiments: Sequence[api.Experiment], *, quiet: bool
) -> AbstractContextManager[queue.RunObserver]:
    """The observer that shows what the runs do. Raises BadInput."""
    experiment, *others = experiments
    if not arguments.live:
        title = f"{len(experiments)} experiments" if others else experiment.name
        return progress.progress_on_stderr(title, quiet=quiet)
    if quiet:
        raise BadInput("--live and --json or --csv: only one of them")
    if others:
        raise BadInput("--live shows one experiment, of 4 runs at most")
    return live_view.watched_on_stderr(
        experiment.file.title, arguments.results, arguments.pace, experiment.levels
    )


def overrides(pairs: Sequence[str]) -> dict[str, str]:
    """--set's words by name. Raises BadInput."""
    found: dict[str, str] = {}
    for name, value in named_values("--set", pairs, "factor=value (like streams=1,4)"):
        if name in found:
            raise BadInput(f"--set {name}: given twice (write {name}=a,b)")
        found[name] = value
    return found


@common.verb(
    "run",
    "run an experiment's matrix, or several's; finished runs are kept and not run again",
    common.word(
        "experiment",
        nargs="+",
        help="a name in experiments/ or the path of a YAML file; several share the CPUs",
    ),
    *RUN_WORDS,
    example="./lab run thesis-tunnel --quick --set streams=1,4",
)
def run_verb(arguments: argparse.Namespace) -> int:
    experiments = [
        api.Experiment.from_file(
            name,
            settings=overrides(arguments.set),
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
    asked = {"dask": arguments.dask, "check_hosts": arguments.check_hosts}
    outcomes = made(experiments, arguments, quiet=arguments.json, **asked)
    return conclude(outcomes, arguments.results, as_json=arguments.json)


def made(
    experiments: Sequence[api.Experiment],
    arguments: argparse.Namespace,
    *,
    quiet: bool,
    dask: str | None = None,
    check_hosts: bool = False,
) -> list[finished.Outcome]:
    """What becomes of experiments' runs; what they lack is brought first. Raises as run()."""
    jobs, gost = arguments.jobs, arguments.gost
    runs = [run for experiment in experiments for run in experiment.runs]
    missing = None if dask else api.missing_parts(runs, jobs=jobs, gost=gost)
    if missing and missing.any:
        long = " (a kernel: about three minutes on two idle CPUs)" if missing.kernels else ""
        common.complain(f"{missing.words}: not there yet: fetched and built now, once{long}")
        api.provide_parts(missing, jobs=len(os.sched_getaffinity(0)), quiet=quiet)
    workers = dask_cluster.joined(dask, experiments, gost, jobs, check_hosts=check_hosts)
    how = {"jobs": jobs, "gost": gost, "retry_failed": arguments.retry_failed}
    with told(arguments, experiments, quiet=quiet) as shown:
        return api.run_together(
            experiments, arguments.results, progress=shown, workers=workers, **how
        )


@common.verb(
    "try",
    "a question without a file: settings as options, lists are compared",
    setting_words,
    common.word(
        "--run-server",
        metavar="COMMAND",
        help="your own program in place of iperf3: what listens on $HOST and $PORT",
    ),
    common.word(
        "--run-client",
        metavar="COMMAND",
        help="and what connects there, for $SECONDS at most (--direction download: it receives)",
    ),
    common.word("--repeat", type=int, default=1, help=REPEAT),
    common.word("--seed", type=int, default=1, help="of the random numbers (default: 1)"),
    common.JSON,
    common.flag("--csv", "the table as CSV and nothing else"),
    common.word(
        "--save", type=Path, metavar="FILE", help="write the question as an experiment's file too"
    ),
    common.flag("--dry-run", "list the runs and stop"),
    common.flag("--retry-failed", "run failed runs again"),
    *LIVE,
    common.jobs(),
    common.results("where results go"),
    common.MACHINE,
    common.GOST,
    example="./lab try --rate 100mbit --rtt 80ms --loss 0.5% --cc cubic,bbr"
    " --tunnel direct,gost+ws",
    usage="./lab try [--SETTING A,B …] [--repeat N] [--json | --csv] [--save FILE] …",
    description="Run every combination of what is asked and print a table. A list (cubic,bbr) is"
    " compared, one value is a setting. Results are kept: the same question is answered at once,"
    " more --repeat goes on from the runs that there are.",
    # a setting's name is written out: --rat is no rate, and a later setting changes nothing
    allow_abbrev=False,
)
def try_verb(arguments: argparse.Namespace) -> int:
    if arguments.json and arguments.csv:
        raise BadInput("--json and --csv: only one of them")
    given = {
        name.removeprefix("ask "): words
        for name, words in vars(arguments).items()
        if name.startswith("ask ") and words is not None
    }
    if arguments.live:
        given.setdefault("sample", LIVE_SAMPLE)
    own, repetitions = (arguments.run_server, arguments.run_client), arguments.repeat
    asked = adhoc.to_question(given, repetitions=repetitions, seed=arguments.seed, own=own)
    experiment = api.Experiment.asking(asked, arguments.machine)
    if arguments.save:
        write_whole(arguments.save, asked.text)
    if arguments.dry_run:
        return list_runs([experiment], arguments.results, as_json=arguments.json)
    [outcome] = made([experiment], arguments, quiet=arguments.json or arguments.csv)
    found = api.contests(outcome) if asked.ranks_flows else []
    cells = [each.cell for each in found] or api.summary(outcome)
    if arguments.json:
        about = {"experiment": asked.name, "folder": str(arguments.results / asked.name)}
        told_cells = [each.to_json() for each in found] or cells
        common.print_json({**about, **outcome.to_json(), "cells": told_cells})
        return exit_code(outcome)
    for line in outcome.complaints:
        common.complain(line)
    if arguments.csv:
        print(coexistence.to_csv(found) if found else result_table.to_csv(cells), end="")
        return exit_code(outcome)
    if asked.ranks_flows:
        coexistence.print_contest(found, sys.stdout)
    else:
        settled = settling.settling_lines(outcome.in_order, cells)
        result_table.print_answer(cells, outcome.first_cc, sys.stdout, settled)
    print(f"kept in {arguments.results / asked.name}", end="")
    print("" if arguments.repeat >= 6 else " · --repeat 6 gives intervals and keeps these runs")
    print(f"figures: {next_command(outcome, arguments.results)}", end="")
    print(f" · as a file: {arguments.save}" if arguments.save else " · as a file: --save NAME.yaml")
    return exit_code(outcome)


def list_runs(experiments: Sequence[api.Experiment], results: Path, *, as_json: bool) -> int:
    """`run --dry-run`: the runs on standard output, what is to be known of them beside it."""
    if as_json:
        tasks = [task for experiment in experiments for task in experiment.tasks(results)]
        common.print_json([task.to_json() for task in tasks])
    for experiment in experiments:
        whose = f"{experiment.name}/" if len(experiments) > 1 else ""
        for run in () if as_json else experiment.runs:
            print(f"{whose}{run.name}")
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
    "exec",
    "make one run from its description, for job arrays and graders (exit code 0: it has a"
    " status, whatever that says)",
    common.word(
        "run",
        metavar="RUN.json",
        help="a run.json, or one entry of `./lab run X --dry-run --json`; - for standard input",
    ),
    common.word(
        "folder",
        metavar="FOLDER",
        nargs="?",
        type=Path,
        help="where the run's folder is to be (default: where the entry says)",
    ),
    common.flag("--retry-failed", "make it again if it failed before"),
    common.flag("--json", "print its status as JSON and nothing else"),
    common.GOST,
    example="./lab exec run.json results/mine/again",
)
def exec_verb(arguments: argparse.Namespace) -> int:
    """`./lab exec`: 0 as soon as there is a status, whatever it says."""
    end = api.execute(
        arguments.run, arguments.folder, gost=arguments.gost, retry_failed=arguments.retry_failed
    )
    said = end.verdict if end.outcome == "ok" else end.status.get("error")
    value = {"folder": str(end.folder), "verdict": end.verdict, "status": dict(end.status)}
    common.print_either(arguments, value, f"{end.folder}: {end.outcome}: {said}")
    return common.EXIT_OK


def conclude(outcomes: Sequence[finished.Outcome], results: Path, *, as_json: bool) -> int:
    """The last words of `run`, and its exit code: the one that says most against an answer."""
    several = len(outcomes) > 1
    if as_json:
        found = {
            each.experiment: {**each.to_json(), "cells": api.summary(each)} for each in outcomes
        }
        common.print_json(found if several else found[outcomes[0].experiment])
    for each in () if as_json else outcomes:
        if several:
            print(f"\n{each.experiment}")
        print_end(each, results)
    codes = [exit_code(each) for each in outcomes]
    return common.EXIT_FAILED if common.EXIT_FAILED in codes else max(codes)


def print_end(outcome: finished.Outcome, results: Path) -> None:
    """What became of an experiment, and what to type next."""
    for line in outcome.complaints:
        common.complain(line)
    summary.print_summary(api.summary(outcome), outcome.first_cc, sys.stdout)
    print(f"{outcome.counts_line} · {results}")
    for cell in outcome.wide:
        print(cell.line)
    print(f"next: {next_command(outcome, results)}")


def next_command(outcome: finished.Outcome, results: Path) -> str:
    """What to type after a run."""
    where = "" if results == common.RESULTS else f" --results {shlex.quote(str(results))}"
    return f"./lab report {shlex.quote(outcome.experiment)}{where}"


def exit_code(outcome: finished.Outcome) -> int:
    """What this kernel cannot do is a row of its own; where all rows are, nothing was answered."""
    if outcome.broke:
        return common.EXIT_FAILED
    return common.EXIT_INVALID if outcome.in_state("invalid") else common.EXIT_OK


@common.verb(
    "shell",
    "Mininet's prompt in the lab, on a shaped path",
    *path_words(),
    common.word(
        "--clock",
        choices=("virtual", "real"),
        default="real",
        help="the guest's clock (default: real, as a person types in real time)",
    ),
    common.MACHINE,
    common.GOST,
    example="./lab shell --profile la-hamina --cc bbr",
)
def shell_verb(arguments: argparse.Namespace) -> int:
    choice = sandbox.choose(arguments.machine)
    is_native = choice.name == "native"
    clock = "real" if is_native else arguments.clock or "real"
    run = expand.single_run(
        profile=arguments.profile, cc=arguments.cc, machine=choice.name, clock=clock
    )
    needs_terminal = not is_native and os.environ.get("GOSTLAB_ALLOW_PIPE") != "1"
    if needs_terminal and not sys.stdin.isatty():
        raise BadInput("shell needs a terminal to talk to (standard input is not one)")
    found = locate.find_parts(arguments.gost)
    common.complain(f"machine: {choice.name} ({choice.reason})")
    return shell.open_shell(run, found)


@common.verb(
    "topo",
    "what `python topo.py` does: the quick matrix and its report, or Mininet's prompt",
    common.flag("--cli", "Mininet's prompt in the lab instead of a matrix"),
    common.word(
        "--experiment",
        nargs="+",
        default=["thesis-tunnel"],
        help="what to run (default: thesis-tunnel)",
    ),
    common.flag("--full", "the full matrix instead of the quick one"),
    *path_words("with --cli: "),
    *RUN_WORDS,
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
    return status
