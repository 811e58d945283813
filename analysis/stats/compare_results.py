# SPDX-License-Identifier: MIT
"""Compare two results folders of the same questions, cell by cell and metric by metric.

This shows the effect of a change of the kernel, a tunnel or a setting.
"""

import math
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from gostlab.analysis.load.run_folder import RunFolder
from gostlab.analysis.stats.cells import Cell, MatrixResults
from gostlab.analysis.stats.metrics import metric_of
from gostlab.analysis.stats.statistics import MIN_RUNS, Summary, pair_by_seed, paired_ratio
from gostlab.analysis.stats.table_formats import (
    RUNS,
    VERDICT,
    Column,
    Table,
    format_ratio,
    pluralize,
    text_columns,
)
from gostlab.errors import BadInput

# The settings that say which version of a user's own source a run was made with.
VERSION_KEY = re.compile(r"own_cc\.|kernel_sha256$|plugins$|.*\.(programs|files)\.")
# Thresholds by which a single run with another seed, or through a tunnel, may differ by chance.
FEW_RUNS_FACTOR = 3
BETTER, WORSE, SAME, UNSURE = "better", "worse", "same", "unsure"


@dataclass(frozen=True)
class ComparedQuantity:
    """A metric that is compared."""

    figure: str  # name of a metric
    more_is_better: bool
    # Ratios of values below this are meaningless: 0.2 ms of queue against 0.1.
    floor: float = 0.0


COMPARED_METRICS = (
    ComparedQuantity("goodput_mbit", more_is_better=True),
    ComparedQuantity("srtt_median_ms", more_is_better=False, floor=1.0),
    ComparedQuantity("queue_delay_p95_ms", more_is_better=False, floor=2.0),
    ComparedQuantity("wan_share", more_is_better=False, floor=0.001),
)


@dataclass(frozen=True)
class MetricChange:
    """One metric of one cell, before and after."""

    matrix: str
    cell: str
    figure: str  # label with its unit
    before: float
    after: float
    times: float  # median of after / before over pairs with a common seed
    low: float | None  # 95 % interval; None for fewer than six pairs
    high: float | None
    n: int  # pairs with a common seed; without any, the smaller number of runs
    verdict: str  # better | worse | same | unsure: large, but runs disagree
    show_as: str = ""  # formatted before and after


@dataclass(frozen=True)
class ResultChanges:
    """All differences between two folders."""

    rows: tuple[MetricChange, ...]
    lost: tuple[str, ...]  # cells with counted runs before and none now
    only_before: tuple[str, ...]  # cells without a run after
    only_after: tuple[str, ...]
    program_changes: tuple[str, ...]  # changed programs: "kernel: 7.3.3 before, 7.3.4 after"

    @property
    def worse(self) -> list[MetricChange]:
        return [row for row in self.rows if row.verdict == WORSE]

    @property
    def regressed(self) -> bool:
        """Return whether any metric is worse or any cell was lost."""
        return bool(self.worse or self.lost)

    def to_json(self) -> dict[str, object]:
        return {**asdict(self), "regressed": self.regressed}


def compare_runs(
    before: Sequence[MatrixResults], after: Sequence[MatrixResults], threshold: float = 0.05
) -> ResultChanges:
    """Compare every cell that both folders have, by matrix and levels.

    Of several variants those with the same settings are compared, else the largest. Two versions of
    a user's source are variants of one question: the old one is compared with the new one.

    threshold: relative change below which a metric is the same. Raises BadInput if several versions
    are candidates.
    """
    old, new = cells_by_location(before), cells_by_location(after)
    pairs = [
        pair
        for location in old
        if location in new
        for pair in pair_variants(old[location], new[location])
    ]
    taken = {id(cell) for pair in pairs for cell in pair}
    rows = (
        compare_metric(cell, other, watched, threshold)
        for cell, other in pairs
        if other.counted
        for watched in COMPARED_METRICS
    )
    return ResultChanges(
        tuple(filter(None, rows)),
        tuple(name_cell(cell) for cell, other in pairs if not other.counted),
        tuple(unmatched_cells(old, new, taken)),
        tuple(unmatched_cells(new, old, taken)),
        (*changed_settings(pairs), *changed_programs(runs_of(before), runs_of(after))),
    )


