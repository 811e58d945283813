"""Cells: the runs that differ only in repetition and seed, and what they say together.

Runs are pooled only if everything in run.json that decides the answer is the same. A quick 10 s run
and a 30 s run of the same levels are two cells, of two variants of their matrix.
"""

import hashlib
import json
import math
import re
import zlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from gostlab.analysis.load.json_safe import Scalar
from gostlab.analysis.load.published import Study, claims_of, level
from gostlab.analysis.load.run_folder import IDLE_SHARE_LOW, LINK_SHARE_FULL, VERDICTS, RunFolder
from gostlab.analysis.stats import fairness
from gostlab.analysis.stats.metrics import MERITS, merit_of, value_of
from gostlab.analysis.stats.statistics import Summary, best_mean, summarise
from gostlab.analysis.stats.text_table import cc_name
from gostlab.registry.tunnels import tunnel_kinds
from gostlab.results.duplicate_runs import copies
from gostlab.spec.labels import cell_words
from gostlab.spec.units import RATE_UNITS, SIZE_UNITS, TIME_UNITS

CC_ORDER = ("cubic", "bbr", "reno", "westwood")
TUNNEL_ORDER = tuple(tunnel_kinds())


def file_name(words: str) -> str:
    """Words as a part of a file's name; what is changed or cut ends in a sum of the whole."""
    kept = re.sub(r"[^A-Za-z0-9._+-]+", "-", words).strip("-.")[:48]
    if kept == words:
        return kept
    return f"{kept or 'x'}-{zlib.crc32(words.encode('utf-8', 'replace')):08x}"


@dataclass(frozen=True)
class Cell:
    """One combination of levels."""

    experiment: str
    matrix: str
    variant: str  # "" or what sets it apart: "duration 10 s"
    factors: tuple[tuple[str, Scalar], ...]
    runs: tuple[RunFolder, ...]  # all of them, whatever became of them
    copies: frozenset[Path] = frozenset()  # folders of runs whose samples an earlier one has

    @property
    def key(self) -> str:
        return cell_key(self.example)

    @property
    def example(self) -> RunFolder:
        """A run that stands for what was asked of all of them."""
        return self.runs[0]

    @property
    def counted(self) -> tuple[RunFolder, ...]:
        """The runs that summaries rest on: finished, not invalid, and no copies."""
        return tuple(run for run in self.runs if run.counts and run.folder not in self.copies)

    @property
    def but_cc(self) -> Any:
        """What tells its place apart from others that may have the same congestion control."""
        return self.matrix, less(self.factors, "cc"), less(self.example.settings, "cc")

    @property
    def left_out(self) -> tuple[RunFolder, ...]:
        return tuple(run for run in self.runs if not run.counts)

    @property
    def verdict(self) -> str:
        """The worst verdict among the runs that count; "none" if none does."""
        found = (run.verdict or "ok" for run in self.counted)
        return max(found, key=VERDICTS.index, default="none")

    @property
    def absent(self) -> str:
        """Why this kernel cannot have it, if no run counts for that: "module not built yet"."""
        lacking = [run for run in self.runs if run.state == "unsupported"]
        reasons = {(run.error or "").rpartition(": ")[2] for run in lacking}
        return reasons.pop() if len(reasons) == 1 and not self.counted else ""

    @property
    def label(self) -> str:
        """Its levels in a line, as people say them: 16 streams, gost+ws, BBR."""
        return cell_words(spoken_order(self.factors), cc_name) or self.matrix

    def summary(self, figure: str) -> Summary | None:
        """Of a figure (see value_of) over the runs that count; None if no run has it."""
        taken = (value_of(run, figure) for run in self.counted)
        return summarise([float(value) for value in taken if value is not None])

    @property
    def never_converged(self) -> int:
        """How many of the runs that count had something to converge from and never did."""
        endless = (run for run in self.counted if value_of(run, "convergence_s") is None)
        return sum(map(fairness.converges, endless))

    @property
    def flows(self) -> tuple[str, ...]:
        return tuple(flow.name for flow in self.example.flows)

    @property
    def cpu_bound(self) -> bool:
        """Whether the CPU, not the network, set the rate: no time left, and room on the link."""
        idle, link = self.summary("idle_share"), self.summary("link_share")
        has_room = link is None or link.median < LINK_SHARE_FULL
        return idle is not None and idle.median < IDLE_SHARE_LOW and has_room

    def by_seed(self, figure: str = "goodput") -> dict[Any, float]:
        """One figure of every run that counts, by what pairs runs of two congestion controls."""
        values = {(run.repetition, run.seed): value_of(run, figure) for run in self.counted}
        return {key: float(value) for key, value in values.items() if value is not None}


