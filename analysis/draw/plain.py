"""Plain sentences: what a person would write who has looked at a matrix's numbers.

Each is made from the runs alone and carries its number, its interval where there is one, and how
many runs it rests on. Which cells it names is decided by the numbers: where the study says most, or
where the lab's cells lie furthest apart.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from analysis.draw.levels import ccs_of
from analysis.draw.registry import Sweep, valid_rows
from analysis.draw.sentences import NEAR, UNMOVED, Gain, gains_of, others_against_base
from analysis.judge.cells import Cell, natural, spoken_order
from analysis.judge.statistics import Summary
from analysis.judge.table import NBSP, cc_name, percent, rate, ratio
from analysis.judge.targets import AGREES, DISAGREES, Target
from analysis.read.study import level
from analysis.read.values import Scalar
from gostlab.ask.words import level_words, says_where

Factors = tuple[tuple[str, Scalar], ...]

# A round trip that differs by less is no longer one.
LONGER = 1.2
MOST_SAID = 3  # sentences of one section


@dataclass(frozen=True)
class Said:
    """A sentence and what it is about."""

    sentence: str
    about: str  # own, ccs, share, lever, delay: what kind it is
    size: float = 0.0  # how large the effect is: |ln ratio|


TUNNEL_FACTOR, DIRECT = "tunnel", "direct"
LEAST_COMPARED = 4  # tunnels, of which a matrix is said to ask


def section_sentences(sweep: Sweep) -> list[Said]:
    """One to three sentences of one matrix; none where no run counts."""
    cells = [cell for cell in sweep.matrix.cells if cell.counted]
    if not cells:
        return []
    if len(cells) == 1:
        return [*share_sentences(cells), *alone(cells[0])]
    found = [*control_sentences(sweep), *share_sentences(cells), *lever_sentences(cells)]
    if len(found) < MOST_SAID:
        found += delay_sentences(cells)
    return found[:MOST_SAID]


def alone(cell: Cell) -> Iterator[Said]:
    """The only cell. Of several flows what they carry while all of them are there: each one's own
    mean is over its own time, and their sum may be more than the link.
    """
    several = sum(flow.competes for flow in cell.example.flows) > 1
    goodput = cell.summary("total_mbit" if several else "goodput")
    if goodput is None:
        return
    who = "All flows together carry" if several else "Goodput is"
    levels = f"{cell.label}; " if cell.factors else ""
    yield Said(f"{who} {carried(goodput)} ({levels}{rests_on(goodput, rate, cell)}).", "lever")


# -- congestion controls against each other


def control_sentences(sweep: Sweep) -> Iterator[Said]:
    """Two congestion controls: where one gains, or that none does. Of more: where they lie
    furthest apart.
    """
    table = valid_rows(sweep.table(sweep.matrix.cells, borrows=False))
    pairs = others_against_base(table)
    by_name = {
        versus: gains_of(sweep.matrix, table, base, versus, by_streams=False)
        for base, versus in pairs
    }
    compared = {versus: gains for versus, gains in by_name.items() if gains}
    if len(compared) > 1 and len(ccs_of(table)) > 2:
        yield from furthest_apart(sweep.matrix.cells)
        return
    for versus, gains in compared.items():
        yield compare(gains, cc_name(pairs[0][0]), cc_name(versus), sweep.study.called)


def compare(gains: Sequence[Gain], base: str, versus: str, called: str) -> Said:
    """Whether a congestion control gains over another, and where most."""
    fair = [gain for gain in gains if not gain.cpu_bound]
    if not fair:
        return Said(
            f"Nothing here compares {versus} with {base}: in every cell with both the CPU decided.",
            "ccs",
        )
    shown = featured(fair)
    times = multiple(shown.times.median)
    where = f" {where_words(shown.place, shown.lead)}" if shown.place else ""
    evidence = f"({rests_on(shown.times, multiple)}{study_words(shown, called)})"
    more = [gain for gain in fair if gain.times.median > 1 + NEAR]
    less = [gain for gain in fair if gain.times.median < 1 - NEAR]
    low = min(gain.times.median for gain in fair)
    high = max(gain.times.median for gain in fair)
    over = f" in {'both' if len(fair) == 2 else f'all {len(fair)}'} conditions" if fair[1:] else ""
    if not more and not less:
        said = f"{versus} gains nothing: {times} times {base}{where} {evidence}"
        said += f", {multiple(low)} to {multiple(high)}{over}." if over else "."
    elif len(more) == len(fair) or len(less) == len(fair):
        word = "more" if more else "less"
        end = f"at least {multiple(low)}" if more else f"at most {multiple(high)}"
        ends = f", {end} times{over}" if over else ""
        said = f"{versus} carries {word} than {base}: {times} times{where} {evidence}{ends}."
    else:
        level_with = len(fair) - len(more) - len(less)
        counts = [
            f"{number} {word}"
            for number, word in (
                (len(more), "more"),
                (level_with, "as much"),
                (len(less), "less"),
            )
            if number
        ]
        lead = f"{versus} carries {times} times what {base} does{where} {evidence}"
        if abs(shown.times.median - 1) <= NEAR:
            lead = f"{versus} gains nothing{where}: {times} times {base} {evidence}"
        said = (
            f"{lead}; of the {len(fair)} conditions it carries {listed(in_places(counts))}"
            f" ({multiple(low)} to {multiple(high)} times)."
        )
    aside = len(gains) - len(fair)
    if aside:
        which = "1 condition is" if aside == 1 else f"{aside} conditions are"
        said += f" {first_up(which)} set aside: the CPU decided {'it' if aside == 1 else 'them'}."
    return Said(said, "ccs", max(abs(math.log(value)) for value in (low, high) if value > 0))


def in_places(counts: Sequence[str]) -> list[str]:
    """3 more -> more in 3."""
    return [f"{word} in {number}" for number, _, word in (each.partition(" ") for each in counts)]


def featured(gains: Sequence[Gain]) -> Gain:
    """The place to name: where the study's own ratio is furthest from 1, else the lab's."""
    published = [gain for gain in gains if gain.study and abs(math.log(gain.study)) > NEAR]
    if published:
        return max(published, key=lambda gain: abs(math.log(gain.study or 1)))
    return max(gains, key=lambda gain: abs(math.log(max(gain.times.median, 1e-9))))


def study_words(gain: Gain, called: str) -> str:
    """The study's own ratio."""
    return "" if gain.study is None else f"; {called}: {multiple(gain.study)}"


