"""Goodput by round-trip time."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FixedLocator, FuncFormatter, NullLocator

from analysis.draw.levels import (
    cc_rank,
    ccs_of,
    facets_of,
    flows_of,
    rtt_column,
)
from analysis.draw.marks import (
    FLOW_DASHES,
    STEPS,
    Look,
    cc_handles,
    degraded_handles,
    draw_band_beside,
    draw_capacity,
    draw_line,
    draw_model,
    draw_point,
    draw_study,
    figure_values,
    flow_colour,
    flow_handles,
    link_handles,
    look_of,
    model_handles,
    number,
    paths_of,
    spread_handles,
    study_handles,
)
from analysis.draw.panels import panel_figure
from analysis.draw.registry import Answer, Drawing, Picture, Sheet, Sweep, valid_rows
from analysis.draw.sentences import (
    UNMOVED,
    whole_percent,
)
from analysis.draw.style import (
    FAINT,
    WIDE,
    apart,
    cc_colour,
    finish,
    label_edges,
    spaced,
    styled,
    thousands,
)
from analysis.judge.figures_of_merit import merit_of
from analysis.judge.models import Model, Path, models_for
from analysis.judge.statistics import is_known
from analysis.judge.table import (
    cc_name,
    rate,
)

# The models that are drawn where the file names none: one of each congestion control.
ONE_EACH = ("rfc9438", "reno", "bbr")


@styled
def plot_by_rtt(
    table: pd.DataFrame,
    footer: str = "",
    *,
    title: str = "",
    called: str = "study",
    figure: str = "goodput",
    models: Sequence[str] = (),
) -> Figure:
    """Goodput by round-trip time: a line per congestion control, or per flow where several share
    the bottleneck.
    """
    flows, axis = flows_of(table), rtt_column(table)
    facets = list(facets_of(table, known=(axis, *(() if flows else ("cc",)))))
    drawn, axes = panel_figure(
        [words for words, _ in facets],
        3.2 if len(facets) <= 3 else 2.6,
        around_in=1.5,
        sharex=True,
        sharey=True,
    )
    lines = [f"{figure}:{flow}" for flow in flows] if flows else [figure]
    ccs = (
        sorted({table[f"cc:{flow}"].iloc[0] for flow in flows}, key=cc_rank)
        if flows
        else ccs_of(table)
    )
    curves = [] if flows else models_for(ccs, models or ONE_EACH)
    rtts = sorted(table[axis].dropna().unique())
    logarithmic = rtts[-1] / max(rtts[0], 1e-3) > WIDE
    top = max([1.0, *(value for line in lines for value in figure_values(table, line))])
    for ax, (_, rows) in zip(axes.flat, facets, strict=False):
        if not flows:
            draw_capacity(ax, rows, figure)
        for model in curves:
            draw_model_by_rtt(ax, model, rows, figure, rtts)
        for place, line in enumerate(lines_of(rows, figure, lines, flows, ccs)):
            draw_by_rtt(ax, line, axis, look_of(place))
        ax.set_ylim(0, 1.12 * top)
        thousands(ax.yaxis)
        if logarithmic:
            ax.set_xscale("log")
        ax.xaxis.set_major_locator(FixedLocator(apart(rtts, 1.45) if logarithmic else spaced(rtts)))
        ax.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
        ax.xaxis.set_minor_locator(NullLocator())
    words = "Round-trip time" + (f" of {axis.partition(':')[2]}" if ":" in axis else "") + " (ms)"
    label_edges(axes, len(facets), words, merit_of(figure).axis)
    handles = flow_handles(table, flows, lines=True) if flows else cc_handles(ccs, looks=True)
    handles += [
        *model_handles(curves),
        *([] if flows else link_handles(table)),
        *study_handles(table, *lines, called=called),
        *spread_handles(table, lines[0]),
        *degraded_handles(table),
    ]
    finish(drawn, handles, footer, title)
    return drawn


@dataclass(frozen=True)
class Line:
    """One line of a panel: a congestion control's cells, or a flow's."""

    figure: str
    rows: pd.DataFrame
    colour: str
    dashes: Any
    label: str
    flow: str = ""


def lines_of(
    rows: pd.DataFrame,
    figure: str,
    figures: Sequence[str],
    flows: Sequence[str],
    ccs: Sequence[str],
) -> list[Line]:
    """A panel's lines: one of each flow where cells have several, else of each congestion control.
    figures: the column of each flow.
    """
    if not flows:
        return [Line(figure, rows[rows["cc"] == cc], cc_colour(cc), "-", f"lab {cc}") for cc in ccs]
    return [
        Line(
            each,
            rows,
            flow_colour(rows, flow),
            FLOW_DASHES[place % len(FLOW_DASHES)],
            f"lab {flow}",
            flow,
        )
        for place, (each, flow) in enumerate(zip(figures, flows, strict=True))
    ]


def draw_by_rtt(ax: Axes, line: Line, axis: str, look: Look) -> None:
    """A line with its cells' points and what the study published of each, with the flow's name
    where there are several.
    """
    points = [(row[axis], row) for _, row in line.rows.sort_values(axis).iterrows()]
    draw_line(ax, points, line.figure, line.colour, line.dashes, width=look.width)
    for x, row in points:
        draw_band_beside(ax, x, row, line.figure, line.colour)
        draw_study(ax, x, row, line.figure, line.colour, behind=True)
        draw_point(ax, x, row, line.figure, line.colour, line.label, look=look)
        published = number(row, f"{line.figure}_study")
        if line.flow and is_known(published):
            ax.annotate(
                line.flow,
                (x, published),
                xytext=(6, 0),
                textcoords="offset points",
                va="center",
                fontsize=8.5,
                color=FAINT,
            )


def draw_model_by_rtt(
    ax: Axes, model: Model, rows: pd.DataFrame, figure: str, rtts: Sequence[float]
) -> None:
    """A model's curve over the round-trip times that were tried, once for every other difference of
    the paths.
    """
    others = {
        (path.rate_bps, path.rmem_bytes, path.mtu_bytes, loss)
        for path in paths_of(rows)
        for loss in rows["loss_p"].dropna().unique()
    }
    for rate_bps, rmem, mtu, loss in sorted(others, key=str):
        points = []
        for rtt in np.geomspace(max(rtts[0], 0.1), max(rtts[-1], 0.2), STEPS):
            at = Path(rate_bps, float(rtt), float(loss), rmem, mtu)
            value = model.window(at) if figure == "window_pkts" else model.mbit(at)
            if value is not None:
                points.append((float(rtt), value))
        draw_model(ax, model, points)


def rtt_sentences(table: pd.DataFrame) -> tuple[str, ...]:
    """Of each line of the figure from which round-trip time on it is clearly below what it is at
    the shortest.
    """
    axis, flows = rtt_column(table), flows_of(table)
    lines = [(f"goodput:{flow}", flow, table) for flow in flows] or [
        ("goodput", cc_name(cc), table[table["cc"] == cc]) for cc in ccs_of(table)
    ]
    said = []
    for figure, name, cells in lines:
        for aside, rows in facets_of(cells, known=(axis, *(() if flows else ("cc",)))):
            there = rows[rows[figure].notna()].sort_values(axis)
            if len(there) > 1:
                said.append(
                    fall_sentence(there, axis, figure, f"{name} ({aside})" if aside else name)
                )
    return tuple(said)


def fall_sentence(rows: pd.DataFrame, axis: str, figure: str, name: str) -> str:
    """From which round-trip time on one line falls."""
    first, last = rows.iloc[0], rows.iloc[-1]
    low = rows[rows[figure] < (1 - UNMOVED) * first[figure]]
    start = f"{rate(first[figure])} Mbit/s at {first[axis]:g} ms"
    if low.empty:
        return (
            f"{name} keeps at least {whole_percent(1 - UNMOVED)} of its {start} up to"
            f" {last[axis]:g} ms ({rate(last[figure])})."
        )
    fall = low.iloc[0]
    return (
        f"{name} falls by more than {whole_percent(UNMOVED)} from {fall[axis]:g} ms on"
        f" ({rate(fall[figure])}): {start}, {rate(last[figure])} at {last[axis]:g} ms."
    )


def draw(sheet: Sheet) -> Iterator[Picture]:
    """One figure."""
    models = sheet.sweep.study.models
    yield Picture(
        plot_by_rtt(sheet.rows, sheet.footer, title=sheet.title, called=sheet.called, models=models)
    )


def says(sweep: Sweep, table: pd.DataFrame) -> Iterator[Answer]:
    """From which round-trip time on the rate falls."""
    if said := rtt_sentences(valid_rows(table)):
        yield Answer(f"{sweep.title}: from which round-trip time on the rate falls", said)


DRAWING = Drawing(
    "by-rtt",
    caption="Goodput by round-trip time; diamonds are the study's.",
    draw=draw,
    says=says,
)
