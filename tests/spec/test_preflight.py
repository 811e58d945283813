# SPDX-License-Identifier: MIT
"""Every trap is seen, with the number that decides, and only where it is one."""

import itertools
import math
import random
from dataclasses import replace
from functools import partial
from typing import Any

import pytest

from gostlab.spec.preflight import (
    Guard,
    checks,
    guards,
    ordering_delay,
    overtaken_share,
    survey_traps,
)
from gostlab.spec.run_spec import RunSpec
from gostlab.spec.verdict import worst_verdict
from tests.asked import run_of

one = partial(run_of, buffers="bdp", duration="30s")
near = partial(pytest.approx, rel=0, abs=1)


def found(run: RunSpec) -> dict[str, Guard]:
    return {guard.name: guard for guard in guards(run)}


def test_a_plain_run_has_none() -> None:
    assert guards(one()) == ()
    assert checks(one()) == []


THESIS = {"profile": "la-hamina", "buffers": "debian"}
TIGHT = THESIS | {"streams": "128", "tcp_memory": "365MiB"}
FAR = {"rate": "100gbit", "buffer": "100pkts", "delay": "200ms"}
FAR_WITHOUT_LIMIT = FAR | {"buffers": "system", "delay": "110ms"}
OLDER = THESIS | {"kernel": "5.10"}
RECEIVE_BOUND = "{rmem: [4KiB, 128KiB, 2MiB], wmem: [4KiB, 16KiB, 8MiB]}"
SSH_FAR = {"rate": "1gbit", "delay": "83.5ms", "tunnel": "ssh"}
OPENVPN = {"rate": "100mbit", "delay": "30ms", "tunnel": "openvpn+tcp"}
LUMPS = {"offloads": "on"}
LOSSY = LUMPS | {"loss": "0.1%"}
UDP = "{kind: udp, rate: 10mbit}"
SENT = {"iperf3": "3.12", "flows": f"{{flow1: {UDP}}}"}
SECOND_FAR = {"profile": "li2018", "topology": "dumbbell", "flows": "{a: {}, flow2: {rtt: 400ms}}"}
RATES = "[" + ", ".join(f"{{at: {n}s, rate: {5 + n % 2}mbit}}" for n in range(1, 13)) + "]"
Trap = tuple[dict[str, str], dict[str, Any] | None]
# By guard: what is asked, and what the guard is, of its sentence a part; None: there is none.
TRAPS: dict[str, list[Trap]] = {
    # 100 Gbit/s for 200 ms are 2.5 GB in each direction, of which 1 GiB of buffers lets 0.7 million
    # packets come.
    "delay_line": [
        (FAR, None),
        (FAR | {"streams": "2"}, {"level": "error", "limit": 10**6, "unit": "packets"}),
        (FAR | {"streams": "2"}, {"actual": near(2 * 2**30 / 1500)}),
        (FAR | {"buffers": "debian"}, None),
        (FAR_WITHOUT_LIMIT, None),
        (FAR_WITHOUT_LIMIT | {"jitter": "20ms"}, {"actual": near(1e11 * 0.13 / 12000)}),
        (FAR_WITHOUT_LIMIT | {"changes": "[{at: 1s, delay: 130ms}]"}, {}),
    ],
    "offloads_loss": [
        (LOSSY, {"level": "error"}),
        (LOSSY | {"offloads": "off"}, None),
        (LOSSY | {"offloads": "auto"}, None),
        (LOSSY | {"loss": "{model: periodic, packets: 1000}"}, {}),
        (LOSSY | {"loss": "0%", "changes": "[{at: 1s, loss: 1%}]"}, {}),
        (LOSSY | {"allow": "super-packets"}, {"level": "warning", "says": "allowed"}),
    ],
    # Sixteen windows per 168 ms against nine tenths of 1967 Mbit/s; datagrams want the rate that
    # they are sent at.
    "offloads_queue": [
        (
            THESIS | LUMPS | {"streams": "16"},
            {"actual": near(16 * 198 / 256 * 6 * 2**20 * 8 / 0.168)},
        ),
        (OLDER | LUMPS | {"streams": "16"}, {"actual": near(16 * 3 * 2**20 * 8 / 0.168)}),
        (THESIS | LUMPS | {"streams": "16"}, {"limit": round(0.9 * 1_967_000_000)}),
        (THESIS | LUMPS, None),
        (LUMPS | {"flows": f"{{a: {UDP}, b: {UDP}}}"}, {"actual": 20_000_000}),
    ],
    "window_limit": [
        (THESIS, {"actual": near(0.6 * 4 * 2**20), "level": "warning"}),
        (THESIS, {"says": "119.8 Mbit/s to 189.6 Mbit/s of 1.967 Gbit/s"}),
        (OLDER, {"says": "119.8 Mbit/s to 149.8 Mbit/s of 1.967 Gbit/s"}),
        (OLDER | {"buffers": RECEIVE_BOUND}, {"actual": 2**20, "says": "about 49.93 Mbit/s of"}),
        (THESIS | {"streams": "16"}, {"says": "about 1.917 Gbit/s to 1.967 Gbit/s of"}),
        (THESIS | {"streams": "20"}, {"says": "the queue is never full"}),
        (THESIS | {"streams": "24"}, {"says": "the queue may never be full"}),
        (THESIS | {"streams": "128"}, None),
        (SECOND_FAR | {"buffer": "100pkts"}, None),
    ],
    # A tunnel's own flow control, per stream, and of OpenVPN over TCP its socket buffers.
    "tunnel_window": [
        (SSH_FAR, {"actual": 2 * 2**20, "says": "100.5 Mbit/s of 1 Gbit/s"}),
        (SSH_FAR | {"streams": "4"}, {"actual": 8 * 2**20, "says": "SSH's channel window"}),
        (SSH_FAR | {"rate": "90mbit"}, None),
        (SSH_FAR | {"tunnel": "direct"}, None),
        (SSH_FAR | {"tunnel": "gost+h2"}, {"actual": 2**20, "says": "HTTP/2's flow control"}),
        (SSH_FAR | {"tunnel": "gost+h2", "streams": "4"}, {"actual": 2**20}),
        (SSH_FAR | {"tunnel": "gost+h2", "direction": "download"}, {"actual": 4 * 2**20}),
        (OPENVPN | {"sndbuf": "64KiB"}, {"actual": near(52_411, rel=0.1), "says": "sndbuf"}),
        (OPENVPN | {"rcvbuf": "64KiB"}, {"actual": near(74_062, rel=0.15), "says": "rcvbuf"}),
        (OPENVPN | {"sndbuf": "2MiB"}, None),
        (OPENVPN | {"sndbuf": "64KiB", "tunnel": "openvpn+udp"}, None),
    ],
    "unmarked": [
        ({"cc": "prague"}, {"says": "as Reno does"}),
        ({"cc": "prague", "queue": "dualpi2", "bottleneck": "tbf", "ecn": "l4s"}, None),
        ({"cc": "cubic"}, None),
    ],
    # 1 - (1 - 1/1024) (1 - 2/1024) …
    "shared_queue": [
        ({"queue": "fq_codel", "bottleneck": "tbf", "streams": "2"}, None),
        (
            {"queue": "fq_codel", "bottleneck": "tbf", "streams": "16"},
            {"actual": near(0.1111, abs=1e-4)},
        ),
        ({"queue": "fifo", "streams": "16"}, None),
    ],
    # shorter than a first window
    "short_queue": [
        ({"buffer": "9pkts"}, {"level": "warning", "actual": 9, "limit": 10}),
        ({"buffer": "10pkts"}, None),
        ({"rate": "10mbit", "delay": "0.5ms", "buffer": "1bdp"}, None),
    ],
    # 100 Mbit/s over 8 ms are 67 packets: eight at once are more than a tenth. Over 10 ms they are
    # 83.
    "burst": [
        (SENT | {"delay": "4ms"}, {"actual": 8, "limit": near(1e8 * 0.008 / 120_000, abs=1e-3)}),
        (SENT | {"delay": "5ms"}, None),
        ({"delay": "4ms"}, None),
        (LUMPS | {"delay": "4ms"}, {"actual": 43}),
    ],
    # 100 Mbit/s: a packet each 0.12 ms. Only the direction of the data matters.
    "reordering": [
        ({"jitter": "0.06ms"}, None),
        ({"jitter": "0.12ms"}, {"says": "over 0.24 ms"}),
        ({"jitter": "0.12ms"}, {"says": "12%"}),
        ({"jitter": "5ms", "ordered": "on"}, None),
        ({"changes": "[{at: 1s, jitter: 5ms}]"}, {}),
        ({"changes": "[{at: 1s, jitter: 5ms}]", "ordered": "on"}, None),
        ({"profile": "download-150ms", "direction": "download"}, {}),
        ({"profile": "download-150ms", "direction": "upload"}, None),
    ],
    # A packet each 0.6 ms, an ACK each 1.2 ms: the last of those that could have come waits.
    "ordering": [
        ({"jitter": "5ms"}, None),
        ({"jitter": "0.05ms", "ordered": "on"}, None),
        ({"rate": "20mbit", "delay": "60ms", "jitter": "30ms", "ordered": "on"}, {"says": "43.3"}),
        ({"changes": "[{at: 1s, jitter: 5ms}]", "ordered": "on"}, {"says": "more than the idle"}),
    ],
    # 10 Mbit/s over 2 ms are 1.7 packets.
    "least_buffer": [
        ({"rate": "10mbit", "delay": "1ms", "buffer": "1bdp"}, {"actual": 1.667, "limit": 10}),
        ({"rate": "10mbit", "delay": "1ms", "buffer": "0.5bdp"}, None),
        ({"rate": "10mbit", "delay": "6ms", "buffer": "1bdp"}, None),
        ({"delay": "1ms"}, None),
    ],
    "hops": [
        ({"hops": "2"}, {"actual": 200, "limit": 100, "says": "hop2"}),
        ({"hops": "2", "links": "{hop2: {rtt: 1ms}}"}, None),
        ({}, None),
    ],
    "few_round_trips": [
        ({"duration": "2s"}, None),
        ({"duration": "1s"}, {"actual": 1.0, "limit": 2.0}),
        (SECOND_FAR | {"duration": "5s"}, {"says": "flow2 "}),
        ({"duration": "3s", "changes": "[{at: 1s, delay: 100ms, direction: both}]"}, {}),
    ],
    "memory": [
        (THESIS | {"streams": "128", "memory": "512MiB"}, {"level": "error"}),
        (THESIS | {"streams": "128"}, None),
    ],
    "tcp_memory": [(TIGHT, {"level": "warning"})],
    # The CPU is the bottleneck there.
    "no_rate": [({"clock": "real", "rate": "unlimited"}, {"level": "warning"})],
    "netem_rates": [
        ({"changes": RATES}, {"level": "warning", "actual": 12, "says": "bottleneck: tbf"}),
        ({"changes": RATES, "bottleneck": "tbf"}, None),
        ({"changes": "[{at: 1s, rate: 5mbit}]"}, None),
    ],
}


