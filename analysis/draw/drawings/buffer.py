"""Goodput, and what the WAN leg sent again, by the size of the bottleneck's queue."""

from __future__ import annotations

import math
from collections.abc import Iterator

import pandas as pd
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import FixedLocator, FuncFormatter, NullFormatter, NullLocator

from analysis.draw.levels import ccs_of, facets_of, one_row, tunnels_of
from analysis.draw.marks import degraded_handles, draw_line, draw_point, figure_values
from analysis.draw.registry import Answer, Drawing, Joined, Picture, Sheet, Sweep, valid_rows
from analysis.draw.sentences import NEAR, listed, others_against_base, streams, whole_percent
from analysis.draw.style import (
    FAINT,
    apart,
    cc_colour,
    counts_axis,
    finish,
    new_figure,
    styled,
    thousands,
    tunnel_marker,
)
from analysis.judge.cells import bdp_words, buffer_cells
from analysis.judge.statistics import is_known
from analysis.judge.table import (
    CC,
    DELAYS,
    GOODPUT,
    IDLE,
    INTERVAL,
    LINK,
    RUNS,
    STREAMS,
    TUNNEL,
    VERDICT,
    Column,
    Table,
    cc_name,
    count,
    delays,
    interval,
    n_note,
    rate,
    ratio,
    shown_columns,
)

STUDY_LINE = (0, (1, 1.5))


@styled
def plot_buffer(
    table: pd.DataFrame, footer: str = "", *, title: str = "", called: str = "study"
) -> Figure:
    """Goodput and WAN retransmissions by the bottleneck's buffer, with the study's values as
    levels.
    """
    table = table[table["buffer_bdp"].notna()].sort_values("buffer_bdp")
    figure, axes = new_figure(6.4, 2, 1, sharex=True, gridspec_kw={"height_ratios": [3, 2]})
    goodput, again = axes[0, 0], axes[1, 0]
    ccs, tunnels = ccs_of(table), tunnels_of(table)
    handles: list[Line2D] = []
    for tunnel in tunnels:
        for cc in ccs:
            rows = table[(table["tunnel"] == tunnel) & (table["cc"] == cc)]
            colour, marker = cc_colour(cc), tunnel_marker(tunnel)
            for ax, name in ((goodput, "goodput"), (again, "wan")):
                points = [(row["buffer_bdp"], row) for _, row in rows.iterrows()]
                draw_line(ax, points, name, colour)
                for x, row in points:
                    draw_point(ax, x, row, name, colour, f"lab {cc}", marker=marker)
            label = f"{cc_name(cc)}, {tunnel}"
            handles.append(Line2D([], [], color=colour, marker=marker, label=label))
    for cc in ccs:
        for study in table.loc[table["cc"] == cc, "goodput_study"].dropna().unique():
            label = f"the {called}, {cc_name(cc)}: {study:,.0f}"
            look = {"color": cc_colour(cc), "linestyle": STUDY_LINE, "linewidth": 1.6}
            goodput.axhline(study, label=f"study {cc}", **look)
            handles.append(Line2D([], [], label=label, **look))
    for link in table["rate_mbit"].dropna().unique():
        goodput.axhline(link, color=FAINT, linewidth=1.0, label="bottleneck")
        handles.append(Line2D([], [], color=FAINT, linewidth=1.0, label=f"bottleneck: {link:,.0f}"))
    links = [link for link in table["rate_mbit"] if is_known(link)]
    goodput.set_ylim(0, max([1.0, *figure_values(table, "goodput", link=False), *links]) * 1.1)
    goodput.set_ylabel("Goodput (Mbit/s)")
    thousands(goodput.yaxis)
    again.set_ylabel("Retransmitted on\nthe WAN (segments)")
    counts_axis(again, max([10.0, *filter(is_known, [*table["wan"], *table["wan_high"]])]))
    again.set_xscale("log")
    again.xaxis.set_major_locator(FixedLocator(apart(sorted(table["buffer_bdp"].unique()))))
    again.xaxis.set_major_formatter(FuncFormatter(lambda value, _: bdp_words(value)))
    again.xaxis.set_minor_locator(NullLocator())
    again.xaxis.set_minor_formatter(NullFormatter())
    again.set_xlabel(f"Bottleneck buffer (BDP{one_bdp(table)})")
    finish(figure, [*handles, *degraded_handles(table)], footer, title)
    return figure


