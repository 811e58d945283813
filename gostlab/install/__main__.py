"""Run `./lab setup` as `python3 -m gostlab.install`."""

import sys

from gostlab.startup import exit_on_signals, open_streams

exit_on_signals()
open_streams()

from gostlab.install.main import main  # noqa: E402

sys.exit(main(sys.argv[1:]))