def furthest_apart(cells: Sequence[Cell]) -> Iterator[Said]:
    """Of three congestion controls and more: the place where most lies between the best and the
    last, and what each gets there.
    """
    places: dict[Any, list[tuple[Summary, Cell]]] = {}
    for cell in cells:
        goodput = cell.summary("goodput")
        if goodput is not None and not cell.cpu_bound:
            places.setdefault(cell.but_cc, []).append((goodput, cell))
    several = {
        place: sorted(found, key=lambda pair: -pair[0].median)
        for place, found in places.items()
        if len(found) > 1 and min(goodput.median for goodput, _ in found) > 0
    }
    if not several:
        return
    best = max(several.values(), key=lambda found: found[0][0].median / found[-1][0].median)
    times = best[0][0].median / best[-1][0].median
    where = cell_where(best[0][1])
    parts = listed(
        [
            f"{cc_name(cell.example.cc)} {carried(goodput)}{spread(goodput)}"
            for goodput, cell in best
        ]
    )
    n = n_words(*(goodput.n for goodput, _ in best)) + degraded_words([cell for _, cell in best])
    if times < 1 + NEAR:
        said = (
            f"No congestion control gains:{where} they are within {100 * NEAR:g}{NBSP}% of each"
            " other"
        )
    else:
        over = f", of {len(several)} conditions" if len(several) > 1 else ""
        most = " most" if len(several) > 1 else ""
        said = f"The congestion controls differ{most}{where}{over}"
    yield Said(f"{said}: {parts} ({n}).", "ccs", math.log(times))


# -- what else decides


@dataclass(frozen=True)
class Lever:
    """What the levels of one factor do to the goodput where all else is the same."""

    factor: str
    others: str  # what is the same, in words
    found: tuple[tuple[Summary, Cell], ...]  # of each level, from the least goodput to the most

    @property
    def low(self) -> Summary:
        """The least goodput."""
        return self.found[0][0]

    @property
    def high(self) -> Summary:
        """The greatest."""
        return self.found[-1][0]

    @property
    def times(self) -> float:
        """The greatest goodput over the least."""
        return self.high.median / self.low.median if self.low.median else math.inf


