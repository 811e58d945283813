# SPDX-License-Identifier: MIT
"""Compare published values with measured ones: each agrees or disagrees.

The rows form a report's summary of study and lab, and the output of `lab validate`.
"""

import math
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from gostlab.analysis.load.shipped_baselines import MIN_RUNS, ShippedMetric, load_baselines
from gostlab.analysis.load.study import (
    TOLERANCE,
    PublishedClaim,
    Study,
    applies_to_run,
    claims_of,
    format_level,
)
from gostlab.analysis.stats.cells import Cell, MatrixResults, display_order
from gostlab.analysis.stats.metrics import metric_of
from gostlab.analysis.stats.statistics import Summary
from gostlab.analysis.stats.table_formats import (
    RUNS,
    VERDICT,
    Column,
    Table,
    TableRow,
    cc_name,
    format_count,
    format_range,
    format_rate,
    format_spread,
    text_columns,
)
from gostlab.results.metrics import format_clusters
from gostlab.spec.experiment import Published
from gostlab.spec.labels import cell_label

AGREES, DISAGREES, NO_RUN, INVALID = "agrees", "disagrees", "no run", "invalid runs only"
MAX_NAMED = 4  # cells listed per reason; the rest is counted
JUDGED = (AGREES, DISAGREES)
# Verdicts on few runs of a cell with several known clusters: they neither agree nor disagree.
ONE_OF = {2: "one of two states", 3: "one of three states"}
VERDICTS = (*JUDGED, *ONE_OF.values(), NO_RUN, INVALID)


@dataclass(frozen=True)
class TargetComparison:
    """One published value and the lab's measurement."""

    matrix: str
    cell: str  # label of the levels; the study's if there is no such cell
    figure: str  # label of the metric
    expected: str  # value, band or both as text
    got: Summary | None  # summary over counted runs; inf: never converged
    verdict: str  # one of VERDICTS
    source: str
    why: str  # reason of the difference from the experiment's file
    target: PublishedClaim  # `figure` and `asked` in machine-readable form
    variant: str = ""
    key: str = ""  # key of its cell; "" without a cell
    full: ShippedMetric | None = None  # shipped baseline of the full form

    @property
    def n(self) -> int:
        return self.got.n if self.got else 0

    @property
    def spread(self) -> tuple[float, float, int] | None:
        """Return the lab's minimum and maximum and the number of runs.

        These are the measured runs if there are enough, else those of the shipped full form.
        """
        if self.got is not None and self.n >= MIN_RUNS:
            return min(self.got.values), max(self.got.values), self.n
        return (self.full.least, self.full.most, self.full.n) if self.full else None

    @property
    def in_spread(self) -> bool:
        """Return whether the published value lies in the lab's spread."""
        if self.spread is None or self.target.value is None:
            return False
        return self.spread[0] <= self.target.value <= self.spread[1]


def target_rows(study: Study, matrices: Iterable[MatrixResults]) -> tuple[TargetComparison, ...]:
    """Compare all published values, in the file's order, including those without runs."""
    cells = [cell for matrix in matrices for cell in matrix.cells]
    full = load_baselines(study.name)
    return tuple(
        add_baseline(target, full.get((target.matrix, target.cell, target.target.figure)))
        for published in study.published
        for target in compare_entry(published, cells)
    )


def add_baseline(target: TargetComparison, full: ShippedMetric | None) -> TargetComparison:
    """Add the shipped baseline to a target.

    The verdict changes if few runs can show only one of several clusters.
    """
    target = replace(target, full=full)
    partial_verdict = ONE_OF.get(len(full.states)) if full else None
    if partial_verdict is None or target.verdict not in JUDGED or not uses_baseline(target):
        return target
    return replace(target, verdict=partial_verdict)


def validation_verdict(rows: Sequence[TargetComparison]) -> bool:
    """Return whether all rows agree; False without rows."""
    return bool(rows) and all(row.verdict == AGREES for row in rows)


