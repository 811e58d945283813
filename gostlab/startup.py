"""What a command does before its modules are imported: signals, which `./lab` blocks while Python
starts, and standard streams, which whoever starts it may have closed or given another encoding.
"""

import os
import signal
import sys
from io import TextIOWrapper
from types import FrameType

EXIT_INTERRUPTED = 130
BLOCKED = {signal.SIGINT, signal.SIGTERM}


def exit_at_once(_number: int, _frame: FrameType | None) -> None:
    """End the process: while modules are imported nothing has begun that must be cleaned up, and
    Python drops an exception that is raised in its import's own callbacks.
    """
    os.write(2, b"gostlab: interrupted before anything began\n")
    os._exit(EXIT_INTERRUPTED)


def unblock() -> None:
    """Deliver the signals that `./lab` has blocked, those that are pending first."""
    signal.pthread_sigmask(signal.SIG_UNBLOCK, BLOCKED)


def exit_on_signals() -> None:
    """Have SIGINT and SIGTERM end the process, from now until a command sets its own handlers. A
    SIGINT that is ignored, as of a job in the background, stays ignored.
    """
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, exit_at_once)
    signal.signal(signal.SIGTERM, exit_at_once)
    unblock()


def raise_on_interrupt() -> None:
    """Have SIGINT raise KeyboardInterrupt, unless it is ignored."""
    if signal.getsignal(signal.SIGINT) is not signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)


def open_streams() -> None:
    """Give the command all three standard streams. A closed one is /dev/null, lest the next file
    that is opened take its number; a character that one cannot encode is written as its escape.
    """
    for number in range(3):
        try:
            os.fstat(number)
        except OSError:
            os.open(os.devnull, os.O_RDWR)  # the lowest number that is free: this one
    sys.stdin = sys.stdin or os.fdopen(0, encoding="utf-8", closefd=False)
    sys.stdout = sys.stdout or os.fdopen(1, "w", encoding="utf-8", closefd=False)
    sys.stderr = sys.stderr or os.fdopen(2, "w", encoding="utf-8", closefd=False)
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, TextIOWrapper) and stream.errors == "strict":
            stream.reconfigure(errors="backslashreplace")
