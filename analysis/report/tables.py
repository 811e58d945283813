# SPDX-License-Identifier: MIT
"""Build the report's tables: the numbers of the plots, and the runs left out."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING

from gostlab.analysis.load.run_folder import Environment, RunFolder, UnidentifiedRun
from gostlab.analysis.load.runs import ExperimentFolders, direction_columns, flows_differ
from gostlab.analysis.load.study import format_level
from gostlab.analysis.stats.cells import Cell, MatrixResults, drop_factor, pairs_of, table_row
from gostlab.analysis.stats.metrics import metric_of
from gostlab.analysis.stats.statistics import paired_difference, paired_ratio
from gostlab.analysis.stats.table_formats import (
    CC,
    DELAYS,
    GOODPUT,
    IDLE,
    INTERVAL,
    LINK,
    RUNS,
    STREAMS,
    TUNNEL,
    VERDICT,
    WINDOW,
    Column,
    Table,
    TableRow,
    cc_name,
    filled_columns,
    format_count,
    format_delay,
    format_per_mille,
    format_percent,
    format_rate,
    format_ratio,
    format_spread,
    is_missing,
    n_note,
    row_values,
    text_columns,
    to_cell_text,
)
from gostlab.results.metrics import FLOW_MEASURES
from gostlab.spec.labels import changes_label
from gostlab.spec.units import show_share

if TYPE_CHECKING:
    import pandas as pd

FACTOR_HEADINGS = {
    **{key: key.capitalize() for key in ("buffer", "rate", "delay", "loss", "clock", "profile")},
    "syscall_cost": "System call",
    "duration": "Run length",
}

# More columns of the goodput table's CSV file, for further analysis.
GOODPUT_CSV_COLUMNS = (
    *("cpu_bound", "goodput_low_mbit", "goodput_high_mbit", "goodput_coverage"),
    *("mean_mbit", "mean_low_mbit", "mean_high_mbit", "left_out", "study_source"),
)

# -- the tables


def goodput_table(table: pd.DataFrame, cells: Sequence[Cell], name: str, called: str) -> Table:
    """Return the main table: every cell's goodput and the study's."""
    columns = (
        *(RUNS, GOODPUT, INTERVAL),
        Column("study_mbit", f"{called.capitalize()} (Mbit/s)", format_rate),
        Column("ratio", f"Lab / {called}", format_ratio),
        WINDOW,
        *optional_columns(table),
        *(*DELAYS, LINK, IDLE, VERDICT),
    )
    note = n_note(table) + goodput_scope_note(cells)
    return cell_table(table, cells, name, "Goodput", note, columns, GOODPUT_CSV_COLUMNS)


# Metrics that only some experiments measure.
OPTIONAL_METRICS = (
    *("ping_median_ms", "ping_p95_ms", "ping_p99_ms", "fetch_median_s", "fetch_p95_s"),
    *("up_mbit", "down_mbit", "completion_s", "burst_mbit"),
    *("startup_s", "stalls", "stalled_s", "bitrate_mbit", "switches"),
    "reordered_share",
)


def optional_columns(table: pd.DataFrame) -> list[Column]:
    """Return the columns of those OPTIONAL_METRICS that a cell of the table has."""
    known = (name for name in OPTIONAL_METRICS if table[name].notna().any())
    return [Column(name, metric_of(name).axis, metric_of(name).show) for name in known]


def goodput_scope_note(cells: Sequence[Cell]) -> str:
    """State if a goodput excludes UDP or adds up both directions."""
    runs = [cell.example.flows for cell in cells]
    beside = any({"udp"} < {flow.traffic_type for flow in flows} - {"ping"} for flows in runs)
    both = any(len({flow.direction for flow in flows if flow.competes}) > 1 for flows in runs)
    note = " UDP's is not in it: see flow by flow." if beside else ""
    return note + (" It is the sum of both directions." if both else "")


def cell_table(
    table: pd.DataFrame,
    cells: Sequence[Cell],
    name: str,
    title: str,
    note: str,
    columns: Sequence[Column],
    kept: Sequence[str] = (),
) -> Table:
    """Return a table with one row per cell: its levels and the given columns.

    kept: keys of columns that only the CSV file contains.
    """
    keys = [*(column.key for column in columns), *kept]
    rows = tuple(
        level_values(row, cell) | row_values(row, keys)
        for (_, row), cell in zip(table.iterrows(), cells, strict=True)
    )
    return Table(name, title, note, filled_columns([*level_columns(cells), *columns], rows), rows)


def level_columns(cells: Sequence[Cell]) -> list[Column]:
    """Return the columns of the levels that distinguish the cells."""
    usual = [TUNNEL, STREAMS, CC]
    others = {key for cell in cells for key, _ in cell.factors} - {column.key for column in usual}
    named = ((f"factor_{key}", FACTOR_HEADINGS.get(key, key)) for key in sorted(others))
    return usual + [
        # levels as written; changes during the load as text
        Column(*column, lambda value: changes_label(value) or to_cell_text(value), numeric=False)
        for column in named
    ]


def level_values(row: pd.Series, cell: Cell) -> TableRow:
    """Return a cell's values of the level columns."""
    usual = {key: row[key] for key in ("tunnel", "streams", "cc")}
    if flows_differ(cell.example, "streams"):
        usual["streams"] = None
    others = ((key, value) for key, value in cell.factors if key not in usual)
    return {**usual, **{f"factor_{key}": format_level(value) for key, value in others}}