def compare_entry(published: Published, cells: Sequence[Cell]) -> list[TargetComparison]:
    """Compare a published entry with every matching cell of the largest variant with runs."""
    about = [cell for cell in cells if applies_to_run(published, cell.example)]
    ran = [cell for cell in about if cell.counted] or about
    of_one = [cell for cell in about if cell.variant == ran[0].variant]
    rows = []
    for claim in claims_of(published):
        # skip the ratio of a congestion control to itself
        matching: list[Cell | None] = [
            cell_of_variant
            for cell_of_variant in of_one
            if not claim.versus or cell_of_variant.example.cc != claim.versus
        ]
        rows += [compare_cell(published, claim, cell, cells) for cell in matching or [None]]
    return rows


def compare_cell(
    published: Published, asked: PublishedClaim, cell: Cell | None, cells: Sequence[Cell]
) -> TargetComparison:
    """Compare one metric of one cell, None if it does not exist, by its median or clusters."""
    got = summary_of(asked, cell, cells) if cell else None
    verdict = NO_RUN
    if got is not None:
        verdict = AGREES if any(map(asked.holds, got.typical)) else DISAGREES
    elif cell and not cell.counted and any(run.state == "ok" for run in cell.runs):
        verdict = INVALID
    matrix = published.matrix or ""
    levels = {name: format_level(value) for name, value in dict(published.factors).items()}
    return TargetComparison(
        matrix=cell.matrix if cell else matrix,
        cell=cell.label if cell else cell_label(display_order(levels.items()), cc_name) or matrix,
        figure=metric_label(asked),
        expected=asked.sentence,
        got=got,
        verdict=verdict,
        source=published.source,
        why=published.why,
        target=asked,
        variant=cell.variant if cell else "",
        key=cell.key if cell else "",
    )


def summary_of(asked: PublishedClaim, cell: Cell, cells: Sequence[Cell]) -> Summary | None:
    """Summarise a cell's metric; None if no counted run has it."""
    merit = metric_of(asked.figure)
    if merit.of_cell is not None:
        return merit.of_cell(cell, cells, asked.versus)
    return cell.summary(f"{merit.key}:{asked.flow}" if asked.flow else merit.key)


def published_divisor(row: TargetComparison) -> float | None:
    """Return the divisor of the lab's value: the published value or its band's middle."""
    claim = row.target
    if claim.value is not None:
        return claim.value
    ends = [end for end in (claim.least, claim.most) if end is not None]
    return math.fsum(ends) / len(ends) if ends else None


def reasons_table(rows: Sequence[TargetComparison], name: str, title: str) -> Table | None:
    """Tabulate disagreeing rows by reason, the most frequent first. None if all agree."""
    by_reason: dict[str, list[TargetComparison]] = {}
    for row in rows:
        if row.verdict == DISAGREES:
            by_reason.setdefault(row.why, []).append(row)
    if not by_reason:
        return None
    why, which = text_columns(why="Reason", which="Which")
    columns = (
        why,
        Column("numbers", "Numbers", format_count),
        Column("over", "Lab / study"),
        which,
    )
    table_rows = (
        {
            "why": reason or "Nobody has found out yet.",
            "numbers": float(len(alike)),
            "over": format_ratio_range(alike),
            "which": list_cells_by_metric(alike),
        }
        for reason, alike in sorted(by_reason.items(), key=lambda pair: -len(pair[1]))
    )
    return Table(name, title, "", columns, tuple(table_rows))


def format_ratio_range(rows: Sequence[TargetComparison]) -> str:
    """Format the range of lab / study; "" without a divisor."""
    got = ((row.got, published_divisor(row)) for row in rows)
    ratios = sorted(summary.median / by for summary, by in got if summary is not None and by)
    return " to ".join(dict.fromkeys(ratio_text(value) for value in (*ratios[:1], *ratios[-1:])))


