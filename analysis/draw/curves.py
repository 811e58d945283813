"""Figures of sweeps: goodput by loss, by round-trip time, by condition and by site, and flows'
shares of a bottleneck.

Each takes a table (cells.to_table, widened by `beside`) and returns a Figure in the style of
analysis.draw.figures. Points are the lab's (hollow: degraded; an interval from six runs on, else a
tick per run), diamonds the study's, broken lines models.
"""

from __future__ import annotations

import itertools
import json
import math
import re
import textwrap
from collections.abc import Iterator, Sequence
from typing import Any

import matplotlib.colors
import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Patch
from matplotlib.ticker import FixedLocator, FuncFormatter, NullLocator

from analysis.draw.colours import DEGRADED_HATCH, FAINT, INK, cc_colour, cc_name
from analysis.draw.figures import (
    apart,
    ccs_of,
    cut,
    degraded_handles,
    finish,
    new_figure,
    spread_handles,
    styled,
    thesis_handle,
    thousands,
)
from analysis.judge.cells import CC_ORDER, Cell, natural, rank
from analysis.judge.models import GENERAL, LI_2018, Model, Path, models_for
from analysis.read.folder import Run
from analysis.read.study import Study, claims_of, level

# What a table calls a figure that a study publishes under another name.
TABLE_NAMES = {"goodput_mbit": "goodput"}
AXES = {
    "goodput": "Goodput (Mbit/s)",
    "window_pkts": "Mean window (segments)",
    "total_mbit": "All flows (Mbit/s)",
    "convergence_s": "Time to converge (s)",
    "jain": "Jain's index (1 is fair)",
    "share": "Share of the sum (%)",
}
FACTOR_NAMES = {
    "rtt": "Round-trip time",
    "cc": "Congestion control",
    "start": "Start",
    "buffer": "Bottleneck buffer",
    "loss": "Packet loss",
    "duration": "Duration",
    "rate": "Rate",
}
SHORT_NAMES = {"rtt": "RTT"}
# A level as a file has it, to be printed with a space: 10ms, 0.5bdp.
UNIT = re.compile(r"^([0-9.]+)\s*([A-Za-zµ%]+)$")
UNITS = {"kbit": "kbit/s", "mbit": "Mbit/s", "gbit": "Gbit/s", "bdp": "BDP", "pkts": "packets"}
SWITCHES = {"True": "on", "False": "off"}
# A factor whose levels say what they are.
SPEAKING = ("profile", "condition", "tunnel", "direction")
# A value range wider than this is shown on a log axis.
WIDE = 12.0
# Losses that span less than this are named one by one.
NEAR_LOSSES = 60
# More conditions than this in a row and their names run into each other; wider rows break.
CONDITIONS_IN_A_ROW = 6
# Models are drawn through so many points.
STEPS = 160
FLOW_HATCHES = ("", "....", "xx", "\\\\\\\\", "oo", "++")


def beside(table: pd.DataFrame, cells: Sequence[Cell], study: Study) -> pd.DataFrame:
    """A table of cells with a column per factor, what its flows are, and the study's value and band
    of every figure.

    factor:KEY as written · direction · rmem_bytes · rtt:FLOW (ms) · cc:FLOW ("udp" of none) ·
    FIGURE_study, FIGURE_least, FIGURE_most, where a flow's figure is goodput:FLOW.
    """
    rows: list[dict[str, Any]] = []
    for cell in cells:
        run = cell.like
        row: dict[str, Any] = {f"factor:{name}": level(value) for name, value in cell.factors}
        row |= {"direction": run.direction, "rmem_bytes": rmem_bytes(run)}
        for flow in run.flows:
            row |= {f"rtt:{flow.name}": flow.rtt_ms, f"cc:{flow.name}": flow.cc or flow.kind}
        for published in study.published_all_for(run):
            for asked in claims_of(published):
                name = TABLE_NAMES.get(asked.figure, asked.figure) + (
                    f":{asked.flow}" if asked.flow else ""
                )
                for end, value in (
                    ("study", asked.value),
                    ("least", asked.least),
                    ("most", asked.most),
                ):
                    if value is not None:
                        row[f"{name}_{end}"] = value
        rows.append(row)
    wide = pd.concat([table.reset_index(drop=True), pd.DataFrame(rows)], axis=1)
    # A figure of another matrix (thesis_goodput may be one) is of other loss or other buffers here.
    own = wide["goodput_study"] if "goodput_study" in wide else pd.Series(math.nan, wide.index)
    return wide.assign(goodput_study=own, thesis_goodput=own, ratio=wide["goodput"] / own)


def rmem_bytes(run: Run) -> float | None:
    """The greatest receive buffer that the kernel gives a socket of the run; None where run.json
    does not say.
    """
    try:
        return float(json.loads(str(dict(run.settings)["buffers.rmem"]))[-1])
    except (KeyError, ValueError, TypeError, IndexError):
        return None


# -- by loss


