# SPDX-License-Identifier: MIT
"""The drawings of delays and the heatmap, looked into as objects."""

import itertools
from pathlib import Path
from typing import Any

import pytest
import synthetic
from matplotlib.colors import LogNorm, to_hex
from matplotlib.figure import Figure
from synthetic import drawn, labelled, matrices_of

from gostlab.analysis.load.study import Study
from gostlab.analysis.plots import heatmap
from gostlab.analysis.plotting import panel_layout
from gostlab.analysis.plotting.plot_registry import (
    FigureInput,
    MatrixInput,
    ReportFigure,
    find_drawing,
)
from gostlab.analysis.plotting.style import cc_colour
from gostlab.errors import BadInput

# Dozens of figures: `make test` has them, `make fast` does not.
pytestmark = pytest.mark.slow

PAYLOAD_MS = 75_000 * 8 / 1967e6 * 1000  # a step of the made-up queue, at the made-up rate


def write(results: Path, cc: str, repetition: int = 1, srtt_ms: float = 0.0, **more: Any) -> None:
    """A run of 4 s that is sampled at 1, 2 and 3 s: at 168, 170 and 172 ms and so much more."""
    levels = {"cc": cc, **more.pop("factors", {})}
    asked = {"duration_s": 4.0}
    asked |= {key: more.pop(key) for key in ("buffer_pkts",) if key in more}
    folder = synthetic.write_at(results, levels, repetition, asked, **more)
    if srtt_ms:
        rows = [
            {"t_s": t, "leg": "wan", "end": "near", "flow": "flow1", "srtt_ms": srtt_ms}
            for t in (1.0, 2.0, 3.0)
        ]
        synthetic.put_lines(folder, "sockets", rows)
    synthetic.put_lines(folder, "pings", [{"t_s": 1.0, "flow": "flow2", "rtt_ms": 50.0}])


def words_on(figure: Figure) -> list[str]:
    return [text.get_text() for ax in figure.axes for text in ax.texts]


# -- latency


def test_the_medians_are_points_and_the_idle_round_trip_is_a_line(tmp_path: Path) -> None:
    write(tmp_path, "cubic", srtt_ms=250.0)
    write(tmp_path, "bbr")
    made = drawn(tmp_path, "latency")
    (picture,) = made.pictures
    assert picture.name == "made-up-latency"
    (cubic,) = labelled(picture.figure, "lab cubic")
    (bbr,) = labelled(picture.figure, "lab bbr")
    assert list(cubic.get_xdata()) == [250.0] and list(bbr.get_xdata()) == [170.0]
    assert to_hex(bbr.get_color()) == cc_colour("bbr").lower()
    (idle,) = labelled(picture.figure, "idle")
    assert set(idle.get_xdata()) == {168.0}
    ends = sorted(line.get_xdata()[-1] for line in labelled(picture.figure, "95 %"))
    assert ends == [172.0, 250.0]
    queue = labelled(picture.figure, "95 %", panel=1)
    assert queue[0].get_xdata()[0] == pytest.approx(2 * PAYLOAD_MS)


# -- ping


def test_more_conditions_than_fit_make_another_figure(tmp_path: Path) -> None:
    count = panel_layout.PANELS_ON_A_FIGURE + 2
    for index in range(count):
        write(tmp_path, "cubic", factors={"buffer": f"{index + 1}bdp"}, buffer_pkts=100 + index)
    first, second = (each for each in drawn_pings(tmp_path) if "time" in each.name)
    shown = [ax for picture in (first, second) for ax in picture.figure.axes if ax.get_visible()]
    assert len(shown) == count and all(labelled(ax.figure, "lab cubic") for ax in shown)
    assert first.name != second.name and f"1 to 9 of {count}" in first.caption


def drawn_pings(results: Path) -> list[ReportFigure]:
    """What `ping` draws of runs, whatever else a table asks of a ping flow."""
    (matrix,) = matrices_of(results)
    sweep = MatrixInput(matrix, (matrix,), Study("made-up", "Made up"), "fixture")
    return list(
        find_drawing("ping").draw(FigureInput(sweep, sweep.table(matrix.cells, borrows=False)))
    )


# -- heatmap


def write_grid(results: Path, ccs: tuple[str, ...] = ("cubic", "bbr")) -> None:
    """cc × 2 buffers × 3 round trips; of cubic one cell is missing and one degraded."""
    rates = itertools.count(100, 100)
    for cc, buffer, rtt in itertools.product(ccs, ("1bdp", "2bdp"), (10, 20, 50)):
        at, rate = (cc, buffer, rtt), float(next(rates))
        if at != ("cubic", "2bdp", 50):
            write(
                results,
                cc,
                factors={"buffer": buffer, "rtt": f"{rtt}ms"},
                goodput_mbit=rate,
                idle=0.01 if at == ("cubic", "1bdp", 10) else 0.5,
            )


