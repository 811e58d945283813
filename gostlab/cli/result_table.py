# SPDX-License-Identifier: MIT
"""Print results on the terminal, a row per cell with bars, or as CSV."""

import csv
import io
from collections.abc import Mapping, Sequence
from itertools import chain
from typing import TYPE_CHECKING, TextIO

from gostlab.registry.palette import cc_colour
from gostlab.scheduler import summary
from gostlab.scheduler.cell_result import CellResult

if TYPE_CHECKING:
    from rich.table import Table


BAR_CELLS = 14  # length of a full bar, in characters
RTT_CELLS = 10
# Below the first width the RTT has no bar; below the second there are no bars at all.
WIDE_ENOUGH, NARROW = 128, 100
WIDTH = 140  # columns of output that is no terminal
EIGHTHS = " ▏▎▍▌▋▊▉█"


def draw_bar(value: float, max_value: float, cells: int, *, blocks: bool = True) -> str:
    """Return a bar of `cells` characters at the maximum, of eighth blocks, or of #."""
    share = min(1.0, value / max_value) if max_value > 0 else 0.0
    if not blocks:
        return "#" * round(share * cells)
    eighths = max(1, round(8 * share * cells)) if value > 0 else 0
    return EIGHTHS[8] * (eighths // 8) + (EIGHTHS[eighths % 8] if eighths % 8 else "")


def print_answer(
    cells: Sequence[CellResult], first: Mapping[str, str], file: TextIO, more: Sequence[str] = ()
) -> None:
    """Print the table, the reasons for verdicts, the fastest and slowest cell, and more lines."""
    console = summary.console_on(file, WIDTH)
    blocks = "utf" in (console.encoding or "").lower()
    console.print(answer_table(cells, first, console.width, blocks=blocks))
    for line in [*fastest_lines(cells), *summary.reason_lines(cells), *more]:
        console.print(line, soft_wrap=True)


def answer_table(
    cells: Sequence[CellResult], first: Mapping[str, str], width: int, *, blocks: bool
) -> "Table":
    """Return a table with a row per cell, with bars if the terminal is wide enough."""
    from rich.text import Text

    table = summary.plain_table()
    times = summary.ratios_to_first_cc(cells, first)
    max_bps = max((cell.goodput_bps or 0 for cell in cells), default=0)
    max_ms = max((cell.srtt_ms.median for cell in cells if cell.srtt_ms), default=0)
    rtt_bars, bars = width >= WIDE_ENOUGH, width >= NARROW
    table.add_column("", overflow="fold")
    if bars:
        table.add_column("goodput", no_wrap=True, min_width=BAR_CELLS)
    with_udp = summary.has_udp(cells)
    table.add_column(summary.rate_heading(cells), justify="right")
    table.add_column(spread_heading(cells), justify="right")
    if times:
        table.add_column(f"/ {next(iter(first.values()))}", justify="right", no_wrap=True)
    if with_udp:
        table.add_column("UDP", justify="right", no_wrap=True)
    if rtt_bars:
        table.add_column("RTT", no_wrap=True, min_width=RTT_CELLS)
    table.add_column("RTT, p95 ms", justify="right")
    table.add_column("resent, WAN", justify="right")
    table.add_column("verdict")
    for index, cell in enumerate(cells):
        row: list[str | Text] = [cell.label]
        if bars:
            drawn = draw_bar(cell.goodput_bps or 0, max_bps, BAR_CELLS, blocks=blocks)
            cc = cell.factors.get("cc")
            row.append(Text(drawn, style=cc_colour(cc) if isinstance(cc, str) else ""))
        row += [summary.format_goodput(cell), format_spread(cell)]
        if times:
            row.append(f"{times[index]:.2f}" if index in times else "–")
        row += [summary.format_mbit(cell.udp_beside_bps)] if with_udp else []
        if rtt_bars:
            row.append(Text(rtt_bar(cell, max_ms, blocks=blocks)))
        all_count = len(cell.counted) == len(cell.runs)
        counted = "" if all_count else f", {summary.format_counted(cell)} count"
        row += [summary.format_rtt(cell), format_retransmissions(cell), cell.verdict + counted]
        table.add_row(*row)
    return table


def rtt_bar(cell: CellResult, max_ms: float, *, blocks: bool) -> str:
    """Return a bar of the RTT under load: light the idle RTT, dark the increase."""
    if cell.srtt_ms is None or not max_ms:
        return ""
    filled = round(RTT_CELLS * cell.srtt_ms.median / max_ms)
    idle = min(filled, round(RTT_CELLS * (cell.idle_rtt_ms or 0) / max_ms))
    light, dark = "░█" if blocks else ".#"
    return light * idle + dark * (filled - idle)


def spread_heading(cells: Sequence[CellResult]) -> str:
    """Return the heading of the spread: an interval from six runs on, else minimum and maximum."""
    if any(cell.interval_bps for cell in cells):
        return "95 % interval"
    return "least – most" if any(len(cell.counted) > 1 for cell in cells) else "interval"


def format_spread(cell: CellResult) -> str:
    """Format the spread of the runs, or minimum, maximum and n below six runs."""
    spread_text, counted = summary.format_spread(cell), len(cell.counted)
    if spread_text:
        return spread_text
    if counted > 1:
        ends = " – ".join(summary.format_mbit(end(cell.goodputs_bps)) for end in (min, max))
        return f"{ends}, n = {counted}"
    return f"n = {counted}"


def format_retransmissions(cell: CellResult) -> str:
    """Format the WAN's retransmitted segments and their share, or the packets lost there."""
    if cell.wan_resent is None:
        lost = cell.path_lost
        return "–" if lost is None else f"lost {lost.segments:,} ({100 * lost.share:.2g} %)"
    share = 100 * cell.wan_resent.share
    return f"{cell.wan_resent.segments:,} ({share:.2g} %)" if cell.wan_resent.segments else "0"


def fastest_lines(cells: Sequence[CellResult]) -> list[str]:
    """Return a line on the fastest and slowest cell; empty for one cell."""
    known = [(cell.goodput_bps, cell) for cell in cells if cell.goodput_bps]
    if len(known) < 2:
        return []
    rates = [rate for rate, _ in known]
    (max_bps, fast), (min_bps, slow) = (known[rates.index(f(rates))] for f in (max, min))
    if max_bps / min_bps < 1.05:
        return ["All within 5 % of each other."]
    if fast.states_bps or slow.states_bps:
        return []  # a cell with several clusters has no single rate to rank
    ratio = max_bps / min_bps
    return [
        f"Fastest: {fast.label} with {summary.format_mbit(max_bps)} Mbit/s, {ratio:.1f} times the"
        f" slowest ({slow.label}: {summary.format_mbit(min_bps)})."
    ]


CSV_COLUMNS = (
    "runs runs_that_count goodput_mbit goodput_low_mbit goodput_high_mbit idle_rtt_ms"
    " srtt_median_ms srtt_p95_ms queue_delay_median_ms queue_delay_p95_ms wan_segments_resent"
    " wan_segments_sent verdict"
).split()


def to_csv(cells: Sequence[CellResult]) -> str:
    """Return CSV with a row per cell: its levels, then medians over its runs.

    Units stand in the headings. Low and high are the median's 95 % interval, empty below six runs.
    """
    rows: list[Row] = []
    for cell in cells:
        rates = (bps and bps / 1e6 for bps in (cell.goodput_bps, *(cell.interval_bps or NONE)))
        delays = (cell.srtt_ms, cell.queue_delay_ms)
        known = ((delay.median, delay.p95) if delay else NONE for delay in delays)
        resent = (cell.wan_resent.segments, cell.wan_resent.of) if cell.wan_resent else NONE
        numbers = (*rates, cell.idle_rtt_ms, *chain.from_iterable(known), *resent)
        rows.append((cell.factors, [len(cell.runs), len(cell.counted), *numbers, cell.verdict]))
    return csv_text([cell.factors for cell in cells], CSV_COLUMNS, rows)


NONE = (None, None)
Row = tuple[Mapping[str, object], Sequence[object]]  # a cell's factors and its values


def csv_text(cells: Sequence[Mapping[str, object]], columns: Sequence[str], rows: list[Row]) -> str:
    """Return rows as CSV, with a column for each factor of any cell; None is empty."""
    factors = list(dict.fromkeys(name for levels in cells for name in levels))
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow([*factors, *columns])
    for levels, values in rows:
        numbers = (f"{value:.6g}" if isinstance(value, float) else value for value in values)
        writer.writerow([*(levels.get(name) for name in factors), *numbers])
    return text.getvalue()