def less(pairs: Iterable[tuple[str, Scalar]], *names: str) -> tuple[tuple[str, Scalar], ...]:
    """Levels or settings without those of some names."""
    return tuple(pair for pair in pairs if pair[0] not in names)


def cell_key(run: RunFolder) -> str:
    """The key of the cell that a run is of: a sum of all that is asked of the cell."""
    asked = repr((run.experiment, run.matrix, run.factors, run.settings)).encode("utf-8", "replace")
    return hashlib.blake2s(asked, digest_size=5).hexdigest()


def spoken_order(factors: Iterable[tuple[str, Scalar]]) -> dict[str, Scalar]:
    """Levels as people order them: streams and tunnel, the path, and last the control."""
    order = {"streams": 0, "tunnel": 1, "cc": 9}
    return dict(sorted(factors, key=lambda pair: order.get(pair[0], 5)))


def bdp_words(value: float) -> str:
    """A buffer in BDP as people write it: packets are whole, so 0.25 BDP is 0.24998."""
    short, long = f"{value:.2g}", f"{value:.3g}"
    return short if abs(float(short) / value - 1) < 0.004 else long


# What a file draws that needs a figure of the series, though the runs do not show it.
DRAWN_FROM: Mapping[str, frozenset[str]] = {
    "by-loss": frozenset({"window_pkts"}),
    "cwnd": frozenset({"window_pkts"}),
}


def figures_of(cell: Cell, study: Study) -> tuple[str, ...]:
    """A cell's figures; those of series only where its runs, its file or the study ask for them."""
    run = cell.example
    wanted = {
        merit_of(asked.figure).key
        for published in study.published_all_for(run)
        for asked in claims_of(published)
    }
    for word in study.matrix_draw(cell.matrix):
        wanted |= DRAWN_FROM.get(word, frozenset())
    competing = [flow.name for flow in run.competitors]
    if len(competing) > 1:
        wanted |= {"jain", "total_mbit", "convergence_s"}
    if fairness.events(run):
        wanted |= {"convergence_s"}
    if run.acks:
        wanted |= {"window_pkts"}
    own = [merit for merit in MERITS if merit.of_run is not None]
    figures = [merit.key for merit in own if not merit.from_series or merit.key in wanted]
    if len(run.flows) > 1:
        figures += [f"goodput:{name}" for name in cell.flows]
    if len(competing) > 1:
        figures += [f"share:{name}" for name in competing]
    return tuple(figures)


@dataclass(frozen=True)
class MatrixResults:
    """What ran of one variant of one matrix of an experiment: what one set of figures shows. (What
    a matrix asks for is gostlab.spec's Matrix.)
    """

    name: str
    variant: str
    cells: tuple[Cell, ...]
    draw: tuple[str, ...] = ()  # what the experiment's file wants; empty: what its factors suggest

    @property
    def key(self) -> str:
        """A file name's part."""
        return file_name(f"{self.name} {self.variant}".strip())

    @property
    def runs(self) -> tuple[RunFolder, ...]:
        return tuple(run for cell in self.cells for run in cell.runs)


