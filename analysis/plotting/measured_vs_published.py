"""The study against the lab in one figure: lab over study, a dot per published number."""

import math
from collections import Counter
from collections.abc import Sequence
from typing import Any

from matplotlib.figure import Figure
from matplotlib.patches import Patch

from gostlab.analysis.load.published import TOLERANCE, TOLERANCE_FACTORS
from gostlab.analysis.plotting.image_map import shows
from gostlab.analysis.plotting.style import INK, cut, finish, key, new_figure, styled
from gostlab.analysis.stats.published_targets import (
    AGREES,
    DISAGREES,
    ONE_OF,
    Target,
    counted_verdict,
    reference_of,
)

# Blue and vermilion, distinct to people with any kind of colour vision; the markers differ too.
LOOKS = {AGREES: ("#0072B2", "o"), DISAGREES: ("#D55E00", "D")}
LOOKS |= dict.fromkeys(ONE_OF.values(), ("#666666", "s"))
BAND, WIDE_BAND = "#d9e6d3", "#eef3eb"  # within which a number agrees, and a count
# Dots further out lie at the edge, as arrows.
EDGE = 100.0
MIN_EDGE = 2.0
# More lines than this are no figure that one takes in, and more than a screen.
MAX_LINES = 16
LINE_IN, CROWDED_LINE_IN = 0.29, 0.42
MAX_DOTS_ABREAST = 3  # of a line that is not crowded


@styled
def draw_against(rows: Sequence[Target], called: str, footer: str = "") -> Figure:
    """A line per matrix and figure, or where those were too many a line per figure, on a log axis
    of lab / study, the band of 10 % shaded, that of counts more palely. Of rows of which at least
    one has its place (over_study).
    """
    shown = [(row, over) for row in rows if (over := over_study(row)) is not None]
    names = names_of([row for row, _ in shown])
    lines = list(dict.fromkeys(names))
    furthest = max(max(over, 1 / over) if over else math.inf for _, over in shown)
    edge = min(EDGE, max(MIN_EDGE, 1.25 * furthest))
    crowded = max(Counter(names).values()) > MAX_DOTS_ABREAST
    line_in = CROWDED_LINE_IN if crowded else LINE_IN
    fig, axes = new_figure(1.5 + line_in * len(lines))
    ax = axes[0, 0]
    factors = sorted(
        {
            TOLERANCE_FACTORS[row.target.figure]
            for row, _ in shown
            if row.target.figure in TOLERANCE_FACTORS
        }
    )
    for factor in factors:
        ax.axvspan(1 / factor, factor, color=WIDE_BAND, zorder=0)
    ax.axvspan(1 - TOLERANCE, 1 + TOLERANCE, color=BAND, zorder=0)
    ax.axvline(1, color=INK, linewidth=1, zorder=1)
    for place, line in enumerate(lines):
        own = [pair for pair, name in zip(shown, names, strict=True) if name == line]
        for index, (row, over) in enumerate(own):
            colour, marker = LOOKS[row.verdict]
            outside = over > edge or over < 1 / edge
            if outside:
                marker = ">" if over > 1 else "<"
            # dots of one line beside each other, so that like numbers are all seen
            apart = 0.0 if len(own) == 1 else 0.5 * (index / (len(own) - 1) - 0.5)
            (dot,) = ax.plot(
                min(edge, max(1 / edge, over)),
                place + apart,
                marker=marker,
                color=colour,
                markersize=6,
                linestyle="none",
                alpha=0.85,
                clip_on=not outside,
                zorder=3,
            )
            shows(dot, row.key)
    ax.set_xscale("log")
    ax.set_xlim(1 / edge, edge)
    # Of four decades there is no room for 1, 2 and 5 of each.
    ticks = [tick for tick in TICKS[:: 3 if edge > 20 else 1] if 1 / edge <= tick <= edge]
    ax.set_xticks(ticks, [f"{tick:g}" for tick in ticks])
    ax.set_xticks([], minor=True)
    ax.set_yticks(range(len(lines)), [cut(words, 44) for words in lines])
    ax.set_ylim(len(lines) - 0.4, -0.6)
    ax.grid(visible=False, axis="y")
    ax.set_xlabel(f"Lab / {called}")
    counts = Counter(row.verdict for row, _ in shown)
    handles: list[Any] = [
        key(
            counted_verdict(verdict, counts[verdict]), color=colour, marker=marker, linestyle="none"
        )
        for verdict, (colour, marker) in LOOKS.items()
        if counts[verdict]
    ]
    handles.append(Patch(color=BAND, label=f"within {100 * TOLERANCE:g} %"))
    handles += [Patch(color=WIDE_BAND, label=f"counts: a factor of {each:g}") for each in factors]
    finish(fig, handles, footer)
    return fig


TICKS = (0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 20, 50, 100)


def names_of(rows: Sequence[Target]) -> list[str]:
    """What stands at the axis for each row: matrix and figure; of very many, the figure alone."""
    both = [f"{row.matrix}: {row.figure}" if row.matrix else row.figure for row in rows]
    return both if len(set(both)) <= MAX_LINES else [row.figure for row in rows]


def over_study(row: Target) -> float | None:
    """The lab's median over the study's value; None where there is neither, or nothing to divide
    by. A time that is endless is infinite.
    """
    reference = reference_of(row)
    if row.got is None or row.verdict not in LOOKS or not reference or reference < 0:
        return None
    return max(0.0, row.got.median / reference)


def against_caption(rows: Sequence[Target], called: str) -> str:
    """What the figure shows, and what it cannot."""
    shown = sum(over_study(row) is not None for row in rows)
    missing = len(rows) - shown
    said = (
        f"Lab over {called}, a dot per published number: {shown} of {len(rows)}. A number is the"
        " median of its runs. One with a band of its own is judged by that, and divided by the"
        " value or, without one, by the band's middle; an arrow lies further out."
    )
    if missing:
        said += f" {missing} {'has' if missing == 1 else 'have'} no run that counts, or nothing to"
        said += " divide by."
    return said
