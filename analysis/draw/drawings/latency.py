"""The round trip and the bottleneck's queue while the load ran, by condition."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from analysis.draw.levels import (
    NO_CONTROL,
    by_condition,
    ccs_of,
    conditions_of,
    factor_heading,
    one_row,
)
from analysis.draw.marks import (
    cc_handles,
    degraded_handles,
    draw_point,
    number,
    spread_handles,
)
from analysis.draw.plain import where_words
from analysis.draw.registry import Answer, Drawing, Picture, Sheet, Sweep
from analysis.draw.sentences import others_against_base
from analysis.draw.style import (
    FAINT,
    INK,
    WIDE,
    cc_colour,
    finish,
    new_figure,
    plain_log,
    styled,
    thousands,
    wrapped,
)
from analysis.judge.statistics import is_known
from analysis.judge.table import cc_name, delay

# (what is drawn, its median's column, its 95 %'s column)
PANELS = (
    ("Round trip under load (ms)", "srtt_median_ms", "srtt_p95_ms"),
    ("Bottleneck's queue (ms)", "queue_delay_median_ms", "queue_delay_p95_ms"),
)
# A queue of less than this is as good as none, and a log axis has no place for none.
LEAST_MS = 0.1
NAME_WIDTH = 24


@styled
def plot_latency(table: pd.DataFrame, footer: str = "", *, title: str = "") -> Figure:
    """A row per condition, the congestion controls one below the other: the median as a point, and
    a line from it to what 95 % of the time did not exceed; the idle round trip as a grey line.
    """
    ccs, factors = ccs_of(table), conditions_of(table)
    rows = list(by_condition(table, factors))
    step = 0.7 / max(1, len(ccs))
    drawn, axes = new_figure(
        1.6 + (0.22 + 0.17 * len(ccs)) * max(2, len(rows)), 1, len(PANELS), sharey=True
    )
    for ax, (heading, median, p95) in zip(axes[0], PANELS, strict=True):
        scale_axis(ax, table, median, p95)
        for y, (_, cells) in enumerate(rows):
            if y % 2:
                ax.axhspan(y - 0.5, y + 0.5, color="#f4f5f7", zorder=0, linewidth=0)
            if median == "srtt_median_ms":
                draw_idle(ax, y, cells)
            for place, cc in enumerate(ccs):
                row = one_row(cells, cc=cc)
                if row is not None:
                    draw_delays(ax, y + (place - (len(ccs) - 1) / 2) * step, row, median, p95)
        ax.set_xlabel(heading)
        ax.set_ylim(len(rows) - 0.5, -0.5)
        ax.grid(False, axis="y")
    axes[0, 0].set_yticks(range(len(rows)), [wrapped(words, NAME_WIDTH) for words, _ in rows])
    if len(factors) == 1:
        axes[0, 0].set_ylabel(factor_heading(factors[0]))
    handles = [
        *cc_handles(ccs),
        Line2D([], [], color=INK, marker="|", markersize=8, linewidth=1.0, label="to the 95 %"),
        Line2D([], [], color=FAINT, linestyle="--", linewidth=1.2, label="idle round trip"),
        *less_handles(axes[0]),
        *spread_handles(table, "srtt_median_ms"),
        *degraded_handles(table),
    ]
    finish(drawn, handles, footer, title)
    return drawn


def scale_axis(ax: Axes, table: pd.DataFrame, median: str, p95: str) -> None:
    """The x axis of one panel: from 0, or logarithmic where the values lie far apart."""
    values = [float(value) for value in (*table[median], *table[p95]) if is_known(value)]
    if median == "srtt_median_ms":
        values += [each for _, row in table.iterrows() for each in idle_ms_of(row)]
    top = max(values, default=1.0)
    seen = [value for value in values if value >= LEAST_MS]
    if not seen or top / min(seen) <= WIDE:
        ax.set_xlim(0, max(top, LEAST_MS) * 1.08)
        thousands(ax.xaxis)
        return
    ax.set_xscale("log")
    low, high = min(seen) / 1.5, top * 1.5
    ax.set_xlim(low, high)
    plain_log(ax.xaxis, low, high, most=5)


def idle_ms_of(row: pd.Series) -> list[float]:
    """The idle round trips of a cell's flows, the shortest first."""
    names = [
        name
        for name in row.index
        if name.startswith("rtt:") and row[f"cc:{name[4:]}"] not in NO_CONTROL
    ]
    return sorted({float(row[name]) for name in names if is_known(row[name])}) or [row["rtt_ms"]]


def draw_idle(ax: Axes, y: float, cells: pd.DataFrame) -> None:
    """The idle round trips of a condition's cells, across its row."""
    for idle_ms in sorted({each for _, row in cells.iterrows() for each in idle_ms_of(row)}):
        ax.plot(
            [idle_ms, idle_ms],
            [y - 0.5, y + 0.5],
            color=FAINT,
            linestyle="--",
            linewidth=1.2,
            label="idle",
            zorder=2,
        )


