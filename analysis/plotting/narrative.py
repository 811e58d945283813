"""Plain sentences: what a person would write who has looked at a matrix's numbers.

Each is made from the runs alone and carries its number, its interval where there is one, and how
many runs it rests on. Which cells it names is decided by the numbers: where the study says most, or
where the lab's cells lie furthest apart.
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
from gostlab.spec.labels import level_words, says_where

Factors = tuple[tuple[str, Scalar], ...]
Measured = tuple[Summary, Cell]

# A round trip that differs by less is taken for the same.
LONGER = 1.2
MAX_SAID = 3  # sentences of one section
MAX_WORDS = 25  # of an answer
# So many tunnels, or kernels, are what a matrix asks about.
COMPARED, MIN_COMPARED = ("tunnel", "kernel"), 4
# Levels are of two kinds where the goodputs of each lie within so many times, and the two further
# apart than that.
ALIKE, APART = 1.2, 1.5


@dataclass(frozen=True)
class GeneratedSentence:
    """A sentence and what it is about."""

    sentence: str
    about: str  # own, tunnels, ccs, share, lever, delay: what kind it is
    size: float = 0.0  # how large the effect is: |ln ratio|
    claims: tuple[str, ...] = ()  # the same without evidence, the fullest first
    spread: str = ""  # from the least to the most of the runs that it rests on

    @property
    def claim(self) -> str:
        """What it says, short enough for an answer; without a full stop."""
        return fitting(*self.claims, IN_BRACKETS.sub("", self.sentence).rstrip("."))


# Intervals, and how many runs.
IN_BRACKETS = re.compile(r" \((?:\d[^()]* to |n\b)[^()]*\)|; n\b[^()]*(?=\))")


def least_to_most(*cells: Sequence[float], show: Callable[[float], str] = rate) -> str:
    """What the runs of some cells span: 39 to 40 and 3.9 to 4.1; "" where one has a single run."""
    if any(len(each) < 2 for each in cells):
        return ""
    spans = (dict.fromkeys((show(min(each)), show(max(each)))) for each in cells)
    return " and ".join(" to ".join(span) for span in spans)


def fitting(*claims: str) -> str:
    """The first of some claims that is short enough; where none is, the beginning of the last."""
    for claim in claims:
        if len(claim.split()) <= MAX_WORDS:
            return claim
    return " ".join(claims[-1].split()[: MAX_WORDS - 1]) + " …"


def section_sentences(sweep: Sweep) -> list[GeneratedSentence]:
    """One to three sentences of one matrix; none where no run counts."""
    cells = [cell for cell in sweep.matrix.cells if cell.counted]
    if not cells:
        return []
    if len(cells) == 1:
        return [*share_sentences(cells), *alone(cells[0])]
    found = [*control_sentences(sweep), *share_sentences(cells), *lever_sentences(cells)]
    found = found or [said_of(lever) for lever in levers_of(cells, at_ends=True)][:1]
    if len(found) < MAX_SAID:
        found += delay_sentences(cells)
    return found[:MAX_SAID]


def alone(cell: Cell) -> Iterator[GeneratedSentence]:
    """The only cell. Of several flows what they carry while all of them are there: each one's own
    mean is over its own time, and their sum may be more than the link.
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
    """Of two congestion controls: where one gains, or that none does. Of more: the widest gap."""
    table = valid_rows(sweep.table(sweep.matrix.cells, borrows=False))
    pairs = others_against_base(table)
    gains_by_pair = [gains_of(sweep.matrix, table, *pair, by_streams=False) for pair in pairs]
    compared = [each for each in zip(pairs, gains_by_pair, strict=True) if each[1]]
    if len(compared) > 1:
        yield from furthest_apart(sweep.matrix.cells)
        return
    for pair, gains in compared:
        fair = [gain for gain in gains if not gain.cpu_bound]
        ratios = [gain.times.median for gain in fair]
        size = max((abs(math.log(each)) for each in ratios if each > 0), default=0.0)
        names = cc_name(pair[0]), cc_name(pair[1])
        said = compare(gains, *names, sweep.study.called)
        spread = least_to_most(featured(fair).times.values, show=multiple) if fair else ""
        yield GeneratedSentence(said, "ccs", size, tuple(gain_claims(gains, *names)), spread)


