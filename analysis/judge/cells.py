"""Cells: the runs that differ only in repetition and seed, and what they say together.

Runs are pooled only if everything in run.json that decides the answer is the same. A quick 10 s run
and a 30 s run of the same levels are two cells, of two variants of their matrix.
"""

from __future__ import annotations

import re
import zlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from types import MappingProxyType
from typing import Any

import pandas as pd

from analysis.judge import fairness
from analysis.judge.statistics import Summary, best_mean, summarise
from analysis.read import series
from analysis.read.folder import IDLE_SHARE_LOW, LINK_SHARE_FULL, VERDICTS, Run
from analysis.read.study import Study, claims_of, level
from analysis.read.values import Scalar
from gostlab.measures import Spread

# What a figure shows by colour, facet or axis; everything else that differs makes a variant. What a
# file says is drawn of a matrix (its `draw`) takes the place of its kind's figures: such a matrix
# is "other".
KINDS = ("streams", "cpu", "buffer", "other")
CC_ORDER = ("cubic", "bbr", "reno", "westwood")
TUNNEL_ORDER = ("direct", "gost+ws", "gost+wss")


def file_name(words: str) -> str:
    """Words as a part of a file's name; what had to be changed or cut is told apart by a sum of the
    whole.
    """
    kept = re.sub(r"[^A-Za-z0-9._+-]+", "-", words).strip("-.")[:48]
    return (
        kept
        if kept == words
        else f"{kept or 'x'}-{zlib.crc32(words.encode('utf-8', 'replace')):08x}"
    )


@dataclass(frozen=True)
class Cell:
    """One combination of levels."""

    experiment: str
    matrix: str
    variant: str  # "" or what sets it apart: "duration_s = 10"
    factors: tuple[tuple[str, Scalar], ...]
    runs: tuple[Run, ...]  # all of them, whatever became of them

    @property
    def like(self) -> Run:
        """A run that stands for what was asked of all of them."""
        return self.runs[0]

    @property
    def counted(self) -> tuple[Run, ...]:
        """The runs that summaries rest on: finished and not invalid."""
        return tuple(run for run in self.runs if run.counts)

    @property
    def left_out(self) -> tuple[Run, ...]:
        """The runs that summaries do not rest on."""
        return tuple(run for run in self.runs if not run.counts)

    @property
    def verdict(self) -> str:
        """The worst verdict among the runs that count; "none" if none does."""
        return max(
            (run.verdict or "ok" for run in self.counted), key=VERDICTS.index, default="none"
        )

    @property
    def absent(self) -> str:
        """Why this kernel cannot have it, if that is why no run counts: "kernel module not built
        yet".
        """
        reasons = {
            (run.error or "").rpartition(": ")[2] for run in self.runs if run.state == "unsupported"
        }
        return next(iter(reasons)) if len(reasons) == 1 and not self.counted else ""

    @property
    def label(self) -> str:
        """Its levels in a line."""
        return ", ".join(f"{name} = {level(value)}" for name, value in self.factors) or self.matrix

    def summary(self, figure: str) -> Summary | None:
        """Of a figure (see value_of) over the runs that count; None if no run has it."""
        taken = (value_of(run, figure) for run in self.counted)
        return summarise([float(value) for value in taken if value is not None])

    @property
    def never_converged(self) -> int:
        """How many of the runs that count had something to converge from and never did."""
        return sum(
            fairness.converges(run) and value_of(run, "convergence_s") is None
            for run in self.counted
        )

    @property
    def flows(self) -> tuple[str, ...]:
        """The names of its flows."""
        return tuple(flow.name for flow in self.like.flows)

    @property
    def cpu_bound(self) -> bool:
        """Whether the CPU had no time left while the bottleneck had room: then it, not the network,
        set the rate.
        """
        idle, link = self.summary("idle_share"), self.summary("link_share")
        return (
            idle is not None
            and idle.median < IDLE_SHARE_LOW
            and (link is None or link.median < LINK_SHARE_FULL)
        )

    def by_seed(self, figure: str = "goodput") -> dict[Any, float]:
        """One figure of every run that counts, by what pairs runs of two congestion controls."""
        values = {(run.repetition, run.seed): value_of(run, figure) for run in self.counted}
        return {key: float(value) for key, value in values.items() if value is not None}


