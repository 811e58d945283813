# SPDX-License-Identifier: MIT
"""Run `python3 -m gostlab VERB`, or `gostlab VERB` if installed, like `./lab VERB`."""

import signal
import sys

from gostlab.startup import BLOCKED, EXIT_INTERRUPTED, exit_on_signals, open_streams, run_and_flush

exit_on_signals()
open_streams()

from gostlab.cli.main import main  # noqa: E402


def run_verb() -> int:
    """Run the verb of the command line and return the exit status."""
    try:
        try:
            return main(sys.argv[1:])
        finally:  # the command has finished: ignore signals during exit
            for number in BLOCKED:
                signal.signal(number, signal.SIG_IGN)
    except KeyboardInterrupt:
        return EXIT_INTERRUPTED


def command() -> int:
    """Run the verb, flush its output and return the exit status."""
    return run_and_flush(run_verb)


if __name__ == "__main__":
    sys.exit(command())
