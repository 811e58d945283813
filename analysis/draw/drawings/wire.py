"""Bytes on the wire per byte carried, by tunnel: as the formats say, and as it was measured."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cache
from statistics import median
from typing import Any

from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from analysis.draw.levels import tunnels_of
from analysis.draw.panels import abreast, label_lowest, panel_figure
from analysis.draw.registry import Answer, Drawing, Picture, Sheet, Sweep
from analysis.draw.style import FAINT, INK, finish, styled
from analysis.judge.table import Column, Table
from analysis.read.folder import Run
from analysis.read.series import wire_ratio
from gostlab.declared.tunnels import tunnel_kinds
from gostlab.declared.wire import wire_of

# Okabe and Ito's; the points are of no congestion control.
MEASURED = "#0072B2"
measured_of = cache(wire_ratio)


def bytes_by_tunnel(sweep: Sweep) -> list[dict[str, Any]]:
    """Of each tunnel and MTU: what the formats say, and the median of what runs measured."""
    found: dict[tuple[str, int], list[float]] = {}
    for cell in sweep.matrix.cells:
        run: Run = cell.example
        values = [value for each in cell.counted if (value := measured_of(each)) is not None]
        found.setdefault((run.tunnel, run.mtu_bytes), []).extend(values)
    kinds = tunnel_kinds()
    return [
        {
            "tunnel": tunnel,
            "mtu_bytes": mtu,
            "computed": wire_of(kinds[tunnel], mtu).ratio if tunnel in kinds else None,
            "measured": median(values) if values else None,
            "runs": len(values),
        }
        for (tunnel, mtu), values in found.items()
    ]


@styled
def plot_wire(
    rows: Sequence[dict[str, Any]], tunnels: Sequence[str], footer: str = "", *, title: str = ""
) -> Figure:
    """A panel per MTU, a line per tunnel: a tick where the formats say, a point where it was."""
    mtus = sorted({row["mtu_bytes"] for row in rows})
    columns = min(2, len(mtus))
    drawn, axes = panel_figure(
        [f"MTU {mtu} bytes" for mtu in mtus],
        0.9 + 0.27 * len(tunnels),
        shape=abreast(len(mtus), columns),
        sharey=True,
        sharex=True,
    )
    for ax, mtu in zip(axes.flat, mtus, strict=False):
        for row in rows:
            if row["mtu_bytes"] != mtu:
                continue
            at = tunnels.index(row["tunnel"])
            if row["computed"] is not None:
                ax.plot([row["computed"]] * 2, [at - 0.36, at + 0.36], color=INK, linewidth=1.6)
            if row["measured"] is not None:
                ax.plot(row["measured"], at, "o", color=MEASURED, markersize=5.5)
        ax.set_yticks(range(len(tunnels)), tunnels)
        ax.set_ylim(len(tunnels) - 0.5, -0.5)
        ax.grid(True, axis="y", color=FAINT, linewidth=0.4)
    label_lowest(axes, len(mtus), "Bytes on the wire per byte carried")
    handles = [
        Line2D([], [], color=INK, linewidth=1.6, label="by the formats"),
        Line2D([], [], color=MEASURED, marker="o", linestyle="none", label="measured"),
    ]
    finish(drawn, handles, footer, title)
    return drawn


def draw(sheet: Sheet) -> Iterator[Picture]:
    """One figure."""
    rows = bytes_by_tunnel(sheet.sweep)
    if any(row["measured"] is not None for row in rows):
        tunnels = tunnels_of(sheet.rows)
        shown = [row for row in rows if row["tunnel"] in tunnels]
        yield Picture(plot_wire(shown, tunnels, sheet.footer, title=sheet.title))


def says(sweep: Sweep, table: Any) -> Iterator[Answer]:
    """How far the measured is from the computed, and who takes most."""
    rows = [row for row in bytes_by_tunnel(sweep) if row["measured"] and row["computed"]]
    if not rows:
        return
    worst = max(rows, key=lambda row: abs(row["measured"] / row["computed"] - 1))
    most = max(rows, key=lambda row: row["measured"])
    off = worst["measured"] / worst["computed"] - 1
    yield Answer(
        f"{sweep.title}: bytes on the wire",
        (
            f"Most goes over the wire with {most['tunnel']} at an MTU of {most['mtu_bytes']}:"
            f" {most['measured']:.3f} bytes per byte carried.",
            f"Measured and computed differ by at most {100 * abs(off):.1f} %"
            f" ({worst['tunnel']}, MTU {worst['mtu_bytes']}).",
        ),
    )


def tables(sweep: Sweep, table: Any, name: str) -> Iterator[Table]:
    """Computed and measured, row by row."""
    rows = bytes_by_tunnel(sweep)
    if rows:
        yield Table(
            f"{name}-wire",
            f"{sweep.title}: bytes on the wire per byte carried",
            "computed: from the formats, full packets, the way of the data, Ethernet's header of 14"
            " bytes included; measured: what left the bottleneck over what the sink acknowledged",
            (
                Column("tunnel", "tunnel", str, numeric=False),
                Column("mtu_bytes", "MTU (bytes)", str),
                Column("computed", "computed", "{:.4f}".format),
                Column("measured", "measured", "{:.4f}".format),
                Column("runs", "n", str),
            ),
            tuple(rows),
        )


DRAWING = Drawing(
    "wire",
    caption="Bytes on the wire per byte carried: ticks as the formats say, points as measured.",
    draw=draw,
    says=says,
    tables=tables,
    leads=True,
)