def comparison_table(
    matrix: MatrixResults, table: pd.DataFrame, name: str, base: str, versus: str, called: str
) -> Table:
    """Compare two congestion controls at the same levels, seed by seed."""
    pairs = pairs_of(matrix.cells, base, versus)
    rows = tuple(row for pair in pairs if (row := pair_row(table, *pair)) is not None)
    first, second = cc_name(base), cc_name(versus)
    columns = [
        *(
            column
            for column in level_columns(matrix.cells)
            if column.key not in ("cc", "factor_cc")
        ),
        Column("n", "Pairs", format_count),
        Column("ratio", f"{second} / {first}, lab", format_ratio),
        Column("ratio_interval", "Interval (coverage)"),
        Column("study_ratio", f"{second} / {first}, {called}", format_ratio),
        Column("difference_mbit", "Difference (Mbit/s)", format_signed),
        Column("base_srtt_median_ms", f"RTT under load, {first} (ms)", format_delay),
        Column("versus_srtt_median_ms", f"RTT, {second} (ms)", format_delay),
        Column("idle_share", "CPU idle, the lesser", format_percent),
        VERDICT,
    ]
    title = f"{second} against {first}, run against run of the same seed"
    note = (
        "Each pair is one run of either with the same seed; the ratio is the median of the pairs'"
        " ratios."
    )
    return Table(name, title, note, filled_columns(columns, rows), rows)


def pair_row(table: pd.DataFrame, first: Cell, second: Cell) -> TableRow | None:
    """Compare two cells that differ only in congestion control; None without common seeds."""
    times = paired_ratio(first.values_by_seed(), second.values_by_seed())
    if times is None:
        return None
    difference = paired_difference(first.values_by_seed(), second.values_by_seed())
    base, versus = table_row(table, first), table_row(table, second)
    published = (versus["goodput_study"] / base["goodput_study"]) if base["goodput_study"] else None
    idle = [row["idle_share"] for row in (base, versus) if not is_missing(row["idle_share"])]
    interval = times.interval
    return {
        **level_values(base, drop_factor(first, "cc")),
        "n": times.n,
        "ratio": None if times.states else times.median,
        "ratio_interval": format_spread(times, format_ratio),
        "difference_mbit": difference.median if difference and not difference.states else None,
        "difference_interval": format_spread(difference, format_signed),
        "study_ratio": published,
        "base_srtt_median_ms": base["srtt_median_ms"],
        "versus_srtt_median_ms": versus["srtt_median_ms"],
        "idle_share": min(idle, default=None),
        "verdict": max((first.verdict, second.verdict), key=("ok", "degraded", "none").index),
        "ratio_low": interval.low if interval else None,
        "ratio_high": interval.high if interval else None,
        "ratio_coverage": interval.coverage if interval else None,
    }


