# SPDX-License-Identifier: MIT
"""What flows measure for themselves, as `./lab try` prints it."""

from gostlab.cli.app_metrics import FlowMeasure, flow_lines


def measure(name: str, *values: float, cell: str = "cubic", flow: str = "a") -> FlowMeasure:
    ordered = sorted(values)
    middle = ordered[len(ordered) // 2]
    return FlowMeasure(cell, flow, name, middle, ordered[0], ordered[-1], len(ordered))


def test_one_cell_is_not_named() -> None:
    assert flow_lines([measure("completion_s", 8.4718)]) == ["a: complete after 8.47 s"]


def test_several_runs_have_their_range_and_equal_ones_none() -> None:
    lines = flow_lines(
        [measure("completion_s", 8.4, 8.5, 8.6), measure("stalls", 2, 2), measure("startup_s", 0.3)]
    )
    assert lines == ["a: complete after 8.5 s (8.4 – 8.6, n = 3), 2 stalls, starts after 0.3 s"]


def test_both_directions_of_each_cell_have_a_line() -> None:
    cells = [
        measure(f"{name}_mbit", rate, cell=cc, flow="")
        for cc in ("cubic", "bbr")
        for name, rate in (("up", 8.14), ("down", 123.4))
    ]
    assert flow_lines(cells) == [
        "cubic: 8.14 Mbit/s up, 123 Mbit/s down",
        "bbr: 8.14 Mbit/s up, 123 Mbit/s down",
    ]