def cells_by_location(matrices: Iterable[MatrixResults]) -> dict[Any, list[Cell]]:
    """Return cells by matrix and levels, the largest variant first."""
    by_location: dict[Any, list[Cell]] = {}
    for matrix in matrices:
        for cell in matrix.cells:
            by_location.setdefault((cell.matrix, cell.factors), []).append(cell)
    return by_location


def pair_variants(cells: Sequence[Cell], others: Sequence[Cell]) -> list[tuple[Cell, Cell]]:
    """Pair the counted variants of one cell with the other folder's. Raises BadInput."""
    olds = [cell for cell in cells if cell.counted]
    pairs: list[tuple[Cell, Cell]] = []
    for question in dict.fromkeys(map(question_key_of_cell, olds)):
        old_cells = [cell for cell in olds if question_key_of_cell(cell) == question]
        new_cells = [cell for cell in others if question_key_of_cell(cell) == question]
        known = {cell.example.settings for cell in old_cells}
        fresh = [cell for cell in new_cells if cell.example.settings not in known]
        if len(new_cells) == 1 and not fresh:
            same = new_cells[0].example.settings
            pairs += [(cell, new_cells[0]) for cell in old_cells if cell.example.settings == same]
        elif len(old_cells) == len(fresh) == 1:
            pairs.append((old_cells[0], fresh[0]))
        elif new_cells:
            versions = [*old_cells, *fresh]
            raise BadInput(
                f"{name_cell(old_cells[0])}: {pluralize(len(old_cells), 'version')} before and"
                f" {pluralize(len(fresh), 'other')} after, and nothing says which to compare"
                f" ({'; '.join(dict.fromkeys(map(format_versions, versions)))}): run the new one"
                " into a folder of its own (--results)"
            )
    return pairs or [(cell, others[0]) for cell in olds[:1]]


def is_version_setting(key: str) -> bool:
    """Return whether a setting says which version of a user's own source a run was made with."""
    return VERSION_KEY.match(key) is not None


def question_key_of_cell(cell: Cell) -> Any:
    return tuple(pair for pair in cell.example.settings if not is_version_setting(pair[0]))


def format_versions(cell: Cell) -> str:
    """Name the versions of a cell's sources: mine 0a1b2c."""
    versions = (pair for pair in cell.example.settings if is_version_setting(pair[0]))
    return ", ".join(f"{key.removeprefix('own_cc.')} {value}" for key, value in versions)


def unmatched_cells(
    places: Mapping[Any, Sequence[Cell]], others: Mapping[Any, Sequence[Cell]], taken: set[int]
) -> Iterator[str]:
    """Name the cells that the other folder lacks, and variants without a partner."""
    for location, cells in places.items():
        if location not in others:
            yield name_cell(cells[0])
        known = {cell.example.settings for cell in others.get(location, ())}
        for cell in cells if location in others else ():
            if id(cell) not in taken and cell.counted and cell.example.settings not in known:
                difference = format_versions(cell) or cell.variant or "other settings"
                yield f"{name_cell(cell)} ({difference})"


def changed_settings(pairs: Iterable[tuple[Cell, Cell]]) -> list[str]:
    """Name the settings in which compared cells differ, with both values."""
    differences = []
    for cell, other in pairs:
        old, new = dict(cell.example.settings), dict(other.example.settings)
        differences += [
            f"{key}: {old.get(key, '–')} before, {new.get(key, '–')} after"
            for key in sorted(old.keys() | new.keys())
            if old.get(key) != new.get(key)
        ]
    return list(dict.fromkeys(differences))


def name_cell(cell: Cell) -> str:
    return f"{cell.matrix}: {cell.label}" if cell.factors else cell.matrix


def runs_of(matrices: Iterable[MatrixResults]) -> list[RunFolder]:
    return [run for matrix in matrices for run in matrix.runs if run.counts]


