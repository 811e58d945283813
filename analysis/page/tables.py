"""The report's tables: what the figures draw, in figures; and what they leave out."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np
import pandas as pd

from analysis.judge.cells import Cell, MatrixResults, pairs_of, row_of, without
from analysis.judge.statistics import mean_interval, paired_difference, paired_ratio
from analysis.judge.table import (
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
    Column,
    Table,
    cc_name,
    count,
    delay,
    delays,
    is_missing,
    n_note,
    per_mille,
    percent,
    plain,
    rate,
    ratio,
    shown_columns,
    spread_words,
    texts,
)
from analysis.read.folder import Broken, Environment, Run
from analysis.read.runs import Results, differs, direction_columns
from analysis.read.study import level
from gostlab.describe.file.units import show_share
from gostlab.describe.file.words import changes_words

FACTOR_HEADINGS = {
    **{key: key.capitalize() for key in ("buffer", "rate", "delay", "loss", "clock", "profile")},
    "syscall_cost": "System call",
    "duration": "Run length",
}

Row = dict[str, Any]

# -- the tables


def goodput_table(
    table: pd.DataFrame, cells: Sequence[Cell], name: str, title: str, called: str = "study"
) -> Table:
    """The main table: every cell's goodput beside the study's."""
    published = [
        Column("study_mbit", f"{called.capitalize()} (Mbit/s)", rate),
        Column("ratio", f"Lab / {called}", ratio),
    ]
    beside = {cell.key: spread_words(cell.summary("goodput")) for cell in cells}
    columns = [
        *level_columns(cells),
        *(RUNS, GOODPUT),
        *([INTERVAL] if any(beside.values()) else []),
        *([] if table["goodput_study"].isna().all() else published),
        *(*DELAYS, LINK, IDLE, VERDICT),
    ]

    def told(row: pd.Series) -> Row:
        ends = [row[f"goodput_{end}"] for end in ("low", "high", "coverage")]
        values, states = row["goodput_values"], row["goodput_states"]
        mean = mean_interval(values) if values else None
        return {
            "goodput_mbit": None if states else row["goodput"],
            "goodput_interval": beside[row["key"]],
            "study_mbit": row["goodput_study"],
            "ratio": row["ratio"],
            **delays(row),
            "idle_share": row["idle_share"],
            "link_share": row["link_share"],
            "cpu_bound": bool(row["cpu_bound"]),
            **verdict_of(row),
            "goodput_low_mbit": ends[0],
            "goodput_high_mbit": ends[1],
            "goodput_coverage": ends[2],
            "mean_mbit": float(np.mean(values)) if values and not states else None,
            "mean_low_mbit": mean.low if mean else None,
            "mean_high_mbit": mean.high if mean else None,
            "left_out": row["left_out"],
            "study_source": row["study_source"],
        }

    return cell_table(table, cells, name, title, n_note(table), columns, told)


def cell_table(
    table: pd.DataFrame,
    cells: Sequence[Cell],
    name: str,
    title: str,
    note: str,
    columns: Iterable[Column],
    told: Callable[[pd.Series], Row],
) -> Table:
    """A row for each cell: its levels, how many runs count, and what is told of it."""
    rows = tuple(
        {**levels(row, cell), "n": row["n"], **told(row)}
        for (_, row), cell in zip(table.iterrows(), cells, strict=True)
    )
    return Table(name, title, note, shown_columns(columns, rows), rows)


def verdict_of(row: pd.Series) -> Row:
    """A cell's verdict, or why it has none."""
    return {"verdict": row["verdict"] if row["n"] else row["absent"]}


def level_columns(cells: Sequence[Cell]) -> list[Column]:
    """What tells the cells of a table apart."""
    usual = [TUNNEL, STREAMS, CC]
    others = {key for cell in cells for key, _ in cell.factors} - {each.key for each in usual}
    return usual + [
        Column(f"factor_{key}", FACTOR_HEADINGS.get(key, key), shown_level, numeric=False)
        for key in sorted(others)
    ]


def shown_level(value: object) -> str:
    """A level in a table: as it was written, and what changes under way in words."""
    return changes_words(value) or plain(value)


def levels(row: pd.Series, cell: Cell) -> Row:
    """A cell's levels, for those columns."""
    usual = {key: row[key] for key in ("tunnel", "streams", "cc")}
    if differs(cell.example, "streams"):
        usual["streams"] = None
    others = ((key, value) for key, value in cell.factors if key not in usual)
    return {**usual, **{f"factor_{key}": level(value) for key, value in others}}


