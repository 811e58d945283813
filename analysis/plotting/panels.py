"""Panels: a matrix's runs by condition, a panel under each condition's heading, and as many figures
as that makes.

What a panel shows is its drawing's; where it stands, what is written above it and beside it, and
where another figure begins is said here.
"""

import math
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any, TypeVar

import numpy as np
from matplotlib.axes import Axes
from matplotlib.cm import ScalarMappable
from matplotlib.colorbar import Colorbar
from matplotlib.colors import Normalize
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle

from gostlab.analysis.load.published import level
from gostlab.analysis.load.run_folder import RunFolder
from gostlab.analysis.plotting import style
from gostlab.analysis.plotting.factors import cc_rank, named_level, told_apart
from gostlab.analysis.plotting.image_map import shows
from gostlab.analysis.plotting.plot import ReportFigure
from gostlab.analysis.stats.cells import Cell
from gostlab.analysis.stats.text_table import cc_name

PANELS_ON_A_FIGURE = 9
# Letters on a coloured tile keep their colour in dark mode (analysis/report/dark_mode.py), where
# other letters change places with the paper.
ON_FIELD = {style.INK: "#222221", "white": "#fffffe"}
SMALL_PT = 9.5  # of a heading that names a condition in full
Condition = tuple[str, Sequence[RunFolder]]
Each = TypeVar("Each")


def conditions(cells: Sequence[Cell], measured: Callable[[RunFolder], bool]) -> list[Condition]:
    """(condition, the runs that count and measured it) in the order of the cells. What makes a
    condition are the factors that vary, all but the congestion control.
    """
    found: dict[str, list[RunFolder]] = {}
    levels = {(name, level(value)) for cell in cells for name, value in cell.factors}
    seen = Counter(name for name, _ in levels if name != "cc")
    for cell in cells:
        words = ", ".join(
            named_level(name, level(value)) for name, value in cell.factors if seen[name] > 1
        )
        found.setdefault(words, []).extend(run for run in cell.counted if measured(run))
    known = [(words, tuple(runs)) for words, runs in found.items() if runs]
    names = told_apart([words for words, _ in known])
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
    """A figure with a panel under each heading, and its axes; those without one are not seen.

    panel_in   a row's height; around_in: of title, legend and what stands below
    shape      rows and columns, where they are not as `grid` has it
    shared     sharex, sharey, gridspec_kw
    """
    rows, columns = shape or style.grid(len(headings))
    figure, axes = style.new_figure(around_in + panel_in * rows, rows, columns, **shared)
    more = {"pad": pad, "fontsize": fontsize}
    for ax, words in zip(axes.flat, headings, strict=False):
        style.head_panel(ax, words, columns, **{name: each for name, each in more.items() if each})
    for ax in axes.flat[len(headings) :]:
        ax.set_visible(False)
    return figure, axes


def abreast(count: int, columns: int) -> tuple[int, int]:
    """Rows and columns of so many panels, with so many abreast."""
    return -(-count // columns), columns


@dataclass(frozen=True)
class MapTile:
    """One field of a map."""

    value: float  # which decides its colour; NaN: nobody knows it, and it is empty
    words: str  # in its middle
    keys: tuple[str, ...] = ()  # of the cells that it shows
    degraded: bool = False
    ink: str = style.INK
    aside: str = ""  # small words in its corner


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
    """A map under each heading, all in one scale of colours, and the scale.

    field_of       what stands in a facet's column and line
    across, down   the names of its columns and lines, which x and y say what they are
    colours        matplotlib's name of them
    line_in, pt    the height of a line, and the size of a field's words
    columns        of maps side by side
    """
    figure, axes = panel_figure(
        [words for words, _ in facets],
        0.8 + line_in * len(down),
        around_in=around_in,
        shape=abreast(len(facets), columns),
        fontsize=SMALL_PT,
        sharey=True,
    )
    coloured = ScalarMappable(scale, colours)
    for ax, (_, found) in zip(axes.flat, facets, strict=False):
        for column, line in product(range(len(across)), range(len(down))):
            field = field_of(found, column, line)
            colour = "white" if math.isnan(field.value) else coloured.to_rgba(field.value)
            draw_field(ax, column, line, field, colour, pt)
        name_fields(ax, across, down)
    for ax in axes[:, 0]:
        ax.set_ylabel(y)
    for ax in axes.flat[max(0, len(facets) - axes.shape[1]) : len(facets)]:
        ax.set_xlabel(x)
    bar = figure.colorbar(coloured, ax=axes, aspect=30, pad=0.02, fraction=0.05)
    bar.set_label(scale_of)
    return figure, bar


def draw_field(ax: Axes, column: int, line: int, field: MapTile, colour: Any, pt: float) -> None:
    look = {
        "facecolor": colour,
        "edgecolor": style.FAINT if field.degraded else style.GRID,
        "hatch": style.DEGRADED_HATCH if field.degraded else None,
        "linewidth": 0.8,
    }
    shows(ax.add_patch(Rectangle((column - 0.5, line - 0.5), 1, 1, **look)), field.keys)
    ink = ON_FIELD.get(field.ink, field.ink) if not math.isnan(field.value) else field.ink
    middle = {"ha": "center", "va": "center", "fontsize": pt, "color": ink}
    ax.text(column, line, field.words, **middle)
    if field.aside:
        corner = {"ha": "right", "va": "bottom", "fontsize": 7.5, "color": ink}
        ax.text(column + 0.46, line + 0.44, field.aside, **corner)


def name_fields(ax: Axes, across: Sequence[str], down: Sequence[str]) -> None:
    """The names of a map's columns and lines, and nothing else around it."""
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
    """A panel per condition, all with the same axes, and what those are."""
    figure, axes = panel_figure(
        [words for words, _ in facets], panel_in, fontsize=SMALL_PT, sharex=True, sharey=True
    )
    style.label_edges(axes, len(facets), x, y)
    return figure, axes


def of_each_cc(runs: Iterable[RunFolder]) -> list[tuple[str, list[RunFolder]]]:
    found: dict[str, list[RunFolder]] = {}
    for run in runs:
        found.setdefault(run.cc, []).append(run)
    return sorted(found.items(), key=lambda pair: cc_rank(pair[0]))


def cc_lines(ccs: Iterable[str], **look: Any) -> list[Any]:
    return [
        style.key(cc_name(cc), color=style.cc_colour(cc), **look)
        for cc in sorted(set(ccs), key=cc_rank)
    ]


def pictures(
    found: Sequence[Each],
    plot: Callable[[Sequence[Each], str], Figure],
    caption: str,
    *,
    name: str = "",
    most: int = PANELS_ON_A_FIGURE,
    medians: bool = False,
    each: str = "Conditions",
) -> Iterator[ReportFigure]:
    """As many figures as the panels need; each of several says which of them it shows.

    plot      draws some of them under a title ("" where all are on one figure)
    name      what tells these figures' files from others' of the same drawing
    medians   whether what is drawn are cells' medians
    each      what the panels are
    """
    several = len(found) > most
    for start in range(0, len(found), most):
        some = found[start : start + most]
        span = f"{each} {start + 1} to {start + len(some)} of {len(found)}" if several else ""
        number = str(1 + start // most) if several else ""
        yield ReportFigure(
            plot(some, span),
            f"{span}: {caption}" if span else caption,
            name="-".join(part for part in (name, number) if part),
            medians=medians,
        )
