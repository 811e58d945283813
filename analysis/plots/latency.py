"""Plot RTT and bottleneck queue under load by condition."""

from collections.abc import Iterator, Sequence
from functools import partial
from typing import Any, Literal

import numpy as np
import pandas as pd
from matplotlib.axes import Axes

from gostlab.analysis.plotting import facet, factors
from gostlab.analysis.plotting.marks import Place, cc_handles, draw_point, number
from gostlab.analysis.plotting.plot import Drawing, Sheet, Sweep, told, valid_rows
from gostlab.analysis.plotting.sentences import others_against_base, where_words
from gostlab.analysis.plotting.style import FAINT, INK, WIDE, key, log_axis, thousands, wrapped
from gostlab.analysis.stats.statistics import is_known
from gostlab.analysis.stats.text_table import cc_name, delay

# Minimum queue on a log axis, which has no zero.
MIN_MS = 0.1
NAME_WIDTH = 24
# Styles of the idle RTT, the 95 % quantile, and a median beyond the axis.
IDLE: dict[str, Any] = {"color": FAINT, "linestyle": "--", "linewidth": 1.2}
TO_P95: dict[str, Any] = {"marker": "|", "markersize": 8}
LESS: dict[str, Any] = {"marker": "<", "markersize": 5}
SRTT, SRTT_P95 = "srtt_median_ms", "srtt_p95_ms"


def scale_axis(ax: Axes, table: pd.DataFrame, median: str, p95: str, *, idle: bool) -> None:
    """Set a panel's x axis from 0, or logarithmic for a wide range."""
    values = facet.known_values(table, median, p95)
    if idle:
        values += [item for _, row in table.iterrows() for item in idle_ms_of(row)]
    top = max(values, default=1.0)
    seen = [value for value in values if value >= MIN_MS]
    if not seen or top / min(seen) <= WIDE:
        ax.set_xlim(0, max(top, MIN_MS) * 1.08)
        thousands(ax.xaxis)
        return
    log_axis(ax, "x", min(seen) / 1.5, top * 1.5, most=5)


def idle_ms_of(row: pd.Series) -> list[float]:
    """Return the idle RTTs of a cell's flows, shortest first."""
    names = [
        name
        for name in row.index
        if name.startswith("rtt:") and row[f"cc:{name[4:]}"] not in factors.NO_CONTROL
    ]
    return sorted({float(row[name]) for name in names if is_known(row[name])}) or [row["rtt_ms"]]


def draw_delays(place: Place, line: facet.FacetSeries, p95: str) -> None:
    """Plot one cell's median and 95 %; values too small for a log axis are at its edge."""
    values = [number(place.row, name) for name in (place.figure, p95)]
    if not all(map(is_known, values)):
        return
    least = place.ax.get_xlim()[0]
    ends = [max(least, value) for value in values]
    style_of_cell = {"color": place.colour}
    place.plot(ends, linewidth=1.3, zorder=3, label="to the 95 %", **style_of_cell)
    place.plot(ends[1:], zorder=3, label="95 %", **TO_P95, **style_of_cell)
    if values[0] > least:
        draw_point(place, line.name)
    else:
        place.plot([least], label="less", clip_on=False, zorder=5, **LESS, **style_of_cell)


def conditions(table: pd.DataFrame) -> list[facet.Group]:
    named = factors.by_condition(table, factors.varying_factors(table))
    return [(wrapped(text, NAME_WIDTH), rows) for text, rows in named]


def delays(
    groups: Sequence[facet.Group], label: str, median: str, p95: str, *, idle: bool
) -> facet.FacetPanel:
    """Return a panel of medians with lines to the 95 % quantile.

    idle: plot a condition's idle RTTs as grey lines.
    """

    def behind(ax: Axes) -> None:
        for y, (_, rows) in enumerate(groups) if idle else ():
            for idle_ms in sorted({item for _, row in rows.iterrows() for item in idle_ms_of(row)}):
                ax.plot([idle_ms, idle_ms], [y - 0.5, y + 0.5], label="idle", zorder=2, **IDLE)

    def scale(ax: Axes, way: Literal["x", "y"], table: pd.DataFrame) -> None:
        scale_axis(ax, table, median, p95, idle=median == SRTT)

    value = facet.Value(scale, median, partial(draw_delays, p95=p95), label)
    return facet.in_groups("", groups, value, behind=behind)


def panels(sheet: Sheet) -> list[facet.FacetPanel]:
    by_condition = conditions(sheet.rows)
    queue = ("Bottleneck's queue (ms)", "queue_delay_median_ms", "queue_delay_p95_ms")
    return [
        delays(by_condition, "Round trip under load (ms)", SRTT, SRTT_P95, idle=True),
        delays(by_condition, *queue, idle=False),
    ]


