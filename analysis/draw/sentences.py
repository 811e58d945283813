"""Sentences that several drawings say, each computed from the runs; none is written beforehand."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pandas as pd

from analysis.draw.levels import (
    ccs_of,
)
from analysis.draw.registry import (
    Answer,
    Sweep,
    valid_rows,
)
from analysis.judge.cells import (
    TUNNEL_ORDER,
    Cell,
    MatrixResults,
    pairs_of,
    rank,
    row_of,
    spoken_order,
    without,
)
from analysis.judge.figures_of_merit import wan_share
from analysis.judge.statistics import Summary, is_known, paired_ratio
from analysis.judge.table import (
    NBSP,
    cc_name,
    per_mille,
    percent,
    rate,
    ratio,
)
from analysis.read.folder import IDLE_SHARE_LOW, LINK_SHARE_FULL, Run

# Two goodputs this close are called the same: about what separates the thesis's own ws and wss
# rows.
NEAR = 0.05
# A rate that changes by less than this over a sweep does not depend on what was swept.
UNMOVED = 0.10


def others_against_base(table: pd.DataFrame) -> list[tuple[str, str]]:
    """(base, other) for every congestion control but the base: CUBIC where it ran, else the first;
    none of one.
    """
    ccs = ccs_of(table)
    base = "cubic" if "cubic" in ccs else next(iter(ccs), "")
    return [(base, cc) for cc in ccs if cc != base]


@dataclass(frozen=True)
class Gain:
    """How much one congestion control gets over another at the same levels."""

    group: str  # those that share a sentence: a tunnel
    place: str  # 16 streams
    times: Summary  # of the pairs' ratios
    study: float | None
    cpu_bound: bool
    lead: str = ""  # the factor whose level the place begins with


def gains_of(
    matrix: MatrixResults, table: pd.DataFrame, base: str, versus: str, *, by_streams: bool
) -> list[Gain]:
    """Every place where both have a run of the same seed.

    by_streams: the tunnel and the number of streams say which place it is.
    """
    found = []
    for first, second in pairs_of(matrix.cells, base, versus):
        times = paired_ratio(first.by_seed(), second.by_seed())
        if times is None:
            continue
        study = [row_of(table, cell)["goodput_study"] for cell in (first, second)]
        others = {name for name, _ in first.factors} - {"cc", "tunnel", "streams"}
        plain = by_streams and not others
        found.append(
            Gain(
                first.example.tunnel if plain else "",
                streams(first.example.streams) if plain else place_of(first),
                times,
                study[1] / study[0] if all(map(is_known, study)) else None,
                first.cpu_bound or second.cpu_bound,
                "streams" if plain else next(iter(spoken_order(without(first, "cc").factors)), ""),
            )
        )
    return found


def place_of(cell: Cell) -> str:
    """A cell's levels but its congestion control; "" where nothing else varies."""
    place = without(cell, "cc")
    return place.label if place.factors else ""


def comparisons(sweep: Sweep, table: pd.DataFrame, *, by_streams: bool = False) -> Iterator[Answer]:
    """Every other congestion control against the base."""
    for base, versus in others_against_base(valid_rows(table)):
        gains = gains_of(sweep.matrix, table, base, versus, by_streams=by_streams)
        yield Answer(
            f"{cc_name(versus)} against {cc_name(base)}",
            comparison(gains, cc_name(base), cc_name(versus), sweep.study.called),
        )


def comparison(gains: Sequence[Gain], base: str, versus: str, called: str) -> tuple[str, ...]:
    """First the answer in one sentence, then each tunnel's ratios by streams with the study's
    beside.
    """
    if not gains:
        return ("No pair of runs with the same seed yet.",)
    said = [headline(gains, base, versus)]
    for group in sorted({gain.group for gain in gains}, key=lambda name: rank(name, TUNNEL_ORDER)):
        parts = [gain_words(gain, called) for gain in gains if gain.group == group]
        said.append(
            f"{group + ', ' if group else ''}{versus} as a multiple of {base}: {', '.join(parts)}."
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
            [
                f"{where} ({ratio(gain.times.median)})"
                for gain in chosen
                if (where := f"{gain.group} {gain.place}".strip())
            ],
            8,
        )

    def counted(chosen: Sequence[Gain]) -> str:
        if not chosen:
            return "none"
        return ": ".join(filter(None, (str(len(chosen)), places(chosen))))

    more = [gain for gain in fair if gain.times.median > 1 + NEAR]
    less = [gain for gain in fair if gain.times.median < 1 - NEAR]
    aside = (
        f" ({len(gains) - len(fair)} more are set aside: the CPU decided them)"
        if len(fair) < len(gains)
        else ""
    )
    if len(gains) == 1:
        stands = "ahead of" if more else "behind" if less else f"within {whole_percent(NEAR)} of"
        return f"{versus} is {stands} {base}: {places(fair) or ratio(fair[0].times.median)}."
    alike = len(fair) - len(more) - len(less)
    said = (
        f"Of {len(fair)} cell{'' if len(fair) == 1 else 's'}{aside}, {versus} is within"
        f" {whole_percent(NEAR)} of {base} in "
    )
    said += str(alike or "none")
    return said + f"; ahead in {counted(more)}; behind in {counted(less)}."


