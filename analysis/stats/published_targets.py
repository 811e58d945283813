"""What a study published, held against what the lab got: row by row, agrees or disagrees.

The same rows are a report's summary of study and lab, and what `lab validate` prints.
"""

import math
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from gostlab.analysis.load.published import TOLERANCE, Claim, Study, claims_of, is_about, level
from gostlab.analysis.load.shipped_baselines import MIN_RUNS, ShippedMetric, load_baselines
from gostlab.analysis.stats.cells import Cell, MatrixResults, spoken_order
from gostlab.analysis.stats.metrics import merit_of
from gostlab.analysis.stats.statistics import Summary
from gostlab.analysis.stats.text_table import (
    RUNS,
    VERDICT,
    Column,
    Table,
    cc_name,
    count,
    rate,
    span_words,
    spread_words,
    texts,
)
from gostlab.results.metrics import states_words
from gostlab.spec.experiment import Published
from gostlab.spec.labels import cell_words

AGREES, DISAGREES, NO_RUN, INVALID = "agrees", "disagrees", "no run", "invalid runs only"
MAX_NAMED = 4  # cells of one reason, before the rest is a count
JUDGED = (AGREES, DISAGREES)
# What few runs show of a cell that is known to have several states: it is neither right nor wrong.
ONE_OF = {2: "one of two states", 3: "one of three states"}
VERDICTS = (*JUDGED, *ONE_OF.values(), NO_RUN, INVALID)


@dataclass(frozen=True)
class Target:
    """One figure of a study beside the lab's."""

    matrix: str
    cell: str  # its levels in a line; the study's own where there is no such cell
    figure: str  # in words
    asked: str  # value, band or both, in words
    got: Summary | None  # over the runs that count; inf: never converged
    verdict: str  # one of VERDICTS
    source: str
    why: str  # why they differ, if the experiment's file says
    target: Claim  # the same as `figure` and `asked`, for figures
    variant: str = ""
    key: str = ""  # of its cell; "": there is none
    full: ShippedMetric | None = None  # what is shipped of the lab's own full form

    @property
    def n(self) -> int:
        return self.got.n if self.got else 0

    @property
    def spread(self) -> tuple[float, float, int] | None:
        """The lab's least and greatest value, of so many runs: of these, where they are enough,
        else of the full form that is shipped.
        """
        if self.got is not None and self.n >= MIN_RUNS:
            return min(self.got.values), max(self.got.values), self.n
        return (self.full.least, self.full.most, self.full.n) if self.full else None

    @property
    def in_spread(self) -> bool:
        """Whether the study's value lies between the lab's least and greatest."""
        if self.spread is None or self.target.value is None:
            return False
        return self.spread[0] <= self.target.value <= self.spread[1]


def target_rows(study: Study, matrices: Iterable[MatrixResults]) -> tuple[Target, ...]:
    """Everything that the study says, row by row in the file's order; also of what has not run."""
    cells = [cell for matrix in matrices for cell in matrix.cells]
    full = load_baselines(study.name)
    return tuple(
        beside(target, full.get((target.matrix, target.cell, target.target.figure)))
        for published in study.published
        for target in judged(published, cells)
    )


def beside(target: Target, full: ShippedMetric | None) -> Target:
    """Put the shipped full form beside a target: of several states too few runs show only one."""
    target = replace(target, full=full)
    shown = ONE_OF.get(len(full.states)) if full else None
    if shown is None or target.verdict not in JUDGED or not borrows(target):
        return target
    return replace(target, verdict=shown)


def validation_verdict(rows: Sequence[Target]) -> bool:
    """Whether all agree; of no rows nothing is shown, so they do not."""
    return bool(rows) and all(row.verdict == AGREES for row in rows)


def judged(published: Published, cells: Sequence[Cell]) -> list[Target]:
    """One published entry against every cell that it is about, of the fullest variant that ran."""
    about = [cell for cell in cells if is_about(published, cell.example)]
    ran = [cell for cell in about if cell.counted] or about
    of_one = [cell for cell in about if cell.variant == ran[0].variant]
    rows = []
    for asked in claims_of(published):
        # the ratio of a congestion control to itself says nothing
        found: list[Cell | None] = [
            each for each in of_one if not asked.versus or each.example.cc != asked.versus
        ]
        rows += [judged_cell(published, asked, cell, cells) for cell in found or [None]]
    return rows


