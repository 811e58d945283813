"""Plot goodput and WAN retransmissions by bottleneck buffer size."""

import math
from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes

from gostlab.analysis.plotting import facet
from gostlab.analysis.plotting.factors import ccs_of, sweeps_of
from gostlab.analysis.plotting.marks import figure_values
from gostlab.analysis.plotting.plot import Drawing, Joined, PlotFinding, Sheet, Sweep, valid_rows
from gostlab.analysis.plotting.sentences import (
    NEAR,
    listed,
    others_against_base,
    span,
    whole_percent,
)
from gostlab.analysis.plotting.style import FAINT, apart, cc_colour, key, name_ticks
from gostlab.analysis.stats.cells import bdp_words, buffer_cells
from gostlab.analysis.stats.text_table import (
    SWEPT_FIRST,
    SWEPT_GOODPUT,
    SWEPT_LAST,
    VERDICT,
    Column,
    Table,
    cc_name,
    count,
    count_of,
    rate,
    ratio,
    sweep_table,
)

STUDY_LINE = (0, (1, 1.5))


def levels_across(table: pd.DataFrame, called: str = "study") -> list[tuple[float, str, str, dict]]:
    """Return horizontal lines: (Mbit/s, labels, style) of study and bottlenecks."""
    result: list[tuple[float, str, str, dict]] = []
    for cc in ccs_of(table):
        for study in table.loc[table["cc"] == cc, "goodput_study"].dropna().unique():
            look = {"color": cc_colour(cc), "linestyle": STUDY_LINE, "linewidth": 1.6}
            result.append(
                (study, f"study {cc}", f"the {called}, {cc_name(cc)}: {study:,.0f}", look)
            )
    for link in table["rate_mbit"].dropna().unique():
        look = {"color": FAINT, "linewidth": 1.0}
        result.append((link, "bottleneck", f"bottleneck: {link:,.0f}", look))
    return result


def goodputs(table: pd.DataFrame) -> list[float]:
    """Return all plotted rates."""
    rates = facet.known_values(table, "rate_mbit")
    return figure_values(table, "goodput", link=False) + rates


def panels(sheet: Sheet) -> list[facet.FacetPanel]:
    """Return the goodput panel above the retransmissions panel."""

    def behind(ax: Axes) -> None:
        for mbit, name, _, look in levels_across(sheet.rows):
            ax.axhline(mbit, label=name, **look)

    again = facet.Value(
        facet.counts("wan", "wan_high"), "wan", label="Retransmitted on\nthe WAN (segments)"
    )
    places = facet.at_levels(sheet.rows, "buffer_bdp")
    goodput = facet.Value(facet.up_to(goodputs, 1.1))
    return [
        facet.FacetPanel("", places, (), goodput, behind),
        facet.FacetPanel("", places, (), again),
    ]


def buffer_axis(
    ax: Axes, panels: Sequence[facet.FacetPanel], lines: Sequence[facet.FacetSeries]
) -> None:
    """Set a log axis with labels of the levels that fit."""
    ax.set_xscale("log")
    name_ticks(ax.xaxis, apart([at for at, _ in panels[0].places]), bdp_words)


def axis_name(table: pd.DataFrame) -> str:
    """Return the axis label, with the size of one BDP if cells share a path."""
    if table["bdp_pkts"].nunique() != 1:
        return "Bottleneck buffer (BDP of each path)"
    bdp, mtu = float(table["bdp_pkts"].iloc[0]), float(table["mtu_bytes"].iloc[0])
    bytes_words = f"1 BDP = {bdp:,.0f} packets = {bdp * mtu / 1e6:,.1f} MB"
    return f"Bottleneck buffer (BDP; {bytes_words})"


def more_keys(sheet: Sheet, axes: np.ndarray) -> list[Any]:
    """Return the legend entries of study and bottlenecks."""
    result = levels_across(sheet.rows, sheet.called)
    return [key(text, **look) for _, _, text, look in result]


def cells(sweep: Sweep) -> Joined:
    return Joined(buffer_cells(sweep.matrix, sweep.matrices))


def says(sweep: Sweep, table: pd.DataFrame) -> Iterator[PlotFinding]:
    """Find the buffer at which the lab equals the study's goodput."""
    valid = valid_rows(table)
    valid = valid[valid["buffer_bdp"].notna()].sort_values("buffer_bdp")
    asks = f"Which buffer explains the {sweep.study.called}?"
    for tunnel, number, aside, rows in sweeps_of(valid, ("buffer_bdp", "cc")):
        caps = rows["rate_mbit"].dropna().unique()
        cap = f" at {rate(caps[0])} Mbit/s" if len(caps) == 1 else ""
        what = asks if rows["goodput_study"].notna().any() else "By the buffer"
        where = f"{tunnel}, {count_of(number, 'stream')}{cap}{f', {aside}' if aside else ''}"
        yield PlotFinding(f"{what} ({where})", buffer_sentences(rows, sweep.study.called))


