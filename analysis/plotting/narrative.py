"""Write summary sentences on a matrix's numbers.

Each is computed from the runs alone and states its number, its interval if there is one, and the
number of runs. The numbers select the cells that it names: those where the study has the greatest
effect, or where the lab's cells differ most.
"""

import math
import re
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from gostlab.analysis.load.json_safe import Scalar
from gostlab.analysis.load.published import TOLERANCE, TOLERANCE_FACTORS, level
from gostlab.analysis.plotting.plot import Sweep, valid_rows
from gostlab.analysis.plotting.sentences import (
    BEFORE,
    DIRECT,
    NEAR,
    UNMOVED,
    article,
    compare,
    degraded_words,
    featured,
    gain_claims,
    gains_of,
    listed,
    multiple,
    n_words,
    others_against_base,
    rests_on,
    where_words,
    whole_percent,
)
from gostlab.analysis.stats.cells import Cell, natural, spoken_order
from gostlab.analysis.stats.published_targets import (
    AGREES,
    DISAGREES,
    JUDGED,
    ONE_OF,
    Target,
    counted_verdict,
)
from gostlab.analysis.stats.statistics import Summary
from gostlab.analysis.stats.text_table import NBSP, cc_name, percent, rate
from gostlab.results.metrics import states_words
from gostlab.spec.labels import level_words, names_cc_end

Factors = tuple[tuple[str, Scalar], ...]
Measured = tuple[Summary, Cell]

# Minimum ratio of different RTTs.
LONGER = 1.2
MAX_SAID = 3  # maximum sentences of one section
MAX_WORDS = 25  # maximum words of an answer
# A matrix with so many tunnels or kernels compares them.
COMPARED, MIN_COMPARED = ("tunnel", "kernel"), 4
# Levels form two groups if the goodputs of each are within the ratio ALIKE, and the groups differ
# by more than APART.
ALIKE, APART = 1.2, 1.5


@dataclass(frozen=True)
class GeneratedSentence:
    """A sentence and its topic."""

    sentence: str
    about: str  # topic: own, tunnels, ccs, share, lever or delay
    size: float = 0.0  # size of the effect: |ln ratio|
    claims: tuple[str, ...] = ()  # versions without evidence, longest first
    spread: str = ""  # range of the runs that it rests on

    @property
    def claim(self) -> str:
        """Return the longest version that fits an answer, without a full stop."""
        return fitting(*self.claims, IN_BRACKETS.sub("", self.sentence).rstrip("."))


# Intervals and numbers of runs.
IN_BRACKETS = re.compile(r" \((?:\d[^()]* to |n\b)[^()]*\)|; n\b[^()]*(?=\))")


def least_to_most(*cells: Sequence[float], show: Callable[[float], str] = rate) -> str:
    """Format the ranges of some cells' runs; "" if one has a single run."""
    if any(len(values) < 2 for values in cells):
        return ""
    spans = (dict.fromkeys((show(min(values)), show(max(values)))) for values in cells)
    return " and ".join(" to ".join(span) for span in spans)


def fitting(*claims: str) -> str:
    """Return the first claim that is short enough, else the beginning of the last."""
    for claim in claims:
        if len(claim.split()) <= MAX_WORDS:
            return claim
    return " ".join(claims[-1].split()[: MAX_WORDS - 1]) + " …"


def section_sentences(sweep: Sweep) -> list[GeneratedSentence]:
    """Return one to three sentences on a matrix; none without counted runs."""
    cells = [cell for cell in sweep.matrix.cells if cell.counted]
    if not cells:
        return []
    if len(cells) == 1:
        return [*share_sentences(cells), *alone(cells[0])]
    results = [*control_sentences(sweep), *share_sentences(cells), *lever_sentences(cells)]
    results = results or [said_of(lever) for lever in levers_of(cells, at_ends=True)][:1]
    if len(results) < MAX_SAID:
        results += delay_sentences(cells)
    return results[:MAX_SAID]


