# SPDX-License-Identifier: MIT
"""Arrange panels, one per condition of a matrix, on one or several figures.

The plot defines the content of a panel; this module its position, heading and labels.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import product
from typing import TYPE_CHECKING, Any, TypeVar

from gostlab.analysis.load.run_folder import RunFolder
from gostlab.analysis.load.study import format_level
from gostlab.analysis.plotting import style
from gostlab.analysis.plotting.factors import cc_rank, level_with_factor_name, strip_common_prefix
from gostlab.analysis.plotting.image_map import tag_artist
from gostlab.analysis.plotting.plot_registry import ReportFigure
from gostlab.analysis.stats.cells import Cell
from gostlab.analysis.stats.table_formats import cc_name

if TYPE_CHECKING:
    import numpy as np
    from matplotlib.axes import Axes
    from matplotlib.colorbar import Colorbar
    from matplotlib.colors import Normalize
    from matplotlib.figure import Figure

PANELS_ON_A_FIGURE = 9
# Text on a coloured tile keeps its colour in dark mode (analysis/report/dark_mode.py), which swaps
# other text with the paper.
ON_FIELD = {style.INK: "#222221", "white": "#fffffe"}
SMALL_PT = 9.5  # size of a heading with a complete condition
ConditionRuns = tuple[str, Sequence[RunFolder]]
Each = TypeVar("Each")


def runs_by_condition(
    cells: Sequence[Cell], measured: Callable[[RunFolder], bool]
) -> list[ConditionRuns]:
    """Return the counted runs that measured something, by condition.

    Conditions are in the order of the cells, formed by the varying factors without the congestion
    control.
    """
    by_condition: dict[str, list[RunFolder]] = {}
    levels = {(name, format_level(value)) for cell in cells for name, value in cell.factors}
    seen = Counter(name for name, _ in levels if name != "cc")
    for cell in cells:
        text = ", ".join(
            level_with_factor_name(name, format_level(value))
            for name, value in cell.factors
            if seen[name] > 1
        )
        by_condition.setdefault(text, []).extend(run for run in cell.counted if measured(run))
    known = [(text, tuple(runs)) for text, runs in by_condition.items() if runs]
    names = strip_common_prefix([text for text, _ in known])
    return [(name, runs) for name, (_, runs) in zip(names, known, strict=True)]


def panel_figure(
    headings: Sequence[str],
    panel_in: float,
    *,
    around_in: float = 1.4,
    shape: tuple[int, int] | None = None,
    pad: float | None = None,
    fontsize: float | None = None,
    **shared: Any,
) -> tuple[Figure, np.ndarray]:
    """Return a figure with a panel under each heading, and its axes.

    Axes without a heading are hidden. panel_in: height of a row; around_in: height of title, legend
    and footer; shape: rows and columns if they differ from `grid`; shared: sharex, sharey,
    gridspec_kw.
    """
    rows, columns = shape or style.grid_shape(len(headings))
    if style.NARROW.get():
        rows, columns = len(headings), 1
    figure, axes = style.new_figure(around_in + panel_in * rows, rows, columns, **shared)
    more = {"pad": pad, "fontsize": fontsize}
    for ax, heading in zip(axes.flat, headings, strict=False):
        style.set_panel_heading(
            ax, heading, columns, **{name: value for name, value in more.items() if value}
        )
    for ax in axes.flat[len(headings) :]:
        ax.set_visible(False)
    return figure, axes


def grid_shape(count: int, columns: int) -> tuple[int, int]:
    """Return the rows and columns of so many panels."""
    return -(-count // columns), columns


@dataclass(frozen=True)
class MapTile:
    """One field of a map."""

    value: float  # value of its colour; NaN: unknown, an empty field
    centre_text: str  # text in the centre
    keys: tuple[str, ...] = ()  # keys of its cells
    degraded: bool = False
    ink: str = style.INK
    aside: str = ""  # small text in the corner


def map_figure(
    facets: Sequence[tuple[str, Any]],
    field_of: Callable[[Any, int, int], MapTile],
    *,
    across: Sequence[str],
    down: Sequence[str],
    x: str,
    y: str,
    colours: str,
    scale: Normalize,
    scale_of: str,
    line_in: float,
    pt: float,
    around_in: float = 1.5,
    columns: int = 2,
) -> tuple[Figure, Colorbar]:
    """Plot a map under each heading, with a common colour scale.

    field_of: field at a facet's column and line; across, down: names of columns and lines, labelled
    x and y; colours: matplotlib's name of the colour map; line_in, pt: height of a line and size of
    a field's text; columns: maps side by side.
    """
    from matplotlib.cm import ScalarMappable

    figure, axes = panel_figure(
        [heading for heading, _ in facets],
        0.8 + line_in * len(down),
        around_in=around_in,
        shape=grid_shape(len(facets), columns),
        fontsize=SMALL_PT,
        sharey=True,
    )
    coloured = ScalarMappable(scale, colours)
    for ax, (_, facet) in zip(axes.flat, facets, strict=False):
        for column, line in product(range(len(across)), range(len(down))):
            field = field_of(facet, column, line)
            colour = "white" if math.isnan(field.value) else coloured.to_rgba(field.value)
            draw_tile(ax, column, line, field, colour, pt)
        label_tiles(ax, across, down)
    for ax in axes[:, 0]:
        ax.set_ylabel(y)
    for ax in axes.flat[max(0, len(facets) - axes.shape[1]) : len(facets)]:
        ax.set_xlabel(x)
    bar = figure.colorbar(coloured, ax=axes, aspect=30, pad=0.02, fraction=0.05)
    bar.set_label(scale_of)
    return figure, bar


def draw_tile(ax: Axes, column: int, line: int, field: MapTile, colour: Any, pt: float) -> None:
    from matplotlib.patches import Rectangle

    look = {
        "facecolor": colour,
        "edgecolor": style.FAINT if field.degraded else style.GRID,
        "hatch": style.DEGRADED_HATCH if field.degraded else None,
        "linewidth": 0.8,
    }
    tag_artist(ax.add_patch(Rectangle((column - 0.5, line - 0.5), 1, 1, **look)), field.keys)
    ink = ON_FIELD.get(field.ink, field.ink) if not math.isnan(field.value) else field.ink
    middle = {"ha": "center", "va": "center", "fontsize": pt, "color": ink}
    ax.text(column, line, field.centre_text, **middle)
    if field.aside:
        corner = {"ha": "right", "va": "bottom", "fontsize": 7.5, "color": ink}
        ax.text(column + 0.46, line + 0.44, field.aside, **corner)


def label_tiles(ax: Axes, across: Sequence[str], down: Sequence[str]) -> None:
    """Set the names of a map's columns and lines, and remove its frame."""
    ax.set_xticks(range(len(across)), list(across))
    ax.set_yticks(range(len(down)), list(down))
    ax.set_xlim(-0.5, len(across) - 0.5)
    ax.set_ylim(len(down) - 0.5, -0.5)
    ax.tick_params(length=0, labelbottom=True)
    ax.grid(False)
    for side in ax.spines.values():
        side.set_visible(False)


