# SPDX-License-Identifier: MIT
"""Plot ECN marks by tunnel: at the queue, the path's sender, and the inner sender."""

from collections.abc import Callable, Iterator, Mapping
from statistics import median
from typing import Any

from gostlab.analysis.load.run_folder import RunFolder, sum_known
from gostlab.analysis.load.series import bottleneck_marks
from gostlab.analysis.plotting import facet
from gostlab.analysis.plotting.factors import tunnels_of
from gostlab.analysis.plotting.marks import CellPosition
from gostlab.analysis.plotting.panel_layout import cc_legend_lines
from gostlab.analysis.plotting.plot_registry import Drawing, FigureInput, MatrixInput
from gostlab.analysis.plotting.style import ArtistStyle, cc_colour
from gostlab.analysis.stats.statistics import is_known
from gostlab.analysis.stats.table_formats import Column, Table, TableRow, format_count, text_columns

HEADINGS = {
    "marked": "Marked by the queue",
    "across": "Told to the sender across the path",
    "inside": "Told to the sender inside the tunnel",
}


def marks_reported_to(*legs: str) -> Callable[[RunFolder], int | None]:
    """Return the marked packets reported to some legs' senders; None without a leg."""
    return lambda run: sum_known(leg.marked_pkts for leg in run.legs if leg.name in legs)


POINT: ArtistStyle = {"marker": "o", "markersize": 5.5, "linestyle": "none"}
# A tunnel over UDP has no TCP sender across the path.
COUNTED: Mapping[str, Callable[[RunFolder], int | None]] = {
    "marked": bottleneck_marks,
    "across": marks_reported_to("wan"),
    "inside": marks_reported_to("app", "inner"),
}


def mark_count_rows(sweep: MatrixInput) -> list[TableRow]:
    """Add the medians of each cell."""
    result = []
    for cell in sweep.matrix.cells:
        row: TableRow = {"cell": cell.label, "runs": len(cell.counted)}
        row |= {"tunnel": cell.example.tunnel, "cc": cell.example.cc}
        for name, of_run in COUNTED.items():
            known = [item for run in cell.counted if (item := of_run(run)) is not None]
            row[name] = median(known) if known else None
        result.append(row)
    return result


def mark_count(place: CellPosition, line: facet.FacetSeries) -> None:
    """Mark a count as a point, if there is a receiver of marks."""
    if is_known(place.row[place.figure]):
        look = {"color": cc_colour(place.row["cc"]), "clip_on": False, **POINT}
        place.ax.plot(place.row[place.figure], place.at, **look)


def panels(sheet: FigureInput) -> list[facet.FacetPanel]:
    """Return a panel per marking or receiving end; none if the queue cannot mark."""
    import pandas as pd

    result, tunnels = pd.DataFrame(mark_count_rows(sheet.sweep)), tunnels_of(sheet.rows)
    result = result[result["cell"].isin(sheet.rows["cell"])]
    if result["marked"].isna().all():
        return []
    lines = [(tunnel, result[result["tunnel"] == tunnel]) for tunnel in tunnels]
    scale = facet.scale_to_medians(1.1, *HEADINGS)
    return [
        facet.panel_of_groups(
            heading,
            lines,
            facet.MetricAxis(scale, name, mark_count, "Packets (number)", scaled_per_panel=True),
        )
        for name, heading in HEADINGS.items()
    ]


def tables(sweep: MatrixInput, table: Any, name: str) -> Iterator[Table]:
    columns = (
        *text_columns(cell="Cell", tunnel="Tunnel", cc="cc"),
        *(Column(key, text, format_count) for key, text in HEADINGS.items()),
        Column("runs", "n", str),
    )
    note = "Medians of packets. A TCP tunnel's sender inside is on loopback, a VPN's in the VPN."
    yield Table(
        f"{name}-marked", f"{sweep.title}: marks", note, columns, tuple(mark_count_rows(sweep))
    )


DRAWING = Drawing(
    "marked",
    caption="Packets that the bottleneck's queue marked (ECN), and which host heard, by tunnel.",
    draw=facet.BY_TUNNEL(
        panels=panels,
        keys=lambda table: cc_legend_lines(table["cc"], **POINT),
        degraded=None,
        shape=facet.one_row_grid,
    ),
    needs="a bottleneck's queue that marks",
    shows=("tunnel", "cc"),
    tables=tables,
    metrics=("marked",),
)