def lever_sentences(cells: Sequence[Cell]) -> Iterator[Said]:
    """The factor, congestion control apart, that moves the goodput most; before it the tunnels,
    where several are compared: they are what is asked about. Where a congestion control runs is a
    comparison of congestion controls too.
    """
    levers = list(levers_of(cells))
    if not levers:
        return
    lever = max(levers, key=lambda each: each.times)
    tunnels = [
        each
        for each in levers
        if each.factor == TUNNEL_FACTOR and len(each.found) >= LEAST_COMPARED
    ]
    if tunnels and lever.factor != TUNNEL_FACTOR:
        apart = max(tunnels, key=lambda each: each.times)
        if apart.times >= 1 + UNMOVED:
            yield said_of(apart)
    yield said_of(lever)


def said_of(lever: Lever) -> Said:
    """What a factor does, and how large that is."""
    size = math.log(lever.times) if math.isfinite(lever.times) else 99.0
    at_ends = any(
        name != lever.factor for _, cell in lever.found for name, _ in level_of(cell, lever.factor)
    )
    return Said(lever_words(lever), "ccs" if at_ends else "lever", size)


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


def levers_of(cells: Sequence[Cell]) -> Iterator[Lever]:
    """Of every factor and every place that has several of its levels: each one's goodput."""
    factors = dict.fromkeys(name for cell in cells for name in whole_factors(cell))
    for factor in factors:
        if factor == "cc" or factor.endswith(".cc") or factor.startswith("cc."):
            continue
        groups: dict[Factors, list[tuple[Summary, Cell]]] = {}
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


def lever_words(lever: Lever) -> str:
    """From the lower level to the higher one, if they have an order; else one against the other, or
    those that carry much against those that carry little.
    """
    low_cell, high_cell = lever.found[0][1], lever.found[-1][1]
    low_level, high_level = (level_of(cell, lever.factor) for cell in (low_cell, high_cell))
    said = {each: level_said(each) for each in (low_level, high_level)}
    low, high = carried(lever.low) + spread(lever.low), carried(lever.high) + spread(lever.high)
    gap = f", {factor_words(lever.times)}" if math.isfinite(lever.times) else ""
    if lever.times < 1 + UNMOVED:
        one, two = sorted((low_level, high_level), key=lambda each: natural(level(each[0][1])))
        names = [with_article(said[each], lever.factor) for each in (one, two)]
        return (
            f"Between {briefly(*names)} and {names[1]} goodput moves by no more than"
            f" {100 * (lever.times - 1):.2g}{NBSP}%, {low} to {high}"
            f" {lever_evidence(lever, [low_cell, high_cell])}."
        )
    if is_quantity(low_level[0][1]) and is_quantity(high_level[0][1]):
        rises = natural(level(low_level[0][1])) < natural(level(high_level[0][1]))
        first, last = (low_level, high_level) if rises else (high_level, low_level)
        start, end = (low, high) if rises else (high, low)
        verb = "rises" if rises else "falls"
        return (
            f"From {briefly(said[first], said[last])} to {said[last]} goodput {verb} from {start}"
            f" to {end}{gap} {lever_evidence(lever, [low_cell, high_cell])}."
        )
    if (parts := parted(lever.found)) is not None:
        less, more = (
            where_all([level_said(level_of(cell, lever.factor)) for _, cell in part[::-1]], lever)
            for part in parts
        )
        much, little = (between([each for each, _ in part]) for part in reversed(parts))
        return (
            f"{first_up(more)} goodput is {much}, {less} {little}{gap}"
            f" {lever_evidence(lever, [cell for _, cell in lever.found])}."
        )
    best, least = (where_words(said[each], lever.factor) for each in (high_level, low_level))
    return (
        f"{first_up(best)} goodput is {high}, {least} {low}{gap}"
        f" {lever_evidence(lever, [low_cell, high_cell])}."
    )


def where_all(levels: Sequence[str], lever: Lever) -> str:
    """Several levels as a place: through gost+tcp and wireguard; without a tunnel is said by
    itself, before the others.
    """
    if lever.factor == TUNNEL_FACTOR and DIRECT in levels and len(levels) > 1:
        others = [each for each in levels if each != DIRECT]
        return f"without a tunnel and {where_words(listed(others), lever.factor)}"
    return where_words(listed(levels), lever.factor)


def level_of(cell: Cell, factor: str) -> Factors:
    """What a cell has of a whole factor."""
    return whole_factors(cell)[factor]


def level_said(pairs: Factors) -> str:
    """A level in words: 16 streams; BBR at wan."""
    return " and ".join(level_words(name, value, cc_name) for name, value in pairs)


