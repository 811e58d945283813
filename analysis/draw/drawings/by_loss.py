"""Goodput by loss."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FixedLocator, FuncFormatter, NullLocator

from analysis.draw.levels import (
    ccs_of,
    facets_of,
)
from analysis.draw.marks import (
    STEPS,
    cc_handles,
    degraded_handles,
    draw_band,
    draw_capacity,
    draw_line,
    draw_model,
    draw_point,
    draw_study,
    figure_values,
    link_handles,
    look_of,
    model_handles,
    paths_of,
    spread_handles,
    study_handles,
)
from analysis.draw.panels import panel_figure
from analysis.draw.registry import Answer, Drawing, Picture, Sheet, Sweep, valid_rows
from analysis.draw.style import (
    WIDE,
    apart,
    cc_colour,
    finish,
    label_edges,
    plain_log,
    styled,
    superscript,
    thousands,
)
from analysis.judge.figures_of_merit import merit_of
from analysis.judge.models import GENERAL, Model, Path, models_for, payload_mbit
from analysis.judge.table import (
    NBSP,
    cc_name,
    rate,
)
from analysis.read.study import claims_of

# Losses that span less than this are named one by one.
NEAR_LOSSES = 60


@styled
def plot_by_loss(
    table: pd.DataFrame,
    footer: str = "",
    *,
    title: str = "",
    called: str = "study",
    figure: str = "goodput",
    log_y: bool | None = None,
    models: Sequence[str] = (),
) -> Figure:
    """Goodput (or mean window) by loss on a log axis, a facet per RTT, with model curves and
    published values and bands.

    log_y: None: where the values span more than a decade. models: by name; none: the usual ones.
    """
    facets = list(facets_of(table, known=("cc", "loss_p"), first="rtt_ms"))
    panel_in = 3.3 if len(facets) <= 3 else 2.6
    drawn, axes = panel_figure([words for words, _ in facets], panel_in, sharex=True, sharey=True)
    losses = sorted(loss for loss in table["loss_p"].dropna().unique() if loss > 0) or [1e-3]
    none_at = losses[0] / 10 if (table["loss_p"] == 0).any() else None
    ccs = ccs_of(table)
    curves = models_for(ccs, models or GENERAL)
    seen = figure_values(table, figure)
    top, bottom = max([1.0, *seen]), min([value for value in seen if value > 0] or [1.0])
    logarithmic = top / bottom > WIDE if log_y is None else log_y
    floor = bottom / 2 if logarithmic else 0.0
    for ax, (_, rows) in zip(axes.flat, facets, strict=False):
        if logarithmic:
            ax.set_yscale("log")
        draw_capacity(ax, rows, figure)
        for model in curves:
            draw_model_by_loss(ax, model, rows, figure, losses)
        for place, cc in enumerate(ccs):
            mine = rows[rows["cc"] == cc].sort_values("loss_p")
            look = look_of(place)
            spots = [none_at if loss == 0 and none_at else loss for loss in mine["loss_p"]]
            draw_band(ax, spots, mine, figure, cc_colour(cc), floor)
            points = [(x, row) for x, (_, row) in zip(spots, mine.iterrows(), strict=True)]
            with_loss = [(x, row) for x, row in points if row["loss_p"] > 0]
            draw_line(ax, with_loss, figure, cc_colour(cc), width=look.width)
            for x, row in points:
                draw_study(ax, x, row, figure, cc_colour(cc), behind=True)
                draw_point(ax, x, row, figure, cc_colour(cc), f"lab {cc}", look=look)
        ax.set_ylim(floor, top * (1.6 if logarithmic else 1.12))
        loss_axis(ax, losses, none_at, most=4 if axes.shape[1] > 2 else 6)
        plain_log(ax.yaxis, floor, top * 1.6) if logarithmic else thousands(ax.yaxis)
    near = losses[-1] / losses[0] < NEAR_LOSSES
    label_edges(
        axes,
        len(facets),
        "Packet loss (%)" if near else "Packet loss (share of packets)",
        merit_of(figure).axis,
    )
    handles = [
        *cc_handles(ccs, looks=True),
        *model_handles(curves),
        *link_handles(table),
        *study_handles(table, figure, called=called),
        *spread_handles(table, figure),
        *degraded_handles(table),
    ]
    finish(drawn, handles, footer, title)
    return drawn


def draw_model_by_loss(
    ax: Axes, model: Model, rows: pd.DataFrame, figure: str, losses: Sequence[float]
) -> None:
    """A model's curve on the path of some cells."""
    for path in paths_of(rows):
        points = []
        for loss in np.geomspace(losses[0] / 1.6, losses[-1] * 1.6, STEPS):
            at = Path(path.rate_bps, path.rtt_ms, float(loss), path.rmem_bytes, path.mtu_bytes)
            value = model.window(at) if figure == "window_pkts" else model.mbit(at)
            if value is not None:
                points.append((float(loss), value))
        draw_model(ax, model, points)


