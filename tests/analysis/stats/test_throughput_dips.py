# SPDX-License-Identifier: MIT
"""Dips: when a flow falls below its own rate, on made-up runs whose rates are known."""

from pathlib import Path

import pytest
import synthetic
from synthetic import drawn, loaded

from gostlab.analysis.stats.throughput_dips import find_dips


def rate(t_s: float) -> float:
    """90 Mbit/s, and half of a second at 9 from 20.0, 30.0, 40.0 and 50.0 s on; slow at first."""
    if t_s < 10.0:
        return 30.0
    return 9.0 if t_s >= 20.0 and t_s % 10.0 < 0.5 else 90.0


def written(results: Path, cc: str = "bbr", dipping: bool = True) -> Path:
    asked = synthetic.several({"cc": cc}, cc=cc, factors={"cc": cc})
    folder = synthetic.write_run(results, asked, name=cc)
    rates = {"flow1": rate if dipping else lambda t: 90.0}
    synthetic.write_over_time(folder, asked, rates, sample_s=0.1)
    return folder


def test_dips_are_found_and_what_they_cost(tmp_path: Path) -> None:
    dips = find_dips(loaded(written(tmp_path)), "flow1", 0.1)
    assert dips is not None
    assert dips.median_mbit == pytest.approx(90.0)
    assert [begin for begin, _ in dips.spans] == pytest.approx([20.0, 30.0, 40.0, 50.0], abs=0.11)
    assert [end - begin for begin, end in dips.spans] == pytest.approx([0.5] * 4, abs=0.11)
    assert dips.apart_s == pytest.approx(10.0, abs=0.05)
    # four times 0.5 s without nine tenths of the rate, in 45 s: the slow beginning is not judged
    assert dips.lost_share == pytest.approx(4 * 0.5 * 0.9 / 45.0, rel=0.05)


def test_the_figure_has_a_panel_per_flow_and_its_cost(tmp_path: Path) -> None:
    written(tmp_path, "bbr")
    written(tmp_path, "bbr3", dipping=False)
    made = drawn(tmp_path, "dips")
    (picture,) = made.pictures
    assert len(picture.figure.axes) == 2
    corners = sorted(ax.texts[0].get_text() for ax in picture.figure.axes)
    assert corners == ["4 dips, 10.0 s apart; 4.0 % of it lost", "no dip"]
