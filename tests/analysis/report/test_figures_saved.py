# SPDX-License-Identifier: MIT
"""Figures are drawn by the processes that save them, while this one goes on."""

import os

import pytest
from matplotlib.figure import Figure

from gostlab.analysis.plotting.plot_registry import ReportFigure
from gostlab.analysis.plotting.style import in_report_style, new_figure
from gostlab.analysis.report import report
from gostlab.analysis.report.report import figures_saved


@in_report_style
def plot_with_process() -> Figure:
    figure, _ = new_figure(1)
    figure.set_gid(f"drawn-by-{os.getpid()}")
    return figure


def test_a_figure_is_drawn_in_another_process() -> None:
    with figures_saved(
        [ReportFigure(plot_with_process), ReportFigure(plot_with_process())]
    ) as saved:
        drawn, given = (files.svg for files in saved)
    here = f'id="drawn-by-{os.getpid()}"'.encode()
    assert here in given
    assert here not in drawn and b'id="drawn-by-' in drawn


def test_a_figure_is_drawn_once() -> None:
    picture = ReportFigure(plot_with_process)
    assert picture.figure is picture.figure


def test_a_figure_for_a_phone_has_no_other_files_unless_it_is_large(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with figures_saved(
        [ReportFigure(plot_with_process)], [ReportFigure(plot_with_process)]
    ) as saved:
        wide, narrow = saved
    assert wide.svg and wide.png.startswith(b"\x89PNG") and wide.pdf.startswith(b"%PDF")
    assert narrow.svg and not narrow.png and not narrow.pdf
    monkeypatch.setattr(report, "MAX_FIGURE_BYTES", 1)
    with figures_saved([], [ReportFigure(plot_with_process)]) as saved:
        (large,) = saved
    assert large.png and not large.pdf


def fail_to_plot() -> Figure:
    raise ZeroDivisionError("of this plot")


def test_what_a_plot_raises_there_is_raised_here() -> None:
    with (
        pytest.raises(ZeroDivisionError, match="of this plot"),
        figures_saved([ReportFigure(fail_to_plot)] * 3) as saved,
    ):
        list(saved)
