# SPDX-License-Identifier: MIT
"""Print the cells of a matrix on the terminal: goodput, delays under load and verdict."""

import os
from collections.abc import Iterable, Mapping, Sequence
from itertools import islice
from typing import TYPE_CHECKING, TextIO

from gostlab.results import metrics
from gostlab.scheduler.cell_result import CellResult, Reason

if TYPE_CHECKING:
    from rich.table import Table

    from gostlab.console import Console

# Maximum numbers of table rows and reasons on a terminal; the report has all of them.
MAX_ROWS = 40
MAX_REASONS = 12
WIDTH = 160  # columns of output that is no terminal


def ratios_to_first_cc(cells: Sequence[CellResult], first: Mapping[str, str]) -> dict[int, float]:
    """Map a cell's index to its goodput relative to the first congestion control of its matrix.

    first: the first level of the factor `cc` of each matrix.
    """
    base = {
        without_cc(cell): cell.goodput_bps
        for cell in cells
        if str(cell.factors.get("cc")) == first.get(cell.matrix)
    }
    by_index = {}
    for index, cell in enumerate(cells):
        base_bps = base.get(without_cc(cell))
        if "cc" in cell.factors and base_bps and cell.goodput_bps is not None:
            by_index[index] = cell.goodput_bps / base_bps
    return by_index


def without_cc(cell: CellResult) -> tuple[str, tuple[tuple[str, str], ...]]:
    """Return a key that cells share if they differ only in the congestion control."""
    others = sorted((key, str(level)) for key, level in cell.factors.items() if key != "cc")
    return cell.matrix, tuple(others)


# -- on the terminal


def console_on(file: TextIO, width: int = WIDTH) -> "Console":
    """Return a console of the terminal's width, of `width` for a file, or of $COLUMNS."""
    from gostlab.console import Console

    columns = os.environ.get("COLUMNS", "")
    console_width = (
        None if file.isatty() else int(columns) if columns.isdecimal() and int(columns) else width
    )
    return Console(file=file, width=console_width, highlight=False, markup=False, emoji=False)


def plain_table() -> "Table":
    """Return an empty table with a line below its headings and no other."""
    from rich.box import SIMPLE_HEAD
    from rich.table import Table

    return Table(box=SIMPLE_HEAD, pad_edge=False, show_edge=False)


def print_summary(cells: Sequence[CellResult], first: Mapping[str, str], file: TextIO) -> None:
    """Print a table per matrix, then the reasons for degraded and invalid cells."""
    console = console_on(file)
    by_index = ratios_to_first_cc(cells, first)
    visible_cells = list(islice(enumerate(cells), MAX_ROWS))
    for matrix in dict.fromkeys(cell.matrix for _, cell in visible_cells):
        rows = [(index, cell) for index, cell in visible_cells if cell.matrix == matrix]
        matrix_cells = [cell for _, cell in rows]
        table = new_table(matrix, first.get(matrix), matrix_cells)
        for index, cell in rows:
            row = row_of(
                cell, by_index.get(index), compares=matrix in first, with_udp=has_udp(matrix_cells)
            )
            table.add_row(*row)
        console.print(table)
        console.print()
    if len(cells) > MAX_ROWS:
        console.print(f"and {len(cells) - MAX_ROWS} more cells: the report has all")
    lines = reason_lines(cells)
    for line in lines[:MAX_REASONS]:
        console.print(line)
    if len(lines) > MAX_REASONS:
        console.print(f"and {len(lines) - MAX_REASONS} more reasons: fidelity.json of each run")


def has_udp(cells: Iterable[CellResult]) -> bool:
    """Return whether a cell has udp flows next to others, which get a column of their own."""
    return any(cell.udp_beside_bps is not None for cell in cells)


def rate_heading(cells: Sequence[CellResult]) -> str:
    """Return the heading of a goodput column; it names directions and excluded UDP flows."""
    both = ", both directions" if any(cell.both_directions for cell in cells) else ""
    return f"Mbit/s{both}{', without UDP' if has_udp(cells) else ''}"


