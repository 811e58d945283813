"""The command line: `./lab VERB`. The only module that prints and exits.

Exit codes: 0 all runs good (but for what this kernel cannot do), 1 some run failed, or none was
possible, 2 bad input, 3 all ran, and some are invalid: no answer to their question, and said to be
none; 130 interrupted.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import FrameType
from typing import Any

from gostlab.setup.parts import MissingPart

EXIT_OK, EXIT_FAILED, EXIT_BAD_INPUT, EXIT_INVALID, EXIT_INTERRUPTED = 0, 1, 2, 3, 130


def main(argv: Sequence[str]) -> int:
    """Run one verb; returns the exit code."""
    if argv and argv[0] == "setup":  # before Debian's packages are there
        from gostlab.setup import steps as setup

        return int(setup.main(list(argv[1:])))
    if argv and argv[0] == "doctor":
        from gostlab import doctor

        return int(doctor.main(list(argv[1:])))
    try:
        arguments = parser().parse_args(argv)
        verb: Callable[[argparse.Namespace], int] = arguments.verb
    except SystemExit as stop:  # argparse has said what is wrong
        return int(stop.code or 0)
    if verb is not run_verb:  # which reads its modules first
        raise_on_signals()
    try:
        return guarded(verb, arguments)
    except KeyboardInterrupt:
        complain("interrupted: what was finished is kept, and the same command goes on from there")
        return EXIT_INTERRUPTED


def raise_on_signals() -> None:
    """From here on SIGTERM ends like Ctrl-C, by an exception: nothing of a run stays behind. An
    ignored Ctrl-C stays ignored.
    """
    if signal.getsignal(signal.SIGINT) is not signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    signal.signal(signal.SIGTERM, interrupt)


def interrupt(_number: int, _frame: FrameType | None) -> None:
    """A signal's handler: Ctrl-C's exception."""
    raise KeyboardInterrupt


def guarded(verb: Callable[[argparse.Namespace], int], arguments: argparse.Namespace) -> int:
    """A verb, with every error it may meet as one line and an exit code."""
    from gostlab.ask.document import BadInput
    from gostlab.machine import MachineError
    from gostlab.results import ResultsError

    try:
        return verb(arguments)
    except BadInput as error:
        complain(str(error))
        return EXIT_BAD_INPUT
    except (MissingPart, MachineError) as error:
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
    """One line for the person who can mend it."""
    print(f"gostlab: {sentence}", file=sys.stderr, flush=True)


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

    run = add_verb(
        verbs,
        "run",
        run_verb,
        "run an experiment's matrix; finished runs are kept and not run again",
        "./lab run thesis-tunnel --quick --set streams=1,4",
    )
    add_run_arguments(run)
    run.add_argument("experiment", help="a name in experiments/ or the path of a YAML file")

    report = add_verb(
        verbs,
        "report",
        report_verb,
        "tables, figures and one page from the results",
        "./lab report thesis-tunnel",
    )
    report.add_argument("experiment", nargs="*", help="which (default: every one with results)")
    report.add_argument(
        "--results",
        type=Path,
        default=Path("results"),
        help="where the runs are (default: results)",
    )
    report.add_argument("--out", type=Path, help="where to write (default: RESULTS/report)")
    report.add_argument(
        "--studies",
        action="store_true",
        help="write docs/studies.md instead: a section and the figures of each",
    )
    report.add_argument("--json", action="store_true", help='print {"report": path}')

    shell = add_verb(
        verbs,
        "shell",
        shell_verb,
        "Mininet's prompt in the lab, on a shaped path",
        "./lab shell --profile la-hamina --cc bbr",
    )
    shell.add_argument("--profile", default="la-hamina", help="the path (default: la-hamina)")
    shell.add_argument("--cc", default="cubic", help="congestion control (default: cubic)")
    shell.add_argument(
        "--clock",
        choices=("virtual", "real"),
        default="real",
        help="the guest's clock (default: real, as a person types in real time)",
    )
    add_machine_argument(shell)
    add_gost_argument(shell)

    profile = add_verb(verbs, "profile", profile_verb, "WAN paths", "./lab profile show la-hamina")
    from gostlab.ask import recording

    actions = profile.add_subparsers(dest="action", metavar="ACTION", required=True)
    for action, what in (
        ("list", "every path in a line"),
        ("show", "a path's file"),
        ("check", "read it, recompute what it derives"),
    ):
        asked = actions.add_parser(action, help=what, description=what)
        asked.add_argument(
            "name",
            nargs=None if action == "show" else "?",
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

    validate = add_verb(
        verbs,
        "validate",
        validate_verb,
        "does the lab do what is known of Linux's congestion controls?",
        "./lab validate --quick",
    )
    validate.add_argument("--quick", action="store_true", help="the short form")
    validate.add_argument("--jobs", type=int, help="runs side by side (default: one per CPU)")
    validate.add_argument(
        "--results", type=Path, default=Path("results"), help="where results go (default: results)"
    )
    validate.add_argument("--json", action="store_true", help="the table as JSON and nothing else")

    catalogue = add_verb(
        verbs,
        "catalogue",
        catalogue_verb,
        "every experiment, what it costs, and how long it took here",
        "./lab catalogue --cores 2",
    )
    catalogue.add_argument(
        "--results",
        type=Path,
        default=Path("results"),
        help="where the runs are (default: results)",
    )
    catalogue.add_argument(
        "--cores",
        type=int,
        help="the CPUs that the results were made with (default: this machine's)",
    )
    catalogue.add_argument("--json", action="store_true", help="the table as JSON and nothing else")

    bench = add_verb(
        verbs, "bench", bench_verb, "how fast the lab is on this machine", "./lab bench --json"
    )
    bench.add_argument("--json", action="store_true", help="the table as JSON")
    bench.add_argument(
        "--repeat", type=int, default=3, help="times each figure is taken (default: 3)"
    )
    return top


def add_verb(
    verbs: Any, name: str, function: Callable[[argparse.Namespace], int], what: str, example: str
) -> argparse.ArgumentParser:
    """A verb with its example."""
    made: argparse.ArgumentParser = verbs.add_parser(
        name, help=what, description=what, epilog=f"example: {example}"
    )
    made.set_defaults(verb=function)
    return made


def add_machine_argument(verb: argparse.ArgumentParser) -> None:
    verb.add_argument(
        "--machine",
        choices=("native", "sandbox", "auto"),
        default="auto",
        help=(
            "native: this kernel, as root; sandbox: the lab's own kernel; auto: native only for"
            " root on a kernel with netem (default)"
        ),
    )


def add_gost_argument(verb: argparse.ArgumentParser) -> None:
    verb.add_argument(
        "--gost",
        type=Path,
        help="the GOST binary to use (default: $PATH, the set-up's, the lab's relay)",
    )


def add_run_arguments(run: argparse.ArgumentParser) -> None:
    """What `run` and topo.py share."""
    run.add_argument("--quick", action="store_true", help="the experiment's short form")
    run.add_argument(
        "--set",
        action="append",
        default=[],
        metavar="FACTOR=A,B",
        help="override a factor or setting",
    )
    run.add_argument(
        "--matrix", action="append", default=[], help="only this matrix of the experiment"
    )
    add_machine_argument(run)
    run.add_argument("--clock", choices=("virtual", "real"), help="override the experiment's clock")
    run.add_argument("--jobs", type=int, help="runs side by side (default: one per CPU; native: 1)")
    run.add_argument(
        "--results", type=Path, default=Path("results"), help="where results go (default: results)"
    )
    run.add_argument("--retry-failed", action="store_true", help="run failed runs again")
    run.add_argument("--dry-run", action="store_true", help="list the runs and stop")
    run.add_argument(
        "--json", action="store_true", help="print the outcome as JSON and nothing else"
    )
    add_gost_argument(run)


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
    from gostlab import machine, results
    from gostlab.ask import experiment as experiments
    from gostlab.ask import guards
    from gostlab.ask.document import BadInput
    from gostlab.ask.resolve import expand
    from gostlab.ask.run_description import RunDescription
    from gostlab.matrix import schedule
    from gostlab.matrix.progress import console_progress
    from gostlab.setup.parts import find_parts, require_kernel

    loaded = experiments.load_experiment(arguments.experiment)
    choice = machine.choose(arguments.machine)
    clock = arguments.clock or ("real" if choice.name == "native" else None)
    if choice.name == "native" and clock == "virtual":
        raise BadInput("--clock virtual needs the sandbox: this kernel's clock is the real one")

    def described(repetitions_of: Mapping[str, int] = {}) -> list[RunDescription]:
        runs = expand(
            loaded,
            quick=arguments.quick,
            overrides=overrides(arguments.set),
            machine=choice.name,
            clock=clock,
            repetitions_of=repetitions_of,
        )
        known = sorted({run.matrix for run in runs})
        for name in arguments.matrix:
            if name not in known:
                raise BadInput(f"--matrix {name}: {loaded.name} has {', '.join(known)}")
        return [run for run in runs if not arguments.matrix or run.matrix in arguments.matrix]

    runs = described()
    until = {
        name: rule
        for name, rule in experiments.stopping_rules(loaded, quick=arguments.quick).items()
        if not arguments.matrix or name in arguments.matrix
    }
    errors, warned = guards.survey(runs)
    if errors:
        cells = {run.cell for run, _ in errors}
        others = f" (and {len(cells) - 1} more such cells)" if len(cells) > 1 else ""
        raise BadInput(f"{errors[0][0].cell}: {errors[0][1].sentence}{others}")
    if arguments.dry_run:
        for run in runs:
            print(run.name)
        for warning in warned:
            print(warning.line, file=sys.stderr)
        for name, rule in until.items():
            print(
                f"{name}: this is the first block; there may be more, until every cell's {rule.of}"
                f" is known to ± {100 * rule.halfwidth:g} %, {rule.most} repetitions at most",
                file=sys.stderr,
            )
        return EXIT_OK
    if arguments.jobs is not None and arguments.jobs < 1:
        raise BadInput(f"--jobs {arguments.jobs}: at least 1")

    parts = find_parts(arguments.gost)
    handed = machine.hand_over(parts)
    cpus = list(machine.usable_cpus())
    commit = checkout_commit()
    if choice.name == "sandbox":
        from gostlab.machine import sandbox

        kernel = require_kernel(parts)
        slots = cpus[: arguments.jobs] if arguments.jobs else cpus
        keep = machine.kept_visible(parts)

        def start(run: RunDescription, folder: Path, slot: int) -> machine.Job:
            return sandbox.start_run(kernel, run, folder, handed, keep, slot, commit)

    else:
        from gostlab.machine import native

        slots = cpus[:1]

        def start(run: RunDescription, folder: Path, slot: int) -> machine.Job:
            return native.start_run(run, folder, handed, commit)

    def standings(ends: Sequence[schedule.Finished]) -> list[schedule.Standing]:
        if not until:
            return []
        from analysis.judge.statistics import (
            relative_halfwidth,
        )  # half a second, which only a stopping rule needs

        return schedule.standings(ends, until, relative_halfwidth)

    def more(ends: Sequence[schedule.Finished]) -> list[RunDescription]:
        wanted = schedule.more_repetitions(standings(ends))
        there = {end.run.name for end in ends}
        return [run for run in described(wanted) if run.name not in there] if wanted else []

    raise_on_signals()
    arguments.results.mkdir(parents=True, exist_ok=True)
    with (
        results.owned(arguments.results, loaded.name),
        console_progress(loaded.name, quiet=arguments.json) as progress,
    ):
        progress.say(
            f"{loaded.title}\nmachine: {choice.name} ({choice.reason}) · {len(slots)} at a time ·"
            f" tunnel: {handed['tunnel']['version'] if handed['tunnel'] else 'none found'} ·"
            f" results: {arguments.results}"
        )
        for warning in warned:
            progress.say(warning.line)
        for line in (
            results.older_line(arguments.results, runs),
            results.makers_line(arguments.results, runs),
        ):
            if line:
                progress.say(line)
        done = schedule.run_all(
            runs,
            arguments.results.resolve(),
            slots,
            start,
            results.clean_folder,
            progress,
            retry_failed=arguments.retry_failed,
            more=more,
        )
    return conclude(
        done, arguments, warned, [standing for standing in standings(done) if not standing.narrow]
    )


def conclude(
    done: Sequence[Any],
    arguments: argparse.Namespace,
    warned: Sequence[Any] = (),
    wide: Sequence[Any] = (),
) -> int:
    """The last words of `run`, and its exit code: with --json also what was warned of before; the
    cells that are still too wide for their stopping rule.
    """
    from gostlab.matrix.schedule import Finished
    from gostlab.results import failure_line

    ends: Sequence[Finished] = done
    unsupported = [end for end in ends if end.status.get("outcome") == "unsupported"]
    failed = [end for end in ends if end.status.get("outcome") not in ("ok", "unsupported")]
    invalid = [
        end
        for end in ends
        if end.status.get("outcome") == "ok" and end.verdict not in ("ok", "degraded")
    ]
    degraded = [
        end for end in ends if end.status.get("outcome") == "ok" and end.verdict == "degraded"
    ]
    if arguments.json:
        print(
            json.dumps(
                {
                    "runs": [
                        {
                            "name": end.run.name,
                            "folder": str(end.folder),
                            "verdict": end.verdict,
                            **end.status,
                        }
                        for end in ends
                    ],
                    "guards": [warning.to_json() for warning in warned],
                    "not_narrow_enough": [cell.to_json() for cell in wide],
                },
                indent=2,
                sort_keys=True,
            )
        )
    else:
        for end in failed:
            complain(failure_line(end.folder, end.status))
        for end in invalid:
            complain(f"{end.run.name}: invalid: see fidelity.json there")
        for reason, cells in grouped(unsupported).items():
            complain(f"not possible here: {reason} ({', '.join(cells)})")
        good = len(ends) - len(failed) - len(invalid) - len(unsupported)
        print(
            f"{len(ends)} runs: {good} good ({len(degraded)} of them degraded), {len(invalid)}"
            f" invalid, {len(failed)} failed"
            + (f", {len(unsupported)} not possible here" if unsupported else "")
            + f" · {arguments.results}"
        )
        for cell in wide:
            print(cell.line)
    # What this kernel cannot do is a row of its own beside the others; where there is nothing
    # beside it, nothing was answered.
    if failed or len(unsupported) == len(ends):
        return EXIT_FAILED
    return EXIT_INVALID if invalid else EXIT_OK


def grouped(ends: Sequence[Any]) -> dict[str, list[str]]:
    """The cells of some runs by the reason that their status gives."""
    cells: dict[str, list[str]] = {}
    for end in ends:
        named = cells.setdefault(str(end.status.get("error")), [])
        named += [end.run.cell] if end.run.cell not in named else []
    return cells


def checkout_commit() -> str | None:
    """The commit of the lab's checkout, with + if it is changed; None outside one."""
    from gostlab.machine import CHECKOUT

    git = shutil.which("git")
    if git is None:
        return None
    base = [git, "-c", f"safe.directory={CHECKOUT}", "-C", str(CHECKOUT)]
    head = subprocess.run(
        [*base, "rev-parse", "--short", "HEAD"], capture_output=True, text=True, check=False
    )
    if head.returncode != 0:
        return None
    dirty = subprocess.run(
        [*base, "status", "--porcelain", "--untracked-files=no"],
        capture_output=True,
        text=True,
        check=False,
    )
    return head.stdout.strip() + ("+" if dirty.stdout.strip() else "")


