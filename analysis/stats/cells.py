# SPDX-License-Identifier: MIT
"""Group runs that differ only in repetition and seed into cells, and summarise them.

Runs are pooled only if all keys of run.json that determine the result are equal. A quick 10 s run
and a 30 s run of the same levels are two cells, of two variants of their matrix.
"""

from __future__ import annotations

import hashlib
import json
import math
import re
import zlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gostlab.analysis.load.run_folder import IDLE_SHARE_LOW, LINK_SHARE_FULL, VERDICTS, RunFolder
from gostlab.analysis.load.study import Study, claims_of, format_level
from gostlab.analysis.load.untrusted_json import Scalar
from gostlab.analysis.stats import fairness
from gostlab.analysis.stats.metrics import METRICS, metric_of, value_of
from gostlab.analysis.stats.statistics import Summary, mean_of_greatest, summarise
from gostlab.analysis.stats.table_formats import TableRow, cc_name
from gostlab.registry.tunnels import tunnel_kinds
from gostlab.results.duplicate_runs import copies
from gostlab.spec.labels import cell_label
from gostlab.spec.units import RATE_UNITS, SIZE_UNITS, TIME_UNITS

if TYPE_CHECKING:
    import pandas as pd

CC_ORDER = ("cubic", "bbr", "reno", "westwood")
TUNNEL_ORDER = tuple(tunnel_kinds())


def file_name_part(words: str) -> str:
    """Convert text to a part of a file name.

    Text that changes or is truncated gets a checksum of the whole as suffix.
    """
    safe = re.sub(r"[^A-Za-z0-9._+-]+", "-", words).strip("-.")[:48]
    if safe == words:
        return safe
    return f"{safe or 'x'}-{zlib.crc32(words.encode('utf-8', 'replace')):08x}"


@dataclass(frozen=True)
class Cell:
    """The runs of one combination of levels."""

    experiment: str
    matrix: str
    variant: str  # "" or the differing settings: "duration 10 s"
    factors: tuple[tuple[str, Scalar], ...]
    runs: tuple[RunFolder, ...]  # all runs, in any state
    copies: frozenset[Path] = (
        frozenset()
    )  # folders of runs whose samples equal those of an earlier run

    @property
    def key(self) -> str:
        return cell_key(self.example)

    @property
    def example(self) -> RunFolder:
        """Return a run that represents the request of all runs."""
        return self.runs[0]

    @property
    def counted(self) -> tuple[RunFolder, ...]:
        """Return the runs that summaries include: finished, not invalid, no copies."""
        return tuple(run for run in self.runs if run.counts and run.folder not in self.copies)

    @property
    def key_without_cc(self) -> Any:
        """Return a key that is equal for cells that differ in congestion control only."""
        return (
            self.matrix,
            without_names(self.factors, "cc"),
            without_names(self.example.settings, "cc"),
        )

    @property
    def left_out(self) -> tuple[RunFolder, ...]:
        return tuple(run for run in self.runs if not run.counts)

    @property
    def verdict(self) -> str:
        """Return the worst verdict of the counted runs; "none" if there are none."""
        verdicts = (run.verdict or "ok" for run in self.counted)
        return max(verdicts, key=VERDICTS.index, default="none")

    @property
    def absent(self) -> str:
        """Return the reason why this kernel does not support it: "module not built yet"."""
        unsupported = [run for run in self.runs if run.state == "unsupported"]
        reasons = {(run.error or "").rpartition(": ")[2] for run in unsupported}
        return reasons.pop() if len(reasons) == 1 and not self.counted else ""

    @property
    def label(self) -> str:
        """Return the levels in one line: 16 streams, gost+ws, BBR."""
        return cell_label(display_order(self.factors), cc_name) or self.matrix

    def summary(self, figure: str) -> Summary | None:
        """Summarise a metric (see value_of) over the counted runs; None without values."""
        taken = (value_of(run, figure) for run in self.counted)
        return summarise([float(value) for value in taken if value is not None])

    @property
    def never_converged(self) -> int:
        """Return the number of counted runs that could have converged and did not."""
        endless = (run for run in self.counted if value_of(run, "convergence_s") is None)
        return sum(map(fairness.can_converge, endless))

    @property
    def flows(self) -> tuple[str, ...]:
        return tuple(flow.name for flow in self.example.flows)

    @property
    def cpu_bound(self) -> bool:
        """Return whether the CPU limited the rate: no idle time, link not full."""
        idle, link = self.summary("idle_share"), self.summary("link_share")
        has_room = link is None or link.median < LINK_SHARE_FULL
        return idle is not None and idle.median < IDLE_SHARE_LOW and has_room

    def values_by_seed(self, figure: str = "goodput") -> dict[Any, float]:
        """Return a metric of each counted run by repetition and seed, for pairing."""
        values = {(run.repetition, run.seed): value_of(run, figure) for run in self.counted}
        return {key: float(value) for key, value in values.items() if value is not None}


