"""Goodput by condition."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.figure import Figure
from matplotlib.patches import Patch

from analysis.draw.levels import (
    by_condition,
    ccs_of,
    conditions_of,
    factor_heading,
    one_row,
    told_apart,
)
from analysis.draw.marks import (
    degraded_handles,
    draw_bar,
    figure_values,
    spread_handles,
    study_handles,
)
from analysis.draw.registry import Answer, Drawing, Picture, Sheet, Sweep
from analysis.draw.sentences import in_general
from analysis.draw.style import (
    cc_colour,
    finish,
    fits,
    new_figure,
    styled,
    thousands,
    wrapped,
)
from analysis.judge.cells import (
    Cell,
)
from analysis.judge.figures_of_merit import merit_of, value_of
from analysis.judge.statistics import best_mean
from analysis.judge.table import (
    cc_name,
    percent,
    rate,
)
from analysis.read.series import (
    reordered_share,
)

# More conditions than this in a row and their names run into each other; wider rows break.
CONDITIONS_IN_A_ROW = 6
LONE_BARS_IN_A_ROW = 8  # of conditions with one bar each
ROW = 70  # letters below a row of bars


@styled
def plot_bars(
    table: pd.DataFrame,
    footer: str = "",
    *,
    title: str = "",
    called: str = "study",
    figure: str = "goodput",
) -> Figure:
    """A group of bars per condition, one per congestion control, the study's value beside each."""
    ccs, factors = ccs_of(table), conditions_of(table)
    named = list(by_condition(table, factors))
    groups = [
        (words, rows)
        for words, (_, rows) in zip(told_apart([words for words, _ in named]), named, strict=True)
    ]
    # Where the condition decides the congestion control, each has one bar, in its middle; elsewhere
    # each congestion control keeps its place.
    alone = all(rows["cc"].nunique() == 1 for _, rows in groups)
    abreast = conditions_abreast(
        [words for words, _ in groups], LONE_BARS_IN_A_ROW if alone else CONDITIONS_IN_A_ROW
    )
    lines = [groups[start : start + abreast] for start in range(0, len(groups), abreast)]
    drawn, axes = new_figure(1.5 + 2.6 * len(lines), max(1, len(lines)), 1, sharey=True)
    top = max([value for value in figure_values(table, figure, link=False) if value > 0] or [1.0])
    abreast_bars = 1 if alone else len(ccs)
    width = 0.84 / max(1, abreast_bars)
    room = min(abreast, max(1, len(groups)))
    how = "across" if room * abreast_bars <= 9 else "upright"
    under = -width * 0.12 if alone else 0.0  # the lab's bar leaves room for the study's value
    for ax, line in zip(axes[:, 0], lines, strict=False):
        for index, (_, rows) in enumerate(line):
            for place, cc in enumerate(ccs):
                row = one_row(rows, cc=cc)
                if row is not None:
                    x = index if alone else index + (place - (len(ccs) - 1) / 2) * width
                    draw_bar(ax, x, width, row, figure, number_above=how)
        if factors:
            ax.set_xticks(
                [index + under for index in range(len(line))],
                [wrapped(words, ROW // room) for words, _ in line],
            )
        else:  # nothing but the congestion control varies: each bar has its name
            ax.set_xticks(
                [(place - (len(ccs) - 1) / 2) * width - width * 0.12 for place in range(len(ccs))],
                [cc_name(cc) for cc in ccs],
            )
        ax.set_xlim(-0.55, room - 0.45)
        ax.set_ylim(0, top * 1.22)
        ax.set_ylabel(merit_of(figure).axis)
        ax.grid(False, axis="x")
        thousands(ax.yaxis)
    if len(factors) == 1:
        axes[-1, 0].set_xlabel(factor_heading(factors[0]))
    handles: list[Any] = [Patch(facecolor=cc_colour(cc), label=cc_name(cc)) for cc in ccs]
    handles += [
        *study_handles(table, figure, called=called),
        *spread_handles(table, figure),
        *degraded_handles(table, bar=True),
    ]
    finish(drawn, handles, footer, title)
    return drawn


def conditions_abreast(names: Sequence[str], most: int = CONDITIONS_IN_A_ROW) -> int:
    """How many conditions stand in a row: as many as there is room for the whole of their names,
    at most so many, but two.
    """
    for count in range(most, 2, -1):
        if all(fits(words, ROW // min(count, len(names))) for words in names):
            return count
    return 2


def download_sentences(cells: Sequence[Cell]) -> tuple[str, ...]:
    """Of each cell that fetches one file: the mean rate of its three fastest runs, and how long
    that takes.
    """
    said = []
    for cell in cells:
        sizes = {
            flow.size_bytes for run in cell.counted for flow in run.flows if flow.kind == "http"
        }
        best = best_mean(
            [value for run in cell.counted if (value := value_of(run, "goodput")) is not None]
        )
        if best is None or len(sizes) != 1 or (size := sizes.pop()) is None:
            continue
        said.append(
            f"{cell.label}: {rate(best)} Mbit/s ({rate(best * 1000 / 8)} kB/s),"
            f" {rate(size * 8e-6 / best)} s for {size / 1e6:g} MB; n = {len(cell.counted)}."
        )
    return tuple(said)


def jitter_sentences(cells: Sequence[Cell]) -> tuple[str, ...]:
    """How many segments overtook others, where jitter may reorder and where the path keeps the
    order. Not where it loses as well: behind a lost segment every other is ahead of one that is
    due.
    """
    said = []
    for ordered, words in (
        (False, "With jitter that may reorder"),
        (True, "With jitter on a path that keeps the order"),
    ):
        found = [
            (float(np.median(known)), cell.label)
            for cell in cells
            if cell.example.jitter_ms
            and not cell.example.loss_p
            and cell.example.ordered == ordered
            and (
                known := [
                    share for run in cell.counted if (share := reordered_share(run)) is not None
                ]
            )
        ]
        if found:
            (low, low_at), (high, high_at) = min(found), max(found)
            span = (
                f"{percent(low)} ({low_at}) to {percent(high)} ({high_at})"
                if len(found) > 1
                else f"{percent(low)} ({low_at})"
            )
            said.append(
                f"{words}, {span} of the segments arrived ahead of one that was due, "
                "those behind one that a queue dropped included."
            )
    return tuple(said)


def draw(sheet: Sheet) -> Iterator[Picture]:
    """One figure."""
    yield Picture(plot_bars(sheet.rows, sheet.footer, title=sheet.title, called=sheet.called))


def says(sweep: Sweep, table: pd.DataFrame) -> Iterator[Answer]:
    """The cells in general, the fastest downloads, and what jitter does to the order."""
    yield from in_general(sweep, table)
    cells = sweep.matrix.cells
    for heading, said in (
        ("the fastest three downloads", download_sentences(cells)),
        ("what jitter does to the order", jitter_sentences(cells)),
    ):
        if said:
            yield Answer(f"{sweep.title}: {heading}", said)


DRAWING = Drawing(
    "bars",
    caption="Goodput by condition; diamonds are the study's.",
    draw=draw,
    says=says,
    # A condition without a valid run keeps its place and says why.
    rows=lambda table: table if (table["n"] > 0).any() else table.head(0),
)
