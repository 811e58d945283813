"""Sentences that answer an experiment's question, each computed from its runs; none is written
beforehand.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from analysis.draw.colours import cc_name
from analysis.draw.curves import facets_of, flows_of, rtt_column
from analysis.draw.figures import ccs_of, one_row, tunnels_of
from analysis.judge.cells import (
    TUNNEL_ORDER,
    Cell,
    Matrix,
    bdp_words,
    pairs_of,
    rank,
    row_of,
    value_of,
    wan_share,
    without,
)
from analysis.judge.models import payload_mbit
from analysis.judge.statistics import Summary, best_mean, paired_ratio
from analysis.judge.table import NBSP, is_missing, per_mille, percent, rate, ratio
from analysis.read.folder import IDLE_SHARE_LOW, LINK_SHARE_FULL, Run
from analysis.read.series import reordered_share

# Two goodputs this close are called the same: about what separates the thesis's own ws and wss
# rows.
NEAR = 0.05
# A rate that changes by less than this over a sweep does not depend on what was swept.
UNMOVED = 0.10


@dataclass(frozen=True)
class Answer:
    """One thing that the runs say, and why it can be said."""

    heading: str
    sentences: tuple[str, ...]


def streams_answers(matrix: Matrix, table: pd.DataFrame) -> list[Answer]:
    """Does the congestion control matter, by streams and tunnel; is the thesis met; where did the
    CPU decide.
    """
    valid = table[table["n"] > 0]
    if valid.empty:
        return []
    found = []
    if (pair := two_ccs(valid)) is not None:
        found.append(
            Answer(
                f"{cc_name(pair[1])} against {cc_name(pair[0])}", comparison(matrix, table, *pair)
            )
        )
    if valid["thesis_goodput"].notna().any():
        found.append(Answer("Lab against thesis", agreement(valid)))
    if said := cpu_decided(valid):
        found.append(Answer("Where the CPU decided", said))
    return found


def two_ccs(table: pd.DataFrame) -> tuple[str, str] | None:
    """The pair that is compared: CUBIC and BBR where both ran, else the first two; None of one."""
    ccs = ccs_of(table)
    if {"cubic", "bbr"} <= set(ccs):
        return "cubic", "bbr"
    return (ccs[0], ccs[1]) if len(ccs) > 1 else None


@dataclass(frozen=True)
class Gain:
    """How much one congestion control gets over another at the same levels."""

    group: str  # those that share a sentence: a tunnel
    place: str  # 16 streams
    times: Summary  # of the pairs' ratios
    thesis: float | None
    cpu_bound: bool


def gains_of(matrix: Matrix, table: pd.DataFrame, base: str, versus: str) -> list[Gain]:
    """Every place where both have a run of the same seed."""
    found = []
    for first, second in pairs_of(matrix.cells, base, versus):
        times = paired_ratio(first.by_seed(), second.by_seed())
        if times is None:
            continue
        published = [row_of(table, cell)["thesis_goodput"] for cell in (first, second)]
        group, place = first.like.tunnel, streams(first.like.streams)
        if matrix.kind != "streams":
            group, place = "", without(first, "cc").label
        found.append(
            Gain(
                group,
                place,
                times,
                None if any(map(is_missing, published)) else published[1] / published[0],
                first.cpu_bound or second.cpu_bound,
            )
        )
    return found


def comparison(
    matrix: Matrix, table: pd.DataFrame, base: str, versus: str, source: str = "thesis"
) -> tuple[str, ...]:
    """First the answer in one sentence, then each tunnel's ratios by streams with the thesis's (or
    other source's) beside.
    """
    gains = gains_of(matrix, table, base, versus)
    if not gains:
        return ("No pair of runs with the same seed yet.",)
    said = [headline(gains, cc_name(base), cc_name(versus))]
    for group in sorted({gain.group for gain in gains}, key=lambda name: rank(name, TUNNEL_ORDER)):
        parts = [gain_words(gain, source) for gain in gains if gain.group == group]
        said.append(
            f"{group + ', ' if group else ''}{cc_name(versus)} as a multiple of {cc_name(base)}:"
            f" {', '.join(parts)}."
        )
    coverages = [gain.times.interval.coverage for gain in gains if gain.times.interval]
    if coverages:
        said.append(
            "The intervals are of the median over pairs of runs with the same seed and cover it"
            f" with at least {100 * min(coverages):.1f}{NBSP}%."
        )
    return tuple(said)


def headline(gains: Sequence[Gain], base: str, versus: str) -> str:
    """Where the two differ at all, the cells that the CPU decided set apart."""
    fair = [gain for gain in gains if not gain.cpu_bound]
    if not fair:
        return (
            f"In every cell with both, the CPU decided: nothing here compares {versus} with {base}."
        )

    def places(chosen: Sequence[Gain]) -> str:
        return listed(
            [f"{gain.group} {gain.place} ({ratio(gain.times.median)})".strip() for gain in chosen],
            8,
        )

    more = [gain for gain in fair if gain.times.median > 1 + NEAR]
    less = [gain for gain in fair if gain.times.median < 1 - NEAR]
    aside = (
        f" ({len(gains) - len(fair)} more are set aside: the CPU decided them)"
        if len(fair) < len(gains)
        else ""
    )
    alike = len(fair) - len(more) - len(less)
    said = (
        f"Of {len(fair)} cell{'' if len(fair) == 1 else 's'}{aside}, {versus} is within"
        f" {whole_percent(NEAR)} of {base} in "
    )
    said += str(alike or "none")
    said += f"; ahead in {len(more)}: {places(more)}" if more else "; ahead in none"
    return said + (f"; behind in {len(less)}: {places(less)}." if less else "; behind in none.")


def gain_words(gain: Gain, source: str) -> str:
    """One ratio, what it rests on, the thesis's."""
    found = gain.times.interval
    aside = [
        (
            f"{ratio(found.low)} to {ratio(found.high)}, n = {gain.times.n}"
            if found
            else f"n = {gain.times.n}"
        )
    ]
    if gain.thesis is not None:
        aside.append(f"{source} {ratio(gain.thesis)}")
    if gain.cpu_bound:
        aside.append("CPU-bound")
    return f"{ratio(gain.times.median)} at {gain.place} ({'; '.join(aside)})"


def whole_percent(share: float) -> str:
    """5 %."""
    return f"{100 * share:g}{NBSP}%"


def streams(count: float) -> str:
    """1 stream, 16 streams."""
    return f"{count:g} stream{'' if count == 1 else 's'}"


def agreement(table: pd.DataFrame, source: str = "thesis") -> tuple[str, ...]:
    """How many cells meet the thesis's (or other source's) goodput, and the one furthest off on
    either side.
    """
    rows = table[table["ratio"].notna()]
    if rows.empty:
        return ()
    near = rows[(rows["ratio"] - 1).abs() <= 2 * NEAR]
    said = [
        f"Of {len(rows)} cell{'' if len(rows) == 1 else 's'} with a value in the {source},"
        f" {len(near) or 'none'} {'is' if len(near) < 2 else 'are'} within"
        f" {whole_percent(2 * NEAR)} of it."
    ]
    for words, index in (
        ("Furthest below", rows["ratio"].idxmin()),
        ("Furthest above", rows["ratio"].idxmax()),
    ):
        row = rows.loc[index]
        if abs(row["ratio"] - 1) > 2 * NEAR and (row["ratio"] < 1) == (words == "Furthest below"):
            said.append(
                f"{words}: {cell_words(row, table)}: lab {rate(row['goodput'])}, {source}"
                f" {rate(row['thesis_goodput'])} Mbit/s ({ratio(row['ratio'])}; CPU idle"
                f" {percent_or(row['idle_share'])})."
            )
    return tuple(said)


def percent_or(value: float | None) -> str:
    """A share, or that it is not known."""
    return "unknown" if is_missing(value) or value is None else percent(value)


def cpu_decided(table: pd.DataFrame) -> tuple[str, ...]:
    """The cells in which the CPU had no time left while the bottleneck had room."""
    known = table[table["idle_share"].notna()]
    if known.empty:
        return ()
    low, full = whole_percent(IDLE_SHARE_LOW), whole_percent(LINK_SHARE_FULL)
    starved, bound = known[known["idle_share"] < IDLE_SHARE_LOW], known[known["cpu_bound"] > 0]
    if starved.empty:
        row = known.loc[known["idle_share"].idxmin()]
        return (
            (
                "Nowhere did the CPU decide: in its median second the one that all hosts share was"
                f" idle for at least {percent(row['idle_share'])} (least:"
                f" {cell_words(row, table)})."
            ),
        )
    if bound.empty:
        return (
            (
                "Nowhere did the CPU decide: the one that all hosts share was idle for less than"
                f" {low} of its median second in {len(starved)} of {len(known)} cells, but in each"
                f" of these the bottleneck was at least {full} full."
            ),
        )
    said = (
        f"of its median second while the bottleneck was less than {full} full, so that it, and not"
        " congestion control, set the rate"
    )
    if len(bound) == len(known) > 1:
        return (
            (
                f"Everywhere: in all {len(known)} cells the CPU that all hosts share was idle for"
                f" less than {low} {said}."
            ),
        )
    named = [
        f"{cell_words(row, table)} ({percent(row['idle_share'])} idle)"
        for _, row in bound.iterrows()
    ]
    return (
        (
            f"In {len(bound)} of {len(known)} cells the CPU that all hosts share was idle for less"
            f" than {low} {said}: {listed(named, 8)}."
        ),
    )


def cell_words(row: pd.Series, table: pd.DataFrame) -> str:
    """A cell in a few words, as many as tell it from the table's others."""
    if table.duplicated(["cc", "tunnel", "streams"]).any():
        return str(row["cell"])
    return f"{cc_name(row['cc'])} {row['tunnel']} {streams(row['streams'])}"


def listed(words: Sequence[str], most: int) -> str:
    """Words in a row, the rest counted."""
    return ", ".join(words[:most]) + (f" and {len(words) - most} more" if len(words) > most else "")


def retransmission_answers(runs: Sequence[Run]) -> list[Answer]:
    """What iperf3's Retr counted in a tunnel, and what the WAN lost."""
    tunnelled = [
        run
        for run in runs
        if run.counts and run.retransmitted("app") is not None and run.retr is not None
    ]
    if not tunnelled:
        return []
    alike = [
        run
        for run in tunnelled
        if abs((run.retr or 0) - (run.retransmitted("app") or 0))
        <= max(2.0, 0.05 * (run.retr or 0))
    ]
    said = [
        f"In {len(alike)} of {len(tunnelled)} runs through a tunnel iperf3's Retr equals (to"
        f" 5{NBSP}%) what the loopback connection between iperf3 and the tunnel's near end sent"
        " again."
    ]
    known = [run for run in tunnelled if run.retransmitted("wan") is not None]
    clean = [run for run in known if run.retransmitted("wan") == 0]
    if clean:
        blamed = sum((run.retr or 0) > 0 for run in clean)
        said.append(
            f"In {len(clean)} of {len(known)} the WAN leg sent nothing again; in {blamed} of these"
            " Retr is above zero all the same."
        )
    if len(clean) < len(known):
        shares = [
            share for run in known if run not in clean and (share := wan_share(run)) is not None
        ]
        said.append(
            f"In {len(known) - len(clean)} of {len(known)} the WAN leg sent something again:"
            f" {per_mille(min(shares))} to {per_mille(max(shares))} of its segments."
            if shares
            else ""
        )
    return [Answer("What iperf3's Retr says", tuple(said))]


def cpu_answers(table: pd.DataFrame) -> list[Answer]:
    """Does the cost of a system call set the rate?"""
    valid = table[table["n"] > 0]
    said = [
        sentence
        for tunnel in tunnels_of(valid)
        if len(valid)
        for count in sorted(valid["streams"].unique())
        for sentence in [
            cpu_sentence(
                valid[(valid["tunnel"] == tunnel) & (valid["streams"] == count)], tunnel, count
            )
        ]
        if sentence
    ]
    return [Answer("Is it the CPU?", tuple(said))] if said else []


def cpu_sentence(rows: pd.DataFrame, tunnel: str, count: float) -> str:
    """One tunnel and number of streams over the costs, and what follows."""
    parts, moved, starved = [], [], []
    for cc in ccs_of(rows):
        mine = rows[rows["cc"] == cc]
        virtual = mine[mine["clock"] != "real"].sort_values("syscall_cost_us")
        real = mine[mine["clock"] == "real"]
        if len(virtual) > 1:
            low, high = virtual.iloc[0], virtual.iloc[-1]
            parts.append(
                f"{cc_name(cc)} {rate(low['goodput'])} → {rate(high['goodput'])} Mbit/s (CPU idle"
                f" {percent_or(low['idle_share'])} → {percent_or(high['idle_share'])}, bottleneck"
                f" used {percent_or(low['link_share'])} → {percent_or(high['link_share'])}) from"
                f" {low['syscall_cost_us']:g} to {high['syscall_cost_us']:g} µs per system call"
            )
            moved.append(virtual["goodput"].max() / max(virtual["goodput"].min(), 1e-9) - 1)
            starved.append(bool(high["cpu_bound"]))
        if len(real):
            row = real.iloc[0]
            parts.append(
                f"{cc_name(cc)} on the real clock {rate(row['goodput'])} Mbit/s (idle "
                f"{percent_or(row['idle_share'])})"
            )
    if not parts:
        return ""
    said = f"{tunnel}, {streams(count)}: {'; '.join(parts)}."
    if moved and max(moved) < UNMOVED:
        said += (
            f" The cost moves the rate by less than {whole_percent(UNMOVED)}: it is not the CPU's."
        )
    elif moved and any(starved):
        said += (
            " The rate follows the cost, and at the highest the CPU has no time left while the"
            " bottleneck has room: there it is the CPU's, whatever the congestion control."
        )
    elif moved:
        said += " The rate follows the cost although the CPU has time left."
    return said


def buffer_answers(table: pd.DataFrame) -> list[Answer]:
    """Is there a buffer at which the lab meets the thesis's goodput, for one congestion control and
    for both?
    """
    valid = table[(table["n"] > 0) & table["buffer_bdp"].notna()].sort_values("buffer_bdp")
    found = []
    for tunnel in tunnels_of(valid) if len(valid) else []:
        for count in sorted(valid.loc[valid["tunnel"] == tunnel, "streams"].unique()):
            rows = valid[(valid["tunnel"] == tunnel) & (valid["streams"] == count)]
            said = buffer_sentences(rows)
            if said:
                caps = rows["rate_mbit"].dropna().unique()
                cap = f" at {rate(caps[0])} Mbit/s" if len(caps) == 1 else ""
                found.append(
                    Answer(
                        f"Which buffer explains the thesis? ({tunnel}, {streams(count)}{cap})", said
                    )
                )
    return found


def buffer_sentences(rows: pd.DataFrame) -> tuple[str, ...]:
    """Per congestion control where its thesis value is met; then both together; then their
    ratio.
    """
    said: list[str] = []
    met: dict[str, set[float]] = {}
    for cc in ccs_of(rows):
        mine = rows[rows["cc"] == cc]
        targets = mine["thesis_goodput"].dropna()
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
    if (pair := two_ccs(rows)) is not None:
        said += gain_sentences(rows, *pair)
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


def gain_sentences(rows: pd.DataFrame, base: str, versus: str) -> list[str]:
    """The gain of one over the other: over which range the buffer moves it."""
    gains: list[tuple[float, float]] = []
    thesis: Any = None
    for level in sorted(rows["buffer_bdp"].unique()):
        first, second = (one_row(rows, cc=cc, buffer_bdp=level) for cc in (base, versus))
        if first is None or second is None or not first["goodput"] > 0:
            continue
        gains.append((second["goodput"] / first["goodput"], level))
        if not is_missing(first["thesis_goodput"]) and not is_missing(second["thesis_goodput"]):
            thesis = second["thesis_goodput"] / first["thesis_goodput"]
    if not gains:
        return []
    (low, low_at), (high, high_at) = min(gains), max(gains)
    beside = f"; the thesis has {ratio(thesis)}" if thesis else ""
    if len(gains) == 1:
        return [
            f"{cc_name(versus)} / {cc_name(base)} is {ratio(low)} at {bdp_words(low_at)} BDP, the"
            f" only buffer with both{beside}."
        ]
    return [
        f"{cc_name(versus)} / {cc_name(base)} goes from {ratio(low)} (at {bdp_words(low_at)} BDP)"
        f" to {ratio(high)} (at {bdp_words(high_at)} BDP){beside}."
    ]


def other_answers(
    matrix: Matrix, table: pd.DataFrame, title: str, source: str = "thesis"
) -> list[Answer]:
    """Of a matrix that no other figure is made for: how far its cells lie apart, and two congestion
    controls.
    """
    valid = table[table["n"] > 0]
    if valid.empty:
        return []
    first, last = valid.loc[valid["goodput"].idxmin()], valid.loc[valid["goodput"].idxmax()]
    if len(valid) == 1:
        return [
            Answer(
                title, (f"{first['cell']}: {rate(first['goodput'])} Mbit/s (n = {first['n']:g}).",)
            )
        ]
    said = [
        f"From {rate(first['goodput'])} Mbit/s ({first['cell']}) to {rate(last['goodput'])} Mbit/s"
        f" ({last['cell']}) over {len(valid)} cells."
    ]
    if (pair := two_ccs(valid)) is not None:
        said += comparison(matrix, table, *pair, source)
    if valid["thesis_goodput"].notna().any():
        said += agreement(valid, source)
    return [Answer(title, (*said, *cpu_decided(valid)))]


# -- what a file asks to be drawn


def drawn_answers(matrix: Matrix, table: pd.DataFrame, title: str) -> list[Answer]:
    """What a matrix says whose file names its figures: by loss, by round-trip time, of fairness, of
    jitter; else in general.

    table: widened by curves.beside.
    """
    valid = table[table["n"] > 0]
    if valid.empty:
        return []
    found = [
        Answer(f"{title}: {heading}", said)
        for heading, said in (
            (
                "where loss takes half of the link",
                loss_sentences(valid) if "by-loss" in matrix.draw else (),
            ),
            (
                "from which round-trip time on the rate falls",
                rtt_sentences(valid) if "by-rtt" in matrix.draw else (),
            ),
            ("who gets how much", fairness_sentences(valid)),
            ("how soon it settles", convergence_sentences(valid)),
            ("the fastest three downloads", download_sentences(matrix.cells)),
            ("what jitter does to the order", jitter_sentences(matrix.cells)),
        )
        if said
    ]
    return (
        found
        if found and "bars" not in matrix.draw
        else [*other_answers(matrix, table, title, "study"), *found]
    )


def loss_sentences(table: pd.DataFrame) -> tuple[str, ...]:
    """Of each congestion control and round-trip time the least loss at which less than half of the
    link's payload is left.
    """
    said = []
    for rtt in sorted(table["rtt_ms"].unique()):
        for cc in ccs_of(table):
            rows = table[
                (table["rtt_ms"] == rtt) & (table["cc"] == cc) & table["goodput"].notna()
            ].sort_values("loss_p")
            for full, alike in rows.groupby("rate_mbit"):
                said.append(
                    half_of_the_link(
                        alike,
                        cc,
                        rtt,
                        payload_mbit(float(full) * 1e6, int(alike["mtu_bytes"].iloc[0])),
                    )
                )
    return tuple(said)


def half_of_the_link(rows: pd.DataFrame, cc: str, rtt_ms: float, full_mbit: float) -> str:
    """Where one congestion control falls below half of what a link carries."""
    head, half = f"{cc_name(cc)} over {rtt_ms:g} ms", full_mbit / 2
    below = rows[rows["goodput"] < half]
    least, most = rows.iloc[0], rows.iloc[-1]
    if below.empty:
        return (
            f"{head} stays above half of the link's {rate(full_mbit)} Mbit/s up to the highest"
            f" tried, {loss_words(most['loss_p'])}: {rate(most['goodput'])} Mbit/s there."
        )
    first = below.iloc[0]
    before = rows[rows["loss_p"] < first["loss_p"]]
    if before.empty:
        return (
            f"{head} is below half of the link's {rate(full_mbit)} Mbit/s already at the lowest"
            f" tried, {loss_words(least['loss_p'])}: {rate(first['goodput'])} Mbit/s."
        )
    last = before.iloc[-1]
    return (
        f"{head} falls below half of the link's {rate(full_mbit)} Mbit/s between"
        f" {loss_words(last['loss_p'])} ({rate(last['goodput'])}) and {loss_words(first['loss_p'])}"
        f" ({rate(first['goodput'])})."
    )


def loss_words(loss: float) -> str:
    """A loss rate: 0.01 % loss, no loss."""
    return f"{100 * loss:.6g}{NBSP}% loss" if loss else "no loss"


def rtt_sentences(table: pd.DataFrame) -> tuple[str, ...]:
    """Of each line of the figure from which round-trip time on it is clearly below what it is at
    the shortest.
    """
    axis, flows = rtt_column(table), flows_of(table)
    lines = [(f"goodput:{flow}", flow, table) for flow in flows] or [
        ("goodput", cc_name(cc), table[table["cc"] == cc]) for cc in ccs_of(table)
    ]
    said = []
    for figure, name, cells in lines:
        for aside, rows in facets_of(cells, known=(axis, *(() if flows else ("cc",)))):
            there = rows[rows[figure].notna()].sort_values(axis)
            if len(there) > 1:
                said.append(
                    fall_sentence(there, axis, figure, f"{name} ({aside})" if aside else name)
                )
    return tuple(said)


def fall_sentence(rows: pd.DataFrame, axis: str, figure: str, name: str) -> str:
    """From which round-trip time on one line falls."""
    first, last = rows.iloc[0], rows.iloc[-1]
    low = rows[rows[figure] < (1 - UNMOVED) * first[figure]]
    start = f"{rate(first[figure])} Mbit/s at {first[axis]:g} ms"
    if low.empty:
        return (
            f"{name} keeps at least {whole_percent(1 - UNMOVED)} of its {start} up to"
            f" {last[axis]:g} ms ({rate(last[figure])})."
        )
    fall = low.iloc[0]
    return (
        f"{name} falls by more than {whole_percent(UNMOVED)} from {fall[axis]:g} ms on"
        f" ({rate(fall[figure])}): {start}, {rate(last[figure])} at {last[axis]:g} ms."
    )


def fairness_sentences(table: pd.DataFrame) -> tuple[str, ...]:
    """Jain's range, and which flow gets most in how many cells."""
    flows, rows = flows_of(table), table[table["jain"].notna()]
    if not flows or rows.empty:
        return ()
    low, high = rows.loc[rows["jain"].idxmin()], rows.loc[rows["jain"].idxmax()]
    said = [
        (
            f"Jain's index goes from {ratio(low['jain'])} ({low['cell']}) to {ratio(high['jain'])}"
            f" ({high['cell']}) over {len(rows)} cells; 1 is equal shares, {ratio(1 / len(flows))}"
            " one flow alone."
            if len(rows) > 1
            else f"Jain's index is {ratio(low['jain'])} ({low['cell']}); 1 is equal shares."
        )
    ]
    winners: dict[str, list[tuple[float, str]]] = {}
    even = 0
    for _, row in rows.iterrows():
        shares = {
            flow: row[f"share:{flow}"] for flow in flows if not is_missing(row.get(f"share:{flow}"))
        }
        if not shares:
            continue
        best = max(shares, key=lambda flow: shares[flow])
        if shares[best] * len(shares) < 1 + 2 * NEAR:
            even += 1
        else:
            winners.setdefault(flow_name(row, best), []).append((shares[best], row["cell"]))
    for name, won in sorted(winners.items(), key=lambda pair: -len(pair[1])):
        share, cell = max(won)
        said.append(
            f"{name} gets most in {len(won)} of {len(rows)} cells, at best {percent(share)}"
            f" ({cell})."
        )
    if even:
        said.append(
            f"In {even} of {len(rows)} cells no flow is more than {whole_percent(2 * NEAR)} above"
            " an equal share."
        )
    return tuple(said)


def flow_name(row: pd.Series, flow: str) -> str:
    """A flow with what sends it."""
    return f"{flow} ({cc_name(str(row[f'cc:{flow}']))})"


def convergence_sentences(table: pd.DataFrame) -> tuple[str, ...]:
    """After how long shares are fair, or a rate has settled; how many runs never got there."""
    could = table[table["convergence_s"].notna() | (table["never_converged"] > 0)]
    if could.empty:
        return ()
    rows = could[could["convergence_s"].notna()]
    never, of = int(could["never_converged"].sum()), int(could["n"].sum())
    said = []
    if len(rows) == 1:
        said.append(
            f"{rows.iloc[0]['cell']}: after {rate(rows.iloc[0]['convergence_s'])} s (median)."
        )
    elif len(rows):
        low, high = (
            rows.loc[rows["convergence_s"].idxmin()],
            rows.loc[rows["convergence_s"].idxmax()],
        )
        said.append(
            f"The cells' medians go from {rate(low['convergence_s'])} s ({low['cell']}) to "
            f"{rate(high['convergence_s'])} s ({high['cell']})."
        )
    if never:
        said.append(
            f"{never} of {of} runs never do; the medians above are of those that do."
            if len(rows)
            else f"None of {of} runs does."
        )
    return tuple(said)


def download_sentences(cells: Sequence[Cell]) -> tuple[str, ...]:
    """Of each cell that fetches one file: the mean rate of its three fastest runs, and how long
    that takes.
    """
    said = []
    for cell in cells:
        sizes = {
            flow.size_bytes for run in cell.counted for flow in run.flows if flow.kind == "http"
        }
        best = best_mean(
            [value for run in cell.counted if (value := value_of(run, "goodput")) is not None]
        )
        if best is None or len(sizes) != 1 or (size := sizes.pop()) is None:
            continue
        said.append(
            f"{cell.label}: {rate(best)} Mbit/s ({rate(best * 1000 / 8)} kB/s),"
            f" {rate(size * 8e-6 / best)} s for {size / 1e6:g} MB; n = {len(cell.counted)}."
        )
    return tuple(said)


def jitter_sentences(cells: Sequence[Cell]) -> tuple[str, ...]:
    """How many segments overtook others, where jitter may reorder and where the path keeps the
    order. Not where it loses as well: behind a lost segment every other is ahead of one that is
    due.
    """
    said = []
    for ordered, words in (
        (False, "With jitter that may reorder"),
        (True, "With jitter on a path that keeps the order"),
    ):
        found = [
            (float(np.median(known)), cell.label)
            for cell in cells
            if cell.like.jitter_ms
            and not cell.like.loss_p
            and cell.like.ordered == ordered
            and (
                known := [
                    share for run in cell.counted if (share := reordered_share(run)) is not None
                ]
            )
        ]
        if found:
            (low, low_at), (high, high_at) = min(found), max(found)
            span = (
                f"{percent(low)} ({low_at}) to {percent(high)} ({high_at})"
                if len(found) > 1
                else f"{percent(low)} ({low_at})"
            )
            said.append(
                f"{words}, {span} of the segments arrived ahead of one that was due, "
                "those behind one that a queue dropped included."
            )
    return tuple(said)
