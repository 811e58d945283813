# SPDX-License-Identifier: MIT
"""Run `./lab setup` as `python3 -m gostlab.install`."""

import sys

from gostlab.startup import discard_output, exit_on_signals, flush_output, open_streams

exit_on_signals()
open_streams()

from gostlab.install.main import main  # noqa: E402

try:
    sys.exit(flush_output(main(sys.argv[1:])))
except BrokenPipeError:
    discard_output()
    sys.exit(1)
