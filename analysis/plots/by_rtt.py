# SPDX-License-Identifier: MIT
"""Plot goodput by RTT: one line per congestion control, or per competing flow."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

from gostlab.analysis.plotting import facet, marks
from gostlab.analysis.plotting.factors import ccs_of, facets_of, flows_of, rtt_column
from gostlab.analysis.plotting.plot_registry import Drawing, FigureInput
from gostlab.analysis.plotting.style import (
    WIDE,
    annotate,
    cc_colour,
    levels_with_space,
    set_tick_labels,
)
from gostlab.analysis.stats.statistics import is_known
from gostlab.analysis.stats.throughput_model import ModelPath, ThroughputModel, models_for

if TYPE_CHECKING:
    import numpy as np
    import pandas as pd
    from matplotlib.axes import Axes

# Default models: one of each congestion control.
ONE_EACH = ("rfc9438", "reno", "bbr")


def series(table: pd.DataFrame, rows: pd.DataFrame) -> list[facet.FacetSeries]:
    """Return a series per flow if cells have several, else per congestion control."""
    return [
        facet.FacetSeries(
            {},
            cc_colour(str(rows[f"cc:{flow}"].dropna().iloc[0])),
            f"lab {flow}",
            marks.series_style(index),
            dashes=marks.FLOW_DASHES[index % len(marks.FLOW_DASHES)],
            flow=flow,
        )
        for index, flow in enumerate(flows_of(table))
        if rows[f"cc:{flow}"].notna().any()
    ] or facet.by_cc_look(table, rows)


def model_curves(sheet: FigureInput) -> list[ThroughputModel]:
    """Return the models of the study's file, or one of each; none for several flows."""
    if flows_of(sheet.rows):
        return []
    return list(models_for(ccs_of(sheet.rows), sheet.sweep.study.models or ONE_EACH))


def mark_cell(place: marks.CellPosition, line: facet.FacetSeries) -> None:
    """Mark a cell as a point with the published value, and the flow's name if several."""
    marks.draw_band_beside(place)
    facet.mark_point(place, line, study="behind")
    published = marks.row_value(place.row, f"{place.figure}_study")
    if line.flow and is_known(published):
        annotate(place.ax, line.flow, (place.at, published), (6, 0), va="center")


def plotted_values(table: pd.DataFrame) -> list[float]:
    lines = [f"goodput:{flow}" for flow in flows_of(table)] or ["goodput"]
    return [value for line in lines for value in marks.metric_values(table, line)]


def panels(sheet: FigureInput) -> list[facet.FacetPanel]:
    """Return a panel per other level, with models and the link's capacity."""
    import numpy as np

    table, flows, axis = sheet.rows, flows_of(sheet.rows), rtt_column(sheet.rows)
    rtts = sorted(table[axis].dropna().unique())
    steps = np.geomspace(max(rtts[0], 0.1), max(rtts[-1], 0.2), marks.STEPS)
    curves = model_curves(sheet)

    def behind(ax: Axes, rows: pd.DataFrame) -> None:
        if not flows:
            marks.draw_capacity(ax, rows, "goodput")
        facet.draw_models(ax, curves, paths_at_losses(rows), "goodput", "rtt_ms", steps)

    return [
        facet.FacetPanel(
            text,
            facet.cells_by_level(rows, axis),
            (),
            facet.MetricAxis(facet.scale_from_zero(plotted_values, 1.12), mark=mark_cell),
            partial(behind, rows=rows),
        )
        for text, rows in facets_of(table, known=(axis, *(() if flows else ("cc",))))
    ]


def paths_at_losses(rows: pd.DataFrame) -> list[ModelPath]:
    """Return the paths of some cells at each loss, without their RTTs."""
    others = {
        replace(path, rtt_ms=0.0, loss=float(loss))
        for path in marks.paths_of(rows)
        for loss in rows["loss_p"].dropna().unique()
    }
    return sorted(
        others, key=lambda path: str((path.rate_bps, path.rmem_bytes, path.mtu_bytes, path.loss))
    )


def rtt_axis(
    ax: Axes, panels: Sequence[facet.FacetPanel], lines: Sequence[facet.FacetSeries]
) -> None:
    """Label the RTTs that fit, on a log axis for a wide range."""
    rtts = sorted({at for panel in panels for at, _ in panel.places})
    logarithmic = rtts[-1] / max(rtts[0], 1e-3) > WIDE
    if logarithmic:
        ax.set_xscale("log")
    set_tick_labels(ax.xaxis, levels_with_space(rtts, 1.45, share=0.0 if logarithmic else 0.07))


def axis_name(table: pd.DataFrame) -> str:
    _, colon, flow = rtt_column(table).partition(":")
    return f"Round-trip time{' of ' + flow if colon else ''} (ms)"


def legend_handles(table: pd.DataFrame) -> list[Any]:
    if flows := flows_of(table):
        return marks.flow_handles(table, flows, lines=True)
    return marks.cc_handles(table, looks=True)


def extra_legend_handles(sheet: FigureInput, axes: np.ndarray) -> list[Any]:
    link = [] if flows_of(sheet.rows) else marks.link_handles(sheet.rows)
    return [*marks.model_handles(model_curves(sheet)), *link]


DRAWING = Drawing(
    "by-rtt",
    caption="Goodput by round-trip time.",
    draw=facet.Facet(
        panels=panels,
        keys=legend_handles,
        more_keys=extra_legend_handles,
        series=series,
        step=0.0,
        joined=lambda _: True,
        axis=rtt_axis,
        places=axis_name,
        edges=True,
        around_in=1.5,
        panel_in=3.2,
        of_many_in=2.6,
        shared={"sharex": True, "sharey": True},
    ),
)