def flows_table(table: pd.DataFrame, cells: Sequence[Cell], name: str) -> Table:
    """Return each flow's goodput and share, their total, Jain's index and convergence."""
    last = [
        Column("total_mbit", "Together (Mbit/s)", format_rate),
        Column("jain", "Jain", format_ratio),
        Column("convergence_s", "Converged after (s)", format_rate),
        Column("never", "Never, runs", format_count),
        *DELAYS,
        VERDICT,
    ]
    own_keys = {column.key for column in last}
    columns: list[Column] = [RUNS]
    renamed: dict[str, str] = {}  # column names in the table of cells and in the file
    for flow in dict.fromkeys(flow for cell in cells for flow in cell.flows):
        goodput, share = f"goodput:{flow}", f"share:{flow}"
        if f"{flow}_mbit" not in own_keys:  # a flow may be called "total"
            renamed[goodput] = f"{flow}_mbit"
        renamed[share] = f"{flow}_share"
        columns.append(Column(renamed.get(goodput, goodput), f"{flow} (Mbit/s)", format_rate))
        columns.append(Column(renamed[share], f"{flow}, share", format_percent))
        for measure in FLOW_MEASURES:
            if (key := f"{measure}:{flow}") in table and table[key].notna().any():
                metric = metric_of(measure)
                columns.append(Column(key, f"{flow}: {metric.heading}", metric.show))
    note = (
        "Medians. Shares, their sum and Jain's index are of the time when all flows with a"
        " congestion control are active, without its first quarter."
    )
    # A metric may have a flow's name: "up_mbit" is that of all uploads too.
    others = table.drop(columns=[*renamed.values()], errors="ignore")
    return cell_table(
        others.rename(columns=renamed), cells, name, "Flow by flow", note, [*columns, *last]
    )


def format_signed(value: float) -> str:
    return f"{value:+,.0f}" if abs(value) >= 10 else f"{value:+.2g}"


def retransmission_table(
    table: pd.DataFrame, cells: Sequence[Cell], name: str, called: str
) -> Table:
    """Return the segments retransmitted per leg, iperf3's Retr and the study's."""
    columns = (
        RUNS,
        Column("wan_segments", "WAN leg", format_count),
        Column("wan_share", "WAN, of segments sent", format_per_mille),
        Column("app_segments", "Loopback before the tunnel", format_count),
        Column("exit_segments", "After the tunnel", format_count),
        Column("retr", "iperf3's Retr", format_count),
        Column("study_retr", f"Retr, {called}", format_count),
        Column("client_nstat_segments", "Client's whole host (nstat)", format_count),
        *DELAYS,
        VERDICT,
    )
    note = (
        "Medians of segments. In a tunnel iperf3's Retr counts the loopback connection between"
        " iperf3 and the tunnel's near end; only the WAN leg crosses the path."
    )
    return cell_table(table, cells, name, "Retransmissions per leg", note, columns)


def left_out_table(results: ExperimentFolders, name: str) -> Table | None:
    """List the folders that no summary includes, with the reason; None if there are none."""
    excluded = [run for run in results.runs if not run.counts]
    entries = [(run.name, run.matrix, state_of(run), problem_reason(run)) for run in excluded]
    entries += [(entry.name, "", "unreadable", entry.error) for entry in results.broken]
    columns = text_columns(run="Run", matrix="Matrix", state="State", why="Why")
    keys = [column.key for column in columns]
    rows = tuple(dict(zip(keys, entry, strict=True)) for entry in entries)
    title = "Failed, unsupported, invalid, unfinished"
    note = "No table, figure or sentence above rests on these."
    return Table(name, title, note, columns, rows) if rows else None


def state_of(run: RunFolder) -> str:
    """Return the state of a run; for a finished run, its verdict."""
    return (run.verdict or "ok") if run.state == "ok" else run.state