def judged_cell(
    published: Published, asked: Claim, cell: Cell | None, cells: Sequence[Cell]
) -> Target:
    """One figure of one cell, judged by its median or its states'; None: there is no such cell."""
    got = summary_of(asked, cell, cells) if cell else None
    verdict = NO_RUN
    if got is not None:
        verdict = AGREES if any(map(asked.holds, got.typical)) else DISAGREES
    elif cell and not cell.counted and any(run.state == "ok" for run in cell.runs):
        verdict = INVALID
    matrix = published.matrix or ""
    levels = {name: level(value) for name, value in dict(published.factors).items()}
    return Target(
        matrix=cell.matrix if cell else matrix,
        cell=cell.label if cell else cell_words(spoken_order(levels.items()), cc_name) or matrix,
        figure=figure_words(asked),
        asked=asked.sentence,
        got=got,
        verdict=verdict,
        source=published.source,
        why=published.why,
        target=asked,
        variant=cell.variant if cell else "",
        key=cell.key if cell else "",
    )


def summary_of(asked: Claim, cell: Cell, cells: Sequence[Cell]) -> Summary | None:
    """A cell's figure; None if no run that counts has it."""
    merit = merit_of(asked.figure)
    if merit.of_cell is not None:
        return merit.of_cell(cell, cells, asked.versus)
    return cell.summary(f"{merit.key}:{asked.flow}" if asked.flow else merit.key)


def reference_of(row: Target) -> float | None:
    """What the lab's figure is divided by: the study's value, or the middle of its band."""
    asked = row.target
    if asked.value is not None:
        return asked.value
    ends = [end for end in (asked.least, asked.most) if end is not None]
    return math.fsum(ends) / len(ends) if ends else None


def to_reasons(rows: Sequence[Target], name: str, title: str) -> Table | None:
    """The rows that disagree, by why they do, the most frequent first; None if all agree."""
    by_reason: dict[str, list[Target]] = {}
    for row in rows:
        if row.verdict == DISAGREES:
            by_reason.setdefault(row.why, []).append(row)
    if not by_reason:
        return None
    why, which = texts(why="Reason", which="Which")
    columns = (why, Column("numbers", "Numbers", count), Column("over", "Lab / study"), which)
    told = (
        {
            "why": reason or "Nobody has found out yet.",
            "numbers": float(len(alike)),
            "over": over_words(alike),
            "which": which_words(alike),
        }
        for reason, alike in sorted(by_reason.items(), key=lambda pair: -len(pair[1]))
    )
    return Table(name, title, "", columns, tuple(told))


def over_words(rows: Sequence[Target]) -> str:
    """From the least to the most of lab / study; "" where nothing can be divided."""
    got = ((row.got, reference_of(row)) for row in rows)
    found = sorted(each.median / by for each, by in got if each is not None and by)
    return " to ".join(dict.fromkeys(lasting(value) for value in (*found[:1], *found[-1:])))


def which_words(rows: Sequence[Target]) -> str:
    """The cells of some rows, by figure; of many the first few and how many more."""
    by_figure: dict[str, list[str]] = {}
    for row in rows:
        by_figure.setdefault(row.figure, []).append(row.cell)
    said = []
    for figure, cells in by_figure.items():
        more = len(cells) - MAX_NAMED
        first = " · ".join(cells[:MAX_NAMED])
        said.append(f"{figure}: {first}" + (f" and {more} more" if more > 0 else ""))
    return "; ".join(said)


def figure_words(asked: Claim) -> str:
    said = merit_of(asked.figure).words
    if asked.figure == "ratio" and asked.versus:
        said = f"goodput / that of {asked.versus}"
    return f"{said}, {asked.flow}" if asked.flow else said


def to_table(
    rows: Sequence[Target], name: str = "targets", title: str = "The study and the lab"
) -> Table:
    shown = tuple(map(shown_row, rows))
    intervals, reasons = (any(row[key] for row in shown) for key in ("interval", "why"))
    columns = (
        *texts(matrix="Matrix", cell="Cell", figure="Figure"),
        Column("asked", "Study"),
        Column("got", "Lab, median", lasting),
        RUNS,
        *([Column("interval", "Interval (coverage)")] if intervals else []),
        VERDICT,
        *texts(source="Source", **({"why": "Why they differ"} if reasons else {})),
    )
    return Table(name, title, targets_note(rows), columns, shown)


def shown_row(row: Target) -> dict[str, Any]:
    return {
        "matrix": row.matrix,
        "cell": row.cell + (f" ({row.variant})" if row.variant else ""),
        "figure": row.figure,
        "asked": row.asked,
        "got": row.got.median if row.got and not row.got.states else None,
        "n": row.n,
        "interval": spread_words(row.got, lasting),
        "verdict": row.verdict,
        "source": row.source,
        "why": row.why,
        "value": row.target.value,
        "least": row.target.least,
        "most": row.target.most,
    }


def targets_note(rows: Sequence[Target]) -> str:
    """How many agree, and by what rule."""
    if not rows:
        return "The experiment's file holds no figure of a study."
    counted = Counter(row.verdict for row in rows)
    said = [counted_verdict(each, counted[each]) for each in VERDICTS if counted[each]]
    return (
        f"Of {len(rows)}: {', '.join(said)}. The median agrees if it is inside the band; without"
        " one, within 10 % of the value, a count within a factor of 1.5. Of several states one has"
        " to."
    )


