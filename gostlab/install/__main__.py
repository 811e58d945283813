# SPDX-License-Identifier: MIT
"""Run `./lab setup` as `python3 -m gostlab.install`."""

import sys

from gostlab.startup import exit_on_signals, open_streams, run_and_flush

exit_on_signals()
open_streams()

from gostlab.install.main import main  # noqa: E402

sys.exit(run_and_flush(lambda: main(sys.argv[1:])))