def lever_evidence(lever: Lever, cells: Sequence[Cell]) -> str:
    """What is the same, how many runs the cells that are named rest on, and what spoilt them."""
    same = f"{lever.others}; " if lever.others else ""
    counts = [goodput.n for goodput, cell in lever.found if cell in cells]
    return f"({same}{n_words(*counts)}{degraded_words(cells)})"


# Levels are of two kinds where the goodputs of each lie within so many times, and the two further
# apart than that.
ALIKE, APART = 1.2, 1.5


def parted(
    found: Sequence[tuple[Summary, Cell]],
) -> tuple[Sequence[tuple[Summary, Cell]], Sequence[tuple[Summary, Cell]]] | None:
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


def with_article(words: str, factor: str) -> str:
    """A level with the article that its place has: a cake queue; 16 streams."""
    return article(words) + words if BEFORE.get(factor, "").endswith(" a") else words


def article(words: str) -> str:
    """a fifo queue; an fq_codel queue, as its letters are spoken."""
    return "an " if re.match(r"[aeio]|fq", words) else "a "


def factor_words(times: float) -> str:
    """a factor of 1.3, a factor of 13."""
    return f"a factor of {times:.2g}" if times < 10 else f"a factor of {times:.0f}"


def briefly(first: str, last: str) -> str:
    """The first of two levels without what the second says again: 0.01 to 0.3 BDP of buffer."""
    own, other = (re.split(r"[ \u00a0]", words) for words in (first, last))
    while len(own) > 1 and len(other) > 1 and own[-1].rstrip("s") == other[-1].rstrip("s"):
        own.pop()
        other.pop()
    return " ".join(own) if own[0][:1].isdigit() and other[0][:1].isdigit() else first


def is_quantity(value: Scalar) -> bool:
    """Whether a level is a number, or one with a unit."""
    first = natural(level(value))[:1]
    return bool(first) and not first[0][0]


# -- who takes how much, and the price in delay


def share_sentences(cells: Sequence[Cell]) -> Iterator[Said]:
    """Of flows that compete: the one that takes most of what all carry, and where."""
    found = []
    for cell in cells:
        flows = [flow for flow in cell.example.flows if flow.competes]
        if len(flows) < 2:
            continue
        for flow in flows:
            share = cell.summary(f"share:{flow.name}")
            if share is not None:
                found.append((share.median * len(flows), share, flow, cell, len(flows)))
    if not found:
        return
    excess, share, flow, cell, count = max(found, key=lambda each: each[0])
    others = [each for each in cell.example.flows if each.competes and each is not flow]
    # Two that differ in nothing else are called by their congestion controls.
    by_cc = count == 2 and others[0].cc != flow.cc and others[0].rtt_ms == flow.rtt_ms
    told = [flow, *others] if by_cc else [flow]
    own = tuple(
        name
        for each in told
        for name in ("cc", f"{each.name}.cc")
        if dict(cell.factors).get(name) == each.cc
    )
    where = cell_where(cell, but=own)
    what = f"{flow_words(flow.name)} ({cc_name(flow.cc or flow.kind)})"
    if by_cc:
        what = cc_name(flow.cc or flow.kind)
        where = f" beside {cc_name(others[0].cc or others[0].kind)}{where}"
    of = "both" if count == 2 else f"all {count}"
    evidence = f"({rests_on(share, percent, cell)})"
    if excess < 1.1:
        yield Said(
            f"The flows share alike: none takes more than {percent(share.median)} of what {of}"
            f" carry, {what}{where} {evidence}.",
            "share",
        )
        return
    yield Said(
        f"{first_up(what)} takes {'all' if share.median >= 0.9995 else percent(share.median)} of"
        f" what {of} carry{where} {evidence}.",
        "share",
        math.log(excess),
    )