@pytest.mark.parametrize(
    ("name", "asked", "said"), [(name, *trap) for name, traps in TRAPS.items() for trap in traps]
)
def test_a_trap_is_seen_where_it_is_one(
    name: str, asked: dict[str, str], said: dict[str, Any] | None
) -> None:
    guard = found(one(**asked)).get(name)
    if guard is None or said is None:
        assert guard is said
    else:
        assert said.items() <= {**vars(guard), "says": said.get("says")}.items()
        assert said.get("says", "") in guard.sentence


@pytest.mark.parametrize(
    ("asked", "verdict"),
    [
        (LOSSY | {"allow": "super-packets"}, "degraded"),
        (THESIS | LUMPS | {"streams": "16"}, "degraded"),
        ({"duration": "1s"}, "degraded"),
        *((asked, "ok") for asked in (THESIS, TIGHT, {"jitter": "5ms"})),
    ],
)
def test_a_trap_that_is_no_error_may_spoil_a_run(asked: dict[str, str], verdict: str) -> None:
    assert worst_verdict(checks(one(**asked))) == verdict


def test_what_is_a_factor_or_allowed_is_a_warning_alone() -> None:
    asked = replace(one(**LOSSY), factors={"offloads": "on"})
    assert found(asked)["offloads_loss"].level == "warning"
    assert one(allow="[super-packets]").allow == one(allow="super-packets").allow