def by_place(cells: Sequence[Cell], figure: str) -> list[list[Measured]]:
    """The cells of each place that several congestion controls share, by rising figure."""
    places: dict[Any, list[Measured]] = {}
    for cell in cells:
        summary = cell.summary(figure)
        if summary is not None:
            places.setdefault(cell.but_cc, []).append((summary, cell))
    found = [sorted(each, key=lambda pair: pair[0].median) for each in places.values()]
    return [each for each in found if len(each) > 1 and each[0][0].median > 0]


def times_of(found: Sequence[Measured]) -> float:
    """The greatest over the least."""
    return found[-1][0].median / found[0][0].median if found[0][0].median else math.inf


def furthest_apart(cells: Sequence[Cell]) -> Iterator[GeneratedSentence]:
    """Of three congestion controls and more: the place where most lies between the best and the
    last, and what each gets there.
    """
    several = by_place([cell for cell in cells if not cell.cpu_bound], "goodput")
    if not several:
        return
    widest = max(several, key=times_of)
    best = sorted(widest, key=lambda pair: -pair[0].median)
    where = location_phrase(best[0][1])
    got = [f"{cc_name(cell.example.cc)} {carried(each)}{spread(each)}" for each, cell in best]
    (most, first), (least, last) = best[0], best[-1]
    ends = f"{cc_name(first.example.cc)} carries {carried(most)}"
    last_words = f"{cc_name(last.example.cc)} {carried(least)}"
    n = n_words(*(each.n for each, _ in best)) + degraded_words([cell for _, cell in best])
    claims = (f"{ends}{where}, and {last_words}, the least of {len(best)}", f"{ends}, {last_words}")
    if times_of(widest) < 1 + NEAR:
        near = whole_percent(NEAR)
        said = f"No congestion control gains:{where} they are within {near} of each other"
        claims = (said, "No congestion control gains")
    elif len(several) > 1:
        said = f"The congestion controls differ most{where}, of {len(several)} conditions"
    else:
        said = f"The congestion controls differ{where}"
    yield GeneratedSentence(
        f"{said}: {listed(got)} ({n}).",
        "ccs",
        math.log(times_of(widest)),
        claims,
        least_to_most(most.values, least.values),
    )


def delay_sentences(cells: Sequence[Cell]) -> Iterator[GeneratedSentence]:
    """The congestion control whose round trip under load is longest beside another's at the same
    place; nothing where all are alike.
    """
    several = by_place(cells, "srtt_median_ms")
    if not several:
        return
    (short, first), *_, (long, last) = max(several, key=times_of)
    if long.median < LONGER * short.median or first.example.cc == last.example.cc:
        return
    name, other = (cc_name(cell.example.cc) for cell in (last, first))
    most, least = (f"{rate(each.median)}{NBSP}ms" for each in (long, short))
    said = f"{name}'s round trip under load is {most}{{}}, {other}'s {least}{{}}"
    ends = said.format("", "")
    yield GeneratedSentence(
        f"{said.format(spread(long), spread(short))}{location_phrase(last)}"
        f" ({n_words(long.n, short.n)}{degraded_words([first, last])}).",
        "delay",
        math.log(long.median / short.median),
        (ends + location_phrase(last), ends),
        least_to_most(long.values, short.values),
    )


# -- what else decides


@dataclass(frozen=True)
class Lever:
    """What the levels of one factor do to the goodput where all else is the same."""

    factor: str
    others: str  # what is the same, in words
    found: tuple[Measured, ...]  # of each level, from the least goodput to the most

    @property
    def times(self) -> float:
        """The greatest goodput over the least."""
        return times_of(self.found)

    def levels(self, found: Sequence[Measured]) -> list[Factors]:
        return [whole_factors(cell)[self.factor] for _, cell in found]


