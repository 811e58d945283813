"""Compute the report's sentences from the runs by templates.

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

# Relative difference of equal goodputs: about that of the thesis's ws and wss rows.
NEAR = 0.05
# Relative change of a rate that does not depend on the swept factor.
UNMOVED = 0.10
DIRECT = "direct"
# Prepositions of factors that have neither "at" nor "with".
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
    """Describe the range of a metric over some cells and its ends; "" without values."""
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
    """State between which neighbouring levels a line falls below a goal, or that it does not."""
    labels = [f"{label} ({rate(mbit)} Mbit/s)" for label, mbit in points]
    below = next((at for at, (_, mbit) in enumerate(points) if mbit < goal_mbit), None)
    if below is None:
        return f"{who} stays above {goal} up to the last tried, {labels[-1]}."
    end = "" if below == len(points) - 1 else f"; the last tried is {labels[-1]}"
    if below == 0:
        return f"{who} is below {goal} already at the first tried, {labels[0]}{end}."
    return f"{who} falls below {goal} between {labels[below - 1]} and {labels[below]}{end}."


# -- in which of how many


def in_cells(some: int, of: int, what: str = "cells") -> str:
    """Format a part of a count: in 2 of 4 cells, in both cells, in all 4 cells."""
    if of == 1:
        return ""
    if some == of:
        return f" in both {what}" if of == 2 else f" in all {of} {what}"
    return f" in {some or 'none'} of {of} {what}"


# -- one against the other


def others_against_base(table: pd.DataFrame) -> list[tuple[str, str]]:
    """Return (base, other) for every control but the base: CUBIC, or the first."""
    ccs = ccs_of(table)
    base = "cubic" if "cubic" in ccs else next(iter(ccs), "")
    return [(base, cc) for cc in ccs if cc != base]


@dataclass(frozen=True)
class Gain:
    """The goodput ratio of two congestion controls at the same levels."""

    group: str  # key of a common sentence: a tunnel
    place: str  # location: 16 streams
    times: Summary  # summary of the pairs' ratios
    study: float | None
    cpu_bound: bool
    lead: str = ""  # factor of the first level in `place`


def gains_of(
    matrix: MatrixResults, table: pd.DataFrame, base: str, versus: str, *, by_streams: bool
) -> list[Gain]:
    """Return the gains of all locations where both have a run of the same seed.

    by_streams: tunnel and number of streams identify the location.
    """
    gains = []
    for first, second in pairs_of(matrix.cells, base, versus):
        times = paired_ratio(first.by_seed(), second.by_seed())
        if times is None:
            continue
        study = [row_of(table, cell)["goodput_study"] for cell in (first, second)]
        location = drop_factor(first, "cc")
        only_streams = by_streams and {name for name, _ in location.factors} <= {
            "tunnel",
            "streams",
        }
        lead = next(iter(spoken_order(location.factors)), "")
        gains.append(
            Gain(
                first.example.tunnel if only_streams else "",
                count_of(first.example.streams, "stream")
                if only_streams
                else location.label
                if lead
                else "",
                times,
                study[1] / study[0] if all(map(is_known, study)) else None,
                first.cpu_bound or second.cpu_bound,
                "streams" if only_streams else lead,
            )
        )
    return gains


def comparisons(
    sweep: Sweep, table: pd.DataFrame, *, by_streams: bool = False
) -> Iterator[PlotFinding]:
    """Yield a comparison of each congestion control with the base.

    It starts with a one-sentence answer, followed by each tunnel's ratios and the study's.
    """
    for base, versus in others_against_base(valid_rows(table)):
        gains = gains_of(sweep.matrix, table, base, versus, by_streams=by_streams)
        names, called = (cc_name(base), cc_name(versus)), sweep.study.called
        none_yet = "No pair of runs with the same seed yet."
        texts = [compare(gains, *names, called) if gains else none_yet]
        groups = {gain.group for gain in gains}
        for group in sorted(groups, key=lambda name: rank(name, TUNNEL_ORDER)):
            parts = [gain_words(gain, called) for gain in gains if gain.group == group]
            head = f"{group}, {names[1]}" if group else names[1]
            texts.append(f"{head} as a multiple of {names[0]}: {', '.join(parts)}.")
        coverages = [gain.times.interval.coverage for gain in gains if gain.times.interval]
        if coverages:
            texts.append(
                "The intervals are of the median over pairs of runs with the same seed and cover it"
                f" with at least {100 * min(coverages):.1f}{NBSP}%."
            )
        yield PlotFinding(f"{names[1]} against {names[0]}", tuple(texts))


def compare(gains: Sequence[Gain], base: str, versus: str, called: str) -> str:
    """State whether a congestion control gains over another, and in how many conditions.

    CPU-bound conditions are set aside.
    """
    fair = [gain for gain in gains if not gain.cpu_bound]
    if not fair:
        return (
            f"Nothing here compares {versus} with {base}: in every cell with both the CPU decided."
        )
    best, ratios = featured(fair), [gain.times.median for gain in fair]
    text = f"{gain_claim(best, base, versus)} ({evidence(best, called, multiple)})"
    if len(fair) > 1:
        some = (
            (word, "all" if n == len(fair) else n) for word, n in more_or_less(ratios).items() if n
        )
        counts = listed([f"{word} in {number}" for word, number in some])
        ends = f"{multiple(min(ratios))} to {multiple(max(ratios))} times"
        text += f"; of the {len(fair)} conditions it carries {counts} ({ends})"
    aside = len(gains) - len(fair)
    those = count_of(aside, "condition is", "conditions are")
    return f"{text}." + (f" {those} set aside: the CPU decided there." if aside else "")


def gain_claim(gain: Gain, base: str, versus: str) -> str:
    """State the ratio of two congestion controls' goodputs at one location."""
    location = f"{gain.group} {gain.place}".strip()
    where = f" {where_words(location, 'tunnel' if gain.group else gain.lead)}" if location else ""
    times = multiple(gain.times.median)
    if abs(gain.times.median - 1) <= NEAR:
        return f"{versus} gains nothing{where}: {times} times {base}"
    return f"{versus} carries {times} times what {base} does{where}"