def without_names(
    pairs: Iterable[tuple[str, Scalar]], *names: str
) -> tuple[tuple[str, Scalar], ...]:
    """Return the levels or settings without the given names."""
    return tuple(pair for pair in pairs if pair[0] not in names)


def cell_key(run: RunFolder) -> str:
    """Return the key of a run's cell: a digest of its description."""
    description = repr((run.experiment, run.matrix, run.factors, run.settings)).encode(
        "utf-8", "replace"
    )
    return hashlib.blake2s(description, digest_size=5).hexdigest()


def display_order(factors: Iterable[tuple[str, Scalar]]) -> dict[str, Scalar]:
    """Sort levels for people: streams, tunnel, path, and congestion control last."""
    order = {"streams": 0, "tunnel": 1, "cc": 9}
    return dict(sorted(factors, key=lambda pair: order.get(pair[0], 5)))


def format_bdp(value: float) -> str:
    """Format a buffer in BDP; packets are integers, so 0.24998 becomes 0.25."""
    short, long = f"{value:.2g}", f"{value:.3g}"
    return short if abs(float(short) / value - 1) < 0.004 else long


# Plots that need metrics from series.
METRICS_OF_PLOTS: Mapping[str, frozenset[str]] = {
    "by-loss": frozenset({"window_pkts"}),
    "cwnd": frozenset({"window_pkts"}),
    "window-by-loss": frozenset({"window_pkts"}),
}


def metrics_of(cell: Cell, study: Study) -> tuple[str, ...]:
    """Return the metrics of a cell.

    Metrics from series are included only if its runs, its file or the study need them.
    """
    run = cell.example
    wanted = {
        metric_of(claim.figure).key
        for published in study.published_all_for(run)
        for claim in claims_of(published)
    }
    for word in study.requested_plots(cell.matrix):
        wanted |= METRICS_OF_PLOTS.get(word, frozenset())
    competing = [flow.name for flow in run.competitors]
    if len(competing) > 1:
        wanted |= {"jain", "total_mbit", "convergence_s"}
    if fairness.convergence_events_s(run):
        wanted |= {"convergence_s"}
    if run.acks:
        wanted |= {"window_pkts"}
    if run.jitter_ms and not run.loss_p:  # all segments behind a lost one arrive out of order
        wanted |= {"reordered_share"}
    run_merits = [merit for merit in METRICS if merit.of_run is not None]
    figures = [merit.key for merit in run_merits if not merit.from_series or merit.key in wanted]
    if len(run.flows) > 1:
        figures += [f"goodput:{name}" for name in cell.flows]
        figures += [
            f"{name}:{flow.name}"
            for flow in run.flows
            for name in flow.measures
            if metric_of(name).of_flow is not None
        ]
    if len(competing) > 1:
        figures += [f"share:{name}" for name in competing]
    return tuple(figures)


@dataclass(frozen=True)
class MatrixResults:
    """The cells of one variant of one matrix of an experiment, plotted together.

    gostlab.spec.Matrix is the corresponding request.
    """

    name: str
    variant: str
    cells: tuple[Cell, ...]
    draw: tuple[str, ...] = ()  # plots that the experiment's file requests; (): select by factors

    @property
    def key(self) -> str:
        return file_name_part(f"{self.name} {self.variant}".strip())

    @property
    def runs(self) -> tuple[RunFolder, ...]:
        return tuple(run for cell in self.cells for run in cell.runs)