def lever_sentences(cells: Sequence[Cell]) -> Iterator[GeneratedSentence]:
    """The factor, congestion control apart, that moves the goodput most; before it the tunnels or
    kernels, where several are compared: they are the question. Where a congestion control runs is a
    comparison of congestion controls too.
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
    """Whether it compares so many tunnels or kernels that the matrix asks about them."""
    return lever.factor in COMPARED and len(lever.found) >= MIN_COMPARED


def said_of(lever: Lever) -> GeneratedSentence:
    """What a factor does, and how large that is."""
    size = math.log(lever.times) if math.isfinite(lever.times) else 99.0
    at_ends = any(name != lever.factor for each in lever.levels(lever.found) for name, _ in each)
    claim, named = lever_claim(lever)
    little, much = lever.found[0], lever.found[-1]
    less, more = (where_all([level_said(each)], lever) for each in lever.levels([little, much]))
    ends = f"{first_up(more)} goodput is {carried(much[0])}, {less} {carried(little[0])}"
    # What else is the same, in brackets; and nothing, where there is no room for it.
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
    """A cell's factors by name, each as the levels that its cells have: of a file's own ("where")
    those at several ends are one factor's.
    """
    found: dict[str, Factors] = {}
    for name, value in cell.factors:
        head, dot, last = name.partition(".")
        whole = head if dot and says_where(head, last, value) else name
        found[whole] = (*found.get(whole, ()), (name, value))
    return found


def levers_of(cells: Sequence[Cell], *, at_ends: bool = False) -> Iterator[Lever]:
    """Of every factor and every place that has several of its levels: each one's goodput.

    at_ends: congestion controls of ends too.
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
            own = levels.pop(factor, ())
            rest = tuple(pair for pair in cell.factors if pair not in own)
            if goodput is not None and own:
                groups.setdefault(rest, []).append((goodput, cell))
        for rest, found in groups.items():
            if len(found) < 2:
                continue
            found.sort(key=lambda pair: pair[0].median)
            words = ", ".join(
                level_words(name, value, cc_name) for name, value in spoken_order(rest).items()
            )
            yield Lever(factor, words, tuple(found))


def lever_claim(lever: Lever) -> tuple[str, Sequence[Measured]]:
    """From the lower level to the higher one, if they have an order; else those that carry much
    against those that carry little, or the two ends. And the cells that it names.
    """
    ends = [lever.found[0], lever.found[-1]]
    levels = lever.levels(ends)
    low, high = (carried(goodput) + spread(goodput) for goodput, _ in ends)
    digits = ".2g" if lever.times < 10 else ".0f"  # a factor of 1.3, of 13
    gap = f", a factor of {lever.times:{digits}}" if math.isfinite(lever.times) else ""
    if lever.times < 1 + UNMOVED:
        inside = sorted(levels, key=lambda each: natural(level(each[0][1])))
        one, two = map(level_said, inside)
        if BEFORE.get(lever.factor, "").endswith(" a"):
            one, two = article(one), article(two)  # between a cake queue and a fifo queue
        return (
            f"Between {briefly(one, two)} and {two} goodput moves by no more than"
            f" {100 * (lever.times - 1):.2g}{NBSP}%, {low} to {high}"
        ), ends
    numbers = [natural(level(each[0][1])) for each in levels]
    if all(each and not each[0][0] for each in numbers):  # or numbers with a unit
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
    """Several levels as a place: through gost+tcp and wireguard; without a tunnel is said by
    itself, before the others.
    """
    if lever.factor == "tunnel" and DIRECT in levels and len(levels) > 1:
        others = [each for each in levels if each != DIRECT]
        return f"without a tunnel and {where_words(listed(others), lever.factor)}"
    return where_words(listed(levels), lever.factor)


