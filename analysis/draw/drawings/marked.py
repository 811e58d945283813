"""What a queue marks and which host hears of it (ECN), by tunnel: the bottleneck's queue, the
sender across the path, and the sender inside the tunnel.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from statistics import median
from typing import Any, Literal

import pandas as pd
from matplotlib.axes import Axes

from analysis.draw import facet
from analysis.draw.levels import tunnels_of
from analysis.draw.registry import Drawing, Picture, Sheet, Sweep, told
from analysis.draw.style import cc_colour, thousands
from analysis.judge.statistics import is_known
from analysis.judge.table import Column, Table, cc_name, count, texts
from analysis.read.folder import Run
from analysis.read.series import bottleneck_marks

ACROSS, INSIDE = ("wan",), ("app", "inner")
HEADINGS = {
    "marked": "Marked by the queue",
    "across": "Told to the sender across the path",
    "inside": "Told to the sender inside the tunnel",
}


def told_of(run: Run, legs: tuple[str, ...]) -> int | None:
    """The packets of some legs that were marked, as their senders are told; None without a leg."""
    its = [leg.marked_pkts for leg in run.legs if leg.name in legs]
    return sum(its) if its else None


def numbers(sweep: Sweep) -> list[dict[str, Any]]:
    """The medians of each cell; a tunnel over UDP has nobody across the path to be told."""
    found = []
    for cell in sweep.matrix.cells:
        of_runs = {
            "marked": [bottleneck_marks(run) for run in cell.counted],
            "across": [told_of(run, ACROSS) for run in cell.counted],
            "inside": [told_of(run, INSIDE) for run in cell.counted],
        }
        known = {
            name: [each for each in all_ if each is not None] for name, all_ in of_runs.items()
        }
        medians = {name: median(all_) if all_ else None for name, all_ in known.items()}
        run = cell.example
        found.append({"tunnel": run.tunnel, "cc": run.cc, "runs": len(cell.counted), **medians})
    return found


def counted(
    name: str, ax: Axes, slot: facet.Slot, row: pd.Series, figure: str, line: facet.Series
) -> None:
    """How many there were, as a point; nothing where there is nobody to be told."""
    if is_known(row[name]):
        ax.plot(row[name], slot.at, "o", color=cc_colour(row["cc"]), markersize=5.5, clip_on=False)


def scale(ax: Axes, way: Literal["x", "y"], table: pd.DataFrame) -> None:
    facet.set_limits(ax, way, 0, 1.1 * max([1.0, *facet.known_values(table, *HEADINGS)]))
    thousands(ax.xaxis if way == "x" else ax.yaxis)


def panels(sheet: Sheet) -> list[facet.Panel]:
    """One of each who marks or is told, a line for each tunnel."""
    found, tunnels = pd.DataFrame(numbers(sheet.sweep)), tunnels_of(sheet.rows)
    lines = [(tunnel, found[found["tunnel"] == tunnel]) for tunnel in tunnels]
    return [
        facet.in_groups(
            heading,
            lines,
            facet.Value(scale, name, partial(counted, name), "Packets (number)", own=True),
        )
        for name, heading in HEADINGS.items()
    ]


def each_tunnel(sweep: Sweep, table: pd.DataFrame) -> Iterator[str]:
    """Of each tunnel and congestion control: what was marked, and who heard of it."""
    for row in numbers(sweep):
        heard = [
            f"the sender {where} is told of {count(row[key])}"
            for key, where in (("across", "across the path"), ("inside", "inside"))
            if row[key] is not None
        ]
        if row["marked"] is not None:
            marked = f"{count(row['marked'])} packets are marked"
            yield f"{row['tunnel']}, {cc_name(row['cc'])}: {', '.join([marked, *heard])}."


def tables(sweep: Sweep, table: Any, name: str) -> Iterator[Table]:
    """The same, row by row."""
    columns = (
        *texts(tunnel="Tunnel", cc="cc"),
        *(Column(key, words, count) for key, words in HEADINGS.items()),
        Column("runs", "n", str),
    )
    note = "Medians of packets. A TCP tunnel's sender inside is on loopback, a VPN's in the VPN."
    yield Table(f"{name}-marked", f"{sweep.title}: marks", note, columns, tuple(numbers(sweep)))


FACET = facet.Facet(
    panels=panels,
    series=facet.alike,
    keys=facet.patches,
    published=False,
    spread=False,
    degraded=None,
    flat=True,
    ruled=True,
    panel_in=0.9,
    place_in=0.27,
    least_places=1,
    shape=facet.side_by_side,
    shared={"sharey": True},
)


def draw(sheet: Sheet) -> Iterator[Picture]:
    """One figure, if the queue can mark."""
    if any(row["marked"] is not None for row in numbers(sheet.sweep)):
        yield from FACET(sheet)


DRAWING = Drawing(
    "marked",
    caption="Packets that the bottleneck's queue marked (ECN), and which host heard, by tunnel.",
    draw=draw,
    needs="a bottleneck's queue that marks",
    shows=("tunnel", "cc"),
    says=told("{title}: marks, and which host hears of them", each_tunnel),
    tables=tables,
)
