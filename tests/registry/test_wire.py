# SPDX-License-Identifier: MIT
"""Bytes on the wire per byte carried, by the formats, against sums done by hand."""

import pytest

from gostlab.registry.tunnels import tunnel_kind
from gostlab.results.metrics import wire_ratio
from tests.asked import run_of


@pytest.mark.parametrize(
    ("tunnel", "payload", "link"),
    [
        ("direct", 1448, 1514),
        ("gost+ws", 1448, 1514 * (1 + 8 / 4096)),
        ("wireguard", 1368, 1420 + 60 + 14),
        ("openvpn+udp", 1396, 1514),
        ("openvpn+tcp", 1370, 1448 * 1514 / 1448),
    ],
)
def test_a_full_packet_is_the_sum_of_its_headers(tunnel: str, payload: int, link: float) -> None:
    assert tunnel_kind(tunnel).wire_ratio(1500) == pytest.approx(link / payload)


def test_a_vpns_mtu_follows_the_links() -> None:
    assert tunnel_kind("wireguard").inner_mtu(1500) == 1420
    assert tunnel_kind("wireguard").inner_mtu(1280) == 1200


def test_the_mtu_is_of_the_links_and_a_buffer_counts_packets_of_it() -> None:
    small = run_of(mtu="1280", buffer="1bdp", rate="100mbit", rtt="40ms")
    assert small.mtu == 1280
    assert small.path.forward.buffer_pkts == pytest.approx(500_000 / 1280, abs=1)


def test_bytes_on_the_wire_are_measured_between_samples_half_the_load_apart() -> None:
    upload = run_of(duration="10s", direction="upload")
    at = [float(second) for second in range(11)]
    queues = [
        {"t_s": t, "role": "bottleneck", "direction": "forward", "sent_bytes": 1100 * t} for t in at
    ]
    # What waits for a lost segment at the last sample spoils one pair, and no more.
    sockets = [
        {"t_s": t, "leg": "exit", "end": "near", "bytes_acked": 1000 * t - 900 * (t == 10.0)}
        for t in at
    ]

    assert wire_ratio(upload, queues, sockets) == pytest.approx(1.1)
    assert wire_ratio(upload, queues, []) is None