def new_table(matrix: str, first_cc: str | None, cells: Sequence[CellResult] = ()) -> "Table":
    """Return an empty table, with a ratio column if it compares congestion controls."""
    table = plain_table()
    table.add_column(matrix, overflow="fold")
    for heading in (
        "n",
        rate_heading(cells),
        "95 % interval",
        f"/ {first_cc}",
        *(["UDP"] if has_udp(cells) else []),
        "RTT, p95 ms",
        "queue, p95 ms",
    ):
        if first_cc or not heading.startswith("/ "):
            table.add_column(heading, justify="right")
    table.add_column("verdict")
    return table


def row_of(
    cell: CellResult, ratio: float | None, *, compares: bool, with_udp: bool = False
) -> list[str]:
    """Return a cell's table row, with – for a missing value."""
    ratio_text = "–" if ratio is None else f"{ratio:.2f}"
    return [
        cell.label,
        format_counted(cell),
        format_goodput(cell),
        format_spread(cell) or "–",
        *([ratio_text] if compares else []),
        *([format_mbit(cell.udp_beside_bps)] if with_udp else []),
        format_rtt(cell),
        format_delay(cell.queue_delay_ms),
        cell.verdict,
    ]


def format_counted(cell: CellResult) -> str:
    counted, runs = len(cell.counted), len(cell.runs)
    return str(counted) if counted == runs else f"{counted} of {runs}"


def format_goodput(cell: CellResult) -> str:
    """Format the goodput in Mbit/s, or that of every cluster of runs."""
    return metrics.format_clusters(cell.states_bps, format_mbit) or format_mbit(cell.goodput_bps)


def format_spread(cell: CellResult) -> str:
    """Format the spread of the runs: an interval, identical, clusters; else an empty string."""
    if cell.states_bps:
        return f"{len(cell.states_bps)} states"
    if metrics.are_identical(cell.goodputs_bps):
        return metrics.identical_words(len(cell.counted))
    if cell.interval_bps is None:
        return ""
    return " – ".join(map(format_mbit, cell.interval_bps))


def stopping_line(cell: CellResult) -> str:
    """Return a line on a cell whose interval is wider than its stopping rule allows."""
    repetitions, name = len(cell.runs), cell.runs[0].run.cell
    if cell.states_bps:
        detail = metrics.format_clusters(cell.states_bps, lambda bps: f"{bps / 1e6:.3g} Mbit/s")
        return f"in {len(cell.states_bps)} states after {repetitions}: {name}: {detail}"
    detail = f"({len(cell.goodputs_bps)} of its runs count)"
    if cell.halfwidth is not None:
        detail = f"± {100 * cell.halfwidth:.2g} %"
    return f"not narrow enough after {repetitions}: {name} {detail}"


def format_mbit(bps: float | None) -> str:
    """Format a rate in Mbit/s with three significant digits: 0.233, 4.00, 27.9, 1830."""
    if bps is None:
        return "–"
    value = bps / 1e6
    return f"{value:.0f}" if value >= 99.95 else f"{value:#.3g}"


def format_delay(delay: metrics.Spread | None) -> str:
    return "–" if delay is None else f"{format_ms(delay.median)}, {format_ms(delay.p95)}"


def format_ms(value: float) -> str:
    """Format a time in whole milliseconds, or with two digits below ten: 0.42, 8.1."""
    return f"{value:.0f}" if value >= 9.95 or not value else f"{value:.2g}"


def format_rtt(cell: CellResult) -> str:
    """Format median and 95th percentile of the RTT; ≈ marks the path's RTT with its queue."""
    about = cell.path_rtt_ms
    return format_delay(cell.srtt_ms) if about is None else f"≈ {format_delay(about)}"


def reason_lines(cells: Iterable[CellResult]) -> list[str]:
    """Return the reasons why cells are degraded or invalid, each once with its cells.

    Cells with duplicate runs get a line as well.
    """
    cells = list(cells)
    cells_of: dict[Reason, list[str]] = {}
    for cell in cells:
        for reason in cell.reasons:
            cells_of.setdefault(reason, []).append(f"{cell.matrix}: {cell.label}")
    lines = [
        f"{reason.verdict}: {'; '.join(labels)}: {reason.why}"
        for reason, labels in cells_of.items()
    ]
    return lines + [copies_line(cell) for cell in cells if cell.copies]


def copies_line(cell: CellResult) -> str:
    return (
        f"n = {len(cell.counted)}: {cell.label}: {cell.copies} more of its runs are copies, sample"
        " by sample: without losses or jitter, repetitions differ only in their starts"
        " (start_spread)"
    )
