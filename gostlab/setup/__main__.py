"""`python3 -m gostlab.setup`: the same as ./lab setup."""

import sys

from gostlab.early_signals import exit_on_signals

exit_on_signals()

from gostlab.setup.steps import main  # noqa: E402

sys.exit(main(sys.argv[1:]))
