# SPDX-License-Identifier: MIT
"""Plot goodput by the socket buffers' window, with the knee where the path is full."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from statistics import median
from typing import TYPE_CHECKING

from gostlab.analysis.plotting.factors import cc_rank
from gostlab.analysis.plotting.panel_layout import cc_legend_lines, condition_figure
from gostlab.analysis.plotting.plot_registry import Drawing, FigureInput, ReportFigure
from gostlab.analysis.plotting.style import (
    FAINT,
    INK,
    ArtistStyle,
    cc_colour,
    finish_figure,
    in_report_style,
    legend_entry,
)
from gostlab.analysis.stats.cells import Cell
from gostlab.registry.kernels import version_of
from gostlab.registry.tunnels import IP_TCP_BYTES
from gostlab.results import read_run
from gostlab.spec.units import show_size
from gostlab.tcpmodel.response_functions import bdp_bytes, window_limit_bps
from gostlab.tcpmodel.socket_buffers import socket_windows

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

# Payload share of a full frame in a path's rate.
PAYLOAD_SHARE = 1448 / 1514
POINT: ArtistStyle = {"marker": "o", "markersize": 5}
Place = tuple[str, float]  # tunnel, RTT in ms


def socket_window_bytes(cell: Cell) -> float | None:
    """Return the window in bytes that a cell's buffers allow, or None if unknown."""
    run = read_run(cell.example.folder)
    if run is None or isinstance(run.buffers, str):
        return None
    mss_bytes, version = run.mtu - IP_TCP_BYTES, version_of(run.kernel)
    streams = cell.example.streams
    return socket_windows(run.buffers, streams, version, mss_bytes, run.offloads).min_bytes


def cells_by_tunnel_and_rtt(cells: Sequence[Cell]) -> dict[Place, list[tuple[float, Cell]]]:
    """Return (window, cell) of counted cells by tunnel and RTT."""
    result: dict[Place, list[tuple[float, Cell]]] = {}
    for cell in cells:
        window, run = socket_window_bytes(cell), cell.example
        if window and run.rtt_ms and run.rate_bps and cell.counted:
            result.setdefault((run.tunnel, run.rtt_ms), []).append((window, cell))
    return {key: sorted(some, key=lambda pair: pair[0]) for key, some in result.items()}


def goodput_of(cell: Cell) -> float:
    return median(run.goodput_mbit or 0.0 for run in cell.counted)


@in_report_style
def plot_knee(found: dict[Place, list[tuple[float, Cell]]], footer: str, title: str) -> Figure:
    """Plot a facet per tunnel and RTT: cells, the limit by window, and the knee."""
    facets = [(f"{tunnel}, RTT {rtt_ms:g} ms", rtt_ms) for tunnel, rtt_ms in found]
    label = "Window that the buffers allow"
    figure, axes = condition_figure(facets, 2.3, label, "Goodput (Mbit/s)")
    windows = [window for some in found.values() for window, _ in some]
    for ax, ((_, rtt_ms), some) in zip(axes.flat, found.items(), strict=False):
        draw_limit(ax, some[0][1], rtt_ms, min(windows), max(windows))
        for cc in sorted({cell.example.cc for _, cell in some}, key=cc_rank):
            cc_cells = [(window, cell) for window, cell in some if cell.example.cc == cc]
            points = [(window, goodput_of(cell)) for window, cell in cc_cells]
            look = {"color": cc_colour(cc), "linewidth": 1.2, "label": f"lab {cc}", "zorder": 3}
            ax.plot(*zip(*points, strict=True), **look, **POINT)
    for ax in axes.flat:
        ax.set_xscale("log")
        ticks = sorted(set(windows))
        ticks = ticks[:: max(1, len(ticks) // 4)]
        ax.set_xticks(ticks, map(show_size, ticks))
        ax.minorticks_off()
        ax.set_ylim(bottom=0)
    ccs = {cell.example.cc for some in found.values() for _, cell in some}
    handles = [
        *cc_legend_lines(ccs, **POINT),
        legend_entry("window / round trip, up to the path's rate", color=INK, linestyle=":"),
        legend_entry("the knee: rate × round trip", color=FAINT, linewidth=1.2),
    ]
    finish_figure(figure, handles, footer, title)
    return figure


def draw_limit(ax: Axes, cell: Cell, rtt_ms: float, low: float, high: float) -> None:
    """Plot the limit by the window and the knee."""
    import numpy as np

    rate_bps = cell.example.rate_bps or 0.0
    knee = bdp_bytes(rate_bps, rtt_ms / 1000)
    windows = np.geomspace(low / 1.5, high * 1.5, 200)
    allowed = [window_limit_bps(float(window), rtt_ms / 1000) for window in windows]
    limit = [min(item, rate_bps * PAYLOAD_SHARE) / 1e6 for item in allowed]
    ax.plot(windows, limit, color=INK, linestyle=":", linewidth=1.2, label="limit", zorder=2)
    if low / 1.5 <= knee <= high * 1.5:
        ax.axvline(knee, color=FAINT, linewidth=1.2, label="knee", zorder=1)


def draw(sheet: FigureInput) -> Iterator[ReportFigure]:
    result = cells_by_tunnel_and_rtt(sheet.sweep.matrix.cells)
    if result:
        yield ReportFigure(partial(plot_knee, result, sheet.footer, sheet.title))


DRAWING = Drawing(
    "knee",
    caption=(
        "Goodput by the window that the socket buffers allow any sender (the kernel's share of"
        " rmem, no more than 0.6 of wmem, of all streams): cells' medians. Dotted is what a window"
        " allows in a round trip, up to the path's rate; upright, that rate times the round trip."
    ),
    draw=draw,
    needs="buffers that were written down, and a run that counts",
)