def bdp_words(value: float) -> str:
    """A buffer in BDP as people write it: packets are whole, so 0.25 BDP is 0.24998."""
    short, long = f"{value:.2g}", f"{value:.3g}"
    return short if abs(float(short) / value - 1) < 0.004 else long


def wan_share(run: Run) -> float | None:
    """Retransmitted segments on the WAN per segment sent there."""
    again, sent = run.retransmitted("wan"), run.segments("wan")
    return None if again is None or not sent else again / sent


@cache
def over_time(run: Run) -> Mapping[str, float | None]:
    """A run's figures that are read from its series, once: they take longer than all else
    together.
    """
    rates, parts = fairness.active_rates(run), fairness.shares(run)
    return {
        "jain": fairness.jain(run),
        "convergence_s": fairness.convergence_s(run),
        "total_mbit": sum(rates.values()) if rates else None,
        **{f"share:{name}": share for name, share in parts.items()},
    }


@cache
def window_pkts(run: Run, flow: str | None = None) -> float | None:
    """A run's mean window, read once."""
    return series.mean_window_pkts(run, flow)


def median_of(spread: Spread | None) -> float | None:
    """What half of the time did not exceed; None where nothing was sampled."""
    return spread.median if spread else None


def p95_of(spread: Spread | None) -> float | None:
    """What 95 % of the time did not exceed; None where nothing was sampled."""
    return spread.p95 if spread else None


FIGURES: Mapping[str, Any] = {
    "goodput": lambda run: run.goodput_mbit,
    "retr": lambda run: run.retr,
    "app": lambda run: run.retransmitted("app"),
    "wan": lambda run: run.retransmitted("wan"),
    "exit": lambda run: run.retransmitted("exit"),
    "wan_share": wan_share,
    "client_nstat": lambda run: dict(run.nstat).get("client"),
    "idle_share": lambda run: run.idle_share,
    "link_share": lambda run: run.link_share,
    # Delays while the load ran, by time (see gostlab.measures):
    "srtt_median_ms": lambda run: median_of(series.latency(run).srtt_ms),
    "srtt_p95_ms": lambda run: p95_of(series.latency(run).srtt_ms),
    "queue_delay_median_ms": lambda run: median_of(series.latency(run).queue_delay_ms),
    "queue_delay_p95_ms": lambda run: p95_of(series.latency(run).queue_delay_ms),
    # Read from the run's series, once:
    "window_pkts": window_pkts,
    "jain": lambda run: over_time(run)["jain"],
    "convergence_s": lambda run: over_time(run)["convergence_s"],
    "total_mbit": lambda run: over_time(run)["total_mbit"],
}
DELAY_FIGURES = (
    "srtt_median_ms",
    "srtt_p95_ms",
    "queue_delay_median_ms",
    "queue_delay_p95_ms",
)
SERIES_FIGURES = frozenset({"window_pkts", "jain", "convergence_s", "total_mbit"})
# What a file draws that needs a figure of the series, though the runs do not show it.
DRAWN_FROM: Mapping[str, frozenset[str]] = {
    "by-loss": frozenset({"window_pkts"}),
    "cwnd": frozenset({"window_pkts"}),
}
FLOW_FIGURES = ("goodput", "retr", "window_pkts", "share")


def value_of(run: Run, figure: str) -> float | None:
    """A figure of a run: one of FIGURES, or one of FLOW_FIGURES of one flow ("share:flow2"); None
    where it has none.
    """
    name, _, flow = figure.partition(":")
    if not flow:
        found = FIGURES[name](run)
    elif name == "share":
        found = over_time(run).get(figure)
    elif name == "window_pkts":
        found = window_pkts(run, flow)
    else:
        asked = run.flow(flow)
        found = (
            None
            if asked is None
            else {"goodput": asked.goodput_mbit, "retr": asked.retransmits}[name]
        )
    return None if found is None else float(found)


def figures_of(cell: Cell, study: Study) -> tuple[str, ...]:
    """The figures of a cell that are worth reading: those of series only where its runs, its file
    or the study ask for them.
    """
    run = cell.like
    wanted = {
        figure for word in study.matrix_draw(cell.matrix) for figure in DRAWN_FROM.get(word, ())
    }
    wanted |= {
        asked.figure for published in study.published_all_for(run) for asked in claims_of(published)
    }
    several = sum(flow.competes for flow in run.flows) > 1
    if several:
        wanted |= {"jain", "total_mbit", "convergence_s"}
    if fairness.events(run):
        wanted |= {"convergence_s"}
    if run.acks:
        wanted |= {"window_pkts"}
    figures = [figure for figure in FIGURES if figure not in SERIES_FIGURES or figure in wanted]
    if len(run.flows) > 1:
        figures += [f"goodput:{name}" for name in cell.flows]
    if several:
        figures += [f"share:{flow.name}" for flow in run.flows if flow.competes]
    return tuple(figures)


