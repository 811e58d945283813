"""The command line: `./lab VERB`. Every verb reads its words, calls gostlab.api, and prints.

Exit codes: 0 all runs good (but for what this kernel cannot do), 1 some run failed, or none was
possible, 2 bad input, 3 all ran, and some are invalid: no answer to their question, and said to be
none; 130 interrupted.
"""

from __future__ import annotations

import argparse
import json
import os
import shlex
import shutil
import signal
import sys
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Any

from gostlab.declared.kernels import FEATURES
from gostlab.setup.parts import MissingPart

if TYPE_CHECKING:
    from gostlab.api import Plan
    from gostlab.matrix.outcome import Outcome

EXIT_OK, EXIT_FAILED, EXIT_BAD_INPUT, EXIT_INVALID, EXIT_INTERRUPTED = 0, 1, 2, 3, 130
RESULTS = Path("results")

FIRST_WORDS = """\
gostlab runs real TCP over an emulated WAN, with and without a tunnel, and says what came of it.

  ./lab try --rate 100mbit --rtt 80ms --loss 0.5% --cc cubic,bbr --tunnel direct,gost+ws
                               a question of your own, answered in seconds; lists are compared
  ./lab run thesis-tunnel --quick      an experiment of experiments/
  ./lab doctor                         what is missing here, if something is
  ./lab --help                         every verb"""

USUALLY_ASKED = ("rate", "rtt", "loss", "buffer", "cc", "tunnel", "streams", "duration")
REPEAT = "runs of each combination; from 6 on there is an interval (default: 1)"

Verb = Callable[[argparse.Namespace], int]


def main(argv: Sequence[str]) -> int:
    """Run one verb; returns the exit code."""
    if argv and argv[0] == "setup":  # before Debian's packages are there
        from gostlab.setup import steps as setup

        return int(setup.main(list(argv[1:])))
    if argv and argv[0] == "doctor":
        from gostlab import doctor

        return int(doctor.main(list(argv[1:])))
    if not argv:
        print(FIRST_WORDS)
        return EXIT_BAD_INPUT
    try:
        arguments = parser().parse_args(argv)
    except SystemExit as stop:  # argparse has said what is wrong
        return int(stop.code or 0)
    return guarded(arguments.verb, arguments)


def raise_on_signals() -> None:
    """From here on SIGTERM ends like Ctrl-C, by an exception: nothing of a run stays behind. So
    does SIGHUP, of a terminal that goes away. What is ignored (by nohup) stays ignored.

    Every verb has read its modules by then: an exception could get lost while they are read.
    """
    if signal.getsignal(signal.SIGINT) is not signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    signal.signal(signal.SIGTERM, interrupt)
    if signal.getsignal(signal.SIGHUP) is not signal.SIG_IGN:
        signal.signal(signal.SIGHUP, interrupt)


def interrupt(number: int, _frame: FrameType | None) -> None:
    """A signal's handler: Ctrl-C's exception."""
    # A terminal that goes away says so several times, and once is enough: the second would
    # interrupt the clearing away.
    if number == signal.SIGHUP:
        signal.signal(signal.SIGHUP, signal.SIG_IGN)
    raise KeyboardInterrupt


def guarded(verb: Verb, arguments: argparse.Namespace) -> int:
    """A verb, with every error it may meet as one line and an exit code."""
    from gostlab import api  # noqa: F401  # what the verbs use is read before signals raise
    from gostlab.ask.document import BadInput
    from gostlab.machine import MachineError
    from gostlab.results import ResultsError

    raise_on_signals()
    try:
        return verb(arguments)
    except KeyboardInterrupt:
        complain("interrupted: what was finished is kept, and the same command goes on from there")
        return EXIT_INTERRUPTED
    except (BadInput, MissingPart, MachineError) as error:
        complain(str(error))
        return EXIT_BAD_INPUT
    except ResultsError as error:
        complain(str(error))
        return EXIT_FAILED
    except BrokenPipeError:  # `./lab … | head`
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return EXIT_FAILED
    except OSError as error:
        complain(f"{error.filename or 'the system'}: {error.strerror or error}")
        return EXIT_FAILED


def complain(sentence: str) -> None:
    """One line for the person who can mend it, if there is still a terminal to say it on."""
    with suppress(OSError):
        print(f"gostlab: {sentence}", file=sys.stderr, flush=True)


def print_json(value: Any) -> None:
    """For programs, and nothing else on standard output."""
    print(json.dumps(value, indent=2, sort_keys=True, default=str))


# -- the words of every verb