def alone(cell: Cell) -> Iterator[GeneratedSentence]:
    """Describe the only cell.

    Several flows are described by their total while all are active: the mean of each is over its
    own time, and the sum of means may exceed the link.
    """
    several = len(cell.example.competitors) > 1
    goodput = cell.summary("total_mbit" if several else "goodput")
    if goodput is None:
        return
    who = "All flows together carry" if several else "Goodput is"
    levels = f"{cell.label}; " if cell.factors else ""
    claim = f"{who} {carried(goodput)}"
    yield GeneratedSentence(
        f"{claim} ({levels}{rests_on(goodput, rate, cell)}).",
        "lever",
        claims=(claim + location_phrase(cell, but=()), claim),
        spread=least_to_most(goodput.values),
    )


# -- congestion controls against each other


def control_sentences(sweep: Sweep) -> Iterator[GeneratedSentence]:
    """Compare two congestion controls at the strongest condition, or several at the widest gap."""
    table = valid_rows(sweep.table(sweep.matrix.cells, borrows=False))
    pairs = others_against_base(table)
    gains_by_pair = [gains_of(sweep.matrix, table, *pair, by_streams=False) for pair in pairs]
    compared = [item for item in zip(pairs, gains_by_pair, strict=True) if item[1]]
    if len(compared) > 1:
        yield from furthest_apart(sweep.matrix.cells)
        return
    for pair, gains in compared:
        fair = [gain for gain in gains if not gain.cpu_bound]
        ratios = [gain.times.median for gain in fair]
        size = max((abs(math.log(item)) for item in ratios if item > 0), default=0.0)
        names = cc_name(pair[0]), cc_name(pair[1])
        text = compare(gains, *names, sweep.study.called)
        spread = least_to_most(featured(fair).times.values, show=multiple) if fair else ""
        yield GeneratedSentence(text, "ccs", size, tuple(gain_claims(gains, *names)), spread)


def by_place(cells: Sequence[Cell], figure: str) -> list[list[Measured]]:
    """Return the cells of each location with several congestion controls, by rising metric."""
    locations: dict[Any, list[Measured]] = {}
    for cell in cells:
        summary = cell.summary(figure)
        if summary is not None:
            locations.setdefault(cell.but_cc, []).append((summary, cell))
    sorted_places = [
        sorted(summaries, key=lambda pair: pair[0].median) for summaries in locations.values()
    ]
    return [
        summaries
        for summaries in sorted_places
        if len(summaries) > 1 and summaries[0][0].median > 0
    ]


def times_of(found: Sequence[Measured]) -> float:
    """Return the ratio of the greatest to the least value."""
    return found[-1][0].median / found[0][0].median if found[0][0].median else math.inf


def furthest_apart(cells: Sequence[Cell]) -> Iterator[GeneratedSentence]:
    """Describe the location with the widest gap between several congestion controls."""
    several = by_place([cell for cell in cells if not cell.cpu_bound], "goodput")
    if not several:
        return
    widest = max(several, key=times_of)
    best = sorted(widest, key=lambda pair: -pair[0].median)
    where = location_phrase(best[0][1])
    got = [
        f"{cc_name(cell.example.cc)} {carried(summary)}{spread(summary)}" for summary, cell in best
    ]
    (most, first), (least, last) = best[0], best[-1]
    ends = f"{cc_name(first.example.cc)} carries {carried(most)}"
    last_words = f"{cc_name(last.example.cc)} {carried(least)}"
    n = n_words(*(summary.n for summary, _ in best)) + degraded_words([cell for _, cell in best])
    claims = (f"{ends}{where}, and {last_words}, the least of {len(best)}", f"{ends}, {last_words}")
    if times_of(widest) < 1 + NEAR:
        near = whole_percent(NEAR)
        text = f"No congestion control gains:{where} they are within {near} of each other"
        claims = (text, "No congestion control gains")
    elif len(several) > 1:
        text = f"The congestion controls differ most{where}, of {len(several)} conditions"
    else:
        text = f"The congestion controls differ{where}"
    yield GeneratedSentence(
        f"{text}: {listed(got)} ({n}).",
        "ccs",
        math.log(times_of(widest)),
        claims,
        least_to_most(most.values, least.values),
    )


