"""Every tunnel on every path as a map: what the large flow carries, and how long a short download
beside it takes.
"""

from collections.abc import Collection, Iterator
from functools import partial
from typing import Any

import pandas as pd

from gostlab.analysis.plots.heatmap import facet_order, norm_of, plot_heatmap
from gostlab.analysis.plotting.factors import cc_rank, factor_columns, tunnels_of
from gostlab.analysis.plotting.panels import pictures
from gostlab.analysis.plotting.plot import Drawing, ReportFigure, Sheet, Sweep, told, valid_rows
from gostlab.analysis.plotting.sentences import DIRECT, listed, span
from gostlab.analysis.stats.cells import Cell, natural
from gostlab.analysis.stats.metrics import merit_of
from gostlab.analysis.stats.text_table import cc_name, count_of, rate
from gostlab.registry.tunnels import tunnel_kind
from gostlab.spec.labels import level_words

PATH, TUNNEL, FETCH = "factor:path", "factor:tunnel", "fetch_median_s"
OF_ALL = "goodput"
SHARED = "tunnel_options.shared"  # among tunnels that have one connection no option of one alone
MAX_PATHS = 6  # of a map's columns, whose numbers can be read


def goodput_of(rows: pd.DataFrame) -> str:
    """The column of what is compared: the large flow's where another flow is beside it."""
    own = (f"goodput:{name[3:]}" for name in rows if name.startswith("cc:"))
    totals = {name: float(rows[name].sum()) for name in own if name in rows}
    return max(totals, key=totals.__getitem__, default=OF_ALL)


def with_tunnels(table: pd.DataFrame) -> pd.DataFrame:
    """The cells that count, if they have a tunnel each."""
    return valid_rows(table) if TUNNEL in table else table.head(0)


def with_paths(table: pd.DataFrame) -> pd.DataFrame:
    """Cells with their paths in words, the congestion control apart; tunnels and paths sorted."""
    rows = table.copy()
    rest = [name for name in factor_columns(rows) if name not in (TUNNEL, "factor:cc")]
    varied = [name for name in rest if rows[name].nunique() > 1]
    # a round trip tells more paths apart than a loss does: it stands first
    varied.sort(key=lambda name: (name != "factor:rtt", name))
    keys = [tuple(rows.loc[at, varied]) for at in rows.index]
    names = [name.removeprefix("factor:") for name in varied]
    words = {key: ", ".join(map(level_words, names, key)) or "all" for key in keys}
    order = sorted(words, key=lambda key: [natural(str(each)) for each in key])
    rows[PATH] = pd.Categorical([words[key] for key in keys], [words[key] for key in order])
    rows[TUNNEL] = pd.Categorical(rows["tunnel"], tunnels_of(rows))
    return rows


