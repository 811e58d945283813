# SPDX-License-Identifier: MIT
"""What a path needs of TCP's buffers."""

import pytest

from gostlab.cli.buffer_advice import advise_window


def test_a_window_is_rate_times_round_trip_and_a_buffer_twice_that() -> None:
    advice = advise_window(1_000_000_000, 0.168)

    assert advice.bdp_bytes == 21_000_000
    assert advice.rmem_bytes == advice.wmem_bytes == 42_000_000
    # The README's number: 3 MiB of window in 168 ms.
    assert advice.debian_most_bps == pytest.approx(149.8e6, rel=0.001)
    assert advice.debian_bps < advice.debian_most_bps < advice.debian_most_since_6_6_bps
    said = "\n".join(advice.lines())
    assert 'tcp_rmem="4096 131072 42000000"' in said and 'tcp_rmem="4096 131072 84000000"' in said


def test_streams_share_the_window() -> None:
    advice = advise_window(1_000_000_000, 0.168, 16)

    assert advice.window_bytes == pytest.approx(advice.bdp_bytes / 16, abs=1) and advice.enough


def test_enough_without_loss_says_what_losses_need() -> None:
    """At 1 % loss BBR got 49 Mbit/s with Debian's buffers, 77 with these (n = 1)."""
    lines = advise_window(100_000_000, 0.2).lines()

    assert lines[1].endswith("enough without loss.") and "twice as much" in lines[2]
    assert lines[3] == '  sysctl -w net.ipv4.tcp_rmem="4096 131072 10000000"'


def test_twice_enough_needs_no_more() -> None:
    lines = advise_window(10_000_000, 0.02).lines()

    assert lines[-1].endswith("enough, after losses too.") and len(lines) == 2


def test_what_no_connection_can_carry_is_said() -> None:
    assert "One connection cannot" in advise_window(100_000_000_000, 1.0).lines()[-1]
    with pytest.raises(ValueError, match="no round trip"):
        advise_window(1_000_000, 0.0)
