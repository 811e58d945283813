"""Who does what to whom: of two flows that share a bottleneck, the share that each congestion
control gets beside each other one (as Prudentia shows services beside services).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd
from matplotlib import colormaps
from matplotlib.axes import Axes
from matplotlib.cm import ScalarMappable
from matplotlib.colors import Normalize
from matplotlib.figure import Figure

from analysis.draw.levels import cc_rank, facets_of, factor_columns, flows_of
from analysis.draw.marks import degraded_handles
from analysis.draw.panels import (
    SMALL_PT,
    abreast,
    draw_field,
    label_lowest,
    name_fields,
    panel_figure,
    pictures,
)
from analysis.draw.registry import Answer, Drawing, Picture, Sheet, Sweep, valid_rows
from analysis.draw.spots import shows
from analysis.draw.style import INK, finish, styled, wrapped
from analysis.judge.statistics import Summary, summarise
from analysis.judge.table import NBSP, cc_name

# From orange (takes less than half) over white to purple (takes more): distinct to people with any
# kind of colour vision, and the same in grey on no side.
COLOURS = "PuOr"
FACETS_ON_A_FIGURE = 6


@dataclass(frozen=True)
class Meeting:
    """What one congestion control's flow gets beside another's."""

    share: Summary  # of what both carry, over the runs
    degraded: bool
    keys: tuple[str, ...] = ()  # of its cells


def meetings(rows: pd.DataFrame) -> dict[tuple[str, str], Meeting]:
    """(who, beside whom) -> its share, of all cells of two flows; who started first or has which
    place does not count here. Beside its own kind it is the first flow's.
    """
    values: dict[tuple[str, str], list[float]] = {}
    degraded: set[tuple[str, str]] = set()
    keys: dict[tuple[str, str], list[str]] = {}
    names = flows_of(rows)
    if len(names) != 2:
        return {}
    for _, row in rows.iterrows():
        ccs = [str(row[f"cc:{name}"]) for name in names]
        for own, other in ((0, 1), (1, 0)):
            if own == 1 and ccs[0] == ccs[1]:
                continue
            pair = ccs[own], ccs[other]
            values.setdefault(pair, []).extend(row[f"share:{names[own]}_values"])
            keys.setdefault(pair, []).append(str(row.get("key") or ""))
            if row["verdict"] == "degraded":
                degraded.add(pair)
    found = {pair: summarise(shares) for pair, shares in values.items()}
    return {
        pair: Meeting(share, pair in degraded, tuple(keys[pair]))
        for pair, share in found.items()
        if share is not None
    }


@styled
def plot_rivals(
    facets: Sequence[tuple[str, Mapping[tuple[str, str], Meeting]]],
    rows: pd.DataFrame,
    footer: str = "",
    *,
    title: str = "",
) -> Figure:
    """A facet per condition: a line per congestion control, a column per rival, in each field the
    share that the line's flow gets beside the column's, in per cent, and from how many runs.
    """
    ccs = sorted({cc for _, found in facets for pair in found for cc in pair}, key=cc_rank)
    columns = 1 if len(facets) == 1 or len(ccs) > 4 else 2
    drawn, axes = panel_figure(
        [words for words, _ in facets],
        0.8 + 0.5 * len(ccs),
        around_in=1.7,
        shape=abreast(len(facets), columns),
        fontsize=SMALL_PT,
        sharey=True,
    )
    scale = Normalize(0, 1)
    for ax, (_, found) in zip(axes.flat, facets, strict=False):
        draw_fields(ax, ccs, found, scale, room=56 // (columns * len(ccs)))
    for ax in axes[:, 0]:
        ax.set_ylabel("What this one gets")
    label_lowest(axes, len(facets), "beside this one")
    bar = drawn.colorbar(
        ScalarMappable(scale, colormaps[COLOURS]), ax=axes, aspect=30, pad=0.02, fraction=0.05
    )
    bar.set_ticks([0, 0.25, 0.5, 0.75, 1], labels=["0", "25", "50", "75", "100"])
    bar.set_label("Share of what both carry (%): 50 is fair")
    finish(drawn, degraded_handles(rows, bar=True), footer, title)
    return drawn


def draw_fields(
    ax: Axes,
    ccs: Sequence[str],
    found: Mapping[tuple[str, str], Meeting],
    scale: Normalize,
    room: int,
) -> None:
    """The fields of one facet."""
    for line, own in enumerate(ccs):
        for column, other in enumerate(ccs):
            met = found.get((own, other))
            share = met.share.median if met else np.nan
            ink = "white" if met is not None and abs(share - 0.5) > 0.33 else INK
            field = draw_field(
                ax,
                column,
                line,
                colormaps[COLOURS](scale(share)) if met else "white",
                f"{100 * share:.0f}" if met else "–",
                degraded=met is not None and met.degraded,
                pt=11,
                ink=ink,
            )
            shows(field, met.keys if met else ())
            if met:
                place = {"ha": "right", "va": "bottom", "fontsize": 7.5, "color": ink}
                ax.text(column + 0.46, line + 0.44, f"n = {met.share.n}", **place)
    name_fields(ax, [wrapped(cc_name(cc), room) for cc in ccs], [cc_name(cc) for cc in ccs])


def conditions(table: pd.DataFrame) -> list[tuple[str, dict[tuple[str, str], Meeting]]]:
    """What each met, for every level of all factors but who the two are."""
    who = [f"cc:{name}" for name in flows_of(table)]
    told = [*who, "cc", *(name for name in factor_columns(table) if name.endswith("cc"))]
    facets = [(words, meetings(rows)) for words, rows in facets_of(table, known=told)]
    return [(words, found) for words, found in facets if found]


def draw(sheet: Sheet) -> Iterator[Picture]:
    """As many figures as its facets need."""
    yield from pictures(
        conditions(sheet.rows),
        lambda some, span: plot_rivals(some, sheet.rows, sheet.footer, title=span),
        DRAWING.caption,
        most=FACETS_ON_A_FIGURE,
    )


def says(sweep: Sweep, table: pd.DataFrame) -> Iterator[Answer]:
    """Who takes most from whom, and whether anybody shares alike."""
    facets = conditions(valid_rows(table))
    met = [
        (found.share, own, other, words)
        for words, meeting in facets
        for (own, other), found in meeting.items()
        if own != other
    ]
    if not met:
        return
    share, own, other, words = max(met, key=lambda each: each[0].median)
    where = f", {words}" if words else ""
    ends = share.interval
    spread = f" ({100 * ends.low:.0f} to {100 * ends.high:.0f}, " if ends else " ("
    yield Answer(
        f"{sweep.title}: who does what to whom",
        (
            f"{cc_name(own)} leaves {cc_name(other)} {100 * (1 - share.median):.0f}{NBSP}% and"
            f" takes {100 * share.median:.0f}{NBSP}%{spread}n = {share.n}{where}).",
        ),
    )


def meeting_rows(table: pd.DataFrame) -> pd.DataFrame:
    """The cells in which two flows with congestion controls met."""
    names = flows_of(table)
    if len(names) != 2:
        return table.head(0)
    known = [len(values) > 0 for values in table[f"share:{names[0]}_values"]]
    return valid_rows(table[known])


DRAWING = Drawing(
    "rivals",
    caption=(
        "Who does what to whom: the share of what both flows carry that the congestion control of"
        " the line gets beside that of the column, in per cent, the median of n runs. 50 is fair;"
        " purple takes more, orange gives way."
    ),
    draw=draw,
    rows=meeting_rows,
    needs="exactly two flows with congestion controls and a run that counts",
    says=says,
)
