"""Goodput, and the CPU's idle share below it, by what a system call costs; the real clock apart."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Patch

from analysis.draw.levels import ccs_of, facets_of, tunnels_of
from analysis.draw.marks import degraded_handles, draw_line, draw_point, figure_values
from analysis.draw.registry import (
    Answer,
    Drawing,
    Joined,
    Picture,
    Sheet,
    Sweep,
    valid_rows,
)
from analysis.draw.sentences import UNMOVED, percent_or, streams, whole_percent
from analysis.draw.style import (
    FAINT,
    cc_colour,
    finish,
    new_figure,
    styled,
    thousands,
    tunnel_marker,
)
from analysis.judge.cells import cpu_cells
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
    delays,
    interval,
    n_note,
    plain,
    rate,
    shown_columns,
)
from analysis.read.folder import IDLE_SHARE_LOW

STARVED = "#f3d9d2"
STUDY_LINE = (0, (1, 1.5))


@styled
def plot_cpu(
    table: pd.DataFrame, footer: str = "", *, title: str = "", called: str = "study"
) -> Figure:
    """Goodput above the guest CPU's idle share, by what a system call costs, a column per number of
    streams.
    """
    streams_there = sorted(table["streams"].unique())
    lines = [(tunnel, cc) for tunnel in tunnels_of(table) for cc in ccs_of(table)]
    places, ticks = cost_axis(table)
    figure, axes = new_figure(5.6, 2, len(streams_there), sharex=True, sharey="row")
    top = max([1.0, *figure_values(table, "goodput", link=False)])
    for column, count in enumerate(streams_there):
        goodput, idle = axes[0, column], axes[1, column]
        for place, (tunnel, cc) in enumerate(lines):
            # A little apart, so that equal values of two do not hide each other.
            aside = (place - (len(lines) - 1) / 2) * 0.14
            rows = table[
                (table["streams"] == count) & (table["tunnel"] == tunnel) & (table["cc"] == cc)
            ]
            draw_cost_line(goodput, rows, places, "goodput", 1.0, aside)
            draw_cost_line(idle, rows, places, "idle_share", 100.0, aside)
            for study in rows["goodput_study"].dropna().unique():
                goodput.axhline(
                    study,
                    color=cc_colour(cc),
                    linestyle=STUDY_LINE,
                    linewidth=1.4,
                    label=f"study {cc}",
                )
        idle.axhspan(0, 100 * IDLE_SHARE_LOW, color=STARVED, zorder=0, label="no time left")
        goodput.set_title(streams(count))
        goodput.set_ylim(0, 1.08 * top)
        idle.set_ylim(-3, 103)
        idle.set_xticks(range(len(ticks)), ticks)
        idle.set_xlim(-0.4, len(ticks) - 0.6)
        thousands(goodput.yaxis)
        idle.set_xlabel(
            "Cost of a system call (µs)"
            if len(streams_there) > 1
            else "Cost of a system call (µs of virtual time), and the real clock"
        )
    axes[0, 0].set_ylabel("Goodput (Mbit/s)")
    axes[1, 0].set_ylabel("CPU idle (% of a second)")
    handles: list[Any] = [
        Line2D(
            [],
            [],
            color=cc_colour(cc),
            marker=tunnel_marker(tunnel),
            label=f"{cc_name(cc)}, {tunnel}",
        )
        for tunnel, cc in lines
    ]
    if table["goodput_study"].notna().any():
        handles.append(
            Line2D([], [], color=FAINT, linestyle=STUDY_LINE, label=f"the {called}, in its colour")
        )
    handles.append(
        Patch(facecolor=STARVED, label=f"idle < {100 * IDLE_SHARE_LOW:.0f} %: no time left")
    )
    finish(figure, [*handles, *degraded_handles(table)], footer, title)
    return figure


def cost_axis(table: pd.DataFrame) -> tuple[dict[tuple[str, float | None], int], list[str]]:
    """(clock, cost) -> its place, and the places' names: costs one after the other, then the real
    clock.
    """
    virtual, real = table[table["clock"] != "real"], table[table["clock"] == "real"]
    costs = sorted(virtual["syscall_cost_us"].unique())
    places: dict[tuple[str, float | None], int] = {
        ("virtual", cost): index for index, cost in enumerate(costs)
    }
    names = [f"{cost:g}" for cost in costs]
    if len(real):
        places["real", None] = len(costs)
        unlike = real["offloads"].max() > virtual["offloads"].max()
        names.append("real clock,\noffloads on" if unlike else "real\nclock")
    return places, names


def draw_cost_line(
    ax: Axes,
    rows: pd.DataFrame,
    places: Mapping[tuple[str, float | None], int],
    figure: str,
    scale: float,
    aside: float,
) -> None:
    """One congestion control's line over the costs; the real clock stands apart from it."""
    points: list[tuple[float, pd.Series]] = []
    for _, row in rows[rows[figure].notna()].sort_values("syscall_cost_us").iterrows():
        scaled = row.copy()
        for end in ("", "_low", "_high"):
            scaled[figure + end] = scale * row[figure + end]
        scaled[f"{figure}_values"] = tuple(scale * value for value in row[f"{figure}_values"])
        real = row["clock"] == "real"
        place = places["real", None] if real else places["virtual", row["syscall_cost_us"]]
        points.append((place + aside, scaled))
    virtual = [(x, row) for x, row in points if row["clock"] != "real"]
    if virtual:
        draw_line(ax, virtual, figure, cc_colour(virtual[0][1]["cc"]))
    for x, row in points:
        marker = tunnel_marker(row["tunnel"])
        draw_point(ax, x, row, figure, cc_colour(row["cc"]), f"lab {row['cc']}", marker=marker)