def buffer_sentences(rows: pd.DataFrame, called: str) -> tuple[str, ...]:
    """State where each control, and both, reach the published value, and their ratio."""
    text: list[str] = []
    met: dict[str, set[float]] = {}
    for cc in ccs_of(rows):
        mine = rows[rows["cc"] == cc]
        targets = mine["goodput_study"].dropna()
        ends = [mine["buffer_bdp"].iloc[0], mine["buffer_bdp"].iloc[-1]]
        tried = f"{' to '.join(dict.fromkeys(map(bdp_words, ends)))} BDP"
        got = [mine["goodput"].min(), mine["goodput"].max()]
        span_words = " to ".join(dict.fromkeys(map(rate, got)))
        if targets.empty:
            text.append(f"{cc_name(cc)} gets {span_words} Mbit/s over buffers of {tried}.")
            continue
        target = float(targets.iloc[0])
        near = mine[(mine["goodput"] / target - 1).abs() <= NEAR]
        met[cc] = set(near["buffer_bdp"])
        over = f"over {tried} the lab gets {span_words}"
        if len(near):
            pairs = zip(near["buffer_bdp"], near["goodput"], strict=True)
            where = listed([f"{bdp_words(bdp)} BDP ({rate(mbit)})" for bdp, mbit in pairs], 6)
            if len(near) == len(mine) > 1:
                where = f"every buffer tried ({tried})"
            claim = f"is met within {whole_percent(NEAR)} at {where}; {over}."
        elif crossed := crossings(mine, target):
            passed = f"passed between {' and between '.join(crossed)}"
            claim = f"is met at no buffer tried, but {passed}; {over}."
        else:
            side = "above" if mine["goodput"].min() > target else "below"
            claim = f"is met nowhere: {over}, always {side} it."
        text.append(f"{cc_name(cc)}'s {rate(target)} Mbit/s {claim}")
    if len(met) > 1:
        both = set.intersection(*met.values())
        names = " and ".join(cc_name(cc) for cc in met)
        claim = f"No buffer tried gives {names} their values at once."
        if both:
            shared = listed([f"{bdp_words(level)} BDP" for level in sorted(both)], 6)
            claim = f"{names} meet their values at the same buffer of {shared}."
        text.append(claim)
    for base, versus in others_against_base(rows):
        text += gain_sentences(rows, base, versus, called)
    return tuple(text)


def crossings(rows: pd.DataFrame, target: float) -> list[str]:
    """Return neighbouring buffers with the target between their goodputs."""
    above = [(bdp_words(row["buffer_bdp"]), row["goodput"] - target) for _, row in rows.iterrows()]
    return [
        f"{first} and {second} BDP"
        for (first, over), (second, beyond) in pairwise(above)
        if over * beyond < 0
    ]


def gain_sentences(rows: pd.DataFrame, base: str, versus: str, called: str) -> list[str]:
    """State the range over which the buffer changes the gain."""
    first, second = (
        rows[rows["cc"] == cc].set_index("buffer_bdp")[["goodput", "goodput_study"]]
        for cc in (base, versus)
    )
    gains = (second / first).replace(math.inf, math.nan).reset_index()
    published = gains["goodput_study"].dropna()
    text = span(
        gains,
        "goodput",
        f"{cc_name(versus)} / {cc_name(base)}",
        ratio,
        where=lambda row: f"at {bdp_words(row['buffer_bdp'])} BDP",
    )
    beside = f" The {called} has {ratio(published.iloc[-1])}." if len(published) and text else ""
    return [text + beside] if text else []


def tables(sweep: Sweep, table: pd.DataFrame, name: str) -> Iterator[Table]:
    called = sweep.study.called
    columns = (
        *SWEPT_FIRST,
        Column("buffer_bdp", "Buffer (BDP)", bdp_words),
        Column("buffer_pkts", "Buffer (packets)", count),
        *SWEPT_GOODPUT,
        Column("study_mbit", f"{called.capitalize()} (Mbit/s)", rate),
        Column("ratio", f"Lab / {called}", ratio),
        Column("wan_segments", "Retransmitted on the WAN", count),
        *SWEPT_LAST,
        VERDICT,
    )
    yield sweep_table(f"{name}-buffer", "Goodput by the bottleneck's buffer", table, columns)


DRAWING = Drawing(
    "buffer",
    caption="Goodput and what the WAN leg sent again, by the size of the bottleneck's queue.",
    draw=facet.BY_PAIR(
        panels=panels,
        more_keys=more_keys,
        step=0.0,
        joined=lambda _: True,
        axis=buffer_axis,
        places=axis_name,
        panel_in=3.2,
        shape=facet.stacked,
        shared={"sharex": True, "gridspec_kw": {"height_ratios": [3, 2]}},
    ),
    shows=("buffer_bdp", "tunnel", "cc"),
    says=says,
    cells=cells,
    rows=lambda table: table[(table["n"] > 0) & table["buffer_bdp"].notna()],
    needs="a buffer and a rate, whose BDP it is a part of",
    tables=tables,
    borrows=True,
)
