# SPDX-License-Identifier: MIT
"""Plot goodput by condition."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING

from gostlab.analysis.plotting import facet
from gostlab.analysis.plotting.factors import (
    condition_axis_label,
    iterate_conditions,
    strip_common_prefix,
    varying_factors,
)
from gostlab.analysis.plotting.plot_registry import Drawing, FigureInput, rows_including_absent
from gostlab.analysis.plotting.style import fits_wrapped, width_share, wrap_label
from gostlab.analysis.stats.table_formats import cc_name

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes

# Maximum conditions in a row, so that names do not overlap; longer rows are split.
CONDITIONS_IN_A_ROW = 6
LONE_BARS_IN_A_ROW = 8  # maximum conditions with one bar each
ROW, BARS_IN_A_ROW = 70, 9  # characters below a row, bars with space for a number above
WIDTH = 0.84


def groups_of(table: pd.DataFrame) -> list[facet.Group]:
    """Return the conditions and their cells."""
    named = list(iterate_conditions(table, varying_factors(table)))
    text = strip_common_prefix([item for item, _ in named])
    return [(name, rows) for name, (_, rows) in zip(text, named, strict=True)]


def has_one_cc_per_condition(table: pd.DataFrame) -> bool:
    """Return whether the condition determines the congestion control.

    Then each condition has one centred bar; otherwise each congestion control has its position.
    """
    return all(rows["cc"].nunique() == 1 for _, rows in groups_of(table))


def series(table: pd.DataFrame, rows: pd.DataFrame) -> list[facet.FacetSeries]:
    """Return one series per congestion control, or a single one."""
    return (
        facet.single_series(table, rows)
        if has_one_cc_per_condition(table)
        else facet.series_by_cc(table, rows)
    )


def panels(sheet: FigureInput) -> list[facet.FacetPanel]:
    """Return as many rows as the conditions' names need."""
    table, groups = sheet.rows, groups_of(sheet.rows)
    most = LONE_BARS_IN_A_ROW if has_one_cc_per_condition(table) else CONDITIONS_IN_A_ROW
    abreast = conditions_per_row([text for text, _ in groups], most)
    room = min(abreast, len(groups))
    letters, bars = characters_per_condition(room), room * len(series(table, table))
    how = "across" if bars <= BARS_IN_A_ROW * width_share() else "upright"
    value = facet.MetricAxis(
        facet.from_zero(1.22, least=0.0), mark=partial(facet.mark_bar, how=how)
    )
    lines = [groups[start : start + abreast] for start in range(0, len(groups), abreast)]
    return [
        facet.panel_of_groups("", [(wrap_label(text, letters), rows) for text, rows in line], value)
        for line in lines
    ]


def conditions_per_row(names: Sequence[str], most: int = CONDITIONS_IN_A_ROW) -> int:
    """Return the conditions per row: two, or up to `most` if their names fit."""
    for count in range(most, 2, -1):
        if all(
            fits_wrapped(name, characters_per_condition(min(count, len(names)))) for name in names
        ):
            rows = -(-len(names) // count)
            return -(-len(names) // rows)  # rows of equal length
    return 2


def characters_per_condition(count: int) -> int:
    """Return the characters that fit below each of so many conditions."""
    return round(ROW * width_share()) // count


def label_conditions(
    ax: Axes, panels: Sequence[facet.FacetPanel], lines: Sequence[facet.FacetSeries]
) -> None:
    """Name the positions, with rows of equal length.

    A single bar has its name below and leaves space for the study's value; if only the congestion
    control varies, each bar has a name.
    """
    ax.set_xlim(-0.55, len(panels[0].names) - 0.45)
    width = WIDTH / len(lines)
    if not any(panels[0].names):
        middles = [(at - (len(lines) - 1) / 2) * width - width * 0.12 for at in range(len(lines))]
        ccs = [line.levels["cc"] if line.levels else "" for line in lines]
        ax.set_xticks(middles, [cc_name(cc) for cc in ccs])
    elif len(lines) == 1 and not lines[0].levels:
        ax.set_xticks(ax.get_xticks() - 0.12 * width, ax.get_xticklabels())


DRAWING = Drawing(
    "bars",
    caption="Goodput by condition.",
    draw=facet.Facet(
        panels=panels,
        degraded={"bar": True},
        series=series,
        width=WIDTH,
        axis=label_conditions,
        places=condition_axis_label,
        around_in=1.5,
        panel_in=2.6,
        shape=facet.stacked,
        shared={"sharey": True},
    ),
    rows=rows_including_absent,
)
