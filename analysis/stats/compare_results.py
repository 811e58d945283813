"""What changed between two results folders of the same questions: cell by cell, figure by figure.

For those who change a kernel, a tunnel or a setting and want to know what it did.
"""

import math
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from gostlab.analysis.load.run_folder import RunFolder
from gostlab.analysis.stats.cells import Cell, MatrixResults
from gostlab.analysis.stats.metrics import merit_of
from gostlab.analysis.stats.statistics import MIN_RUNS, Summary, paired, paired_ratio
from gostlab.analysis.stats.text_table import RUNS, VERDICT, Column, Table, ratio, several, texts
from gostlab.errors import BadInput

# A single run of another seed, or through a tunnel, may lie this many thresholds off by chance.
FEW = 3
BETTER, WORSE, SAME, UNSURE = "better", "worse", "same", "unsure"


@dataclass(frozen=True)
class ComparedQuantity:
    """A figure that is compared."""

    figure: str  # a figure of merit, by name
    more_is_better: bool
    # Below this in both folders a ratio says nothing: 0.2 ms of queue against 0.1.
    floor: float = 0.0


WATCHED = (
    ComparedQuantity("goodput_mbit", more_is_better=True),
    ComparedQuantity("srtt_median_ms", more_is_better=False, floor=1.0),
    ComparedQuantity("queue_delay_p95_ms", more_is_better=False, floor=2.0),
    ComparedQuantity("wan_share", more_is_better=False, floor=0.001),
)


@dataclass(frozen=True)
class MetricChange:
    """One figure of one cell, before and after."""

    matrix: str
    cell: str
    figure: str  # in words, with its unit
    before: float
    after: float
    times: float  # the median over pairs of after / before, where runs share a seed
    low: float | None  # of its 95 % interval; None: fewer than six pairs
    high: float | None
    n: int  # pairs of runs with the same seed; without one, the fewer runs
    verdict: str  # better | worse | same | unsure: large, but the runs do not agree on it
    show_as: str = ""  # before and after as people write them


@dataclass(frozen=True)
class Changes:
    """Everything that two folders say of each other."""

    rows: tuple[MetricChange, ...]
    lost: tuple[str, ...]  # cells whose runs counted before, and none of which counts now
    only_before: tuple[str, ...]  # cells that have no run after
    only_after: tuple[str, ...]
    made: tuple[str, ...]  # what made the numbers differs: "kernel: 7.3.3 before, 7.3.4 after"

    @property
    def worse(self) -> list[MetricChange]:
        return [row for row in self.rows if row.verdict == WORSE]

    @property
    def regressed(self) -> bool:
        """Whether anything is worse, or has been lost."""
        return bool(self.worse or self.lost)

    def to_json(self) -> dict[str, Any]:
        return {**asdict(self), "regressed": self.regressed}


def changes(
    before: Sequence[MatrixResults], after: Sequence[MatrixResults], threshold: float = 0.05
) -> Changes:
    """Every cell that both have, by matrix and levels; of several variants those of the same
    settings, else the fullest. Two versions of a user's source are variants of one question: the
    old one is compared with the one that is there since.

    threshold: a figure that moves by less, as a share, is the same. Raises BadInput where several
    versions could be meant.
    """
    old, new = cells_by_place(before), cells_by_place(after)
    pairs = [pair for place in old if place in new for pair in partners(old[place], new[place])]
    taken = {id(cell) for pair in pairs for cell in pair}
    found = (
        change_of(cell, other, watched, threshold)
        for cell, other in pairs
        if other.counted
        for watched in WATCHED
    )
    return Changes(
        tuple(filter(None, found)),
        tuple(named(cell) for cell, other in pairs if not other.counted),
        tuple(only_there(old, new, taken)),
        tuple(only_there(new, old, taken)),
        (*asked_differently(pairs), *made_differently(runs_of(before), runs_of(after))),
    )


