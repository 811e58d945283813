# SPDX-License-Identifier: MIT
"""An expectation is a metric of some cells and flows, with a bound or a relation."""

from dataclasses import replace

import pytest

from gostlab.errors import BadInput
from gostlab.spec.expectations import (
    Bound,
    CellView,
    Expectation,
    Limit,
    bind_expectation,
    metric_names,
    read_expectations,
    split_text,
)
from gostlab.spec.yaml_source import parse_document

GRID = [
    CellView("main", {"cc": cc, "loss": loss}, ("flow1", "flow2"), ("flow1", "flow2"), 6)
    for cc in ("cubic", "bbr")
    for loss in ("0%", "1%")
]


def expectations(text: str) -> tuple[Expectation, ...]:
    return read_expectations(parse_document(text, "mine.yaml"))


def one(text: str) -> Expectation:
    (expectation,) = expectations(text)
    return expectation


def places(text: str, cells: list[CellView] = GRID) -> list[tuple[object, ...]]:
    """The cell and flow, and those of its reference, of each bound expectation."""
    fields = ("subject", "flow", "reference", "reference_flow")
    bound: list[Bound] = bind_expectation(one(text), cells)
    return [tuple(getattr(each, name) for name in fields) for each in bound]


@pytest.mark.parametrize(
    ("text", "low", "high"),
    [
        ('goodput: ">= 8 Mbit/s"', Limit(8), None),
        ('goodput_mbit: "> 8mbit"', Limit(8, is_inclusive=False), None),
        ('srtt_p95_ms: "<= 60 ms"', None, Limit(60)),
        ('convergence_s: "< 500ms"', None, Limit(0.5, is_inclusive=False)),
        ('flow1.share: "50 % ± 5 %"', Limit(0.45), Limit(0.55)),
        ('wan_share: "≤ 1%"', None, Limit(0.01)),
        ("goodput: 10 Mbit/s +- 5 %", Limit(9.5), Limit(10.5)),
        ("goodput: 10 Mbit/s ± 1 Mbit/s", Limit(9), Limit(11)),
        ("queue_delay_p95_ms: 10 ms .. 20 ms", Limit(10), Limit(20)),
        ('retr: "= 0"', Limit(0), Limit(0)),
        ('wan: "<= 10 segments"', None, Limit(10)),
        ('jain: ">= 0.9"', Limit(0.9), None),
        ('goodput: ">= 3 × cubic.goodput"', Limit(3), None),
        ("flow1.goodput: flow2.goodput ± 10 %", Limit(0.9), Limit(1.1)),
    ],
)
def test_a_bound_is_in_the_metric_s_unit_or_a_factor_of_another(
    text: str, low: Limit | None, high: Limit | None
) -> None:
    expectation = one(text)
    for found, expected in ((expectation.low, low), (expectation.high, high)):
        if expected is None:
            assert found is None
        else:
            assert found is not None and found.is_inclusive == expected.is_inclusive
            assert found.value == pytest.approx(expected.value, rel=1e-12)


def test_every_metric_of_the_report_can_be_expected() -> None:
    assert {"verdict", "goodput", "share", "jain", "wan_share", "srtt_p95_ms"} <= {*metric_names()}
    assert "ratio" not in metric_names()  # of cells alone: bbr.goodput: ">= 3 × cubic.goodput"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ('goodput: ">= 8 Mbit/s"', [(n, "", None, "") for n in range(4)]),
        ('{cells: {cc: bbr}, goodput: ">= 8 Mbit/s"}', [(2, "", None, ""), (3, "", None, "")]),
        ('bbr.goodput: ">= 8 Mbit/s"', [(2, "", None, ""), (3, "", None, "")]),
        ('bbr.goodput: ">= 3 × cubic.goodput"', [(2, "", 0, ""), (3, "", 1, "")]),
        ('goodput: ">= 0.9 × 0%.goodput"', [(1, "", 0, ""), (3, "", 2, "")]),
        ('{cells: {loss: 1%}, bbr.flow2.goodput: "> cubic.flow1.goodput"}', [(3, "flow2", 1, "flow1")]),
        ('{cells: {cc: bbr, loss: 1%}, share: "50 % ± 5 %"}', [(3, "flow1", None, ""), (3, "flow2", None, "")]),
        ('{cells: {cc: bbr, loss: 1%}, flow1.goodput: ">= flow2.goodput"}', [(3, "flow1", 3, "flow2")]),
        ('{cells: {cc: bbr, loss: 1%}, srtt_median_ms: "<= 0.5 × srtt_p95_ms"}', [(3, "", 3, "")]),
        ("bbr.verdict: ok or degraded", [(2, "", None, ""), (3, "", None, "")]),
    ],
)  # fmt: skip
def test_it_is_about_cells_and_flows_and_compares_with_the_cell_beside(
    text: str, expected: list[tuple[object, ...]]
) -> None:
    assert places(text) == expected


def test_a_name_that_may_mean_two_things_is_refused() -> None:
    both = [replace(cell, flows=("bbr", "x"), competing=("bbr", "x")) for cell in GRID]
    with pytest.raises(BadInput, match="a flow and a level"):
        places('bbr.goodput: ">= 8 Mbit/s"', both)
    twice = [replace(cell, factors={**cell.factors, "cc.target": "bbr"}) for cell in GRID]
    with pytest.raises(BadInput, match=r"a level of cc and cc\.target"):
        places('{cells: {cc: bbr}, bbr.goodput: ">= 8 Mbit/s"}', twice)


def test_a_relation_to_a_cell_that_is_not_there_is_refused() -> None:
    with pytest.raises(BadInput, match="no cell has cc cubic, loss 0%"):
        places('bbr.goodput: ">= 3 × cubic.goodput"', GRID[1:])


def test_a_median_needs_the_runs_of_an_interval() -> None:
    assert places('median goodput: ">= 8 Mbit/s"')
    with pytest.raises(BadInput, match="needs 6 runs"):
        places('median goodput: ">= 8 Mbit/s"', [replace(cell, repetitions=5) for cell in GRID])


@pytest.mark.parametrize(
    ("text", "key", "value"),
    [
        ("goodput >= 8 Mbit/s", "goodput", ">= 8 Mbit/s"),
        ("share: 50 % ± 5 %", "share", "50 % ± 5 %"),
        ("median bbr.goodput>=3 × cubic.goodput", "median bbr.goodput", ">=3 × cubic.goodput"),
        ("verdict = ok", "verdict", "= ok"),
    ],
)
def test_an_option_has_key_and_value_in_one_text(text: str, key: str, value: str) -> None:
    assert split_text(text) == (key, value)
    assert one(f"{key!r}: {value!r}".replace("'", '"'))
