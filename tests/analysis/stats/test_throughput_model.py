# SPDX-License-Identifier: MIT
"""Model curves against their sources' own tables."""

from __future__ import annotations

import math

import pytest

from gostlab.analysis.stats import throughput_model
from gostlab.analysis.stats.throughput_model import MODELS, ModelPath, models_for


@pytest.mark.parametrize(("loss", "reno"), [(1e-2, 12), (1e-3, 38), (1e-4, 120), (1e-6, 1200)])
def test_reno_s_windows_are_those_of_rfc_9438_s_table(loss: float, reno: float) -> None:
    assert throughput_model.reno_window(loss) == pytest.approx(reno, rel=0.005)


@pytest.mark.parametrize(("loss", "mbit"), [(1e-4, 21.7), (1e-3, 4.4), (1e-2, 1.39)])
def test_cubic_s_goodput_at_100_ms(loss: float, mbit: float) -> None:
    (model,) = models_for(["cubic"], ("rfc9438",))
    assert model.mbit(ModelPath(100e6, 100, loss)) == pytest.approx(mbit, rel=0.025)


def test_the_link_limits_cubic_at_little_loss() -> None:
    (model,) = models_for(["cubic"], ("rfc9438",))
    assert model.mbit(ModelPath(100e6, 100, 1e-5)) == pytest.approx(100 * 1448 / 1514)
    assert model.mbit(ModelPath(100e6, 100, 0)) == pytest.approx(100 * 1448 / 1514)
    assert model.mbit(ModelPath(None, 100, 0)) is None


def test_mathis_with_delayed_acks() -> None:
    assert throughput_model.mathis_window(1e-4) == pytest.approx(86.6, rel=0.001)


def test_li_2018_s_equation_6_with_its_alpha_and_beta() -> None:
    # α = 1, β = 0.8: √4.5 / √p; at 10 ms the 212 Mbit/s of the paper need p ≈ 1.4e-4
    assert throughput_model.li_cubic_window(1e-4) == pytest.approx(math.sqrt(4.5e4))
    assert throughput_model.goodput_mbit(
        throughput_model.li_cubic_window(1.4e-4), 10
    ) == pytest.approx(212, rel=0.03)


def test_li_2018_s_equation_7_falls_where_the_window_no_longer_covers_the_path() -> None:
    whole = ModelPath(1e9, 10, 1e-4, rmem_bytes=80e6)
    # 980 is more than a link of 1 Gbit/s carries
    assert throughput_model.li_bbr_mbit(whole) == pytest.approx(whole.payload_mbit)
    small = ModelPath(1e9, 20, 1e-4, rmem_bytes=1e6)
    assert throughput_model.li_bbr_mbit(small) == pytest.approx(980 * 1e6 / 2.5e6)
    assert throughput_model.li_bbr_mbit(small, throughput_model.RMEM_WINDOW_SHARE) == pytest.approx(
        980 * 0.5e6 / 2.5e6
    )


def test_bbr_gets_what_is_not_lost() -> None:
    assert throughput_model.bbr_mbit(ModelPath(100e6, 100, 0.15)) == pytest.approx(
        0.85 * 100 * 1448 / 1514
    )


@pytest.mark.parametrize("model", MODELS, ids=lambda model: model.name)
def test_no_model_exceeds_the_link_and_its_window_is_its_rate_s(
    model: throughput_model.ThroughputModel,
) -> None:
    for loss in (1e-7, 1e-4, 1e-2, 0.3):
        path = ModelPath(100e6, 50, loss, rmem_bytes=6e6)
        rate, window = model.mbit(path), model.window(path)
        assert rate is not None and window is not None
        assert 0 < rate <= path.payload_mbit
        assert throughput_model.goodput_mbit(window, 50) == pytest.approx(rate)


def test_models_are_those_of_the_congestion_controls_that_ran() -> None:
    assert [model.name for model in models_for(["bbr", "westwood"])] == ["bbr"]
    names = ("rfc9438", "li-cubic", "li-bbr", "li-bbr-linux")
    assert tuple(model.name for model in models_for(["bbr", "cubic"], names)) == names
