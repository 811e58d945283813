"""The report's sentences, each computed from the runs; none is written beforehand.

They are of five kinds, each made by one template: how much one thing carries of another
(`compare`), from where to where cells go (`span`), between which levels a line falls below
something (`crossing`), that nothing changes (`compare`, `lever_words` of plain) and in which of how
many cells something holds (`in_cells`). A number stands with its interval, where there is one, and
with how many runs it rests on.
"""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from gostlab.analysis.load.json_safe import optional_number
from gostlab.analysis.load.run_folder import IDLE_SHARE_LOW, LINK_SHARE_FULL, RunFolder
from gostlab.analysis.plotting.factors import ccs_of
from gostlab.analysis.plotting.plot import PlotFinding, Sweep, told, valid_rows
from gostlab.analysis.stats.cells import (
    TUNNEL_ORDER,
    Cell,
    MatrixResults,
    drop_factor,
    pairs_of,
    rank,
    row_of,
    spoken_order,
)
from gostlab.analysis.stats.metrics import wan_share
from gostlab.analysis.stats.statistics import Summary, is_known, paired_ratio
from gostlab.analysis.stats.text_table import (
    NBSP,
    cc_name,
    count_of,
    per_mille,
    percent,
    rate,
    ratio,
)
from gostlab.results.metrics import are_identical, identical_words

# Two goodputs this close are called the same: about what separates the thesis's own ws and wss
# rows.
NEAR = 0.05
# A rate that changes by less than this over a sweep does not depend on what was swept.
UNMOVED = 0.10
DIRECT = "direct"
# What stands before a level that begins a place, where it is neither "at" a number nor "with".
BEFORE = {
    "profile": "on",
    "tunnel": "through",
    "topology": "in a",
    "queue": "behind a",
    "aqm": "behind a",
}


# -- from where to where


def span(
    rows: pd.DataFrame,
    figure: str,
    what: str,
    show: Callable[[float], str] = rate,
    unit: str = "",
    where: Callable[[pd.Series], str] = lambda row: str(row["cell"]),
) -> str:
    """From the least to the greatest over some cells, and where each is; "" where none knows it."""
    known = rows[rows[figure].notna()]
    if known.empty:
        return ""
    ends = [known.iloc[int(find(known[figure].to_numpy(float)))] for find in (np.argmin, np.argmax)]
    low, high = (f"{show(end[figure])}{unit}" for end in ends)
    if len(known) == 1:
        return f"{what} is {low} ({where(ends[0])})."
    if low == high:
        return f"{what} is {low} in all {len(known)} cells."
    places = [where(end) for end in ends]
    return f"{what} goes from {low} ({places[0]}) to {high} ({places[1]}) over {len(known)} cells."


# -- where something is crossed


def crossing(points: Sequence[tuple[str, float]], who: str, goal: str, goal_mbit: float) -> str:
    """Between which neighbours of a line (the words of each level, and Mbit/s there) it falls below
    a goal; that it never does, or is below from the first on.
    """
    said = [f"{words} ({rate(mbit)} Mbit/s)" for words, mbit in points]
    below = next((at for at, (_, mbit) in enumerate(points) if mbit < goal_mbit), None)
    if below is None:
        return f"{who} stays above {goal} up to the last tried, {said[-1]}."
    end = "" if below == len(points) - 1 else f"; the last tried is {said[-1]}"
    if below == 0:
        return f"{who} is below {goal} already at the first tried, {said[0]}{end}."
    return f"{who} falls below {goal} between {said[below - 1]} and {said[below]}{end}."


# -- in which of how many


def in_cells(some: int, of: int, what: str = "cells") -> str:
    """Of how many, where there are several: in 2 of 4 cells, in both cells, in all 4 cells."""
    if of == 1:
        return ""
    if some == of:
        return f" in both {what}" if of == 2 else f" in all {of} {what}"
    return f" in {some or 'none'} of {of} {what}"


# -- one against the other


def others_against_base(table: pd.DataFrame) -> list[tuple[str, str]]:
    """(base, other) for every control but the base: CUBIC where it ran, else the first."""
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
        place = drop_factor(first, "cc")
        plain = by_streams and {name for name, _ in place.factors} <= {"tunnel", "streams"}
        lead = next(iter(spoken_order(place.factors)), "")
        found.append(
            Gain(
                first.example.tunnel if plain else "",
                count_of(first.example.streams, "stream") if plain else place.label if lead else "",
                times,
                study[1] / study[0] if all(map(is_known, study)) else None,
                first.cpu_bound or second.cpu_bound,
                "streams" if plain else lead,
            )
        )
    return found