@styled
def plot_by_loss(
    table: pd.DataFrame,
    footer: str = "",
    *,
    figure: str = "goodput",
    log_y: bool | None = None,
    li_2018: bool = False,
) -> Figure:
    """Goodput (or mean window) by loss on a log axis, a facet per RTT, with model curves and
    published values and bands.

    log_y: None: where the values span more than a decade. li_2018: with the two equations of that
    paper.
    """
    facets = list(facets_of(table, known=("cc", "loss_p"), first="rtt_ms"))
    shape = grid(len(facets))
    drawn, axes = new_figure(
        1.4 + (3.3 if shape[0] == 1 else 2.6) * shape[0], *shape, sharex=True, sharey=True
    )
    losses = sorted(loss for loss in table["loss_p"].dropna().unique() if loss > 0) or [1e-3]
    none_at = losses[0] / 10 if (table["loss_p"] == 0).any() else None
    ccs = ccs_of(table)
    models = models_for(ccs, LI_2018 if li_2018 else GENERAL)
    seen = figure_values(table, figure)
    top, bottom = max([1.0, *seen]), min([value for value in seen if value > 0] or [1.0])
    logarithmic = top / bottom > WIDE if log_y is None else log_y
    floor = bottom / 2 if logarithmic else 0.0
    for ax, (title, rows) in zip(axes.flat, facets, strict=False):
        if logarithmic:
            ax.set_yscale("log")
        draw_capacity(ax, rows, figure)
        for model in models:
            draw_model_by_loss(ax, model, rows, figure, losses)
        for place, cc in enumerate(ccs):
            mine = rows[rows["cc"] == cc].sort_values("loss_p")
            # Side by side, so that equal values of two do not hide each other.
            aside = 1.13 ** (place - (len(ccs) - 1) / 2)
            spots = [
                none_at * aside if loss == 0 and none_at else loss * aside
                for loss in mine["loss_p"]
            ]
            draw_band(ax, spots, mine, figure, cc_colour(cc), floor)
            draw_line(
                ax,
                [
                    (x, row)
                    for x, (_, row) in zip(spots, mine.iterrows(), strict=True)
                    if row["loss_p"] > 0
                ],
                figure,
                cc_colour(cc),
            )
            for x, (_, row) in zip(spots, mine.iterrows(), strict=True):
                draw_point(ax, x, row, figure, cc_colour(cc), f"lab {cc}")
                draw_study(ax, x * 1.15, row, figure, cc_colour(cc))
        ax.set_title(title)
        ax.set_ylim(floor, top * (1.6 if logarithmic else 1.12))
        loss_axis(ax, losses, none_at, most=4 if shape[1] > 2 else 6)
        plain_log(ax.yaxis, floor, top * 1.6) if logarithmic else thousands(ax.yaxis)
    blank(axes, len(facets))
    near = losses[-1] / losses[0] < NEAR_LOSSES
    label_edges(
        axes,
        len(facets),
        "Packet loss (%)" if near else "Packet loss (share of packets)",
        AXES[figure],
    )
    handles = [
        *cc_handles(ccs),
        *model_handles(models),
        *link_handles(table),
        *study_handles(table, figure),
        *spread_handles(table, figure),
        *degraded_handles(table),
    ]
    finish(drawn, handles, footer)
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


def draw_model(ax: Axes, model: Model, points: Sequence[tuple[float, float]]) -> None:
    """A model's curve."""
    if points:
        ax.plot(
            *zip(*points, strict=True),
            color=cc_colour(model.cc),
            linestyle=(0, model.dashes),
            linewidth=1.3,
            alpha=0.85,
            zorder=2,
            label=f"model {model.name}",
        )


def paths_of(rows: pd.DataFrame) -> list[Path]:
    """The paths of some cells, each once, whatever their loss."""

    def known(value: float) -> float | None:
        return value if value == value else None

    found = {
        Path(
            known(row["rate_mbit"] * 1e6),
            row["rtt_ms"],
            0.0,
            known(number(row, "rmem_bytes")),
            int(row["mtu_bytes"]),
        )
        for _, row in rows.iterrows()
    }
    return sorted(
        found, key=lambda path: (path.rtt_ms, path.rate_bps or 0.0, path.rmem_bytes or 0.0)
    )


def draw_capacity(ax: Axes, rows: pd.DataFrame, figure: str) -> None:
    """What a full link carries, as a faint line."""
    for path in paths_of(rows):
        if math.isfinite(path.payload_mbit):
            full = (
                path.payload_mbit * path.rtt_ms * 1000 / 8 / 1448
                if figure == "window_pkts"
                else path.payload_mbit
            )
            ax.axhline(full, color=FAINT, linewidth=0.9, zorder=1, label="link")


def draw_band(
    ax: Axes, spots: Sequence[float], rows: pd.DataFrame, figure: str, colour: str, floor: float
) -> None:
    """Where the study says that a figure lies; an open end reaches to the axis or to the link."""
    if f"{figure}_least" not in rows and f"{figure}_most" not in rows:
        return
    for x, (_, row) in zip(spots, rows.iterrows(), strict=True):
        least, most = number(row, f"{figure}_least"), number(row, f"{figure}_most")
        if least != least and most != most:
            continue
        top = float(np.nanmax([number(row, "rate_mbit"), least])) if most != most else most
        ax.fill_between(
            [x / 1.28, x * 1.28],
            floor if least != least else least,
            top,
            color=colour,
            alpha=0.17,
            linewidth=0,
            zorder=1,
            label="band",
        )


