"""Summarise a matrix per cell: goodput, delays under load and verdict, for the terminal."""

import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from statistics import median
from typing import TYPE_CHECKING, Any, TextIO

from gostlab import results
from gostlab.results import metrics
from gostlab.results.coexistence import Competitor, Contest
from gostlab.scheduler.queue import Finished, by_cell, distinct
from gostlab.spec.checks import VERDICTS
from gostlab.spec.labels import cell_label

if TYPE_CHECKING:
    from rich.table import Table

    from gostlab.console import Console

# Maximum numbers of table rows and reasons on a terminal; the report has all of them.
MAX_ROWS = 40
MAX_REASONS = 12
WIDTH = 160  # columns of output that is no terminal

# Verdicts that come with reasons.
EXPLAINED = ("degraded", "invalid")


@dataclass(frozen=True)
class Scatter:
    """Represent the distribution of the values of a cell's runs."""

    interval: tuple[float, float] | None  # 95 % interval of the median, or None
    states: tuple[metrics.RunCluster, ...]  # clusters; empty if there is only one


ScatterOf = Callable[[Sequence[float]], Scatter]


@dataclass(frozen=True)
class Reason:
    """Represent the reason why a run is degraded or invalid."""

    verdict: str  # one of EXPLAINED
    why: str


@dataclass(frozen=True)
class CellSummary:
    """Represent the summary of a cell's runs that count.

    A delay is the median over the runs of each run's own median or 95th percentile over time.
    """

    matrix: str
    factors: Mapping[str, Any]
    runs: int
    counted: int  # number of distinct runs that count
    verdict: str  # worst verdict of the runs, or how the first failed run ended
    reasons: tuple[Reason, ...]  # one per check of degraded or invalid runs
    goodput_bps: float | None
    interval_bps: tuple[float, float] | None
    states_bps: tuple[metrics.RunCluster, ...]  # empty if there is only one cluster
    goodputs_bps: tuple[float, ...]  # goodput of every run that counts
    wan_resent: metrics.Retransmissions | None  # counts of the run with the median share
    idle_rtt_ms: float | None
    srtt_ms: metrics.Spread | None
    queue_delay_ms: metrics.Spread | None
    # packets lost on the path, if no socket counts retransmissions
    path_lost: metrics.Retransmissions | None = None
    # goodput of udp flows, if the goodput of other flows excludes it
    udp_beside_bps: float | None = None
    both_directions: bool = False  # the goodput is the sum of two directions' flows
    copies: int = 0  # number of runs that would count but duplicate another run
    contests: tuple[Contest, ...] = ()  # one per run that counts, if flows compete

    @property
    def path_rtt_ms(self) -> metrics.Spread | None:
        """Return the path's RTT with queueing delay, if no socket's RTT is known."""
        if self.srtt_ms or self.queue_delay_ms is None or self.idle_rtt_ms is None:
            return None
        waited = self.queue_delay_ms
        return metrics.Spread(self.idle_rtt_ms + waited.median, self.idle_rtt_ms + waited.p95)

    @property
    def rate_words(self) -> str:
        """Format the goodput in Mbit/s, or that of every cluster of runs."""
        return metrics.states_words(self.states_bps, mbit) or mbit(self.goodput_bps)

    @property
    def spread_words(self) -> str:
        """Format the spread of the runs: an interval, identical, clusters; else an empty string."""
        if self.states_bps:
            return f"{len(self.states_bps)} states"
        if metrics.are_identical(self.goodputs_bps):
            return metrics.identical_words(self.counted)
        if self.interval_bps is None:
            return ""
        return " – ".join(map(mbit, self.interval_bps))

    @property
    def flow_names(self) -> list[str]:
        """Return the names of the competing flows."""
        return list(dict.fromkeys(flow.name for contest in self.contests for flow in contest.flows))

    def competitors(self, name: str) -> list[Competitor]:
        """Return the results of a competing flow, of each run."""
        return [flow for contest in self.contests for flow in contest.flows if flow.name == name]

    @property
    def label(self) -> str:
        """Return the cell's levels as people write them: 16 streams, gost+ws, bbr."""
        return cell_label(self.factors) or self.matrix


def cell_summaries(ends: Iterable[Finished], scatter_of: ScatterOf) -> list[CellSummary]:
    """Summarise every cell, in the order of its first run; reads samples. Raises OSError."""
    return [summarise(runs, scatter_of) for runs in by_cell(ends).values()]


def summarise(runs: Sequence[Finished], scatter_of: ScatterOf) -> CellSummary:
    counted = distinct(runs)
    goodputs = [value for end in counted if (value := metrics.goodput_bps(end.folder)) is not None]
    delays = [delay for end in counted if (delay := metrics.latency(end.folder)) is not None]
    scatter = scatter_of(goodputs)
    retransmissions = [
        counts for end in counted if (counts := metrics.wan_resent(end.folder)) is not None
    ]
    lost = [metrics.path_lost(end.folder) for end in counted] if not retransmissions else []
    udp_rates = [
        rate for end in counted if (rate := metrics.udp_beside_bps(end.folder)) is not None
    ]
    loading = [flow for flow in runs[0].run.flows if flow.kind not in ("udp", "ping")]
    return CellSummary(
        matrix=runs[0].run.matrix,
        factors=runs[0].run.factors,
        runs=len(runs),
        counted=len(counted),
        verdict=verdict_of(runs),
        reasons=reasons_of(runs),
        goodput_bps=median(goodputs) if goodputs else None,
        interval_bps=scatter.interval,
        states_bps=scatter.states,
        goodputs_bps=tuple(goodputs),
        udp_beside_bps=median(udp_rates) if udp_rates else None,
        both_directions=len({flow.direction for flow in loading or runs[0].run.flows}) > 1,
        wan_resent=middle(retransmissions),
        path_lost=middle([losses for losses in lost if losses is not None]),
        idle_rtt_ms=delays[0].idle_rtt_ms if delays else None,
        srtt_ms=typical(delay.srtt_ms for delay in delays),
        queue_delay_ms=typical(delay.queue_delay_ms for delay in delays),
        copies=sum(end.counts for end in runs) - len(counted),
    )