def comparisons(
    sweep: Sweep, table: pd.DataFrame, *, by_streams: bool = False
) -> Iterator[PlotFinding]:
    """Every other congestion control against the base: first the answer in one sentence, then each
    tunnel's ratios with the study's beside.
    """
    for base, versus in others_against_base(valid_rows(table)):
        gains = gains_of(sweep.matrix, table, base, versus, by_streams=by_streams)
        names, called = (cc_name(base), cc_name(versus)), sweep.study.called
        none_yet = "No pair of runs with the same seed yet."
        said = [compare(gains, *names, called) if gains else none_yet]
        groups = {gain.group for gain in gains}
        for group in sorted(groups, key=lambda name: rank(name, TUNNEL_ORDER)):
            parts = [gain_words(gain, called) for gain in gains if gain.group == group]
            head = f"{group}, {names[1]}" if group else names[1]
            said.append(f"{head} as a multiple of {names[0]}: {', '.join(parts)}.")
        coverages = [gain.times.interval.coverage for gain in gains if gain.times.interval]
        if coverages:
            said.append(
                "The intervals are of the median over pairs of runs with the same seed and cover it"
                f" with at least {100 * min(coverages):.1f}{NBSP}%."
            )
        yield PlotFinding(f"{names[1]} against {names[0]}", tuple(said))


def compare(gains: Sequence[Gain], base: str, versus: str, called: str) -> str:
    """Whether a congestion control gains over another: at the place that says most, and in how many
    of all. Those that the CPU decided are set aside.
    """
    fair = [gain for gain in gains if not gain.cpu_bound]
    if not fair:
        return (
            f"Nothing here compares {versus} with {base}: in every cell with both the CPU decided."
        )
    shown, ratios = featured(fair), [gain.times.median for gain in fair]
    said = f"{gain_claim(shown, base, versus)} ({evidence(shown, called, multiple)})"
    if len(fair) > 1:
        some = (
            (word, "all" if n == len(fair) else n) for word, n in more_or_less(ratios).items() if n
        )
        counts = listed([f"{word} in {number}" for word, number in some])
        ends = f"{multiple(min(ratios))} to {multiple(max(ratios))} times"
        said += f"; of the {len(fair)} conditions it carries {counts} ({ends})"
    aside = len(gains) - len(fair)
    those = count_of(aside, "condition is", "conditions are")
    return f"{said}." + (f" {those} set aside: the CPU decided there." if aside else "")


def gain_claim(gain: Gain, base: str, versus: str) -> str:
    """How much a congestion control carries of another at one place."""
    place = f"{gain.group} {gain.place}".strip()
    where = f" {where_words(place, 'tunnel' if gain.group else gain.lead)}" if place else ""
    times = multiple(gain.times.median)
    if abs(gain.times.median - 1) <= NEAR:
        return f"{versus} gains nothing{where}: {times} times {base}"
    return f"{versus} carries {times} times what {base} does{where}"


def gain_claims(gains: Sequence[Gain], base: str, versus: str) -> Iterator[str]:
    """The same of the place that says most, with and without in how many of all it carries more."""
    fair = [gain for gain in gains if not gain.cpu_bound]
    if not fair:
        return
    claim = gain_claim(featured(fair), base, versus)
    more = more_or_less([gain.times.median for gain in fair])["more"]
    if len(fair) > 1:
        yield f"{claim}, and more in {more or 'none'} of {len(fair)} conditions"
    yield claim


def more_or_less(ratios: Sequence[float]) -> dict[str, int]:
    """In how many places it is more, as much and less."""
    more = sum(each > 1 + NEAR for each in ratios)
    less = sum(each < 1 - NEAR for each in ratios)
    return {"more": more, "as much": len(ratios) - more - less, "less": less}


def featured(gains: Sequence[Gain]) -> Gain:
    """The place to name: where the study's own ratio is furthest from 1, else the lab's."""

    def far(value: float | None) -> float:
        return abs(float(np.log(max(value or 1.0, 1e-9))))

    published = [gain for gain in gains if far(gain.study) > NEAR]
    return max(
        published or gains, key=lambda gain: far(gain.study if published else gain.times.median)
    )


def gain_words(gain: Gain, called: str) -> str:
    """One ratio, what it rests on, the study's."""
    where = f" at {gain.place}" if gain.place else ""
    bound = "; CPU-bound" if gain.cpu_bound else ""
    return f"{ratio(gain.times.median)}{where} ({evidence(gain, called, ratio)}{bound})"


def evidence(gain: Gain, called: str, show: Callable[[float], str]) -> str:
    """What a ratio rests on, and the study's own."""
    study = "" if gain.study is None else f"; {called}: {show(gain.study)}"
    return rests_on(gain.times, show) + study


# -- how numbers and places are written


def multiple(times: float) -> str:
    """How many times: 0.99, 5.44, 12.7, 307."""
    return ratio(times) if times < 10 else rate(times)