def to_matrices(runs: Iterable[RunFolder], study: Study | None = None) -> list[MatrixResults]:
    """Group an experiment's runs; the fullest variant of a matrix first.

    study: its file has the order of matrices, and may say what to draw of them. Without it, and
    those that the file has no more: in the order of their first run.
    """
    by_matrix: dict[str, dict[Any, list[RunFolder]]] = {}
    for run in runs:
        by_matrix.setdefault(run.matrix, {}).setdefault((run.factors, run.settings), []).append(run)
    found: list[MatrixResults] = []
    for name, groups in by_matrix.items():
        draw = study.matrix_draw(name) if study else ()
        apart = keys_apart(groups)
        variants: dict[str, list[Cell]] = {}
        for (factors, settings), members in groups.items():
            kept = {key: value for key, value in settings if key in apart}
            variant = ", ".join(dict.fromkeys(variant_words(key, kept) for key in kept))
            members.sort(key=lambda run: (run.repetition, run.seed, run.name))
            alike = copies((run.folder, run.goodput_mbit) for run in members if run.counts)
            cell = Cell(members[0].experiment, name, variant, factors, tuple(members), alike)
            variants.setdefault(variant, []).append(cell)
        matrices = [
            MatrixResults(name, variant, tuple(sorted(cells, key=cell_order)), draw)
            for variant, cells in variants.items()
        ]
        found += sorted(
            matrices, key=lambda each: (-sum(r.counts for r in each.runs), each.variant)
        )
    order = [name for name, _ in study.matrix_titles] if study else []
    found.sort(key=lambda each: order.index(each.name) if each.name in order else len(order))
    return found


UNITS = {
    "bps": "Mbit/s",
    "bytes": "bytes",
    "mib": "MiB",
    "ms": "ms",
    "ns": "ns",
    "p": "%",
    "pkts": "packets",
    "s": "s",
    "us": "µs",
}
SCALED = {"bps": 1e-6, "p": 100.0}


def variant_words(key: str, settings: Mapping[str, Scalar]) -> str:
    """A setting as people say it: duration 10 s, forward rate 20 Mbit/s; rate 20 Mbit/s of both
    directions.
    """
    value, parts = settings[key], key.split(".")
    if parts[0] in ("path", "flows"):
        del parts[0]
    for way, other in (("forward", "reverse"), ("reverse", "forward")):
        if key.startswith(f"path.{way}.") and settings.get(key.replace(way, other, 1)) == value:
            parts.remove(way)
    name, _, unit = parts[-1].rpartition("_")
    said = level(value)
    if unit in UNITS and isinstance(value, int | float) and not isinstance(value, bool):
        parts[-1], said = name, f"{level(value * SCALED.get(unit, 1))} {UNITS[unit]}"
    return " ".join([*filter(None, parts), said]).replace("_", " ")


def runs_per_cell(matrices: Iterable[MatrixResults]) -> list[int]:
    """How many runs count of each cell that has such, the least first."""
    return sorted(len(cell.counted) for each in matrices for cell in each.cells if cell.counted)


def keys_apart(groups: Mapping[Any, Sequence[RunFolder]]) -> set[str]:
    """The settings that differ between groups with the same levels."""
    seen: dict[Any, dict[str, Scalar]] = {}
    apart: set[str] = set()
    for factors, settings in groups:
        first = seen.setdefault(factors, dict(settings))
        this = dict(settings)
        apart |= {key for key in first.keys() | this.keys() if first.get(key) != this.get(key)}
    return apart


def rank(value: str, order: Sequence[str]) -> tuple[int, str]:
    """A key that sorts known names as people expect them, others after."""
    return (order.index(value) if value in order else len(order), value)


def cell_order(cell: Cell) -> Any:
    """Tables and axes: tunnel, streams, clock, path and buffer, other levels, then control."""
    run = cell.example
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


# What a level's unit multiplies it by, to put levels of one kind in order.
UNIT_SCALE = {
    unit.lower(): float(scale)
    for units in (TIME_UNITS, RATE_UNITS, SIZE_UNITS)
    for unit, scale in units.items()
}


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
    seconds = {cell.but_cc: cell for cell in cells if cell.example.cc == versus}
    return [
        (cell, seconds[cell.but_cc])
        for cell in cells
        if cell.example.cc == base and cell.but_cc in seconds
    ]


