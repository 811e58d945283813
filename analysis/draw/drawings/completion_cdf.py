"""How long downloads of a given size take: the distribution over runs and flows."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from analysis.draw.drawings.rtt_cdf import scale_axis
from analysis.draw.levels import cc_rank
from analysis.draw.panels import (
    SMALL_PT,
    Condition,
    cc_lines,
    conditions,
    mark_degraded,
    panel_figure,
    pictures,
)
from analysis.draw.registry import Answer, Drawing, Picture, Sheet, Sweep
from analysis.draw.spots import shows
from analysis.draw.style import (
    cc_colour,
    finish,
    label_edges,
    styled,
)
from analysis.judge.cells import cell_key
from analysis.judge.statistics import summarise
from analysis.judge.table import NBSP, cc_name, rate
from analysis.read.description import Flow
from analysis.read.folder import Run


def completion_s(flow: Flow) -> float | None:
    """How long a flow of a given size took from its start to its last byte; None of a flow that
    just lasts, or that was cut off before it had all.
    """
    if flow.size_bytes is None or flow.started_s is None or flow.ended_s is None:
        return None
    if flow.bytes is not None and flow.bytes < flow.size_bytes:
        return None
    return flow.ended_s - flow.started_s


def sized(run: Run) -> bool:
    """Whether a run had something to complete."""
    return any(flow.size_bytes is not None for flow in run.flows)


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
def plot_completion_cdf(
    facets: Sequence[Condition], footer: str = "", *, title: str = ""
) -> Figure:
    """A facet per condition, a line per congestion control: the share of its flows that were
    complete after so many seconds. One that never was keeps its line below 1.
    """
    headings = [words for words, _ in facets]
    figure, axes = panel_figure(headings, 2.3, fontsize=SMALL_PT, sharey=True)
    for ax, (_, runs) in zip(axes.flat, facets, strict=False):
        for cc, (times, asked) in times_by_cc(runs).items():
            draw_steps(ax, cc, times, asked)
        if ax.lines:
            scale_axis(ax, runs)
        shows(ax.patch, map(cell_key, runs))
        ax.set_ylim(0, 1.02)
        mark_degraded(ax, runs)
    label_edges(axes, len(facets), "Time to complete (s)", "Share of the flows")
    ccs = {cc for _, runs in facets for cc in times_by_cc(runs)}
    finish(figure, cc_lines(ccs, linewidth=1.6), footer, title)
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


def draw(sheet: Sheet) -> Iterator[Picture]:
    """As many figures as its facets need."""
    yield from pictures(
        conditions(sheet.sweep.matrix.cells, sized),
        lambda some, span: plot_completion_cdf(some, sheet.footer, title=span),
        DRAWING.caption,
    )


def says(sweep: Sweep, table: object) -> Iterator[Answer]:
    """Each congestion control's median time, condition by condition, and what never completed."""
    said = []
    for words, runs in conditions(sweep.matrix.cells, sized):
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
