# SPDX-License-Identifier: MIT
"""Plot bytes on the wire per byte carried by tunnel, computed and measured."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from statistics import median
from typing import TYPE_CHECKING, Any

from gostlab.analysis.load.run_folder import RunFolder
from gostlab.analysis.load.series import wire_ratio
from gostlab.analysis.plotting.facet import (
    BY_TUNNEL,
    FacetPanel,
    FacetSeries,
    MetricAxis,
    panel_of_groups,
    single_series,
)
from gostlab.analysis.plotting.factors import tunnels_of
from gostlab.analysis.plotting.marks import CellPosition
from gostlab.analysis.plotting.plot_registry import Drawing, FigureInput, MatrixInput
from gostlab.analysis.plotting.style import INK, legend_entry
from gostlab.analysis.stats.statistics import is_known
from gostlab.analysis.stats.table_formats import Column, Table, TableRow
from gostlab.registry.tunnels import tunnel_kinds

if TYPE_CHECKING:
    import pandas as pd

# colours by Okabe and Ito, of no congestion control
MEASURED = "#0072B2"
measured_of = cache(wire_ratio)


def bytes_by_tunnel(sweep: MatrixInput) -> list[TableRow]:
    """Return the computed value and the median measured one per tunnel and MTU."""
    result: dict[tuple[str, int], list[float]] = {}
    for cell in sweep.matrix.cells:
        run: RunFolder = cell.example
        values = [value for item in cell.counted if (value := measured_of(item)) is not None]
        result.setdefault((run.tunnel, run.mtu_bytes), []).extend(values)
    kinds = tunnel_kinds()
    return [
        {
            "tunnel": tunnel,
            "mtu_bytes": mtu,
            "computed": kinds[tunnel].wire_ratio(mtu) if tunnel in kinds else None,
            "measured": median(values) if values else None,
            "runs": len(values),
        }
        for (tunnel, mtu), values in result.items()
    ]


def mark_overheads(place: CellPosition, line: FacetSeries) -> None:
    """Plot a tick at the computed and a point at the measured value."""
    at, computed, got = place.at, place.row["computed"], place.row["measured"]
    if is_known(computed):
        place.ax.plot([computed] * 2, [at - 0.36, at + 0.36], color=INK, linewidth=1.6)
    if is_known(got):
        place.ax.plot(got, at, "o", color=MEASURED, markersize=5.5)


def panels(sheet: FigureInput) -> list[FacetPanel]:
    """Return a panel per MTU with a line per tunnel; none without measurements."""
    import pandas as pd

    result, tunnels = pd.DataFrame(bytes_by_tunnel(sheet.sweep)), tunnels_of(sheet.rows)
    if result["measured"].isna().all():
        return []
    result = result[result["tunnel"].isin(tunnels)]
    label = "Bytes on the wire per byte carried"
    value = MetricAxis(lambda *_: None, "measured", mark_overheads, label)
    return [
        panel_of_groups(
            f"MTU {mtu} bytes", [(name, rows[rows["tunnel"] == name]) for name in tunnels], value
        )
        for mtu, rows in result.groupby("mtu_bytes")
    ]


def legend_handles(table: pd.DataFrame) -> list[Any]:
    return [
        legend_entry("by the formats", color=INK, linewidth=1.6),
        legend_entry("measured", color=MEASURED, marker="o", linestyle="none"),
    ]


def tables(sweep: MatrixInput, table: Any, name: str) -> Iterator[Table]:
    rows = bytes_by_tunnel(sweep)
    if rows:
        yield Table(
            f"{name}-wire",
            f"{sweep.title}: bytes on the wire per byte carried",
            "computed: from the formats, full packets, the way of the data, Ethernet's header of 14"
            " bytes included; measured: what left the bottleneck over what the sink acknowledged",
            (
                Column("tunnel", "tunnel", str, numeric=False),
                Column("mtu_bytes", "MTU (bytes)", str),
                Column("computed", "computed", "{:.4f}".format),
                Column("measured", "measured", "{:.4f}".format),
                Column("runs", "n", str),
            ),
            tuple(rows),
        )


DRAWING = Drawing(
    "wire",
    caption="Bytes on the wire per byte carried: ticks as the formats say, points as measured.",
    draw=BY_TUNNEL(
        panels=panels,
        keys=legend_handles,
        degraded=None,
        series=single_series,
        shared={"sharey": True, "sharex": True},
    ),
    tables=tables,
    metrics=("wire_ratio",),
)
