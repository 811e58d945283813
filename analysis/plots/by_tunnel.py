"""Plot goodput by tunnel."""

from collections.abc import Iterator
from functools import partial

import pandas as pd

from gostlab.analysis.plotting import facet
from gostlab.analysis.plotting.factors import ccs_of, facets_of, tunnels_of
from gostlab.analysis.plotting.marks import Place, cc_handles
from gostlab.analysis.plotting.plot import Drawing, Sheet, Sweep, told, valid_rows
from gostlab.analysis.plotting.sentences import span
from gostlab.analysis.stats.statistics import is_known
from gostlab.analysis.stats.text_table import cc_name, rate, ratio

KNOWN = ("tunnel", "cc")


def beside_direct(place: Place, line: facet.FacetSeries) -> None:
    """Mark a cell as a point; direct is also a dashed line through all tunnels."""
    facet.point(place, line)
    value, look = place.row[place.figure], {"linestyle": "--", "linewidth": 1.0, "zorder": 1}
    if place.row["tunnel"] == "direct" and is_known(value):
        place.ax.axvline(value, color=place.colour, **look)


GOODPUT = facet.Value(facet.from_zero(1.08, least=0.1), mark=beside_direct, own=True)


def panels(sheet: Sheet) -> list[facet.FacetPanel]:
    """Return a panel per condition, with a line for each tunnel."""
    tunnels = tunnels_of(sheet.rows)
    return [
        facet.in_groups(text, [(name, rows[rows["tunnel"] == name]) for name in tunnels], GOODPUT)
        for text, rows in facets_of(sheet.rows, known=KNOWN)
    ]


def slowest_and_fastest(sweep: Sweep, table: pd.DataFrame) -> Iterator[str]:
    """Compare the slowest and the fastest tunnel with direct, per condition."""
    for heading, rows in facets_of(valid_rows(table), known=KNOWN):
        for cc in ccs_of(rows):
            mine = rows[(rows["cc"] == cc) & rows["goodput"].notna()]
            tunnelled = mine[mine["tunnel"] != "direct"]
            direct = next(iter(mine.loc[mine["tunnel"] == "direct", "goodput"]), None)
            if len(tunnelled) > 1:
                what = f"{heading + ', ' if heading else ''}{cc_name(cc)}: goodput"
                where = partial(tunnel_words, direct=direct)
                without = f" Without a tunnel it is {rate(direct)}." if direct else ""
                yield span(tunnelled, "goodput", what, unit=" Mbit/s", where=where) + without


def tunnel_words(row: pd.Series, direct: float | None) -> str:
    """Format a tunnel and its share of direct goodput."""
    share = f", {ratio(row['goodput'] / direct)} of direct" if direct else ""
    return f"{row['tunnel']}{share}"


DRAWING = Drawing(
    "by-tunnel",
    caption="Goodput by tunnel; a dashed line is the goodput without one.",
    draw=facet.BY_TUNNEL(
        panels=panels, series=facet.by_cc_look, keys=partial(cc_handles, looks=True), step=0.24
    ),
    says=told("{title}: which tunnel", slowest_and_fastest),
)
