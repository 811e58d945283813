# SPDX-License-Identifier: MIT
"""The formulas give their sources' own tables."""

import pytest

from gostlab.tcpmodel import response_functions

# RFC 9438, section 5.2: mean windows by loss: Reno, CUBIC at 100 ms, CUBIC at 10 ms.
RFC9438_TABLE = [
    (1e-2, 12, 12, 12),
    (1e-3, 38, 38, 38),
    (1e-4, 120, 187, 120),
    (1e-5, 379, 1054, 379),
    (1e-6, 1200, 5926, 1200),
]
# The RFC's table takes 1.2 for sqrt(3/2) = 1.2247.
ROUNDING = 0.025


@pytest.mark.parametrize(("loss", "reno", "at_100_ms", "at_10_ms"), RFC9438_TABLE)
def test_windows_are_those_of_rfc_9438(
    loss: float, reno: int, at_100_ms: int, at_10_ms: int
) -> None:
    assert response_functions.reno_window(loss) == pytest.approx(reno, rel=ROUNDING)
    assert response_functions.cubic_window(loss, 0.1) == pytest.approx(at_100_ms, rel=ROUNDING)
    assert response_functions.cubic_window(loss, 0.01) == pytest.approx(at_10_ms, rel=ROUNDING)


def test_the_general_formula_has_the_rfcs_constant() -> None:
    assert pytest.approx(1.054, abs=5e-4) == response_functions.CUBIC_FACTOR
    assert response_functions.cubic_region_window(1e-5, 0.1) == pytest.approx(1054, abs=0.5)


def test_rates_are_those_of_the_loss_response_table() -> None:
    """100 ms, one flow: 4.4, 1.39 and 21.7 Mbit/s, within the rounding of the RFC's constants."""
    for loss, mbit in ((1e-2, 1.39), (1e-3, 4.4), (1e-4, 21.7)):
        assert response_functions.cubic_throughput_bps(loss, 0.1) == pytest.approx(
            mbit * 1e6, rel=0.03
        )


@pytest.mark.parametrize("loss", [0.5, 1e-2, 1e-3, 3e-4, 1e-5, 1e-7])
@pytest.mark.parametrize("rtt_s", [0.002, 0.01, 0.1, 0.168, 0.32])
def test_the_inverse_undoes_the_response(loss: float, rtt_s: float) -> None:
    assert response_functions.cubic_loss(
        response_functions.cubic_throughput_bps(loss, rtt_s), rtt_s
    ) == pytest.approx(loss, rel=1e-9)


def test_a_rate_too_low_to_explain_is_a_loss_of_all_at_most() -> None:
    assert response_functions.cubic_loss(1.0, 0.1) == 1.0


def test_one_stream_of_debians_window_is_the_thesis_single_stream() -> None:
    """3 MiB over 168 ms: about 145 Mbit/s; the thesis got 144 (cubic) and 136 (bbr)."""
    assert response_functions.window_limit_bps(3 * 2**20, 0.168) == pytest.approx(150e6, rel=0.005)


def test_a_bdp_is_what_fills_the_path() -> None:
    assert response_functions.bdp_bytes(1_967_000_000, 0.168) == pytest.approx(41_307_000)


@pytest.mark.parametrize(
    "wrong",
    [
        lambda: response_functions.reno_window(0),
        lambda: response_functions.cubic_window(1.1, 0.1),
        lambda: response_functions.cubic_window(0.1, 0),
        lambda: response_functions.cubic_loss(0, 0.1),
    ],
)
def test_what_has_no_answer_is_refused(wrong) -> None:
    with pytest.raises(ValueError, match=r"not (within|above)"):
        wrong()


def test_timeouts_take_little_of_rare_losses_and_much_of_many() -> None:
    # Padhye et al. (SIGCOMM 1998): without timeouts it is the square-root law
    assert response_functions.pftk_window(1e-6, 0.1) == pytest.approx(
        response_functions.reno_window(1e-6), rel=1e-4
    )
    # 2 % over 36 ms by hand: 0.036 / (0.036 * 0.11547 + 0.236 * 3 * 0.0866 * 0.02 * 1.0128)
    assert response_functions.pftk_window(0.02, 0.036) == pytest.approx(6.667, rel=1e-3)