def list_cells_by_metric(rows: Sequence[TargetComparison]) -> str:
    """List the cells of some rows by metric, at most MAX_NAMED of each."""
    by_figure: dict[str, list[str]] = {}
    for row in rows:
        by_figure.setdefault(row.figure, []).append(row.cell)
    parts = []
    for figure, cells in by_figure.items():
        more = len(cells) - MAX_NAMED
        first = " · ".join(cells[:MAX_NAMED])
        parts.append(f"{figure}: {first}" + (f" and {more} more" if more > 0 else ""))
    return "; ".join(parts)


def metric_label(asked: PublishedClaim) -> str:
    label = metric_of(asked.figure).heading
    if asked.figure == "ratio" and asked.versus:
        label = f"goodput / that of {asked.versus}"
    return f"{label}, {asked.flow}" if asked.flow else label


def to_table(
    rows: Sequence[TargetComparison], name: str = "targets", title: str = "The study and the lab"
) -> Table:
    cells = tuple(map(row_texts, rows))
    intervals, reasons = (any(row[key] for row in cells) for key in ("interval", "why"))
    columns = (
        *text_columns(matrix="Matrix", cell="Cell", figure="Figure"),
        Column("asked", "Study"),
        Column("got", "Lab, median", ratio_text),
        RUNS,
        *([Column("interval", "Interval (coverage)")] if intervals else []),
        VERDICT,
        *text_columns(source="Source", **({"why": "Why they differ"} if reasons else {})),
    )
    return Table(name, title, targets_note(rows), columns, cells)


def row_texts(row: TargetComparison) -> TableRow:
    return {
        "matrix": row.matrix,
        "cell": row.cell + (f" ({row.variant})" if row.variant else ""),
        "figure": row.figure,
        "asked": row.expected,
        "got": row.got.median if row.got and not row.got.states else None,
        "n": row.n,
        "interval": format_spread(row.got, ratio_text),
        "verdict": row.verdict,
        "source": row.source,
        "why": row.why,
        "value": row.target.value,
        "least": row.target.least,
        "most": row.target.most,
    }


def targets_note(rows: Sequence[TargetComparison]) -> str:
    """Count the verdicts, and state the rule."""
    if not rows:
        return "The experiment's file holds no figure of a study."
    counted = Counter(row.verdict for row in rows)
    counts = [
        counted_verdict(verdict, counted[verdict]) for verdict in VERDICTS if counted[verdict]
    ]
    return (
        f"Of {len(rows)}: {', '.join(counts)}. The median agrees if it is inside the band; without"
        " one, within 10 % of the value, a count within a factor of 1.5. Of several states one has"
        " to."
    )


def agreement_sentence(rows: Sequence[TargetComparison], called: str) -> str:
    """State how many published values agree; "" without runs."""
    judged = [row for row in rows if row.verdict in JUDGED]
    if not judged:
        return ""
    agree = sum(row.verdict == AGREES for row in judged)
    missing = sum(row.verdict not in (*JUDGED, *ONE_OF.values()) for row in rows)
    more = f"; {missing} more have no run that counts" if missing else ""
    return f"{agree} of {len(judged)} of the {called}'s numbers agree{more}."


def counted_verdict(verdict: str, number: int) -> str:
    """Format a count of verdicts: 1 agrees, 2 agree, 2 show one of two states."""
    if verdict in ONE_OF.values():
        return f"{number} {'shows' if number == 1 else 'show'} {verdict}"
    plural = number != 1 and verdict in JUDGED
    return f"{number} {verdict.removesuffix('s') if plural else verdict}"


def ratio_text(value: float) -> str:
    """Format a value; an infinite time is "never"."""
    return "never" if math.isinf(value) else format_rate(value)


# -- a study's rates, each beside the lab's

MAX_RATES = 20  # omit tables with more rows


