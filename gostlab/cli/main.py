# SPDX-License-Identifier: MIT
"""Run the command line `./lab VERB`: assemble the verbs and print their errors."""

import argparse
import errno
import os
import signal
import sys
from collections.abc import Sequence
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import dataclass
from importlib import import_module
from types import FrameType
from typing import Any

from gostlab import __version__, startup
from gostlab.cli import common, user_config
from gostlab.errors import COMMAND, Complaint
from gostlab.terminal_escape import EscapingStream


@dataclass(frozen=True)
class VerbEntry:
    """A verb in --help; the module that declares it is imported when the verb is called."""

    name: str
    module: str
    says: str

    def declared(self) -> common.Verb:
        declared: common.Verb = getattr(import_module(self.module), f"{self.name}_verb")
        return declared


# Options of many verbs that people also write before the verb.
OUTPUT_OPTIONS = ("-q", "--quiet", "-v", "--verbose")
# The verbs in the order of --help.
VERBS = (
    VerbEntry(
        "run",
        "gostlab.cli.run",
        "run an experiment's matrix, or several's; finished runs are kept and not run again",
    ),
    VerbEntry(
        "try",
        "gostlab.cli.run",
        "a question without a file: settings as options, lists are compared",
    ),
    VerbEntry(
        "serve",
        "gostlab.serve.serve_cli",
        "a page on this machine: turn a knob, and a real TCP stack answers",
    ),
    VerbEntry(
        "exec",
        "gostlab.cli.run",
        "make one run from its description, for job arrays and graders (exit code 0: it has a"
        " status, whatever that says)",
    ),
    VerbEntry(
        "report", "gostlab.cli.result_verbs", "tables, figures and one page from the results"
    ),
    VerbEntry(
        "apply",
        "gostlab.apply.apply_cli",
        "what to type on real machines for the best cell: sysctls, routes, the tunnel's files,"
        " iperf3",
    ),
    VerbEntry(
        "compare",
        "gostlab.cli.result_verbs",
        "what changed between two experiments' results folders; exit code 1 if something is worse;"
        " or your own iperf3 reports beside the lab's cells",
    ),
    VerbEntry(
        "fit", "gostlab.search.fit_cli", "find the paths on which the lab reproduces measured rates"
    ),
    VerbEntry(
        "worst",
        "gostlab.search.worst_cli",
        "search for the path on which a congestion control performs worst",
    ),
    VerbEntry("shell", "gostlab.cli.run", "Mininet's prompt in the lab, on a shaped path"),
    VerbEntry("profile", "gostlab.profile_import.profile_cli", "WAN paths"),
    VerbEntry(
        "validate",
        "gostlab.cli.validate",
        "compare the lab with published results of Linux's congestion controls",
    ),
    VerbEntry(
        "conform",
        "gostlab.packetdrill.conformance_cli",
        "run Linux's own packetdrill scripts in the sandbox, on the virtual clock",
    ),
    VerbEntry(
        "cc", "gostlab.cli.user_parts", "congestion controls: the lab's, and your own from a C file"
    ),
    VerbEntry(
        "kernel",
        "gostlab.cli.user_parts",
        "the sandbox's kernels: other versions of Linux, and trees of your own",
    ),
    VerbEntry(
        "plugin",
        "gostlab.plugin_check.plugin_cli",
        "tunnels, queues, traffic and more that there are, and the battery that checks one",
    ),
    VerbEntry("gost", "gostlab.cli.user_parts", "GOSTs of several versions, side by side"),
    VerbEntry(
        "replay",
        "gostlab.cli.result_verbs",
        "run a result's commands.sh again in the sandbox and compare",
    ),
    VerbEntry(
        "catalogue",
        "gostlab.cli.result_verbs",
        "every experiment, what it costs, and how long it took here",
    ),
    VerbEntry("settings", "gostlab.cli.settings", "the settings of a run"),
    VerbEntry("window", "gostlab.cli.settings", "how large TCP's buffers must be for a path"),
    VerbEntry(
        "bench",
        "gostlab.bench.bench_cli",
        "measure what programs cost on this machine, for the setting `machine`",
    ),
    VerbEntry(
        "topo",
        "gostlab.cli.run",
        "what `python topo.py` does: the quick matrix and its report, or Mininet's prompt",
    ),
    VerbEntry(
        "new",
        "gostlab.classroom.cli",
        "write the files of a new lab or classroom, with parts to fill in",
    ),
    VerbEntry("labs", "gostlab.classroom.cli", "list the classroom labs"),
    VerbEntry("lab", "gostlab.classroom.cli", "work on a classroom lab"),
    VerbEntry(
        "grade", "gostlab.classroom.cli", "grade a hand-in from its files; no sandbox needed"
    ),
    VerbEntry(
        "completion",
        "gostlab.cli.completion",
        'completion at Tab for your shell: eval "$(./lab completion bash)"',
    ),
)

INTERRUPT_AGAIN_S = 0.01
# The folder in which the C library keeps the semaphores of multiprocessing.
SEMAPHORES = "/dev/shm"
IN_SEMAPHORES = f"{SEMAPHORES} (mount a tmpfs there that you may write)"
NO_PROCESS = (
    "no further process can be started: end some, or raise the limit (ulimit -u; in a container"
    " --pids-limit)"
)

INTRODUCTION = """\
gostlab runs real TCP over an emulated WAN, with and without a tunnel, and says how they went.

  ./lab try --rate 100mbit --rtt 80ms --loss 0.5% --cc cubic,bbr --tunnel direct,gost+ws
                               a question of your own, answered in seconds; lists are compared
  ./lab run thesis-tunnel --quick      an experiment of experiments/
  ./lab report thesis-tunnel --open    what its runs say, on one page
  ./lab doctor                         what is missing here, if something is
  ./lab --help                         every verb"""


