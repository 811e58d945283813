# SPDX-License-Identifier: MIT
"""What a path does to packets besides rate, delay, jitter and loss: from words to numbers."""

from __future__ import annotations

from typing import Any

import pytest

from gostlab.spec.labels import level_label
from gostlab.spec.path_spec import (
    OutageSpec,
    PolicerSpec,
    ReorderSpec,
    ShareSpec,
    SlotSpec,
    random_loss,
)
from gostlab.spec.preflight import guards
from gostlab.spec.run_spec import RunSpec
from gostlab.tcpmodel.delay_tables import delay_table
from tests.asked import runs_of


def run_with(settings: str) -> RunSpec:
    [run] = runs_of(
        "name: asked\ntitle: asked\nsettings: {profile: plain-100ms, rate: 100mbit}\nmatrices:\n"
        f"  - name: m\n    settings: {settings}\n"
    )
    return run


@pytest.mark.parametrize(
    ("settings", "field", "value"),
    [
        (
            "policer: {rate: 10mbit, burst: 15kB}",
            "policer",
            PolicerSpec(rate_bps=10_000_000, burst_bytes=15_000),
        ),
        ("reorder: 1%", "reorder", ReorderSpec(share=0.01)),
        (
            "reorder: {share: 1%, distance: 5, correlation: 25%}",
            "reorder",
            ReorderSpec(share=0.01, distance=5, correlation=0.25),
        ),
        ("duplicate: 2%", "duplicate", ShareSpec(share=0.02)),
        (
            "corrupt: {share: 2%, correlation: 10%}",
            "corrupt",
            ShareSpec(share=0.02, correlation=0.1),
        ),
        ("slot: 5ms", "slot", SlotSpec(min_ms=5.0, max_ms=5.0)),
        (
            "slot: {min: 2ms, max: 8ms, packets: 32, bytes: 48kB}",
            "slot",
            SlotSpec(min_ms=2.0, max_ms=8.0, packets=32, bytes=48_000),
        ),
        (
            "slot: {distribution: pareto, delay: 5ms, jitter: 1ms}",
            "slot",
            SlotSpec(delay_ms=5.0, jitter_ms=1.0, distribution=delay_table("pareto")),
        ),
        ("outage: {at: 1s, for: 50ms}", "outages", (OutageSpec(at_s=1.0, for_s=0.05),)),
        ("jitter: 5ms, distribution: normal", "distribution", delay_table("normal")),
    ],
)
def test_a_setting_holds_in_both_directions_and_comes_back_from_run_json(
    settings: str, field: str, value: Any
) -> None:
    run = run_with(f"{{{settings}}}")

    assert [getattr(direction, field) for direction in run.path] == [value, value]
    assert RunSpec.from_json(run.to_json()) == run


@pytest.mark.parametrize("nothing", ["policer: off", "reorder: 0%", "duplicate: 0%", "slot: off"])
def test_a_setting_of_nothing_is_the_run_without_it(nothing: str) -> None:
    """YAML reads off as a word here: settings are read by their own readers."""
    assert run_with(f"{{{nothing}}}").path == run_with("{}").path


def test_a_prefix_sets_one_direction_and_a_link_its_own() -> None:
    run = run_with("{forward.corrupt: 1%, hops: 2, links: {hop2: {reverse.duplicate: 1%}}}")

    assert run.path.forward.corrupt and not run.path.reverse.corrupt
    assert run.links["hop2"].reverse.duplicate and not run.path.reverse.duplicate


@pytest.mark.parametrize(
    ("settings", "field", "down", "up"),
    [
        ("rate: 100mbit/20mbit", "rate_bps", 100_000_000, 20_000_000),
        ("rate: 100mbit/s/20mbit/s", "rate_bps", 100_000_000, 20_000_000),
        ("loss: 1%/0%", "loss", random_loss(0.01), random_loss(0.0)),
        ("delay: 5ms/15ms", "delay_ms", 5.0, 15.0),
        ("buffer: 100pkts/20pkts", "buffer_pkts", 100, 20),
        ("corrupt: 1%/0%", "corrupt", ShareSpec(share=0.01), None),
    ],
)
def test_two_values_in_one_word_are_down_and_up(
    settings: str, field: str, down: Any, up: Any
) -> None:
    path = run_with(f"{{{settings}}}").path

    assert (getattr(path.reverse, field), getattr(path.forward, field)) == (down, up)