def to_matrices(runs: Iterable[RunFolder], study: Study | None = None) -> list[MatrixResults]:
    """Group an experiment's runs to matrices, the largest variant of each first.

    study: its file defines the order of the matrices and may select plots. Matrices that it does
    not contain, and all without a study, are in the order of their first run.
    """
    by_matrix: dict[str, dict[Any, list[RunFolder]]] = {}
    for run in runs:
        by_matrix.setdefault(run.matrix, {}).setdefault((run.factors, run.settings), []).append(run)
    results: list[MatrixResults] = []
    for name, groups in by_matrix.items():
        draw = study.requested_plots(name) if study else ()
        apart = differing_keys(groups)
        variants: dict[str, list[Cell]] = {}
        for (factors, settings), members in groups.items():
            differing = {key: value for key, value in settings if key in apart}
            variant = ", ".join(
                dict.fromkeys(format_variant_setting(key, differing) for key in differing)
            )
            members.sort(key=lambda run: (run.repetition, run.seed, run.name))
            alike = copies((run.folder, run.goodput_mbit) for run in members if run.counts)
            cell = Cell(members[0].experiment, name, variant, factors, tuple(members), alike)
            variants.setdefault(variant, []).append(cell)
        variants_of_matrix = [
            MatrixResults(name, variant, tuple(sorted(cells, key=cell_order)), draw)
            for variant, cells in variants.items()
        ]
        results += sorted(
            variants_of_matrix,
            key=lambda matrix: (-sum(r.counts for r in matrix.runs), matrix.variant),
        )
    order = [name for name, _ in study.matrix_titles] if study else []
    results.sort(
        key=lambda matrix: order.index(matrix.name) if matrix.name in order else len(order)
    )
    return results


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
UNIT_FACTORS = {"bps": 1e-6, "p": 100.0}


def format_variant_setting(key: str, settings: Mapping[str, Scalar]) -> str:
    """Format a setting: duration 10 s, forward rate 20 Mbit/s.

    A value that both directions share has no direction: rate 20 Mbit/s.
    """
    value, parts = settings[key], key.split(".")
    if parts[0] in ("path", "flows"):
        del parts[0]
    for direction, other in (("forward", "reverse"), ("reverse", "forward")):
        if (
            key.startswith(f"path.{direction}.")
            and settings.get(key.replace(direction, other, 1)) == value
        ):
            parts.remove(direction)
    name, _, unit = parts[-1].rpartition("_")
    text = format_level(value)
    if unit in UNITS and isinstance(value, int | float) and not isinstance(value, bool):
        parts[-1], text = name, f"{format_level(value * UNIT_FACTORS.get(unit, 1))} {UNITS[unit]}"
    return " ".join([*filter(None, parts), text]).replace("_", " ")


def runs_per_cell(matrices: Iterable[MatrixResults]) -> list[int]:
    return sorted(len(cell.counted) for matrix in matrices for cell in matrix.cells if cell.counted)


def differing_keys(groups: Mapping[Any, Sequence[RunFolder]]) -> set[str]:
    """Return the settings that differ between groups with the same levels."""
    seen: dict[Any, dict[str, Scalar]] = {}
    apart: set[str] = set()
    for factors, settings in groups:
        first = seen.setdefault(factors, dict(settings))
        current = dict(settings)
        apart |= {
            key for key in first.keys() | current.keys() if first.get(key) != current.get(key)
        }
    return apart


def known_first_key(value: str, order: Sequence[str]) -> tuple[int, str]:
    """Return a sort key that puts known names first, in a given order."""
    return (order.index(value) if value in order else len(order), value)


def cell_order(cell: Cell) -> Any:
    """Return the sort key of cells in tables and axes.

    The order is tunnel, streams, clock, path and buffer, other levels, congestion control.
    """
    run = cell.example
    return (
        known_first_key(run.tunnel, TUNNEL_ORDER),
        run.streams,
        run.clock == "real",
        run.syscall_cost_us,
        run.rtt_ms,
        run.loss_p,
        run.jitter_ms,
        run.buffer_pkts if run.buffer_pkts is not None else 1e18,
        [natural_sort_key(format_level(value)) for name, value in cell.factors if name != "cc"],
        known_first_key(run.cc, CC_ORDER),
    )