def delay_keys(sheet: Sheet, axes: np.ndarray) -> list[Any]:
    """Return the legend entries of lines and of clipped medians."""
    less = any(line.get_label() == "less" for ax in axes.flat for line in ax.lines)
    edge = key("a median left of the axis", color=INK, linestyle="none", **LESS)
    return [
        key("to the 95 %", color=INK, linewidth=1.0, **TO_P95),
        key("idle round trip", **IDLE),
        *([edge] if less else []),
    ]


# One row per condition, with stacked congestion controls.
BY_CONDITION = partial(
    facet.Facet,
    keys=cc_handles,
    more_keys=delay_keys,
    published=False,
    width=0.7,
    flat=True,
    striped=True,
    places=factors.only_condition,
    around_in=1.6,
    place_in=0.22,
    series_in=0.17,
    shape=facet.side_by_side,
    shared={"sharey": True},
)


def sampled_rows(table: pd.DataFrame) -> pd.DataFrame:
    """Return the cells with samples of RTT or queue."""
    known = table["srtt_median_ms"].notna() | table["queue_delay_median_ms"].notna()
    return valid_rows(table[known])


def under_load(sweep: Sweep, table: pd.DataFrame) -> Iterator[str]:
    """Describe the RTT that each congestion control adds, and compare them."""
    yield from added_sentences(sampled_rows(table))
    yield from compared_sentences(sampled_rows(table))


def added_sentences(rows: pd.DataFrame) -> Iterator[str]:
    """State the minimum and maximum RTT that each congestion control adds."""
    for cc in factors.ccs_of(rows):
        cc_rows = rows[(rows["cc"] == cc) & rows["srtt_median_ms"].notna()]
        idle = np.array([idle_ms_of(row)[0] for _, row in cc_rows.iterrows()])
        added = cc_rows["srtt_median_ms"].to_numpy(float) - idle
        if not len(cc_rows):
            continue
        least, most = cc_rows.iloc[int(np.argmin(added))], cc_rows.iloc[int(np.argmax(added))]
        text = (
            f"{cc_name(cc)}{' adds most' if len(cc_rows) > 1 else ''}{where_of(most)}: the median"
            f" round trip is {delay(most['srtt_median_ms'])} ms, 95 % of the time it is no longer"
            f" than {delay(most['srtt_p95_ms'])} ms, and idle it is"
            f" {' or '.join(delay(item) for item in idle_ms_of(most))} ms."
        )
        if len(cc_rows) > 1:
            text += f" It adds least{where_of(least)}: {delay(max(0.0, added.min()))} ms."
        yield text


def where_of(row: pd.Series) -> str:
    """Return a cell's location without congestion control, after a space, or "".

    Examples: " at 4 BDP of buffer", " through gost+ws".
    """
    omitted = (
        cc_name(row["cc"]),
        row["matrix"],
    )  # a cell without factors is labelled by its matrix
    parts = [part for part in row["cell"].split(", ") if part not in omitted]
    if not parts:
        return ""
    lead = "tunnel" if parts[0] == row["tunnel"] else ""
    return f" {where_words(', '.join(parts), lead)}"


def compared_sentences(rows: pd.DataFrame) -> Iterator[str]:
    """State where each congestion control has a shorter median RTT than the base."""
    conditions = [cells for _, cells in factors.by_condition(rows, factors.varying_factors(rows))]
    for base, other in others_against_base(rows):
        ratios = []
        for cells in conditions:
            ends = [factors.one_row(cells, cc=cc) for cc in (base, other)]
            before, after = (np.nan if row is None else number(row, SRTT) for row in ends)
            ratios += [after / before] if is_known(after / before) else []
        if ratios:
            low, high = f"{min(ratios):.2f}", f"{max(ratios):.2f}"
            yield (
                f"{cc_name(other)}'s median round trip is shorter than {cc_name(base)}'s in"
                f" {sum(ratio < 1 for ratio in ratios)} of {len(ratios)} cells that both have;"
                f" it is {low if low == high else f'{low} to {high}'} times as long."
            )


DRAWING = Drawing(
    "latency",
    caption=(
        "Delays while the load ran, by condition. A point is the median over time, its line ends at"
        " the 95 % value. Left: the smoothed round trip of the sockets that send across the WAN,"
        " dashed the idle one. Right: the wait in the bottleneck's queue."
    ),
    draw=BY_CONDITION(panels=panels),
    rows=sampled_rows,
    needs="a run that counts and sampled its sockets",
    says=told("{title}: the round trip under load", under_load),
)