def parser() -> argparse.ArgumentParser:
    """The whole command line."""
    top = argparse.ArgumentParser(
        prog="./lab",
        description=(
            "What does a congestion control do for a tunnel over a real WAN? Run it, and see."
        ),
        epilog="Each verb has --help with an example.",
    )
    verbs = top.add_subparsers(title="verbs", required=True, metavar="VERB")
    verbs.add_parser("setup", help="install, build and fetch what the lab needs", add_help=False)
    verbs.add_parser("doctor", help="what is there, what is missing, what to do", add_help=False)
    for add in (
        add_run,
        add_try,
        add_exec,
        add_report,
        add_compare,
        add_fit,
        add_shell,
        add_profile,
        add_validate,
        add_cc,
        add_kernel,
        add_catalogue,
        add_settings,
        add_window,
        add_bench,
        add_topo,
        add_classroom,
    ):
        add(verbs)
    return top


def add_classroom(verbs: Any) -> None:
    from gostlab import classroom

    classroom.add_verbs(verbs, add_json)


def add_verb(
    verbs: Any, name: str, function: Verb, summary: str, example: str
) -> argparse.ArgumentParser:
    """A verb with its example."""
    made: argparse.ArgumentParser = verbs.add_parser(
        name, help=summary, description=summary, epilog=f"example: {example}"
    )
    made.set_defaults(verb=function)
    return made


def add_run(verbs: Any) -> None:
    run = add_verb(
        verbs,
        "run",
        run_verb,
        "run an experiment's matrix; finished runs are kept and not run again",
        "./lab run thesis-tunnel --quick --set streams=1,4",
    )
    run.add_argument("experiment", help="a name in experiments/ or the path of a YAML file")
    add_run_arguments(run)


def add_try(verbs: Any) -> None:
    from gostlab.ask.question import PATH_DEFAULTS, TRY_DEFAULTS, option_of
    from gostlab.ask.settings import DEFAULTS, SETTINGS, known_names

    asked = verbs.add_parser(
        "try",
        usage="./lab try [--SETTING A,B …] [--repeat N] [--json | --csv] [--save FILE] …",
        help="a question without a file: settings as options, lists are compared",
        description=(
            "Run every combination of what is asked and print a table. A list (cubic,bbr) is"
            " compared, one value is a setting. Results are kept: the same question is answered"
            " at once, more --repeat goes on from the runs that there are."
        ),
        epilog=(
            "example: ./lab try --rate 100mbit --rtt 80ms --loss 0.5% --cc cubic,bbr --tunnel"
            " direct,gost+ws --streams 1,16"
        ),
        # a setting's name is written out: --rat is no rate, and a later setting changes nothing
        allow_abbrev=False,
    )
    asked.set_defaults(verb=try_verb)
    usual = asked.add_argument_group("what most questions ask; a list is compared")
    others = asked.add_argument_group("any other setting (./lab settings NAME says more)")
    holds = {**DEFAULTS, **PATH_DEFAULTS, **TRY_DEFAULTS}
    names = known_names()
    for name in (*USUALLY_ASKED, *(name for name in names if name not in USUALLY_ASKED)):
        option = option_of(name)
        words = [option] + ([option.replace("_", "-")] if "_" in name else [])
        words = ["--for", *words] if name == "duration" else words
        says = argparse.SUPPRESS  # forward.loss: of one direction, as ./lab settings says
        if name in SETTINGS:
            default = f" (default: {holds[name]})" if name in holds else ""
            says = (SETTINGS[name].says + default).replace("%", "%%")
        group = usual if name in USUALLY_ASKED else others
        group.add_argument(*words, dest=f"ask {name}", metavar="A,B", help=says)
    asked.add_argument("--repeat", type=int, default=1, help=REPEAT)
    asked.add_argument("--seed", type=int, default=1, help="of the random numbers (default: 1)")
    asked.add_argument("--json", action="store_true", help="the table as JSON and nothing else")
    asked.add_argument("--csv", action="store_true", help="the table as CSV and nothing else")
    asked.add_argument(
        "--save", type=Path, metavar="FILE", help="write the question as an experiment's file too"
    )
    asked.add_argument("--dry-run", action="store_true", help="list the runs and stop")
    asked.add_argument("--retry-failed", action="store_true", help="run failed runs again")
    asked.add_argument("--jobs", type=int, help="runs side by side (default: one per CPU)")
    add_results(asked, "where results go")
    add_machine(asked)
    add_gost(asked)


def add_exec(verbs: Any) -> None:
    execute = add_verb(
        verbs,
        "exec",
        exec_verb,
        "make one run from its description, for job arrays and graders (exit code 0: it has a"
        " status, whatever that says)",
        "./lab exec run.json results/mine/again",
    )
    execute.add_argument(
        "run",
        metavar="RUN.json",
        help="a run.json, or one entry of `./lab run X --dry-run --json`; - for standard input",
    )
    execute.add_argument(
        "folder",
        metavar="FOLDER",
        nargs="?",
        type=Path,
        help="where the run's folder is to be (default: where the entry says)",
    )
    execute.add_argument(
        "--retry-failed", action="store_true", help="make it again if it failed before"
    )
    execute.add_argument(
        "--json", action="store_true", help="print its status as JSON and nothing else"
    )
    add_gost(execute)