def rtts_of(rows: pd.DataFrame) -> list[float]:
    """The round trips, the middle one of those with cells enough first: a part may have run."""
    cells = rows.groupby("rtt_ms", sort=True).size()
    fullest = list(cells[cells >= cells.max() / 2].index)
    first = fullest[(len(fullest) - 1) // 2]
    return [first, *(each for each in cells.index if each != first)]


def draw(sheet: Sheet) -> Iterator[ReportFigure]:
    """Figures of the goodput, and of the short downloads; a map of each congestion control. Many
    paths have a figure for each round trip.
    """
    rows = with_paths(sheet.rows)
    if rows[PATH].nunique() <= MAX_PATHS:
        yield from maps(sheet, rows)
        return
    for rtt_ms in rtts_of(rows):
        of_rtt = sheet.rows[sheet.rows["rtt_ms"] == rtt_ms]
        yield from maps(sheet, with_paths(of_rtt), rtt_ms)


def maps(sheet: Sheet, rows: pd.DataFrame, rtt_ms: float | None = None) -> Iterator[ReportFigure]:
    """A figure of the goodput, and one of the short downloads, of some paths."""
    of = "" if rtt_ms is None else f", {rtt_ms:g} ms RTT"
    by_cc = [(cc_name(cc), some) for cc, some in rows.groupby("cc", sort=False)]
    facets = [(f"{name}{of}", some) for name, some in sorted(by_cc, key=facet_order)]
    for figure in (goodput_of(rows), FETCH):
        if figure not in rows or not rows[figure].notna().any():
            continue
        merit = merit_of(figure)
        told: dict[str, Any] = {"x": PATH, "y": TUNNEL, "figure": figure, "footer": sheet.footer}
        plot = partial(plot_heatmap, scale=norm_of(rows, figure), columns=2, **told)
        name = merit.name if rtt_ms is None else f"{merit.name}-{rtt_ms:g}ms"
        yield from pictures(
            facets, plot, f"{merit.axis} by tunnel and path{of}", name=name, medians=True
        )


def ends(sweep: Sweep, table: pd.DataFrame) -> Iterator[str]:
    """By congestion control, where least and where most is lost: which tunnels carry most and
    least, and what goes without one; then the short downloads.
    """
    rows = with_paths(with_tunnels(table))
    if rows.empty:
        return
    goodput = goodput_of(rows)
    untuned = {cell.example.tunnel for cell in sweep.matrix.cells if not is_tuned(cell)}
    for cc in sorted(rows["cc"].unique(), key=cc_rank):
        of_cc = rows[rows["cc"] == cc]
        here = of_cc[of_cc["rtt_ms"] == rtts_of(of_cc)[0]]
        for loss in dict.fromkeys((here["loss_p"].min(), here["loss_p"].max())):
            yield from of_a_path(here[here["loss_p"] == loss], goodput, untuned)
    if FETCH in rows and rows[FETCH].notna().any():
        what = "The short download beside it (median)"
        yield span(rows[rows["tunnel"] != DIRECT], FETCH, what, show=rate, unit=" s")


def is_tuned(cell: Cell) -> bool:
    """Return whether a cell's tunnel has options other than its program's defaults."""
    names = (name for name, _ in cell.example.settings)
    return any(name.startswith("tunnel_options.") and name != SHARED for name in names)


def of_a_path(rows: pd.DataFrame, goodput: str, untuned: Collection[str] = ()) -> Iterator[str]:
    """What tunnels carry on one path with one congestion control; of the slowest what holds it, if
    it is one of those with its program's defaults.
    """
    known = rows[rows[goodput].notna()]
    tunnelled = known[known["tunnel"] != DIRECT]
    if tunnelled.empty:
        return
    first = tunnelled.iloc[0]
    place = f"{cc_name(first['cc'])}, {first['rtt_ms']:g} ms, {100 * first['loss_p']:g} % loss"
    ranked = tunnelled.sort_values(goodput, ascending=False, kind="stable")
    most, least = ranked.iloc[0], ranked.iloc[-1]
    level = ranked[[reach(row, most, goodput) for _, row in ranked.iterrows()]]
    names = [str(name) for name in level["tunnel"]]
    others = count_of(len(names) - 1, "other")
    which = listed(names) if len(names) < 4 else f"{names[0]} and {others}"
    rates = " to ".join(dict.fromkeys(rate(level.iloc[at][goodput]) for at in (0, -1)))
    if len(names) == 1:
        said = f"{place}: {which} carries most, {rates} Mbit/s"
    else:
        said = f"{place}: {which} carry most, {rates} Mbit/s (their runs overlap)"
    if len(level) < len(ranked):
        said += f", {least['tunnel']} least, {rate(least[goodput])}"
        held_by = tunnel_kind(str(least["tunnel"])).held_by
        said += f" ({held_by})" if held_by and least["tunnel"] in untuned else ""
    for alone in known.loc[known["tunnel"] == DIRECT, goodput]:
        said += f"; without a tunnel {rate(alone)}"
    yield f"{said}."


def reach(row: pd.Series, other: pd.Series, figure: str) -> bool:
    """Whether the best of a cell's runs reaches the worst of another's."""
    return max(row[f"{figure}_values"]) >= min(other[f"{figure}_values"])


DRAWING = Drawing(
    "by-path",
    caption="Each field has its number; an empty one was not run.",
    draw=draw,
    shows=("tunnel", "cc", "rtt_ms", "loss_p"),
    rows=with_tunnels,
    needs="the factor tunnel and a run that counts",
    says=told("{title}: which tunnel, on which path", ends),
    leads=True,
)
