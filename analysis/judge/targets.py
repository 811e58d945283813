"""What a study published, held against what the lab got: row by row, agrees or disagrees.

The same rows are a report's summary of study and lab, and what `lab validate` prints.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from analysis.judge.cells import Cell, MatrixResults, spoken_order
from analysis.judge.figures_of_merit import merit_of
from analysis.judge.statistics import Summary
from analysis.judge.table import Column, Table, cc_name, count, interval, plain, rate
from analysis.read.study import Claim, Study, claims_of, is_about, level
from gostlab.ask.experiment import Published
from gostlab.ask.words import cell_words

AGREES, DISAGREES, NO_RUN, INVALID = "agrees", "disagrees", "no run", "invalid runs only"
MOST_NAMED = 4  # cells of one reason, before the rest is a count
VERDICTS = (AGREES, DISAGREES, NO_RUN, INVALID)


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

    @property
    def n(self) -> int:
        """How many runs it rests on."""
        return self.got.n if self.got else 0


def target_rows(study: Study, matrices: Iterable[MatrixResults]) -> tuple[Target, ...]:
    """Everything that the study says, row by row in the file's order; also of what has not run."""
    cells = [cell for matrix in matrices for cell in matrix.cells]
    return tuple(target for published in study.published for target in judged(published, cells))


def validation_verdict(rows: Sequence[Target]) -> bool:
    """Whether all agree; of no rows nothing is shown, so they do not."""
    return bool(rows) and all(row.verdict == AGREES for row in rows)


def judged(published: Published, cells: Sequence[Cell]) -> list[Target]:
    """One published entry against every cell that it is about, of the fullest variant that ran."""
    about = [cell for cell in cells if is_about(published, cell.example)]
    ran = [cell for cell in about if cell.counted] or about
    rows = []
    for asked in claims_of(published):
        # the ratio of a congestion control to itself says nothing
        found = [
            cell
            for cell in about
            if cell.variant == ran[0].variant
            and not (asked.versus and cell.example.cc == asked.versus)
        ]
        rows += [judged_cell(published, asked, cell, cells) for cell in found]
        if not found:
            levels = {name: level(value) for name, value in dict(published.factors).items()}
            said = cell_words(spoken_order(levels.items()), cc_name)
            rows.append(
                Target(
                    published.matrix or "",
                    said or published.matrix or "",
                    figure_words(asked),
                    asked.sentence,
                    None,
                    NO_RUN,
                    published.source,
                    published.why,
                    asked,
                )
            )
    return rows


def judged_cell(published: Published, asked: Claim, cell: Cell, cells: Sequence[Cell]) -> Target:
    """One figure of one cell; the median of the runs that count is what agrees or not."""
    got = summary_of(asked, cell, cells)
    if got is not None:
        verdict = AGREES if asked.holds(got.median) else DISAGREES
    else:
        invalid = any(run.state == "ok" and run.verdict == "invalid" for run in cell.runs)
        verdict = INVALID if invalid and not cell.counted else NO_RUN
    return Target(
        cell.matrix,
        cell.label,
        figure_words(asked),
        asked.sentence,
        got,
        verdict,
        published.source,
        published.why,
        asked,
        cell.variant,
        cell.key,
    )


def summary_of(asked: Claim, cell: Cell, cells: Sequence[Cell]) -> Summary | None:
    """A cell's figure; None if no run that counts has it."""
    merit = merit_of(asked.figure)
    if merit.of_cell is not None:
        return merit.of_cell(cell, cells, asked.versus)
    return cell.summary(f"{merit.key}:{asked.flow}" if asked.flow else merit.key)


def reference_of(row: Target) -> float | None:
    """What the lab's figure is divided by: the study's value; of a band alone its middle, or the
    end that it has.
    """
    asked = row.target
    if asked.value is not None:
        return asked.value
    ends = [end for end in (asked.least, asked.most) if end is not None]
    return math.fsum(ends) / len(ends) if ends else None


