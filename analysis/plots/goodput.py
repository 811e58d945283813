"""Plot goodput by stream count: a panel per tunnel, a bar per congestion control."""

from collections.abc import Iterator
from functools import partial

import pandas as pd

from gostlab.analysis.plotting import facet
from gostlab.analysis.plotting.plot import Drawing, PlotFinding, Sweep, valid_rows, with_absent
from gostlab.analysis.plotting.sentences import agreement, comparisons, cpu_decided

GOODPUT = facet.Value(facet.from_zero(1.2), mark=facet.bar)


def says(sweep: Sweep, table: pd.DataFrame) -> Iterator[PlotFinding]:
    """Compare congestion controls, the study, and list CPU-bound cells."""
    valid = valid_rows(table)
    if valid.empty:
        return
    yield from comparisons(sweep, table, by_streams=True)
    if valid["goodput_study"].notna().any():
        heading = f"Lab against {sweep.study.called}"
        yield PlotFinding(heading, agreement(valid, sweep.study.called))
    if text := cpu_decided(valid, sweep.title):
        yield PlotFinding("Where the CPU decided", text)


DRAWING = Drawing(
    "goodput",
    caption="Goodput (what iperf3's receiver got) by the number of parallel streams.",
    draw=facet.BY_STREAMS(
        panels=lambda sheet: facet.tunnel_panels(sheet.rows, GOODPUT),
        keys=partial(facet.patches, words="{}, lab: median"),
        degraded={"bar": True},
        ends=(0.55, 0.55),
        around_in=1.1,
        panel_in=2.35,
    ),
    shows=("streams", "tunnel", "cc"),
    says=says,
    rows=with_absent,
    borrows=True,
)
