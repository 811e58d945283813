# SPDX-License-Identifier: MIT
"""Plot goodput and CPU idle share by system call cost; the real clock is separate."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Literal

from gostlab.analysis.load.run_folder import IDLE_SHARE_LOW
from gostlab.analysis.plotting import facet
from gostlab.analysis.plotting.plot_registry import (
    Drawing,
    FigureInput,
    JoinedCells,
    MatrixInput,
    ReportFigure,
)
from gostlab.analysis.plotting.style import FAINT, legend_entry
from gostlab.analysis.stats.cells import cpu_cells
from gostlab.analysis.stats.table_formats import (
    SWEPT_FIRST,
    SWEPT_GOODPUT,
    SWEPT_LAST,
    VERDICT,
    Column,
    Table,
    cells_table,
    format_rate,
    pluralize,
    to_cell_text,
)

if TYPE_CHECKING:
    import numpy as np
    import pandas as pd
    from matplotlib.axes import Axes

STARVED = "#f3d9d2"
STUDY_LINE = (0, (1, 1.5))


def group_by_syscall_cost(table: pd.DataFrame, rows: pd.DataFrame) -> list[facet.Group]:
    """Group cells by system call cost, with the real clock last."""
    real = table["clock"] == "real"
    costs = sorted(table.loc[~real, "syscall_cost_us"].unique())
    on_real = rows["clock"] == "real"
    result = [(f"{cost:g}", rows[~on_real & (rows["syscall_cost_us"] == cost)]) for cost in costs]
    if real.any():
        unlike = table.loc[real, "offloads"].max() > table.loc[~real, "offloads"].max()
        text = "real clock,\noffloads on" if unlike else "real\nclock"
        result.append((text, rows[on_real]))
    return result


def convert_to_percent(table: pd.DataFrame, figure: str) -> pd.DataFrame:
    """Convert a column of shares to percent."""
    ends = {f"{figure}{end}": 100 * table[f"{figure}{end}"] for end in ("", "_low", "_high")}
    values = [tuple(100 * item for item in some) for some in table[f"{figure}_values"]]
    states = [() for _ in values]  # idle shares are plotted without clusters
    return table.assign(**ends, **{f"{figure}_values": values, f"{figure}_states": states})


def scale_idle_axis(ax: Axes, way: Literal["x", "y"], table: pd.DataFrame) -> None:
    """Set an axis from 0 to 100 % with the limit of a saturated CPU."""
    ax.set_ylim(-3, 103)
    ax.axhspan(0, 100 * IDLE_SHARE_LOW, color=STARVED, zorder=0, label="no time left")


def panels(sheet: FigureInput) -> list[facet.FacetPanel]:
    """Return panels of goodput and CPU idle share, one column per stream count."""
    result = []
    goodput = facet.MetricAxis(facet.from_zero(1.08))
    idle = facet.MetricAxis(scale_idle_axis, "idle_share", label="CPU idle (% of a second)")
    counts = sorted(sheet.rows["streams"].unique())
    for value in (goodput, idle):
        table = sheet.rows if value is goodput else convert_to_percent(sheet.rows, "idle_share")
        for number in counts:
            rows = table[table["streams"] == number]

            def behind(
                ax: Axes, rows: pd.DataFrame = rows, value: facet.MetricAxis = value
            ) -> None:
                for line in facet.series_by_tunnel_and_cc(rows, rows) if value is goodput else ():
                    cc, mine = line.levels["cc"], rows[rows["tunnel"] == line.levels["tunnel"]]
                    for study in mine.loc[mine["cc"] == cc, "goodput_study"].dropna().unique():
                        look = {"linestyle": STUDY_LINE, "linewidth": 1.4, "label": f"study {cc}"}
                        ax.axhline(study, color=line.colour, **look)

            heading = pluralize(number, "stream") if value is goodput else ""
            result.append(
                facet.panel_of_groups(
                    heading, group_by_syscall_cost(table, rows), value, behind=behind
                )
            )
    return result


def axis_name(table: pd.DataFrame) -> str:
    """Return the axis label, in full if it fits."""
    if table["streams"].nunique() > 1:
        return "Cost of a system call (µs)"
    return "Cost of a system call (µs of virtual time), and the real clock"


def extra_legend_handles(sheet: FigureInput, axes: np.ndarray) -> list[Any]:
    """Return the legend entries of study and saturated CPU."""
    from matplotlib.patches import Patch

    result: list[Any] = []
    if sheet.rows["goodput_study"].notna().any():
        text = f"the {sheet.study_label}, in its colour"
        result.append(legend_entry(text, color=FAINT, linestyle=STUDY_LINE))
    starved = f"idle < {100 * IDLE_SHARE_LOW:.0f} %: no time left"
    return [*result, Patch(facecolor=STARVED, label=starved)]


FACET = facet.BY_PAIR(
    panels=panels,
    more_keys=extra_legend_handles,
    step=0.14,  # distance that keeps equal values visible
    joined=lambda row: bool(row["clock"] != "real"),
    ends=(0.4, 0.4),
    places=axis_name,
    ruled_across=True,
    panel_in=2.8,
    shape=lambda count: (2, count // 2),
    shared={"sharex": True, "sharey": "row"},
)


def draw(sheet: FigureInput) -> Iterator[ReportFigure]:
    lengths = sorted(sheet.rows["duration_s"].unique())
    aside = (
        f" Runs of {' and '.join(f'{length:g} s' for length in lengths)} stand side by side here."
        if len(lengths) > 1
        else ""
    )
    yield from FACET(sheet, DRAWING.caption + aside)


def cells(sweep: MatrixInput) -> JoinedCells:
    """Return the sweep's cells with points of other matrices: real clock, default cost."""
    matrix = sweep.matrix
    for other in sweep.matrices:
        larger = "cpu" in other.draw and len(other.cells) > len(matrix.cells)
        if larger and set(matrix.cells) <= set(cpu_cells(other, sweep.matrices)):
            return JoinedCells(matrix.cells, elsewhere=f"“{sweep.study.matrix_title(other.name)}”")
    return JoinedCells(cpu_cells(matrix, sweep.matrices))


def tables(sweep: MatrixInput, table: pd.DataFrame, name: str) -> Iterator[Table]:
    on_real = "real clock" + table["offloads"].map({1.0: ", offloads on"}).fillna("")
    cost_us = table["syscall_cost_us"].map("{:g} µs".format)
    costs = table.assign(cost=cost_us.where(table["clock"] != "real", on_real))
    columns = (
        *SWEPT_FIRST,
        Column("cost", "System call", to_cell_text),
        *SWEPT_GOODPUT,
        *SWEPT_LAST,
        Column("study_mbit", f"{sweep.study.called.capitalize()} (Mbit/s)", format_rate),
        VERDICT,
    )
    title, selected = "Goodput by what a system call costs", ("clock", "syscall_cost_us")
    yield cells_table(f"{name}-cpu", title, costs, columns, selected)


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
    cells=cells,
    tables=tables,
    borrows=True,
)
