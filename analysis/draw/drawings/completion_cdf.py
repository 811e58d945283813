"""How long downloads of a given size take: the distribution over runs and flows."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from analysis.draw.drawings.rtt_cdf import scale_axis, varying
from analysis.draw.levels import cc_rank, named_level, told_apart
from analysis.draw.registry import Answer, Drawing, Picture, Sheet, Sweep
from analysis.draw.spots import shows
from analysis.draw.style import (
    blank,
    cc_colour,
    finish,
    grid,
    head_panel,
    label_edges,
    new_figure,
    styled,
)
from analysis.judge.cells import Cell, cell_key
from analysis.judge.statistics import summarise
from analysis.judge.table import NBSP, cc_name, rate
from analysis.read.description import Flow
from analysis.read.folder import Run
from analysis.read.study import level

FACETS_ON_A_FIGURE = 9
Facet = tuple[str, Sequence[Run]]


def completion_s(flow: Flow) -> float | None:
    """How long a flow of a given size took from its start to its last byte; None of a flow that
    just lasts, or that was cut off before it had all.
    """
    if flow.size_bytes is None or flow.started_s is None or flow.ended_s is None:
        return None
    if flow.bytes is not None and flow.bytes < flow.size_bytes:
        return None
    return flow.ended_s - flow.started_s


def times_by_cc(runs: Sequence[Run]) -> dict[str, tuple[list[float], int]]:
    """Congestion control -> the times of the flows that were completed, and how many were asked."""
    found: dict[str, tuple[list[float], int]] = {}
    for flow in (flow for run in runs for flow in run.flows if flow.size_bytes is not None):
        cc = flow.cc or flow.kind
        times, asked = found.get(cc, ([], 0))
        taken = completion_s(flow)
        found[cc] = (times if taken is None else [*times, taken], asked + 1)
    return dict(sorted(found.items(), key=lambda pair: cc_rank(pair[0])))


@styled
def plot_completion_cdf(facets: Sequence[Facet], footer: str = "", *, title: str = "") -> Figure:
    """A facet per condition, a line per congestion control: the share of its flows that were
    complete after so many seconds. One that never was keeps its line below 1.
    """
    rows, columns = grid(len(facets))
    figure, axes = new_figure(1.4 + 2.3 * rows, rows, columns, sharey=True)
    for ax, (words, runs) in zip(axes.flat, facets, strict=False):
        for cc, (times, asked) in times_by_cc(runs).items():
            draw_steps(ax, cc, times, asked)
        if ax.lines:
            scale_axis(ax, runs)
        shows(ax.patch, map(cell_key, runs))
        head_panel(ax, words, columns, fontsize=9.5)
        ax.set_ylim(0, 1.02)
        if any(run.verdict == "degraded" for run in runs):
            ax.text(0.97, 0.04, "degraded", ha="right", fontsize=8.5, transform=ax.transAxes)
    blank(axes, len(facets))
    label_edges(axes, len(facets), "Time to complete (s)", "Share of the flows")
    ccs = {cc for _, runs in facets for cc in times_by_cc(runs)}
    handles = [
        Line2D([], [], color=cc_colour(cc), linewidth=1.6, label=cc_name(cc))
        for cc in sorted(ccs, key=cc_rank)
    ]
    finish(figure, handles, footer, title)
    return figure


def draw_steps(ax: Axes, cc: str, times: Sequence[float], asked: int) -> None:
    """One congestion control's steps, and a dot at each."""
    if not times:
        return
    ordered = np.sort(times)
    shares = np.arange(1, len(ordered) + 1) / asked
    ax.plot(
        [ordered[0], *ordered],
        [0.0, *shares],
        drawstyle="steps-post",
        color=cc_colour(cc),
        linewidth=1.5,
        label=f"lab {cc}",
        zorder=3,
    )
    ax.plot(ordered, shares, ".", color=cc_colour(cc), markersize=5, zorder=3)


def conditions(cells: Sequence[Cell]) -> list[Facet]:
    """(condition, the runs that count and had something to complete) in the order of the cells."""
    found: dict[str, list[Run]] = {}
    varied = varying(cells)
    for cell in cells:
        words = ", ".join(
            named_level(name, level(value)) for name, value in cell.factors if name in varied
        )
        found.setdefault(words, []).extend(
            run for run in cell.counted if any(flow.size_bytes is not None for flow in run.flows)
        )
    known = [(words, tuple(runs)) for words, runs in found.items() if runs]
    names = told_apart([words for words, _ in known])
    return [(name, runs) for name, (_, runs) in zip(names, known, strict=True)]


def draw(sheet: Sheet) -> Iterator[Picture]:
    """As many figures as its facets need."""
    facets = conditions(sheet.sweep.matrix.cells)
    several = len(facets) > FACETS_ON_A_FIGURE
    for start in range(0, len(facets), FACETS_ON_A_FIGURE):
        some = facets[start : start + FACETS_ON_A_FIGURE]
        span = f"Conditions {start + 1} to {start + len(some)} of {len(facets)}" if several else ""
        yield Picture(
            plot_completion_cdf(some, sheet.footer, title=span),
            f"{span}: {DRAWING.caption}" if span else "",
            name=str(1 + start // FACETS_ON_A_FIGURE) if several else "",
            medians=False,
        )


def says(sweep: Sweep, table: object) -> Iterator[Answer]:
    """Each congestion control's median time, condition by condition, and what never completed."""
    said = []
    for words, runs in conditions(sweep.matrix.cells):
        parts = []
        for cc, (times, asked) in times_by_cc(runs).items():
            taken = summarise(times)
            cut = f", {asked - len(times)} of {asked} cut off" if len(times) < asked else ""
            parts.append(
                f"{cc_name(cc)} {rate(taken.median)}{NBSP}s (n = {taken.n}{cut})"
                if taken
                else f"{cc_name(cc)} none of {asked}"
            )
        said.append(f"{words + ': ' if words else ''}{', '.join(parts)}.")
    if said:
        yield Answer(f"{sweep.title}: time to complete, median", tuple(said))


DRAWING = Drawing(
    "completion-cdf",
    caption=(
        "Time from a flow's start to its last byte, of flows with a size: the share of all that"
        " were asked for that was complete by then, a step and a dot per flow and run."
    ),
    draw=draw,
    rows=lambda table: table[table["n"] > 0].reset_index(drop=True),
    needs="flows with a size (kind: http) and a run that counts",
    says=says,
)