def report_verb(arguments: argparse.Namespace) -> int:
    """`./lab report`."""
    from analysis.page.report import write_report
    from gostlab import machine
    from gostlab.ask.document import BadInput

    found = (
        sorted(
            path.name
            for path in arguments.results.iterdir()
            if path.is_dir() and path.name != "report"
        )
        if arguments.results.is_dir()
        else []
    )
    wanted = arguments.experiment or found
    for name in wanted:
        if name not in found:
            raise BadInput(
                f"{arguments.results}: no results of {name} there (found:"
                f" {', '.join(found) or 'none'}): ./lab run {name}"
            )
    if not wanted:
        raise BadInput(f"{arguments.results}: no results there: ./lab run thesis-tunnel --quick")
    if arguments.studies:
        from analysis.page.studies import write_studies_page

        page = write_studies_page(
            arguments.results, wanted, arguments.out or machine.CHECKOUT / "docs/studies.md"
        )
    else:
        page = write_report(
            arguments.results, wanted, arguments.out or arguments.results / "report"
        )
    print(json.dumps({"report": str(page)}) if arguments.json else page)
    return EXIT_OK


def shell_verb(arguments: argparse.Namespace) -> int:
    """`./lab shell`: the lab on the caller's terminal."""
    from gostlab import machine
    from gostlab.ask.document import BadInput
    from gostlab.ask.resolve import single_run
    from gostlab.machine import sandbox
    from gostlab.setup.parts import find_parts, require_kernel

    choice = machine.choose(arguments.machine)
    clock = "real" if choice.name == "native" else arguments.clock
    run = single_run(profile=arguments.profile, cc=arguments.cc, machine=choice.name, clock=clock)
    if (
        choice.name == "sandbox"
        and not sys.stdin.isatty()
        and os.environ.get("GOSTLAB_ALLOW_PIPE") != "1"
    ):
        raise BadInput("shell needs a terminal to talk to (standard input is not one)")
    parts = find_parts(arguments.gost)
    complain(f"machine: {choice.name} ({choice.reason})")
    with tempfile.TemporaryDirectory(prefix="gostlab-shell-") as scratch:
        folder = Path(scratch)
        (folder / "run.json").write_text(json.dumps(run.to_json()), encoding="utf-8")
        (folder / "parts.json").write_text(json.dumps(machine.hand_over(parts)), encoding="utf-8")
        module = [sys.executable, "-m", "gostlab.guest.shell"]
        if choice.name == "native":
            environ = {**os.environ, "PYTHONPATH": str(machine.CHECKOUT)}
            return subprocess.run([*module, str(folder)], env=environ, check=False).returncode
        keep = [machine.CHECKOUT, *machine.kept_visible(parts)]
        guest = sandbox.boot(
            require_kernel(parts),
            folder,
            ["/usr/bin/python3", "-m", "gostlab.guest.shell", sandbox.GUEST_FOLDER],
            sandbox.sandbox_environ({"TERM": os.environ.get("TERM", "dumb")}),
            keep=keep,
            cpu=machine.usable_cpus()[0],
            memory_mib=run.memory_mib,
            clock=run.clock,
            syscall_cost_us=run.syscall_cost_us,
            seed=run.seed,
            limit_s=7 * 24 * 3600,
            terminal=True,
        )
        try:
            guest.wait()
        finally:
            guest.kill()
            subprocess.run(["stty", "sane"], check=False, stderr=subprocess.DEVNULL)
        exit_file = folder / "exit"
        return int(exit_file.read_text()) if exit_file.exists() else EXIT_FAILED