def whole_percent(share: float) -> str:
    return f"{100 * share:g}{NBSP}%"


def percent_or(value: float | None) -> str:
    """A share, or that it is not known."""
    return percent(value) if is_known(value) else "unknown"


def listed(words: Sequence[str], most: int = 99) -> str:
    """a; a and b; a, b and c; of very many so many, and how many more."""
    if len(words) > most:
        return f"{', '.join(words[:most])} and {len(words) - most} more"
    return " and ".join([*([", ".join(words[:-1])] if words[:-1] else []), *words[-1:]])


def rests_on(summary: Summary, show: Callable[[float], str] = rate, *cells: Cell) -> str:
    """The interval, if there is one, how many runs, and whether something spoilt them."""
    found, same = summary.interval, are_identical(summary.values)
    ends = f"{show(found.low)} to {show(found.high)}, " if found else ""
    counted = identical_words(summary.n) if same else n_words(summary.n)
    return f"{ends}{counted}{degraded_words(cells)}"


def n_words(*counts: int) -> str:
    """n = 3, or n = 3 and 6."""
    each = sorted(set(counts))
    return f"n{NBSP}={NBSP}" + (f"{each[0]}" if len(each) == 1 else f"{each[0]} and {each[-1]}")


def degraded_words(cells: Sequence[Cell]) -> str:
    """That something besides the network had a say in one of them."""
    spoilt = sum(cell.verdict == "degraded" for cell in cells)
    if not spoilt:
        return ""
    return ", degraded" if spoilt == len(cells) else f", {spoilt} of {len(cells)} degraded"


def article(words: str) -> str:
    """a fifo queue; an fq_codel queue, as its letters are spoken."""
    return f"an {words}" if re.match(r"[aeio]|fq", words) else f"a {words}"


def where_words(place: str, lead: str) -> str:
    """A place with what stands before it: at 16 streams, through gost+ws, with ECN on.

    lead: the factor whose level it begins with.
    """
    if lead == "tunnel" and re.match(rf"{DIRECT}\b", place):
        return f"without a tunnel{place.removeprefix(DIRECT)}"
    before = BEFORE.get(lead) or ("at" if place[:1].isdigit() else "with")
    if before.endswith(" a"):
        return f"{before.removesuffix(' a')} {article(place)}"
    return f"{before} {place}"


def cell_words(row: pd.Series, table: pd.DataFrame) -> str:
    """A cell in a few words, as many as tell it from the table's others."""
    if table.duplicated(["cc", "tunnel", "streams"]).any():
        return str(row["cell"])
    return f"{cc_name(row['cc'])} {row['tunnel']} {count_of(row['streams'], 'stream')}"


# -- of any matrix


def agreement(table: pd.DataFrame, called: str) -> tuple[str, ...]:
    """How many cells meet the study's goodput, and the one furthest off on either side."""
    rows = table[table["ratio"].notna()]
    if rows.empty:
        return ()
    near = int(((rows["ratio"] - 1).abs() <= 2 * NEAR).sum())
    said = [
        f"Of {count_of(len(rows), 'cell')} with a value in the {called}, {near or 'none'}"
        f" {'is' if near < 2 else 'are'} within {whole_percent(2 * NEAR)} of it."
    ]
    ratios = rows["ratio"]
    for words, at in (("below", ratios.idxmin()), ("above", ratios.idxmax())):
        row = rows.loc[at]
        if abs(row["ratio"] - 1) > 2 * NEAR and (row["ratio"] < 1) == (words == "below"):
            said.append(
                f"Furthest {words}: {cell_words(row, table)}: lab {rate(row['goodput'])}, {called}"
                f" {rate(row['goodput_study'])} Mbit/s ({ratio(row['ratio'])}; CPU idle"
                f" {percent_or(row['idle_share'])})."
            )
    return tuple(said)


def cpu_decided(table: pd.DataFrame, title: str) -> tuple[str, ...]:
    """The cells in which a CPU had no time left while the bottleneck had room: the busiest host's,
    or the one that all hosts share.

    title: what the cells are; the sentence names it, for another matrix of the experiment may have
    had less time.
    """
    known = table[table["idle_share"].notna()]
    if known.empty:
        return ()
    bound = known[known["cpu_bound"] > 0]
    full, cells = whole_percent(LINK_SHARE_FULL), count_of(len(known), "cell")
    said = f"A CPU decided in {len(bound) or 'none'} of the {cells} of “{title}”"
    if len(bound):
        rows = (row for _, row in bound.iterrows())
        named = [f"{cell_words(row, table)} ({percent(row['idle_share'])} idle)" for row in rows]
        why = f"less than {whole_percent(IDLE_SHARE_LOW)} idle in its median second while the"
        why += f" bottleneck was less than {full} full, it set the rate: {listed(named, 8)}"
    else:
        least = known.loc[known["idle_share"].idxmin()]
        why = f"the busiest was idle for at least {percent(least['idle_share'])} of its median"
        why += f" second ({cell_words(least, table)})"
        if least["idle_share"] < IDLE_SHARE_LOW:
            why += f", and where that is too little the bottleneck was at least {full} full"
    return (f"{said}: {why}.",)


