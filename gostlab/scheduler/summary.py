"""A matrix in a table: each cell's goodput, delays under load and verdict, for the terminal."""

import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from itertools import islice
from statistics import median
from typing import Any, TextIO

from rich.box import SIMPLE_HEAD
from rich.table import Table

from gostlab import results
from gostlab.console import Console
from gostlab.results import metrics
from gostlab.results.coexistence import Competitor, Contest
from gostlab.scheduler.queue import Finished, by_cell, distinct
from gostlab.spec.checks import VERDICTS
from gostlab.spec.labels import cell_words

# What stands below each other on a terminal before somebody would rather read a report.
MAX_ROWS = 40
MAX_REASONS = 12
WIDTH = 160  # where there is no terminal to ask

# Verdicts that have reasons.
EXPLAINED = ("degraded", "invalid")


@dataclass(frozen=True)
class Scatter:
    """How the values of a cell's runs lie."""

    interval: tuple[float, float] | None  # holds their median 95 times of 100; None: none does
    states: tuple[metrics.RunCluster, ...]  # that they fall into; (): one


ScatterOf = Callable[[Sequence[float]], Scatter]


@dataclass(frozen=True)
class Reason:
    """Why a run is not simply ok."""

    verdict: str  # one of EXPLAINED
    why: str


@dataclass(frozen=True)
class CellSummary:
    """What the runs of a cell that count say together. A delay is the median over the runs of each
    run's own median or 95th percentile over time.
    """

    matrix: str
    factors: Mapping[str, Any]
    runs: int
    counted: int  # distinct ones
    verdict: str  # the worst of its runs', or how the first that does not count ended
    reasons: tuple[Reason, ...]  # of runs that are degraded or invalid, each check's once
    goodput_bps: float | None
    interval_bps: tuple[float, float] | None
    states_bps: tuple[metrics.RunCluster, ...]  # (): its runs are in one
    goodputs_bps: tuple[float, ...]  # of every run that counts
    wan_resent: metrics.Resent | None  # the median run's, by its share
    idle_rtt_ms: float | None
    srtt_ms: metrics.Spread | None
    queue_delay_ms: metrics.Spread | None
    # the same of what the path lost, where no socket resends
    path_lost: metrics.Resent | None = None
    # what udp flows got, which the goodput leaves out where there are others
    udp_beside_bps: float | None = None
    both_directions: bool = False  # the goodput is the sum of two directions' flows
    copies: int = 0  # more runs that would count, with the samples of another

    @property
    def path_rtt_ms(self) -> metrics.Spread | None:
        """The path's round trip with its queue, where no socket's own is known."""
        if self.srtt_ms or self.queue_delay_ms is None or self.idle_rtt_ms is None:
            return None
        waited = self.queue_delay_ms
        return metrics.Spread(self.idle_rtt_ms + waited.median, self.idle_rtt_ms + waited.p95)

    @property
    def rate_words(self) -> str:
        """Its goodput in Mbit/s; of runs in several states each one's."""
        return metrics.states_words(self.states_bps, mbit) or mbit(self.goodput_bps)

    @property
    def spread_words(self) -> str:
        """How its runs lie: an interval, identical, in states; "" where nothing can be said."""
        if self.states_bps:
            return f"{len(self.states_bps)} states"
        if metrics.are_identical(self.goodputs_bps):
            return metrics.identical_words(self.counted)
        if self.interval_bps is None:
            return ""
        return " – ".join(map(mbit, self.interval_bps))

    @property
    def label(self) -> str:
        """Its levels as people say them: 16 streams, gost+ws, bbr."""
        return cell_words(self.factors) or self.matrix


@dataclass(frozen=True)
class CompetitionSummary:
    """A cell whose flows compete, and what its runs that count came to."""

    cell: CellSummary
    runs: tuple[Contest, ...]

    def of(self, flow: str) -> list[Competitor]:
        return [each for run in self.runs for each in run.flows if each.name == flow]

    @property
    def names(self) -> list[str]:
        return list(dict.fromkeys(each.name for run in self.runs for each in run.flows))

    def to_json(self) -> dict[str, Any]:
        return {**asdict(self.cell), "contests": [asdict(run) for run in self.runs]}


