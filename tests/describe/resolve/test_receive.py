"""`receive` and `rx_usecs`: what can be requested, and what it becomes."""

from functools import partial

from tests.asked import run_of

asked = partial(run_of, profile="la-hamina")


def test_who_asks_for_packets_keeps_his_runs_name() -> None:
    assert asked(receive="packet", offloads="off").name == asked(offloads="off").name
    assert not {"receive", "rx_usecs"} & set(asked(offloads="off").to_json())


def test_moderated_cards_merge_single_packets() -> None:
    run = asked(receive="moderated", rx_usecs="100us")
    assert (run.receive, run.rx_usecs, run.offloads) == ("moderated", 100, False)
    assert asked(receive="moderated").rx_usecs == 50