def test_every_cell_is_a_field_with_its_number(tmp_path: Path) -> None:
    write_grid(tmp_path)
    pictures = {picture.name: picture for picture in drawn(tmp_path, "heatmap").pictures}
    picture = pictures["made-up-heatmap-goodput-mbit"]
    numbers = words_on(picture.figure)
    wanted = {f"{rate:,}" for rate in range(100, 1300, 100)} - {"600"}
    assert wanted < set(numbers) and numbers.count("–") == 1  # the missing one keeps its field
    titles = [ax.get_title(loc="left") for ax in picture.figure.axes]
    assert titles[:2] == ["CUBIC", "BBR"]  # what is neither across nor down is a facet
    hatched = [patch for ax in picture.figure.axes for patch in ax.patches if patch.get_hatch()]
    assert (
        len(hatched) == 1 and "buffer" in picture.caption and "round-trip time" in picture.caption
    )


def test_the_facets_share_one_scale_and_far_values_a_log_one(tmp_path: Path) -> None:
    write_grid(tmp_path)
    matrices = matrices_of(tmp_path)
    sweep = MatrixInput(matrices[0], matrices, Study("made-up", "Made up"))
    table = sweep.table(matrices[0].cells, borrows=False)
    scale = heatmap.norm_of(table, "goodput")
    assert (scale.vmin, scale.vmax) == (100.0, 1200.0) and not isinstance(scale, LogNorm)
    far = table.assign(goodput=[1.0, *range(100, 1100, 100)])
    assert isinstance(heatmap.norm_of(far, "goodput"), LogNorm)
    assert heatmap.axes_of(table) == ("factor:rtt", "factor:buffer")
    assert heatmap.axes_of(table[table["factor:buffer"] == "1bdp"]) == ("factor:rtt", "factor:cc")


def test_where_flows_compete_the_first_ones_share_is_mapped_in_percent(tmp_path: Path) -> None:
    for queue, buffer in itertools.product(("fifo", "codel"), ("1bdp", "2bdp")):
        run = synthetic.several({"cc": "prague"}, {"cc": "cubic"}, duration_s=4.0)
        run["factors"] = {"queue": queue, "buffer": buffer}
        folder = synthetic.write_run(tmp_path, run, name=f"{queue}-{buffer}", goodput_mbit=80.0)
        first = 20.0 if queue == "fifo" else 60.0
        synthetic.write_over_time(folder, run, {"flow1": first, "flow2": 80.0 - first})

    [picture, *_] = drawn(tmp_path, "heatmap(buffer, queue)").pictures

    assert picture.name.endswith("heatmap-buffer-queue-share")
    assert sorted(words_on(picture.figure)[:4]) == ["25.0", "25.0", "75.0", "75.0"]
    assert "flow1: Share of the sum" in picture.caption
    assert picture.figure.axes[-1].get_ylabel().startswith("flow1: Share")


def test_a_file_names_the_map_s_two_factors_across_and_down(tmp_path: Path) -> None:
    write_grid(tmp_path)
    made = drawn(tmp_path, "heatmap(cc, rtt)")
    by_name = {picture.name: picture for picture in made.pictures}
    picture = by_name["made-up-heatmap-cc-rtt-goodput-mbit"]
    facets = [ax for ax in picture.figure.axes if ax.get_title(loc="left")]
    assert [ax.get_title(loc="left") for ax in facets] == ["buffer 1\u00a0BDP", "buffer 2\u00a0BDP"]
    assert [tick.get_text() for tick in facets[0].get_xticklabels()] == ["CUBIC", "BBR"]
    assert len(facets[0].get_yticklabels()) == 3


def test_a_map_over_factors_that_the_results_do_not_have_says_so(tmp_path: Path) -> None:
    write_grid(tmp_path)
    made = drawn(tmp_path, "heatmap(cc, loss)")
    assert not made.pictures and "it needs the factors cc and loss" in made.note


def test_a_drawing_without_a_choice_of_factors_takes_none() -> None:
    with pytest.raises(BadInput, match="drawing bars: takes no factors"):
        find_drawing("bars(cc, loss)")


@pytest.mark.rendered
def test_headings_of_many_factors_are_whole_and_end_before_the_next_panel(tmp_path: Path) -> None:
    levels = itertools.product(("5ms", "25ms"), ("0%", "0.1%", "1%"))
    for delay, loss in levels:
        factors = {"delay": delay, "direction": "download", "forward.loss": loss, "queue": "fifo"}
        write(tmp_path, "cubic", factors={**factors, "jitter": f"1{delay}"}, srtt_ms=1.0)
    picture, _ = drawn_pings(tmp_path)
    picture.figure.draw_without_rendering()
    titles = [ax._left_title for ax in picture.figure.axes if ax.get_title(loc="left")]
    said = [title.get_text().replace("\n", " ") for title in titles]
    assert len(set(said)) == 6 and all("forward.loss" in each for each in said)
    boxes = [title.get_window_extent() for title in titles[:3]]
    assert boxes[0].x1 < boxes[1].x0 and boxes[1].x1 < boxes[2].x0