def profile_verb(arguments: argparse.Namespace) -> int:
    """`./lab profile list|show|check|record`."""
    from gostlab.ask import profile as profiles

    if arguments.action == "record":
        from gostlab.ask import recording

        return recording.record_verb(arguments)
    names: Sequence[str] = [arguments.name] if arguments.name else profiles.list_profiles()
    for name in names:
        loaded = profiles.load_profile(name)
        if arguments.action == "show":
            print(loaded.path_on_disk.read_text(encoding="utf-8"), end="")
        else:
            print(f"{loaded.name}: {profiles.summary(loaded)}")
    return EXIT_OK


def validate_verb(arguments: argparse.Namespace) -> int:
    """`./lab validate`: run the experiment `validation`, print target, lab and verdict; 1 if one
    disagrees.
    """
    from analysis.judge import targets
    from analysis.judge.cells import to_matrices
    from analysis.read.runs import load_results
    from analysis.read.study import load_study, questions

    words = ["run", "validation", "--machine", "sandbox", "--results", str(arguments.results)]
    words += ["--quick"] if arguments.quick else []
    words += ["--jobs", str(arguments.jobs)] if arguments.jobs else []
    with contextlib.redirect_stdout(sys.stderr if arguments.json else sys.stdout):
        status = main(words)
    if status in (EXIT_BAD_INPUT, EXIT_INTERRUPTED):
        return status
    answers = load_results(
        arguments.results, "validation", questions("validation", quick=arguments.quick)
    )
    rows = targets.target_rows(load_study("validation"), to_matrices(answers.runs))
    asked = [row for row in rows if not (arguments.quick and row.verdict == "no run")]
    if arguments.json:
        print(json.dumps([vars(row) for row in asked], indent=2, default=str))
    else:
        print(targets.to_table(asked, "validation", "Target, lab, verdict").to_markdown())
    return EXIT_OK if targets.validation_verdict(asked) and status == EXIT_OK else EXIT_FAILED