def test_only_the_sandbox_has_memory_of_its_own() -> None:
    small = one(**THESIS, streams="128", memory="512MiB")
    assert "memory" not in found(replace(small, machine="native"))


def test_nobody_knows_the_window_of_the_kernels_own_buffers() -> None:
    assert guards(one(profile="la-hamina", buffers="system")) == ()


def test_the_window_of_the_longest_flow_is_what_counts() -> None:
    run = one(**SECOND_FAR, buffer="100pkts")
    small = [replace(flow, buffers=one(profile="li2018").flows[0].buffers) for flow in run.flows]
    guard = found(replace(run, flows=small))["window_limit"]
    assert "flow2" in guard.sentence and guard.limit == near(1e9 * 0.4 / 8 + 150_000)


@pytest.mark.parametrize("spacing", [1.0, 1.3, 1.9])
def test_where_only_the_next_packet_can_overtake_the_share_is_a_triangle(spacing: float) -> None:
    # Both delays even over 2 jitters, the difference beyond the spacing: (2 - s)^2 / 8.
    assert overtaken_share(spacing) == pytest.approx((2 - spacing) ** 2 / 8, abs=1e-3)


def test_no_packet_overtakes_over_more_than_the_spread() -> None:
    assert overtaken_share(2.0) == overtaken_share(5.0) == 0