def add_report(verbs: Any) -> None:
    report = add_verb(
        verbs,
        "report",
        report_verb,
        "tables, figures and one page from the results",
        "./lab report thesis-tunnel",
    )
    report.add_argument(
        "experiment",
        nargs="*",
        help="which, by name or by the path of its YAML file (default: every one with results)",
    )
    add_results(report, "where the runs are")
    report.add_argument(
        "--out", type=Path, help="the folder to write into (default: RESULTS/report)"
    )
    report.add_argument(
        "--studies",
        action="store_true",
        help="write docs/studies.md instead: a section and the figures of each; where experiments"
        " are named, the others' sections stay as they are",
    )
    report.add_argument(
        "--open",
        type=Path,
        metavar="RUN",
        help="a page of one run with every sample instead: its folder, or its name in the results",
    )
    report.add_argument("--json", action="store_true", help='print {"report": path}')


def add_compare(verbs: Any) -> None:
    compare = add_verb(
        verbs,
        "compare",
        compare_verb,
        "what changed between two experiments' results folders; exit code 1 if something is worse",
        "./lab compare old/thesis-tunnel results/thesis-tunnel",
    )
    compare.add_argument("before", type=Path, help="a results folder of an experiment")
    compare.add_argument("after", type=Path, help="another, of the same questions")
    compare.add_argument(
        "--threshold",
        type=float,
        default=5.0,
        metavar="PERCENT",
        help="a figure that moves by less is the same (default: 5)",
    )
    add_json(compare)


def add_fit(verbs: Any) -> None:
    from gostlab.fitting import words

    found = add_verb(
        verbs,
        "fit",
        fit_verb,
        "the inverse question: which path makes the lab say what was measured?",
        "./lab fit la-hamina --from tunnel-rates",
    )
    words.add_arguments(found, RESULTS)
    add_machine(found)
    add_gost(found)


def add_shell(verbs: Any) -> None:
    shell = add_verb(
        verbs,
        "shell",
        shell_verb,
        "Mininet's prompt in the lab, on a shaped path",
        "./lab shell --profile la-hamina --cc bbr",
    )
    add_path_arguments(shell)
    shell.add_argument(
        "--clock",
        choices=("virtual", "real"),
        default="real",
        help="the guest's clock (default: real, as a person types in real time)",
    )
    add_machine(shell)
    add_gost(shell)


def add_profile(verbs: Any) -> None:
    from gostlab.importing import verb as importing
    from gostlab.recording import verb as recording

    profile = add_verb(verbs, "profile", profile_verb, "WAN paths", "./lab profile show la-hamina")
    actions = profile.add_subparsers(dest="action", metavar="ACTION", required=True)
    for name, summary in (
        ("list", "every path in a line"),
        ("show", "a path's file"),
        ("check", "read it, recompute what it derives"),
    ):
        action = actions.add_parser(name, help=summary, description=summary)
        action.add_argument(
            "name",
            nargs=None if name == "show" else "?",
            help="a name in netem_profiles/ or a path",
        )
    record = actions.add_parser(
        "record",
        help="make a path of your own from ping",
        epilog="example: ./lab profile record example.org --rate 50mbit",
        description=(
            "Ping a host and write its path down: delay as a netem "
            "table, loss as Gilbert-Elliott, and a trace over time."
        ),
    )
    recording.add_arguments(record)
    imported = actions.add_parser(
        "import",
        help="make a path of a recording from elsewhere",
        epilog="example: ./lab profile import ATT-LTE-driving.up --rtt 50ms --licence GPL-3",
        description=(
            "Read somebody else's recording of a path and write it down as a profile and a trace,"
            " with its source, its licence, and how far the replay is from it."
        ),
    )
    importing.add_arguments(imported)


def add_validate(verbs: Any) -> None:
    validate = add_verb(
        verbs,
        "validate",
        validate_verb,
        "does the lab do what is known of Linux's congestion controls?",
        "./lab validate --quick",
    )
    validate.add_argument("--quick", action="store_true", help="the short form")
    validate.add_argument(
        "--errors",
        type=int,
        metavar="N",
        help=(
            "how often the short form errs: run it with N users' seeds, and on labs that are broken"
            " on purpose (results go to RESULTS-errors; N = 40 takes hours)"
        ),
    )
    validate.add_argument(
        "--broken", type=int, default=3, help="with --errors: forms of each broken lab (default: 3)"
    )
    validate.add_argument("--jobs", type=int, help="runs side by side (default: one per CPU)")
    add_results(validate, "where results go")
    add_json(validate)


def add_cc(verbs: Any) -> None:
    cc = add_verb(
        verbs,
        "cc",
        cc_verb,
        "congestion controls: the lab's, and your own from a C file",
        "./lab cc add my_cc.c --name mine (docs/your-own-cc.md goes through it)",
    )
    actions = cc.add_subparsers(dest="action", metavar="ACTION", required=True)
    for name, summary in (
        ("add", "compile and load a C file, and keep it as a level of cc"),
        ("check", "compile and load a C file, and keep nothing"),
    ):
        action = actions.add_parser(name, help=summary, description=summary)
        action.add_argument("file", type=Path, help="the C file (cc/template.c is one)")
        action.add_argument("--name", help="what to call it (default: what the file calls it)")
    actions.add_parser("list", help="every congestion control that an experiment may name")
    remove = actions.add_parser("remove", help="forget one of your own; its results stay")
    remove.add_argument("name")