def cells_by_place(matrices: Iterable[MatrixResults]) -> dict[Any, list[Cell]]:
    """Cells by matrix and levels; the fullest variant first."""
    found: dict[Any, list[Cell]] = {}
    for matrix in matrices:
        for cell in matrix.cells:
            found.setdefault((cell.matrix, cell.factors), []).append(cell)
    return found


def partners(cells: Sequence[Cell], others: Sequence[Cell]) -> list[tuple[Cell, Cell]]:
    """Pair the variants of one cell, those that count, with the other folder's. Raises BadInput."""
    olds = [cell for cell in cells if cell.counted]
    pairs: list[tuple[Cell, Cell]] = []
    for question in dict.fromkeys(map(question_of, olds)):
        mine = [cell for cell in olds if question_of(cell) == question]
        theirs = [cell for cell in others if question_of(cell) == question]
        known = {cell.example.settings for cell in mine}
        fresh = [cell for cell in theirs if cell.example.settings not in known]
        if len(theirs) == 1 and not fresh:
            same = theirs[0].example.settings
            pairs += [(cell, theirs[0]) for cell in mine if cell.example.settings == same]
        elif len(mine) == len(fresh) == 1:
            pairs.append((mine[0], fresh[0]))
        elif theirs:
            versions = [*mine, *fresh]
            raise BadInput(
                f"{named(mine[0])}: {several(len(mine), 'version')} before and"
                f" {several(len(fresh), 'other')} after, and nothing says which to compare"
                f" ({'; '.join(dict.fromkeys(map(version_words, versions)))}): run the new one into"
                " a folder of its own (--results)"
            )
    return pairs or [(cell, others[0]) for cell in olds[:1]]


def is_version(key: str) -> bool:
    """Return whether a setting says which version of a user's own source a run was made with."""
    return key.startswith("own_cc.") or key == "kernel_sha256"


def question_of(cell: Cell) -> Any:
    return tuple(pair for pair in cell.example.settings if not is_version(pair[0]))


def version_words(cell: Cell) -> str:
    """Name the versions of a cell's sources: mine 0a1b2c."""
    versions = (pair for pair in cell.example.settings if is_version(pair[0]))
    return ", ".join(f"{key.removeprefix('own_cc.')} {value}" for key, value in versions)


def only_there(
    places: Mapping[Any, Sequence[Cell]], others: Mapping[Any, Sequence[Cell]], taken: set[int]
) -> Iterator[str]:
    """Name the cells that the other folder has not, and the variants that have no partner there."""
    for place, cells in places.items():
        if place not in others:
            yield named(cells[0])
        known = {cell.example.settings for cell in others.get(place, ())}
        for cell in cells if place in others else ():
            if id(cell) not in taken and cell.counted and cell.example.settings not in known:
                yield f"{named(cell)} ({version_words(cell) or cell.variant or 'other settings'})"


def asked_differently(pairs: Iterable[tuple[Cell, Cell]]) -> list[str]:
    """Name the settings in which compared cells differ, with both values."""
    found = []
    for cell, other in pairs:
        old, new = dict(cell.example.settings), dict(other.example.settings)
        found += [
            f"{key}: {old.get(key, '–')} before, {new.get(key, '–')} after"
            for key in sorted(old.keys() | new.keys())
            if old.get(key) != new.get(key)
        ]
    return list(dict.fromkeys(found))


def named(cell: Cell) -> str:
    return f"{cell.matrix}: {cell.label}" if cell.factors else cell.matrix


def runs_of(matrices: Iterable[MatrixResults]) -> list[RunFolder]:
    return [run for matrix in matrices for run in matrix.runs if run.counts]


