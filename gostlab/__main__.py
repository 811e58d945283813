"""`python3 -m gostlab VERB`: the same as ./lab VERB."""
import signal
import sys

from gostlab.cli import EXIT_INTERRUPTED, main

try:
    status = main(sys.argv[1:])
    # All is written: a signal on the way out changes nothing any more.
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.SIG_IGN)
except KeyboardInterrupt:
    status = EXIT_INTERRUPTED
sys.exit(status)