def counted_verdict(verdict: str, number: int) -> str:
    """1 agrees, 2 agree, 2 invalid runs only, 2 show one of two states."""
    if verdict in ONE_OF.values():
        return f"{number} {'shows' if number == 1 else 'show'} {verdict}"
    plural = number != 1 and verdict in JUDGED
    return f"{number} {verdict.removesuffix('s') if plural else verdict}"


def lasting(value: float) -> str:
    """A figure; a time that is endless."""
    return "never" if math.isinf(value) else rate(value)


# -- a study's rates, each beside the lab's

MAX_RATES = 20  # more are no table that one takes in


def rates_table(rows: Sequence[Target], called: str) -> Table | None:
    """Each of a study's rates of whole runs beside the lab's and the spread of the lab's own runs;
    None of none, of too many to look at, and where nothing has run.
    """
    told = (row for row in rows if row.target.figure == "goodput_mbit" and not row.target.flow)
    rates = [row for row in told if row.target.value is not None]
    if len(rates) > MAX_RATES or not any(row.got for row in rates):
        return None
    runs = sorted({row.spread[2] for row in rates if row.spread})
    whose = "full form," if any(map(borrows, rates)) else "its"
    spread = [Column("spread", f"{whose} {span_words(runs[0], runs[-1])} runs")] if runs else []
    columns = (
        *texts(cell="Mbit/s"),
        Column("value", called.capitalize(), rate),
        Column("got", "Lab"),
        *spread,
        *texts(holds="Agrees"),
    )
    shown = tuple(
        {
            "cell": row.cell,
            "value": row.target.value,
            "got": " or ".join(map(rate, row.got.typical)) if row.got else "",
            "spread": spread_of(row),
            "holds": holds_words(row),
        }
        for row in rates
    )
    return Table("rates", f"The {called}'s rates", rates_note(rates), columns, shown)


def spread_of(row: Target) -> str:
    """From the least to the most of the lab's runs, or the states of those that are shipped; ""
    where they are too few.
    """
    if row.full and row.full.states and borrows(row):
        return states_words(row.full.states, rate)
    return "–".join(dict.fromkeys(map(rate, (row.spread or ())[:2])))


def holds_words(row: Target) -> str:
    """How a value of the study's stands to the lab's."""
    if row.verdict == AGREES:
        return "yes"
    if row.verdict == DISAGREES:
        return "in spread" if row.in_spread else "no"
    return row.verdict


def rates_note(rates: Sequence[Target]) -> str:
    states = any(row.got and row.got.states for row in rates)
    median = "the lab's median" + (", or that of one state," if states else "")
    said = f"“Yes”: {median} is within {100 * TOLERANCE:.0f} % of the value."
    if any(row.spread for row in rates):
        said += " “In spread”: it lies between the least and the most of the lab's runs."
    if any(row.verdict in ONE_OF.values() for row in rates):
        said += (
            " “One of two states”: the full form's runs fall into several, of which so few runs"
            " show one: it neither agrees nor disagrees."
        )
    makers: dict[str, list[str]] = {}
    for row in rates:
        if row.full and borrows(row):
            makers.setdefault(row.full.made_by, []).append(row.cell)
    usual, *others = sorted(makers, key=lambda made_by: -len(makers[made_by])) or [""]
    if usual:
        said += f" The full form's runs are shipped, none was made here: {usual}."
    for made_by in others:
        said += f" Those of {'; '.join(makers[made_by])}: {made_by}."
    return said


def borrows(row: Target) -> bool:
    """Whether the spread beside a value is the shipped one."""
    return row.full is not None and row.n < MIN_RUNS


def measured_rows(
    rows: Iterable[Target], matrices: Iterable[MatrixResults], made_by: str
) -> tuple[ShippedMetric, ...]:
    """Return what enough runs measured, to be shipped (gostlab.analysis.load.shipped_baselines).

    Of each row: the cell of the same settings, in any matrix, that has most runs.
    """
    cells = [cell for matrix in matrices for cell in matrix.cells]
    told = [(row, fullest(row, cells)) for row in rows if not row.target.flow]
    return tuple(
        ShippedMetric(
            row.matrix,
            row.cell,
            row.target.figure,
            min(got.values),
            got.median,
            max(got.values),
            got.n,
            made_by,
            got.states,
        )
        for row, got in told
        if got is not None and got.n >= MIN_RUNS
    )


def fullest(row: Target, cells: Sequence[Cell]) -> Summary | None:
    """A row's figure over the cell of its settings that has most runs; None if no run has it."""
    settings = next((cell.example.settings for cell in cells if cell.key == row.key), None)
    alike = [cell for cell in cells if cell.example.settings == settings]
    found = [summary_of(row.target, cell, cells) for cell in alike]
    return max(filter(None, found), key=lambda got: got.n, default=None)
