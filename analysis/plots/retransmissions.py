# SPDX-License-Identifier: MIT
"""Plot retransmissions on the WAN and by iperf3's count, by stream count."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from gostlab.analysis.plotting import facet
from gostlab.analysis.plotting.image_map import tag_artist_with_row
from gostlab.analysis.plotting.marks import (
    CellPosition,
    diamond_handle,
    draw_published_value,
    draw_spread,
    row_value,
    typical_values,
)
from gostlab.analysis.plotting.plot_registry import Drawing, FigureInput, rows_including_absent
from gostlab.analysis.plotting.style import FAINT, INK, legend_entry
from gostlab.analysis.stats.statistics import is_known

if TYPE_CHECKING:
    import numpy as np

# (metric, offset from a cell's position, marker, whether it is filled)
COUNTED = (("wan", -0.26, "o", True), ("retr", 0.0, "s", False))


def mark_retransmission_counts(place: CellPosition, line: facet.FacetSeries) -> None:
    """Mark a cell's three counts side by side."""
    row, colour = place.row, place.colour
    for name, aside, marker, filled in COUNTED:
        shifted = replace(place, at=place.at + aside * place.width, figure=name)
        if is_known(row_value(row, name)):
            point = shifted.plot(
                typical_values(row, name),
                linestyle="none",
                marker=marker,
                color=colour,
                markerfacecolor=colour if filled else "white",
                markeredgewidth=1.5,
                label=f"{name} {row['cc']}",
                clip_on=False,
                zorder=4,
            )
            tag_artist_with_row(point, row)
            draw_spread(shifted)
    draw_published_value(replace(place, at=place.at + 0.26 * place.width))
    if row["verdict"] == "degraded":
        top = {"xycoords": ("data", "axes fraction"), "ha": "center", "va": "top"}
        place.ax.annotate("*", (place.at, 1.0), fontsize=11, color=INK, **top)


AXIS = facet.count_scale("wan", "retr", "retr_study")
RETRANSMITTED = facet.MetricAxis(
    AXIS, "retr", mark_retransmission_counts, "Retransmitted\n(segments)"
)


def panels(sheet: FigureInput) -> list[facet.FacetPanel]:
    return facet.tunnel_panels(sheet.rows, RETRANSMITTED, " (iperf3's sockets are the WAN's)")


def extra_legend_handles(sheet: FigureInput, axes: np.ndarray) -> list[Any]:
    look, hollow = {"linestyle": "none", "color": FAINT}, {"markerfacecolor": "white"}
    has_study = sheet.rows["retr_study"].notna().any()
    return [
        legend_entry("WAN leg, lab", marker="o", **look),
        legend_entry("iperf3's Retr, lab", marker="s", markeredgewidth=1.5, **look, **hollow),
        *([diamond_handle(f"iperf3's Retr, the {sheet.study_label}")] if has_study else []),
    ]


DRAWING = Drawing(
    "retransmissions",
    caption=(
        "Segments sent again. In a tunnel iperf3's Retr counts the loopback connection between"
        " iperf3 and the tunnel's near end, not the WAN. Zero has a place on this axis."
    ),
    draw=facet.BY_STREAMS(
        panels=panels,
        more_keys=extra_legend_handles,
        published=False,
        spread=False,
        degraded={"hollow": False},
        around_in=1.5,
        panel_in=2.1,
        medians=False,
    ),
    shows=("streams", "tunnel", "cc"),
    rows=rows_including_absent,  # a published Retr is plotted even without a counted run
    borrows=True,
    metrics=("wan", "retr"),
)
