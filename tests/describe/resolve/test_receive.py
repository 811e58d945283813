"""`receive` and `rx_usecs`: what can be requested, and what it becomes."""

from functools import partial

import pytest

from gostlab.describe.file.document import BadInput
from tests.asked import run_of

asked = partial(run_of, profile="la-hamina")


def test_who_asks_for_packets_keeps_his_runs_name() -> None:
    assert asked(receive="packet", offloads="off").name == asked(offloads="off").name
    assert not {"receive", "rx_usecs"} & set(asked(offloads="off").to_json())


def test_moderated_cards_merge_single_packets() -> None:
    run = asked(receive="moderated", rx_usecs="100us")
    assert (run.receive, run.rx_usecs, run.offloads) == ("moderated", 100, False)
    assert asked(receive="moderated").rx_usecs == 50


@pytest.mark.parametrize(
    ("overrides", "complaint"),
    [
        ({"receive": "moderated", "offloads": "on"}, "lumps"),
        ({"rx_usecs": "100us"}, "needs receive: moderated"),
        ({"receive": "moderated", "rx_usecs": "0us"}, "1us and 10ms"),
        ({"receive": "moderated", "rx_usecs": "20ms"}, "1us and 10ms"),
        ({"receive": "moderated", "rx_usecs": "1.5us"}, "finer than 1us"),
        ({"receive": "adaptive"}, "packet or moderated|moderated"),
    ],
)
def test_what_no_card_could_do_is_refused(overrides: dict[str, str], complaint: str) -> None:
    with pytest.raises(BadInput, match=complaint):
        asked(**overrides)
