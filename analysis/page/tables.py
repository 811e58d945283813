"""The report's tables: what the figures draw, in figures; and what they leave out."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pandas as pd

from analysis.judge.cells import Cell, MatrixResults, pairs_of, row_of, without
from analysis.judge.statistics import Summary, mean_interval, paired_difference, paired_ratio
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
    interval,
    is_missing,
    n_note,
    per_mille,
    percent,
    plain,
    rate,
    ratio,
    shown_columns,
)
from analysis.read.folder import Broken, Environment, Run
from analysis.read.runs import Results, direction_columns
from gostlab.ask.units import show_share
from gostlab.ask.words import changes_words

FACTOR_HEADINGS = {
    "syscall_cost": "System call",
    "buffer": "Buffer",
    "duration": "Run length",
    "rate": "Rate",
    "delay": "Delay",
    "loss": "Loss",
    "clock": "Clock",
    "profile": "Profile",
}

# -- the tables


def goodput_table(
    table: pd.DataFrame, cells: Sequence[Cell], name: str, title: str, called: str = "study"
) -> Table:
    """The main table: every cell's goodput beside the study's."""
    published = [
        Column("study_mbit", f"{called.capitalize()} (Mbit/s)", rate),
        Column("ratio", f"Lab / {called}", ratio),
    ]
    if table["goodput_study"].isna().all():
        published = []
    columns = [
        *level_columns(table, cells),
        RUNS,
        GOODPUT,
        INTERVAL,
        *published,
        *DELAYS,
        LINK,
        IDLE,
        VERDICT,
    ]
    if table["goodput_low"].isna().all():
        columns.remove(INTERVAL)
    rows = []
    for (_, row), cell in zip(table.iterrows(), cells, strict=True):
        mean = mean_interval(row["goodput_values"]) if row["n"] else None
        rows.append(
            {
                **levels(row, cell),
                "n": row["n"],
                "goodput_mbit": row["goodput"],
                "goodput_interval": interval(
                    row["goodput_low"], row["goodput_high"], row["goodput_coverage"]
                ),
                "study_mbit": row["goodput_study"],
                "ratio": row["ratio"],
                **delays(row),
                "idle_share": row["idle_share"],
                "link_share": row["link_share"],
                "cpu_bound": bool(row["cpu_bound"]),
                "verdict": row["verdict"] if row["n"] else row["absent"],
                "goodput_low_mbit": row["goodput_low"],
                "goodput_high_mbit": row["goodput_high"],
                "goodput_coverage": row["goodput_coverage"],
                "mean_mbit": sum(row["goodput_values"]) / row["n"] if row["n"] else None,
                "mean_low_mbit": mean.low if mean else None,
                "mean_high_mbit": mean.high if mean else None,
                "left_out": row["left_out"],
                "study_source": row["study_source"],
            }
        )
    return Table(name, title, n_note(table), shown_columns(columns, rows), tuple(rows))


def level_columns(table: pd.DataFrame, cells: Sequence[Cell]) -> list[Column]:
    """What tells the cells of a table apart."""
    usual = [TUNNEL, STREAMS, CC]
    known = {"tunnel", "streams", "cc"}
    others = sorted({key for cell in cells for key, _ in cell.factors} - known)
    return [
        *usual,
        *(
            Column(f"factor_{key}", FACTOR_HEADINGS.get(key, key), shown_level, numeric=False)
            for key in others
        ),
    ]


def shown_level(value: object) -> str:
    """A level in a table: as it was written, and what changes under way in words."""
    return changes_words(value) or plain(value)


def levels(row: pd.Series, cell: Cell) -> dict[str, Any]:
    """A cell's levels, for those columns."""
    from analysis.read.study import level

    return {
        "tunnel": row["tunnel"],
        "streams": row["streams"],
        "cc": row["cc"],
        **{
            f"factor_{key}": level(value)
            for key, value in cell.factors
            if key not in ("tunnel", "streams", "cc")
        },
    }


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
    """Two congestion controls at the same levels, run against run of the same seed; the study's
    ratio beside it.
    """
    pairs = pairs_of(matrix.cells, base, versus)
    rows = [row for pair in pairs if (row := pair_row(table, *pair)) is not None]
    others = [
        column
        for column in level_columns(table, matrix.cells)
        if column is not CC and column.key != "factor_cc"
    ]
    columns = [
        *others,
        Column("n", "Pairs", count),
        Column("ratio", f"{cc_name(versus)} / {cc_name(base)}, lab", ratio),
        Column("ratio_interval", "Interval (coverage)", plain),
        Column("study_ratio", f"{cc_name(versus)} / {cc_name(base)}, {called}", ratio),
        Column("difference_mbit", "Difference (Mbit/s)", signed),
        Column("base_srtt_median_ms", f"RTT under load, {cc_name(base)} (ms)", delay),
        Column("versus_srtt_median_ms", f"RTT, {cc_name(versus)} (ms)", delay),
        Column("idle_share", "CPU idle, the lesser", percent),
        VERDICT,
    ]
    return Table(
        name,
        title,
        "Each pair is one run of either with the same seed; the ratio is the median of the "
        "pairs' ratios.",
        shown_columns(columns, rows),
        tuple(rows),
    )