def level_said(pairs: Factors) -> str:
    """A level in words: 16 streams; BBR at wan."""
    return " and ".join(level_words(name, value, cc_name) for name, value in pairs)


def parted(found: Sequence[Measured]) -> tuple[Sequence[Measured], Sequence[Measured]] | None:
    """Three levels or more, by rising goodput, as those that carry little and those that carry
    much; None where they are not of two kinds.
    """
    rates = [goodput.median for goodput, _ in found]
    if len(rates) < 3 or rates[0] <= 0:
        return None
    place = max(range(1, len(rates)), key=lambda index: rates[index] / rates[index - 1])
    alike = all(part[-1] / part[0] < ALIKE for part in (rates[:place], rates[place:]))
    if not alike or rates[place] / rates[place - 1] < APART:
        return None
    return found[:place], found[place:]


def between(found: Sequence[Summary]) -> str:
    """What some carry, with its unit: 45 Mbit/s; 4.5 to 4.6 Mbit/s."""
    ends = list(dict.fromkeys(rate(each.median) for each in (found[0], found[-1])))
    return f"{' to '.join(ends)}{NBSP}Mbit/s"


def briefly(first: str, last: str) -> str:
    """The first of two levels without what the second says again: 0.01 to 0.3 BDP of buffer."""
    own, other = (re.split(r"[ \u00a0]", words) for words in (first, last))
    while len(own) > 1 and len(other) > 1 and own[-1].rstrip("s") == other[-1].rstrip("s"):
        own.pop()
        other.pop()
    return " ".join(own) if own[0][:1].isdigit() and other[0][:1].isdigit() else first


# -- who takes how much


def share_sentences(cells: Sequence[Cell]) -> Iterator[GeneratedSentence]:
    """Of flows that compete: the one that takes most of what all carry, and where. Two that differ
    in nothing else are called by their congestion controls.
    """
    found = []
    for cell in cells:
        flows = cell.example.competitors
        for flow in flows if len(flows) > 1 else ():
            share = cell.summary(f"share:{flow.name}")
            if share is not None:
                found.append((share.median * len(flows), share, flow, cell, flows))
    if not found:
        return
    excess, share, flow, cell, flows = max(found, key=lambda each: each[0])
    others = [each for each in flows if each is not flow]
    alike = len(others) == 1 and others[0].cc != flow.cc and others[0].rtt_ms == flow.rtt_ms
    ccs = [cc_name(each.cc or each.kind) for each in (flow, *others)]
    factors = dict(cell.factors)
    own = [
        name
        for each in ([flow, *others] if alike else [flow])
        for name in ("cc", f"{each.name}.cc")
        if factors.get(name) == each.cc
    ]
    who = ccs[0] if alike else f"{flow_words(flow.name)} ({ccs[0]})"
    where = (f" beside {ccs[1]}" if alike else "") + location_phrase(cell, but=own)
    of = "both" if len(flows) == 2 else f"all {len(flows)}"
    takes = "all" if share.median >= 0.9995 else percent(share.median)
    said = f"{first_up(who)} takes {takes} of what {of} carry{where}"
    if excess < 1.1:
        said = (
            f"The flows share alike: none takes more than {takes} of what {of} carry, {who}{where}"
        )
    yield GeneratedSentence(
        f"{said} ({rests_on(share, percent, cell)}).",
        "share",
        math.log(excess) if excess >= 1.1 else 0.0,
        (said, f"{first_up(who)} takes {takes} of what {of} carry"),
        least_to_most(share.values, show=percent),
    )


# -- the study