def delay_sentences(cells: Sequence[Cell]) -> Iterator[GeneratedSentence]:
    """Compare the longest RTT under load with another at the same location.

    Nothing if all are similar.
    """
    several = by_place(cells, "srtt_median_ms")
    if not several:
        return
    (short, first), *_, (long, last) = max(several, key=times_of)
    if long.median < LONGER * short.median or first.example.cc == last.example.cc:
        return
    name, other = (cc_name(cell.example.cc) for cell in (last, first))
    most, least = (f"{rate(summary.median)}{NBSP}ms" for summary in (long, short))
    template = f"{name}'s round trip under load is {most}{{}}, {other}'s {least}{{}}"
    ends = template.format("", "")
    yield GeneratedSentence(
        f"{template.format(spread(long), spread(short))}{location_phrase(last)}"
        f" ({n_words(long.n, short.n)}{degraded_words([first, last])}).",
        "delay",
        math.log(long.median / short.median),
        (ends + location_phrase(last), ends),
        least_to_most(long.values, short.values),
    )


# -- what else decides


@dataclass(frozen=True)
class Lever:
    """The effect of one factor's levels on the goodput, with all else equal."""

    factor: str
    others: str  # text of the constant levels
    found: tuple[Measured, ...]  # one per level, by rising goodput

    @property
    def times(self) -> float:
        """Return the ratio of the greatest to the least goodput."""
        return times_of(self.found)

    def levels(self, found: Sequence[Measured]) -> list[Factors]:
        return [whole_factors(cell)[self.factor] for _, cell in found]


def lever_sentences(cells: Sequence[Cell]) -> Iterator[GeneratedSentence]:
    """Describe the factor, except congestion control, with the greatest effect on goodput.

    Before it, compared tunnels or kernels are described, because they are the question. The
    location of a congestion control is a comparison of congestion controls, too.
    """
    levers = list(levers_of(cells))
    if not levers:
        return
    lever = max(levers, key=lambda each: each.times)
    compared = [each for each in levers if is_asked(each)]
    if compared and lever.factor not in COMPARED:
        apart = max(compared, key=lambda each: each.times)
        if apart.times >= 1 + UNMOVED:
            yield said_of(apart)
    yield said_of(lever)


def is_asked(lever: Lever) -> bool:
    """Return whether a factor has so many tunnels or kernels that they are the question."""
    return lever.factor in COMPARED and len(lever.found) >= MIN_COMPARED


def said_of(lever: Lever) -> GeneratedSentence:
    """Describe the effect of a factor."""
    size = math.log(lever.times) if math.isfinite(lever.times) else 99.0
    at_ends = any(
        name != lever.factor for level_pairs in lever.levels(lever.found) for name, _ in level_pairs
    )
    claim, named = lever_claim(lever)
    little, much = lever.found[0], lever.found[-1]
    less, more = (
        where_all([level_said(level_pairs)], lever) for level_pairs in lever.levels([little, much])
    )
    ends = f"{first_up(more)} goodput is {carried(much[0])}, {less} {carried(little[0])}"
    # The constant levels in brackets, if there is space.
    same = f" ({lever.others})" if lever.others else ""
    short = IN_BRACKETS.sub("", claim)
    n = n_words(*(goodput.n for goodput, _ in named)) + degraded_words([cell for _, cell in named])
    return GeneratedSentence(
        f"{claim} ({f'{lever.others}; ' if same else ''}{n}).",
        "ccs" if at_ends else "tunnels" if is_asked(lever) else "lever",
        size,
        (short + same, short, ends + same, ends),
        least_to_most(much[0].values, little[0].values),
    )