def rates_table(rows: Sequence[TargetComparison], called: str) -> Table | None:
    """Tabulate a study's rates of whole runs with the lab's and their spread.

    None without rates, with more than MAX_RATES, and before any run.
    """
    goodputs = (row for row in rows if row.target.figure == "goodput_mbit" and not row.target.flow)
    rates = [row for row in goodputs if row.target.value is not None]
    if len(rates) > MAX_RATES or not any(row.got for row in rates):
        return None
    runs = sorted({row.spread[2] for row in rates if row.spread})
    whose = "full form," if any(map(uses_baseline, rates)) else "its"
    spread = [Column("spread", f"{whose} {format_range(runs[0], runs[-1])} runs")] if runs else []
    columns = (
        *text_columns(cell="Mbit/s"),
        Column("value", called.capitalize(), format_rate),
        Column("got", "Lab"),
        *spread,
        *text_columns(holds="Agrees"),
    )
    cells = tuple(
        {
            "cell": row.cell,
            "value": row.target.value,
            "got": " or ".join(map(format_rate, row.got.typical)) if row.got else "",
            "spread": format_spread_of_row(row),
            "holds": describe_agreement(row),
        }
        for row in rates
    )
    return Table("rates", f"The {called}'s rates", rates_note(rates), columns, cells)


def format_spread_of_row(row: TargetComparison) -> str:
    """Format the range of the lab's runs or the shipped clusters; "" for too few runs."""
    if row.full and row.full.states and uses_baseline(row):
        return format_clusters(row.full.states, format_rate)
    return "–".join(dict.fromkeys(map(format_rate, (row.spread or ())[:2])))


def describe_agreement(row: TargetComparison) -> str:
    """Describe the relation of a published value to the lab's."""
    if row.verdict == AGREES:
        return "yes"
    if row.verdict == DISAGREES:
        return "in spread" if row.in_spread else "no"
    return row.verdict


def rates_note(rates: Sequence[TargetComparison]) -> str:
    states = any(row.got and row.got.states for row in rates)
    median = "the lab's median" + (", or that of one state," if states else "")
    text = f"“Yes”: {median} is within {100 * TOLERANCE:.0f} % of the value."
    if any(row.spread for row in rates):
        text += " “In spread”: it lies between the least and the most of the lab's runs."
    if any(row.verdict in ONE_OF.values() for row in rates):
        text += (
            " “One of two states”: the full form's runs fall into several, of which so few runs"
            " show one: it neither agrees nor disagrees."
        )
    makers: dict[str, list[str]] = {}
    for row in rates:
        if row.full and uses_baseline(row):
            makers.setdefault(row.full.made_by, []).append(row.cell)
    usual, *others = sorted(makers, key=lambda made_by: -len(makers[made_by])) or [""]
    if usual:
        text += f" The full form's runs are shipped, none was made here: {usual}."
    for made_by in others:
        text += f" Those of {'; '.join(makers[made_by])}: {made_by}."
    return text


def uses_baseline(row: TargetComparison) -> bool:
    """Return whether the spread is the shipped one."""
    return row.full is not None and row.n < MIN_RUNS


def baseline_rows(
    rows: Iterable[TargetComparison], matrices: Iterable[MatrixResults], made_by: str
) -> tuple[ShippedMetric, ...]:
    """Return the results of enough runs, to be shipped (see load.shipped_baselines).

    Each row uses the cell with the same settings, in any matrix, that has most runs.
    """
    cells = [cell for matrix in matrices for cell in matrix.cells]
    summaries = [(row, summarise_largest_cell(row, cells)) for row in rows if not row.target.flow]
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
        for row, got in summaries
        if got is not None and got.n >= MIN_RUNS
    )


def summarise_largest_cell(row: TargetComparison, cells: Sequence[Cell]) -> Summary | None:
    """Summarise a row's metric over its settings' cell with most runs; None if no run has it."""
    settings = next((cell.example.settings for cell in cells if cell.key == row.key), None)
    alike = [cell for cell in cells if cell.example.settings == settings]
    summaries = [summary_of(row.target, cell, cells) for cell in alike]
    return max(filter(None, summaries), key=lambda got: got.n, default=None)
