# SPDX-License-Identifier: MIT
"""Plot goodput by condition."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING

from gostlab.analysis.plotting import facet
from gostlab.analysis.plotting.factors import (
    by_condition,
    only_condition,
    told_apart,
    varying_factors,
)
from gostlab.analysis.plotting.plot import Drawing, Sheet, with_absent
from gostlab.analysis.plotting.style import fits, width_share, wrapped
from gostlab.analysis.stats.text_table import cc_name

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
    named = list(by_condition(table, varying_factors(table)))
    text = told_apart([item for item, _ in named])
    return [(name, rows) for name, (_, rows) in zip(text, named, strict=True)]


def alone(table: pd.DataFrame) -> bool:
    """Return whether the condition determines the congestion control.

    Then each condition has one centred bar; otherwise each congestion control has its position.
    """
    return all(rows["cc"].nunique() == 1 for _, rows in groups_of(table))


def series(table: pd.DataFrame, rows: pd.DataFrame) -> list[facet.FacetSeries]:
    """Return one series per congestion control, or a single one."""
    return facet.alike(table, rows) if alone(table) else facet.by_cc(table, rows)


def panels(sheet: Sheet) -> list[facet.FacetPanel]:
    """Return as many rows as the conditions' names need."""
    table, groups = sheet.rows, groups_of(sheet.rows)
    most = LONE_BARS_IN_A_ROW if alone(table) else CONDITIONS_IN_A_ROW
    abreast = conditions_abreast([text for text, _ in groups], most)
    room = min(abreast, len(groups))
    letters, bars = letters_below(room), room * len(series(table, table))
    how = "across" if bars <= BARS_IN_A_ROW * width_share() else "upright"
    value = facet.Value(facet.from_zero(1.22, least=0.0), mark=partial(facet.bar, how=how))
    lines = [groups[start : start + abreast] for start in range(0, len(groups), abreast)]
    return [
        facet.in_groups("", [(wrapped(text, letters), rows) for text, rows in line], value)
        for line in lines
    ]


def conditions_abreast(names: Sequence[str], most: int = CONDITIONS_IN_A_ROW) -> int:
    """Return the conditions per row: two, or up to `most` if their names fit."""
    for count in range(most, 2, -1):
        if all(fits(name, letters_below(min(count, len(names)))) for name in names):
            rows = -(-len(names) // count)
            return -(-len(names) // rows)  # rows of equal length
    return 2


def letters_below(count: int) -> int:
    """Return the characters that fit below each of so many conditions."""
    return round(ROW * width_share()) // count


def name_places(
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
        axis=name_places,
        places=only_condition,
        around_in=1.5,
        panel_in=2.6,
        shape=facet.stacked,
        shared={"sharey": True},
    ),
    rows=with_absent,
)
