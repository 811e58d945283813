"""What a path needs of TCP's buffers."""

import pytest

from gostlab.apps.verbs.window import advise_window


def test_a_window_is_rate_times_round_trip_and_rmem_twice_that() -> None:
    advice = advise_window(1_000_000_000, 0.168)

    assert advice.bdp_bytes == 21_000_000
    assert advice.rmem_bytes == advice.wmem_bytes == 42_000_000
    # The README's number: 3 MiB of window in 168 ms.
    assert advice.debian_bps == pytest.approx(149.8e6, rel=0.001)
    assert 'tcp_rmem="4096 131072 42000000"' in "\n".join(advice.lines())


def test_streams_share_the_window_and_debians_may_be_enough() -> None:
    advice = advise_window(1_000_000_000, 0.168, 16)

    assert advice.window_bytes == pytest.approx(advice.bdp_bytes / 16, abs=1) and advice.enough
    assert not any("sysctl" in line for line in advise_window(10_000_000, 0.02).lines())


def test_what_no_connection_can_carry_is_said() -> None:
    assert "One connection cannot" in advise_window(100_000_000_000, 1.0).lines()[-1]
    with pytest.raises(ValueError, match="no round trip"):
        advise_window(1_000_000, 0.0)
