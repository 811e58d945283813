"""tc's commands are built as asked, and what the kernel shows is read back and compared."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from gostlab.guest.shaping import (
    Netem,
    ShapingMismatch,
    bottleneck_netem,
    delay_netem,
    differences,
    gact_intervals,
    netem_argv,
    parse_netem,
    periodic_loss_argv,
    write_table,
)

FORWARD = {
    "rate_bps": 1_967_000_000,
    "delay_ms": 84.0,
    "jitter_ms": 0.0,
    "buffer_pkts": 27281,
    "ordered": False,
    "distribution": None,
    "loss": {"model": "random", "p": 0.001},
}


def test_rate_and_buffer_stand_apart_from_delay_and_loss() -> None:
    assert netem_argv("a-eth1", bottleneck_netem(FORWARD, seed=13)) == [
        "tc",
        "qdisc",
        "add",
        "dev",
        "a-eth1",
        "root",
        "netem",
        "limit",
        "27281",
        "rate",
        "1967000000bit",
        "seed",
        "13",
    ]
    assert netem_argv("b-eth1", delay_netem(FORWARD, seed=14)) == [
        "tc",
        "qdisc",
        "add",
        "dev",
        "b-eth1",
        "root",
        "netem",
        "limit",
        "1000000",
        "delay",
        "84.000000ms",
        "loss",
        "random",
        "0.10000000%",
        "seed",
        "14",
    ]


def test_a_change_repeats_everything_with_its_seed() -> None:
    argv = netem_argv(
        "x", delay_netem({**FORWARD, "loss": {"model": "random", "p": 0.0}}, seed=1), "change"
    )
    assert argv == [
        "tc",
        "qdisc",
        "change",
        "dev",
        "x",
        "root",
        "netem",
        "limit",
        "1000000",
        "delay",
        "84.000000ms",
        "seed",
        "1",
    ]


def test_jitter_that_keeps_order_has_a_rate_too_high_to_matter() -> None:
    jitter = {**FORWARD, "jitter_ms": 15.0}
    assert delay_netem(jitter, seed=1).rate_bps is None
    assert delay_netem({**jitter, "ordered": True}, seed=1).rate_bps == 10_000_000_000


def test_a_delay_table_is_named_after_its_contents(tmp_path: Path) -> None:
    netem = delay_netem(
        {**FORWARD, "jitter_ms": 2.0, "distribution": list(range(-8192, 8193, 64))}, seed=1
    )
    argv = netem_argv("x", netem)
    write_table(tmp_path, netem.distribution)
    name = argv[argv.index("distribution") + 1]
    assert [int(word) for word in (tmp_path / f"{name}.dist").read_text().split()] == list(
        netem.distribution
    )


@pytest.mark.parametrize(
    ("packets", "intervals"),
    [
        (1, [1]),
        (2000, [2000]),
        (10_000, [10_000]),
        (100_000, [10_000, 10]),
        (1_000_000, [10_000, 100]),
    ],
)
def test_periodic_loss_is_a_chain_of_actions_that_multiply(
    packets: int, intervals: list[int]
) -> None:
    assert gact_intervals(packets) == intervals
    argv = periodic_loss_argv("x", packets)
    assert [
        int(argv[i + 1]) for i, word in enumerate(argv) if word in ("pipe", "drop")
    ] == intervals
    assert argv[-2] == "drop"


def test_a_period_that_no_chain_makes_is_refused() -> None:
    with pytest.raises(ValueError, match="not a product"):
        gact_intervals(1_000_003)


def test_gilbert_elliott_keeps_tcs_order() -> None:
    loss = {"model": "gemodel", "p": 0.01, "r": 0.2, "one_minus_h": 0.9, "one_minus_k": 0.001}
    argv = netem_argv("x", delay_netem({**FORWARD, "loss": loss}, seed=1))
    assert argv[argv.index("gemodel") + 1 :][:4] == [
        "1.00000000%",
        "20.00000000%",
        "90.00000000%",
        "0.10000000%",
    ]


def test_tcs_json_is_read_back_in_the_labs_units() -> None:
    shown = json.dumps(
        [
            {
                "kind": "netem",
                "handle": "1:",
                "root": True,
                "options": {
                    "limit": 1000000,
                    "delay": {"delay": 0.084, "jitter": 0, "correlation": 0},
                    "loss-random": {"loss": 0.001, "correlation": 0},
                    "rate": {"rate": 245875000},
                    "seed": 14,
                },
            }
        ]
    )
    assert parse_netem(shown) == Netem(1000000, 84.0, 0.0, (0.001,), 1_967_000_000, 14)


def test_an_interface_without_netem_is_a_mismatch() -> None:
    with pytest.raises(ShapingMismatch, match="no netem"):
        parse_netem('[{"kind": "noqueue"}]')


@pytest.mark.parametrize(
    ("installed", "word"),
    [
        (Netem(1000, 84.0), "limit"),
        (Netem(1000000, 83.0), "delay"),
        (Netem(1000000, 84.0, 1.0), "jitter"),
        (Netem(1000000, 84.0, loss=(0.01,)), "loss"),
        (Netem(1000000, 84.0, rate_bps=10**6), "rate"),
    ],
)
def test_each_thing_that_differs_is_named(installed: Netem, word: str) -> None:
    found = differences(Netem(1000000, 84.0), installed)
    assert len(found) == 1 and found[0].startswith(word)


def test_the_kernels_resolution_is_no_difference() -> None:
    assert (
        differences(
            Netem(1, 84.0, 0.0, (0.001,), 1_967_000_001),
            Netem(1, 84.0000004, 0.0, (0.00099999997,), 1_967_000_000),
        )
        == []
    )
