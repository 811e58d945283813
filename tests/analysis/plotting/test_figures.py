# SPDX-License-Identifier: MIT
"""Figures, looked into as objects: units, colours, the study's values, what is left out."""

import itertools
import os
import re
import subprocess
import sys
from pathlib import Path

import matplotlib.colors
import numpy as np
import pandas as pd
import pytest
import synthetic
from matplotlib.figure import Figure
from synthetic import check_texts, figure_of, labelled, matrices_of, titles_of

from gostlab.analysis.plots import series
from gostlab.analysis.plotting.factors import cell_at_levels, tunnel_title
from gostlab.analysis.plotting.image_map import cell_regions, tag_artist
from gostlab.analysis.plotting.style import (
    CC_COLOURS,
    cc_colour,
    new_figure,
    save_figure,
    tunnel_marker,
)
from gostlab.analysis.stats.cells import MatrixResults, cpu_cells, to_table
from gostlab.registry.congestion_controls import IN_LINUX
from gostlab.registry.folders import PYTHON_PATH

# Dozens of figures: `make test` has them, `make fast` does not.
pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def matrices(everything: Path) -> dict[str, MatrixResults]:
    return {matrix.name: matrix for matrix in matrices_of(everything)}


@pytest.fixture(scope="module")
def tables(matrices: dict[str, MatrixResults]) -> dict[str, pd.DataFrame]:
    cells = {name: matrix.cells for name, matrix in matrices.items()}
    cells["cpu"] = cpu_cells(matrices["cpu"], list(matrices.values()))
    return {name: to_table(each, synthetic.STUDY, {}) for name, each in cells.items()}


@pytest.fixture(scope="module")
def drawn(matrices: dict[str, MatrixResults], tables: dict[str, pd.DataFrame]) -> dict[str, Figure]:
    run = next(cell.counted[0] for cell in matrices["main"].cells if cell.example.cc == "bbr")
    return {
        **{word: figure_of(word, tables["main"]) for word in BY_STREAMS},
        "cpu": figure_of("cpu", tables["cpu"]),
        "buffer": figure_of("buffer", tables["buffer"]),
        "series": series.plot_series(run),
    }


BY_STREAMS = ["goodput", "ratio", "retransmissions", "cells"]
FIGURES = [*BY_STREAMS, "cpu", "buffer", "series"]


def artists(figure: Figure, label: str) -> list:
    """The lines and the bars that are called so."""
    named = [each for ax in figure.axes for each in ax.containers if each.get_label() == label]
    return labelled(figure, label, None) + [bar for bars in named for bar in bars]


def colour_of(artist: object) -> str:
    get = getattr(artist, "get_color", None) or artist.get_edgecolor  # type: ignore[attr-defined]
    return matplotlib.colors.to_hex(get()).upper()


@pytest.mark.parametrize("name", FIGURES)
def test_every_axis_that_is_named_has_a_unit(drawn: dict[str, Figure], name: str) -> None:
    labels = [
        label for ax in drawn[name].axes for label in (ax.get_xlabel(), ax.get_ylabel()) if label
    ]
    assert len(labels) >= 2 or name == "cells"
    assert all(
        re.search(
            r"\((Mbit/s|ratio|number|segments|packets|ms|s|µs|%|% of a second|BDP; .*)(, log scale)?\)$",
            label,
        )
        for label in labels
    ), labels


@pytest.mark.parametrize("name", [name for name in FIGURES if name != "series"])
def test_a_congestion_control_has_one_colour_everywhere(
    drawn: dict[str, Figure], name: str
) -> None:
    leg = "wan" if name == "retransmissions" else "lab"
    for cc in ("cubic", "bbr"):
        found = {colour_of(artist) for artist in artists(drawn[name], f"{leg} {cc}")}
        assert found == {CC_COLOURS[cc].upper()}


@pytest.mark.parametrize("blind", ["", "protanomaly", "deuteranomaly", "tritanomaly"])
def test_no_two_congestion_controls_look_alike_to_any_eye(blind: str) -> None:
    """As eyes without any cone of a kind see them (Machado, Oliveira and Fernandes 2009)."""
    convert = pytest.importorskip("colorspacious", reason="no colorspacious").cspace_convert
    eye = {"name": "sRGB1+CVD", "cvd_type": blind, "severity": 100} if blind else "sRGB1"
    assert {*IN_LINUX, "bbr2", "bbr3", "bbrplus"} <= CC_COLOURS.keys()
    seen = {}
    for cc, colour in CC_COLOURS.items():
        rgb = np.clip(convert(matplotlib.colors.to_rgb(colour), eye, "sRGB1"), 0, 1)
        seen[cc] = convert(rgb, "sRGB1", "CIELab")
    for (one, a), (other, b) in itertools.combinations(seen.items(), 2):
        # 2.3 is a just noticeable difference
        assert np.linalg.norm(a - b) >= 15, (one, other)


def test_an_unknown_congestion_control_keeps_its_colour() -> None:
    assert cc_colour("somebody's") == cc_colour("somebody's")


@pytest.mark.parametrize("name", ["goodput", "retransmissions", "cells"])
def test_the_thesis_has_a_marker_for_each_of_its_values(
    drawn: dict[str, Figure], name: str
) -> None:
    markers = artists(drawn[name], "study")
    assert len(markers) == 16
    values = sorted(
        float(marker.get_xydata()[0][0 if name == "cells" else 1]) for marker in markers
    )
    figure = "retr" if name == "retransmissions" else "goodput_mbit"
    published = [vars(number)[figure] for number in synthetic.PUBLISHED]
    assert values == sorted(published)


