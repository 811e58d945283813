# SPDX-License-Identifier: MIT
"""Plot lab / study goodput by stream count on a log axis; 1 is agreement."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Literal

from gostlab.analysis.plotting import facet
from gostlab.analysis.plotting.marks import CellPosition, note_above
from gostlab.analysis.plotting.plot_registry import Drawing, FigureInput
from gostlab.analysis.plotting.style import GRID, INK, set_ratio_axis
from gostlab.analysis.stats.statistics import is_known

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes

# Maximum lines whose numbers do not overlap.
MAX_NUMBERED = 6


def mark_ratio(place: CellPosition, line: facet.FacetSeries) -> None:
    """Mark a cell's ratio (of each cluster) as a point with its number above."""
    facet.mark_point(place, line)
    ax, at, row = place.ax, place.at, place.row
    for state in row["ratio_states"]:
        note_above(ax, at, state.value, f"{state.value:.2f}")
    if not row["ratio_states"]:
        note_above(ax, at, max([row["ratio"], *row["ratio_values"]]), f"{row['ratio']:.2f}")


def scale_ratio_axis(ax: Axes, way: Literal["x", "y"], table: pd.DataFrame) -> None:
    ends = ("ratio", "ratio_low", "ratio_high")
    values = [value for end in ends for value in table[end] if is_known(value) and value > 0]
    set_ratio_axis(ax, min([0.7, *values]) / 1.15, max([1.4, *values]) * 1.25)


def panels(sheet: FigureInput) -> list[facet.FacetPanel]:
    import numpy as np

    groups = facet.group_by_streams(sheet.rows, sheet.rows)

    def behind(ax: Axes) -> None:
        ax.axhline(1.0, color=INK, linewidth=1.2, label="agreement")
        for edge in np.arange(0.5, len(groups) - 1):
            ax.axvline(edge, color=GRID, linewidth=0.8)

    few = len(facet.series_by_tunnel_and_cc(sheet.rows, sheet.rows)) <= MAX_NUMBERED
    label = f"Goodput, lab / {sheet.study_label} (ratio)"
    return [
        facet.panel_of_groups(
            "",
            groups,
            facet.MetricAxis(
                scale_ratio_axis, "ratio", mark_ratio if few else facet.mark_point, label
            ),
            behind=behind,
        )
    ]


DRAWING = Drawing(
    "ratio",
    caption="The lab's median goodput over the study's; on the line they agree.",
    draw=facet.BY_PAIR(
        panels=panels,
        keys=partial(facet.tunnel_and_cc_handles, linestyle="none"),
        width=0.7,
        places=facet.STREAMS,
        panel_in=3.9,
        medians=False,
        caption="The lab's median goodput over the {called}'s; on the line they agree.",
    ),
    shows=("streams", "tunnel", "cc"),
    rows=lambda table: table[table["ratio"].notna()],
    needs="a published goodput",
    borrows=True,
)
