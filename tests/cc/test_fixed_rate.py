# SPDX-License-Identifier: MIT
"""The congestion control that paces at a set rate whatever is lost, in the sandbox."""

import pytest

from tests.sandboxed import Lab

pytestmark = pytest.mark.sandbox

ASKED = "forward.loss: 5%, rtt: 20ms, duration: 4s"


def test_a_fixed_rate_is_kept_at_five_percent_of_loss(lab: Lab) -> None:
    done = lab.run(f'{{cc: "fixedrate(rate_kbit=20000)", {ASKED}}}')

    # What is lost of 20 Mbit/s is sent again at the same rate: 95 % of it arrive for the first
    # time.
    assert done.flows["flow1"]["goodput_bps"] == pytest.approx(0.95 * 20e6, rel=0.03)
    assert done.leg("wan")["cc"] == ["fixedrate(rate_kbit=20000)"]


def test_it_can_send_the_faster_the_more_is_lost(lab: Lab) -> None:
    asked = '"fixedrate(rate_kbit=20000,compensate=1)"'
    done = lab.run(f"{{cc: {asked}, {ASKED.replace('4s', '12s')}}}")

    rows = done.lines("sockets.jsonl")
    assert rows[-1]["pacing_rate_bps"] == pytest.approx(20e6 / 0.95, rel=0.02)
