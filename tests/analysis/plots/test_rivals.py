# SPDX-License-Identifier: MIT
"""What two flows do to each other: rivals."""

from pathlib import Path
from typing import Any

import synthetic
from synthetic import drawn

from gostlab.analysis.plotting.plot_registry import PlotResult
from gostlab.analysis.plotting.style import save_figure

SHARES = {("bbr", "cubic"): 80.0, ("cubic", "bbr"): 30.0, ("bbr", "bbr"): 50.0}


def write_pairs(results: Path, repetitions: int = 1, **more: Any) -> None:
    """bbr first beside cubic has 80 of 100 Mbit/s; cubic first beside bbr 30; bbr beside bbr 50."""
    for (first, second), mbit in SHARES.items():
        for repetition in range(1, repetitions + 1):
            run = synthetic.several(
                {"cc": first},
                {"cc": second},
                factors={"flow1.cc": first, "flow2.cc": second, **more},
                repetition=repetition,
                seed=repetition,
                duration_s=20.0,
            )
            folder = synthetic.write_run(
                results,
                run,
                name="-".join([first, second, *map(str, more.values()), str(repetition)]),
            )
            rates = {"flow1": mbit, "flow2": 100 - mbit}
            synthetic.write_over_time(folder, run, rates)


def numbers(made: PlotResult) -> list[str]:
    return [text.get_text() for text in made.pictures[0].figure.axes[0].texts]


def test_each_field_has_the_share_beside_the_other_and_both_orders_count(tmp_path: Path) -> None:
    write_pairs(tmp_path)
    made = drawn(tmp_path, "rivals")

    ax = made.pictures[0].figure.axes[0]
    assert [tick.get_text() for tick in ax.get_yticklabels()] == ["CUBIC", "BBR"]
    # cubic beside cubic did not run; beside bbr it got 20 and 30, so bbr 80 and 70
    assert numbers(made) == ["–", "75", "n = 2", "25", "n = 2", "50", "n = 1"]


def test_the_scale_s_name_stands_beside_its_numbers(tmp_path: Path) -> None:
    write_pairs(tmp_path)
    figure = drawn(tmp_path, "rivals").pictures[0].figure
    save_figure(figure, "png")  # what is drawn is what counts
    scale = figure.axes[-1].yaxis
    renderer = figure.canvas.get_renderer()
    name = scale.label.get_window_extent(renderer)
    numbers_end = max(tick.label2.get_window_extent(renderer).x1 for tick in scale.majorTicks)
    assert name.x0 >= numbers_end and name.x1 <= figure.bbox.x1


def test_another_factor_makes_a_facet_of_its_own(tmp_path: Path) -> None:
    write_pairs(tmp_path, buffer="1bdp")
    write_pairs(tmp_path, buffer="4bdp")
    figure = drawn(tmp_path, "rivals").pictures[0].figure
    assert len([ax for ax in figure.axes if ax.get_xlabel() == "beside this one"]) == 2
