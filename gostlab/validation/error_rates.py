"""Measure the error rates of `./lab validate --quick`, for a correct lab and for faulty ones.

Each repetition of the cells is one quick form, with the seeds of one user.
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
from gostlab.validation.fault_injection import BROKEN, faulty_runs

# The band of a quick target around the median of its calibrating runs is this number of standard
# deviations, and at least this share. Normally distributed runs exceed four deviations once in
# 16,000. The share allows for other kernels: published hardware results of CUBIC and BBR on Linux
# 4.15 and 5.15 deviate by up to 6 % from the results here.
SIGMAS = 4.0
MIN_SHARE = 0.08
CONFIDENCE = 0.95


Row = dict[str, Any]  # a table's row by column


def measure_error_rates(
    folder: Path, forms: int, broken_forms: int, *, jobs: int | None
) -> tuple[Table, Table]:
    """Run the quick form with many users' seeds on this lab and on faulty labs, and judge each.

    Returns a table of the targets' bands, and a table of the error rates of the correct lab and of
    each faulty one. The first half of the correct lab's forms calibrates the bands, which judge the
    other half. Raises the exceptions of run().
    """
    if forms < 4 or broken_forms < 1:
        raise BadInput(f"{forms} and {broken_forms} forms: at least 4 and 1")
    experiment = api.Experiment.from_file("validation", quick=True, machine="sandbox")
    correct = experiment.described({run.cell: forms for run in experiment.runs})
    runs = [*correct, *faulty_runs(correct, broken_forms)]
    start = api.starter("sandbox", locate.find_parts())
    folder.mkdir(parents=True, exist_ok=True)
    with (
        progress.progress_on_stderr("validation", quiet=False) as progress_line,
        results.experiment_lock(folder, experiment.name),
        claimed_cpus(jobs) as slots,
    ):
        queue.run_all(runs, folder.resolve(), slots, start, progress_line)
    known = to_study("validation", experiment.file)

    def forms_in(experiment: str, most: int) -> dict[int, list[Target]]:
        wanted = {run.name for run in runs if run.repetition <= most}
        loaded = load_results(folder, experiment).runs
        return forms_of(known, [run for run in loaded if run.folder.name in wanted])

    correct_forms = forms_in("validation", forms)
    judged = {number: rows for number, rows in correct_forms.items() if number > forms // 2}
    rows = [count_errors("correct", "what its runs request", judged)]
    for fault in BROKEN:
        spoilt = forms_in(fault.experiment, broken_forms)
        rows.append(count_errors(fault.name, fault.says, spoilt))
    calibration = calibration_table(calibrations(correct_forms, forms // 2))
    return calibration, errors_table(rows)


def forms_of(study: Study, runs: Iterable[RunFolder]) -> dict[int, list[Target]]:
    """Return the targets of each quick form in some runs, by repetition."""
    by_repetition: dict[int, list[RunFolder]] = {}
    for run in runs:
        by_repetition.setdefault(run.repetition, []).append(run)
    judged = {}
    for repetition, members in sorted(by_repetition.items()):
        rows = target_rows(study, to_matrices(members))
        judged[repetition] = [row for row in rows if row.verdict in (AGREES, DISAGREES)]
    return {repetition: rows for repetition, rows in judged.items() if rows}


def label(target: Target) -> str:
    """Return a short label of a target."""
    return target.matrix + (f" ({target.cell})" if target.cell != target.matrix else "")


def calibrate_band(calibrating: Sequence[float]) -> tuple[float, float]:
    """Return the band that follows from the calibrating values."""
    middle = statistics.median(calibrating)
    away = max(SIGMAS * statistics.stdev(calibrating), MIN_SHARE * middle)
    return middle - away, middle + away


def calibrations(forms: Mapping[int, Sequence[Target]], calibrating: int) -> list[Row]:
    """Return a row per target with its calibrated band and the error rate of the correct lab.

    The first `calibrating` forms calibrate, the others are judged.
    """
    by_target: dict[str, list[tuple[int, Target]]] = {}
    for repetition, targets in forms.items():
        for target in targets:
            by_target.setdefault(label(target), []).append((repetition, target))
    rows = []
    for name, values in by_target.items():
        got = [(number, row.got.median) for number, row in values if row.got]
        first = [value for number, value in got if number <= calibrating]
        if len(first) < 2:
            continue
        judged = [value for number, value in got if number > calibrating]
        target, median = values[0][1], statistics.median(first)
        rows.append(
            {
                "target": name,
                "n": len(first),
                "median": median,
                "deviation": percent(statistics.stdev(first) / median),
                "rule": " to ".join(f"{bound:.4g}" for bound in calibrate_band(first)),
                "band": target.asked,
                "judged": len(judged),
                "outside": sum(not target.target.holds(value) for value in judged),
            }
        )
    return rows


def count_errors(lab: str, says: str, forms: Mapping[int, Sequence[Target]]) -> Row:
    """Return a lab's error rate: the share of quick forms in which some target disagreed.

    The row has the interval of Clopper and Pearson, and the count of each target.
    """
    disagreeing = [
        {label(row) for row in rows if row.verdict == DISAGREES} for rows in forms.values()
    ]
    by_target = Counter(name for names in disagreeing for name in sorted(names))
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