def pair_row(table: pd.DataFrame, first: Cell, second: Cell) -> dict[str, Any] | None:
    """Two cells that differ in the congestion control alone; None without runs of one seed."""
    times = paired_ratio(first.by_seed(), second.by_seed())
    if times is None:
        return None
    apart = paired_difference(first.by_seed(), second.by_seed())
    published = published_goodput(table, first), published_goodput(table, second)
    return {
        **levels(row_of(table, first), without(first, "cc")),
        "n": times.n,
        "ratio": times.median,
        "ratio_interval": summary_interval(times, ratio),
        "difference_mbit": apart.median if apart else None,
        "difference_interval": summary_interval(apart, signed) if apart else "",
        "study_ratio": published[1] / published[0] if published[0] and published[1] else None,
        "base_srtt_median_ms": row_of(table, first)["srtt_median_ms"],
        "versus_srtt_median_ms": row_of(table, second)["srtt_median_ms"],
        "idle_share": least(first.summary("idle_share"), second.summary("idle_share")),
        "verdict": max((first.verdict, second.verdict), key=("ok", "degraded", "none").index),
        "ratio_low": times.interval.low if times.interval else None,
        "ratio_high": times.interval.high if times.interval else None,
        "ratio_coverage": times.interval.coverage if times.interval else None,
    }


def published_goodput(table: pd.DataFrame, cell: Cell) -> float | None:
    """The study's goodput for a cell."""
    value = row_of(table, cell)["goodput_study"]
    return None if is_missing(value) else float(value)


def summary_interval(summary: Summary, show: Callable[[float], str]) -> str:
    """A summary's interval in words; empty below six runs."""
    found = summary.interval
    return interval(found.low, found.high, found.coverage, show) if found else ""


def flows_table(table: pd.DataFrame, cells: Sequence[Cell], name: str, title: str) -> Table:
    """Goodput and share of every flow, their sum while all are active, Jain's index, when they
    converged.
    """
    flows = list(dict.fromkeys(flow for cell in cells for flow in cell.flows))
    columns = [*level_columns(table, cells), RUNS]
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
    rows = []
    for (_, row), cell in zip(table.iterrows(), cells, strict=True):
        told = {
            **levels(row, cell),
            "n": row["n"],
            "total_mbit": row["total_mbit"],
            "jain": row["jain"],
            "convergence_s": row["convergence_s"],
            "never": row["never_converged"],
            **delays(row),
            "verdict": row["verdict"] if row["n"] else row["absent"],
        }
        for flow in flows:
            told |= {
                f"{flow}_mbit": row.get(f"goodput:{flow}"),
                f"{flow}_share": row.get(f"share:{flow}"),
            }
        rows.append(told)
    return Table(
        name,
        title,
        "Medians. Shares, their sum and Jain's index are of the time when all flows with a"
        " congestion control are active, without its first quarter.",
        shown_columns(columns, rows),
        tuple(rows),
    )


def signed(value: float) -> str:
    """A difference."""
    return f"{value:+,.0f}" if abs(value) >= 10 else f"{value:+.2g}"


def least(*summaries: Summary | None) -> float | None:
    """The least median of those there are."""
    return min((summary.median for summary in summaries if summary), default=None)


def retransmission_table(
    table: pd.DataFrame, cells: Sequence[Cell], name: str, title: str, called: str = "study"
) -> Table:
    """Segments sent again per leg, beside iperf3's Retr and the study's."""
    columns = [
        *level_columns(table, cells),
        RUNS,
        Column("wan_segments", "WAN leg", count),
        Column("wan_share", "WAN, of segments sent", per_mille),
        Column("app_segments", "Loopback before the tunnel", count),
        Column("exit_segments", "After the tunnel", count),
        Column("retr", "iperf3's Retr", count),
        Column("study_retr", f"Retr, {called}", count),
        Column("client_nstat_segments", "Client's whole host (nstat)", count),
        *DELAYS,
        VERDICT,
    ]
    rows = [
        {
            **levels(row, cell),
            "n": row["n"],
            "wan_segments": row["wan"],
            "wan_share": row["wan_share"],
            "app_segments": row["app"],
            "exit_segments": row["exit"],
            "retr": row["retr"],
            "study_retr": row["retr_study"],
            "client_nstat_segments": row["client_nstat"],
            **delays(row),
            "verdict": row["verdict"] if row["n"] else row["absent"],
        }
        for (_, row), cell in zip(table.iterrows(), cells, strict=True)
    ]
    if table["retr_study"].isna().all():
        columns = [column for column in columns if column.key != "study_retr"]
    return Table(
        name,
        title,
        "Medians of segments. In a tunnel iperf3's Retr counts the loopback connection between "
        "iperf3 and the tunnel's near end; only the WAN leg crosses the path.",
        shown_columns(columns, rows),
        tuple(rows),
    )