def whole_factors(cell: Cell) -> dict[str, Factors]:
    """Return a cell's factors by name; levels at several ends are joined to one factor."""
    factors: dict[str, Factors] = {}
    for name, value in cell.factors:
        head, dot, last = name.partition(".")
        factor = head if dot and names_cc_end(head, last, value) else name
        factors[factor] = (*factors.get(factor, ()), (name, value))
    return factors


def levers_of(cells: Sequence[Cell], *, at_ends: bool = False) -> Iterator[Lever]:
    """Yield each factor's effect at each location with several of its levels.

    at_ends: include congestion controls of ends.
    """
    factors = dict.fromkeys(name for cell in cells for name in whole_factors(cell))
    for factor in factors:
        if factor == "cc" or factor.endswith(".cc"):
            continue
        if factor.startswith("cc.") and not at_ends:
            continue
        groups: dict[Factors, list[Measured]] = {}
        for cell in cells:
            goodput, levels = cell.summary("goodput"), whole_factors(cell)
            own_levels = levels.pop(factor, ())
            rest = tuple(pair for pair in cell.factors if pair not in own_levels)
            if goodput is not None and own_levels:
                groups.setdefault(rest, []).append((goodput, cell))
        for rest, measured in groups.items():
            if len(measured) < 2:
                continue
            measured.sort(key=lambda pair: pair[0].median)
            text = ", ".join(
                level_words(name, value, cc_name) for name, value in spoken_order(rest).items()
            )
            yield Lever(factor, text, tuple(measured))


def lever_claim(lever: Lever) -> tuple[str, Sequence[Measured]]:
    """Return the claim on a factor's effect and the cells that it names.

    Ordered levels are described from low to high; others as those with little against those with
    much goodput, or as the two extremes.
    """
    ends = [lever.found[0], lever.found[-1]]
    levels = lever.levels(ends)
    low, high = (carried(goodput) + spread(goodput) for goodput, _ in ends)
    digits = ".2g" if lever.times < 10 else ".0f"  # a factor of 1.3, or of 13
    gap = f", a factor of {lever.times:{digits}}" if math.isfinite(lever.times) else ""
    if lever.times < 1 + UNMOVED:
        inside = sorted(levels, key=lambda each: natural(level(each[0][1])))
        one, two = map(level_said, inside)
        if BEFORE.get(lever.factor, "").endswith(" a"):
            one, two = article(one), article(two)  # example: between a cake queue and a fifo queue
        return (
            f"Between {briefly(one, two)} and {two} goodput moves by no more than"
            f" {100 * (lever.times - 1):.2g}{NBSP}%, {low} to {high}"
        ), ends
    numbers = [natural(level(each[0][1])) for each in levels]
    if all(each and not each[0][0] for each in numbers):  # numbers with or without a unit
        verb, step = ("rises", 1) if numbers[0] < numbers[1] else ("falls", -1)
        first, last = [level_said(each) for each in levels][::step]
        start, end = [low, high][::step]
        return (
            f"From {briefly(first, last)} to {last} goodput {verb} from {start} to {end}{gap}"
        ), ends
    kinds = parted(lever.found)
    if kinds is None:
        kinds, (little, much) = ([ends[0]], [ends[1]]), (low, high)
    else:
        little, much = (between([each for each, _ in part]) for part in kinds)
        ends = [*lever.found]
    less, more = (
        where_all([level_said(each) for each in lever.levels(part)[::-1]], lever) for part in kinds
    )
    return f"{first_up(more)} goodput is {much}, {less} {little}{gap}", ends


def where_all(levels: Sequence[str], lever: Lever) -> str:
    """Format several levels as a location: through gost+tcp and wireguard.

    Without a tunnel comes first.
    """
    if lever.factor == "tunnel" and DIRECT in levels and len(levels) > 1:
        others = [level_text for level_text in levels if level_text != DIRECT]
        return f"without a tunnel and {where_words(listed(others), lever.factor)}"
    return where_words(listed(levels), lever.factor)