def gain_claims(gains: Sequence[Gain], base: str, versus: str) -> Iterator[str]:
    """Yield the claim on the featured location, with and without the number of gains."""
    fair = [gain for gain in gains if not gain.cpu_bound]
    if not fair:
        return
    claim = gain_claim(featured(fair), base, versus)
    more = more_or_less([gain.times.median for gain in fair])["more"]
    if len(fair) > 1:
        yield f"{claim}, and more in {more or 'none'} of {len(fair)} conditions"
    yield claim


def more_or_less(ratios: Sequence[float]) -> dict[str, int]:
    """Count the ratios that are more, as much and less."""
    more = sum(value > 1 + NEAR for value in ratios)
    less = sum(value < 1 - NEAR for value in ratios)
    return {"more": more, "as much": len(ratios) - more - less, "less": less}


def featured(gains: Sequence[Gain]) -> Gain:
    """Return the gain to name: where the study's ratio, or else the lab's, is furthest from 1."""

    def far(value: float | None) -> float:
        return abs(float(np.log(max(value or 1.0, 1e-9))))

    published = [gain for gain in gains if far(gain.study) > NEAR]
    return max(
        published or gains, key=lambda gain: far(gain.study if published else gain.times.median)
    )


def gain_words(gain: Gain, called: str) -> str:
    """Format one ratio with its evidence and the study's."""
    where = f" at {gain.place}" if gain.place else ""
    bound = "; CPU-bound" if gain.cpu_bound else ""
    return f"{ratio(gain.times.median)}{where} ({evidence(gain, called, ratio)}{bound})"


def evidence(gain: Gain, called: str, show: Callable[[float], str]) -> str:
    """Format the evidence of a ratio, and the study's ratio."""
    study = "" if gain.study is None else f"; {called}: {show(gain.study)}"
    return rests_on(gain.times, show) + study


# -- how numbers and places are written


def multiple(times: float) -> str:
    """Format a ratio: 0.99, 5.44, 12.7, 307."""
    return ratio(times) if times < 10 else rate(times)


def whole_percent(share: float) -> str:
    return f"{100 * share:g}{NBSP}%"


def percent_or(value: float | None) -> str:
    """Format a share, or "unknown"."""
    return percent(value) if is_known(value) else "unknown"


def listed(words: Sequence[str], most: int = 99) -> str:
    """Join words: a; a and b; a, b and c; after `most` words the rest is counted."""
    if len(words) > most:
        return f"{', '.join(words[:most])} and {len(words) - most} more"
    return " and ".join([*([", ".join(words[:-1])] if words[:-1] else []), *words[-1:]])