def main(argv: Sequence[str]) -> int:
    """Run one verb and return the exit code."""
    if common.asked_by_shell():
        from gostlab.cli import completion

        common.argument_observers.append(completion.set_completer)
        completion.print_completions(
            build_parser(completion.verb_of(os.environ.get("COMP_LINE", "")))
        )
    with redirect_stdout(escape_output(sys.stdout)), redirect_stderr(escape_output(sys.stderr)):
        if not argv:
            print(INTRODUCTION)
            return common.EXIT_BAD_INPUT
        argv = verb_first(argv)
        if argv[0] == "help" and argv[1:2] not in (["-h"], ["--help"]):
            argv = [*argv[1:], "--help"]
        if argv[0] in ("setup", "doctor"):  # these two work without Debian's packages
            module = "gostlab.install.main" if argv[0] == "setup" else "gostlab.cli.doctor"
            try:
                return int(import_module(module).main(list(argv[1:])))
            except BrokenPipeError:
                startup.discard_output()
                return common.EXIT_FAILED
            except OSError as error:
                return print_system_error(error)
        return run_verb_with_errors(argv)


def verb_first(argv: Sequence[str]) -> Sequence[str]:
    """Return a command line with the verb before -q, --quiet, -v and --verbose."""
    count = next((at for at, word in enumerate(argv) if word not in OUTPUT_OPTIONS), 0)
    return [argv[count], *argv[:count], *argv[count + 1 :]]


def escape_output(stream: Any) -> Any:
    """Return a stream that escapes control characters."""
    return stream if isinstance(stream, EscapingStream) else EscapingStream(stream, COMMAND)


def run_verb_with_errors(argv: Sequence[str]) -> int:
    """Run one verb, print any error in one line, and return the exit code."""
    try:
        arguments = build_parser(argv[0], user_defaults=True).parse_args(argv)
        raise_on_signals()
        return int(arguments.verb(arguments))
    except SystemExit as stop:  # argparse has printed the error
        return int(stop.code or 0)
    except KeyboardInterrupt:
        common.print_error(
            "interrupted: what was finished is kept, and the same command goes on from there"
        )
        return common.EXIT_INTERRUPTED
    except Complaint as error:
        common.print_error(str(error))
        return error.exit_status
    except BrokenPipeError:  # `./lab … | head`
        startup.discard_output()
        return common.EXIT_FAILED
    except OSError as error:
        return print_system_error(error)
    except MemoryError:
        common.print_error("not enough memory: is one of the files larger than it should be?")
        return common.EXIT_FAILED


def print_system_error(error: OSError) -> int:
    """Print what the system refused, in one line; return the exit code."""
    if error.errno == errno.EAGAIN and error.filename is None:
        common.print_error(NO_PROCESS)
        return common.EXIT_FAILED
    what = error.filename or ("the system" if os.access(SEMAPHORES, os.W_OK) else IN_SEMAPHORES)
    common.print_error(f"{what}: {error.strerror or error}")
    return common.EXIT_FAILED


def build_parser(
    verb: str | None = None, *, user_defaults: bool = False
) -> argparse.ArgumentParser:
    """Return the parser of the command line, with the options of one verb or of all.

    user_defaults: whether options have the user's defaults. Raises BadInput for a wrong one.
    """
    top = common.ArgumentParser(
        prog="./lab",
        description="A testbed for congestion control, through tunnels or without: ask, run, read.",
        epilog="Each verb has --help with an example.",
    )
    version = f"gostlab {__version__}"
    top.add_argument("-V", "--version", action="version", version=version, help="print the version")
    verbs = top.add_subparsers(title="verbs", required=True, metavar="VERB")
    verbs.add_parser("setup", help="install, build and fetch what the lab needs", add_help=False)
    verbs.add_parser("doctor", help="what is there, what is missing, what to do", add_help=False)
    verbs.add_parser("help", help="print the help of all verbs, or of one: ./lab help run")
    for entry in VERBS:
        if verb in (None, entry.name):
            parser_of_verb = entry.declared().add_to(verbs, entry.name, entry.says)
            if user_defaults:
                user_config.set_user_defaults(parser_of_verb)
        else:
            verbs.add_parser(entry.name, help=entry.says)
    return top


def raise_on_signals() -> None:
    """Have SIGTERM and SIGHUP raise KeyboardInterrupt, as Ctrl-C does.

    So nothing of a run stays behind. A signal that is ignored (by nohup) stays ignored.
    """
    startup.raise_on_interrupt()
    signal.signal(signal.SIGTERM, interrupt)
    if signal.getsignal(signal.SIGHUP) is not signal.SIG_IGN:
        signal.signal(signal.SIGHUP, interrupt)
    # Python drops an exception in a finalizer, also an interrupt: raise it again a moment later.
    signal.signal(signal.SIGALRM, interrupt)
    sys.unraisablehook = repeat_interrupt


def repeat_interrupt(lost: Any) -> None:
    """Repeat an interrupt that Python could not raise in a finalizer."""
    if lost.exc_type is KeyboardInterrupt:
        signal.setitimer(signal.ITIMER_REAL, INTERRUPT_AGAIN_S)
    else:
        sys.__unraisablehook__(lost)


def interrupt(number: int, _frame: FrameType | None) -> None:
    """Handle a signal by raising KeyboardInterrupt."""
    # A terminal that closes sends SIGHUP several times; a second one would interrupt the cleanup.
    if number == signal.SIGHUP:
        signal.signal(signal.SIGHUP, signal.SIG_IGN)
    raise KeyboardInterrupt
