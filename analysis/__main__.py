"""`python3 -m analysis [EXPERIMENT…]`: write the report."""

import sys

from analysis.page.report import main

sys.exit(main(sys.argv[1:]))
