"""Run the command line `./lab VERB`: assemble the verbs and print their errors.

Exit codes: 0 all runs good (but for what this kernel cannot do), 1 some run failed, or none was
possible, 2 bad input, 3 all ran, and some are invalid: no answer to their question, and said to be
none; 130 interrupted.
"""

import argparse
import errno
import os
import signal
import sys
from collections.abc import Sequence
from contextlib import redirect_stderr, redirect_stdout
from types import FrameType
from typing import Any

from gostlab import lazy, results, sandbox, startup
from gostlab.apply import apply_cli
from gostlab.bench import bench_cli
from gostlab.classroom import cli as course
from gostlab.cli import assets, common, completion, doctor, result_verbs, run, settings, validate
from gostlab.errors import BadInput
from gostlab.install import build_env
from gostlab.install import main as setup
from gostlab.install.locate import MissingPart
from gostlab.packetdrill import conformance_cli
from gostlab.profile_import import profile_cli
from gostlab.registry import folders
from gostlab.search import fit_cli, worst_cli
from gostlab.terminal_escape import Visible

# The verbs in the order of --help.
VERBS = (
    *(
        run.run_verb,
        run.try_verb,
        run.exec_verb,
        result_verbs.report_verb,
        apply_cli.apply_verb,
        result_verbs.compare_verb,
    ),
    *(fit_cli.fit_verb, worst_cli.worst_verb, run.shell_verb, profile_cli.profile_verb),
    *(validate.validate_verb, conformance_cli.conform_verb),
    *(
        assets.cc_verb,
        assets.kernel_verb,
        assets.gost_verb,
        result_verbs.replay_verb,
        result_verbs.catalogue_verb,
    ),
    *(settings.settings_verb, settings.window_verb, bench_cli.bench_verb, run.topo_verb),
    *(*course.VERBS, completion.completion_verb),
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
        completion.answer(parser(completion.verb_of(os.environ.get("COMP_LINE", ""))))
    with redirect_stdout(escape_output(sys.stdout)), redirect_stderr(escape_output(sys.stderr)):
        if not argv:
            print(INTRODUCTION)
            return common.EXIT_BAD_INPUT
        if argv[0] in ("setup", "doctor"):  # these two work without Debian's packages
            try:
                return int((setup if argv[0] == "setup" else doctor).main(list(argv[1:])))
            except OSError as error:
                return complain_of_system(error)
        return run_verb_with_errors(argv)


def escape_output(stream: Any) -> Any:
    """Return a stream that escapes control characters."""
    return stream if isinstance(stream, Visible) else Visible(stream, folders.COMMAND)


def run_verb_with_errors(argv: Sequence[str]) -> int:
    """Run one verb, print any error in one line, and return the exit code."""
    try:
        with lazy.written_once(folders.cache_folder() / "byte-code"):
            arguments = parser(argv[0]).parse_args(argv)
            raise_on_signals()
            return int(arguments.verb(arguments))
    except SystemExit as stop:  # argparse has printed the error
        return int(stop.code or 0)
    except KeyboardInterrupt:
        common.complain(
            "interrupted: what was finished is kept, and the same command goes on from there"
        )
        return common.EXIT_INTERRUPTED
    except (BadInput, MissingPart, sandbox.MachineError) as error:
        common.complain(str(error))
        return common.EXIT_BAD_INPUT
    except (results.ResultsError, build_env.SetupError) as error:
        common.complain(str(error))
        return common.EXIT_FAILED
    except BrokenPipeError:  # `./lab … | head`
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return common.EXIT_FAILED
    except OSError as error:
        return complain_of_system(error)
    except MemoryError:
        common.complain("not enough memory: is one of the files larger than it should be?")
        return common.EXIT_FAILED


def complain_of_system(error: OSError) -> int:
    """Print what the system refused, in one line; return the exit code."""
    if error.errno == errno.EAGAIN and error.filename is None:
        common.complain(NO_PROCESS)
        return common.EXIT_FAILED
    what = error.filename or ("the system" if os.access(SEMAPHORES, os.W_OK) else IN_SEMAPHORES)
    common.complain(f"{what}: {error.strerror or error}")
    return common.EXIT_FAILED


def parser(verb: str | None = None) -> argparse.ArgumentParser:
    """Return the parser of the command line, with the options of one verb or of all."""
    top = common.ArgumentParser(
        prog="./lab",
        description="A testbed for congestion control, through tunnels or without: ask, run, read.",
        epilog="Each verb has --help with an example.",
    )
    verbs = top.add_subparsers(title="verbs", required=True, metavar="VERB")
    verbs.add_parser("setup", help="install, build and fetch what the lab needs", add_help=False)
    verbs.add_parser("doctor", help="what is there, what is missing, what to do", add_help=False)
    for verb_object in VERBS:
        verb_object.add_to(verbs, with_options=verb in (None, verb_object.name))
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
    sys.unraisablehook = interrupt_again


def interrupt_again(lost: Any) -> None:
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