def test_dense_packets_are_nearly_all_overtaken() -> None:
    # Many packets within the spread: the product is exp(-x^2 / 4s), its mean over x in 0..2 is
    # sqrt(pi s) / 2.
    assert overtaken_share(0.001) == pytest.approx(1 - math.sqrt(math.pi * 0.001) / 2, abs=0.002)


@pytest.mark.parametrize(
    ("spacing", "table"),
    [(0.3, None), (0.1, None), (0.2, (-8192, -4000, -3000, -100, 0, 200, 3000, 9000))],
)
def test_the_share_is_that_of_packets_sent_on_their_way(
    spacing: float, table: tuple[int, ...] | None
) -> None:
    chance = random.Random(5)
    count = 60_000
    arrivals = [
        number * spacing + (chance.choice(table) / 8192 if table else chance.uniform(-1, 1))
        for number in range(count)
    ]
    overtaken, earliest = 0, math.inf
    for arrival in reversed(arrivals):
        overtaken += arrival > earliest
        earliest = min(earliest, arrival)
    # 4 standard errors of independent draws are 0.008.
    assert overtaken_share(spacing, table) == pytest.approx(overtaken / count, abs=0.01)
    in_order = itertools.accumulate(arrivals, max)
    waited = sum(at - number * spacing for number, at in enumerate(in_order)) / count
    assert ordering_delay(spacing, table) == pytest.approx(waited, abs=0.02)


def test_a_matrix_is_told_once_with_the_worst_and_how_many() -> None:
    runs = [one(**THESIS, streams=streams) for streams in ("1", "4", "128", "1")]
    errors, warned = survey_traps(runs)
    assert errors == []
    [warning] = warned
    assert (warning.runs, warning.of, warning.guard) == (3, 4, found(runs[0])["window_limit"])
    assert warning.line.startswith(
        "warning: single, 3 of 4 runs: the 2.4 MiB to 3.797 MiB of window"
    )


HTTP = "{kind: http, size: 1MB, direction: download}"


@pytest.mark.slow
def test_any_run_has_sentences_and_finite_numbers() -> None:
    options: dict[str, list[str]] = {
        "offloads": ["on", "off"],
        "loss": ["0%", "1%"],
        "jitter": ["0ms", "1ms"],
        "delay": ["1ms", "20ms", "4s"],
        "rate": ["1kbit", "100gbit"],
        "buffers": ["bdp", "debian", "system"],
        "streams": ["1", "128"],
        "buffer": ["1pkts", "1bdp"],
        "duration": ["1s", "100s"],
        "tcp_memory": ["ample", "1MiB"],
        "memory": ["auto", "128MiB"],
        "flows": ["{flow1: {}}", "{a: {kind: udp, rate: 1mbit}, b: {}}", f"{{a: {HTTP}}}"],
    }
    chance = random.Random(3)
    for _ in range(300):
        asked: dict[str, Any] = {key: chance.choice(words) for key, words in options.items()}
        for guard in guards(one(**asked)):
            assert guard.sentence.isprintable() and guard.level in ("error", "warning")
            numbers = [each for each in (guard.actual, guard.limit) if each is not None]
            assert all(map(math.isfinite, numbers)), guard
