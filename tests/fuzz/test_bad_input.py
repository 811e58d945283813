# SPDX-License-Identifier: MIT
"""No input ends in a traceback or a hang: a seeded sample of each family, 10,000 by `make fuzz`."""

import os
from pathlib import Path

import pytest

from gostlab.install import landlock
from tests.fuzz.families import FAMILIES, WITH_PROCESSES
from tests.fuzz.judge import SEED, faults

TOTAL = int(os.environ.get("GOSTLAB_FUZZ", "0"))
# Of all cases, in percent, and the sample of a usual session.
SHARES = {
    "words": (38, 60),
    "yaml": (22, 100),
    "recording": (18, 50),
    "results": (12, 25),
    "report": (1, 2),
    "hand_in": (5, 8),
    "classroom": (3, 4),
    "ranking": (1, 4),
}


@pytest.mark.skipif(not landlock.landlock_abi(), reason="no Landlock")
@pytest.mark.parametrize("name", FAMILIES)
def test_bad_input_is_an_answer_or_a_sentence(name: str, tmp_path: Path) -> None:
    share, sample = SHARES[name]
    numbers = range(TOTAL * share // 100 or sample)

    found = faults(FAMILIES[name], SEED, numbers, tmp_path, processes=name in WITH_PROCESSES)

    assert not found, "\n".join(map(str, found[:20]))
