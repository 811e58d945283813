"""How long short downloads take, by their size."""

from collections.abc import Iterator, Sequence
from statistics import median
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from analysis.draw.levels import cc_rank
from analysis.draw.panels import SMALL_PT, Condition, cc_lines, conditions, panel_figure, pictures
from analysis.draw.registry import Drawing, Picture, Sheet, Sweep, told
from analysis.draw.style import cc_colour, finish, label_edges, plain_log, styled
from analysis.judge.table import NBSP, cc_name
from analysis.read.folder import Run

POINT: dict[str, Any] = {"marker": "o", "markersize": 4}


def size_words(size_bytes: float) -> str:
    """A download's size as people write it: 10 kB, 1 MB."""
    if size_bytes >= 1e6:
        return f"{size_bytes / 1e6:g}{NBSP}MB"
    return f"{size_bytes / 1e3:g}{NBSP}kB"


def fetched(run: Run) -> bool:
    """Whether a run had short downloads."""
    return any(flow.fetches for flow in run.flows)


def times_s(runs: Sequence[Run], what: str) -> dict[float, float]:
    """Size in bytes -> the median over runs of what their downloads of that size took
    (`median_s`, `p95_s`).
    """
    found: dict[float, list[float]] = {}
    for each in (each for run in runs for flow in run.flows for each in flow.fetches):
        found.setdefault(each["size_bytes"], []).append(each[what])
    return {size: median(took_s) for size, took_s in sorted(found.items())}


@styled
def plot_fetches(facets: Sequence[Condition], footer: str = "", *, title: str = "") -> Figure:
    """A facet per condition, a line per congestion control: the median time by size, and a thin
    line up to what 95 % did not exceed.
    """
    headings = [words for words, _ in facets]
    figure, axes = panel_figure(headings, 2.3, fontsize=SMALL_PT, sharex=True, sharey=True)
    seen: list[float] = []
    sizes: set[float] = set()
    for ax, (_, runs) in zip(axes.flat, facets, strict=False):
        for cc in sorted({run.cc for run in runs}, key=cc_rank):
            own = [run for run in runs if run.cc == cc]
            middle, p95 = times_s(own, "median_s"), times_s(own, "p95_s")
            draw_times(ax, cc, middle, p95)
            seen += [*middle.values(), *p95.values()]
            sizes |= middle.keys()
    for ax in axes.flat:
        ax.set_xscale("log")
        ax.set_yscale("log")
        ax.set_xticks(sorted(sizes), [size_words(size) for size in sorted(sizes)])
        ax.minorticks_off()
        ax.set_ylim(min(seen) / 1.4, max(seen) * 1.4)
        plain_log(ax.yaxis, min(seen) / 1.4, max(seen) * 1.4, most=5)
    label_edges(axes, len(facets), "Size of the download", "Time to complete (s)")
    ccs = {run.cc for _, runs in facets for run in runs}
    finish(
        figure,
        cc_lines(ccs, **POINT),
        footer,
        title,
        "Points: the median. Lines upwards: to the 95 %.",
    )
    return figure


def draw_times(ax: Axes, cc: str, middle: dict[float, float], p95: dict[float, float]) -> None:
    """One congestion control's line."""
    colour = cc_colour(cc)
    sizes, medians_s = list(middle), list(middle.values())
    look = {"color": colour, "linewidth": 1.5, "label": f"lab {cc}", "zorder": 3}
    ax.plot(sizes, medians_s, **look, **POINT)
    ax.vlines(sizes, medians_s, list(p95.values()), color=colour, linewidth=1.0)


def draw(sheet: Sheet) -> Iterator[Picture]:
    """As many figures as its facets need."""
    yield from pictures(
        conditions(sheet.sweep.matrix.cells, fetched),
        lambda some, span: plot_fetches(some, sheet.footer, title=span),
        DRAWING.caption,
    )


def ends(sweep: Sweep, table: object) -> Iterator[str]:
    """What the smallest and the largest take, condition by condition."""
    for words, runs in conditions(sweep.matrix.cells, fetched):
        for cc in sorted({run.cc for run in runs}, key=cc_rank):
            took_s = times_s([run for run in runs if run.cc == cc], "median_s")
            parts = [
                f"{size_words(size)} in {took_s[size]:.3g}{NBSP}s"
                for size in dict.fromkeys((min(took_s), max(took_s)))
            ]
            yield f"{words + ', ' if words else ''}{cc_name(cc)}: {', '.join(parts)}."


DRAWING = Drawing(
    "fetches",
    caption=(
        "Time from before the connection to the last byte of short downloads, by size. A point is"
        " the median, its line ends at the 95 % value."
    ),
    draw=draw,
    needs="a short flow and a run that counts",
    says=told("{title}: short downloads, median", ends),
)