def catalogue_verb(arguments: argparse.Namespace) -> int:
    """`./lab catalogue`."""
    from gostlab import machine
    from gostlab.ask.document import BadInput
    from gostlab.matrix import catalogue

    if arguments.cores is not None and arguments.cores < 1:
        raise BadInput(f"--cores {arguments.cores}: at least 1")
    forms = catalogue.survey(arguments.results, arguments.cores or len(machine.usable_cpus()))
    print(
        json.dumps([form.to_json() for form in forms], indent=2)
        if arguments.json
        else catalogue.to_markdown(forms)
    )
    return EXIT_OK


def bench_verb(arguments: argparse.Namespace) -> int:
    """`./lab bench`."""
    from gostlab.bench import speed as bench

    return bench.main(arguments.repeat, as_json=arguments.json)


def main_topo(argv: Sequence[str]) -> int:
    """`python topo.py`: open the lab (--cli) or run an experiment, quick by default, and report."""
    topo = argparse.ArgumentParser(
        prog="topo.py",
        description="Build the lab: open it (--cli), or run the quick matrix and draw it.",
        epilog="examples: python topo.py --cli · sudo python topo.py",
    )
    topo.add_argument(
        "--cli", action="store_true", help="Mininet's prompt in the lab instead of a matrix"
    )
    topo.add_argument(
        "--experiment", default="thesis-tunnel", help="what to run (default: thesis-tunnel)"
    )
    topo.add_argument(
        "--full", action="store_true", help="the full matrix instead of the quick one"
    )
    topo.add_argument(
        "--profile", default="la-hamina", help="with --cli: the path (default: la-hamina)"
    )
    topo.add_argument(
        "--cc", default="cubic", help="with --cli: congestion control (default: cubic)"
    )
    add_run_arguments(topo)
    try:
        arguments = topo.parse_args(argv)
    except SystemExit as stop:
        return int(stop.code or 0)
    machine_words = ["--machine", arguments.machine]
    gost_words = ["--gost", str(arguments.gost)] if arguments.gost else []
    if arguments.cli:
        return main(
            [
                "shell",
                "--profile",
                arguments.profile,
                "--cc",
                arguments.cc,
                *(["--clock", arguments.clock] if arguments.clock else []),
                *machine_words,
                *gost_words,
            ]
        )
    words = [
        "run",
        arguments.experiment,
        *machine_words,
        *gost_words,
        "--results",
        str(arguments.results),
    ]
    words += [] if arguments.full else ["--quick"]
    words += ["--clock", arguments.clock] if arguments.clock else []
    words += ["--jobs", str(arguments.jobs)] if arguments.jobs else []
    words += [word for pair in arguments.set for word in ("--set", pair)]
    words += [word for name in arguments.matrix for word in ("--matrix", name)]
    words += [
        word
        for word, on in (
            ("--retry-failed", arguments.retry_failed),
            ("--dry-run", arguments.dry_run),
            ("--json", arguments.json),
        )
        if on
    ]
    status = main(words)
    if arguments.dry_run or arguments.json or status in (EXIT_BAD_INPUT, EXIT_INTERRUPTED):
        return status
    return max(status, main(["report", arguments.experiment, "--results", str(arguments.results)]))
