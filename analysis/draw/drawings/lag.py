"""Goodput beside the ping under load and what was sent again, by condition: what one costs the
others.
"""

from __future__ import annotations

from collections.abc import Iterator

import pandas as pd
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import FuncFormatter

from analysis.draw.drawings.latency import draw_delays, draw_idle, scale_axis
from analysis.draw.levels import by_condition, ccs_of, conditions_of, factor_heading, one_row
from analysis.draw.marks import cc_handles, degraded_handles, draw_point, number, spread_handles
from analysis.draw.registry import Answer, Drawing, Picture, Sheet, Sweep
from analysis.draw.style import (
    FAINT,
    INK,
    cc_colour,
    finish,
    new_figure,
    styled,
    thousands,
    wrapped,
)
from analysis.judge.statistics import is_known
from analysis.judge.table import NBSP, delay, rate

NAME_WIDTH = 24
MEDIAN, P95 = "ping_median_ms", "ping_p95_ms"
RESENT = "wan_share"


@styled
def plot_lag(table: pd.DataFrame, footer: str = "", *, title: str = "") -> Figure:
    """A row per condition, the congestion controls one below the other: on the left the goodput,
    then the ping's median as a point with a line to what 95 % of them did not exceed, and on the
    right, where the runs' own connections cross the path, the share that was sent again.
    """
    ccs, factors = ccs_of(table), conditions_of(table)
    rows = list(by_condition(table, factors))
    step = 0.7 / max(1, len(ccs))
    knows_resent = table[RESENT].notna().any()
    drawn, axes = new_figure(
        1.6 + (0.22 + 0.17 * len(ccs)) * max(2, len(rows)), 1, 2 + knows_resent, sharey=True
    )
    goodput, ping, *others = axes[0]
    goodput.set_xlim(0, max([1e-3, *table["goodput"].dropna()]) * 1.08)
    thousands(goodput.xaxis)
    scale_axis(ping, table, MEDIAN, P95)
    for resent in others:
        top = max([1e-3, *table[RESENT].dropna()])
        resent.set_xlim(-0.04 * top, 1.08 * top)  # what has sent nothing again is seen whole
        resent.xaxis.set_major_formatter(FuncFormatter(lambda share, _: f"{100 * share:g}"))
        resent.set_xlabel("Sent again (%)")
    for y, (_, cells) in enumerate(rows):
        for ax in axes[0] if y % 2 else ():
            ax.axhspan(y - 0.5, y + 0.5, color="#f4f5f7", zorder=0, linewidth=0)
        draw_idle(ping, y, cells)
        for place, cc in enumerate(ccs):
            row = one_row(cells, cc=cc)
            if row is None:
                continue
            at = y + (place - (len(ccs) - 1) / 2) * step
            if is_known(number(row, "goodput")):
                draw_point(goodput, at, row, "goodput", cc_colour(cc), f"lab {cc}", flat=True)
            draw_delays(ping, at, row, MEDIAN, P95)
            for resent in others:
                draw_point(resent, at, row, RESENT, cc_colour(cc), f"lab {cc}", flat=True)
    goodput.set_xlabel("Goodput (Mbit/s)")
    ping.set_xlabel("Ping under load (ms)")
    for ax in axes[0]:
        ax.set_ylim(len(rows) - 0.5, -0.5)
        ax.grid(False, axis="y")
    goodput.set_yticks(range(len(rows)), [wrapped(words, NAME_WIDTH) for words, _ in rows])
    if len(factors) == 1:
        goodput.set_ylabel(factor_heading(factors[0]))
    handles = [
        *cc_handles(ccs),
        Line2D([], [], color=INK, marker="|", markersize=8, linewidth=1.0, label="to the 95 %"),
        Line2D([], [], color=FAINT, linestyle="--", linewidth=1.2, label="idle round trip"),
        *spread_handles(table, MEDIAN),
        *degraded_handles(table),
    ]
    finish(drawn, handles, footer, title)
    return drawn


def known_rows(table: pd.DataFrame) -> pd.DataFrame:
    """The cells whose runs pinged."""
    return table[(table["n"] > 0) & table[MEDIAN].notna()].reset_index(drop=True)


def draw(sheet: Sheet) -> Iterator[Picture]:
    """One figure."""
    yield Picture(plot_lag(sheet.rows, sheet.footer, title=sheet.title))


def says(sweep: Sweep, table: pd.DataFrame) -> Iterator[Answer]:
    """Where a ping waits the least and the longest, and what goodput goes with each."""
    rows = known_rows(table)
    if len(rows) < 2:
        return
    ends = [rows.loc[rows[P95].idxmin()], rows.loc[rows[P95].idxmax()]]
    said = [
        f"A loaded ping is {words} in {row['cell']}: 95{NBSP}% take no longer than"
        f" {delay(row[P95])}{NBSP}ms, at {rate(row['goodput'])}{NBSP}Mbit/s."
        for words, row in zip(("shortest", "longest"), ends, strict=True)
    ]
    yield Answer(f"{sweep.title}: what goodput costs in waiting", tuple(said))


DRAWING = Drawing(
    "lag",
    caption=(
        "Goodput, the ping under load and what was sent again across the path, by condition. Of the"
        " ping points are what half did not exceed, lines end at what 95 % did not; dashed is the"
        " idle round trip."
    ),
    draw=draw,
    rows=known_rows,
    needs="a ping flow and a run that counts",
    says=says,
)