def left_out_table(results: Results, name: str, title: str) -> Table | None:
    """Every folder that no summary rests on, and why; None if there is none."""
    rows: list[dict[str, Any]] = [
        {"run": run.name, "matrix": run.matrix, "state": state_of(run), "why": why(run)}
        for run in results.runs
        if not run.counts
    ]
    rows += [
        {"run": each.name, "matrix": "", "state": "unreadable", "why": each.error}
        for each in results.broken
    ]
    if not rows:
        return None
    columns = (
        Column("run", "Run", plain, False),
        Column("matrix", "Matrix", plain, False),
        Column("state", "State", plain, False),
        Column("why", "Why", plain, False),
    )
    return Table(
        name, title, "No table, figure or sentence above rests on these.", columns, tuple(rows)
    )


def state_of(run: Run) -> str:
    """How a run stands, in one word."""
    return "invalid" if run.state == "ok" and run.verdict == "invalid" else run.state


def why(run: Run | Broken) -> str:
    """Why a run does not count, or counts only with care; empty for a good one."""
    if run.error or isinstance(run, Broken):
        return run.error or ""
    bad = [check for check in run.checks if check.verdict != "ok"]
    return "; ".join(
        check.reason or f"{check.name}: asked {check.asked} {check.unit}, got {check.got}"
        for check in bad
    )


def path_table(results: Results, name: str, title: str) -> Table:
    """Every path that the runs had, both of its directions, and that of each link with its own."""
    runs_of: dict[tuple[tuple[str, Any], ...], int] = {}
    several = any(run.links for run in results.runs)
    for run in results.runs:
        for link, path in (("", run.path), *run.links):
            where = {"matrix": run.matrix, "profile": run.profile, "link": link}
            row = {**where, **direction_columns(path)}
            runs_of[tuple(row.items())] = runs_of.get(tuple(row.items()), 0) + 1
    columns = (
        Column("matrix", "Matrix", plain, False),
        Column("profile", "Profile", plain, False),
        *([Column("link", "Link", plain, False)] if several else []),
        *(
            Column(f"{way}_{key}", f"{way}: {heading}", show)
            for way in ("forward", "reverse")
            for key, heading, show in (
                ("rate_mbit", "Mbit/s", rate),
                ("delay_ms", "ms", delay_of_path),
                ("jitter_ms", "± ms", delay_of_path),
                ("loss_p", "loss", show_share),
                ("buffer_pkts", "packets", count),
            )
        ),
        Column("runs", "Runs", count),
    )
    rows = [{**dict(path), "runs": float(runs)} for path, runs in runs_of.items()]
    note = "Forward is what the client sends, reverse the way back, each as the load begins."
    if several:
        note += " A link that is named has a path of its own; the others have the run's."
    return Table(name, title, note, columns, tuple(rows))


def delay_of_path(delay_ms: float) -> str:
    """A delay as it was asked for: 72.255."""
    return f"{delay_ms:g}"


def environment_table(results: Results, name: str, title: str) -> Table:
    """What produced each number: every environment once, with a letter that the runs refer to."""
    rows = []
    for letter, (environment, runs) in environments(results).items():
        rows.append(
            {
                "letter": letter,
                "runs": float(len(runs)),
                "kernel": environment.kernel,
                "hz": environment.hz,
                "machine": f"{environment.machine}, {environment.clock} clock",
                "syscall_cost": (
                    "the CPU's own"
                    if environment.clock == "real" or environment.syscall_cost_us is None
                    else f"{environment.syscall_cost_us:g} µs"
                ),
                "tunnel": environment.tunnel,
                "sha256": environment.tunnel_sha256[:16],
                "iperf3": environment.iperf3,
                "iproute2": environment.iproute2,
                "mininet": environment.mininet,
                "lab": environment.lab,
                "host": environment.host,
                "sha256_whole": environment.tunnel_sha256,
            }
        )
    columns = (
        Column("letter", "", plain, False),
        Column("runs", "Runs", count),
        Column("kernel", "Kernel", plain, False),
        Column("hz", "HZ", plain),
        Column("machine", "Machine", plain, False),
        Column("syscall_cost", "System call", plain),
        Column("tunnel", "Tunnel program", plain, False),
        Column("sha256", "its SHA-256", plain, False),
        Column("iperf3", "iperf3", plain, False),
        Column("iproute2", "iproute2", plain, False),
        Column("mininet", "Mininet", plain, False),
        Column("lab", "Lab", plain, False),
        Column("host", "Host", plain, False),
    )
    return Table(name, title, "", columns, tuple(rows))


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
