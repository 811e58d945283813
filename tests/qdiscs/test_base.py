# SPDX-License-Identifier: MIT
"""What stands at the bottleneck: netem's own queue, or a token bucket over a queue that acts."""

import pytest

from tests.sandboxed import Lab, describe, direction

pytestmark = pytest.mark.sandbox

# 10 times the path's own 250 packets: with the plain queue CUBIC keeps it full.
DEEP = direction(rate_bps=50_000_000, delay_ms=30.0, buffer_pkts=1000)
BACK = direction(rate_bps=50_000_000, delay_ms=30.0)


@pytest.mark.parametrize("packets", [3, 12])
def test_red_is_installed_behind_a_buffer_of_a_few_packets(lab: Lab, packets: int) -> None:
    # tc's own least mean queue, a twelfth of the limit, would be below one packet and refused.
    there = direction(rate_bps=10_000_000, delay_ms=1.0, buffer_pkts=packets)
    back = direction(rate_bps=10_000_000, delay_ms=1.0)

    done = lab.run(describe(there, back, bottleneck="tbf", queue="red", duration_s=2.0))

    assert done.goodput_bps > 2e6


@pytest.mark.parametrize("bottleneck", ["htb", "tbf"])
def test_a_change_of_rate_keeps_the_queue_and_its_limit(lab: Lab, bottleneck: str) -> None:
    change = {"at_s": 4.0, "direction": "forward", "rate_bps": 10_000_000}

    done = lab.run(describe(DEEP, BACK, bottleneck=bottleneck, duration_s=8.0, changes=[change]))

    assert done.lines("changes.jsonl")[0]["installed"]["rate_bps"] == 10_000_000
    shown = done.json("env.json")["qdiscs_after"]["wan_a-eth1"]
    assert "rate 10Mbit" in shown and "limit 1000p" in shown


def test_all_packets_are_of_htbs_class_over_the_queue_that_was_asked(lab: Lab) -> None:
    done = lab.run(describe(DEEP, BACK, bottleneck="htb", queue="codel", duration_s=4.0))

    shown = done.json("env.json")["qdiscs_after"]["wan_a-eth1"]
    sent = [line.split()[1] for line in shown.splitlines() if line.startswith(" Sent")]
    assert "qdisc codel 2: parent 1:1 limit 1000p" in shown
    assert "class htb 1:1 root leaf 2: prio 0 rate 50Mbit ceil 50Mbit burst 1600b" in shown
    assert "direct_packets_stat 0" in shown
    assert len(sent) == 3 and len(set(sent)) == 1