@dataclass(frozen=True)
class Matrix:
    """One variant of one matrix of an experiment: what one set of figures shows."""

    name: str
    variant: str
    kind: str  # one of KINDS
    cells: tuple[Cell, ...]
    draw: tuple[str, ...] = ()  # the figures that the experiment's file wants; empty: its kind's

    @property
    def key(self) -> str:
        """A file name's part."""
        return file_name(f"{self.name} {self.variant}".strip())

    @property
    def runs(self) -> tuple[Run, ...]:
        """All of its runs."""
        return tuple(run for cell in self.cells for run in cell.runs)


def to_matrices(runs: Iterable[Run], study: Study | None = None) -> list[Matrix]:
    """Group an experiment's runs; matrices in the order of their names' first run, the fullest
    variant first.

    study: whose file may say what to draw of a matrix.
    """
    by_matrix: dict[str, dict[Any, list[Run]]] = {}
    for run in runs:
        by_matrix.setdefault(run.matrix, {}).setdefault((run.factors, run.settings), []).append(run)
    found: list[Matrix] = []
    for name, groups in by_matrix.items():
        draw = study.matrix_draw(name) if study else ()
        kind = kind_of(name, [runs[0] for runs in groups.values()], draw)
        apart = keys_apart(groups)
        variants: dict[str, list[Cell]] = {}
        for (factors, settings), members in groups.items():
            variant = ", ".join(
                f"{key} = {level(value)}" for key, value in settings if key in apart
            )
            members.sort(key=lambda run: (run.repetition, run.seed, run.name))
            variants.setdefault(variant, []).append(
                Cell(members[0].experiment, name, variant, factors, tuple(members))
            )
        fullest = sorted(
            variants.items(),
            key=lambda pair: (-sum(len(cell.counted) for cell in pair[1]), pair[0]),
        )
        found += [
            Matrix(name, variant, kind, tuple(sorted(cells, key=cell_order)), draw)
            for variant, cells in fullest
        ]
    return found


def keys_apart(groups: Mapping[Any, Sequence[Run]]) -> set[str]:
    """The settings that differ between groups with the same levels."""
    seen: dict[Any, dict[str, Scalar]] = {}
    apart: set[str] = set()
    for factors, settings in groups:
        first = seen.setdefault(factors, dict(settings))
        this = dict(settings)
        apart |= {key for key in first.keys() | this.keys() if first.get(key) != this.get(key)}
    return apart


def kind_of(name: str, cells: Sequence[Run], draw: Sequence[str] = ()) -> str:
    """Which figures show a matrix: by what its file varies, or by its name if too little has run to
    tell.

    draw: the words of the matrix's file; with any, it is they that say.
    """
    if draw:
        return "other"
    factors = {key for run in cells for key, _ in run.factors}
    if (
        any(word in key for key in factors for word in ("syscall", "clock"))
        or len({(run.clock, run.syscall_cost_us) for run in cells}) > 1
        or "clock" in name
        or "cpu" in name
    ):
        return "cpu"
    if any("buffer" in key and not key.endswith("buffers") for key in factors) or (
        len({run.buffer_pkts for run in cells}) > 2 and len({run.rate_bps for run in cells}) == 1
    ):
        return "buffer"
    return "streams" if "streams" in factors or len({run.streams for run in cells}) > 1 else "other"


def rank(value: str, order: Sequence[str]) -> tuple[int, str]:
    """A key that sorts known names as people expect them, others after."""
    return (order.index(value) if value in order else len(order), value)


def cell_order(cell: Cell) -> Any:
    """Tables and axes: tunnel, streams, clock and cost, path and buffer, other levels, then
    congestion control.
    """
    run = cell.like
    return (
        rank(run.tunnel, TUNNEL_ORDER),
        run.streams,
        run.clock == "real",
        run.syscall_cost_us,
        run.rtt_ms,
        run.loss_p,
        run.jitter_ms,
        run.buffer_pkts if run.buffer_pkts is not None else 1e18,
        [natural(level(value)) for name, value in cell.factors if name != "cc"],
        rank(run.cc, CC_ORDER),
    )


