# SPDX-License-Identifier: MIT
"""Round trips and short downloads beside a load, in the sandbox on the virtual clock, without a
tunnel and through one of each sort.
"""

import pytest

from tests.sandboxed import Lab

pytestmark = pytest.mark.sandbox

# 64 bytes with their headers take 0.01 ms at 100 Mbit/s; a program's calls at 5 µs each the rest.
HOSTS_MS = 0.5


@pytest.mark.parametrize(
    ("tunnel", "over"), [("direct", "udp"), ("gost+ws", "udp"), ("split", "tcp")]
)
def test_an_idle_pings_round_trip_is_the_paths(lab: Lab, tunnel: str, over: str) -> None:
    done = lab.run(f"{{tunnel: {tunnel}, duration: 2s, flows: {{lag: {{kind: ping}}}}}}")

    trips = done.flows["lag"]["round_trips"]
    assert (trips["over"], trips["sent"], trips["lost"]) == (over, 20, 0)
    assert trips["median_ms"] == pytest.approx(40.0, abs=HOSTS_MS)
    assert done.checks["idle_rtt_before"]["got"] == pytest.approx(40.0, abs=0.1)
    rows = done.lines("pings.jsonl")
    assert [row["t_s"] for row in rows] == pytest.approx(
        [rows[0]["t_s"] + n / 10 for n in range(20)], abs=0.01
    )


def test_a_load_in_a_deep_queue_lengthens_every_ping_by_its_wait(lab: Lab) -> None:
    done = lab.run(
        "{rate: 10mbit, buffer: 100pkts, duration: 6s, flows: {bulk: {}, lag: {kind: ping},"
        " web: {kind: short, sizes: [10kB, 50kB]}}}"
    )

    found = done.flows
    # A hundred full packets take 121 ms at 10 Mbit/s; the queue is never longer, and CUBIC fills
    # it.
    assert 100 < found["lag"]["round_trips"]["p95_ms"] - 40 < 122
    assert found["bulk"]["goodput_bps"] > 8e6
    small, large = found["web"]["fetches"]
    assert (small["size_bytes"], large["size_bytes"]) == (10_000, 50_000)
    # A download takes at least two round trips: a connection's, and a request's.
    assert 0.08 < small["median_s"] < large["median_s"]
    assert len(done.lines("fetches.jsonl")) == small["count"] + large["count"]


def test_short_downloads_and_pings_beside_a_load_share_a_forwarder(lab: Lab) -> None:
    done = lab.run(
        "{tunnel: split, rate: 10mbit, duration: 2s, flows: {bulk: {}, lag: {kind: ping},"
        " web: {kind: short, sizes: [10kB]}}}"
    )

    found = done.flows
    assert found["lag"]["round_trips"]["over"] == "tcp"
    assert found["web"]["fetches"][0]["count"] >= 5
    assert {leg["flow"] for leg in done.legs} == {"bulk", "web"}