def agreements(rows: Sequence[Target], called: str) -> list[tuple[str, list[Target], list[Target]]]:
    """Of each figure of a study of which something has run: how many of its numbers agree (2 of 4
    of the thesis's rates), all of them, and those that have run.
    """
    by_figure: dict[str, list[Target]] = {}
    for row in rows:
        by_figure.setdefault(row.target.figure, []).append(row)
    found: list[tuple[str, list[Target], list[Target]]] = []
    for alike in by_figure.values():
        if ran := [row for row in alike if row.verdict in JUDGED]:
            whose = "its" if found else f"the {called}'s"
            agree = sum(row.verdict == AGREES for row in ran)
            found.append((f"{agree} of {len(ran)} of {whose} {plural_of(ran[0])}", alike, ran))
    return found


def study_sentence(rows: Sequence[Target], called: str) -> str:
    """How many of a study's numbers that have runs agree, figure by figure, and how many more lie
    in the spread of the lab's own runs; "" where nothing of it has run.
    """
    said: list[str] = []
    for words, alike, ran in agreements(rows, called):
        states = Counter(row.verdict for row in alike if row.verdict in ONE_OF.values())
        missing = len(alike) - len(ran) - states.total()
        near = sum(row.verdict == DISAGREES and row.in_spread for row in ran)
        notes = [f"{near} more in the spread of the lab's runs"] if near else []
        notes += [counted_verdict(verdict, number) for verdict, number in states.items()]
        notes += [f"{missing} more without a run that counts"] if missing else []
        rule = f"{'' if said else 'agree '}{rule_of(alike)}"
        said.append(f"{words} {rule}" + (f" ({', '.join(notes)})" if notes else ""))
    return f"{first_up(listed(said))}." if said else ""


def agreement_claim(rows: Sequence[Target], called: str) -> str:
    """The same in one clause: of one figure or two each one's; "" where nothing has run."""
    counted = agreements(rows, called)
    ran = [row for *_, of_figure in counted for row in of_figure]
    if not ran:
        return ""
    missing = sum(row.verdict not in (*JUDGED, *ONE_OF.values()) for row in rows)
    none = f", {missing} more without a run" if missing else ""
    agree = sum(row.verdict == AGREES for row in ran)
    whole = f"{agree} of {len(ran)} of the {called}'s numbers agree{none}"
    each = listed([words for words, *_ in counted])
    return whole if len(counted) > 2 else fitting(f"{each} agree{none}", whole)


def plural_of(row: Target) -> str:
    """What the numbers of a figure are."""
    named = {"goodput_mbit": "rates", "retr": "counts of retransmissions"}
    return named.get(row.target.figure) or f"values of {row.figure.partition(' (')[0]}"


def rule_of(rows: Sequence[Target]) -> str:
    """By what rule the numbers of a figure agree."""
    factor = TOLERANCE_FACTORS.get(rows[0].target.figure)
    said = f"within a factor of {factor:g}" if factor else f"within {percent(TOLERANCE)}"
    banded = any(row.target.least is not None or row.target.most is not None for row in rows)
    return said + (", or within its band" if banded else "")


# -- how numbers are written in them


def carried(goodput: Summary) -> str:
    """A rate with its unit; of several states each one's."""
    said = states_words(goodput.states, rate) or rate(goodput.median)
    return f"{said}{NBSP}Mbit/s"


def spread(summary: Summary) -> str:
    """The interval in brackets; "" below six runs."""
    found = summary.interval
    return f" ({rate(found.low)} to {rate(found.high)})" if found else ""


def location_phrase(cell: Cell, but: Sequence[str] = ("cc",)) -> str:
    """Where a cell is, as people say it, after a space; "" where nothing else varies."""
    told = {name: value for name, value in spoken_order(cell.factors).items() if name not in but}
    place = ", ".join(level_words(name, value, cc_name) for name, value in told.items())
    return f" {where_words(place, next(iter(told)))}" if place else ""


def flow_words(name: str) -> str:
    """flow 1; the flow bulk."""
    numbered = re.fullmatch(r"flow(\d+)", name)
    return f"flow {numbered[1]}" if numbered else f"the flow {name}"


def first_up(words: str) -> str:
    return words[:1].upper() + words[1:]
