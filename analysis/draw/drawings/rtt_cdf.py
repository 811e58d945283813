"""How the round trips under load are distributed, run by run and flow by flow."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import MaxNLocator

from analysis.draw.marks import FLOW_DASHES, min_max
from analysis.draw.panels import (
    SMALL_PT,
    Condition,
    cc_lines,
    conditions,
    mark_degraded,
    panel_figure,
    pictures,
)
from analysis.draw.registry import Drawing, Picture, Sheet
from analysis.draw.spots import shows
from analysis.draw.style import (
    FAINT,
    INK,
    WIDE,
    cc_colour,
    finish,
    label_edges,
    plain_log,
    styled,
    thousands,
)
from analysis.judge.cells import cell_key
from analysis.read.description import Flow
from analysis.read.folder import Run
from analysis.read.series import srtt_distributions


@styled
def plot_rtt_cdf(groups: Sequence[Condition], footer: str = "", *, title: str = "") -> Figure:
    """A facet per condition with a line per run and flow: the share of the time in which a socket's
    smoothed round trip was no longer than that. Runs are never pooled.
    """
    headings = [words for words, _ in groups]
    figure, axes = panel_figure(headings, 2.3, fontsize=SMALL_PT, sharey=True)
    for ax, (_, runs) in zip(axes.flat, groups, strict=False):
        for run in runs:
            draw_run(ax, run)
        scale_axis(ax, runs)
        shows(ax.patch, map(cell_key, runs))
        ax.set_ylim(0, 1.02)
        mark_degraded(ax, runs)
    label_edges(axes, len(groups), "Smoothed round trip (ms)", "Share of the time")
    finish(figure, legend([run for _, runs in groups for run in runs]), footer, title)
    return figure


def draw_run(ax: Axes, run: Run) -> None:
    """One run's lines and idle round trips."""
    for name, curve in srtt_distributions(run).items():
        flow = run.flow(name)
        if flow is None:
            continue
        ax.plot(
            *min_max(curve.value, curve.share),
            color=cc_colour(flow.cc or ""),
            linestyle=dashes_of(run, flow),
            linewidth=1.5,
            drawstyle="steps-post",
            label=f"lab {flow.cc}",
            zorder=3,
        )
        ax.axvline(flow.rtt_ms, color=FAINT, linestyle="--", linewidth=1.0, label="idle", zorder=1)


def dashes_of(run: Run, flow: Flow) -> object:
    """The line of a flow, by its place among those with a congestion control."""
    competing = [each.name for each in run.flows if each.competes]
    return FLOW_DASHES[competing.index(flow.name) % len(FLOW_DASHES)]


def scale_axis(ax: Axes, runs: Sequence[Run]) -> None:
    """An x axis around what a facet shows: logarithmic where the values lie far apart."""
    seen = [float(each) for line in ax.lines for each in line.get_xdata()]
    low, high = min(value for value in seen if value > 0), max(seen)
    if high / low > WIDE:
        ax.set_xscale("log")
        ax.set_xlim(low / 1.3, high * 1.3)
        plain_log(ax.xaxis, low / 1.3, high * 1.3, most=4)
        return
    room = 0.06 * (high - low) or 0.06 * high
    ax.set_xlim(max(0.0, low - room), high + room)
    ax.xaxis.set_major_locator(MaxNLocator(4))
    thousands(ax.xaxis)


def legend(runs: Sequence[Run]) -> list[Line2D]:
    """A colour per congestion control, a kind of line per flow where there are several."""
    ccs = {flow.cc for run in runs for flow in run.flows if flow.cc}
    names = list(dict.fromkeys(flow.name for run in runs for flow in run.flows if flow.competes))
    handles = cc_lines(ccs, linewidth=1.6)
    if len(names) > 1:
        handles += [
            Line2D([], [], color=INK, linestyle=dashes, linewidth=1.4, label=name)
            for name, dashes in zip(names, FLOW_DASHES, strict=False)
        ]
    idle = Line2D([], [], color=FAINT, linestyle="--", linewidth=1.0, label="idle round trip")
    return [*handles, idle]


def draw(sheet: Sheet) -> Iterator[Picture]:
    """As many figures as its facets need."""
    yield from pictures(
        conditions(sheet.sweep.matrix.cells, lambda run: bool(srtt_distributions(run))),
        lambda some, span: plot_rtt_cdf(some, sheet.footer, title=span),
        DRAWING.caption,
    )


DRAWING = Drawing(
    "rtt-cdf",
    caption=(
        "Distribution of the smoothed round trip while the load ran, a line per run and flow: the"
        " share of the time, over the sockets that send across the WAN, in which it was no longer"
        " than that. Dashed: the idle round trip. Each facet has a scale of its own."
    ),
    draw=draw,
    rows=lambda table: table[table["srtt_median_ms"].notna()].reset_index(drop=True),
    needs="a run that counts and sampled its sockets",
)
