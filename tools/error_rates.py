# SPDX-License-Identifier: MIT
"""Measure the error rates of `./lab validate --quick`, for a correct lab and for faulty ones.

    python3 -m tools.error_rates FOLDER [--forms 40] [--faulty-forms 3] [--jobs N]

Each repetition of the cells is one quick form, with the seeds of one user. The first half of the
correct lab's forms calibrates the bands, which judge the other half. A faulty lab makes other runs
than requested and reports the requested values; only the targets judge.
"""

import argparse
import statistics
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from scipy.stats import binomtest

from gostlab import api, results
from gostlab.analysis.load.run_folder import RunFolder
from gostlab.analysis.load.runs import load_results
from gostlab.analysis.load.study import Study, to_study
from gostlab.analysis.stats.cells import to_matrices
from gostlab.analysis.stats.published_targets import (
    AGREES,
    DISAGREES,
    TargetComparison,
    target_rows,
)
from gostlab.install import locate
from gostlab.sandbox.cpu_claims import claimed_cpus
from gostlab.scheduler import executor, progress
from gostlab.spec.path_spec import DirectionSpec, PathSpec
from gostlab.spec.run_spec import RunSpec

# The band of a quick target around the median of its calibrating runs is this number of standard
# deviations, and at least this share. Normally distributed runs exceed four deviations once in
# 16,000. The share allows for other kernels: published hardware results of CUBIC and BBR on Linux
# 4.15 and 5.15 deviate by up to 6 % from the results here.
SIGMAS = 4.0
MIN_SHARE = 0.08
CONFIDENCE = 0.95


# -- faulty labs


@dataclass(frozen=True)
class Fault:
    """A fault: `change` maps a requested run to the run that is made instead."""

    name: str
    summary: str
    change: Callable[[RunSpec], RunSpec]

    @property
    def experiment(self) -> str:
        """Return the experiment's name, which differs from the correct lab's."""
        return f"broken-{self.name}"


def change_path(change: Callable[[DirectionSpec], DirectionSpec]) -> Callable[[RunSpec], RunSpec]:
    """Return a fault that changes both directions of the path."""
    return lambda run: replace(run, path=PathSpec(*map(change, run.path)))


def scale_loss(factor: float) -> Callable[[RunSpec], RunSpec]:
    """Return a fault that multiplies the requested loss."""

    def change(direction: DirectionSpec) -> DirectionSpec:
        loss = direction.loss
        packets = loss.packets and round(loss.packets / factor)
        return replace(direction, loss=replace(loss, p=loss.p * factor, packets=packets))

    return change_path(change)


def scale_parameter(name: str, factor: float) -> Callable[[RunSpec], RunSpec]:
    """Return a fault that multiplies a number of the path."""

    def change(direction: DirectionSpec) -> DirectionSpec:
        scaled = getattr(direction, name) * factor
        return replace(direction, **{name: scaled if name == "delay_ms" else round(scaled)})

    return change_path(change)


def fix_parameter(name: str, value: float) -> Callable[[RunSpec], RunSpec]:
    """Return a fault that fixes a number of the path."""
    values: dict[str, Any] = {name: value}
    return change_path(lambda direction: replace(direction, **values))


def always(cc: str) -> Callable[[RunSpec], RunSpec]:
    """Return a fault that uses one congestion control for all flows."""

    def change(run: RunSpec) -> RunSpec:
        flows = [replace(flow, cc=cc) if flow.cc else flow for flow in run.flows]
        return replace(run, cc=cc, flows=flows)

    return change


FAULTS = (
    Fault("loss-doubled", "loses twice what was requested", scale_loss(2.0)),
    Fault("loss-halved", "loses half of what was requested", scale_loss(0.5)),
    Fault("delay-longer", "delays by 20 % more", scale_parameter("delay_ms", 1.2)),
    Fault("delay-shorter", "delays by 20 % less", scale_parameter("delay_ms", 0.8)),
    Fault("rate-lower", "is 10 % slower", scale_parameter("rate_bps", 0.9)),
    Fault("all-cubic", "leaves every socket CUBIC", always("cubic")),
    Fault("all-reno", "leaves every socket Reno", always("reno")),
    Fault("offloads", "leaves offloads on", lambda run: replace(run, offloads=True)),
    Fault("no-buffer", "queues one packet at the bottleneck", fix_parameter("buffer_pkts", 1)),
    Fault("deep-buffer", "queues 1000 packets there", fix_parameter("buffer_pkts", 1000)),
    Fault("jitter", "jitters by 5 ms, which reorders", fix_parameter("jitter_ms", 5.0)),
)


def faulty_runs(runs: Sequence[RunSpec], repetitions: int) -> list[RunSpec]:
    """Return the runs that faulty labs make differently, of the first repetitions."""
    return [
        replace(changed, experiment=fault.experiment)
        for run in sorted(runs, key=lambda each: each.repetition)
        if run.repetition <= repetitions
        for fault in FAULTS
        if (changed := fault.change(run)) != run
    ]


# -- judge the quick forms