def rests_on(summary: Summary, show: Callable[[float], str] = rate, *cells: Cell) -> str:
    """Format the interval, the number of runs, and degraded cells."""
    interval, same = summary.interval, are_identical(summary.values)
    ends = f"{show(interval.low)} to {show(interval.high)}, " if interval else ""
    counted = identical_words(summary.n) if same else n_words(summary.n)
    return f"{ends}{counted}{degraded_words(cells)}"


def n_words(*counts: int) -> str:
    """Format numbers of runs: n = 3, or n = 3 and 6."""
    values = sorted(set(counts))
    return f"n{NBSP}={NBSP}" + (
        f"{values[0]}" if len(values) == 1 else f"{values[0]} and {values[-1]}"
    )


def degraded_words(cells: Sequence[Cell]) -> str:
    """State how many cells are degraded; "" for none."""
    spoilt = sum(cell.verdict == "degraded" for cell in cells)
    if not spoilt:
        return ""
    return ", degraded" if spoilt == len(cells) else f", {spoilt} of {len(cells)} degraded"


def article(words: str) -> str:
    """Add an article: a fifo queue; an fq_codel queue, as its letters are spoken."""
    return f"an {words}" if re.match(r"[aeio]|fq", words) else f"a {words}"


def where_words(place: str, lead: str) -> str:
    """Add a preposition: at 16 streams, through gost+ws, with ECN on.

    lead: the factor of the first level.
    """
    if lead == "tunnel" and re.match(rf"{DIRECT}\b", place):
        return f"without a tunnel{place.removeprefix(DIRECT)}"
    before = BEFORE.get(lead) or ("at" if place[:1].isdigit() else "with")
    if before.endswith(" a"):
        return f"{before.removesuffix(' a')} {article(place)}"
    return f"{before} {place}"


def cell_words(row: pd.Series, table: pd.DataFrame) -> str:
    """Format a cell as briefly as the table's other cells allow."""
    if table.duplicated(["cc", "tunnel", "streams"]).any():
        return str(row["cell"])
    return f"{cc_name(row['cc'])} {row['tunnel']} {count_of(row['streams'], 'stream')}"


# -- of any matrix


def agreement(table: pd.DataFrame, called: str) -> tuple[str, ...]:
    """Count the cells that agree with the study's goodput, and name the extremes."""
    rows = table[table["ratio"].notna()]
    if rows.empty:
        return ()
    near = int(((rows["ratio"] - 1).abs() <= 2 * NEAR).sum())
    texts = [
        f"Of {count_of(len(rows), 'cell')} with a value in the {called}, {near or 'none'}"
        f" {'is' if near < 2 else 'are'} within {whole_percent(2 * NEAR)} of it."
    ]
    ratios = rows["ratio"]
    for side, at in (("below", ratios.idxmin()), ("above", ratios.idxmax())):
        row = rows.loc[at]
        if abs(row["ratio"] - 1) > 2 * NEAR and (row["ratio"] < 1) == (side == "below"):
            texts.append(
                f"Furthest {side}: {cell_words(row, table)}: lab {rate(row['goodput'])}, {called}"
                f" {rate(row['goodput_study'])} Mbit/s ({ratio(row['ratio'])}; CPU idle"
                f" {percent_or(row['idle_share'])})."
            )
    return tuple(texts)


def cpu_decided(table: pd.DataFrame, title: str) -> tuple[str, ...]:
    """Count the cells that a CPU limited while the bottleneck was not full.

    The CPU is the busiest host's, or the one that all hosts share. title: name of the cells,
    because other matrices of the experiment may differ.
    """
    known = table[table["idle_share"].notna()]
    if known.empty:
        return ()
    bound = known[known["cpu_bound"] > 0]
    full, cells = whole_percent(LINK_SHARE_FULL), count_of(len(known), "cell")
    text = f"A CPU decided in {len(bound) or 'none'} of the {cells} of “{title}”"
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
    return (f"{text}: {why}.",)