def add_kernel(verbs: Any) -> None:
    kernel = add_verb(
        verbs,
        "kernel",
        kernel_verb,
        "the sandbox's kernels: other versions of Linux, and trees of your own",
        "./lab kernel add 5.10 (docs/kernels.md says what each lacks)",
    )
    actions = kernel.add_subparsers(dest="action", metavar="ACTION", required=True)
    summary = "build a version of Linux, a tree or a tarball, as a level of kernel"
    add = actions.add_parser("add", help=summary, description=summary)
    add.add_argument("what", help="5.10, 6.1, 6.12, 7.3; or a tree or tarball, 4.9 or later")
    add.add_argument("--name", help="what to call a tree or tarball of your own")
    add.add_argument(
        "--jobs", type=int, help="compile with so many processes (default: one per CPU)"
    )
    actions.add_parser("list", help="every kernel that an experiment may name, and what it lacks")
    remove = actions.add_parser("remove", help="delete one that was added; its results stay")
    remove.add_argument("name")


def add_settings(verbs: Any) -> None:
    settings = add_verb(
        verbs, "settings", settings_verb, "what a run can be asked for", "./lab settings buffer"
    )
    settings.add_argument("name", nargs="?", help="one of them, or forward.loss, cc.client")
    add_json(settings)


def add_window(verbs: Any) -> None:
    window = add_verb(
        verbs,
        "window",
        window_verb,
        "how large TCP's buffers must be for a path",
        "./lab window 100mbit 168ms",
    )
    window.add_argument("rate", help="of the bottleneck, like 100mbit")
    window.add_argument("rtt", help="there and back, like 168ms")
    window.add_argument("--streams", type=int, default=1, help="connections side by side")
    add_json(window)


def add_catalogue(verbs: Any) -> None:
    replay = add_verb(
        verbs,
        "replay",
        replay_verb,
        "run a result's commands.sh again in the sandbox and compare",
        "./lab replay results/thesis-tunnel/main-bbr-gost_ws-streams1-r1-0a1b2c3d",
    )
    replay.add_argument("run", type=Path, nargs="+", help="a run's result folder")
    replay.add_argument("--json", action="store_true", help="the figures as JSON and nothing else")

    catalogue = add_verb(
        verbs,
        "catalogue",
        catalogue_verb,
        "every experiment, what it costs, and how long it took here",
        "./lab catalogue --cores 2",
    )
    add_results(catalogue, "where the runs are")
    catalogue.add_argument(
        "--cores",
        type=int,
        help="the CPUs that the results were made with (default: this machine's)",
    )
    add_json(catalogue)


def add_bench(verbs: Any) -> None:
    bench = add_verb(
        verbs, "bench", bench_verb, "how fast the lab is on this machine", "./lab bench --json"
    )
    add_json(bench)
    bench.add_argument(
        "--repeat", type=int, default=3, help="times each figure is taken (default: 3)"
    )
    bench.add_argument(
        "--part",
        action="append",
        default=[],
        metavar="PART",
        help="take these figures alone: overhead, speed, packet, flows, nodes, streams, pair,"
        " repeatability, calls, interrupts, cpus, loopback, relay or tunnels; may be given again",
    )
    bench.add_argument(
        "--costs",
        nargs="?",
        const="",
        metavar="NAME",
        help="instead, measure what programs' calls and bytes cost on this machine, and write it to"
        " machines/NAME.yaml, for `machine: NAME` (default: its CPU's name)",
    )
    bench.add_argument(
        "--dask",
        type=int,
        metavar="N",
        help="instead: what a Dask cluster's scheduler adds to a run, by N runs that do nothing",
    )


def add_topo(verbs: Any) -> None:
    topo = verbs.add_parser(
        "topo",
        prog="topo.py",
        help="what `python topo.py` does: the quick matrix and its report, or Mininet's prompt",
        description="Build the lab: open it (--cli), or run the quick matrix and draw it.",
        epilog="examples: python topo.py --cli · sudo python topo.py",
    )
    topo.set_defaults(verb=topo_verb)
    topo.add_argument(
        "--cli", action="store_true", help="Mininet's prompt in the lab instead of a matrix"
    )
    topo.add_argument(
        "--experiment", default="thesis-tunnel", help="what to run (default: thesis-tunnel)"
    )
    topo.add_argument(
        "--full", action="store_true", help="the full matrix instead of the quick one"
    )
    add_path_arguments(topo, "with --cli: ")
    add_run_arguments(topo)


