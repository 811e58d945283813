# SPDX-License-Identifier: MIT
"""Plot retransmissions on the WAN and by iperf3's count, by stream count."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from gostlab.analysis.plotting import facet
from gostlab.analysis.plotting.image_map import shows_row
from gostlab.analysis.plotting.marks import (
    Place,
    draw_spread,
    draw_study,
    number,
    study_handle,
    typical,
)
from gostlab.analysis.plotting.plot import Drawing, Sheet, with_absent
from gostlab.analysis.plotting.style import FAINT, INK, key
from gostlab.analysis.stats.statistics import is_known

if TYPE_CHECKING:
    import numpy as np

# (metric, offset from a cell's position, marker, whether it is filled)
COUNTED = (("wan", -0.26, "o", True), ("retr", 0.0, "s", False))


def counts(place: Place, line: facet.FacetSeries) -> None:
    """Mark a cell's three counts side by side."""
    row, colour = place.row, place.colour
    for name, aside, marker, filled in COUNTED:
        shifted = replace(place, at=place.at + aside * place.width, figure=name)
        if is_known(number(row, name)):
            point = shifted.plot(
                typical(row, name),
                linestyle="none",
                marker=marker,
                color=colour,
                markerfacecolor=colour if filled else "white",
                markeredgewidth=1.5,
                label=f"{name} {row['cc']}",
                clip_on=False,
                zorder=4,
            )
            shows_row(point, row)
            draw_spread(shifted)
    draw_study(replace(place, at=place.at + 0.26 * place.width))
    if row["verdict"] == "degraded":
        top = {"xycoords": ("data", "axes fraction"), "ha": "center", "va": "top"}
        place.ax.annotate("*", (place.at, 1.0), fontsize=11, color=INK, **top)


AXIS = facet.counts("wan", "retr", "retr_study")
RETRANSMITTED = facet.Value(AXIS, "retr", counts, "Retransmitted\n(segments)")


def panels(sheet: Sheet) -> list[facet.FacetPanel]:
    return facet.tunnel_panels(sheet.rows, RETRANSMITTED, " (iperf3's sockets are the WAN's)")


def more_keys(sheet: Sheet, axes: np.ndarray) -> list[Any]:
    look, hollow = {"linestyle": "none", "color": FAINT}, {"markerfacecolor": "white"}
    has_study = sheet.rows["retr_study"].notna().any()
    return [
        key("WAN leg, lab", marker="o", **look),
        key("iperf3's Retr, lab", marker="s", markeredgewidth=1.5, **look, **hollow),
        *([study_handle(f"iperf3's Retr, the {sheet.called}")] if has_study else []),
    ]


DRAWING = Drawing(
    "retransmissions",
    caption=(
        "Segments sent again. In a tunnel iperf3's Retr counts the loopback connection between"
        " iperf3 and the tunnel's near end, not the WAN. Zero has a place on this axis."
    ),
    draw=facet.BY_STREAMS(
        panels=panels,
        more_keys=more_keys,
        published=False,
        spread=False,
        degraded={"hollow": False},
        around_in=1.5,
        panel_in=2.1,
        medians=False,
    ),
    shows=("streams", "tunnel", "cc"),
    rows=with_absent,  # a published Retr is plotted even without a counted run
    borrows=True,
    metrics=("wan", "retr"),
)
