"""How long short downloads take, by their size."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from statistics import median

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from analysis.draw.drawings.rtt_cdf import varying
from analysis.draw.levels import cc_rank, named_level, told_apart
from analysis.draw.registry import Answer, Drawing, Picture, Sheet, Sweep
from analysis.draw.style import (
    blank,
    cc_colour,
    finish,
    grid,
    head_panel,
    label_edges,
    new_figure,
    plain_log,
    styled,
)
from analysis.judge.cells import Cell
from analysis.judge.table import NBSP, cc_name
from analysis.read.folder import Run
from analysis.read.study import level

FACETS_ON_A_FIGURE = 9
Facet = tuple[str, Sequence[Run]]


def size_words(size_bytes: float) -> str:
    """A download's size as people write it: 10 kB, 1 MB."""
    if size_bytes >= 1e6:
        return f"{size_bytes / 1e6:g}{NBSP}MB"
    return f"{size_bytes / 1e3:g}{NBSP}kB"


def times_s(runs: Sequence[Run], what: str) -> dict[float, float]:
    """Size in bytes -> the median over runs of what their downloads of that size took
    (`median_s`, `p95_s`).
    """
    found: dict[float, list[float]] = {}
    for each in (each for run in runs for flow in run.flows for each in flow.fetches):
        found.setdefault(each["size_bytes"], []).append(each[what])
    return {size: median(took_s) for size, took_s in sorted(found.items())}


@styled
def plot_fetches(facets: Sequence[Facet], footer: str = "", *, title: str = "") -> Figure:
    """A facet per condition, a line per congestion control: the median time by size, and a thin
    line up to what 95 % did not exceed.
    """
    rows, columns = grid(len(facets))
    figure, axes = new_figure(1.4 + 2.3 * rows, rows, columns, sharex=True, sharey=True)
    seen: list[float] = []
    sizes: set[float] = set()
    for ax, (words, runs) in zip(axes.flat, facets, strict=False):
        for cc in sorted({run.cc for run in runs}, key=cc_rank):
            own = [run for run in runs if run.cc == cc]
            middle, p95 = times_s(own, "median_s"), times_s(own, "p95_s")
            draw_times(ax, cc, middle, p95)
            seen += [*middle.values(), *p95.values()]
            sizes |= middle.keys()
        head_panel(ax, words, columns, fontsize=9.5)
    for ax in axes.flat:
        ax.set_xscale("log")
        ax.set_yscale("log")
        ax.set_xticks(sorted(sizes), [size_words(size) for size in sorted(sizes)])
        ax.minorticks_off()
        ax.set_ylim(min(seen) / 1.4, max(seen) * 1.4)
        plain_log(ax.yaxis, min(seen) / 1.4, max(seen) * 1.4, most=5)
    blank(axes, len(facets))
    label_edges(axes, len(facets), "Size of the download", "Time to complete (s)")
    ccs = sorted({run.cc for _, runs in facets for run in runs}, key=cc_rank)
    handles = [
        Line2D([], [], color=cc_colour(cc), marker="o", markersize=4, label=cc_name(cc))
        for cc in ccs
    ]
    finish(figure, handles, footer, title, "Points: the median. Lines upwards: to the 95 %.")
    return figure


def draw_times(ax: Axes, cc: str, middle: dict[float, float], p95: dict[float, float]) -> None:
    """One congestion control's line."""
    colour = cc_colour(cc)
    ax.plot(
        list(middle),
        list(middle.values()),
        color=colour,
        marker="o",
        markersize=4,
        linewidth=1.5,
        label=f"lab {cc}",
        zorder=3,
    )
    ax.vlines(list(middle), list(middle.values()), list(p95.values()), color=colour, linewidth=1.0)


def conditions(cells: Sequence[Cell]) -> list[Facet]:
    """(condition, the runs that count and fetched) in the order of the cells."""
    found: dict[str, list[Run]] = {}
    varied = varying(cells)
    for cell in cells:
        words = ", ".join(
            named_level(name, level(value)) for name, value in cell.factors if name in varied
        )
        fetching = (run for run in cell.counted if any(flow.fetches for flow in run.flows))
        found.setdefault(words, []).extend(fetching)
    known = [(words, tuple(runs)) for words, runs in found.items() if runs]
    names = told_apart([words for words, _ in known])
    return [(name, runs) for name, (_, runs) in zip(names, known, strict=True)]


def draw(sheet: Sheet) -> Iterator[Picture]:
    """As many figures as its facets need."""
    facets = conditions(sheet.sweep.matrix.cells)
    for start in range(0, len(facets), FACETS_ON_A_FIGURE):
        some = facets[start : start + FACETS_ON_A_FIGURE]
        several = len(facets) > FACETS_ON_A_FIGURE
        span = f"Conditions {start + 1} to {start + len(some)} of {len(facets)}" if several else ""
        yield Picture(
            plot_fetches(some, sheet.footer, title=span),
            name=str(1 + start // FACETS_ON_A_FIGURE) if several else "",
            medians=False,
        )


def says(sweep: Sweep, table: object) -> Iterator[Answer]:
    """What the smallest and the largest take, condition by condition."""
    said = []
    for words, runs in conditions(sweep.matrix.cells):
        for cc in sorted({run.cc for run in runs}, key=cc_rank):
            took_s = times_s([run for run in runs if run.cc == cc], "median_s")
            parts = [
                f"{size_words(size)} in {took_s[size]:.3g}{NBSP}s"
                for size in dict.fromkeys((min(took_s), max(took_s)))
            ]
            said.append(f"{words + ', ' if words else ''}{cc_name(cc)}: {', '.join(parts)}.")
    if said:
        yield Answer(f"{sweep.title}: short downloads, median", tuple(said))


DRAWING = Drawing(
    "fetches",
    caption=(
        "Time from before the connection to the last byte of short downloads, by size: the median,"
        " and up to what 95 % of them did not exceed."
    ),
    draw=draw,
    rows=lambda table: table[table["n"] > 0].reset_index(drop=True),
    needs="a short flow and a run that counts",
    says=says,
)