def comparison_table(
    matrix: MatrixResults,
    table: pd.DataFrame,
    name: str,
    title: str,
    *,
    base: str = "cubic",
    versus: str = "bbr",
    called: str = "study",
) -> Table:
    """Two congestion controls at the same levels, seed by seed; the study's ratio beside it."""
    pairs = pairs_of(matrix.cells, base, versus)
    rows = tuple(row for pair in pairs if (row := pair_row(table, *pair)) is not None)
    first, second = cc_name(base), cc_name(versus)
    columns = [
        *(each for each in level_columns(matrix.cells) if each.key not in ("cc", "factor_cc")),
        Column("n", "Pairs", count),
        Column("ratio", f"{second} / {first}, lab", ratio),
        Column("ratio_interval", "Interval (coverage)"),
        Column("study_ratio", f"{second} / {first}, {called}", ratio),
        Column("difference_mbit", "Difference (Mbit/s)", signed),
        Column("base_srtt_median_ms", f"RTT under load, {first} (ms)", delay),
        Column("versus_srtt_median_ms", f"RTT, {second} (ms)", delay),
        Column("idle_share", "CPU idle, the lesser", percent),
        VERDICT,
    ]
    note = (
        "Each pair is one run of either with the same seed; the ratio is the median of the pairs'"
        " ratios."
    )
    return Table(name, title, note, shown_columns(columns, rows), rows)


def pair_row(table: pd.DataFrame, first: Cell, second: Cell) -> Row | None:
    """Two cells that differ in the congestion control alone; None without runs of one seed."""
    times = paired_ratio(first.by_seed(), second.by_seed())
    if times is None:
        return None
    apart = paired_difference(first.by_seed(), second.by_seed())
    base, versus = row_of(table, first), row_of(table, second)
    published = (versus["goodput_study"] / base["goodput_study"]) if base["goodput_study"] else None
    idle = [each["idle_share"] for each in (base, versus) if not is_missing(each["idle_share"])]
    found = times.interval
    return {
        **levels(base, without(first, "cc")),
        "n": times.n,
        "ratio": None if times.states else times.median,
        "ratio_interval": spread_words(times, ratio),
        "difference_mbit": apart.median if apart and not apart.states else None,
        "difference_interval": spread_words(apart, signed),
        "study_ratio": published,
        "base_srtt_median_ms": base["srtt_median_ms"],
        "versus_srtt_median_ms": versus["srtt_median_ms"],
        "idle_share": min(idle, default=None),
        "verdict": max((first.verdict, second.verdict), key=("ok", "degraded", "none").index),
        "ratio_low": found.low if found else None,
        "ratio_high": found.high if found else None,
        "ratio_coverage": found.coverage if found else None,
    }


def flows_table(table: pd.DataFrame, cells: Sequence[Cell], name: str, title: str) -> Table:
    """Each flow's goodput and share, their sum while all are active, Jain's index, convergence."""
    flows = list(dict.fromkeys(flow for cell in cells for flow in cell.flows))
    columns = [*level_columns(cells), RUNS]
    for flow in flows:
        columns += [
            Column(f"{flow}_mbit", f"{flow} (Mbit/s)", rate),
            Column(f"{flow}_share", f"{flow}, share", percent),
        ]
    columns += [
        Column("total_mbit", "Together (Mbit/s)", rate),
        Column("jain", "Jain", ratio),
        Column("convergence_s", "Converged after (s)", rate),
        Column("never", "Never, runs", count),
        *DELAYS,
        VERDICT,
    ]

    def told(row: pd.Series) -> Row:
        of_flows = {}
        for flow in flows:
            of_flows[f"{flow}_mbit"] = row.get(f"goodput:{flow}")
            of_flows[f"{flow}_share"] = row.get(f"share:{flow}")
        return {
            **{key: row[key] for key in ("total_mbit", "jain", "convergence_s")},
            "never": row["never_converged"],
            **delays(row),
            **verdict_of(row),
            **of_flows,
        }

    note = (
        "Medians. Shares, their sum and Jain's index are of the time when all flows with a"
        " congestion control are active, without its first quarter."
    )
    return cell_table(table, cells, name, title, note, columns, told)


def signed(value: float) -> str:
    return f"{value:+,.0f}" if abs(value) >= 10 else f"{value:+.2g}"