def verdict_of(runs: Sequence[Finished]) -> str:
    """Return a cell's verdict: the worst of its runs, or how the first failed run ended."""
    ended_otherwise = [str(end.outcome) for end in runs if end.outcome != "ok"]
    if ended_otherwise:
        return ended_otherwise[0]
    verdicts = [end.verdict for end in runs if end.verdict in VERDICTS]
    return max(verdicts, key=VERDICTS.index) if len(verdicts) == len(runs) else "no verdict"


def reasons_of(runs: Sequence[Finished]) -> tuple[Reason, ...]:
    """Return the first reason of every check by which runs are degraded or invalid."""
    reasons: dict[tuple[str, str], Reason] = {}
    for end in runs:
        verdict = str(end.verdict)
        checks = (results.read_object(end.folder / "fidelity.json") or {}).get("checks") or ()
        listed = checks if verdict in EXPLAINED and isinstance(checks, list) else ()
        for check in listed:
            if isinstance(check, dict) and check.get("verdict") == verdict:
                name = str(check.get("name"))
                why = str(check.get("reason") or name)
                reasons.setdefault((verdict, name), Reason(verdict, why))
    return tuple(reasons.values())


def middle(items: Sequence[metrics.Retransmissions]) -> metrics.Retransmissions | None:
    """Return the run with the median share; of an even number the lower of the two."""
    ordered = sorted(items, key=lambda item: item.share)
    return ordered[(len(ordered) - 1) // 2] if ordered else None


def typical(spreads: Iterable[metrics.Spread | None]) -> metrics.Spread | None:
    """Return the median over several runs of their medians and percentiles, or None."""
    known = [item for item in spreads if item is not None]
    if not known:
        return None
    return metrics.Spread(median(item.median for item in known), median(item.p95 for item in known))


def ratios(cells: Sequence[CellSummary], first: Mapping[str, str]) -> dict[int, float]:
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


def without_cc(cell: CellSummary) -> tuple[str, tuple[tuple[str, str], ...]]:
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


def print_summary(cells: Sequence[CellSummary], first: Mapping[str, str], file: TextIO) -> None:
    """Print a table per matrix, then the reasons for degraded and invalid cells."""
    console = console_on(file)
    by_index = ratios(cells, first)
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


def has_udp(cells: Iterable[CellSummary]) -> bool:
    """Return whether a cell has udp flows next to others, which get a column of their own."""
    return any(cell.udp_beside_bps is not None for cell in cells)


def rate_heading(cells: Sequence[CellSummary]) -> str:
    """Return the heading of a goodput column; it names directions and excluded UDP flows."""
    both = ", both directions" if any(cell.both_directions for cell in cells) else ""
    return f"Mbit/s{both}{', without UDP' if has_udp(cells) else ''}"


def new_table(matrix: str, first_cc: str | None, cells: Sequence[CellSummary] = ()) -> "Table":
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
    cell: CellSummary, ratio: float | None, *, compares: bool, with_udp: bool = False
) -> list[str]:
    """Return a cell's table row, with – for a missing value."""
    ratio_text = "–" if ratio is None else f"{ratio:.2f}"
    return [
        cell.label,
        str(cell.counted) if cell.counted == cell.runs else f"{cell.counted} of {cell.runs}",
        cell.rate_words,
        cell.spread_words or "–",
        *([ratio_text] if compares else []),
        *([mbit(cell.udp_beside_bps)] if with_udp else []),
        rtt_words(cell),
        delay_text(cell.queue_delay_ms),
        cell.verdict,
    ]


def mbit(bps: float | None) -> str:
    """Format a rate in Mbit/s with three significant digits: 0.233, 4.00, 27.9, 1830."""
    if bps is None:
        return "–"
    value = bps / 1e6
    return f"{value:.0f}" if value >= 99.95 else f"{value:#.3g}"


def delay_text(delay: metrics.Spread | None) -> str:
    return "–" if delay is None else f"{ms(delay.median)}, {ms(delay.p95)}"


def ms(value: float) -> str:
    """Format a time in whole milliseconds, or with two digits below ten: 0.42, 8.1."""
    return f"{value:.0f}" if value >= 9.95 or not value else f"{value:.2g}"


def rtt_words(cell: CellSummary) -> str:
    """Format median and 95th percentile of the RTT; ≈ marks the path's RTT with its queue."""
    about = cell.path_rtt_ms
    return delay_text(cell.srtt_ms) if about is None else f"≈ {delay_text(about)}"


def reason_lines(cells: Iterable[CellSummary]) -> list[str]:
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


def copies_line(cell: CellSummary) -> str:
    return (
        f"n = {cell.counted}: {cell.label}: {cell.copies} more of its runs are copies, sample by"
        " sample: without losses or jitter, repetitions differ only in their starts (start_spread)"
    )