# What a level's unit multiplies it by: enough to put levels of one kind in order.
UNIT_SCALE: Mapping[str, float] = MappingProxyType(
    {
        "us": 1e-6,
        "ms": 1e-3,
        "s": 1.0,
        "bit": 1.0,
        "kbit": 1e3,
        "mbit": 1e6,
        "gbit": 1e9,
        "b": 1.0,
        "kb": 1e3,
        "mb": 1e6,
        "gb": 1e9,
        "kib": 2.0**10,
        "mib": 2.0**20,
        "gib": 2.0**30,
    }
)


def natural(words: str) -> list[tuple[bool, float, str]]:
    """A key that puts 365MiB before 1460MiB, 100mbit before 1gbit, and all before "ample"."""
    quantity = re.fullmatch(r"(\d+(?:\.\d+)?)([A-Za-z]+)", words)
    if quantity and quantity[2].lower() in UNIT_SCALE:
        return [(False, float(quantity[1]) * UNIT_SCALE[quantity[2].lower()], "")]
    parts = re.split(r"(\d+(?:\.\d+)?)", words)
    return [
        (False, float(part), "") if index % 2 else (True, 0.0, part)
        for index, part in enumerate(parts)
        if part
    ]


def pairs_of(cells: Sequence[Cell], base: str, versus: str) -> list[tuple[Cell, Cell]]:
    """Cells that differ in nothing but the congestion control."""

    def place(cell: Cell) -> Any:
        return tuple(pair for pair in cell.factors if pair[0] != "cc"), tuple(
            pair for pair in cell.like.settings if pair[0] != "cc"
        )

    seconds = {place(cell): cell for cell in cells if cell.like.cc == versus}
    return [
        (cell, seconds[place(cell)])
        for cell in cells
        if cell.like.cc == base and place(cell) in seconds
    ]


def row_of(table: pd.DataFrame, cell: Cell) -> pd.Series:
    """A cell's row."""
    return table[
        (table["cell"] == cell.label)
        & (table["matrix"] == cell.matrix)
        & (table["variant"] == cell.variant)
    ].iloc[0]


def without(cell: Cell, factor: str) -> Cell:
    """A cell without one of its levels."""
    return Cell(
        cell.experiment,
        cell.matrix,
        cell.variant,
        tuple(pair for pair in cell.factors if pair[0] != factor),
        cell.runs,
    )


def cpu_cells(matrix: Matrix, others: Sequence[Matrix]) -> tuple[Cell, ...]:
    """A CPU sweep with the points that other matrices of the experiment add: the real clock, the
    default cost.

    They must have been asked the same in everything but the clock, the cost and how long they ran;
    on the real clock offloads may be on, because one CPU does not carry a fast path packet by
    packet.
    """

    def place(run: Run) -> Any:
        return run.tunnel, run.streams, run.cc

    def point(run: Run) -> Any:
        return place(run), run.clock, None if run.clock == "real" else run.syscall_cost_us

    def setting(run: Run) -> Any:
        free = {"clock", "syscall_cost_us", "duration_s"} | (
            {"offloads"} if run.clock == "real" else set()
        )
        return tuple(pair for pair in run.settings if pair[0] not in free)

    cells = {point(cell.like): cell for cell in matrix.cells}
    settings = {setting(cell.like) for cell in matrix.cells}
    settings |= {tuple(pair for pair in each if pair[0] != "offloads") for each in settings}
    durations = {cell.like.duration_s for cell in matrix.cells}
    found = [
        cell
        for other in others
        if other is not matrix
        for cell in other.cells
        if cell.counted and setting(cell.like) in settings
    ]
    # Those that ran as long as the sweep's come first.
    for cell in sorted(found, key=lambda cell: cell.like.duration_s not in durations):
        cells.setdefault(point(cell.like), cell)
    return tuple(sorted(cells.values(), key=cell_order))


