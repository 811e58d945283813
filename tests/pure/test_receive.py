"""`receive` and `rx_usecs`: what can be asked for, and what it becomes."""

from __future__ import annotations

import pytest

from gostlab.ask.document import BadInput
from gostlab.ask.resolve import single_run
from gostlab.ask.run_description import RunDescription


def asked(**overrides: str) -> RunDescription:
    return single_run(
        profile="la-hamina", cc="cubic", machine="sandbox", clock="virtual", overrides=overrides
    )


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
        ({"receive": "moderated", "rx_usecs": "0us"}, "1us and 10000us"),
        ({"receive": "moderated", "rx_usecs": "20ms"}, "1us and 10000us"),
        ({"receive": "moderated", "rx_usecs": "1.5us"}, "whole"),
        ({"receive": "adaptive"}, "packet or moderated|moderated"),
    ],
)
def test_what_no_card_could_do_is_refused(overrides: dict[str, str], complaint: str) -> None:
    with pytest.raises(BadInput, match=complaint):
        asked(**overrides)
