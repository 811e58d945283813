"""One seed is one run, wherever the lab lies."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.declared.contributed import copy_lab, read_json

pytestmark = pytest.mark.sandbox

LOSSY = """
name: mine
title: mine
settings: {profile: plain-100ms, rate: 50mbit, loss: 1%, jitter: 3ms, duration: 2s, cc: bbr}
matrices: [{name: one}]
"""


def test_a_run_does_not_depend_on_where_the_lab_lies(tmp_path: Path) -> None:
    """Neither on how often Python asks for memory, nor on what it reads while the clock goes."""
    names = ("here", "there-in-a-folder-of-a-longer-name", "y" * 90)
    found = [read_json(copy_lab(tmp_path / name).run(LOSSY), "flows.json") for name in names]

    assert found[1:] == found[:-1]
