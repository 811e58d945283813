# SPDX-License-Identifier: MIT
"""What stands beside a table."""

import pandas as pd
import pytest

from gostlab.analysis.stats.table_formats import n_note


@pytest.mark.parametrize(
    ("counts", "said"),
    [
        ([0, 0], "No run"),
        ([1, 1], "one run per cell"),
        ([0, 3, 5], "n = 3 to 5 runs per cell: too few for an interval"),
        ([3, 6], "cells with fewer than six runs have none"),
        ([6, 6], "n = 6 runs per cell. The interval is that of the median"),
    ],
)
def test_a_table_says_on_how_many_runs_it_rests_and_whether_there_are_intervals(
    counts: list[int], said: str
) -> None:
    note = n_note(pd.DataFrame({"n": counts, "copies": 0}))

    assert said in note
    assert ("have none" in note) == (counts == [3, 6])


def test_a_table_says_how_many_runs_are_copies_of_others() -> None:
    note = n_note(pd.DataFrame({"n": [1, 2], "copies": [4, 3]}))

    assert note.startswith("n = 1 to 2 runs per cell: too few")
    assert note.endswith(
        "7 more runs are copies of another one, sample by sample: n counts distinct runs."
    )
