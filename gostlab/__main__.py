"""`python3 -m gostlab VERB`: the same as ./lab VERB."""
import sys

from gostlab.cli import main

sys.exit(main(sys.argv[1:]))