def add_run_arguments(run: argparse.ArgumentParser) -> None:
    """What `run` and topo.py share."""
    run.add_argument("--quick", action="store_true", help="the experiment's short form")
    run.add_argument(
        "--set",
        action="append",
        default=[],
        metavar="FACTOR=A,B",
        help=f"override a factor, or a setting: {setting_names()} (./lab settings NAME says more)",
    )
    run.add_argument(
        "--matrix", action="append", default=[], help="only this matrix of the experiment"
    )
    add_machine(run)
    run.add_argument("--clock", choices=("virtual", "real"), help="override the experiment's clock")
    run.add_argument(
        "--seed", type=int, help="other random numbers: in place of the experiment's seed"
    )
    run.add_argument("--jobs", type=int, help="runs side by side (default: one per CPU; native: 1)")
    add_results(run, "where results go")
    run.add_argument("--retry-failed", action="store_true", help="run failed runs again")
    run.add_argument(
        "--dry-run", action="store_true", help="list the runs (--json: their descriptions) and stop"
    )
    run.add_argument(
        "--shard",
        metavar="I/N",
        help="only the I-th of N parts, beside other processes that run the others (3/40)",
    )
    run.add_argument(
        "--dask",
        metavar="SCHEDULER|local:N",
        help="on the workers of a Dask scheduler (tls://host:8786), or of N processes here",
    )
    run.add_argument(
        "--check-hosts",
        action="store_true",
        help="with --dask: first see whether two workers agree bit for bit",
    )
    run.add_argument(
        "--json", action="store_true", help="print the outcome as JSON and nothing else"
    )
    add_gost(run)


def setting_names() -> str:
    """Every setting, for --help."""
    from gostlab.ask.settings import SETTINGS

    return ", ".join(SETTINGS)


def add_path_arguments(verb: argparse.ArgumentParser, when: str = "") -> None:
    verb.add_argument("--profile", default="la-hamina", help=f"{when}the path (default: la-hamina)")
    verb.add_argument("--cc", default="cubic", help=f"{when}congestion control (default: cubic)")


def add_machine(verb: argparse.ArgumentParser) -> None:
    verb.add_argument(
        "--machine",
        choices=("native", "sandbox", "auto"),
        default="auto",
        help=(
            "native: this kernel, as root; sandbox: the lab's own kernel; auto: native only for"
            " root on a kernel with netem (default)"
        ),
    )


def add_gost(verb: argparse.ArgumentParser) -> None:
    verb.add_argument(
        "--gost",
        type=Path,
        help="the GOST binary to use (default: $PATH, the set-up's, the lab's relay)",
    )


def add_results(verb: argparse.ArgumentParser, purpose: str) -> None:
    verb.add_argument(
        "--results", type=Path, default=RESULTS, help=f"{purpose} (default: {RESULTS})"
    )


def add_json(verb: argparse.ArgumentParser) -> None:
    verb.add_argument("--json", action="store_true", help="the table as JSON and nothing else")


# -- the verbs


def overrides(pairs: Sequence[str]) -> dict[str, str]:
    """--set's words by name. Raises BadInput."""
    from gostlab.ask.document import BadInput

    found: dict[str, str] = {}
    for pair in pairs:
        name, equals, value = pair.partition("=")
        if not equals or not name or not value:
            raise BadInput(f"--set {pair}: not of the form factor=value (like streams=1,4)")
        if name in found:
            raise BadInput(f"--set {name}: given twice (write {name}=a,b)")
        found[name] = value
    return found


def run_verb(arguments: argparse.Namespace) -> int:
    """`./lab run`."""
    from gostlab import api
    from gostlab.matrix.progress import progress_on_stderr

    plan = api.plan(
        arguments.experiment,
        quick=arguments.quick,
        overrides=overrides(arguments.set),
        matrices=arguments.matrix,
        on=arguments.machine,
        clock=arguments.clock,
        seed=arguments.seed,
        shard=arguments.shard,
    )
    if arguments.dry_run:
        return list_runs(plan, arguments.results, as_json=arguments.json)
    with progress_on_stderr(plan.experiment.name, quiet=arguments.json) as progress:
        outcome = api.run(
            plan,
            arguments.results,
            jobs=arguments.jobs,
            gost=arguments.gost,
            retry_failed=arguments.retry_failed,
            progress=progress,
            dask=arguments.dask,
            check_hosts=arguments.check_hosts,
        )
    return conclude(outcome, arguments.results, as_json=arguments.json)