# Factors of units, to sort levels of one quantity.
UNIT_SCALE = {
    unit.lower(): float(scale)
    for units in (TIME_UNITS, RATE_UNITS, SIZE_UNITS)
    for unit, scale in units.items()
}


def natural_sort_key(words: str) -> list[tuple[bool, float, str]]:
    """Return a sort key: off, 365MiB before 1460MiB, 100mbit before 1gbit, numbers first."""
    if words == "off":
        return []
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
    """Return the pairs of cells that differ only in congestion control."""
    seconds = {cell.key_without_cc: cell for cell in cells if cell.example.cc == versus}
    return [
        (cell, seconds[cell.key_without_cc])
        for cell in cells
        if cell.example.cc == base and cell.key_without_cc in seconds
    ]


def table_row(table: pd.DataFrame, cell: Cell) -> pd.Series:
    import pandas as pd

    location = {"cell": cell.label, "matrix": cell.matrix, "variant": cell.variant}
    return table[(table[list(location)] == pd.Series(location)).all(axis="columns")].iloc[0]


def drop_factor(cell: Cell, factor: str) -> Cell:
    return replace(cell, factors=without_names(cell.factors, factor))


def cpu_cells(matrix: MatrixResults, others: Sequence[MatrixResults]) -> tuple[Cell, ...]:
    """Return a CPU sweep's cells with matching points of the experiment's other matrices.

    These are runs with the real clock or the default cost. They must have the same settings except
    for clock, cost and duration; with the real clock offloads may be on, because one CPU cannot
    process a fast path packet by packet.
    """

    def setting(run: RunFolder) -> Any:
        remaining = without_names(run.settings, "clock", "syscall_cost_us", "duration_s")
        return without_names(remaining, "offloads") if run.clock == "real" else remaining

    def point(run: RunFolder) -> Any:
        without_offloads = without_names(setting(run), "offloads")
        return without_offloads, run.clock, None if run.clock == "real" else run.syscall_cost_us

    return join_matrices(matrix, others, setting, point)


def buffer_cells(matrix: MatrixResults, others: Sequence[MatrixResults]) -> tuple[Cell, ...]:
    """Return a buffer sweep's cells with matching points of other matrices.

    They must have the same settings except for the buffer.
    """

    def setting(run: RunFolder) -> Any:
        return tuple(pair for pair in run.settings if not pair[0].endswith(".buffer_pkts"))

    def point(run: RunFolder) -> Any:
        return setting(run), run.buffer_pkts

    return join_matrices(matrix, others, setting, point)


def join_matrices(
    matrix: MatrixResults,
    others: Iterable[MatrixResults],
    setting: Callable[[RunFolder], Any],
    point: Callable[[RunFolder], Any],
) -> tuple[Cell, ...]:
    """Return a matrix's cells and, at missing points, the first match of other matrices.

    A match has the setting of one of the matrix's cells, except perhaps for offloads; cells of the
    same duration are preferred.
    """
    durations = {cell.example.duration_s for cell in matrix.cells}
    settings = {setting(cell.example) for cell in matrix.cells}
    settings |= {without_names(other_settings, "offloads") for other_settings in settings}
    candidates = [cell for other in others if other is not matrix for cell in other.cells]
    candidates = [cell for cell in candidates if cell.counted and setting(cell.example) in settings]
    candidates.sort(key=lambda cell: cell.example.duration_s not in durations)
    cells, taken = list(matrix.cells), {point(cell.example) for cell in matrix.cells}
    for cell in candidates:
        if point(cell.example) not in taken:
            taken.add(point(cell.example))
            cells.append(cell)
    return tuple(sorted(cells, key=cell_order))


