# SPDX-License-Identifier: MIT
"""`./lab try` says when a rate is mostly that of its beginning."""

from pathlib import Path

import pytest

from gostlab.cli.settling_time import Settling, cubic_epoch_of_run_s, find_settling
from tests.asked import run_of
from tests.lab_command import Typed


def rising(rates: list[float]) -> list[tuple[float, float]]:
    """Return bytes sent until each second at these rates."""
    return [(float(t_s), sum(rates[:t_s])) for t_s in range(len(rates) + 1)]


def test_a_steady_rate_has_settled_at_once() -> None:
    assert find_settling(rising([7.0] * 20), 0, 20) == Settling(0.0, 1.0)


def test_a_slow_start_is_told_from_what_follows() -> None:
    found = find_settling(rising([1.0, 2.0, 4.0, 8.0] + [10.0] * 16), 0, 20)

    assert found is not None and 2 <= found.settled_s <= 4
    assert found.late_ratio == pytest.approx(200 / 175)


def test_few_samples_and_idle_links_tell_nothing() -> None:
    assert find_settling(rising([7.0] * 5), 0, 5) is None
    assert find_settling(rising([7.0] * 10 + [0.0] * 10), 0, 20) is None


def test_cubic_alone_has_an_epoch_where_its_own_losses_decide() -> None:
    path = {"rate": "20mbit", "rtt": "100ms", "buffers": "bdp"}

    assert cubic_epoch_of_run_s(run_of(**path, cc="cubic")) == pytest.approx(6.3, abs=0.1)
    assert cubic_epoch_of_run_s(run_of(**path, cc="bbr")) is None
    assert cubic_epoch_of_run_s(run_of(**path, cc="cubic", loss="1%")) is None
    assert (
        cubic_epoch_of_run_s(run_of(**path | {"rate": "1gbit", "buffers": "debian"}, cc="cubic"))
        is None
    )


@pytest.mark.sandbox
def test_try_says_how_long_a_rate_took_to_settle(here: Path, typed: Typed) -> None:
    path = "--rate 20mbit --rtt 100ms --jitter 30ms --ordered on --cc cubic,bbr"
    said = typed("try", *path.split(), "--machine", "sandbox").stdout

    assert "cubic: the rate settled after about" in said and "--skip" in said
    assert "bbr: the rate" not in said
