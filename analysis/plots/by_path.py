"""Plot each tunnel on each path as a map: large flow and short downloads."""

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
SHARED = "tunnel_options.shared"  # options common to all tunnels with one connection
MAX_PATHS = 6  # maximum columns of a readable map


def goodput_of(rows: pd.DataFrame) -> str:
    """Return the column to compare: the large flow's if there are several flows."""
    goodput_columns = (f"goodput:{name[3:]}" for name in rows if name.startswith("cc:"))
    totals = {name: float(rows[name].sum()) for name in goodput_columns if name in rows}
    return max(totals, key=totals.__getitem__, default=OF_ALL)


def with_tunnels(table: pd.DataFrame) -> pd.DataFrame:
    """Return the counted cells if they have a tunnel each."""
    return valid_rows(table) if TUNNEL in table else table.head(0)


def with_paths(table: pd.DataFrame) -> pd.DataFrame:
    """Return cells with path labels, sorted by tunnel and path."""
    rows = table.copy()
    rest = [name for name in factor_columns(rows) if name not in (TUNNEL, "factor:cc")]
    varied = [name for name in rest if rows[name].nunique() > 1]
    # sort by RTT first: it distinguishes more paths than loss
    varied.sort(key=lambda name: (name != "factor:rtt", name))
    keys = [tuple(rows.loc[at, varied]) for at in rows.index]
    names = [name.removeprefix("factor:") for name in varied]
    text = {key: ", ".join(map(level_words, names, key)) or "all" for key in keys}
    order = sorted(text, key=lambda key: [natural(str(item)) for item in key])
    rows[PATH] = pd.Categorical([text[key] for key in keys], [text[key] for key in order])
    rows[TUNNEL] = pd.Categorical(rows["tunnel"], tunnels_of(rows))
    return rows


def rtts_of(rows: pd.DataFrame) -> list[float]:
    """Return the RTTs, the middle one of those with enough cells first."""
    cells = rows.groupby("rtt_ms", sort=True).size()
    fullest = list(cells[cells >= cells.max() / 2].index)
    first = fullest[(len(fullest) - 1) // 2]
    return [first, *(item for item in cells.index if item != first)]


def draw(sheet: Sheet) -> Iterator[ReportFigure]:
    """Plot goodput and short downloads, one map per congestion control.

    Many paths are split by RTT.
    """
    rows = with_paths(sheet.rows)
    if rows[PATH].nunique() <= MAX_PATHS:
        yield from maps(sheet, rows)
        return
    for rtt_ms in rtts_of(rows):
        of_rtt = sheet.rows[sheet.rows["rtt_ms"] == rtt_ms]
        yield from maps(sheet, with_paths(of_rtt), rtt_ms)


def maps(sheet: Sheet, rows: pd.DataFrame, rtt_ms: float | None = None) -> Iterator[ReportFigure]:
    """Plot goodput and short downloads of some paths."""
    of = "" if rtt_ms is None else f", {rtt_ms:g} ms RTT"
    by_cc = [(cc_name(cc), some) for cc, some in rows.groupby("cc", sort=False)]
    facets = [(f"{name}{of}", some) for name, some in sorted(by_cc, key=facet_order)]
    for figure in (goodput_of(rows), FETCH):
        if figure not in rows or not rows[figure].notna().any():
            continue
        merit = merit_of(figure)
        map_args: dict[str, Any] = {
            "x": PATH,
            "y": TUNNEL,
            "figure": figure,
            "footer": sheet.footer,
        }
        plot = partial(plot_heatmap, scale=norm_of(rows, figure), columns=2, **map_args)
        name = merit.name if rtt_ms is None else f"{merit.name}-{rtt_ms:g}ms"
        yield from pictures(
            facets, plot, f"{merit.axis} by tunnel and path{of}", name=name, medians=True
        )


def ends(sweep: Sweep, table: pd.DataFrame) -> Iterator[str]:
    """Describe fastest and slowest tunnels at the lowest and the highest loss."""
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
    """Describe the tunnels on one path with one congestion control.

    The limit of the slowest is stated if it has its program's defaults.
    """
    known = rows[rows[goodput].notna()]
    tunnelled = known[known["tunnel"] != DIRECT]
    if tunnelled.empty:
        return
    first = tunnelled.iloc[0]
    index = f"{cc_name(first['cc'])}, {first['rtt_ms']:g} ms, {100 * first['loss_p']:g} % loss"
    ranked = tunnelled.sort_values(goodput, ascending=False, kind="stable")
    most, least = ranked.iloc[0], ranked.iloc[-1]
    level = ranked[[reach(row, most, goodput) for _, row in ranked.iterrows()]]
    names = [str(name) for name in level["tunnel"]]
    others = count_of(len(names) - 1, "other")
    which = listed(names) if len(names) < 4 else f"{names[0]} and {others}"
    rates = " to ".join(dict.fromkeys(rate(level.iloc[at][goodput]) for at in (0, -1)))
    if len(names) == 1:
        text = f"{index}: {which} carries most, {rates} Mbit/s"
    else:
        text = f"{index}: {which} carry most, {rates} Mbit/s (their runs overlap)"
    if len(level) < len(ranked):
        text += f", {least['tunnel']} least, {rate(least[goodput])}"
        held_by = tunnel_kind(str(least["tunnel"])).held_by
        text += f" ({held_by})" if held_by and least["tunnel"] in untuned else ""
    for alone in known.loc[known["tunnel"] == DIRECT, goodput]:
        text += f"; without a tunnel {rate(alone)}"
    yield f"{text}."


def reach(row: pd.Series, other: pd.Series, figure: str) -> bool:
    """Return whether the best run of a cell reaches the worst of another's."""
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
