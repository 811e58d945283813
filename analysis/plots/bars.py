"""Goodput by condition."""

from collections.abc import Iterator, Sequence
from functools import partial

import numpy as np
import pandas as pd
from matplotlib.axes import Axes

from gostlab.analysis.load.series import reordered_share
from gostlab.analysis.plotting import facet
from gostlab.analysis.plotting.factors import (
    by_condition,
    only_condition,
    told_apart,
    varying_factors,
)
from gostlab.analysis.plotting.plot import Drawing, Sheet, Sweep, all_of, told, with_absent
from gostlab.analysis.plotting.sentences import in_general
from gostlab.analysis.plotting.style import fits, wrapped
from gostlab.analysis.stats.statistics import best_mean
from gostlab.analysis.stats.text_table import cc_name, percent, rate

# More conditions than this in a row and their names run into each other; wider rows break.
CONDITIONS_IN_A_ROW = 6
LONE_BARS_IN_A_ROW = 8  # of conditions with one bar each
ROW = 70  # letters below a row of bars
WIDTH = 0.84


def groups_of(table: pd.DataFrame) -> list[facet.Group]:
    """The conditions and their cells."""
    named = list(by_condition(table, varying_factors(table)))
    words = told_apart([each for each, _ in named])
    return [(name, rows) for name, (_, rows) in zip(words, named, strict=True)]


def alone(table: pd.DataFrame) -> bool:
    """Whether the condition decides the congestion control: each has one bar, in its middle.
    Elsewhere each congestion control keeps its place.
    """
    return all(rows["cc"].nunique() == 1 for _, rows in groups_of(table))


def series(table: pd.DataFrame, rows: pd.DataFrame) -> list[facet.FacetSeries]:
    """One of each congestion control, or one for all."""
    return facet.alike(table, rows) if alone(table) else facet.by_cc(table, rows)


def panels(sheet: Sheet) -> list[facet.FacetPanel]:
    """As many rows as the conditions' names need."""
    table, groups = sheet.rows, groups_of(sheet.rows)
    most = LONE_BARS_IN_A_ROW if alone(table) else CONDITIONS_IN_A_ROW
    abreast = conditions_abreast([words for words, _ in groups], most)
    room = min(abreast, len(groups))
    how = "across" if room * len(series(table, table)) <= 9 else "upright"
    value = facet.Value(facet.from_zero(1.22, least=0.0), mark=partial(facet.bar, how=how))
    lines = [groups[start : start + abreast] for start in range(0, len(groups), abreast)]
    return [
        facet.in_groups("", [(wrapped(words, ROW // room), rows) for words, rows in line], value)
        for line in lines
    ]


def conditions_abreast(names: Sequence[str], most: int = CONDITIONS_IN_A_ROW) -> int:
    """How many conditions stand in a row: two, or up to `most` whose names have room."""
    for count in range(most, 2, -1):
        if all(fits(words, ROW // min(count, len(names))) for words in names):
            return count
    return 2


def name_places(
    ax: Axes, panels: Sequence[facet.FacetPanel], lines: Sequence[facet.FacetSeries]
) -> None:
    """Every row as long as the first. A lone bar has its name under itself: it leaves room for the
    study's value; where nothing but the congestion control varies each bar has one.
    """
    ax.set_xlim(-0.55, len(panels[0].names) - 0.45)
    width = WIDTH / len(lines)
    if not any(panels[0].names):
        middles = [(at - (len(lines) - 1) / 2) * width - width * 0.12 for at in range(len(lines))]
        ccs = [line.levels["cc"] if line.levels else "" for line in lines]
        ax.set_xticks(middles, [cc_name(cc) for cc in ccs])
    elif len(lines) == 1 and not lines[0].levels:
        ax.set_xticks(ax.get_xticks() - 0.12 * width, ax.get_xticklabels())


def download_sentences(sweep: Sweep, table: pd.DataFrame) -> Iterator[str]:
    """Of each cell that fetches one file: the mean rate of its fastest three runs, and its time."""
    for cell in sweep.matrix.cells:
        sizes = {
            flow.size_bytes for run in cell.counted for flow in run.flows if flow.kind == "http"
        }
        goodput = cell.summary("goodput")
        best = best_mean(goodput.values) if goodput else None
        if best is None or len(sizes) != 1 or (size := sizes.pop()) is None:
            continue
        yield (
            f"{cell.label}: {rate(best)} Mbit/s ({rate(best * 1000 / 8)} kB/s),"
            f" {rate(size * 8e-6 / best)} s for {size / 1e6:g} MB; n = {len(cell.counted)}."
        )


def jitter_sentences(sweep: Sweep, table: pd.DataFrame) -> Iterator[str]:
    """How many segments overtook others, where jitter may reorder and where the path keeps the
    order. Not where it loses as well: behind a lost segment every other is ahead of one that is
    due.
    """
    for ordered, words in (
        (False, "With jitter that may reorder"),
        (True, "With jitter on a path that keeps the order"),
    ):
        found = []
        for cell in sweep.matrix.cells:
            run, shares = cell.example, map(reordered_share, cell.counted)
            if run.jitter_ms and not run.loss_p and run.ordered == ordered:
                known = [share for share in shares if share is not None]
                found += [(float(np.median(known)), cell.label)] if known else []
        if found:
            (low, low_at), (high, high_at) = min(found), max(found)
            most = f" to {percent(high)} ({high_at})" if len(found) > 1 else ""
            yield (
                f"{words}, {percent(low)} ({low_at}){most} of the segments arrived ahead of one"
                " that was due, those behind one that a queue dropped included."
            )


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
    says=all_of(
        in_general,
        told("{title}: the fastest three downloads", download_sentences),
        told("{title}: what jitter does to the order", jitter_sentences),
    ),
    rows=with_absent,
)