def draw(sheet: Sheet) -> Iterator[Picture]:
    """One figure."""
    plotted = plot_cpu(sheet.rows, sheet.footer, title=sheet.title, called=sheet.called)
    lengths = sorted(sheet.rows["duration_s"].unique())
    aside = (
        f" Runs of {' and '.join(f'{length:g} s' for length in lengths)} stand side by side here."
        if len(lengths) > 1
        else ""
    )
    yield Picture(plotted, DRAWING.caption + aside)


def cells(sweep: Sweep) -> Joined:
    """The sweep's, with the points that other matrices add: the real clock, the default cost."""
    matrix = sweep.matrix
    for other in sweep.matrices:
        larger = "cpu" in other.draw and len(other.cells) > len(matrix.cells)
        if larger and set(matrix.cells) <= set(cpu_cells(other, sweep.matrices)):
            return Joined(matrix.cells, elsewhere=f"“{sweep.study.matrix_title(other.name)}”")
    return Joined(cpu_cells(matrix, sweep.matrices))


def says(sweep: Sweep, table: pd.DataFrame) -> Iterator[Answer]:
    """Does the cost of a system call set the rate?"""
    valid = valid_rows(table)
    known = ("clock", "syscall_cost_us", "cc")
    said = [
        cpu_sentence(cells, f"{tunnel} ({aside})" if aside else str(tunnel), float(count))
        for tunnel in (tunnels_of(valid) if len(valid) else ())
        for count, rows in valid[valid["tunnel"] == tunnel].groupby("streams")
        for aside, cells in facets_of(rows, known=known)
    ]
    if any(said):
        yield Answer("Is it the CPU?", tuple(sentence for sentence in said if sentence))


def cpu_sentence(rows: pd.DataFrame, tunnel: str, count: float) -> str:
    """One tunnel and number of streams over the costs, and what follows."""
    parts, moved, starved = [], [], []
    for cc in ccs_of(rows):
        mine = rows[rows["cc"] == cc]
        virtual = mine[mine["clock"] != "real"].sort_values("syscall_cost_us")
        real = mine[mine["clock"] == "real"]
        if len(virtual) > 1:
            low, high = virtual.iloc[0], virtual.iloc[-1]
            parts.append(
                f"{cc_name(cc)} {rate(low['goodput'])} → {rate(high['goodput'])} Mbit/s (CPU idle"
                f" {percent_or(low['idle_share'])} → {percent_or(high['idle_share'])}, bottleneck"
                f" used {percent_or(low['link_share'])} → {percent_or(high['link_share'])}) from"
                f" {low['syscall_cost_us']:g} to {high['syscall_cost_us']:g} µs per system call"
            )
            moved.append(virtual["goodput"].max() / max(virtual["goodput"].min(), 1e-9) - 1)
            starved.append(bool(high["cpu_bound"]))
        if len(real):
            row = real.iloc[0]
            parts.append(
                f"{cc_name(cc)} on the real clock {rate(row['goodput'])} Mbit/s (idle "
                f"{percent_or(row['idle_share'])})"
            )
    if not parts:
        return ""
    said = f"{tunnel}, {streams(count)}: {'; '.join(parts)}."
    if moved and max(moved) < UNMOVED:
        said += (
            f" The cost moves the rate by less than {whole_percent(UNMOVED)}: it is not the CPU's."
        )
    elif moved and any(starved):
        said += (
            " The rate follows the cost, and at the highest the CPU has no time left while the"
            " bottleneck has room: there it is the CPU's, whatever the congestion control."
        )
    elif moved:
        said += " The rate follows the cost although the CPU has time left."
    return said


def tables(sweep: Sweep, table: pd.DataFrame, name: str) -> Iterator[Table]:
    """Goodput and idle share by the cost of a system call."""
    columns = (
        TUNNEL,
        STREAMS,
        CC,
        Column("cost", "System call", plain),
        RUNS,
        GOODPUT,
        INTERVAL,
        *DELAYS,
        LINK,
        IDLE,
        Column("study_mbit", f"{sweep.study.called.capitalize()} (Mbit/s)", rate),
        VERDICT,
    )
    rows = [
        {
            "tunnel": row["tunnel"],
            "streams": row["streams"],
            "cc": row["cc"],
            "cost": cost_words(row),
            "n": row["n"],
            "goodput_mbit": row["goodput"],
            "goodput_interval": interval(
                row["goodput_low"], row["goodput_high"], row["goodput_coverage"]
            ),
            **delays(row),
            "idle_share": row["idle_share"],
            "link_share": row["link_share"],
            "study_mbit": row["goodput_study"],
            "verdict": row["verdict"] if row["n"] else row["absent"],
            "clock": row["clock"],
            "syscall_cost_us": row["syscall_cost_us"],
        }
        for _, row in table.iterrows()
    ]
    title = "Goodput by what a system call costs"
    yield Table(f"{name}-cpu", title, n_note(table), shown_columns(columns, rows), tuple(rows))


def cost_words(row: pd.Series) -> str:
    """What a system call costs in a cell."""
    if row["clock"] == "real":
        return "real clock" + (", offloads on" if row["offloads"] else "")
    return f"{row['syscall_cost_us']:g} µs"


DRAWING = Drawing(
    "cpu",
    caption=(
        "Goodput and the idle share, in the median second, of the CPU (the busiest host's, where"
        " hosts have their own). On"
        " the virtual clock a system call costs what the axis says and nothing else costs time; on"
        " the real clock the machine's own CPU carries everything."
    ),
    draw=draw,
    shows=("streams", "tunnel", "cc", "clock", "syscall_cost_us"),
    says=says,
    cells=cells,
    tables=tables,
    borrows=True,
)