def row_of(table: pd.DataFrame, cell: Cell) -> pd.Series:
    place = {"cell": cell.label, "matrix": cell.matrix, "variant": cell.variant}
    return table[(table[list(place)] == pd.Series(place)).all(axis="columns")].iloc[0]


def without(cell: Cell, factor: str) -> Cell:
    return replace(cell, factors=less(cell.factors, factor))


def cpu_cells(matrix: MatrixResults, others: Sequence[MatrixResults]) -> tuple[Cell, ...]:
    """A CPU sweep with the points that other matrices of the experiment add: the real clock, the
    default cost.

    They must have been asked the same in everything but the clock, the cost and how long they ran;
    on the real clock offloads may be on, because one CPU does not carry a fast path packet by
    packet.
    """

    def setting(run: RunFolder) -> Any:
        asked = less(run.settings, "clock", "syscall_cost_us", "duration_s")
        return less(asked, "offloads") if run.clock == "real" else asked

    def point(run: RunFolder) -> Any:
        plain = less(setting(run), "offloads")
        return plain, run.clock, None if run.clock == "real" else run.syscall_cost_us

    return joined(matrix, others, setting, point)


def buffer_cells(matrix: MatrixResults, others: Sequence[MatrixResults]) -> tuple[Cell, ...]:
    """A buffer sweep with the points of other matrices, asked the same in all but the buffer."""

    def setting(run: RunFolder) -> Any:
        return tuple(pair for pair in run.settings if not pair[0].endswith(".buffer_pkts"))

    def point(run: RunFolder) -> Any:
        return setting(run), run.buffer_pkts

    return joined(matrix, others, setting, point)


def joined(
    matrix: MatrixResults,
    others: Iterable[MatrixResults],
    setting: Callable[[RunFolder], Any],
    point: Callable[[RunFolder], Any],
) -> tuple[Cell, ...]:
    """All of a matrix's own cells, and at each point where it has none the first of others' in its
    own setting, but perhaps for the offloads; those first that ran as long as its own.
    """
    durations = {cell.example.duration_s for cell in matrix.cells}
    settings = {setting(cell.example) for cell in matrix.cells}
    settings |= {less(each, "offloads") for each in settings}
    more = [cell for other in others if other is not matrix for cell in other.cells]
    more = [cell for cell in more if cell.counted and setting(cell.example) in settings]
    more.sort(key=lambda cell: cell.example.duration_s not in durations)
    cells, taken = list(matrix.cells), {point(cell.example) for cell in matrix.cells}
    for cell in more:
        if point(cell.example) not in taken:
            taken.add(point(cell.example))
            cells.append(cell)
    return tuple(sorted(cells, key=cell_order))


def to_table(
    cells: Iterable[Cell], study: Study, borrow: Mapping[str, RunFolder] | None = None
) -> pd.DataFrame:
    """One row per cell: what the figures draw and the tables print. Rates in Mbit/s, counts in
    segments.

    A figure of merit X (of one flow: "share:flow2") has X (the median), X_low, X_high, X_coverage
    (NaN without an interval), X_values and X_states; one that was not requested is NaN. Runs that
    never converge are in no convergence_s, but counted in never_converged. goodput_best3 is the
    mean of the three fastest runs.

    factor:KEY is a level as written; rtt:FLOW (ms) and cc:FLOW ("udp" of none) are a flow's own.
    X_study, X_least and X_most are what the study published of the cell: of its own matrix, and
    with `borrow` (a run of each matrix) a goodput or Retr of another matrix on the same path too.
    ratio is goodput / goodput_study.
    """
    return with_types([row_of_cell(cell, study, borrow) for cell in cells])


def with_types(rows: Sequence[Mapping[str, Any]]) -> pd.DataFrame:
    """Rows as a table with numbers in all columns but those of texts, values and states. A cell
    without a flow that another has, has no value of it. (Column by column: pandas takes a hundred
    of them four times as long.)
    """

    def typed(name: str) -> Any:
        column = [row.get(name, math.nan) for row in rows]
        if name.endswith(("_values", "_states")):
            return [value if isinstance(value, tuple) else () for value in column]
        is_text = any(isinstance(value, str) for value in column)
        return column if is_text else np.array(column, dtype=float)

    names = dict.fromkeys(name for row in rows for name in row)
    return pd.DataFrame({name: typed(name) for name in names})