def to_reasons(rows: Sequence[Target], name: str, title: str) -> Table | None:
    """The rows that disagree, by why they do: each reason once, the most frequent first; None if
    all agree.
    """
    by_reason: dict[str, list[Target]] = {}
    for row in rows:
        if row.verdict == DISAGREES:
            by_reason.setdefault(row.why, []).append(row)
    if not by_reason:
        return None
    groups = sorted(by_reason.items(), key=lambda pair: -len(pair[1]))
    columns = (
        Column("why", "Reason", plain, False),
        Column("numbers", "Numbers", count),
        Column("over", "Lab / study", plain),
        Column("which", "Which", plain, False),
    )
    return Table(
        name,
        title,
        "",
        columns,
        tuple(
            {
                "why": why or "Nobody has found out yet.",
                "numbers": float(len(alike)),
                "over": over_words(alike),
                "which": which_words(alike),
            }
            for why, alike in groups
        ),
    )


def over_words(rows: Sequence[Target]) -> str:
    """From the least to the most of lab / study; "" where nothing can be divided."""
    found = sorted(
        row.got.median / reference
        for row in rows
        if row.got is not None and (reference := reference_of(row))
    )
    if not found:
        return ""
    ends = dict.fromkeys(lasting(value) for value in (found[0], found[-1]))
    return " to ".join(ends)


def which_words(rows: Sequence[Target]) -> str:
    """The cells of some rows, by figure; of many the first few and how many more."""
    by_figure: dict[str, list[str]] = {}
    for row in rows:
        by_figure.setdefault(row.figure, []).append(row.cell)
    return "; ".join(
        f"{figure}: "
        + " · ".join(cells[:MOST_NAMED])
        + (f" and {len(cells) - MOST_NAMED} more" if len(cells) > MOST_NAMED else "")
        for figure, cells in by_figure.items()
    )


def figure_words(asked: Claim) -> str:
    """The name of what was published, for people."""
    said = merit_of(asked.figure).words
    if asked.figure == "ratio" and asked.versus:
        said = f"goodput / that of {asked.versus}"
    return f"{said}, {asked.flow}" if asked.flow else said


def to_table(
    rows: Sequence[Target], name: str = "targets", title: str = "The study and the lab"
) -> Table:
    """The rows as a table."""
    columns = [
        Column("matrix", "Matrix", plain, False),
        Column("cell", "Cell", plain, False),
        Column("figure", "Figure", plain, False),
        Column("asked", "Study", plain),
        Column("got", "Lab, median", lasting),
        Column("n", "n", count),
        Column("interval", "Interval (coverage)", plain),
        Column("verdict", "Verdict", plain, False),
        Column("source", "Source", plain, False),
        Column("why", "Why they differ", plain, False),
    ]
    optional = {"interval", "why"}
    shown = [
        {
            "matrix": row.matrix,
            "cell": row.cell + (f" ({row.variant})" if row.variant else ""),
            "figure": row.figure,
            "asked": row.asked,
            "got": row.got.median if row.got else None,
            "n": row.n,
            "interval": (
                interval(
                    row.got.interval.low, row.got.interval.high, row.got.interval.coverage, lasting
                )
                if row.got and row.got.interval
                else ""
            ),
            "verdict": row.verdict,
            "source": row.source,
            "why": row.why,
            "value": row.target.value,
            "least": row.target.least,
            "most": row.target.most,
        }
        for row in rows
    ]
    kept = tuple(
        column
        for column in columns
        if column.key not in optional or any(row[column.key] for row in shown)
    )
    return Table(name, title, targets_note(rows), kept, tuple(shown))


def targets_note(rows: Sequence[Target]) -> str:
    """How many agree, and by what rule."""
    if not rows:
        return "The experiment's file holds no figure of a study."
    counted = [(verdict, sum(row.verdict == verdict for row in rows)) for verdict in VERDICTS]
    return (
        f"Of {len(rows)}: "
        + ", ".join(verdicts_words(number, verdict) for verdict, number in counted if number)
        + ". The median agrees if it is inside the band; without one, within 10 % of the value."
    )


def verdicts_words(number: int, verdict: str) -> str:
    """1 agrees, 2 agree."""
    plural = number != 1 and verdict in (AGREES, DISAGREES)
    return f"{number} {verdict.removesuffix('s') if plural else verdict}"


def lasting(value: float) -> str:
    """A figure; a time that is endless."""
    return "never" if math.isinf(value) else rate(value)