def one_bdp(table: pd.DataFrame) -> str:
    """What one BDP is, where the cells have one path."""
    if table["bdp_pkts"].nunique() != 1:
        return " of each path"
    bdp, mtu = float(table["bdp_pkts"].iloc[0]), float(table["mtu_bytes"].iloc[0])
    return f"; 1 BDP = {bdp:,.0f} packets = {bdp * mtu / 1e6:,.1f} MB"


def draw(sheet: Sheet) -> Iterator[Picture]:
    """One figure."""
    plotted = plot_buffer(sheet.rows, sheet.footer, title=sheet.title, called=sheet.called)
    yield Picture(plotted)


def cells(sweep: Sweep) -> Joined:
    """The sweep's, with the points that other matrices add."""
    return Joined(buffer_cells(sweep.matrix, sweep.matrices))


def says(sweep: Sweep, table: pd.DataFrame) -> Iterator[Answer]:
    """Is there a buffer at which the lab meets the study's goodput, for one congestion control and
    for both?
    """
    valid = valid_rows(table)
    valid = valid[valid["buffer_bdp"].notna()].sort_values("buffer_bdp")
    asks = f"Which buffer explains the {sweep.study.called}?"
    for tunnel, number, aside, rows in sweeps_of(valid):
        caps = rows["rate_mbit"].dropna().unique()
        cap = f" at {rate(caps[0])} Mbit/s" if len(caps) == 1 else ""
        known = rows["goodput_study"].notna().any()
        yield Answer(
            f"{asks if known else 'By the buffer'} ({tunnel}, {streams(number)}{cap}{aside})",
            buffer_sentences(rows, sweep.study.called),
        )


def sweeps_of(table: pd.DataFrame) -> Iterator[tuple[str, float, str, pd.DataFrame]]:
    """(tunnel, streams, other levels in words, cells) of every sweep over the buffer."""
    for tunnel in tunnels_of(table) if len(table) else []:
        for number, rows in table[table["tunnel"] == tunnel].groupby("streams"):
            for words, cells in facets_of(rows, known=("buffer_bdp", "cc")):
                yield tunnel, float(number), f", {words}" if words else "", cells


def buffer_sentences(rows: pd.DataFrame, called: str) -> tuple[str, ...]:
    """Per congestion control where its published value is met; then both together; then their
    ratio.
    """
    said: list[str] = []
    met: dict[str, set[float]] = {}
    for cc in ccs_of(rows):
        mine = rows[rows["cc"] == cc]
        targets = mine["goodput_study"].dropna()
        tried = (
            f"{bdp_words(mine['buffer_bdp'].min())} to {bdp_words(mine['buffer_bdp'].max())} BDP"
            if len(mine) > 1
            else f"{bdp_words(mine['buffer_bdp'].iloc[0])} BDP alone"
        )
        span = (
            f"{rate(mine['goodput'].min())} to {rate(mine['goodput'].max())}"
            if len(mine) > 1
            else rate(mine["goodput"].iloc[0])
        )
        if targets.empty:
            said.append(f"{cc_name(cc)} gets {span} Mbit/s over buffers of {tried}.")
            continue
        target = float(targets.iloc[0])
        near = mine[(mine["goodput"] / target - 1).abs() <= NEAR]
        met[cc] = set(near["buffer_bdp"])
        head = f"{cc_name(cc)}'s {rate(target)} Mbit/s"
        if len(near):
            named = [
                f"{bdp_words(row['buffer_bdp'])} BDP ({rate(row['goodput'])})"
                for _, row in near.iterrows()
            ]
            where = (
                f"every buffer tried ({tried})" if len(near) == len(mine) > 1 else listed(named, 6)
            )
            said.append(
                f"{head} is met within {whole_percent(NEAR)} at {where}; over {tried} the lab gets"
                f" {span}."
            )
        elif crossing := crossings(mine, target):
            said.append(
                f"{head} is met at no buffer tried, but passed between"
                f" {' and between '.join(crossing)}; over {tried} the lab gets {span}."
            )
        else:
            side = "above" if mine["goodput"].min() > target else "below"
            said.append(
                f"{head} is met nowhere: over {tried} the lab gets {span}, always {side} it."
            )
    if len(met) > 1:
        both = set.intersection(*met.values())
        names = " and ".join(cc_name(cc) for cc in met)
        shared = listed([f"{bdp_words(level)} BDP" for level in sorted(both)], 6)
        said.append(
            f"{names} meet their values at the same buffer of {shared}."
            if both
            else f"No buffer tried gives {names} their values at once."
        )
    for base, versus in others_against_base(rows):
        said += gain_sentences(rows, base, versus, called)
    return tuple(said)


