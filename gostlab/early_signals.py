"""Signals that come before a command's own handlers: `./lab` blocks them while Python starts."""

import os
import signal
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