def compare_metric(
    before: Cell, after: Cell, watched: ComparedQuantity, threshold: float
) -> MetricChange | None:
    """Compare one metric of two cells; None if one of them lacks it."""
    merit = metric_of(watched.figure)
    old, new = before.summary(merit.key), after.summary(merit.key)
    if old is None or new is None:
        return None
    olds, news = before.values_by_seed(merit.key), after.values_by_seed(merit.key)
    pairs = pair_by_seed(olds, news)
    times = paired_ratio(olds, news)
    if times is None:  # no common seeds, or a divisor of 0
        times = Summary((ratio_of(new.median, old.median),), ratio_of(new.median, old.median), None)
    small = max(old.median, new.median) <= watched.floor
    verdict = SAME if small else verdict_of(times, watched, threshold)
    among = min(new.values) <= max(old.values) and min(old.values) <= max(new.values)
    if verdict in (BETTER, WORSE) and not pairs and among:  # the runs have no common seeds
        verdict = UNSURE
    return MetricChange(
        matrix=before.matrix,
        cell=before.label if before.factors else "",
        figure=merit.heading,
        before=old.median,
        after=new.median,
        times=times.median,
        low=getattr(times.interval, "low", None),
        high=getattr(times.interval, "high", None),
        n=len(pairs) or min(old.n, new.n),
        verdict=verdict,
        show_as=f"{merit.show(old.median)} → {merit.show(new.median)}",
    )


def ratio_of(after: float, before: float) -> float:
    """Return after / before; 1 for 0 / 0, infinite for a divisor of 0."""
    if before:
        return after / before
    return math.inf if after else 1.0


def verdict_of(times: Summary, watched: ComparedQuantity, threshold: float) -> str:
    """Return better or worse if a ratio moved by the threshold and its interval excludes 1.

    Without an interval every pair must have moved to that side; for fewer than six pairs by FEW
    times the threshold.
    """
    moved = times.median
    if 1 / (1 + threshold) <= moved <= 1 + threshold:
        return SAME
    if times.interval is not None:
        agreed = not times.interval.low <= 1 <= times.interval.high
    else:
        edge = 1 + (FEW_RUNS_FACTOR * threshold if times.n < MIN_RUNS else 0)
        agreed = min(times.values) > edge or max(times.values) < 1 / edge
    if not agreed:
        return UNSURE
    return BETTER if (moved > 1) == watched.more_is_better else WORSE


def changed_programs(before: Sequence[RunFolder], after: Sequence[RunFolder]) -> list[str]:
    """Describe changed programs and machines."""
    differences = []
    for part in ("kernel", "tunnel_sha256", "iperf3", "lab", "host"):
        one, two = (
            sorted({str(getattr(run.environment, part))[:60] for run in runs if run.environment})
            for runs in (before, after)
        )
        if one != two:
            was, now = (" / ".join(values) or "–" for values in (one, two))
            name = "tunnel program" if part == "tunnel_sha256" else part
            differences.append(f"{name}: {was} before, {now} after")
    return differences


# -- for people

ORDER = {WORSE: 0, BETTER: 1, UNSURE: 2, SAME: 3}


def to_table(found: ResultChanges) -> Table:
    """Return the changed metrics, worse ones first; the note counts the others."""
    moved = [row for row in found.rows if row.verdict != SAME]
    columns = (
        *text_columns(cell="Cell", figure="Figure"),
        Column("show_as", "Before → after"),
        Column(
            "times", "After / before", lambda x: "from none" if math.isinf(x) else format_ratio(x)
        ),
        Column("interval", "95 % interval"),
        RUNS,
        VERDICT,
    )
    rows = [
        {
            **asdict(row),
            "cell": f"{row.matrix}: {row.cell}" if row.cell else row.matrix,
            "interval": " to ".join(
                format_ratio(end) for end in (row.low, row.high) if end is not None
            ),
        }
        for row in sorted(moved, key=lambda row: ORDER[row.verdict])
    ]
    return Table("changes", "What changed", summary_line(found), columns, tuple(rows))


def summary_line(found: ResultChanges) -> str:
    counts = Counter(row.verdict for row in found.rows)
    cells = len({(row.matrix, row.cell) for row in found.rows})
    counts_text = ", ".join(f"{counts[verdict]} {verdict}" for verdict in ORDER if counts[verdict])
    counted = f"{pluralize(len(found.rows), 'figure')} of {pluralize(cells, 'cell')}"
    return f"{counted}: {counts_text or 'nothing to compare'}."