def to_table(
    cells: Iterable[Cell], study: Study, borrow: Mapping[str, RunFolder] | None = None
) -> pd.DataFrame:
    """Return one row per cell, for plots and tables.

    Rates are in Mbit/s, counts in segments.

    A metric X (of one flow: "share:flow2") has X (the median), X_low, X_high, X_coverage (NaN
    without an interval), X_values and X_states; one that was not requested is NaN. Runs that never
    converge have no convergence_s but are counted in never_converged. goodput_best3 is the mean of
    the three fastest runs.

    factor:KEY is a level as written; rtt:FLOW (ms) and cc:FLOW ("udp" without one) are properties
    of a flow. X_study, X_least and X_most are the published values of the cell in its own matrix,
    and with `borrow` (a run of each matrix) also a goodput or Retr of another matrix on the same
    path. ratio is goodput / goodput_study.
    """
    return to_typed_table([row_of_cell(cell, study, borrow) for cell in cells])


def to_typed_table(rows: Sequence[TableRow]) -> pd.DataFrame:
    """Convert rows to a table with numeric columns, except texts, values and states.

    Missing values are NaN. Columns are converted one by one: pandas takes four times as long for a
    hundred.
    """
    import numpy as np
    import pandas as pd

    def typed(name: str) -> Any:
        column = [row.get(name, math.nan) for row in rows]
        if name.endswith(("_values", "_states")):
            return [value if isinstance(value, tuple) else () for value in column]
        is_text = any(isinstance(value, str) for value in column)
        return column if is_text else np.array(column, dtype=float)

    names = dict.fromkeys(name for row in rows for name in row)
    return pd.DataFrame({name: typed(name) for name in names})


# Requested attributes of the example run that become columns of the same name.
REQUESTED = (
    *("topology", "tunnel", "cc", "streams", "clock", "syscall_cost_us", "rate_mbit", "rtt_ms"),
    *("loss_p", "jitter_ms", "ordered", "buffer_pkts", "buffer_bdp", "bdp_pkts", "mtu_bytes"),
    *("profile", "duration_s", "offloads", "direction"),
)


def row_of_cell(cell: Cell, study: Study, borrow: Mapping[str, RunFolder] | None) -> TableRow:
    """Return a cell's row of the table: request, published values, measurements."""
    run = cell.example
    requested = metrics_of(cell, study)
    known = (merit.key for merit in METRICS if merit.of_run is not None)
    programs = {
        run_folder.environment.tunnel for run_folder in cell.counted if run_folder.environment
    }
    row: TableRow = {
        **{name: getattr(run, name) for name in REQUESTED},
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
        **{f"factor:{name}": format_level(value) for name, value in cell.factors},
    }
    for flow in run.flows:
        row |= {f"rtt:{flow.name}": flow.rtt_ms, f"cc:{flow.name}": flow.cc or flow.traffic_type}
    for figure in dict.fromkeys((*known, *requested)):
        row |= metric_columns(figure, cell.summary(figure) if figure in requested else None)
    other = row["goodput_study"]
    ratios = [value / other for value in row["goodput_values"]] if other else []
    return {
        **row,
        **metric_columns("ratio", summarise(ratios)),
        "cpu_bound": float(cell.cpu_bound),
        "goodput_best3": mean_of_greatest(row["goodput_values"]),
        "never_converged": cell.never_converged if "convergence_s" in requested else None,
    }


def metric_columns(figure: str, summary: Summary | None) -> TableRow:
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
    """Return the published values of a run's cell. The entry with most factors takes precedence."""
    other = None if borrow is None else study.published_for(run, borrow)
    columns: dict[str, float | str | None] = {
        "goodput_study": other.goodput_mbit if other else None,
        "retr_study": other.retr if other else None,
        "study_source": other.source if other else "",
    }
    for published in sorted(study.published_all_for(run), key=lambda each: len(each.factors)):
        for claim in claims_of(published):
            column = metric_of(claim.figure).key + (f":{claim.flow}" if claim.flow else "")
            ends = (("study", claim.value), ("least", claim.least), ("most", claim.most))
            columns |= {f"{column}_{end}": value for end, value in ends if value is not None}
            if column in ("goodput", "retr"):
                columns["study_source"] = published.source
    return columns


def rmem_bytes(run: RunFolder) -> float | None:
    """Return the kernel's maximum receive buffer; None if run.json has none."""
    try:
        return float(json.loads(str(dict(run.settings)["buffers.rmem"]))[-1])
    except (LookupError, ValueError, TypeError, OverflowError):
        return None
