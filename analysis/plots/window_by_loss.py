# SPDX-License-Identifier: MIT
"""Plot mean congestion windows by loss."""

from __future__ import annotations

from gostlab.analysis.plots import by_loss
from gostlab.analysis.plotting.plot_registry import Drawing, rows_with_metric

DRAWING = Drawing(
    "window-by-loss",
    caption="Mean window by packet loss, after the start-up. Broken lines are models.",
    draw=by_loss.build_facet("window_pkts"),
    rows=rows_with_metric("window_pkts"),
    needs="a run that counts and sampled its sockets",
    metrics=("window_pkts",),
)