# What was asked of the run that stands for its cell, under the name that it has in the run.
ASKED = (
    *("topology", "tunnel", "cc", "streams", "clock", "syscall_cost_us", "rate_mbit", "rtt_ms"),
    *("loss_p", "jitter_ms", "ordered", "buffer_pkts", "buffer_bdp", "bdp_pkts", "mtu_bytes"),
    *("profile", "duration_s", "offloads", "direction"),
)


def row_of_cell(cell: Cell, study: Study, borrow: Mapping[str, RunFolder] | None) -> dict[str, Any]:
    """A cell's row of the table: what was asked, what was published, what was got."""
    run = cell.example
    asked = figures_of(cell, study)
    known = (merit.key for merit in MERITS if merit.of_run is not None)
    programs = {each.environment.tunnel for each in cell.counted if each.environment}
    row: dict[str, Any] = {
        **{name: getattr(run, name) for name in ASKED},
        "flows": len(run.flows),
        "rmem_bytes": rmem_bytes(run),
        "matrix": cell.matrix,
        "variant": cell.variant,
        "cell": cell.label,
        "key": cell.key,
        "n": len(cell.counted),
        "left_out": len(cell.left_out),
        "copies": len(cell.copies),
        "verdict": cell.verdict,
        "absent": cell.absent or "no valid run",
        "program": ", ".join(sorted(programs)),
        **published_columns(run, study, borrow),
        **{f"factor:{name}": level(value) for name, value in cell.factors},
    }
    for flow in run.flows:
        row |= {f"rtt:{flow.name}": flow.rtt_ms, f"cc:{flow.name}": flow.cc or flow.kind}
    for figure in dict.fromkeys((*known, *asked)):
        row |= figure_columns(figure, cell.summary(figure) if figure in asked else None)
    other = row["goodput_study"]
    times = [value / other for value in row["goodput_values"]] if other else []
    return {
        **row,
        **figure_columns("ratio", summarise(times)),
        "cpu_bound": float(cell.cpu_bound),
        "goodput_best3": best_mean(row["goodput_values"]),
        "never_converged": cell.never_converged if "convergence_s" in asked else None,
    }


def figure_columns(figure: str, summary: Summary | None) -> dict[str, Any]:
    """What a cell's runs say of one figure of merit; None: nothing, or nobody asked."""
    interval = summary.interval if summary else None
    return {
        figure: summary.median if summary else None,
        f"{figure}_low": interval.low if interval else None,
        f"{figure}_high": interval.high if interval else None,
        f"{figure}_coverage": interval.coverage if interval else None,
        f"{figure}_values": summary.values if summary else (),
        f"{figure}_states": summary.states if summary else (),
    }


def published_columns(
    run: RunFolder, study: Study, borrow: Mapping[str, RunFolder] | None
) -> dict[str, float | str | None]:
    """What the study published of a run's cell; the entry with most factors says it."""
    other = None if borrow is None else study.published_for(run, borrow)
    found: dict[str, float | str | None] = {
        "goodput_study": other.goodput_mbit if other else None,
        "retr_study": other.retr if other else None,
        "study_source": other.source if other else "",
    }
    for published in sorted(study.published_all_for(run), key=lambda each: len(each.factors)):
        for asked in claims_of(published):
            column = merit_of(asked.figure).key + (f":{asked.flow}" if asked.flow else "")
            ends = (("study", asked.value), ("least", asked.least), ("most", asked.most))
            found |= {f"{column}_{end}": value for end, value in ends if value is not None}
            if column in ("goodput", "retr"):
                found["study_source"] = published.source
    return found


def rmem_bytes(run: RunFolder) -> float | None:
    """The kernel's greatest receive buffer; None where run.json has none."""
    try:
        return float(json.loads(str(dict(run.settings)["buffers.rmem"]))[-1])
    except (LookupError, ValueError, TypeError, OverflowError):
        return None