def draw_delays(ax: Axes, y: float, row: pd.Series, median: str, p95: str) -> None:
    """One cell's median and 95 %. What is too short for a log axis stands at its edge."""
    values = [number(row, median), number(row, p95)]
    if not all(is_known(value) for value in values):
        return
    least = ax.get_xlim()[0]
    ends = [max(least, value) for value in values]
    colour = cc_colour(row["cc"])
    ax.plot(ends, [y, y], color=colour, linewidth=1.3, zorder=3, label="to the 95 %")
    ax.plot([ends[1]], [y], color=colour, marker="|", markersize=8, zorder=3, label="95 %")
    if values[0] > least:
        draw_point(ax, y, row, median, colour, f"lab {row['cc']}", flat=True)
    else:
        edge = {"marker": "<", "markersize": 5, "clip_on": False, "zorder": 5}
        ax.plot([least], [y], color=colour, label="less", **edge)


def less_handles(axes: Sequence[Axes]) -> list[Line2D]:
    """The legend's entry for medians that are too short for their axis, if there are any."""
    if not any(line.get_label() == "less" for ax in axes for line in ax.lines):
        return []
    style = {"color": INK, "marker": "<", "markersize": 5, "linestyle": "none"}
    return [Line2D([], [], label="a median left of the axis", **style)]


def draw(sheet: Sheet) -> Iterator[Picture]:
    """One figure."""
    yield Picture(plot_latency(sheet.rows, sheet.footer, title=sheet.title))


def known_rows(table: pd.DataFrame) -> pd.DataFrame:
    """The cells whose runs sampled a round trip or a queue."""
    known = table["srtt_median_ms"].notna() | table["queue_delay_median_ms"].notna()
    return table[(table["n"] > 0) & known].reset_index(drop=True)


def says(sweep: Sweep, table: pd.DataFrame) -> Iterator[Answer]:
    """How much each congestion control adds to the idle round trip, and how they compare."""
    rows = known_rows(table)
    said = [*added_sentences(rows), *compared_sentences(rows)]
    if said:
        yield Answer(f"{sweep.title}: the round trip under load", tuple(said))


def added_sentences(rows: pd.DataFrame) -> Iterator[str]:
    """Of each congestion control the least and the most that it adds."""
    for cc in ccs_of(rows):
        own = rows[(rows["cc"] == cc) & rows["srtt_median_ms"].notna()]
        idle = np.array([idle_ms_of(row)[0] for _, row in own.iterrows()])
        added = own["srtt_median_ms"].to_numpy(float) - idle
        if not len(own):
            continue
        least, most = own.iloc[int(np.argmin(added))], own.iloc[int(np.argmax(added))]
        name = cc_name(cc)
        words = (
            f"{name} adds most{where_of(most)}: the median round trip is"
            if len(own) > 1
            else f"{name}{where_of(most)}: the median round trip is"
        )
        words += (
            f" {delay(most['srtt_median_ms'])} ms, 95 % of the time it is no longer than"
            f" {delay(most['srtt_p95_ms'])} ms, and idle it is"
            f" {' or '.join(delay(each) for each in idle_ms_of(most))} ms."
        )
        if len(own) > 1:
            words += f" It adds least{where_of(least)}: {delay(max(0.0, added.min()))} ms."
        yield words


def where_of(row: pd.Series) -> str:
    """A cell's place without its congestion control, after a space; "" where nothing else is told:
    " at 4 BDP of buffer", " through gost+ws".
    """
    told = (cc_name(row["cc"]), row["matrix"])  # without any factor a cell is called by its matrix
    parts = [part for part in row["cell"].split(", ") if part not in told]
    if not parts:
        return ""
    lead = "tunnel" if parts[0] == row["tunnel"] else ""
    return f" {where_words(', '.join(parts), lead)}"


def compared_sentences(rows: pd.DataFrame) -> Iterator[str]:
    """Every other congestion control against the base: where its median round trip is shorter."""
    for base, other in others_against_base(rows):
        pairs = pairs_of(rows, base, other)
        shorter = [pair for pair in pairs if pair[1] < pair[0]]
        if pairs:
            ratios = sorted(after / before for before, after in pairs)
            yield (
                f"{cc_name(other)}'s median round trip is shorter than {cc_name(base)}'s in"
                f" {len(shorter)} of {len(pairs)} cells that both have;"
                f" it is {ratio_words(ratios[0], ratios[-1])} times as long."
            )


def ratio_words(least: float, most: float) -> str:
    """From the least to the most; one number where they look alike."""
    low, high = f"{least:.2f}", f"{most:.2f}"
    return low if low == high else f"{low} to {high}"


def pairs_of(rows: pd.DataFrame, base: str, other: str) -> Sequence[tuple[float, float]]:
    """The median round trips of two congestion controls in the same conditions."""
    found = []
    for _, cells in by_condition(rows, conditions_of(rows)):
        ends: list[Any] = [one_row(cells, cc=cc) for cc in (base, other)]
        values = [number(row, "srtt_median_ms") for row in ends if row is not None]
        if len(values) == 2 and all(is_known(value) for value in values):
            found.append((values[0], values[1]))
    return found


DRAWING = Drawing(
    "latency",
    caption=(
        "Delays while the load ran, by condition. Points are what half of the time did not exceed,"
        " lines end at what 95 % of it did not: on the left the smoothed round trip of the sockets"
        " that send across the WAN, dashed the idle one; on the right the wait in the bottleneck's"
        " queue."
    ),
    draw=draw,
    rows=known_rows,
    needs="a run that counts and sampled its sockets",
    says=says,
)