def condition_figure(
    facets: Sequence[tuple[str, Any]], panel_in: float, x: str, y: str
) -> tuple[Figure, np.ndarray]:
    """Return a figure with a panel per condition and common, labelled axes."""
    figure, axes = panel_figure(
        [heading for heading, _ in facets], panel_in, fontsize=SMALL_PT, sharex=True, sharey=True
    )
    style.label_edges(axes, len(facets), x, y)
    return figure, axes


def group_by_cc(runs: Iterable[RunFolder]) -> list[tuple[str, list[RunFolder]]]:
    by_cc: dict[str, list[RunFolder]] = {}
    for run in runs:
        by_cc.setdefault(run.cc, []).append(run)
    return sorted(by_cc.items(), key=lambda pair: cc_rank(pair[0]))


def cc_legend_lines(ccs: Iterable[str], **look: Any) -> list[Any]:
    return [
        style.legend_entry(cc_name(cc), color=style.cc_colour(cc), **look)
        for cc in sorted(set(ccs), key=cc_rank)
    ]


def paged_figures(
    found: Sequence[Each],
    plot: Callable[[Sequence[Each], str], Figure],
    caption: str,
    *,
    name: str = "",
    most: int = PANELS_ON_A_FIGURE,
    medians: bool = False,
    each: str = "Conditions",
) -> Iterator[ReportFigure]:
    """Yield as many figures as the panels need; each caption lists its panels.

    plot: plots some panels under a title ("" for a single figure); name: suffix of the file names;
    medians: whether medians of cells are plotted; each: plural noun of the panels.
    """
    several = len(found) > most
    for start in range(0, len(found), most):
        some = found[start : start + most]
        span = f"{each} {start + 1} to {start + len(some)} of {len(found)}" if several else ""
        number = str(1 + start // most) if several else ""
        yield ReportFigure(
            partial(plot, some, span),
            f"{span}: {caption}" if span else caption,
            name="-".join(part for part in (name, number) if part),
            medians=medians,
        )