def level_said(pairs: Factors) -> str:
    """Format a level: 16 streams; BBR at wan."""
    return " and ".join(level_words(name, value, cc_name) for name, value in pairs)


def parted(found: Sequence[Measured]) -> tuple[Sequence[Measured], Sequence[Measured]] | None:
    """Split three or more levels into those with little and those with much goodput.

    None if they do not form two groups.
    """
    rates = [goodput.median for goodput, _ in found]
    if len(rates) < 3 or rates[0] <= 0:
        return None
    position = max(range(1, len(rates)), key=lambda index: rates[index] / rates[index - 1])
    alike = all(part[-1] / part[0] < ALIKE for part in (rates[:position], rates[position:]))
    if not alike or rates[position] / rates[position - 1] < APART:
        return None
    return found[:position], found[position:]


def between(found: Sequence[Summary]) -> str:
    """Format a range of goodputs: 45 Mbit/s; 4.5 to 4.6 Mbit/s."""
    ends = list(dict.fromkeys(rate(summary.median) for summary in (found[0], found[-1])))
    return f"{' to '.join(ends)}{NBSP}Mbit/s"


def briefly(first: str, last: str) -> str:
    """Strip the common end of the first of two levels: 0.01 to 0.3 BDP of buffer."""
    first_words, other = (re.split(r"[ \u00a0]", text) for text in (first, last))
    while (
        len(first_words) > 1
        and len(other) > 1
        and first_words[-1].rstrip("s") == other[-1].rstrip("s")
    ):
        first_words.pop()
        other.pop()
    return (
        " ".join(first_words) if first_words[0][:1].isdigit() and other[0][:1].isdigit() else first
    )


# -- who takes how much


def share_sentences(cells: Sequence[Cell]) -> Iterator[GeneratedSentence]:
    """Describe the flow with the greatest share of the total, and the location.

    Two flows that differ only in congestion control are named by it.
    """
    candidates = []
    for cell in cells:
        flows = cell.example.competitors
        for flow in flows if len(flows) > 1 else ():
            share = cell.summary(f"share:{flow.name}")
            if share is not None:
                candidates.append((share.median * len(flows), share, flow, cell, flows))
    if not candidates:
        return
    excess, share, flow, cell, flows = max(candidates, key=lambda each: each[0])
    others = [each for each in flows if each is not flow]
    alike = len(others) == 1 and others[0].cc != flow.cc and others[0].rtt_ms == flow.rtt_ms
    ccs = [cc_name(each.cc or each.kind) for each in (flow, *others)]
    factors = dict(cell.factors)
    implied = [
        name
        for each in ([flow, *others] if alike else [flow])
        for name in ("cc", f"{each.name}.cc")
        if factors.get(name) == each.cc
    ]
    who = ccs[0] if alike else f"{flow_words(flow.name)} ({ccs[0]})"
    where = (f" beside {ccs[1]}" if alike else "") + location_phrase(cell, but=implied)
    of = "both" if len(flows) == 2 else f"all {len(flows)}"
    takes = "all" if share.median >= 0.9995 else percent(share.median)
    text = f"{first_up(who)} takes {takes} of what {of} carry{where}"
    if excess < 1.1:
        text = (
            f"The flows share alike: none takes more than {takes} of what {of} carry, {who}{where}"
        )
    yield GeneratedSentence(
        f"{text} ({rests_on(share, percent, cell)}).",
        "share",
        math.log(excess) if excess >= 1.1 else 0.0,
        (text, f"{first_up(who)} takes {takes} of what {of} carry"),
        least_to_most(share.values, show=percent),
    )


# -- the study