def measure_error_rates(
    folder: Path, forms: int, faulty_forms: int, *, jobs: int | None
) -> list[str]:
    """Run and judge the quick forms of all labs; return the lines of two tables in Markdown."""
    experiment = api.Experiment.from_file("validation", quick=True, machine="sandbox")
    correct = experiment.expand_runs({run.cell: forms for run in experiment.runs})
    runs = [*correct, *faulty_runs(correct, faulty_forms)]
    start = api.run_starter("sandbox", locate.find_parts())
    folder.mkdir(parents=True, exist_ok=True)
    with (
        progress.progress_on_stderr("validation", quiet=False) as progress_line,
        results.experiment_lock(folder, experiment.name),
        claimed_cpus(jobs) as slots,
    ):
        executor.run_all(runs, folder.resolve(), slots, start, progress_line)
    study = to_study("validation", experiment.file)
    names = {run.name for run in runs}

    def forms_in(name: str) -> dict[int, list[TargetComparison]]:
        loaded = load_results(folder, name).runs
        return judge_forms(study, [run for run in loaded if run.folder.name in names])

    correct_forms = forms_in("validation")
    judged = {number: rows for number, rows in correct_forms.items() if number > forms // 2}
    return [
        "| target | n | median | deviation | band by the rule | band in the file |",
        "|---|---|---|---|---|---|",
        *calibration_rows(correct_forms, forms // 2),
        "",
        "| lab | what it does | quick forms | that disagree | 95 % interval | which targets |",
        "|---|---|---|---|---|---|",
        error_row("correct", "what its runs request", judged),
        *(error_row(one.name, one.summary, forms_in(one.experiment)) for one in FAULTS),
    ]


def judge_forms(study: Study, runs: Iterable[RunFolder]) -> dict[int, list[TargetComparison]]:
    """Return the judged targets of each quick form in some runs, by repetition."""
    by_repetition: dict[int, list[RunFolder]] = {}
    for run in runs:
        by_repetition.setdefault(run.repetition, []).append(run)
    judged = {}
    for repetition, members in sorted(by_repetition.items()):
        rows = target_rows(study, to_matrices(members))
        judged[repetition] = [row for row in rows if row.verdict in (AGREES, DISAGREES)]
    return {repetition: rows for repetition, rows in judged.items() if rows}


def label(target: TargetComparison) -> str:
    """Return a short label of a target."""
    return target.matrix + (f" ({target.cell})" if target.cell != target.matrix else "")


def calibrate_band(calibrating: Sequence[float]) -> tuple[float, float]:
    """Return the band that follows from the calibrating values."""
    middle = statistics.median(calibrating)
    away = max(SIGMAS * statistics.stdev(calibrating), MIN_SHARE * middle)
    return middle - away, middle + away


def calibration_rows(
    forms: Mapping[int, Sequence[TargetComparison]], calibrating: int
) -> list[str]:
    """Return a row per target with the band that the first `calibrating` forms give it."""
    by_target: dict[str, list[TargetComparison]] = {}
    for repetition, targets in forms.items():
        for target in targets if repetition <= calibrating else ():
            by_target.setdefault(label(target), []).append(target)
    rows = []
    for name, targets in by_target.items():
        values = [target.got.median for target in targets if target.got]
        if len(values) < 2:
            continue
        median = statistics.median(values)
        deviation = percent(statistics.stdev(values) / median)
        band = " to ".join(f"{bound:.4g}" for bound in calibrate_band(values))
        row = (name, len(values), f"{median:.4g}", deviation, band, targets[0].expected)
        rows.append(f"| {' | '.join(map(str, row))} |")
    return rows


def error_row(lab: str, summary: str, forms: Mapping[int, Sequence[TargetComparison]]) -> str:
    """Return a lab's row: the share of forms in which a target disagreed (Clopper–Pearson)."""
    disagreeing = [
        {label(row) for row in rows if row.verdict == DISAGREES} for rows in forms.values()
    ]
    by_target = Counter(name for names in disagreeing for name in sorted(names))
    count = sum(map(bool, disagreeing))
    interval = binomtest(count, len(forms)).proportion_ci(CONFIDENCE, "exact")
    between = " to ".join(map(percent, interval))
    which = ", ".join(f"{name}: {number}" for name, number in sorted(by_target.items()))
    return f"| {lab} | {summary} | {len(forms)} | {count} | {between} | {which} |"


def percent(share: float) -> str:
    return f"{100 * share:.0f} %" if share >= 0.1 else f"{100 * share:.2g} %"


def main() -> int:
    parser = argparse.ArgumentParser(prog="python3 -m tools.error_rates", description=__doc__)
    parser.add_argument("folder", type=Path, help="folder of the results")
    parser.add_argument("--forms", type=int, default=40, help="correct forms, at least 4")
    parser.add_argument("--faulty-forms", type=int, default=3, help="forms of each faulty lab")
    parser.add_argument("--jobs", type=int, help="number of parallel runs")
    arguments = parser.parse_args()
    if arguments.forms < 4 or arguments.faulty_forms < 1:
        parser.error("at least 4 forms, and 1 of each faulty lab")
    lines = measure_error_rates(
        arguments.folder, arguments.forms, arguments.faulty_forms, jobs=arguments.jobs
    )
    print(*lines, sep="\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
