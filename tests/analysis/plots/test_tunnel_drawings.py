# SPDX-License-Identifier: MIT
"""by-tunnel and wire: what they show of made-up runs, and what they say."""

import itertools
from pathlib import Path

import pytest
import synthetic
from synthetic import drawn

from gostlab.analysis.plotting.style import format_bar_value

RATES = {"direct": 40.0, "openvpn+tcp": 10.0, "wireguard": 38.0}


@pytest.fixture
def results(tmp_path: Path) -> Path:
    """Three tunnels, one run each."""
    for tunnel, rate in RATES.items():
        run = synthetic.description(tunnel=tunnel, duration_s=4.0, factors={"tunnel": tunnel})
        folder = synthetic.write_run(tmp_path, run, name=tunnel, goodput_mbit=rate)
        seconds = [float(t) for t in range(5)]
        queue = {"role": "bottleneck", "direction": "forward"}
        synthetic.put_lines(
            folder, "queues", [{**queue, "t_s": t, "sent_bytes": int(1.1e6 * t)} for t in seconds]
        )
        leg = {"leg": "wan" if tunnel == "direct" else "inner", "end": "near"}
        synthetic.put_lines(
            folder, "sockets", [{**leg, "t_s": t, "bytes_acked": int(1e6 * t)} for t in seconds]
        )
    return tmp_path


def test_every_tunnel_has_its_line_and_none_is_dashed(results: Path) -> None:
    made = drawn(results, "by-tunnel")

    [picture] = made.pictures
    [ax] = [ax for ax in picture.figure.axes if ax.get_visible()]
    assert [label.get_text() for label in ax.get_yticklabels()] == list(RATES)
    assert any(line.get_linestyle() == "--" and line.get_xdata()[0] == 40.0 for line in ax.lines)


def test_the_wire_has_what_the_formats_say_beside_what_was_measured(results: Path) -> None:
    made = drawn(results, "wire")

    [table] = made.tables
    rows = {row["tunnel"]: row for row in table.rows}
    assert [row["measured"] for row in rows.values()] == pytest.approx([1.1] * 3)
    assert rows["direct"]["computed"] == pytest.approx(1514 / 1448)
    assert made.pictures


def test_numbers_in_fields_have_as_many_digits_each() -> None:
    shown = [format_bar_value(value) for value in (144.2, 18.3, 8.0, 3.04, 0.5, 0.0)]
    assert shown == ["144", "18.3", "8.0", "3.0", "0.50", "0"]


def test_every_tunnel_is_on_every_path(tmp_path: Path) -> None:
    for tunnel, rate in RATES.items():
        for loss, left in (("0%", 1.0), ("5%", 0.5)):
            levels = {"tunnel": tunnel, "loss": loss, "cc": "cubic"}
            synthetic.write_at(tmp_path, levels, goodput_mbit=rate * left)
    made = drawn(tmp_path, "by-path")

    [picture] = made.pictures
    [ax, *_] = picture.figure.axes
    assert [label.get_text() for label in ax.get_yticklabels()] == list(RATES)
    losses = [label.get_text() for label in ax.get_xticklabels()]
    assert losses == ["0\u00a0% loss", "5\u00a0% loss"]
    assert {"40.0", "5.0"} <= {text.get_text() for text in ax.texts}


@pytest.mark.slow
def test_many_paths_have_a_map_for_each_round_trip_the_middle_one_first(tmp_path: Path) -> None:
    for rtt, loss in itertools.product(("20ms", "100ms", "300ms"), ("0%", "1%", "5%")):
        levels = {"tunnel": "gost+ws", "loss": loss, "rtt": rtt, "cc": "cubic"}
        synthetic.write_at(tmp_path, levels)
    made = drawn(tmp_path, "by-path")

    axes = [each.figure.axes[0] for each in made.pictures]
    titles = [ax.get_title(loc="left") for ax in axes]
    assert titles == [f"CUBIC, {rtt} ms RTT" for rtt in (100, 20, 300)]
    assert len(axes[0].get_xticklabels()) == 3


def test_marks_are_drawn_by_control_on_a_figure_for_each_level_of_what_else_varies(
    tmp_path: Path,
) -> None:
    """And each cell says which it is, in words and in the table."""
    marked = {("cubic", "10mbit"): 11, ("bbr", "10mbit"): 213}
    marked |= {("cubic", "20mbit"): 9, ("bbr", "20mbit"): 8}
    for (cc, rate), marks in marked.items():
        levels = {"cc": cc, "rate": rate, "tunnel": "gost+ws"}
        folder = synthetic.write_at(tmp_path, levels, asked={"duration_s": 4.0})
        queue = {"role": "bottleneck", "direction": "forward", "sent_bytes": 9, "t_s": 4.0}
        synthetic.put_lines(folder, "queues", [queue | {"marks": marks}])

    made = drawn(tmp_path, "marked")

    shown = [
        sorted(float(line.get_xdata()[0]) for line in picture.figure.axes[0].lines[-2:])
        for picture in made.pictures
    ]
    assert sorted(shown) == [[8, 9], [11, 213]]
    for picture in made.pictures:  # keys are points, as drawn
        assert [line.get_marker() for line in picture.figure.legends[0].get_lines()] == ["o"] * 2
    [table] = made.tables
    assert len({row["cell"] for row in table.rows}) == len(table.rows) == len(marked)
