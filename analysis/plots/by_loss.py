# SPDX-License-Identifier: MIT
"""Plot goodput by loss."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Literal

from gostlab.analysis.load.study import claims_of
from gostlab.analysis.plotting import facet
from gostlab.analysis.plotting.factors import ccs_of, facets_of
from gostlab.analysis.plotting.marks import (
    STEPS,
    CellPosition,
    cc_handles,
    draw_band,
    draw_capacity,
    link_handles,
    metric_values,
    model_handles,
    paths_of,
)
from gostlab.analysis.plotting.plot_registry import Drawing, FigureInput, ReportFigure
from gostlab.analysis.plotting.style import (
    WIDE,
    format_thousands,
    grid_shape,
    levels_with_space,
    set_log_axis,
    set_tick_labels,
    superscript,
)
from gostlab.analysis.stats.metrics import metric_of
from gostlab.analysis.stats.throughput_model import GENERAL, ThroughputModel, models_for

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes

# Losses within this ratio are labelled individually.
NEAR_LOSSES = 60


def losses_of(table: pd.DataFrame) -> tuple[list[float], float | None]:
    """Return the losses above zero, and the position of zero if it was tried."""
    losses = sorted(loss for loss in table["loss_p"].dropna().unique() if loss > 0) or [1e-3]
    return losses, losses[0] / 10 if (table["loss_p"] == 0).any() else None


def model_curves(sheet: FigureInput) -> list[ThroughputModel]:
    """Return the models of the study's file, or the default ones."""
    return list(models_for(ccs_of(sheet.rows), sheet.sweep.study.models or GENERAL))


def metric_axis(table: pd.DataFrame, figure: str) -> facet.MetricAxis:
    """Return a metric's axis, logarithmic for values over more than a decade."""
    seen = metric_values(table, figure)
    top, bottom = max([1.0, *seen]), min([value for value in seen if value > 0] or [1.0])
    logarithmic = top / bottom > WIDE
    floor = bottom / 2 if logarithmic else 0.0

    def scale(ax: Axes, way: Literal["x", "y"], table: pd.DataFrame) -> None:
        if logarithmic:
            set_log_axis(ax, "y", floor, top * 1.6)
            return
        ax.set_ylim(floor, top * 1.12)
        format_thousands(ax.yaxis)

    def mark(place: CellPosition, line: facet.FacetSeries) -> None:
        draw_band(place, floor)
        facet.mark_point(place, line, study="behind")

    return facet.MetricAxis(scale, figure, mark)


def panels(sheet: FigureInput, figure: str = "goodput") -> list[facet.FacetPanel]:
    """Return a panel per RTT, with the models' curves and the link's capacity."""
    import numpy as np

    table, curves, value = sheet.rows, model_curves(sheet), metric_axis(sheet.rows, figure)
    losses, none_at = losses_of(table)

    def behind(ax: Axes, rows: pd.DataFrame) -> None:
        draw_capacity(ax, rows, figure)
        at = np.geomspace(losses[0] / 1.6, losses[-1] * 1.6, STEPS)
        facet.draw_models(ax, curves, paths_of(rows), figure, "loss", at)

    return [
        facet.FacetPanel(
            text,
            [
                (loss or none_at or 0.0, cells)
                for loss, cells in facet.cells_by_level(rows, "loss_p")
            ],
            (),
            value,
            partial(behind, rows=rows),
        )
        for text, rows in facets_of(table, known=("cc", "loss_p"), first="rtt_ms")
    ]


def loss_axis(
    ax: Axes, panels: Sequence[facet.FacetPanel], series: Sequence[facet.FacetSeries]
) -> None:
    """Set a log axis of loss with decades, or few close levels, as ticks; zero is at the left."""
    import pandas as pd

    losses, none_at = losses_of(pd.concat([panel.rows for panel in panels]))
    narrow = grid_shape(len(panels))[1] > 2
    ax.set_xscale("log")
    ax.set_xlim((none_at or losses[0]) / 1.8, losses[-1] * 1.8)
    if losses[-1] / losses[0] < NEAR_LOSSES:
        times, letters = 1.5, 18 if narrow else 30
        while True:
            marks = levels_with_space(losses, times)
            text = [f"{100 * loss:.3g}" for loss in marks]
            if len(" ".join(text)) <= letters:
                break
            times *= 1.2
    else:
        first = math.ceil(math.log10(losses[0]) - 0.3)
        last = math.floor(math.log10(losses[-1]) + 0.3)
        every = math.ceil((last - first + 1) / (4 if narrow else 6))
        marks = [10.0**power for power in range(last, first - 1, -every)][::-1]
        text = [f"10{superscript(round(math.log10(mark)))}" for mark in marks]
    if none_at is not None:
        marks, text = [none_at, *marks], ["0", *text]
    set_tick_labels(ax.xaxis, marks, lambda loss: dict(zip(marks, text, strict=True)).get(loss, ""))


def axis_name(table: pd.DataFrame) -> str:
    losses, _ = losses_of(table)
    near = losses[-1] / losses[0] < NEAR_LOSSES
    return "Packet loss (%)" if near else "Packet loss (share of packets)"


FACET = facet.Facet(
    panels=panels,
    keys=partial(cc_handles, looks=True),
    more_keys=lambda sheet, _: [*model_handles(model_curves(sheet)), *link_handles(sheet.rows)],
    series=facet.by_cc_look,
    step=0.0,
    joined=lambda row: bool(row["loss_p"] > 0),
    axis=loss_axis,
    places=axis_name,
    edges=True,
    panel_in=3.3,
    of_many_in=2.6,
    shared={"sharex": True, "sharey": True},
)


def build_facet(figure: str) -> facet.Facet:
    """Return the plot of a metric by loss."""
    return replace(FACET, panels=partial(panels, figure=figure))


def draw(sheet: FigureInput) -> Iterator[ReportFigure]:
    """Plot goodput by loss, and mean windows if the study publishes them."""
    study, rows = sheet.sweep.study, sheet.rows
    published = {
        metric_of(requested.figure).key
        for item in study.published
        if item.matrix == sheet.sweep.matrix.name
        for requested in claims_of(item)
    }
    windows = "window_pkts" in published and rows["window_pkts"].notna().any()
    chosen = ["goodput"] if published != {"window_pkts"} or not windows else []
    for figure in [*chosen, *(["window_pkts"] if windows else [])]:
        head = metric_of(figure).axis.partition(" (")[0]
        name = "" if figure == "goodput" else "window"
        for picture in build_facet(figure)(sheet, f"{head} {DRAWING.caption}", name):
            yield replace(picture, metric=figure)


DRAWING = Drawing(
    "by-loss",
    caption=("by packet loss. Broken lines are models, the thin line a full link."),
    draw=draw,
)
