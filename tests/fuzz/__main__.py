# SPDX-License-Identifier: MIT
"""Run cases of some families, and print those that went wrong.

python3 -m tests.fuzz FAMILY FIRST COUNT [SEED]
"""

import sys
import tempfile
from pathlib import Path

from tests.fuzz.families import FAMILIES, WITH_PROCESSES
from tests.fuzz.judge import SEED, faults

name, first, count = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
with tempfile.TemporaryDirectory(prefix="gostlab-fuzz-") as scratch:
    numbers, processes = range(first, first + count), name in WITH_PROCESSES
    found = faults(FAMILIES[name], SEED, numbers, Path(scratch), processes=processes)
for each in found:
    print(each)
print(f"{name}: {count} cases, {len(found)} faults")