def change_of(
    before: Cell, after: Cell, watched: ComparedQuantity, threshold: float
) -> MetricChange | None:
    """One figure of two cells; None where one of them does not have it."""
    merit = merit_of(watched.figure)
    old, new = before.summary(merit.key), after.summary(merit.key)
    if old is None or new is None:
        return None
    olds, news = before.by_seed(merit.key), after.by_seed(merit.key)
    pairs = paired(olds, news)
    times = paired_ratio(olds, news)
    if times is None:  # other seeds, or nothing to divide by
        times = Summary((over(new.median, old.median),), over(new.median, old.median), None)
    small = max(old.median, new.median) <= watched.floor
    verdict = SAME if small else verdict_of(times, watched, threshold)
    among = min(new.values) <= max(old.values) and min(old.values) <= max(new.values)
    if verdict in (BETTER, WORSE) and not pairs and among:  # runs of other seeds
        verdict = UNSURE
    return MetricChange(
        matrix=before.matrix,
        cell=before.label if before.factors else "",
        figure=merit.words,
        before=old.median,
        after=new.median,
        times=times.median,
        low=getattr(times.interval, "low", None),
        high=getattr(times.interval, "high", None),
        n=len(pairs) or min(old.n, new.n),
        verdict=verdict,
        show_as=f"{merit.show(old.median)} → {merit.show(new.median)}",
    )


def over(after: float, before: float) -> float:
    """after / before; 1 of nothing to nothing, infinite of nothing to something."""
    if before:
        return after / before
    return math.inf if after else 1.0


def verdict_of(times: Summary, watched: ComparedQuantity, threshold: float) -> str:
    """Better or worse if it moved by the threshold and its interval lies on that side of 1. Where
    there is none, every pair must have moved to that side; below six pairs by FEW times the
    threshold.
    """
    moved = times.median
    if 1 / (1 + threshold) <= moved <= 1 + threshold:
        return SAME
    if times.interval is not None:
        agreed = not times.interval.low <= 1 <= times.interval.high
    else:
        edge = 1 + (FEW * threshold if times.n < MIN_RUNS else 0)
        agreed = min(times.values) > edge or max(times.values) < 1 / edge
    if not agreed:
        return UNSURE
    return BETTER if (moved > 1) == watched.more_is_better else WORSE


def made_differently(before: Sequence[RunFolder], after: Sequence[RunFolder]) -> list[str]:
    """What made the numbers, where it is not the same."""
    said = []
    for part in ("kernel", "tunnel_sha256", "iperf3", "lab", "host"):
        one, two = (
            sorted({str(getattr(run.environment, part))[:60] for run in runs if run.environment})
            for runs in (before, after)
        )
        if one != two:
            was, now = (" / ".join(each) or "–" for each in (one, two))
            name = "tunnel program" if part == "tunnel_sha256" else part
            said.append(f"{name}: {was} before, {now} after")
    return said


# -- for people

ORDER = {WORSE: 0, BETTER: 1, UNSURE: 2, SAME: 3}


def to_table(found: Changes) -> Table:
    """What moved, the worse first; what did not is counted in the note."""
    moved = [row for row in found.rows if row.verdict != SAME]
    columns = (
        *texts(cell="Cell", figure="Figure"),
        Column("show_as", "Before → after"),
        Column("times", "After / before", lambda x: "from none" if math.isinf(x) else ratio(x)),
        Column("interval", "95 % interval"),
        RUNS,
        VERDICT,
    )
    rows = [
        {
            **asdict(row),
            "cell": f"{row.matrix}: {row.cell}" if row.cell else row.matrix,
            "interval": " to ".join(ratio(end) for end in (row.low, row.high) if end is not None),
        }
        for row in sorted(moved, key=lambda row: ORDER[row.verdict])
    ]
    return Table("changes", "What changed", summary_line(found), columns, tuple(rows))


def summary_line(found: Changes) -> str:
    counts = Counter(row.verdict for row in found.rows)
    cells = len({(row.matrix, row.cell) for row in found.rows})
    said = ", ".join(f"{counts[verdict]} {verdict}" for verdict in ORDER if counts[verdict])
    counted = f"{several(len(found.rows), 'figure')} of {several(cells, 'cell')}"
    return f"{counted}: {said or 'nothing to compare'}."