def test_the_buffer_figure_has_the_thesis_s_two_levels(drawn: dict[str, Figure]) -> None:
    levels = {
        cc: [line.get_ydata()[0] for line in artists(drawn["buffer"], f"study {cc}")]
        for cc in ("cubic", "bbr")
    }
    assert levels == {"cubic": [1430.0], "bbr": [1830.0]}
    assert drawn["buffer"].axes[1].get_xscale() == "log"


def test_the_ratio_has_a_log_axis_and_a_line_at_one(drawn: dict[str, Figure]) -> None:
    assert drawn["ratio"].axes[0].get_yscale() == "log"
    assert [line.get_ydata()[0] for line in artists(drawn["ratio"], "agreement")] == [1.0]


def test_zeros_have_a_place_among_the_retransmissions(drawn: dict[str, Figure]) -> None:
    ax = drawn["retransmissions"].axes[0]
    assert ax.get_yscale() == "symlog"
    assert ax.get_ylim()[0] < 0
    assert any(line.get_ydata()[0] == 0 for line in artists(drawn["retransmissions"], "wan cubic"))


def test_invalid_runs_are_in_no_figure_and_no_median(
    tables: dict[str, pd.DataFrame], drawn: dict[str, Figure]
) -> None:
    row = cell_at_levels(tables["main"], tunnel="gost+ws", cc="cubic", streams=4)
    assert row is not None and row["n"] == 5 and row["left_out"] == 1
    assert max(row["goodput_values"]) < 9999.0
    assert all(bar.get_height() < 9999.0 for bar in artists(drawn["goodput"], "lab cubic"))


def test_degraded_cells_are_marked(drawn: dict[str, Figure]) -> None:
    bars = artists(drawn["goodput"], "lab cubic")
    assert [bool(bar.get_hatch()) for bar in bars] == [False, False, False, True] * 3
    points = artists(drawn["cpu"], "lab cubic")
    assert {point.get_markerfacecolor() for point in points} == {"white", CC_COLOURS["cubic"]}


def test_intervals_only_with_six_runs(drawn: dict[str, Figure]) -> None:
    # of 24 cells, one has an invalid and one a failed run among six
    assert len(artists(drawn["goodput"], "interval")) == 22


def test_the_real_clock_stands_in_the_cpu_figure(drawn: dict[str, Figure]) -> None:
    ticks = [tick.get_text() for tick in drawn["cpu"].axes[2].get_xticklabels()]
    assert ticks == ["0", "2", "5", "20", "real\nclock"]
    assert titles_of(drawn["cpu"])[:2] == ["16 streams", "128 streams"]


def test_no_value_is_cut_off(drawn: dict[str, Figure]) -> None:
    for name in ("goodput", "cpu", "buffer"):
        for ax in drawn[name].axes:
            for line in ax.lines:
                if str(line.get_label()).startswith("lab "):
                    assert ax.get_ylim()[0] <= line.get_ydata()[0] <= ax.get_ylim()[1]


def test_the_series_share_their_time_axis(drawn: dict[str, Figure]) -> None:
    first, *rest = drawn["series"].axes
    assert len(rest) == 3
    assert all(first.get_shared_x_axes().joined(first, ax) for ax in rest)


@pytest.mark.parametrize("name", FIGURES)
def test_no_text_is_small_or_outside(drawn: dict[str, Figure], name: str) -> None:
    check_texts(drawn[name])


@pytest.mark.parametrize("name", FIGURES)
def test_a_figure_saved_twice_is_the_same(drawn: dict[str, Figure], name: str) -> None:
    assert save_figure(drawn[name], "svg") == save_figure(drawn[name], "svg")
    assert save_figure(drawn[name], "png").startswith(b"\x89PNG")


def test_a_tunnel_is_drawn_as_it_declares_itself_by_any_of_its_names() -> None:
    assert tunnel_title("direct") == "direct: no tunnel"
    assert tunnel_title("relay+wss") == "relay+wss: relay over WebSocket with TLS"
    assert tunnel_title("of-an-older-lab") == "of-an-older-lab"
    assert tunnel_marker("relay+wss") == tunnel_marker("gost+wss") != tunnel_marker("gost+ws")


def test_points_at_one_place_stand_in_the_order_in_which_they_were_drawn() -> None:
    figure, [[ax]] = new_figure(2.0)
    for cell in "dbca":
        tag_artist(ax.plot([1], [1], "o")[0], cell)
    assert [spot.keys for spot in cell_regions(figure)] == [(cell,) for cell in "dbca"]


def test_another_matplotlib_of_the_machine_is_no_warning(tmp_path: Path) -> None:
    """Debian's python3-matplotlib hides the three-dimensional axes of the lab's own."""
    hiding = tmp_path / "mpl_toolkits/__init__.py"
    hiding.parent.mkdir()
    hiding.touch()
    environ = {**os.environ, "PYTHONPATH": os.pathsep.join((str(tmp_path), PYTHON_PATH))}
    code = "from gostlab.analysis.plotting import style; import matplotlib.projections"

    done = subprocess.run(
        [sys.executable, "-c", code], env=environ, capture_output=True, text=True, check=True
    )

    assert done.stderr == ""
