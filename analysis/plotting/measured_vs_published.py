# SPDX-License-Identifier: MIT
"""Plot lab over study, one dot per published value."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from gostlab.analysis.load.study import TOLERANCE, TOLERANCE_FACTORS
from gostlab.analysis.plotting.image_map import tag_artist
from gostlab.analysis.plotting.style import (
    INK,
    finish_figure,
    in_report_style,
    legend_entry,
    new_figure,
    truncate,
)
from gostlab.analysis.stats.published_targets import (
    AGREES,
    DISAGREES,
    ONE_OF,
    TargetComparison,
    counted_verdict,
    published_divisor,
)

if TYPE_CHECKING:
    from matplotlib.figure import Figure

# Blue and vermilion, distinct to people with any kind of colour vision; the markers differ too.
LOOKS = {AGREES: ("#0072B2", "o"), DISAGREES: ("#D55E00", "D")}
LOOKS |= dict.fromkeys(ONE_OF.values(), ("#666666", "s"))
BAND, WIDE_BAND = "#d9e6d3", "#eef3eb"  # bands of agreement of values and of counts
# Dots beyond are arrows at the edge.
EDGE = 100.0
MIN_EDGE = 2.0
# Maximum lines, so that the figure fits a screen.
MAX_LINES = 16
LINE_IN, CROWDED_LINE_IN = 0.29, 0.42
MAX_DOTS_ABREAST = 3  # maximum of a line of normal height


@in_report_style
def draw_measured_vs_published(
    rows: Sequence[TargetComparison], called: str, footer: str = ""
) -> Figure:
    """Plot lab / study on a log axis, one line per matrix and metric.

    With too many lines there is one per metric. The bands of 10 % and of counts are shaded. At
    least one row must have a ratio (ratio_to_published).
    """
    from matplotlib.patches import Patch

    ratios = [(row, over) for row in rows if (over := ratio_to_published(row)) is not None]
    names = row_labels([row for row, _ in ratios])
    lines = list(dict.fromkeys(names))
    furthest = max(max(over, 1 / over) if over else math.inf for _, over in ratios)
    edge = min(EDGE, max(MIN_EDGE, 1.25 * furthest))
    crowded = max(Counter(names).values()) > MAX_DOTS_ABREAST
    line_in = CROWDED_LINE_IN if crowded else LINE_IN
    fig, axes = new_figure(1.5 + line_in * len(lines))
    ax = axes[0, 0]
    factors = sorted(
        {
            TOLERANCE_FACTORS[row.target.figure]
            for row, _ in ratios
            if row.target.figure in TOLERANCE_FACTORS
        }
    )
    for factor in factors:
        ax.axvspan(1 / factor, factor, color=WIDE_BAND, zorder=0)
    ax.axvspan(1 - TOLERANCE, 1 + TOLERANCE, color=BAND, zorder=0)
    ax.axvline(1, color=INK, linewidth=1, zorder=1)
    for position, line in enumerate(lines):
        pairs = [pair for pair, name in zip(ratios, names, strict=True) if name == line]
        for index, (row, over) in enumerate(pairs):
            colour, marker = LOOKS[row.verdict]
            outside = over > edge or over < 1 / edge
            if outside:
                marker = ">" if over > 1 else "<"
            # spread the dots of one line, so that equal values are visible
            apart = 0.0 if len(pairs) == 1 else 0.5 * (index / (len(pairs) - 1) - 0.5)
            (dot,) = ax.plot(
                min(edge, max(1 / edge, over)),
                position + apart,
                marker=marker,
                color=colour,
                markersize=6,
                linestyle="none",
                alpha=0.85,
                clip_on=not outside,
                zorder=3,
            )
            tag_artist(dot, row.key)
    ax.set_xscale("log")
    ax.set_xlim(1 / edge, edge)
    # four decades have no space for 1, 2 and 5 of each
    ticks = [tick for tick in TICKS[:: 3 if edge > 20 else 1] if 1 / edge <= tick <= edge]
    ax.set_xticks(ticks, [f"{tick:g}" for tick in ticks])
    ax.set_xticks([], minor=True)
    ax.set_yticks(range(len(lines)), [truncate(label, 44) for label in lines])
    ax.set_ylim(len(lines) - 0.4, -0.6)
    ax.grid(visible=False, axis="y")
    ax.set_xlabel(f"Lab / {called}")
    counts = Counter(row.verdict for row, _ in ratios)
    handles: list[Any] = [
        legend_entry(
            counted_verdict(verdict, counts[verdict]), color=colour, marker=marker, linestyle="none"
        )
        for verdict, (colour, marker) in LOOKS.items()
        if counts[verdict]
    ]
    handles.append(Patch(color=BAND, label=f"within {100 * TOLERANCE:g} %"))
    handles += [
        Patch(color=WIDE_BAND, label=f"counts: a factor of {factor_of_band:g}")
        for factor_of_band in factors
    ]
    finish_figure(fig, handles, footer)
    return fig


TICKS = (0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 20, 50, 100)


def row_labels(rows: Sequence[TargetComparison]) -> list[str]:
    """Return each row's label: matrix and metric, or the metric alone for many labels."""
    both = [f"{row.matrix}: {row.figure}" if row.matrix else row.figure for row in rows]
    return both if len(set(both)) <= MAX_LINES else [row.figure for row in rows]


def ratio_to_published(row: TargetComparison) -> float | None:
    """Return the lab's median over the published value; None without one. It may be infinite."""
    reference = published_divisor(row)
    if row.got is None or row.verdict not in LOOKS or not reference or reference < 0:
        return None
    return max(0.0, row.got.median / reference)


def agreement_caption(rows: Sequence[TargetComparison], called: str) -> str:
    """State how many values the figure contains, and how many it cannot."""
    plotted = sum(ratio_to_published(row) is not None for row in rows)
    missing = len(rows) - plotted
    caption = (
        f"Lab over {called}, a dot per published number: {plotted} of {len(rows)}. A number is the"
        " median of its runs. One with a band of its own is judged by that, and divided by the"
        " value or, without one, by the band's middle; an arrow lies further out."
    )
    if missing:
        caption += (
            f" {missing} {'has' if missing == 1 else 'have'} no run that counts, or nothing to"
        )
        caption += " divide by."
    return caption