def delay_sentences(cells: Sequence[Cell]) -> Iterator[Said]:
    """The congestion control whose round trip under load is longest beside another's at the same
    place; nothing where all are alike.
    """
    places: dict[Any, list[tuple[Summary, Cell]]] = {}
    for cell in cells:
        delay = cell.summary("srtt_median_ms")
        if delay is not None and delay.median > 0:
            places.setdefault(cell.but_cc, []).append((delay, cell))
    several = [sorted(found, key=lambda pair: pair[0].median) for found in places.values()]
    several = [found for found in several if len(found) > 1]
    if not several:
        return
    widest = max(several, key=lambda found: found[-1][0].median / found[0][0].median)
    (short, first), (long, last) = widest[0], widest[-1]
    if long.median < LONGER * short.median or first.example.cc == last.example.cc:
        return
    yield Said(
        f"{cc_name(last.example.cc)}'s round trip under load is {rate(long.median)}{NBSP}ms"
        f"{spread(long)}, {cc_name(first.example.cc)}'s {rate(short.median)}{NBSP}ms"
        f"{spread(short)}{cell_where(last)} "
        f"({n_words(long.n, short.n)}{degraded_words([first, last])}).",
        "delay",
        math.log(long.median / short.median),
    )


# -- the study


def study_sentence(rows: Sequence[Target], called: str) -> str:
    """How many of a study's numbers agree; "" of none."""
    agree = sum(row.verdict == AGREES for row in rows)
    differ = sum(row.verdict == DISAGREES for row in rows)
    rest = len(rows) - agree - differ
    if not rows:
        return ""
    if len(rows) == 1:
        verdict = "agrees" if agree else "disagrees" if differ else "has no run that counts"
        return f"The one number of the {called} {verdict}{' with the lab' if not rest else ''}."
    if agree == len(rows):
        return f"All {len(rows)} numbers of the {called} agree with the lab."
    parts = [
        f"{number} {words[0] if number == 1 else words[1]}"
        for number, words in (
            (agree, ("agrees", "agree")),
            (differ, ("disagrees", "disagree")),
            (rest, ("has no run that counts", "have no run that counts")),
        )
        if number
    ]
    return f"Of {len(rows)} numbers of the {called}, beside the lab's, {listed(parts)}."


# -- how numbers are written in them


def multiple(times: float) -> str:
    """How many times: 0.99, 5.44, 12.7, 307."""
    return ratio(times) if times < 10 else rate(times)


def carried(goodput: Summary) -> str:
    """A rate with its unit."""
    return f"{rate(goodput.median)}{NBSP}Mbit/s"


def spread(summary: Summary) -> str:
    """The interval in brackets; "" below six runs."""
    found = summary.interval
    return f" ({rate(found.low)} to {rate(found.high)})" if found else ""


def rests_on(summary: Summary, show: Callable[[float], str] = rate, *cells: Cell) -> str:
    """The interval, if there is one, how many runs, and whether something spoilt them."""
    found = summary.interval
    ends = f"{show(found.low)} to {show(found.high)}, " if found else ""
    return f"{ends}{n_words(summary.n)}{degraded_words(cells)}"


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


def place_words(cell: Cell, but: Sequence[str] = ("cc",)) -> str:
    """A cell's levels as people say them, without its congestion control."""
    return ", ".join(
        level_words(name, value, cc_name)
        for name, value in spoken_order(cell.factors).items()
        if name not in but
    )


# What stands before a level that begins a place, where it is neither "at" a number nor "with".
BEFORE = {
    "profile": "on",
    "tunnel": "through",
    "topology": "in a",
    "queue": "behind a",
    "aqm": "behind a",
}


def where_words(place: str, lead: str) -> str:
    """A place with what stands before it: at 16 streams, through gost+ws, with ECN on.

    lead: the factor whose level it begins with.
    """
    if lead == TUNNEL_FACTOR and re.match(r"direct\b", place):
        return f"without a tunnel{place.removeprefix('direct')}"
    before = BEFORE.get(lead) or ("at" if place[:1].isdigit() else "with")
    if before.endswith(" a"):
        return f"{before.removesuffix('a')}{article(place)}{place}"
    return f"{before} {place}"


def cell_where(cell: Cell, but: Sequence[str] = ("cc",)) -> str:
    """The same of a cell, after a space; "" where nothing else varies."""
    place = place_words(cell, but)
    lead = next((name for name in spoken_order(cell.factors) if name not in but), "")
    return f" {where_words(place, lead)}" if place else ""


def flow_words(name: str) -> str:
    """flow 1; the flow bulk."""
    numbered = re.fullmatch(r"flow(\d+)", name)
    return f"flow {numbered[1]}" if numbered else f"the flow {name}"


def listed(words: Sequence[str]) -> str:
    """a; a and b; a, b and c."""
    return " and ".join([*([", ".join(words[:-1])] if words[:-1] else []), *words[-1:]])


def first_up(words: str) -> str:
    """A sentence's beginning."""
    return words[:1].upper() + words[1:]