def problem_reason(run: RunFolder | UnidentifiedRun) -> str:
    """Return why a run does not count or is degraded; "" for a good one."""
    if run.error or isinstance(run, UnidentifiedRun):
        return run.error or ""
    return "; ".join(
        check.reason or f"{check.name}: asked {check.requested} {check.unit}, got {check.got}"
        for check in run.checks
        if check.verdict != "ok"
    )


def path_table(results: ExperimentFolders, name: str) -> Table:
    """List the paths of the runs in both directions, and those of links."""
    paths = Counter(
        (run.matrix, run.profile, link, path)
        for run in results.runs
        for link, path in (("", run.path), *run.links)
    )
    several = any(run.links for run in results.runs)
    columns = (
        *text_columns(matrix="Matrix", profile="Profile", **({"link": "Link"} if several else {})),
        *(
            Column(f"{direction}_{key}", f"{direction}: {heading}", show)
            for direction in ("forward", "reverse")
            for key, heading, show in (
                ("rate_mbit", "Mbit/s", format_rate),
                ("delay_ms", "ms", "{:g}".format),
                ("jitter_ms", "± ms", "{:g}".format),
                ("loss_p", "loss", show_share),
                ("buffer_pkts", "packets", format_count),
            )
        ),
        Column("runs", "Runs", format_count),
    )
    rows = (
        {
            "matrix": matrix,
            "profile": profile,
            "link": link,
            **direction_columns(path),
            "runs": float(runs),
        }
        for (matrix, profile, link, path), runs in paths.items()
    )
    note = "Forward is what the client sends, reverse the way back, each as the load begins."
    if several:
        note += " A link that is named has a path of its own; the others have the run's."
    return Table(name, "The paths, both directions", note, columns, tuple(rows))


# Attributes of Environment that are columns of its table.
ENVIRONMENT_COLUMNS = ("kernel", "hz", "tunnel", "iperf3", "iproute2", "mininet", "lab", "host")


def environment_table(results: ExperimentFolders, name: str) -> Table:
    """List the environments, each with a letter that runs refer to."""
    columns = (
        *text_columns(letter=""),
        Column("runs", "Runs", format_count),
        *text_columns(kernel="Kernel"),
        Column("hz", "HZ"),
        *text_columns(machine="Machine"),
        Column("syscall_cost", "System call"),
        *text_columns(
            tunnel="Tunnel program", sha256="its SHA-256", iperf3="iperf3", iproute2="iproute2"
        ),
        *text_columns(mininet="Mininet", lab="Lab", host="Host"),
    )
    rows = tuple(
        {
            **{key: getattr(environment, key) for key in ENVIRONMENT_COLUMNS},
            "letter": letter,
            "runs": float(len(runs)),
            "machine": f"{environment.machine}, {environment.clock} clock",
            "syscall_cost": format_syscall_cost(environment),
            "sha256": environment.tunnel_sha256[:16],
            "sha256_whole": environment.tunnel_sha256,
        }
        for letter, (environment, runs) in environments_by_letter(results).items()
    )
    return Table(name, "What produced each number", "", columns, rows)


def format_syscall_cost(environment: Environment) -> str:
    cost_us = environment.syscall_cost_us
    if environment.clock == "real" or cost_us is None:
        return "the CPU's own"
    return f"{cost_us:g} µs"


def environments_by_letter(
    results: ExperimentFolders,
) -> dict[str, tuple[Environment, list[RunFolder]]]:
    """Return environments and their runs by letter, in the order of the runs."""
    by_environment: dict[Environment, list[RunFolder]] = {}
    for run in results.runs:
        if run.environment is not None:
            by_environment.setdefault(run.environment, []).append(run)
    return {index_to_letters(index): pair for index, pair in enumerate(by_environment.items())}


def index_to_letters(index: int) -> str:
    """Convert an index to letters: 0 is A, 26 is AA."""
    head, tail = divmod(index, 26)
    return (index_to_letters(head - 1) if head else "") + chr(ord("A") + tail)