def try_verb(arguments: argparse.Namespace) -> int:
    """`./lab try`."""
    from gostlab import api
    from gostlab.ask.document import BadInput
    from gostlab.ask.question import to_question
    from gostlab.matrix import answer
    from gostlab.matrix.progress import progress_on_stderr

    if arguments.json and arguments.csv:
        raise BadInput("--json and --csv: only one of them")
    given = {
        name.removeprefix("ask "): words
        for name, words in vars(arguments).items()
        if name.startswith("ask ") and words is not None
    }
    question = to_question(given, repetitions=arguments.repeat, seed=arguments.seed)
    plan = api.plan_question(question, arguments.results, on=arguments.machine)
    if arguments.save:
        api.save_question(question, arguments.save)
    if arguments.dry_run:
        return list_runs(plan, arguments.results, as_json=arguments.json)
    quiet = arguments.json or arguments.csv
    with progress_on_stderr(plan.experiment.name, quiet=quiet) as progress:
        outcome = api.run_question(
            question,
            plan,
            arguments.results,
            jobs=arguments.jobs,
            gost=arguments.gost,
            retry_failed=arguments.retry_failed,
            progress=progress,
        )
    cells = api.summary(outcome)
    if arguments.json:
        asked = {"experiment": question.name, "folder": str(arguments.results / question.name)}
        print_json({**asked, **outcome.to_json(), "cells": [cell.to_json() for cell in cells]})
        return exit_code(outcome)
    for line in outcome.complaints:
        complain(line)
    if arguments.csv:
        print(answer.to_csv(cells), end="")
        return exit_code(outcome)
    answer.print_answer(cells, outcome.first_cc, sys.stdout)
    print(f"kept in {arguments.results / question.name}", end="")
    print("" if arguments.repeat >= 6 else " · --repeat 6 gives intervals and keeps these runs")
    print(f"figures: {next_command(outcome, arguments.results)}", end="")
    print(f" · as a file: {arguments.save}" if arguments.save else " · as a file: --save NAME.yaml")
    return exit_code(outcome)


def list_runs(plan: Plan, results: Path, *, as_json: bool) -> int:
    """`run --dry-run`: the runs on standard output, what is to be known of them beside it."""
    if as_json:
        print_json([task.to_json() for task in plan.tasks(results)])
    for run in () if as_json else plan.runs:
        print(run.name)
    for warning in plan.warned:
        print(warning.line, file=sys.stderr)
    for name, rule in plan.until.items():
        print(
            f"{name}: this is the first block; there may be more, until every cell's {rule.of}"
            f" is known to ± {100 * rule.halfwidth:g} %, {rule.most} repetitions at most",
            file=sys.stderr,
        )
    return EXIT_OK


def exec_verb(arguments: argparse.Namespace) -> int:
    """`./lab exec`: 0 as soon as there is a status, whatever it says."""
    from gostlab import api

    end = api.execute(
        arguments.run, arguments.folder, gost=arguments.gost, retry_failed=arguments.retry_failed
    )
    said = end.verdict if end.outcome == "ok" else end.status.get("error")
    if arguments.json:
        print_json({"folder": str(end.folder), "verdict": end.verdict, "status": dict(end.status)})
    else:
        print(f"{end.folder}: {end.outcome}: {said}")
    return EXIT_OK


def conclude(outcome: Outcome, results: Path, *, as_json: bool) -> int:
    """The last words of `run`, and its exit code."""
    from gostlab import api
    from gostlab.matrix.summary import print_summary

    cells = api.summary(outcome)
    if as_json:
        print_json({**outcome.to_json(), "cells": [cell.to_json() for cell in cells]})
        return exit_code(outcome)
    for line in outcome.complaints:
        complain(line)
    print_summary(cells, outcome.first_cc, sys.stdout)
    print(f"{outcome.counts_line} · {results}")
    for cell in outcome.wide:
        print(cell.line)
    print(f"next: {next_command(outcome, results)}")
    return exit_code(outcome)


def next_command(outcome: Outcome, results: Path) -> str:
    """What to type after a run."""
    where = "" if results == RESULTS else f" --results {shlex.quote(str(results))}"
    return f"./lab report {shlex.quote(outcome.experiment)}{where}"


def exit_code(outcome: Outcome) -> int:
    """What this kernel cannot do is a row of its own beside the others; where nothing is beside
    it, nothing was answered.
    """
    if outcome.failed or outcome.nothing_answered:
        return EXIT_FAILED
    return EXIT_INVALID if outcome.invalid else EXIT_OK


def report_verb(arguments: argparse.Namespace) -> int:
    """`./lab report`."""
    from gostlab import api
    from gostlab.ask.document import BadInput

    if arguments.open:
        if arguments.studies or arguments.experiment:
            raise BadInput("--open RUN: a page of one run; name no experiment, and no --studies")
        page = api.open_run(arguments.results, arguments.open, arguments.out)
    else:
        write = api.studies_page if arguments.studies else api.report
        page = write(arguments.results, arguments.experiment, arguments.out)
    print(json.dumps({"report": str(page)}) if arguments.json else page)
    return EXIT_OK