def cell_summaries(ends: Iterable[Finished], scatter_of: ScatterOf) -> list[CellSummary]:
    """Every cell, in the order of its first run. Reads the runs' samples. Raises OSError."""
    return [summarise(runs, scatter_of) for runs in by_cell(ends).values()]


def summarise(runs: Sequence[Finished], scatter_of: ScatterOf) -> CellSummary:
    counted = distinct(runs)
    goodputs = [value for end in counted if (value := metrics.goodput_bps(end.folder)) is not None]
    delays = [delay for end in counted if (delay := metrics.latency(end.folder)) is not None]
    scatter = scatter_of(goodputs)
    resent = [found for end in counted if (found := metrics.wan_resent(end.folder)) is not None]
    lost = [metrics.path_lost(end.folder) for end in counted] if not resent else []
    beside = [rate for end in counted if (rate := metrics.udp_beside_bps(end.folder)) is not None]
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
        udp_beside_bps=median(beside) if beside else None,
        both_directions=len({flow.direction for flow in loading or runs[0].run.flows}) > 1,
        wan_resent=middle(resent),
        path_lost=middle([each for each in lost if each is not None]),
        idle_rtt_ms=delays[0].idle_rtt_ms if delays else None,
        srtt_ms=typical(delay.srtt_ms for delay in delays),
        queue_delay_ms=typical(delay.queue_delay_ms for delay in delays),
        copies=sum(end.counts for end in runs) - len(counted),
    )


def verdict_of(runs: Sequence[Finished]) -> str:
    """How a cell stands: what its worst run is called."""
    ended_otherwise = [str(end.outcome) for end in runs if end.outcome != "ok"]
    if ended_otherwise:
        return ended_otherwise[0]
    verdicts = [end.verdict for end in runs if end.verdict in VERDICTS]
    return max(verdicts, key=VERDICTS.index) if len(verdicts) == len(runs) else "no verdict"


def reasons_of(runs: Sequence[Finished]) -> tuple[Reason, ...]:
    """Why runs are degraded or invalid: the first reason of every check that says so."""
    found: dict[tuple[str, str], Reason] = {}
    for end in runs:
        verdict = str(end.verdict)
        checks = (results.read_object(end.folder / "fidelity.json") or {}).get("checks") or ()
        listed = checks if verdict in EXPLAINED and isinstance(checks, list) else ()
        for check in listed:
            if isinstance(check, dict) and check.get("verdict") == verdict:
                name = str(check.get("name"))
                why = str(check.get("reason") or name)
                found.setdefault((verdict, name), Reason(verdict, why))
    return tuple(found.values())


