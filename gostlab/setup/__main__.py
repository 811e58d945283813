"""`python3 -m gostlab.setup`: the same as ./lab setup."""

import sys

from gostlab.setup.steps import main

sys.exit(main(sys.argv[1:]))