def retransmission_answers(runs: Sequence[RunFolder]) -> list[PlotFinding]:
    """What iperf3's Retr counted in a tunnel, and what the WAN lost."""
    counts = ((run.retr, run.retransmitted("app"), run) for run in runs if run.counts)
    tunnelled = [
        (retr, app, run) for retr, app, run in counts if retr is not None and app is not None
    ]
    if not tunnelled:
        return []
    alike = sum(abs(retr - app) <= max(2.0, 0.05 * retr) for retr, app, _ in tunnelled)
    said = [
        f"In {alike} of {len(tunnelled)} runs through a tunnel iperf3's Retr equals (to"
        f" 5{NBSP}%) what the loopback connection between iperf3 and the tunnel's near end sent"
        " again."
    ]
    seen = [(retr, run) for retr, _, run in tunnelled if run.retransmitted("wan") is not None]
    clean = [retr for retr, run in seen if run.retransmitted("wan") == 0]
    shares = [wan_share(run) for _, run in seen if run.retransmitted("wan")]
    lost = sorted(share for share in shares if share is not None)
    if clean:
        said.append(
            f"In {len(clean)} of {len(seen)} the WAN leg sent nothing again; in"
            f" {sum(retr > 0 for retr in clean)} of these Retr is above zero all the same."
        )
    if lost:
        said.append(
            f"In {len(seen) - len(clean)} of {len(seen)} the WAN leg sent something again:"
            f" {per_mille(lost[0])} to {per_mille(lost[-1])} of its segments."
        )
    return [PlotFinding("What iperf3's Retr says", tuple(said))]


def convergence_sentences(sweep: Sweep, table: pd.DataFrame) -> Iterable[str]:
    """How soon shares are fair, or a rate has settled; how many runs never got there."""
    table = valid_rows(table)
    could = table[table["convergence_s"].notna() | (table["never_converged"] > 0)]
    never, of = int(could["never_converged"].sum()), int(could["n"].sum())
    said = [span(could, "convergence_s", "The time to settle (median)", unit=" s")]
    if never:
        those = "; the medians are of those that do" if said[0] else ""
        said.append(f"{never} of {of} runs never settle{those}.")
    return filter(None, said)


convergence = told("{title}: how soon it settles", convergence_sentences)


def in_general(sweep: Sweep, table: pd.DataFrame) -> Iterator[PlotFinding]:
    """Of any matrix: how far its cells lie apart, its congestion controls against each other, how
    many cells meet the study's value, where the CPU decided.
    """
    valid = valid_rows(table)
    if valid.empty:
        return
    if len(valid) == 1:
        row = valid.iloc[0]
        alone = f"{row['cell']}: {rate(row['goodput'])} Mbit/s (n = {row['n']:g})."
        yield PlotFinding(sweep.title, (alone,))
        return
    said = [span(valid, "goodput", "Goodput", unit=" Mbit/s")]
    for compared in comparisons(sweep, table):
        said += compared.sentences
    if valid["goodput_study"].notna().any():
        said += agreement(valid, sweep.study.called)
    yield PlotFinding(sweep.title, (*said, *cpu_decided(valid, sweep.title)))


# -- what made the numbers

RECEIVING = ("an interrupt per packet", "interrupts moderated")  # moderated: the second


def made_by_line(runs: Sequence[RunFolder]) -> str:
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


def machine_words(runs: Sequence[RunFolder]) -> list[str]:
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
        *of_all(packet_words),
        *of_all(lambda asked: RECEIVING[asked.get("receive") == "moderated"]),
    ]


def packet_words(asked: Mapping[str, Any]) -> str:
    cost_ns = optional_number(asked, "packet_cost_ns")
    return f"{cost_ns / 1000:g} µs per packet" if cost_ns else ""


def cpus_words(asked: Mapping[str, Any]) -> str:
    count = int(optional_number(asked, "host_cpus") or 0)
    if not count:
        return "one CPU for all hosts"
    others = [
        f"{name.partition('.')[2]} {value}"
        for name, value in asked.items()
        if name.startswith("cpus_by_host.")
    ]
    said = f"{count_of(count, 'CPU')} per host"
    if share := optional_number(asked, "cpu_share_permille"):
        said += f" with the time of {share / 1000:g}"
    return f"{said} ({', '.join(others)})" if others else said