def gain_words(gain: Gain, called: str) -> str:
    """One ratio, what it rests on, the study's."""
    found = gain.times.interval
    aside = [
        (
            f"{ratio(found.low)} to {ratio(found.high)}, n = {gain.times.n}"
            if found
            else f"n = {gain.times.n}"
        )
    ]
    if gain.study is not None:
        aside.append(f"{called} {ratio(gain.study)}")
    if gain.cpu_bound:
        aside.append("CPU-bound")
    where = f" at {gain.place}" if gain.place else ""
    return f"{ratio(gain.times.median)}{where} ({'; '.join(aside)})"


def whole_percent(share: float) -> str:
    """5 %."""
    return f"{100 * share:g}{NBSP}%"


def streams(count: float) -> str:
    """1 stream, 16 streams."""
    return f"{count:g} stream{'' if count == 1 else 's'}"


def agreement(table: pd.DataFrame, called: str) -> tuple[str, ...]:
    """How many cells meet the study's goodput, and the one furthest off on either side."""
    rows = table[table["ratio"].notna()]
    if rows.empty:
        return ()
    near = rows[(rows["ratio"] - 1).abs() <= 2 * NEAR]
    said = [
        f"Of {len(rows)} cell{'' if len(rows) == 1 else 's'} with a value in the {called},"
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
                f"{words}: {cell_words(row, table)}: lab {rate(row['goodput'])}, {called}"
                f" {rate(row['goodput_study'])} Mbit/s ({ratio(row['ratio'])}; CPU idle"
                f" {percent_or(row['idle_share'])})."
            )
    return tuple(said)


def percent_or(value: float | None) -> str:
    """A share, or that it is not known."""
    return percent(value) if is_known(value) else "unknown"


def cpu_decided(table: pd.DataFrame, title: str) -> tuple[str, ...]:
    """The cells in which a CPU had no time left while the bottleneck had room: the busiest host's,
    or the one that all hosts share.

    title: what the cells are; the sentence names it, for another matrix of the experiment may have
    had less time.
    """
    known = table[table["idle_share"].notna()]
    if known.empty:
        return ()
    low, full = whole_percent(IDLE_SHARE_LOW), whole_percent(LINK_SHARE_FULL)
    starved, bound = known[known["idle_share"] < IDLE_SHARE_LOW], known[known["cpu_bound"] > 0]
    cells = f"{len(known)} cell{'' if len(known) == 1 else 's'} of “{title}”"
    if starved.empty:
        row = known.loc[known["idle_share"].idxmin()]
        return (
            f"In none of the {cells} did a CPU decide: in its median second the busiest was idle"
            f" for at least {percent(row['idle_share'])} (least: {cell_words(row, table)}).",
        )
    if bound.empty:
        return (
            f"In none of the {cells} did a CPU decide: the busiest was idle for less than {low} of"
            f" its median second in {len(starved)}, but in each of these the bottleneck was at"
            f" least {full} full.",
        )
    said = (
        f"the busiest CPU was idle for less than {low} of its median second while the bottleneck"
        f" was less than {full} full, so that it, and not congestion control, set the rate"
    )
    if len(bound) == len(known) > 1:
        return (f"In all {cells} {said}.",)
    named = [
        f"{cell_words(row, table)} ({percent(row['idle_share'])} idle)"
        for _, row in bound.iterrows()
    ]
    return (f"In {len(bound)} of the {cells} {said}: {listed(named, 8)}.",)


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


