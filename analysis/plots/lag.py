# SPDX-License-Identifier: MIT
"""Plot pings by condition, with goodput and retransmissions under load."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from gostlab.analysis.plots.latency import BY_CONDITION, conditions, delays
from gostlab.analysis.plotting.facet import (
    FacetPanel,
    Value,
    in_groups,
    known_values,
    set_axis_limits,
    to_median,
)
from gostlab.analysis.plotting.plot import Drawing, Sheet, Sweep, known_rows

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes

MEDIAN, P95 = "ping_median_ms", "ping_p95_ms"
RESENT = "wan_share"
ROWS = known_rows(MEDIAN)


def scale_resent(ax: Axes, way: Literal["x", "y"], table: pd.DataFrame) -> None:
    """Set an axis in percent that keeps zero visible."""
    from matplotlib.ticker import FuncFormatter

    top = max([1e-3, *known_values(table, RESENT)])
    set_axis_limits(ax, way, -0.04 * top, 1.08 * top)
    ax.xaxis.set_major_formatter(FuncFormatter(lambda share, _: f"{100 * share:g}"))


def is_loaded(sweep: Sweep) -> bool:
    """Return whether there is traffic other than pings."""
    return any(flow.kind != "ping" for cell in sweep.matrix.cells for flow in cell.example.flows)


def panels(sheet: Sheet) -> list[FacetPanel]:
    """Return panels of pings, and under load of goodput and retransmissions."""
    by_condition = conditions(sheet.rows)
    if not is_loaded(sheet.sweep):
        return [delays(by_condition, "Ping (ms)", MEDIAN, P95, idle=True)]
    result = [
        in_groups("", by_condition, Value(to_median(1.08, "goodput", least=1e-3))),
        delays(by_condition, "Ping under load (ms)", MEDIAN, P95, idle=True),
    ]
    if sheet.rows[RESENT].notna().any():
        result.append(
            in_groups("", by_condition, Value(scale_resent, RESENT, label="Sent again (%)"))
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
