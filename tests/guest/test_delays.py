# SPDX-License-Identifier: MIT
"""The delays that a run's samples tell, against what a queue of a known size must be."""

import pytest

from gostlab.results.metrics import Latency, latency_of_folder
from tests.sandboxed import Lab, describe, direction

pytestmark = pytest.mark.sandbox

RATE_BPS = 20_000_000
BUFFER_PKTS = 200
FULL_MS = BUFFER_PKTS * 1514 * 8 / RATE_BPS * 1000  # 121 ms
IDLE_MS = 40.0


def delays_of(lab: Lab, cc: str, **settings: str) -> Latency:
    """The delays of one flow of 15 s behind a buffer three times the path's BDP."""
    path = direction(rate_bps=RATE_BPS, buffer_pkts=BUFFER_PKTS)
    run = describe(path, cc=cc, duration_s=15.0, sample_ms=100.0, **settings)
    found = latency_of_folder(lab.run(run).folder)
    assert found is not None
    return found


def test_cubic_fills_a_deep_buffer_and_its_round_trip_is_the_path_s_and_the_queue_s(
    lab: Lab,
) -> None:
    found = delays_of(lab, "cubic")
    assert found.idle_rtt_ms == IDLE_MS
    assert found.srtt_ms is not None and found.queue_delay_ms is not None
    # the window falls to 0.7 of path and buffer, 266 packets, which leaves 120 in the queue
    assert 0.5 * FULL_MS < found.queue_delay_ms.median < found.queue_delay_ms.p95
    assert found.queue_delay_ms.p95 == pytest.approx(FULL_MS, rel=0.05)
    # srtt is a mean of the last packets, the queue that of an instant
    assert found.srtt_ms.median == pytest.approx(IDLE_MS + found.queue_delay_ms.median, rel=0.05)
    assert found.srtt_ms.p95 == pytest.approx(IDLE_MS + found.queue_delay_ms.p95, rel=0.05)


# CoDel's target is 5 ms (RFC 8289).
@pytest.mark.parametrize(
    ("cc", "bottleneck", "most_ms"),
    [("bbr", {}, 0.25 * FULL_MS), ("cubic", {"bottleneck": "tbf", "queue": "fq_codel"}, 10.0)],
    ids=["BBR", "a queue that acts"],
)
def test_who_keeps_the_queue_short_waits_less_and_the_samples_see_it(
    lab: Lab, cc: str, bottleneck: dict[str, str], most_ms: float
) -> None:
    found = delays_of(lab, cc, **bottleneck)
    assert found.srtt_ms is not None and found.queue_delay_ms is not None
    assert found.queue_delay_ms.median < most_ms
    assert found.srtt_ms.median == pytest.approx(IDLE_MS + found.queue_delay_ms.median, rel=0.1)
