# SPDX-License-Identifier: MIT
"""Plot pings by condition, with goodput and retransmissions under load."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from gostlab.analysis.plots.latency import BY_CONDITION, delay_panel, group_by_condition
from gostlab.analysis.plotting.facet import (
    FacetPanel,
    MetricAxis,
    known_values,
    panel_of_groups,
    scale_to_medians,
    set_axis_limits,
)
from gostlab.analysis.plotting.plot_registry import (
    Drawing,
    FigureInput,
    MatrixInput,
    rows_with_metric,
)

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes

MEDIAN, P95 = "ping_median_ms", "ping_p95_ms"
RESENT = "wan_share"
ROWS = rows_with_metric(MEDIAN)


def scale_retransmission_axis(ax: Axes, way: Literal["x", "y"], table: pd.DataFrame) -> None:
    """Set an axis in percent that keeps zero visible."""
    from matplotlib.ticker import FuncFormatter

    top = max([1e-3, *known_values(table, RESENT)])
    set_axis_limits(ax, way, -0.04 * top, 1.08 * top)
    ax.xaxis.set_major_formatter(FuncFormatter(lambda share, _: f"{100 * share:g}"))


def has_load_traffic(sweep: MatrixInput) -> bool:
    """Return whether there is traffic other than pings."""
    return any(
        flow.traffic_type != "ping" for cell in sweep.matrix.cells for flow in cell.example.flows
    )


def panels(sheet: FigureInput) -> list[FacetPanel]:
    """Return panels of pings, and under load of goodput and retransmissions."""
    by_condition = group_by_condition(sheet.rows)
    if not has_load_traffic(sheet.sweep):
        return [delay_panel(by_condition, "Ping (ms)", MEDIAN, P95, idle=True)]
    result = [
        panel_of_groups(
            "", by_condition, MetricAxis(scale_to_medians(1.08, "goodput", least=1e-3))
        ),
        delay_panel(by_condition, "Ping under load (ms)", MEDIAN, P95, idle=True),
    ]
    if sheet.rows[RESENT].notna().any():
        result.append(
            panel_of_groups(
                "",
                by_condition,
                MetricAxis(scale_retransmission_axis, RESENT, label="Sent again (%)"),
            )
        )
    return result


DRAWING = Drawing(
    "lag",
    caption=(
        "Pings by condition: a point is the median, its line ends at the 95 % value; dashed is the"
        " idle round trip. Under load goodput and what was sent again across the path stand beside"
        " them."
    ),
    draw=BY_CONDITION(panels=panels),
    rows=ROWS,
    needs="a ping flow and a run that counts",
    metrics=("ping_p95_ms",),
)