def agreements(rows: Sequence[Target], called: str) -> list[tuple[str, list[Target], list[Target]]]:
    """Count the agreeing published values of each metric with runs.

    Returns the phrase (2 of 4 of the thesis's rates), all rows, and the rows with runs.
    """
    by_figure: dict[str, list[Target]] = {}
    for row in rows:
        by_figure.setdefault(row.target.figure, []).append(row)
    results: list[tuple[str, list[Target], list[Target]]] = []
    for alike in by_figure.values():
        if ran := [row for row in alike if row.verdict in JUDGED]:
            whose = "its" if results else f"the {called}'s"
            agree = sum(row.verdict == AGREES for row in ran)
            results.append((f"{agree} of {len(ran)} of {whose} {plural_of(ran[0])}", alike, ran))
    return results


def study_sentence(rows: Sequence[Target], called: str) -> str:
    """State how many published values agree, by metric, and how many are in the spread.

    "" without runs.
    """
    parts: list[str] = []
    for phrase, alike, ran in agreements(rows, called):
        states = Counter(row.verdict for row in alike if row.verdict in ONE_OF.values())
        missing = len(alike) - len(ran) - states.total()
        near = sum(row.verdict == DISAGREES and row.in_spread for row in ran)
        notes = [f"{near} more in the spread of the lab's runs"] if near else []
        notes += [counted_verdict(verdict, number) for verdict, number in states.items()]
        notes += [f"{missing} more without a run that counts"] if missing else []
        rule = f"{'' if parts else 'agree '}{rule_of(alike)}"
        parts.append(f"{phrase} {rule}" + (f" ({', '.join(notes)})" if notes else ""))
    return f"{first_up(listed(parts))}." if parts else ""


def agreement_claim(rows: Sequence[Target], called: str) -> str:
    """Return one clause on the agreement; "" without runs."""
    counted = agreements(rows, called)
    ran = [row for *_, of_figure in counted for row in of_figure]
    if not ran:
        return ""
    missing = sum(row.verdict not in (*JUDGED, *ONE_OF.values()) for row in rows)
    none = f", {missing} more without a run" if missing else ""
    agree = sum(row.verdict == AGREES for row in ran)
    total = f"{agree} of {len(ran)} of the {called}'s numbers agree{none}"
    phrases = listed([phrase for phrase, *_ in counted])
    return total if len(counted) > 2 else fitting(f"{phrases} agree{none}", total)


def plural_of(row: Target) -> str:
    """Return the plural noun of a metric's values."""
    named = {"goodput_mbit": "rates", "retr": "counts of retransmissions"}
    return named.get(row.target.figure) or f"values of {row.figure.partition(' (')[0]}"


def rule_of(rows: Sequence[Target]) -> str:
    """State the rule of agreement of a metric."""
    factor = TOLERANCE_FACTORS.get(rows[0].target.figure)
    rule = f"within a factor of {factor:g}" if factor else f"within {percent(TOLERANCE)}"
    banded = any(row.target.least is not None or row.target.most is not None for row in rows)
    return rule + (", or within its band" if banded else "")


# -- how numbers are written in them


def carried(goodput: Summary) -> str:
    """Format a rate, or the rates of clusters, with the unit."""
    text = states_words(goodput.states, rate) or rate(goodput.median)
    return f"{text}{NBSP}Mbit/s"


def spread(summary: Summary) -> str:
    """Format the interval in brackets; "" for fewer than six runs."""
    interval = summary.interval
    return f" ({rate(interval.low)} to {rate(interval.high)})" if interval else ""


def location_phrase(cell: Cell, but: Sequence[str] = ("cc",)) -> str:
    """Format a cell's levels as a phrase after a space; "" if nothing varies."""
    levels = {name: value for name, value in spoken_order(cell.factors).items() if name not in but}
    location = ", ".join(level_words(name, value, cc_name) for name, value in levels.items())
    return f" {where_words(location, next(iter(levels)))}" if location else ""


def flow_words(name: str) -> str:
    """Format a flow's name: flow 1; the flow bulk."""
    numbered = re.fullmatch(r"flow(\d+)", name)
    return f"flow {numbered[1]}" if numbered else f"the flow {name}"


def first_up(words: str) -> str:
    return words[:1].upper() + words[1:]