def draw_band_beside(
    ax: Axes,
    x: float,
    row: pd.Series,
    figure: str,
    colour: str,
    *,
    scale: float = 1.0,
    full: float | None = None,
    zorder: float = 1,
) -> None:
    """The same as a broad pale line at one place; an open end reaches to zero or to `full` (None:
    the link).
    """
    least, most = number(row, f"{figure}_least"), number(row, f"{figure}_most")
    if least == least or most == most:
        full = float(np.nanmax([number(row, "rate_mbit"), least])) if full is None else full
        ends = [0.0 if least != least else scale * least, full if most != most else scale * most]
        ax.plot(
            [x, x],
            ends,
            color=colour,
            alpha=0.3,
            linewidth=8,
            solid_capstyle="butt",
            zorder=zorder,
            label="band",
        )


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


def superscript(power: int) -> str:
    """An exponent."""
    return str(power).translate(str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹"))


# -- by round-trip time


@styled
def plot_by_rtt(
    table: pd.DataFrame, footer: str = "", *, figure: str = "goodput", li_2018: bool = False
) -> Figure:
    """Goodput by round-trip time: a line per congestion control, or per flow where several share
    the bottleneck.
    """
    flows, axis = flows_of(table), rtt_column(table)
    facets = list(facets_of(table, known=(axis, *(() if flows else ("cc",)))))
    shape = grid(len(facets))
    drawn, axes = new_figure(
        1.5 + (3.2 if shape[0] == 1 else 2.6) * shape[0], *shape, sharex=True, sharey=True
    )
    lines = [f"{figure}:{flow}" for flow in flows] if flows else [figure]
    ccs = (
        sorted({table[f"cc:{flow}"].iloc[0] for flow in flows}, key=cc_rank)
        if flows
        else ccs_of(table)
    )
    models = [] if flows else models_for(ccs, LI_2018 if li_2018 else ("rfc9438", "reno", "bbr"))
    rtts = sorted(table[axis].dropna().unique())
    logarithmic = rtts[-1] / max(rtts[0], 1e-3) > WIDE
    top = max([1.0, *(value for line in lines for value in figure_values(table, line))])
    for ax, (title, rows) in zip(axes.flat, facets, strict=False):
        if not flows:
            draw_capacity(ax, rows, figure)
        for model in models:
            draw_model_by_rtt(ax, model, rows, figure, rtts)
        series = (
            [
                (
                    line,
                    rows,
                    flow_colour(rows, flow),
                    FLOW_DASHES[place % len(FLOW_DASHES)],
                    f"lab {flow}",
                )
                for place, (line, flow) in enumerate(zip(lines, flows, strict=True))
            ]
            if flows
            else [(figure, rows[rows["cc"] == cc], cc_colour(cc), "-", f"lab {cc}") for cc in ccs]
        )
        for place, (line, cells, colour, dashes, name) in enumerate(series):
            shift = place - (len(series) - 1) / 2
            points = [
                (
                    (
                        row[axis] * 1.02**shift
                        if logarithmic
                        else row[axis] + 0.008 * (rtts[-1] - rtts[0]) * shift
                    ),
                    row,
                )
                for _, row in cells.sort_values(axis).iterrows()
            ]
            draw_line(ax, points, line, colour, dashes)
            for x, row in points:
                draw_point(
                    ax,
                    x,
                    row,
                    line,
                    colour,
                    name,
                    marker=FLOW_MARKERS[place % len(FLOW_MARKERS)] if flows else "o",
                )
                draw_band_beside(ax, x, row, line, colour)
                draw_study(ax, x, row, line, colour)
                if flows and number(row, f"{line}_study") == number(row, f"{line}_study"):
                    ax.annotate(
                        flows[place],
                        (x, row[f"{line}_study"]),
                        xytext=(6, 0),
                        textcoords="offset points",
                        va="center",
                        fontsize=8.5,
                        color=FAINT,
                    )
        ax.set_title(title)
        ax.set_ylim(0, 1.12 * top)
        thousands(ax.yaxis)
        if logarithmic:
            ax.set_xscale("log")
        ax.xaxis.set_major_locator(FixedLocator(apart(rtts, 1.45) if logarithmic else spaced(rtts)))
        ax.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
        ax.xaxis.set_minor_locator(NullLocator())
    blank(axes, len(facets))
    words = "Round-trip time" + (f" of {axis.partition(':')[2]}" if ":" in axis else "") + " (ms)"
    label_edges(axes, len(facets), words, AXES[figure])
    handles = flow_handles(table, flows, lines=True) if flows else cc_handles(ccs)
    handles += [
        *model_handles(models),
        *([] if flows else link_handles(table)),
        *study_handles(table, *lines),
        *spread_handles(table, lines[0]),
        *degraded_handles(table),
    ]
    finish(drawn, handles, footer)
    return drawn


FLOW_DASHES: tuple[Any, ...] = ("-", (0, (5, 1.5)), (0, (1.5, 1.5)), (0, (6, 1.5, 1.5, 1.5)))
FLOW_MARKERS = ("o", "s", "^", "v")


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


def rtt_column(table: pd.DataFrame) -> str:
    """What varies: the path's round-trip time, or one flow's own."""
    swept = [
        name for name in table.columns if name.startswith("rtt:") and table[name].nunique() > 1
    ]
    # All flows' moving together is the path's moving.
    return swept[0] if swept and table["rtt_ms"].nunique() == 1 else "rtt_ms"


def spaced(levels: Sequence[float], share: float = 0.07) -> list[float]:
    """Those of the sorted levels that a linear axis has room to name."""
    kept: list[float] = []
    for each in levels:
        if not kept or each - kept[-1] >= share * (levels[-1] - levels[0]):
            kept.append(each)
    return kept


# -- shares


@styled
def plot_shares(table: pd.DataFrame, footer: str = "") -> Figure:
    """Each flow's share of what all carry, by the factor with most levels, Jain's index above each
    group.
    """
    flows, swept = flows_of(table), swept_factor(table)
    facets = list(facets_of(table, known=(swept,)))
    shape = (
        (math.ceil(len(facets) / 2), min(2, len(facets)))
        if max(len(rows) for _, rows in facets) <= 4
        else (len(facets), 1)
    )
    drawn, axes = new_figure(1.3 + 2.45 * shape[0], *shape, sharey=True)
    width = 0.82 / max(1, len(flows))
    for ax, (title, rows) in zip(axes.flat, facets, strict=False):
        ax.axhline(
            100 / max(1, len(flows)),
            color=INK,
            linewidth=1.0,
            linestyle=(0, (4, 2)),
            zorder=3,
            label="fair",
        )
        for index, (_, row) in enumerate(rows.iterrows()):
            study = study_shares(row, flows)
            for place, flow in enumerate(flows):
                x = index + (place - (len(flows) - 1) / 2) * width
                draw_share(ax, x, width, row, flow, shade_of(row, flows, place), study.get(flow))
            if row["jain"] == row["jain"]:
                ax.annotate(
                    f"{row['jain']:.2f}",
                    (index, 107),
                    ha="center",
                    va="bottom",
                    fontsize=9.5,
                    label="jain",
                )
        if ax.get_subplotspec().is_first_col():
            ax.annotate(
                "Jain",
                (0, 107),
                xycoords=("axes fraction", "data"),
                xytext=(-4, 0),
                textcoords="offset points",
                ha="right",
                va="bottom",
                fontsize=9.5,
                color=FAINT,
            )
        ax.set_title(title, pad=8)
        ax.set_ylim(0, 120)
        ax.set_yticks(range(0, 101, 25))
        room = 68 // len(rows) // shape[1]
        names = [
            "" if swept == "cell" else wrapped(level_words(swept, words), room)
            for words in rows[swept]
        ]
        ax.set_xticks(range(len(rows)), names)
        # One pair of bars as broad as the page says no more than a narrow one.
        aside = 0.6 if len(rows) > 1 else 1.4
        ax.set_xlim(-aside, len(rows) - 1 + aside)
        ax.grid(False, axis="x")
    blank(axes, len(facets))
    label_edges(axes, len(facets), factor_heading(swept), AXES["share"])
    handles = [
        *flow_handles(table, flows),
        Line2D([], [], color=INK, linewidth=1.0, linestyle=(0, (4, 2)), label="equal shares"),
    ]
    shares = [f"share:{flow}" for flow in flows]
    if any(study_shares(row, flows) for _, row in table.iterrows()):
        handles.append(thesis_handle("the study"))
    handles += [handle for handle in study_handles(table, *shares) if isinstance(handle, Patch)]
    finish(
        drawn,
        (
            [*handles, *spread_handles(table, shares[0]), *degraded_handles(table, bar=True)]
            if flows
            else []
        ),
        footer,
    )
    return drawn


def draw_share(
    ax: Axes, x: float, width: float, row: pd.Series, flow: str, shade: int, study: float | None
) -> None:
    """One flow's bar, its runs, the study's value."""
    figure = f"share:{flow}"
    value = number(row, figure)
    if value == value:
        colour, degraded = cc_colour(str(row[f"cc:{flow}"])), row["verdict"] == "degraded"
        ax.bar(
            x,
            100 * value,
            width * 0.9,
            color="white" if degraded else tint(colour, shade),
            edgecolor=colour,
            linewidth=1.2,
            hatch=DEGRADED_HATCH if degraded else None,
            label=f"lab {flow}",
            zorder=2,
        )
        draw_spread(ax, x, row, figure, INK, scale=100)
    draw_band_beside(ax, x + width * 0.3, row, figure, INK, scale=100, full=100, zorder=2.5)
    if study is not None:
        ax.plot(
            [x + width * 0.3],
            [100 * study],
            linestyle="none",
            marker="D",
            markersize=5.5,
            markerfacecolor="white",
            markeredgecolor=INK,
            markeredgewidth=1.4,
            label="study",
            zorder=6,
            clip_on=False,
        )


def study_shares(row: pd.Series, flows: Sequence[str]) -> dict[str, float]:
    """The study's shares: as published, or those of the goodputs that it publishes of all flows."""
    told = {flow: number(row, f"share:{flow}_study") for flow in flows}
    goodputs = {flow: number(row, f"goodput:{flow}_study") for flow in flows}
    total = sum(goodputs.values())
    if not any(value == value for value in told.values()) and total > 0:
        told = {flow: value / total for flow, value in goodputs.items()}
    return {flow: value for flow, value in told.items() if value == value}


# -- conditions


@styled
def plot_bars(table: pd.DataFrame, footer: str = "", *, figure: str = "goodput") -> Figure:
    """A group of bars per condition, one per congestion control, the study's value beside each."""
    ccs, factors = ccs_of(table), conditions_of(table)
    named = list(by_condition(table, factors))
    groups = [
        (words, rows)
        for words, (_, rows) in zip(told_apart([words for words, _ in named]), named, strict=True)
    ]
    lines = [
        groups[start : start + CONDITIONS_IN_A_ROW]
        for start in range(0, len(groups), CONDITIONS_IN_A_ROW)
    ]
    drawn, axes = new_figure(1.5 + 2.6 * len(lines), max(1, len(lines)), 1, sharey=True)
    top = max([value for value in figure_values(table, figure, link=False) if value > 0] or [1.0])
    width = 0.84 / max(1, len(ccs))
    room = min(CONDITIONS_IN_A_ROW, max(1, len(groups)))
    for ax, line in zip(axes[:, 0], lines, strict=False):
        for index, (_, rows) in enumerate(line):
            for place, cc in enumerate(ccs):
                for _, row in rows[rows["cc"] == cc].head(1).iterrows():
                    draw_bar(
                        ax,
                        index + (place - (len(ccs) - 1) / 2) * width,
                        width,
                        row,
                        figure,
                        upright=room * len(ccs) <= 9,
                    )
        if factors:
            ax.set_xticks(range(len(line)), [wrapped(words, 70 // room) for words, _ in line])
        else:  # nothing but the congestion control varies: each bar has its name
            ax.set_xticks(
                [(place - (len(ccs) - 1) / 2) * width - width * 0.12 for place in range(len(ccs))],
                [cc_name(cc) for cc in ccs],
            )
        ax.set_xlim(-0.55, room - 0.45)
        ax.set_ylim(0, top * 1.22)
        ax.set_ylabel(AXES[figure])
        ax.grid(False, axis="x")
        thousands(ax.yaxis)
    if len(factors) == 1:
        axes[-1, 0].set_xlabel(factor_heading(factors[0]))
    handles: list[Any] = [Patch(facecolor=cc_colour(cc), label=cc_name(cc)) for cc in ccs]
    handles += [
        *study_handles(table, figure),
        *spread_handles(table, figure),
        *degraded_handles(table, bar=True),
    ]
    finish(drawn, handles, footer)
    return drawn


def draw_bar(ax: Axes, x: float, width: float, row: pd.Series, figure: str, upright: bool) -> None:
    """A cell's bar with its value above, its runs, the study's value beside it."""
    colour, degraded = cc_colour(row["cc"]), row["verdict"] == "degraded"
    at = x - width * 0.12
    if row["n"] and row[figure] == row[figure]:
        ax.bar(
            at,
            row[figure],
            width * 0.62,
            color="white" if degraded else colour,
            edgecolor=colour,
            linewidth=1.2,
            hatch=DEGRADED_HATCH if degraded else None,
            label=f"lab {row['cc']}",
            zorder=2,
        )
        draw_spread(ax, at, row, figure, INK)
        reach = max(
            value
            for value in (row[figure], row[f"{figure}_high"], *row[f"{figure}_values"])
            if value == value
        )
        ax.annotate(
            short(row[figure]),
            (at, reach),
            xytext=(0, 4),
            textcoords="offset points",
            ha="center",
            va="bottom",
            fontsize=8.5,
            rotation=0 if upright else 90,
        )
    else:
        ax.annotate(
            row["absent"],
            (at, 0),
            xytext=(0, 4),
            textcoords="offset points",
            ha="center",
            va="bottom",
            fontsize=8.5,
            color=FAINT,
            rotation=90,
        )
    draw_band_beside(ax, x + width * 0.36, row, figure, INK, zorder=2.5)
    value = number(row, f"{figure}_study")
    if value == value:
        ax.plot(
            [x + width * 0.36],
            [value],
            linestyle="none",
            marker="D",
            markersize=5.5,
            markerfacecolor="white",
            markeredgecolor=colour,
            markeredgewidth=1.5,
            label="study",
            zorder=6,
            clip_on=False,
        )


def told_apart(names: Sequence[str]) -> list[str]:
    """Names without a first word (course-…) that all have in common."""
    heads = {name.split("-", 1)[0] for name in names}
    common = len(names) > 1 and len(heads) == 1 and all("-" in name for name in names)
    return [name.split("-", 1)[1] if common else name for name in names]


def conditions_of(table: pd.DataFrame) -> list[str]:
    """The factors that make a condition: all but the congestion control that vary."""
    return [
        name
        for name in factor_columns(table)
        if name != "factor:cc" and table[name].nunique(dropna=False) > 1
    ]


def by_condition(table: pd.DataFrame, factors: Sequence[str]) -> Iterator[tuple[str, pd.DataFrame]]:
    """(name of the condition, its cells), in the order of their first cells."""
    if not factors:
        yield "", table
        return
    for levels, rows in groups_of(table, factors):
        words = [
            level_words(factor, value) if len(factors) == 1 else named_level(factor, value)
            for factor, value in zip(factors, levels, strict=True)
            if value is not None
        ]
        yield ", ".join(words), rows


# -- sites


@styled
def plot_map(table: pd.DataFrame, footer: str = "", *, figure: str = "goodput") -> Figure:
    """A row per site of a star, nearest first, upload and download side by side, the study's value
    beside the lab's.
    """
    sites, ccs, rtt = sites_of(table), ccs_of(table), table.groupby("profile")["rtt_ms"].min()
    directions = sorted(table["direction"].unique(), key=("upload", "download").index)
    drawn, axes = new_figure(1.3 + 0.36 * max(2, len(sites)), 1, len(directions), sharey=True)
    values = [value for value in figure_values(table, figure) if value > 0] or [1.0]
    low, high = min(values) / 1.8, max(values) * 1.8
    step = 0.62 / max(1, len(ccs))
    for ax, direction in zip(axes[0], directions, strict=True):
        ax.set_xscale("log")
        for y, site in enumerate(sites):
            if y % 2:
                ax.axhspan(y - 0.5, y + 0.5, color="#f4f5f7", zorder=0, linewidth=0)
            for place, cc in enumerate(ccs):
                rows = table[
                    (table["profile"] == site)
                    & (table["cc"] == cc)
                    & (table["direction"] == direction)
                ]
                for _, row in rows.head(1).iterrows():
                    at = y + (place - (len(ccs) - 1) / 2) * step
                    draw_study(ax, at, row, figure, cc_colour(cc), flat=True)
                    draw_point(ax, at, row, figure, cc_colour(cc), f"lab {cc}", flat=True)
        for y, (first, second) in enumerate(itertools.pairwise(sites)):
            if first.split("-")[0] != second.split("-")[0] and rtt[first] > rtt[second]:
                ax.axhline(y + 0.5, color=FAINT, linewidth=0.9)
        ax.set_title(direction)
        ax.set_xlim(low, high)
        ax.set_ylim(len(sites) - 0.5, -0.5)
        ax.set_xlabel(AXES[figure])
        ax.grid(False, axis="y")
        plain_log(ax.xaxis, low, high, most=5)
    axes[0, 0].set_yticks(
        range(len(sites)), [f"{cut(site, 26)}, {rtt[site]:.3g} ms" for site in sites]
    )
    handles = [
        *cc_handles(ccs),
        *study_handles(table, figure),
        *spread_handles(table, figure),
        *degraded_handles(table),
    ]
    finish(drawn, handles, footer)
    return drawn


def sites_of(table: pd.DataFrame) -> list[str]:
    """The profiles, nearest first; those seen from one place together, where a few share the first
    word of their name.
    """
    rtt = table.groupby("profile")["rtt_ms"].min()
    heads = {site: site.split("-")[0] for site in rtt.index}
    together = 1 < len(set(heads.values())) <= len(heads) / 3
    return sorted(rtt.index, key=lambda site: (heads[site] if together else "", rtt[site], site))


# -- what they share


def number(row: pd.Series, name: str) -> float:
    """A value of a row; NaN where its table has no such column."""
    value = row.get(name)
    return math.nan if value is None else float(value)


def groups_of(
    table: pd.DataFrame, keys: Sequence[str]
) -> list[tuple[tuple[Any, ...], pd.DataFrame]]:
    """(levels, rows) of every combination of levels that there is, in the order of their first
    rows.
    """
    levels = table[list(keys)].astype(object).where(table[list(keys)].notna(), None)
    found: dict[tuple[Any, ...], list[int]] = {}
    for index, values in enumerate(levels.itertuples(index=False, name=None)):
        found.setdefault(values, []).append(index)
    return [(values, table.iloc[places]) for values, places in found.items()]


def factor_columns(table: pd.DataFrame) -> list[str]:
    """The columns of a table that are factors."""
    return [name for name in table.columns if name.startswith("factor:")]


def facets_of(
    table: pd.DataFrame, known: Sequence[str], first: str | None = None
) -> Iterator[tuple[str, pd.DataFrame]]:
    """(title, cells) for every level of what the axes and colours do not show; `first` is a column
    to tell facets apart by.

    A factor that the columns so far determine (a profile of each round-trip time) makes no facets
    of its own.
    """
    keys = [first] if first and table[first].nunique() > 1 else []
    for name in factor_columns(table):
        if name in known or name.removeprefix("factor:") in known:
            continue
        shown = [*known, *keys]
        if table.groupby(shown, dropna=False)[name].nunique(dropna=False).max() > 1:
            keys.append(name)
    if not keys:
        yield (f"RTT {table[first].iloc[0]:g} ms" if first else ""), table
        return
    for levels, rows in sorted(
        groups_of(table, keys), key=lambda pair: [natural(level(value)) for value in pair[0]]
    ):
        yield (
            ", ".join(
                f"RTT {value:g} ms" if key == "rtt_ms" else named_level(key, value)
                for key, value in zip(keys, levels, strict=True)
            ),
            rows,
        )


def named_level(factor: str, value: Any) -> str:
    """A factor's level with its name, where it would not say what it is."""
    name = factor.removeprefix("factor:")
    return (
        cc_name(str(value))
        if name == "cc"
        else (
            str(value)
            if name in SPEAKING
            else (
                f"{cc_name(str(value))} as {name[:-3]}"
                if name.endswith(".cc")
                else f"{SHORT_NAMES.get(name, name.replace('_', ' '))} {level_words(factor, value)}"
            )
        )
    )


def level_words(factor: str, value: Any) -> str:
    """A level on an axis that names its factor."""
    said = SWITCHES.get(str(value), str(value))
    return (
        cc_name(said)
        if factor.endswith("cc")
        else UNIT.sub(lambda found: f"{found[1]}\u00a0{UNITS.get(found[2], found[2])}", said)
    )


def factor_heading(factor: str) -> str:
    """A factor as an axis names it; its levels carry their units."""
    name = factor.removeprefix("factor:")
    if name == "cell":
        return ""
    flow, _, field = name.rpartition(".")
    plain = FACTOR_NAMES.get(field, field)
    return f"{plain} of {flow}" if flow else plain[:1].upper() + plain[1:]


def swept_factor(table: pd.DataFrame) -> str:
    """The factor for the axis: the one with most levels, of equals one that is no congestion
    control, or a flow's own.
    """
    columns = factor_columns(table) or ["cell"]
    return max(
        columns, key=lambda name: (table[name].nunique(), not name.endswith("cc"), "." in name)
    )


def flows_of(table: pd.DataFrame) -> list[str]:
    """The names of the flows that have a congestion control, where there are several."""
    names = [
        name.partition(":")[2]
        for name in table.columns
        if name.startswith("cc:") and not table[name].isin(["udp"]).any()
    ]
    return names if len(names) > 1 else []


def flow_colour(rows: pd.DataFrame, flow: str) -> str:
    """The colour of a flow's congestion control."""
    return cc_colour(str(rows[f"cc:{flow}"].dropna().iloc[0]))


def shade_of(row: pd.Series, flows: Sequence[str], place: int) -> int:
    """How many flows before one have its congestion control."""
    return sum(row[f"cc:{flow}"] == row[f"cc:{flows[place]}"] for flow in flows[:place])


def tint(colour: str, shade: int) -> Any:
    """A paler colour from flow to flow of one congestion control, so that they can be told
    apart.
    """
    pale = (0.0, 0.62, 0.35, 0.8)[shade % 4]
    return tuple(channel + (1 - channel) * pale for channel in matplotlib.colors.to_rgb(colour))


def flow_handles(table: pd.DataFrame, flows: Sequence[str], lines: bool = False) -> list[Any]:
    """The legend's entry of each flow, with what it is where that does not vary."""
    handles: list[Any] = []
    for place, flow in enumerate(flows):
        ccs, rtts = table[f"cc:{flow}"].dropna().unique(), table[f"rtt:{flow}"].dropna().unique()
        words = ", ".join(
            [
                flow,
                *([cc_name(ccs[0])] if len(ccs) == 1 else []),
                *([f"{rtts[0]:g} ms"] if len(rtts) == 1 else []),
            ]
        )
        colour = cc_colour(ccs[0]) if len(ccs) == 1 else FAINT
        handles.append(
            Line2D(
                [],
                [],
                color=colour,
                linestyle=FLOW_DASHES[place % len(FLOW_DASHES)],
                marker=FLOW_MARKERS[place % len(FLOW_MARKERS)],
                label=words,
            )
            if lines
            else Patch(
                facecolor=tint(colour, shade_of(table.iloc[0], flows, place)),
                edgecolor=colour,
                label=words,
            )
        )
    return handles


def draw_line(
    ax: Axes, points: Sequence[tuple[float, pd.Series]], figure: str, colour: str, dashes: Any = "-"
) -> None:
    """What joins the points of one line."""
    there = [
        (x, number(row, figure)) for x, row in points if number(row, figure) == number(row, figure)
    ]
    if len(there) > 1:
        ax.plot(
            *zip(*there, strict=True),
            color=colour,
            linestyle=dashes,
            linewidth=1.6,
            zorder=3,
            label="line",
        )


def draw_point(
    ax: Axes,
    at: float,
    row: pd.Series,
    figure: str,
    colour: str,
    name: str,
    *,
    marker: str = "o",
    flat: bool = False,
) -> None:
    """A cell's median, hollow if degraded, with its interval or runs; `flat`: along x, at a place
    on y.
    """
    value = number(row, figure)
    if value != value:
        return
    draw_spread(ax, at, row, figure, colour, flat=flat)
    ax.plot(
        *(([value], [at]) if flat else ([at], [value])),
        linestyle="none",
        marker=marker,
        color=colour,
        markersize=5.5,
        markerfacecolor="white" if row["verdict"] == "degraded" else colour,
        markeredgewidth=1.4,
        label=name,
        zorder=5,
    )


def draw_spread(
    ax: Axes,
    at: float,
    row: pd.Series,
    figure: str,
    colour: str,
    *,
    flat: bool = False,
    scale: float = 1.0,
) -> None:
    """The median's interval where there is one, else each of several runs as a tick."""
    low, high = scale * row[f"{figure}_low"], scale * row[f"{figure}_high"]
    if low == low:
        ax.plot(
            *(([low, high], [at, at]) if flat else ([at, at], [low, high])),
            color=colour,
            linewidth=1.4,
            zorder=4,
            marker="|" if flat else "_",
            markersize=6,
            label="interval",
        )
    elif row["n"] > 1:
        values = [scale * value for value in row[f"{figure}_values"]]
        places = [at] * len(values)
        ax.plot(
            *((values, places) if flat else (places, values)),
            linestyle="none",
            marker="|" if flat else "_",
            markersize=8,
            color=colour,
            zorder=4,
            label="runs",
        )


def draw_study(
    ax: Axes, at: float, row: pd.Series, figure: str, colour: str, *, flat: bool = False
) -> None:
    """The study's value as a diamond in its congestion control's colour."""
    value = number(row, f"{figure}_study")
    if value == value:
        ax.plot(
            *(([value], [at]) if flat else ([at], [value])),
            linestyle="none",
            marker="D",
            markersize=7,
            markerfacecolor="white",
            markeredgecolor=colour,
            markeredgewidth=1.4,
            label="study",
            zorder=4,
        )


def figure_values(table: pd.DataFrame, figure: str, *, link: bool = True) -> list[float]:
    """Everything that a figure of these cells shows on its axis, what the link can carry among it
    unless it draws none.
    """
    found = [
        value
        for end in ("", "_low", "_high", "_study", "_least", "_most")
        if f"{figure}{end}" in table
        for value in table[f"{figure}{end}"]
    ]
    found += [value for values in table.get(f"{figure}_values", ()) for value in values]
    if figure == "goodput" and link:
        found += [path.payload_mbit for path in paths_of(table)]
    return [float(value) for value in found if value == value and math.isfinite(value)]


def cc_rank(cc: str) -> tuple[int, str]:
    """The order of congestion controls in legends."""
    return rank(cc, CC_ORDER)


def cc_handles(ccs: Sequence[str]) -> list[Any]:
    """The legend's entries of the lab's points."""
    return [
        Line2D([], [], color=cc_colour(cc), marker="o", linewidth=1.6, label=f"{cc_name(cc)}, lab")
        for cc in ccs
    ]


def model_handles(models: Sequence[Model]) -> list[Any]:
    """The legend's entries of models."""
    return [
        Line2D(
            [],
            [],
            color=cc_colour(model.cc),
            linestyle=(0, model.dashes),
            linewidth=1.3,
            label=model.label,
        )
        for model in models
    ]


def link_handles(table: pd.DataFrame) -> list[Any]:
    """The legend's entry of what a full link carries."""
    return (
        [Line2D([], [], color=FAINT, linewidth=0.9, label="link, full")]
        if table["rate_mbit"].notna().any()
        else []
    )


def study_handles(table: pd.DataFrame, *figures: str) -> list[Any]:
    """The legend's entries of what the study published."""

    def told(end: str) -> bool:
        return any(
            f"{figure}_{end}" in table and table[f"{figure}_{end}"].notna().any()
            for figure in figures
        )

    handles: list[Any] = []
    if told("study"):
        handles.append(
            Line2D(
                [],
                [],
                linestyle="none",
                marker="D",
                markersize=6,
                markerfacecolor="white",
                markeredgecolor=FAINT,
                markeredgewidth=1.5,
                label="the study, in its colour",
            )
        )
    if told("least") or told("most"):
        handles.append(Patch(facecolor=FAINT, alpha=0.25, label="published band"))
    return handles


def grid(count: int) -> tuple[int, int]:
    """Rows and columns of so many facets: three abreast at most, two of four."""
    columns = 1 if count <= 1 else 2 if count in (2, 4) else 3
    return max(1, math.ceil(count / columns)), columns


def blank(axes: np.ndarray, used: int) -> None:
    """Take away the facets that have nothing to show."""
    for ax in axes.flat[used:]:
        ax.set_visible(False)


def label_edges(axes: np.ndarray, used: int, x: str, y: str) -> None:
    """Name the axes once: on the left, and under the lowest facet of each column."""
    rows, columns = axes.shape
    for index in range(used):
        ax = axes.flat[index]
        if index % columns == 0:
            ax.set_ylabel(y)
        if index + columns >= used:
            ax.tick_params(labelbottom=True)
            if columns < 3:
                ax.set_xlabel(x)
    if columns >= 3:
        # Three narrow facets have no room for three names.
        middle = axes.flat[min(columns // 2 + (rows - 1) * columns, used - 1)]
        middle.set_xlabel(x)


def plain_log(axis: Any, low: float, high: float, most: int = 7) -> None:
    """A log axis with numbers as people write them: 0.1, 1, 10, 1,000; halves of decades where it
    is short.
    """
    first, last = math.ceil(math.log10(low) - 1e-9), math.floor(math.log10(high) + 1e-9)
    marks = [10.0**power for power in range(first, last + 1)]
    if len(marks) < 3:
        marks = [
            factor * 10.0**power for power in range(first - 1, last + 1) for factor in (1, 2, 5)
        ]
    marks = [mark for mark in marks if low <= mark <= high]
    every = math.ceil(len(marks) / most)
    axis.set_major_locator(FixedLocator(marks[::-1][::every][::-1]))
    axis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,.10g}"))
    axis.set_minor_locator(NullLocator())


def wrapped(words: str, width: int) -> str:
    """Words under a group of bars, in lines that do not meet their neighbours'."""
    width = max(6, width)
    if any(
        len(word) > width for word in words.split(" ")
    ):  # rather between a value and its unit than inside a word
        words = words.replace("\u00a0", " ")
    lines = textwrap.wrap(words, width, break_long_words=True)
    return "\n".join([*lines[:3], *(["…"] if len(lines) > 3 else [])])


def short(value: float) -> str:
    """A value above a bar: 1,432, 144, 9.3, 0.61."""
    return f"{value:,.0f}" if value >= 100 else f"{value:.1f}" if value >= 9.95 else f"{value:.2g}"
