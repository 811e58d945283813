"""How often the quick form of `./lab validate` errs: of a correct lab, and of broken ones.

One repetition of every cell is one quick form, as a user runs it, with seeds of its own.
"""

import statistics
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from scipy.stats import binomtest

from analysis.judge.cells import to_matrices
from analysis.judge.table import Column, Table, count, rate, texts
from analysis.judge.targets import AGREES, DISAGREES, Target, target_rows
from analysis.read.folder import Run
from analysis.read.study import Study

# A quick target's band, around the median of the runs that calibrate it: so many of their standard
# deviations, and at least such a share. One run in 16,000 lies beyond four deviations, if they are
# normal. The share leaves room for another kernel: what CUBIC and BBR got on Linux 4.15 and 5.15,
# measured by others on hardware, lies up to 6 % from what they get here.
SIGMAS = 4.0
LEAST_SHARE = 0.08
CONFIDENCE = 0.95


@dataclass(frozen=True)
class Calibration:
    """One target's figure over the quick forms of a correct lab."""

    target: Target  # of the first form
    calibrating: tuple[float, ...]
    judged: tuple[float, ...]

    @property
    def band(self) -> tuple[float, float]:
        """The band that the calibrating forms give, by the rule above."""
        middle = statistics.median(self.calibrating)
        away = max(SIGMAS * statistics.stdev(self.calibrating), LEAST_SHARE * middle)
        return middle - away, middle + away

    @property
    def outside(self) -> int:
        """How many of the judged forms lie outside the band of the experiment's file."""
        return sum(not self.target.target.holds(value) for value in self.judged)


@dataclass(frozen=True)
class Errors:
    """What the quick forms of one lab, correct or broken, said of it."""

    lab: str
    says: str
    forms: int
    complained: int  # forms in which some target disagreed
    by_target: Mapping[str, int]  # how often each disagreed

    @property
    def interval(self) -> tuple[float, float]:
        """Clopper and Pearson's, of the share of forms that complain."""
        found = binomtest(self.complained, self.forms).proportion_ci(CONFIDENCE, "exact")
        return float(found.low), float(found.high)


def forms_of(study: Study, runs: Iterable[Run]) -> dict[int, list[Target]]:
    """The targets of each quick form among some runs, by its repetition."""
    by_repetition: dict[int, list[Run]] = {}
    for run in runs:
        by_repetition.setdefault(run.repetition, []).append(run)
    judged = {}
    for repetition, members in sorted(by_repetition.items()):
        rows = target_rows(study, to_matrices(members))
        judged[repetition] = [row for row in rows if row.verdict in (AGREES, DISAGREES)]
    return {repetition: rows for repetition, rows in judged.items() if rows}


def label(target: Target) -> str:
    """A target in a few words."""
    return target.matrix + (f" ({target.cell})" if target.cell != target.matrix else "")


def calibrations(forms: Mapping[int, Sequence[Target]], calibrating: int) -> list[Calibration]:
    """Every target over the forms, whose first so many calibrate it and the others judge."""
    rows: dict[str, list[tuple[int, Target]]] = {}
    for repetition, targets in forms.items():
        for target in targets:
            rows.setdefault(label(target), []).append((repetition, target))
    return [
        Calibration(
            found[0][1],
            tuple(row.got.median for number, row in found if row.got and number <= calibrating),
            tuple(row.got.median for number, row in found if row.got and number > calibrating),
        )
        for found in rows.values()
        if sum(number <= calibrating for number, _ in found) > 1
    ]


def errors_of(lab: str, says: str, forms: Mapping[int, Sequence[Target]]) -> Errors:
    disagreeing = [
        {label(row) for row in rows if row.verdict == DISAGREES} for rows in forms.values()
    ]
    by_target = Counter(name for found in disagreeing for name in sorted(found))
    complained = sum(map(bool, disagreeing))
    return Errors(lab, says, len(forms), complained, dict(sorted(by_target.items())))


def calibration_table(found: Sequence[Calibration]) -> Table:
    """Where each band comes from, and how often a correct lab is outside it."""
    columns = (
        *texts(target="Target"),
        Column("n", "Forms that calibrate", count),
        Column("median", "Median", rate),
        Column("deviation", "Standard deviation"),
        Column("rule", "Band by the rule"),
        Column("band", "Band in the file"),
        Column("judged", "Other forms", count),
        Column("outside", "Of them outside", count),
    )
    rows = []
    for each in found:
        median = statistics.median(each.calibrating)
        rows.append(
            {
                "target": label(each.target),
                "n": len(each.calibrating),
                "median": median,
                "deviation": percent(statistics.stdev(each.calibrating) / median),
                "rule": " to ".join(f"{bound:.4g}" for bound in each.band),
                "band": each.target.asked,
                "judged": len(each.judged),
                "outside": each.outside,
            }
        )
    note = (
        f"By the rule a band is the median of the calibrating forms ± {SIGMAS:g} of their standard"
        f" deviations, and at least ± {percent(LEAST_SHARE)}; the file's also keeps within what was"
        " published for a run of this length."
    )
    return Table("calibration", "A correct lab", note, columns, tuple(rows))


def errors_table(found: Sequence[Errors]) -> Table:
    """How often each lab's quick form complains."""
    columns = (
        *texts(lab="Lab", says="What it does"),
        Column("forms", "Quick forms", count),
        Column("complained", "That complain", count),
        Column("interval", "Share, 95 % interval"),
        *texts(by="Which targets, how often"),
    )
    rows = tuple(
        {
            "lab": each.lab,
            "says": each.says,
            "forms": each.forms,
            "complained": each.complained,
            "interval": " to ".join(map(percent, each.interval)),
            "by": ", ".join(f"{name}: {number}" for name, number in each.by_target.items()),
        }
        for each in found
    )
    note = "A correct lab should never be complained of, a broken one always."
    return Table("errors", "How often the quick form errs", note, columns, rows)


def percent(share: float) -> str:
    return f"{100 * share:.0f} %" if share >= 0.1 else f"{100 * share:.2g} %"
