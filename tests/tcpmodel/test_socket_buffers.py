# SPDX-License-Identifier: MIT
"""What socket buffers allow, by the kernel's own rules, and how much memory sockets need."""

import pytest

from gostlab.tcpmodel.run_limits import MIB
from gostlab.tcpmodel.socket_buffers import (
    DEBIAN_BUFFERS,
    receive_window_share,
    socket_windows,
    tcp_memory_needed_mib,
)
from tests.asked import run_of


@pytest.mark.parametrize(
    ("version", "super_packets", "share"),
    [
        ((5, 10), False, 0.5),
        ((6, 1), True, 0.5),
        ((6, 12), False, 0.633),
        ((7,), False, 0.633),
        ((7, 3), True, 0.773),
    ],
)
def test_a_receive_window_follows_sk_buffs_since_linux_6_6(
    version: tuple[int, ...], super_packets: bool, share: float
) -> None:
    assert receive_window_share(version, 1448, super_packets) == pytest.approx(share, abs=0.001)


@pytest.mark.parametrize(
    ("mss_bytes", "one", "two"), [(1228, 0.5934, 0.7455), (1948, 0.6989, 0.8194)]
)
def test_the_share_of_other_mtus_is_what_sockets_advertised(
    mss_bytes: int, one: float, two: float
) -> None:
    for super_packets, share in ((False, one), (True, two)):
        assert receive_window_share((7,), mss_bytes, super_packets) == pytest.approx(
            share, abs=0.004
        )


def test_a_send_buffer_bounds_a_paced_sender_and_the_receive_window_all() -> None:
    found = socket_windows(DEBIAN_BUFFERS, 2, (5, 10), 1448, super_packets=False)

    assert found.max_bytes == 2 * 3 * MIB
    assert found.min_bytes == pytest.approx(2 * 0.6 * 4 * MIB)


def test_memory_holds_what_large_buffers_held_after_loss() -> None:
    """The peaks were measured with 4 GiB allowed, of BBR at 1 % loss and without (n = 22)."""
    far = {"rate": "144mbit", "rtt": "600ms", "cc": "bbr", "buffers": "bdp"}
    for streams, held_mib in (("1", 114.7), ("2", 211.5), ("8", 310.0), ("32", 311.6)):
        run = run_of(**far, streams=streams)
        assert run.tcp_memory_mib / 2 > held_mib
        assert run.memory_mib > 384 + run.tcp_memory_mib / 2


def test_debians_buffers_need_what_they_did() -> None:
    run = run_of(rate="1gbit", rtt="168ms", buffers="debian")
    assert tcp_memory_needed_mib(16, 1, DEBIAN_BUFFERS, run.path.content_bytes) == 64 + 17 * 10
