"""`python3 -m gostlab VERB`, and `gostlab VERB` where it is installed: the same as ./lab VERB."""

import os
import signal
import sys

from gostlab.startup import BLOCKED, EXIT_INTERRUPTED, exit_on_signals, open_streams

exit_on_signals()
open_streams()

from gostlab.cli.main import main  # noqa: E402


def command() -> int:
    """Run the verb of the command line; the exit status."""
    try:
        try:
            status = main(sys.argv[1:])
        finally:  # all is written: a signal on the way out changes nothing any more
            for number in BLOCKED:
                signal.signal(number, signal.SIG_IGN)
    except KeyboardInterrupt:
        status = EXIT_INTERRUPTED
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