def test_one_value_with_a_slash_of_its_unit_is_one_value() -> None:
    assert run_with("{rate: 100mbit/s}").to_json() == run_with("{rate: 100mbit}").to_json()


def test_a_level_of_two_values_is_printed_as_down_and_up() -> None:
    assert level_label("rate", "100mbit/20mbit") == "100\u00a0Mbit/s down and 20\u00a0Mbit/s up"
    assert level_label("loss", "1%/0%") == "1\u00a0% down and 0\u00a0% up loss"


def losses(run: RunSpec, direction: str = "forward") -> list[tuple[float, float | None]]:
    """Return the times and the losses of a direction's changes."""
    return [
        (change.at_s, change.loss.p if change.loss else None)
        for change in run.changes
        if change.direction == direction
    ]


def test_an_outage_loses_all_and_then_as_much_as_before() -> None:
    run = run_with("{loss: 1%, duration: 10s, outage: {at: 2s, for: 500ms, every: 4s}}")

    assert losses(run) == losses(run, "reverse")
    assert losses(run) == [(2.0, 1.0), (2.5, 0.01), (6.0, 1.0), (6.5, 0.01)]


def test_a_loss_that_changes_during_an_outage_begins_when_it_ends() -> None:
    run = run_with(
        "{loss: 1%, duration: 10s, forward.outage: {at: 2s, for: 1s},"
        " changes: [{at: 2500ms, loss: 3%}, {at: 5s, loss: 0%}]}"
    )

    assert losses(run) == [(2.0, 1.0), (3.0, 0.03), (5.0, 0.0)]


def test_a_handover_is_an_outage_before_new_values() -> None:
    run = run_with("{duration: 10s, changes: [{at: 2s, outage: 80ms, delay: 70ms, rate: 20mbit}]}")

    [lost, *after] = run.changes
    assert (lost.at_s, lost.loss) == (2.0, random_loss(1.0))
    assert {change.at_s for change in after} == {2.08}
    values = {name: value for change in after for name, value in change.new_values.items()}
    assert values == {"rate_bps": 20_000_000, "delay_ms": 70.0, "loss": random_loss(0.0)}


@pytest.mark.parametrize(
    ("settings", "guard", "says"),
    [
        ("loss: {model: random, p: 10%, correlation: 25%}", "correlation", "1.75% of packets"),
        ("reorder: 1%", "overtaking", "overtakes up to"),
        ("policer: {rate: 200mbit, burst: 15kB}", "policer_idle", "its bottleneck 100 Mbit/s"),
        ("slot: {min: 8ms, packets: 16}", "slot_rate", "24.22 Mbit/s"),
    ],
)
def test_what_a_setting_does_beyond_its_word_is_said(settings: str, guard: str, says: str) -> None:
    said = {one.name: one.sentence for one in guards(run_with(f"{{{settings}}}"))}

    assert says in said[guard]


def test_a_duplicated_packet_counts_twice_against_the_delay_lines_limit() -> None:
    path = "rate: 10gbit, rtt: 2s, buffers: bdp, "
    names = [
        {one.name for one in guards(run_with(f"{{{path}{setting}}}"))}
        for setting in ("duplicate: 0%", "duplicate: 50%")
    ]

    assert ["delay_line" in of_run for of_run in names] == [False, True]


@pytest.mark.parametrize(
    ("settings", "refused"),
    [
        ("flows: {a: {}, u: {kind: udp, rate: 1mbit}}", True),
        ("flows: {a: {}, p: {kind: ping}}", True),
        ("flows: {a: {}, p: {kind: ping}}, tunnel: wireguard", False),
        ("flows: {a: {}, u: {kind: udp, rate: 1mbit}}, tunnel: wireguard", True),
        ("flows: {a: {}}", False),
    ],
)
def test_what_counts_datagrams_takes_no_duplicates(settings: str, refused: bool) -> None:
    """iperf3 measured 0.04 of 4 Mbit/s: its server took the duplicate of a greeting for data."""
    run = run_with(f"{{reverse.duplicate: 1%, {settings}}}")

    levels = [guard.level for guard in guards(run) if guard.name == "duplicates"]

    assert levels == (["error"] if refused else [])
