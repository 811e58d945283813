# SPDX-License-Identifier: MIT
"""What theory says a run gets, which the search of ./lab fit begins with."""

import pytest

from gostlab.search.prior_mean import theory_inputs
from gostlab.tcpmodel.response_functions import cubic_throughput_bps
from tests.asked import run_of


def got(cc: str = "cubic", **settings: str) -> float:
    words = {"rate": "100mbit", "rtt": "100ms", "buffers": "debian", **settings}
    return theory_inputs(run_of(cc=cc, **words)).goodput_bps


def test_the_rate_limits_a_path_without_loss() -> None:
    assert got(rate="20mbit") == pytest.approx(0.955 * 20e6, rel=0.02)


def test_the_window_limits_a_long_path() -> None:
    one, four = got(rate="10gbit"), got(rate="10gbit", streams="4")
    assert 0.6 * 8 * 4 * 2**20 / 0.1 < one < 0.63 * 8 * 6 * 2**20 / 0.1
    assert four == pytest.approx(4 * one, rel=0.02)


def test_loss_limits_cubic_by_its_response_and_bbr_hardly() -> None:
    lossy = {"forward.loss": "1%"}
    assert got(**lossy) == pytest.approx(0.99 * cubic_throughput_bps(0.01, 0.1), rel=0.02)
    assert got("bbr", **lossy) > 90e6