def crossings(rows: pd.DataFrame, target: float) -> list[str]:
    """Neighbouring buffers with the target between their goodputs."""
    found = []
    for (_, first), (_, second) in zip(rows.iterrows(), rows.iloc[1:].iterrows(), strict=False):
        if (first["goodput"] - target) * (second["goodput"] - target) < 0:
            found.append(
                f"{bdp_words(first['buffer_bdp'])} and {bdp_words(second['buffer_bdp'])} BDP"
            )
    return found


def gain_sentences(rows: pd.DataFrame, base: str, versus: str, called: str) -> list[str]:
    """The gain of one over the other: over which range the buffer moves it."""
    gains: list[tuple[float, float]] = []
    study = math.nan
    for level in sorted(rows["buffer_bdp"].unique()):
        first, second = (one_row(rows, cc=cc, buffer_bdp=level) for cc in (base, versus))
        if first is None or second is None or not first["goodput"] > 0:
            continue
        gains.append((second["goodput"] / first["goodput"], level))
        both = second["goodput_study"] / first["goodput_study"]
        study = both if is_known(both) else study
    if not gains:
        return []
    (low, low_at), (high, high_at) = min(gains), max(gains)
    beside = f"; the {called} has {ratio(study)}" if is_known(study) else ""
    if len(gains) == 1:
        return [
            f"{cc_name(versus)} / {cc_name(base)} is {ratio(low)} at {bdp_words(low_at)} BDP, the"
            f" only buffer with both{beside}."
        ]
    return [
        f"{cc_name(versus)} / {cc_name(base)} goes from {ratio(low)} (at {bdp_words(low_at)} BDP)"
        f" to {ratio(high)} (at {bdp_words(high_at)} BDP){beside}."
    ]


def tables(sweep: Sweep, table: pd.DataFrame, name: str) -> Iterator[Table]:
    """Goodput and WAN retransmissions by the bottleneck's buffer."""
    called = sweep.study.called
    columns = (
        TUNNEL,
        STREAMS,
        CC,
        Column("buffer_bdp", "Buffer (BDP)", bdp_words),
        Column("buffer_pkts", "Buffer (packets)", count),
        RUNS,
        GOODPUT,
        INTERVAL,
        Column("study_mbit", f"{called.capitalize()} (Mbit/s)", rate),
        Column("ratio", f"Lab / {called}", ratio),
        Column("wan_segments", "Retransmitted on the WAN", count),
        *DELAYS,
        LINK,
        IDLE,
        VERDICT,
    )
    rows = [
        {
            "tunnel": row["tunnel"],
            "streams": row["streams"],
            "cc": row["cc"],
            "buffer_bdp": row["buffer_bdp"],
            "buffer_pkts": row["buffer_pkts"],
            "n": row["n"],
            "goodput_mbit": row["goodput"],
            "goodput_interval": interval(
                row["goodput_low"], row["goodput_high"], row["goodput_coverage"]
            ),
            "study_mbit": row["goodput_study"],
            "ratio": row["ratio"],
            "wan_segments": row["wan"],
            **delays(row),
            "idle_share": row["idle_share"],
            "link_share": row["link_share"],
            "verdict": row["verdict"] if row["n"] else row["absent"],
        }
        for _, row in table.iterrows()
    ]
    title = "Goodput by the bottleneck's buffer"
    yield Table(f"{name}-buffer", title, n_note(table), shown_columns(columns, rows), tuple(rows))


DRAWING = Drawing(
    "buffer",
    caption="Goodput and what the WAN leg sent again, by the size of the bottleneck's queue.",
    draw=draw,
    shows=("buffer_bdp", "tunnel", "cc"),
    says=says,
    cells=cells,
    rows=lambda table: table[(table["n"] > 0) & table["buffer_bdp"].notna()],
    needs="a buffer and a rate, whose BDP it is a part of",
    tables=tables,
    borrows=True,
)