def middle(resent: Sequence[metrics.Resent]) -> metrics.Resent | None:
    """The run in the middle by its share; of an even number the lower one of the two."""
    ordered = sorted(resent, key=lambda each: each.share)
    return ordered[(len(ordered) - 1) // 2] if ordered else None


def typical(spreads: Iterable[metrics.Spread | None]) -> metrics.Spread | None:
    """The median over several runs of what each says; None where none does."""
    known = [each for each in spreads if each is not None]
    if not known:
        return None
    return metrics.Spread(median(each.median for each in known), median(each.p95 for each in known))


def ratios(cells: Sequence[CellSummary], first: Mapping[str, str]) -> dict[int, float]:
    """Goodput over that of the same cell with the first congestion control, by the cell's place.

    first: of each matrix, the first level of its factor `cc`.
    """
    base = {
        without_cc(cell): cell.goodput_bps
        for cell in cells
        if str(cell.factors.get("cc")) == first.get(cell.matrix)
    }
    found = {}
    for index, cell in enumerate(cells):
        below = base.get(without_cc(cell))
        if "cc" in cell.factors and below and cell.goodput_bps is not None:
            found[index] = cell.goodput_bps / below
    return found


def without_cc(cell: CellSummary) -> tuple[str, tuple[tuple[str, str], ...]]:
    """What cells have in common that differ in the congestion control alone."""
    others = sorted((key, str(level)) for key, level in cell.factors.items() if key != "cc")
    return cell.matrix, tuple(others)


# -- on the terminal


def console_on(file: TextIO, width: int = WIDTH) -> Console:
    """A terminal, or a file that is so wide ($COLUMNS says otherwise), for text as it is."""
    said = os.environ.get("COLUMNS", "")
    wide = None if file.isatty() else int(said) if said.isdecimal() and int(said) else width
    return Console(file=file, width=wide, highlight=False, markup=False, emoji=False)


def plain_table() -> Table:
    """An empty table with a line below its headings and no other."""
    return Table(box=SIMPLE_HEAD, pad_edge=False, show_edge=False)


def print_summary(cells: Sequence[CellSummary], first: Mapping[str, str], file: TextIO) -> None:
    """A table per matrix, and below it why cells are degraded or invalid."""
    console = console_on(file)
    times = ratios(cells, first)
    shown = list(islice(enumerate(cells), MAX_ROWS))
    for matrix in dict.fromkeys(cell.matrix for _, cell in shown):
        rows = [(index, cell) for index, cell in shown if cell.matrix == matrix]
        own = [cell for _, cell in rows]
        table = new_table(matrix, first.get(matrix), own)
        for index, cell in rows:
            row = row_of(cell, times.get(index), compares=matrix in first, with_udp=has_udp(own))
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
    """Return whether udp flows stand beside others, and so in a column of their own."""
    return any(cell.udp_beside_bps is not None for cell in cells)


def rate_heading(cells: Sequence[CellSummary]) -> str:
    """Return the heading of a column of goodputs: which flows' they are, if not one direction's."""
    both = ", both directions" if any(cell.both_directions for cell in cells) else ""
    return f"Mbit/s{both}{', without UDP' if has_udp(cells) else ''}"


def new_table(matrix: str, first_cc: str | None, cells: Sequence[CellSummary] = ()) -> Table:
    """An empty table of a matrix; with a column of ratios where it compares congestion controls."""
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
    """A cell's row; – where there is nothing to say."""
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
    """A rate with three figures that mean something: 0.233, 4.00, 27.9, 1830."""
    if bps is None:
        return "–"
    value = bps / 1e6
    return f"{value:.0f}" if value >= 99.95 else f"{value:#.3g}"


def delay_text(delay: metrics.Spread | None) -> str:
    return "–" if delay is None else f"{ms(delay.median)}, {ms(delay.p95)}"


def ms(value: float) -> str:
    """A time in whole milliseconds, below ten with two digits that mean something: 0.42, 8.1."""
    return f"{value:.0f}" if value >= 9.95 or not value else f"{value:.2g}"


def rtt_words(cell: CellSummary) -> str:
    """Median and 95th percentile over the load; else the path's own, its queue included."""
    about = cell.path_rtt_ms
    return delay_text(cell.srtt_ms) if about is None else f"≈ {delay_text(about)}"


def reason_lines(cells: Iterable[CellSummary]) -> list[str]:
    """Why cells are degraded or invalid, or have fewer distinct runs, each reason once, with its
    cells.
    """
    cells = list(cells)
    said: dict[Reason, list[str]] = {}
    for cell in cells:
        for reason in cell.reasons:
            said.setdefault(reason, []).append(f"{cell.matrix}: {cell.label}")
    lines = [
        f"{reason.verdict}: {'; '.join(labels)}: {reason.why}" for reason, labels in said.items()
    ]
    return lines + [copies_line(cell) for cell in cells if cell.copies]


def copies_line(cell: CellSummary) -> str:
    return (
        f"n = {cell.counted}: {cell.label}: {cell.copies} more of its runs are copies, sample by"
        " sample: without losses or jitter, repetitions differ only in their starts (start_spread)"
    )