def loss_axis(ax: Axes, losses: Sequence[float], none_at: float | None, most: int = 6) -> None:
    """A log axis of loss: decades, or the levels themselves where they are few and near; none has a
    place at its left.
    """
    ax.set_xscale("log")
    ax.set_xlim((none_at or losses[0]) / 1.8, losses[-1] * 1.8)
    if losses[-1] / losses[0] < NEAR_LOSSES:
        marks = apart(losses, 1.5)
        words = [f"{100 * loss:g}" for loss in marks]
    else:
        first, last = (
            math.ceil(math.log10(losses[0]) - 0.3),
            math.floor(math.log10(losses[-1]) + 0.3),
        )
        every = math.ceil((last - first + 1) / most)
        marks = [10.0**power for power in range(last, first - 1, -every)][::-1]
        words = [f"10{superscript(round(math.log10(mark)))}" for mark in marks]
    if none_at is not None:
        marks, words = [none_at, *marks], ["0", *words]
    ax.xaxis.set_major_locator(FixedLocator(list(marks)))
    ax.xaxis.set_major_formatter(
        FuncFormatter(lambda value, _: dict(zip(marks, words, strict=True)).get(value, ""))
    )
    ax.xaxis.set_minor_locator(NullLocator())


def loss_sentences(table: pd.DataFrame) -> tuple[str, ...]:
    """Of each congestion control and round-trip time (and of every level of what else varies) the
    least loss at which less than half of the link's payload is left.
    """
    said = []
    for aside, cells in facets_of(table, known=("cc", "loss_p", "rtt_ms", "rate_mbit")):
        for rtt in sorted(cells["rtt_ms"].unique()):
            for cc in ccs_of(cells):
                rows = cells[(cells["rtt_ms"] == rtt) & (cells["cc"] == cc)]
                there = rows[rows["goodput"].notna()].sort_values("loss_p")
                head = f"{cc_name(cc)} over {rtt:g} ms" + (f" ({aside})" if aside else "")
                for full, alike in there.groupby("rate_mbit"):
                    mtu = int(alike["mtu_bytes"].iloc[0])
                    said.append(half_of_the_link(alike, head, payload_mbit(full * 1e6, mtu)))
    return tuple(said)


def half_of_the_link(rows: pd.DataFrame, head: str, full_mbit: float) -> str:
    """Where one congestion control falls below half of what a link carries."""
    half = full_mbit / 2
    below = rows[rows["goodput"] < half]
    least, most = rows.iloc[0], rows.iloc[-1]
    if below.empty:
        return (
            f"{head} stays above half of the link's {rate(full_mbit)} Mbit/s up to the highest"
            f" tried, {loss_words(most['loss_p'])}: {rate(most['goodput'])} Mbit/s there."
        )
    first = below.iloc[0]
    before = rows[rows["loss_p"] < first["loss_p"]]
    if before.empty:
        return (
            f"{head} is below half of the link's {rate(full_mbit)} Mbit/s already at the lowest"
            f" tried, {loss_words(least['loss_p'])}: {rate(first['goodput'])} Mbit/s."
        )
    last = before.iloc[-1]
    return (
        f"{head} falls below half of the link's {rate(full_mbit)} Mbit/s between"
        f" {loss_words(last['loss_p'])} ({rate(last['goodput'])}) and {loss_words(first['loss_p'])}"
        f" ({rate(first['goodput'])})."
    )


def loss_words(loss: float) -> str:
    """A loss rate: 0.01 % loss, no loss."""
    return f"{100 * loss:.6g}{NBSP}% loss" if loss else "no loss"


def draw(sheet: Sheet) -> Iterator[Picture]:
    """Goodput by loss, or the mean window where that is what the study publishes of the matrix;
    both where it has both.
    """
    study, rows = sheet.sweep.study, sheet.rows
    published = {
        merit_of(asked.figure).key
        for each in study.published
        if each.matrix == sheet.sweep.matrix.name
        for asked in claims_of(each)
    }
    windows = "window_pkts" in published and rows["window_pkts"].notna().any()
    chosen = ["goodput"] if published != {"window_pkts"} or not windows else []
    for figure in [*chosen, *(["window_pkts"] if windows else [])]:
        plotted = plot_by_loss(
            rows,
            sheet.footer,
            title=sheet.title,
            called=sheet.called,
            figure=figure,
            models=study.models,
        )
        head = merit_of(figure).axis.partition(" (")[0]
        yield Picture(plotted, f"{head} {DRAWING.caption}", "" if figure == "goodput" else "window")


def says(sweep: Sweep, table: pd.DataFrame) -> Iterator[Answer]:
    """Where loss takes half of the link."""
    if said := loss_sentences(valid_rows(table)):
        yield Answer(f"{sweep.title}: where loss takes half of the link", said)


DRAWING = Drawing(
    "by-loss",
    caption=(
        "by packet loss. Broken lines are models, diamonds and shaded bands what was published, the"
        " thin line a full link."
    ),
    draw=draw,
    says=says,
)
