"""How often the quick form of `./lab validate` errs: of a correct lab, and of broken ones.

One repetition of every cell is one quick form, as a user runs it, with seeds of its own.
"""

import statistics
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from scipy.stats import binomtest

from gostlab import api, results
from gostlab.analysis.load.published import Study, to_study
from gostlab.analysis.load.run_folder import RunFolder
from gostlab.analysis.load.runs import load_results
from gostlab.analysis.stats.cells import to_matrices
from gostlab.analysis.stats.published_targets import AGREES, DISAGREES, Target, target_rows
from gostlab.analysis.stats.text_table import Column, Table, count, rate, text_columns
from gostlab.errors import BadInput
from gostlab.install import locate
from gostlab.sandbox.cpu_claims import claimed_cpus
from gostlab.scheduler import progress, queue
from gostlab.validation.fault_injection import BROKEN, broken_runs

# A quick target's band, around the median of the runs that calibrate it: so many of their standard
# deviations, and at least such a share. One run in 16,000 lies beyond four deviations, if they are
# normal. The share leaves room for another kernel: what CUBIC and BBR got on Linux 4.15 and 5.15,
# measured by others on hardware, lies up to 6 % from what they get here.
SIGMAS = 4.0
MIN_SHARE = 0.08
CONFIDENCE = 0.95


Row = dict[str, Any]  # of a table: its columns' values


def tables_of(
    folder: Path, forms: int, broken_forms: int, *, jobs: int | None
) -> tuple[Table, Table]:
    """How often validate's quick form errs: run it with the seeds of so many users on this lab, and
    of so many on each lab that is broken on purpose, and judge every one. Where each target's band
    comes from; how often the correct lab and each broken one was complained of.

    The first half of the correct lab's forms calibrates the targets' bands, the other half is
    judged by them. Raises what run() does.
    """
    if forms < 4 or broken_forms < 1:
        raise BadInput(f"{forms} and {broken_forms} forms: at least 4 and 1")
    asked = api.Experiment.from_file("validation", quick=True, machine="sandbox")
    correct = asked.described({run.cell: forms for run in asked.runs})
    runs = [*correct, *broken_runs(correct, broken_forms)]
    start = api.starter("sandbox", locate.find_parts())
    folder.mkdir(parents=True, exist_ok=True)
    with (
        progress.progress_on_stderr("validation", quiet=False) as told,
        results.experiment_lock(folder, asked.name),
        claimed_cpus(jobs) as slots,
    ):
        queue.run_all(runs, folder.resolve(), slots, start, told)
    known = to_study("validation", asked.file)

    def forms_in(experiment: str, most: int) -> dict[int, list[Target]]:
        wanted = {run.name for run in runs if run.repetition <= most}
        loaded = load_results(folder, experiment).runs
        return forms_of(known, [run for run in loaded if run.folder.name in wanted])

    correct_forms = forms_in("validation", forms)
    judged = {number: rows for number, rows in correct_forms.items() if number > forms // 2}
    rows = [errors_of("correct", "what its runs request", judged)]
    for each in BROKEN:
        spoilt = forms_in(each.experiment, broken_forms)
        rows.append(errors_of(each.name, each.says, spoilt))
    calibration = calibration_table(calibrations(correct_forms, forms // 2))
    return calibration, errors_table(rows)


def forms_of(study: Study, runs: Iterable[RunFolder]) -> dict[int, list[Target]]:
    """The targets of each quick form among some runs, by its repetition."""
    by_repetition: dict[int, list[RunFolder]] = {}
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


def band_of(calibrating: Sequence[float]) -> tuple[float, float]:
    """The band that the calibrating forms' values give, by the rule above."""
    middle = statistics.median(calibrating)
    away = max(SIGMAS * statistics.stdev(calibrating), MIN_SHARE * middle)
    return middle - away, middle + away


def calibrations(forms: Mapping[int, Sequence[Target]], calibrating: int) -> list[Row]:
    """Every target over a correct lab's forms, whose first so many calibrate it and the others
    judge: where its band comes from, and how often a correct lab is outside the file's.
    """
    by_target: dict[str, list[tuple[int, Target]]] = {}
    for repetition, targets in forms.items():
        for target in targets:
            by_target.setdefault(label(target), []).append((repetition, target))
    rows = []
    for name, found in by_target.items():
        got = [(number, row.got.median) for number, row in found if row.got]
        first = [value for number, value in got if number <= calibrating]
        if len(first) < 2:
            continue
        judged = [value for number, value in got if number > calibrating]
        asked, median = found[0][1], statistics.median(first)
        rows.append(
            {
                "target": name,
                "n": len(first),
                "median": median,
                "deviation": percent(statistics.stdev(first) / median),
                "rule": " to ".join(f"{bound:.4g}" for bound in band_of(first)),
                "band": asked.asked,
                "judged": len(judged),
                "outside": sum(not asked.target.holds(value) for value in judged),
            }
        )
    return rows


def errors_of(lab: str, says: str, forms: Mapping[int, Sequence[Target]]) -> Row:
    """What the quick forms of one lab, correct or broken, said of it: in how many some target
    disagreed, the share of those (Clopper and Pearson's interval), and how often each did.
    """
    disagreeing = [
        {label(row) for row in rows if row.verdict == DISAGREES} for rows in forms.values()
    ]
    by_target = Counter(name for found in disagreeing for name in sorted(found))
    complained = sum(map(bool, disagreeing))
    interval = binomtest(complained, len(forms)).proportion_ci(CONFIDENCE, "exact")
    return {
        "lab": lab,
        "says": says,
        "forms": len(forms),
        "complained": complained,
        "interval": " to ".join(map(percent, interval)),
        "by": ", ".join(f"{name}: {number}" for name, number in sorted(by_target.items())),
    }


def calibration_table(rows: Sequence[Row]) -> Table:
    columns = (
        *text_columns(target="Target"),
        Column("n", "Forms that calibrate", count),
        Column("median", "Median", rate),
        Column("deviation", "Standard deviation"),
        Column("rule", "Band by the rule"),
        Column("band", "Band in the file"),
        Column("judged", "Other forms", count),
        Column("outside", "Of them outside", count),
    )
    note = (
        f"By the rule a band is the median of the calibrating forms ± {SIGMAS:g} of their standard"
        f" deviations, and at least ± {percent(MIN_SHARE)}; the file's also keeps within what was"
        " published for a run of this length."
    )
    return Table("calibration", "A correct lab", note, columns, tuple(rows))


def errors_table(rows: Sequence[Row]) -> Table:
    columns = (
        *text_columns(lab="Lab", says="What it does"),
        Column("forms", "Quick forms", count),
        Column("complained", "That complain", count),
        Column("interval", "Share, 95 % interval"),
        *text_columns(by="Which targets, how often"),
    )
    note = "A correct lab should never be complained of, a broken one always."
    return Table("errors", "How often the quick form errs", note, columns, tuple(rows))


def percent(share: float) -> str:
    return f"{100 * share:.0f} %" if share >= 0.1 else f"{100 * share:.2g} %"
