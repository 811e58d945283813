"""How the round trips under load are distributed, run by run and flow by flow."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import MaxNLocator

from analysis.draw.levels import cc_rank, named_level, told_apart
from analysis.draw.marks import FLOW_DASHES, min_max
from analysis.draw.registry import Drawing, Picture, Sheet
from analysis.draw.spots import shows
from analysis.draw.style import (
    FAINT,
    INK,
    WIDE,
    blank,
    cc_colour,
    finish,
    grid,
    head_panel,
    label_edges,
    new_figure,
    plain_log,
    styled,
    thousands,
)
from analysis.judge.cells import Cell, cell_key
from analysis.judge.table import cc_name
from analysis.read.description import Flow
from analysis.read.folder import Run
from analysis.read.series import srtt_distributions
from analysis.read.study import level

FACETS_ON_A_FIGURE = 9


@styled
def plot_rtt_cdf(
    groups: Sequence[tuple[str, Sequence[Run]]], footer: str = "", *, title: str = ""
) -> Figure:
    """A facet per condition with a line per run and flow: the share of the time in which a socket's
    smoothed round trip was no longer than that. Runs are never pooled.
    """
    rows, columns = grid(len(groups))
    figure, axes = new_figure(1.4 + 2.3 * rows, rows, columns, sharey=True)
    for ax, (words, runs) in zip(axes.flat, groups, strict=False):
        for run in runs:
            draw_run(ax, run)
        scale_axis(ax, runs)
        shows(ax.patch, map(cell_key, runs))
        head_panel(ax, words, columns, fontsize=9.5)
        ax.set_ylim(0, 1.02)
        if any(run.verdict == "degraded" for run in runs):
            ax.text(0.97, 0.04, "degraded", ha="right", fontsize=8.5, transform=ax.transAxes)
    blank(axes, len(groups))
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
    handles = [
        Line2D([], [], color=cc_colour(cc), linewidth=1.6, label=cc_name(cc))
        for cc in sorted(ccs, key=cc_rank)
    ]
    if len(names) > 1:
        handles += [
            Line2D([], [], color=INK, linestyle=dashes, linewidth=1.4, label=name)
            for name, dashes in zip(names, FLOW_DASHES, strict=False)
        ]
    idle = Line2D([], [], color=FAINT, linestyle="--", linewidth=1.0, label="idle round trip")
    return [*handles, idle]


def conditions(cells: Sequence[Cell]) -> list[tuple[str, tuple[Run, ...]]]:
    """(condition, the runs that count and sampled a round trip) in the order of the cells."""
    found: dict[str, list[Run]] = {}
    varied = varying(cells)
    for cell in cells:
        words = ", ".join(
            named_level(name, level(value)) for name, value in cell.factors if name in varied
        )
        runs = [run for run in cell.counted if srtt_distributions(run)]
        found.setdefault(words, []).extend(runs)
    known = [(words, tuple(runs)) for words, runs in found.items() if runs]
    names = told_apart([words for words, _ in known])
    return [(name, runs) for name, (_, runs) in zip(names, known, strict=True)]


def varying(cells: Sequence[Cell]) -> set[str]:
    """The factors that make a condition: all but the congestion control that vary."""
    levels: dict[str, set[str]] = {}
    for cell in cells:
        for name, value in cell.factors:
            levels.setdefault(name, set()).add(level(value))
    return {name for name, seen in levels.items() if name != "cc" and len(seen) > 1}


def draw(sheet: Sheet) -> Iterator[Picture]:
    """As many figures as its facets need."""
    groups = conditions(sheet.sweep.matrix.cells)
    several = len(groups) > FACETS_ON_A_FIGURE
    for start in range(0, len(groups), FACETS_ON_A_FIGURE):
        some = groups[start : start + FACETS_ON_A_FIGURE]
        span = f"Conditions {start + 1} to {start + len(some)} of {len(groups)}" if several else ""
        yield Picture(
            plot_rtt_cdf(some, sheet.footer, title=span),
            f"{span}: {DRAWING.caption}" if span else "",
            name=str(1 + start // FACETS_ON_A_FIGURE) if several else "",
            medians=False,
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