def retransmission_answers(runs: Sequence[RunFolder]) -> list[PlotFinding]:
    """Compare iperf3's Retr in a tunnel with the retransmissions of each leg."""
    counts = ((run.retr, run.retransmitted("app"), run) for run in runs if run.counts)
    tunnelled = [
        (retr, app, run) for retr, app, run in counts if retr is not None and app is not None
    ]
    if not tunnelled:
        return []
    alike = sum(abs(retr - app) <= max(2.0, 0.05 * retr) for retr, app, _ in tunnelled)
    texts = [
        f"In {alike} of {len(tunnelled)} runs through a tunnel iperf3's Retr equals (to"
        f" 5{NBSP}%) what the loopback connection between iperf3 and the tunnel's near end sent"
        " again."
    ]
    seen = [(retr, run) for retr, _, run in tunnelled if run.retransmitted("wan") is not None]
    clean = [retr for retr, run in seen if run.retransmitted("wan") == 0]
    shares = [wan_share(run) for _, run in seen if run.retransmitted("wan")]
    lost = sorted(share for share in shares if share is not None)
    if clean:
        texts.append(
            f"In {len(clean)} of {len(seen)} the WAN leg sent nothing again; in"
            f" {sum(retr > 0 for retr in clean)} of these Retr is above zero all the same."
        )
    if lost:
        texts.append(
            f"In {len(seen) - len(clean)} of {len(seen)} the WAN leg sent something again:"
            f" {per_mille(lost[0])} to {per_mille(lost[-1])} of its segments."
        )
    return [PlotFinding("What iperf3's Retr says", tuple(texts))]


def convergence_sentences(sweep: Sweep, table: pd.DataFrame) -> Iterable[str]:
    """State how fast shares converge or a rate settles, and how many runs never do."""
    table = valid_rows(table)
    could = table[table["convergence_s"].notna() | (table["never_converged"] > 0)]
    never, of = int(could["never_converged"].sum()), int(could["n"].sum())
    texts = [span(could, "convergence_s", "The time to settle (median)", unit=" s")]
    if never:
        those = "; the medians are of those that do" if texts[0] else ""
        texts.append(f"{never} of {of} runs never settle{those}.")
    return filter(None, texts)


convergence = told("{title}: how soon it settles", convergence_sentences)


def in_general(sweep: Sweep, table: pd.DataFrame) -> Iterator[PlotFinding]:
    """Yield the general findings of any matrix.

    These are the range of its cells, comparisons of congestion controls, agreement with the study,
    and CPU-bound cells.
    """
    valid = valid_rows(table)
    if valid.empty:
        return
    if len(valid) == 1:
        row = valid.iloc[0]
        alone = f"{row['cell']}: {rate(row['goodput'])} Mbit/s (n = {row['n']:g})."
        yield PlotFinding(sweep.title, (alone,))
        return
    texts = [span(valid, "goodput", "Goodput", unit=" Mbit/s")]
    for compared in comparisons(sweep, table):
        texts += compared.sentences
    if valid["goodput_study"].notna().any():
        texts += agreement(valid, sweep.study.called)
    yield PlotFinding(sweep.title, (*texts, *cpu_decided(valid, sweep.title)))


# -- what made the numbers

RECEIVING = ("an interrupt per packet", "interrupts moderated")  # [moderated]


def made_by_line(runs: Sequence[RunFolder]) -> str:
    """State the software that produced some runs, in one line."""
    environments = [run.environment for run in runs if run.environment is not None and run.counts]
    if not environments:
        return ""

    def named(head: str, values: set[str]) -> str:
        return f"{head}{' / '.join(sorted(values))}"

    synthetic = (
        "FIXTURE, NOT MEASURED · "
        if any(environment.synthetic for environment in environments)
        else ""
    )
    tunnels = {
        environment.tunnel for environment in environments if environment.tunnel_kind != "none"
    }
    parts = [
        named("tunnel: ", tunnels) if tunnels else "no tunnel",
        named(
            "Linux ",
            {f"{environment.kernel} (HZ {environment.hz})" for environment in environments},
        ),
        ", ".join(
            [
                named("", {f"{environment.clock} clock" for environment in environments}),
                *machine_words(runs),
            ]
        ),
        named("iperf3 ", {environment.iperf3 for environment in environments}),
        named("lab ", {environment.lab for environment in environments}),
    ]
    return synthetic + " · ".join(parts)


def machine_words(runs: Sequence[RunFolder]) -> list[str]:
    """Describe hosts on the virtual clock: CPUs, cost of a system call and of a packet.

    The kind of interrupts follows. Requests that differ between runs are omitted.
    """
    counted = [run for run in runs if run.counts and run.clock == "virtual"]

    def of_all(words: Callable[[Mapping[str, Any]], str]) -> list[str]:
        texts = {words(dict(run.settings)) for run in counted}
        return list(texts - {""}) if len(texts) == 1 else []

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
    text = f"{count_of(count, 'CPU')} per host"
    if share := optional_number(asked, "cpu_share_permille"):
        text += f" with the time of {share / 1000:g}"
    return f"{text} ({', '.join(others)})" if others else text
