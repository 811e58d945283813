"""One seed is one run, and where the lab lies hardly moves it."""

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


def test_where_the_lab_lies_hardly_moves_a_run(tmp_path: Path) -> None:
    """docs/repeatability.md says why not to the bit: how often Python asks for memory before the
    load. What is read while the clock goes, as a module, would move it by more.
    """
    names = ("here", "there-in-a-folder-of-a-longer-name")
    one, other = (
        read_json(copy_lab(tmp_path / name).run(LOSSY), "flows.json")["flows"][0] for name in names
    )

    assert one["goodput_bps"] == pytest.approx(other["goodput_bps"], rel=0.005)
    assert one["ended_s"] == pytest.approx(other["ended_s"], abs=0.001)
