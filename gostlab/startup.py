# SPDX-License-Identifier: MIT
"""Prepare signals and standard streams before a command's modules are imported.

`./lab` blocks signals while Python starts. The caller may have closed a standard stream, or given
it another encoding.
"""

import os
import signal
import sys
from collections.abc import Callable
from io import TextIOWrapper
from types import FrameType

EXIT_INTERRUPTED = 130
BLOCKED = {signal.SIGINT, signal.SIGTERM}


def exit_at_once(_number: int, _frame: FrameType | None) -> None:
    """End the process during imports, when nothing needs to be cleaned up.

    Python drops exceptions that are raised in the import system's callbacks.
    """
    os.write(2, b"gostlab: interrupted before anything began\n")
    os._exit(EXIT_INTERRUPTED)


def unblock() -> None:
    """Unblock the signals that `./lab` has blocked, which delivers pending ones."""
    signal.pthread_sigmask(signal.SIG_UNBLOCK, BLOCKED)


def exit_on_signals() -> None:
    """Have SIGINT and SIGTERM end the process until a command sets its own handlers.

    An ignored SIGINT, as of a background job, stays ignored.
    """
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, exit_at_once)
    signal.signal(signal.SIGTERM, exit_at_once)
    unblock()


def raise_on_interrupt() -> None:
    """Have SIGINT raise KeyboardInterrupt, unless it is ignored."""
    if signal.getsignal(signal.SIGINT) is not signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)


def discard_output() -> None:
    """Send what is still to be printed to /dev/null: its reader has gone (`./lab … | head`)."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def run_and_flush(command: Callable[[], int]) -> int:
    """Run a command and flush its output; return its status, or 1 if the reader has gone."""
    try:
        status = command()
    except SystemExit as stop:  # argparse's, after --help or a bad option
        status = stop.code if isinstance(stop.code, int) else 0
    except BrokenPipeError:
        discard_output()
        status = 1
    return flush_output(status)


def flush_output(status: int) -> int:
    """Flush the standard streams; return the status, or a failure if the output is closed."""
    for stream in (sys.stderr, sys.stdout):
        try:
            stream.flush()
        except OSError:
            os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())
            status = status or int(stream is sys.stdout)
    return status


def open_streams() -> None:
    """Ensure that the process has all three standard streams.

    A closed one becomes /dev/null, so that no other file gets its number. A character that a stream
    cannot encode is written as its escape.
    """
    for number in range(3):
        try:
            os.fstat(number)
        except OSError:
            os.open(os.devnull, os.O_RDWR)  # takes the lowest free number, which is this one
    sys.stdin = sys.stdin or os.fdopen(0, encoding="utf-8", closefd=False)
    sys.stdout = sys.stdout or os.fdopen(1, "w", encoding="utf-8", closefd=False)
    sys.stderr = sys.stderr or os.fdopen(2, "w", encoding="utf-8", closefd=False)
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, TextIOWrapper) and stream.errors == "strict":
            stream.reconfigure(errors="backslashreplace")