def compare_verb(arguments: argparse.Namespace) -> int:
    """`./lab compare BEFORE AFTER`: 1 if something got worse."""
    from rich.box import SIMPLE_HEAD
    from rich.console import Console
    from rich.table import Table

    from gostlab import api

    found = api.compare(arguments.before, arguments.after, arguments.threshold / 100)
    if arguments.json:
        print_json(found.to_json())
        return EXIT_FAILED if found.regressed else EXIT_OK
    told = api.changes_table(found)
    console = Console(width=None if sys.stdout.isatty() else 160, highlight=False, markup=False)
    if told.rows:
        table = Table(box=SIMPLE_HEAD, pad_edge=False, show_edge=False)
        for column in told.columns:
            table.add_column(column.heading, justify="right" if column.numeric else "left")
        for row in told.shown():
            table.add_row(*row)
        console.print(table)
    for words, cells in (
        ("no run counts any more", found.lost),
        ("only before", found.only_before),
        ("only after", found.only_after),
        ("made differently", found.made),
    ):
        if cells:
            console.print(f"{words}: {'; '.join(cells)}", soft_wrap=True)
    console.print(told.note, soft_wrap=True)
    return EXIT_FAILED if found.regressed else EXIT_OK


def shell_verb(arguments: argparse.Namespace) -> int:
    """`./lab shell`."""
    from gostlab import api

    shell = api.shell(
        arguments.profile,
        arguments.cc,
        on=arguments.machine,
        clock=arguments.clock or "real",
        gost=arguments.gost,
        needs_terminal=os.environ.get("GOSTLAB_ALLOW_PIPE") != "1",
    )
    complain(f"machine: {shell.machine.name} ({shell.machine.reason})")
    return shell.open()


def profile_verb(arguments: argparse.Namespace) -> int:
    """`./lab profile list|show|check|record|import`."""
    from gostlab.ask import profile as profiles
    from gostlab.importing import verb as importing
    from gostlab.recording import verb as recording

    if arguments.action == "import":
        return importing.import_verb(arguments)
    if arguments.action == "record":
        return recording.record_verb(arguments)
    names: Sequence[str] = [arguments.name] if arguments.name else profiles.list_profiles()
    for name in names:
        loaded = profiles.load_profile(name)
        if arguments.action == "show":
            print(loaded.path_on_disk.read_text(encoding="utf-8"), end="")
        else:
            print(f"{loaded.name}: {profiles.summary(loaded)}")
    return EXIT_OK


def fit_verb(arguments: argparse.Namespace) -> int:
    """`./lab fit PROFILE --from MEASUREMENTS`."""
    # Its matrices are small: threads would only wait for each other beside the runs.
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    from gostlab.fitting import verb as fitting

    return fitting.fit_verb(arguments)


def validate_verb(arguments: argparse.Namespace) -> int:
    """`./lab validate`: target, lab and verdict; 1 if one disagrees."""
    from gostlab import api
    from gostlab.matrix.progress import progress_on_stderr

    with progress_on_stderr("validation", quiet=False) as progress:
        if arguments.errors is not None:
            found = api.validation_errors(
                arguments.results.with_name(f"{arguments.results.name}-errors"),
                arguments.errors,
                arguments.broken,
                jobs=arguments.jobs,
                progress=progress,
            )
            if arguments.json:
                print_json(found.to_json())
            else:
                print(found.text)
            return EXIT_OK
        validation = api.validate(
            arguments.results, quick=arguments.quick, jobs=arguments.jobs, progress=progress
        )
    for line in validation.outcome.complaints:
        complain(line)
    counts = f"{validation.outcome.counts_line} · {arguments.results}"
    if arguments.json:
        print(counts, file=sys.stderr)
        print_json([vars(row) for row in validation.rows])
    else:
        print(counts)
        print(validation.table)
    return EXIT_OK if validation.holds else EXIT_FAILED


def replay_verb(arguments: argparse.Namespace) -> int:
    """`./lab replay RUN`: 1 if a replay differs from its run."""
    from gostlab import api

    replays = []
    for folder in arguments.run:
        replays.append(api.replay(folder))
        if not arguments.json:
            print(*replays[-1].lines, sep="\n", flush=True)
    if arguments.json:
        print(json.dumps([replay.to_json() for replay in replays], indent=2))
    return EXIT_OK if all(replay.same for replay in replays) else EXIT_FAILED


def cc_verb(arguments: argparse.Namespace) -> int:
    """List, add, check or remove congestion controls."""
    from gostlab import api
    from gostlab.setup.modules import CompileError

    if arguments.action == "list":
        print("\n".join(api.congestion_controls()))
        return EXIT_OK
    if arguments.action == "remove":
        control = api.remove_cc(arguments.name)
        print(f"{control.name}: forgotten; {control.origin} and results made with it stay")
        return EXIT_OK
    try:
        found = api.add_cc(arguments.file, arguments.name, keep=arguments.action == "add")
    except CompileError as error:
        complain(str(error))
        return EXIT_BAD_INPUT
    for line in found.warnings:
        print(line, file=sys.stderr)
    control = found.control
    takes = f", parameters: {', '.join(control.parameters)}" if control.parameters else ""
    if arguments.action == "check":
        print(f"{arguments.file}: compiles and loads, as {control.name}{takes}")
        return EXIT_OK
    print(
        f"{control.name}: {'replaced' if found.replaced else 'added'}{takes}\n"
        f"in any experiment: cc: [{control.name}, cubic, bbr]"
    )
    return EXIT_OK