def retransmission_table(
    table: pd.DataFrame, cells: Sequence[Cell], name: str, title: str, called: str = "study"
) -> Table:
    """Segments sent again per leg, beside iperf3's Retr and the study's."""
    counted = {  # of the table's columns, by the name that each has here
        "wan_segments": ("wan", "WAN leg", count),
        "wan_share": ("wan_share", "WAN, of segments sent", per_mille),
        "app_segments": ("app", "Loopback before the tunnel", count),
        "exit_segments": ("exit", "After the tunnel", count),
        "retr": ("retr", "iperf3's Retr", count),
        "study_retr": ("retr_study", f"Retr, {called}", count),
        "client_nstat_segments": ("client_nstat", "Client's whole host (nstat)", count),
    }
    own = [
        Column(key, heading, show)
        for key, (of, heading, show) in counted.items()
        if key != "study_retr" or not table[of].isna().all()
    ]

    def told(row: pd.Series) -> Row:
        return {key: row[of] for key, (of, _, _) in counted.items()} | delays(row) | verdict_of(row)

    note = (
        "Medians of segments. In a tunnel iperf3's Retr counts the loopback connection between"
        " iperf3 and the tunnel's near end; only the WAN leg crosses the path."
    )
    columns = [*level_columns(cells), RUNS, *own, *DELAYS, VERDICT]
    return cell_table(table, cells, name, title, note, columns, told)


def left_out_table(results: Results, name: str, title: str) -> Table | None:
    """Every folder that no summary rests on, and why; None if there is none."""
    out = [run for run in results.runs if not run.counts]
    told = [(run.name, run.matrix, state_of(run), why(run)) for run in out]
    told += [(each.name, "", "unreadable", each.error) for each in results.broken]
    columns = texts(run="Run", matrix="Matrix", state="State", why="Why")
    keys = [column.key for column in columns]
    rows = tuple(dict(zip(keys, each, strict=True)) for each in told)
    note = "No table, figure or sentence above rests on these."
    return Table(name, title, note, columns, rows) if rows else None


def state_of(run: Run) -> str:
    """How a run stands, in one word."""
    return "invalid" if run.state == "ok" and run.verdict == "invalid" else run.state


def why(run: Run | Broken) -> str:
    """Why a run does not count, or counts only with care; empty for a good one."""
    if run.error or isinstance(run, Broken):
        return run.error or ""
    return "; ".join(
        check.reason or f"{check.name}: asked {check.asked} {check.unit}, got {check.got}"
        for check in run.checks
        if check.verdict != "ok"
    )


def path_table(results: Results, name: str, title: str) -> Table:
    """Every path that the runs had, both of its directions, and that of each link with its own."""
    paths = Counter(
        (run.matrix, run.profile, link, path)
        for run in results.runs
        for link, path in (("", run.path), *run.links)
    )
    several = any(run.links for run in results.runs)
    columns = (
        *texts(matrix="Matrix", profile="Profile", **({"link": "Link"} if several else {})),
        *(
            Column(f"{way}_{key}", f"{way}: {heading}", show)
            for way in ("forward", "reverse")
            for key, heading, show in (
                ("rate_mbit", "Mbit/s", rate),
                ("delay_ms", "ms", "{:g}".format),
                ("jitter_ms", "± ms", "{:g}".format),
                ("loss_p", "loss", show_share),
                ("buffer_pkts", "packets", count),
            )
        ),
        Column("runs", "Runs", count),
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
    return Table(name, title, note, columns, tuple(rows))


# What its table says of an environment, under the name that it has there.
MADE_BY = ("kernel", "hz", "tunnel", "iperf3", "iproute2", "mininet", "lab", "host")


def environment_table(results: Results, name: str, title: str) -> Table:
    """What produced each number: every environment once, with a letter that the runs refer to."""
    columns = (
        *texts(letter=""),
        Column("runs", "Runs", count),
        *texts(kernel="Kernel"),
        Column("hz", "HZ"),
        *texts(machine="Machine"),
        Column("syscall_cost", "System call"),
        *texts(tunnel="Tunnel program", sha256="its SHA-256", iperf3="iperf3", iproute2="iproute2"),
        *texts(mininet="Mininet", lab="Lab", host="Host"),
    )
    rows = tuple(
        {
            **{key: getattr(environment, key) for key in MADE_BY},
            "letter": letter,
            "runs": float(len(runs)),
            "machine": f"{environment.machine}, {environment.clock} clock",
            "syscall_cost": (
                "the CPU's own"
                if environment.clock == "real" or environment.syscall_cost_us is None
                else f"{environment.syscall_cost_us:g} µs"
            ),
            "sha256": environment.tunnel_sha256[:16],
            "sha256_whole": environment.tunnel_sha256,
        }
        for letter, (environment, runs) in environments(results).items()
    )
    return Table(name, title, "", columns, rows)


def environments(results: Results) -> dict[str, tuple[Environment, list[Run]]]:
    """Letter -> environment and its runs, in the order of the runs; A to Z, AA and on."""
    found: dict[Environment, list[Run]] = {}
    for run in results.runs:
        if run.environment is not None:
            found.setdefault(run.environment, []).append(run)
    return {letters(index): pair for index, pair in enumerate(found.items())}


def letters(index: int) -> str:
    """0 is A, 26 is AA."""
    head, tail = divmod(index, 26)
    return (letters(head - 1) if head else "") + chr(ord("A") + tail)