def buffer_cells(matrix: Matrix, others: Sequence[Matrix]) -> tuple[Cell, ...]:
    """A buffer sweep with the points that other matrices of the experiment add, asked the same in
    all but the buffer.
    """

    def setting(run: Run) -> Any:
        return tuple(pair for pair in run.settings if not pair[0].endswith(".buffer_pkts"))

    cells = {(setting(cell.like), cell.like.buffer_pkts): cell for cell in matrix.cells}
    settings = {key[0] for key in cells}
    for cell in (cell for other in others if other is not matrix for cell in other.cells):
        if cell.counted and setting(cell.like) in settings:
            cells.setdefault((setting(cell.like), cell.like.buffer_pkts), cell)
    return tuple(sorted(cells.values(), key=cell_order))


def to_table(
    cells: Iterable[Cell], study: Study, references: Mapping[str, Run] = MappingProxyType({})
) -> pd.DataFrame:
    """One row per cell: what the figures draw and the tables print. Rates in Mbit/s, counts in
    segments.

    A figure X (see figures_of; of one flow: "share:flow2") has X (the median), X_low, X_high,
    X_coverage (NaN below six runs) and X_values; one that was not asked for is NaN. Runs that never
    converge are in no convergence_s, but counted in never_converged. goodput_best3 is the mean of
    the three fastest runs. references: a run of each matrix, see Study.published_for.
    """
    rows = []
    for cell in cells:
        run, published = cell.like, study.published_for(cell.like, references)
        row: dict[str, Any] = {
            "matrix": cell.matrix,
            "variant": cell.variant,
            "cell": cell.label,
            "topology": run.topology,
            "tunnel": run.tunnel,
            "cc": run.cc,
            "streams": run.streams,
            "clock": run.clock,
            "syscall_cost_us": run.syscall_cost_us,
            "rate_mbit": None if run.rate_bps is None else run.rate_bps / 1e6,
            "rtt_ms": run.rtt_ms,
            "loss_p": run.loss_p,
            "jitter_ms": run.jitter_ms,
            "ordered": float(run.ordered),
            "flows": len(run.flows),
            "buffer_pkts": run.buffer_pkts,
            "buffer_bdp": run.buffer_bdp,
            "bdp_pkts": run.bdp_pkts,
            "mtu_bytes": run.mtu_bytes,
            "profile": run.profile,
            "duration_s": run.duration_s,
            "offloads": float(run.offloads),
            "n": len(cell.counted),
            "left_out": len(cell.left_out),
            "verdict": cell.verdict,
            "absent": cell.absent or "no valid run",
            "program": ", ".join(
                sorted({each.environment.tunnel for each in cell.counted if each.environment})
            ),
            "thesis_goodput": published.goodput_mbit if published else None,
            "thesis_retr": published.retr if published else None,
            "thesis_source": published.source if published else "",
        }
        asked = figures_of(cell, study)
        for figure in dict.fromkeys((*FIGURES, *asked)):
            summary = cell.summary(figure) if figure in asked else None
            interval = summary.interval if summary else None
            row |= {
                figure: summary.median if summary else None,
                f"{figure}_low": interval.low if interval else None,
                f"{figure}_high": interval.high if interval else None,
                f"{figure}_coverage": interval.coverage if interval else None,
                f"{figure}_values": summary.values if summary else (),
            }
        goodput, thesis = row["goodput"], row["thesis_goodput"]
        for end in ("", "_low", "_high"):
            value = row[f"goodput{end}"] if end else goodput
            row[f"ratio{end}"] = value / thesis if value is not None and thesis else None
        row["ratio_values"] = (
            tuple(value / thesis for value in row["goodput_values"]) if thesis else ()
        )
        row["cpu_bound"] = float(cell.cpu_bound)
        row["goodput_best3"] = best_mean(row["goodput_values"])
        row["never_converged"] = cell.never_converged if "convergence_s" in asked else None
        rows.append(row)
    table = pd.DataFrame(rows)
    values = [name for name in table.columns if name.endswith("_values")]
    # a cell without a flow that another has, has no value of it
    for name in values:
        table[name] = [value if isinstance(value, tuple) else () for value in table[name]]
    numeric = [name for name in table.columns if name not in TEXT_COLUMNS and name not in values]
    return table.astype(dict.fromkeys(numeric, float)) if rows else table


TEXT_COLUMNS = frozenset(
    {
        "absent",
        "matrix",
        "variant",
        "cell",
        "topology",
        "tunnel",
        "cc",
        "clock",
        "profile",
        "verdict",
        "program",
        "thesis_source",
    }
)