def kernel_verb(arguments: argparse.Namespace) -> int:
    """List, add or remove kernels."""
    from gostlab import api
    from gostlab.setup.archive import ArchiveError
    from gostlab.setup.workbench import SetupError

    if arguments.action == "list":
        print("\n".join(api.kernel_lines()))
        return EXIT_OK
    if arguments.action == "remove":
        for folder in api.remove_kernel(arguments.name):
            print(f"{arguments.name}: {folder} is deleted; results made with it stay")
        return EXIT_OK
    jobs = arguments.jobs or len(os.sched_getaffinity(0))
    if jobs < 1:
        complain("--jobs must be at least 1")
        return EXIT_BAD_INPUT
    said = Said()
    try:
        found = api.add_kernel(arguments.what, arguments.name, jobs=jobs, say=said)
    except (SetupError, ArchiveError) as error:
        said.end()
        complain(str(error))
        return EXIT_FAILED
    said.end()
    how = "built before" if found.build_s is None else f"built in {found.build_s:.0f} s"
    print(f"{found.name}: Linux {found.version}, {how}")
    if found.refused:
        print(f"patches that this tree did not take: {', '.join(found.refused)}")
    for feature in found.lacks:
        print(f"it has no {FEATURES[feature].says}")
    print(f"in any experiment: kernel: [{found.name}, shipped]")
    return EXIT_OK


class Said:
    """What a long step says: overwritten on a terminal; elsewhere a line in half a minute."""

    def __init__(self) -> None:
        self._next = 0.0
        self._on_terminal = sys.stderr.isatty()

    def __call__(self, text: str) -> None:
        if self._on_terminal:
            width = shutil.get_terminal_size().columns - 1
            print("\r\033[K" + text[:width], end="", file=sys.stderr, flush=True)
        elif time.monotonic() >= self._next:
            self._next = time.monotonic() + 30
            print(text, file=sys.stderr, flush=True)

    def end(self) -> None:
        """Clear the line."""
        if self._on_terminal:
            print("\r\033[K", end="", file=sys.stderr, flush=True)


def settings_verb(arguments: argparse.Namespace) -> int:
    """`./lab settings [NAME]`."""
    from gostlab.ask import manual

    if arguments.json:
        print_json(manual.settings_json(arguments.name))
    else:
        print(manual.say_setting(arguments.name) if arguments.name else manual.say_settings())
    return EXIT_OK


def window_verb(arguments: argparse.Namespace) -> int:
    """`./lab window RATE RTT`."""
    from gostlab.ask import units
    from gostlab.ask.window import advise_window
    from gostlab.declared.errors import BadInput

    try:
        rate_bps = units.rate(arguments.rate)
        rtt_s = float(units.seconds(arguments.rtt))
        if not 1 <= arguments.streams <= 1000:
            raise ValueError("--streams: not between 1 and 1000")
        advice = advise_window(rate_bps, rtt_s, arguments.streams)
    except ValueError as error:
        raise BadInput(str(error)) from None
    if arguments.json:
        print_json(advice.to_json())
    else:
        print("\n".join(advice.lines()))
    return EXIT_OK


def catalogue_verb(arguments: argparse.Namespace) -> int:
    """`./lab catalogue`."""
    from gostlab import api
    from gostlab.matrix import catalogue

    forms = api.survey(arguments.results, arguments.cores)
    if arguments.json:
        print_json([form.to_json() for form in forms])
    else:
        print(catalogue.to_markdown(forms))
    return EXIT_OK


def bench_verb(arguments: argparse.Namespace) -> int:
    """`./lab bench`."""
    from gostlab.bench import costs, speed

    if arguments.costs is not None:
        try:
            return costs.main(arguments.costs, arguments.repeat)
        except (OSError, RuntimeError, ValueError) as error:
            print(f"gostlab: bench --costs: {error}", file=sys.stderr)
            return EXIT_FAILED
    if arguments.dask is not None and arguments.dask < 1:
        complain(f"--dask {arguments.dask}: at least 1")
        return EXIT_BAD_INPUT
    for part in arguments.part:
        if part not in speed.PARTS:
            complain(f"--part {part}: not one of {', '.join(speed.PARTS)}")
            return EXIT_BAD_INPUT
    if arguments.repeat < 1:
        complain(f"--repeat {arguments.repeat}: at least 1")
        return EXIT_BAD_INPUT
    return speed.main(
        arguments.repeat, as_json=arguments.json, parts=arguments.part, stubs=arguments.dask
    )


def topo_verb(arguments: argparse.Namespace) -> int:
    """`python topo.py`: open the lab (--cli), or run an experiment (quick) and report it."""
    if arguments.cli:
        return shell_verb(arguments)
    arguments.quick = not arguments.full
    status = run_verb(arguments)
    if arguments.dry_run or arguments.json:
        return status
    from gostlab import api

    print(api.report(arguments.results, [arguments.experiment]))
    return status
