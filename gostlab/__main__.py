"""`python3 -m gostlab VERB`, and `gostlab VERB` where it is installed: the same as ./lab VERB."""

import os
import signal
import sys
from types import FrameType

INTERRUPTED = 130


def at_once(_number: int, _frame: FrameType | None) -> None:
    """While modules are being read nothing has begun, so there is nothing to put away. (An
    exception could get lost there: Python drops those raised in its import's own callbacks.)
    """
    os.write(2, b"gostlab: interrupted before anything began\n")
    os._exit(INTERRUPTED)


if (
    signal.getsignal(signal.SIGINT) is signal.default_int_handler
):  # not where a background job ignores it
    signal.signal(signal.SIGINT, at_once)
signal.signal(signal.SIGTERM, at_once)

from gostlab.apps.cli import main  # noqa: E402


def command() -> int:
    """Run the verb of the command line; the exit status."""
    try:
        status = main(sys.argv[1:])
        # All is written: a signal on the way out changes nothing any more.
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, signal.SIG_IGN)
    except KeyboardInterrupt:
        status = INTERRUPTED
    return said(status)


def said(status: int) -> int:
    """The exit status once all is written out; one of a failure where nobody takes an answer."""
    for stream in (sys.stderr, sys.stdout):
        try:
            stream.flush()
        except OSError:
            os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())
            status = status or int(stream is sys.stdout)
    return status


if __name__ == "__main__":
    sys.exit(command())