def convergence(sweep: Sweep, table: pd.DataFrame) -> Iterator[Answer]:
    """How soon it settles, where something is there to settle."""
    if said := convergence_sentences(table):
        yield Answer(f"{sweep.title}: how soon it settles", said)


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
        soonest, latest = rate(low["convergence_s"]), rate(high["convergence_s"])
        said.append(
            f"All {len(rows)} cells: after {soonest} s (medians)."
            if soonest == latest
            else f"The cells' medians go from {soonest} s ({low['cell']}) to"
            f" {latest} s ({high['cell']})."
        )
    if never:
        said.append(
            f"{never} of {of} runs never do; the medians above are of those that do."
            if len(rows)
            else f"None of {of} runs does."
        )
    return tuple(said)


def in_general(sweep: Sweep, table: pd.DataFrame) -> Iterator[Answer]:
    """Of any matrix: how far its cells lie apart, its congestion controls against each other, how
    many cells meet the study's value, where the CPU decided.
    """
    valid = valid_rows(table)
    if valid.empty:
        return
    first, last = valid.loc[valid["goodput"].idxmin()], valid.loc[valid["goodput"].idxmax()]
    if len(valid) == 1:
        alone = f"{first['cell']}: {rate(first['goodput'])} Mbit/s (n = {first['n']:g})."
        yield Answer(sweep.title, (alone,))
        return
    said = [
        f"From {rate(first['goodput'])} Mbit/s ({first['cell']}) to {rate(last['goodput'])} Mbit/s"
        f" ({last['cell']}) over {len(valid)} cells."
    ]
    for compared in comparisons(sweep, table):
        said += compared.sentences
    if valid["goodput_study"].notna().any():
        said += agreement(valid, sweep.study.called)
    yield Answer(sweep.title, (*said, *cpu_decided(valid, sweep.title)))


def made_by_line(runs: Sequence[Run]) -> str:
    """What made some runs' numbers, in a line."""
    found = [run.environment for run in runs if run.environment is not None and run.counts]
    if not found:
        return ""

    def named(head: str, values: set[str]) -> str:
        return f"{head}{' / '.join(sorted(values))}"

    synthetic = "FIXTURE, NOT MEASURED · " if any(each.synthetic for each in found) else ""
    tunnels = {each.tunnel for each in found if each.tunnel_kind != "none"}
    parts = [
        named("tunnel: ", tunnels) if tunnels else "no tunnel",
        named("Linux ", {f"{each.kernel} (HZ {each.hz})" for each in found}),
        ", ".join([named("", {f"{each.clock} clock" for each in found}), *machine_words(runs)]),
        named("iperf3 ", {each.iperf3 for each in found}),
        named("lab ", {each.lab for each in found}),
    ]
    return synthetic + " · ".join(parts)


def machine_words(runs: Sequence[Run]) -> list[str]:
    """What the hosts are on the virtual clock: their CPUs, what a system call and a packet cost
    them, how they receive. What differs between runs is left out: it is asked of each.
    """
    counted = [run for run in runs if run.counts and run.clock == "virtual"]

    def of_all(words: Callable[[Mapping[str, Any]], str]) -> list[str]:
        found = {words(dict(run.settings)) for run in counted}
        return list(found - {""}) if len(found) == 1 else []

    costs = {run.syscall_cost_us for run in counted}
    return [
        *of_all(cpus_words),
        *(f"{cost:g} µs per system call" for cost in costs if len(costs) == 1),
        *of_all(
            lambda asked: (
                f"{float(asked['packet_cost_ns']) / 1000:g} µs per packet"
                if asked.get("packet_cost_ns")
                else ""
            )
        ),
        *of_all(
            lambda asked: (
                "interrupts moderated"
                if asked.get("receive") == "moderated"
                else "an interrupt per packet"
            )
        ),
    ]


def cpus_words(asked: Mapping[str, Any]) -> str:
    """How many CPUs the hosts have."""
    count = int(asked.get("host_cpus") or 0)
    if not count:
        return "one CPU for all hosts"
    others = [
        f"{name.partition('.')[2]} {value}"
        for name, value in asked.items()
        if name.startswith("cpus_by_host.")
    ]
    said = f"{count} CPU{'' if count == 1 else 's'} per host"
    return f"{said} ({', '.join(others)})" if others else said
