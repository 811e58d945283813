# SPDX-License-Identifier: MIT
"""Plot goodput by stream count: a panel per tunnel, a bar per congestion control."""

from functools import partial

from gostlab.analysis.plotting import facet
from gostlab.analysis.plotting.plot_registry import Drawing, rows_including_absent

GOODPUT = facet.MetricAxis(facet.from_zero(1.2), mark=facet.mark_bar)


DRAWING = Drawing(
    "goodput",
    caption="Goodput (what iperf3's receiver got) by the number of parallel streams.",
    draw=facet.BY_STREAMS(
        panels=lambda sheet: facet.tunnel_panels(sheet.rows, GOODPUT),
        keys=partial(facet.cc_patches, words="{}, lab: median"),
        degraded={"bar": True},
        ends=(0.55, 0.55),
        around_in=1.1,
        panel_in=2.35,
    ),
    shows=("streams", "tunnel", "cc"),
    rows=rows_including_absent,
    borrows=True,
)
