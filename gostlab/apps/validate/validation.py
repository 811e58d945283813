"""The experiment `validation`: run, held against what is known, and how often that errs."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from analysis.judge import cells, targets
from analysis.judge.table import Table
from analysis.read import runs as answers
from analysis.read import study
from gostlab import api, results
from gostlab.apps.validate import errors
from gostlab.apps.validate.broken import BROKEN, broken_runs
from gostlab.declared.errors import BadInput
from gostlab.machine.cpus import claimed_cpus
from gostlab.runs import schedule
from gostlab.runs.outcome import Outcome
from gostlab.setup import parts


@dataclass(frozen=True)
class Validation:
    """The lab's runs of what is known of Linux's congestion controls, beside their targets."""

    outcome: Outcome
    rows: tuple[targets.Target, ...]

    @property
    def holds(self) -> bool:
        """Whether every run counts and every target that has runs agrees."""
        spoilt = self.outcome.broke or self.outcome.those("invalid")
        return not spoilt and targets.validation_verdict(self.rows)

    @property
    def table(self) -> str:
        return targets.to_table(self.rows, "validation", "Target, lab, verdict").to_markdown()


def validate(
    folder: Path,
    *,
    quick: bool = False,
    jobs: int | None = None,
    progress: schedule.Quiet | None = None,
) -> Validation:
    """Run the experiment `validation` in a results folder and judge it. Raises what run() does."""
    asked = api.Experiment.from_file("validation", quick=quick, machine="sandbox")
    outcome = asked.run(folder, jobs=jobs, progress=progress or False).wait()

    loaded = answers.load_results(folder, "validation", study.questions("validation", quick=quick))
    rows = targets.target_rows(
        study.load_study("validation", folder), cells.to_matrices(loaded.runs)
    )
    matrices = {run.matrix for run in asked.runs}
    return Validation(outcome, tuple(row for row in rows if row.matrix in matrices))


@dataclass(frozen=True)
class ValidationErrors:
    """How often validate's quick form errs."""

    calibration: Table  # where each target's band comes from
    errors: Table  # how often the correct lab and each broken one was complained of

    @property
    def text(self) -> str:
        return f"{self.calibration.to_markdown()}\n\n{self.errors.to_markdown()}"

    def to_json(self) -> dict[str, object]:
        return {"calibration": self.calibration.rows, "errors": self.errors.rows}


def validation_errors(
    folder: Path,
    forms: int,
    broken_forms: int,
    *,
    jobs: int | None = None,
    progress: schedule.Quiet | None = None,
) -> ValidationErrors:
    """How often validate's quick form errs: run it with the seeds of so many users on this lab, and
    of so many on each lab that is broken on purpose, and judge every one.

    The first half of the correct lab's forms calibrates the targets' bands, the other half is
    judged by them. Raises what run() does.
    """
    if forms < 4 or broken_forms < 1:
        raise BadInput(f"{forms} and {broken_forms} forms: at least 4 and 1")
    asked = api.Experiment.from_file("validation", quick=True, machine="sandbox")
    correct = asked.described({run.cell: forms for run in asked.runs})
    runs = [*correct, *broken_runs(correct, broken_forms)]
    start = api.starter("sandbox", parts.find_parts())
    told = progress or schedule.Quiet()
    folder.mkdir(parents=True, exist_ok=True)
    with results.owned(folder, asked.name), claimed_cpus(jobs) as slots:
        schedule.run_all(runs, folder.resolve(), slots, start, told)

    asked_of = study.to_study("validation", asked.file)

    def forms_in(experiment: str, most: int) -> dict[int, list[targets.Target]]:
        wanted = {run.name for run in runs if run.repetition <= most}
        loaded = answers.load_results(folder, experiment).runs
        return errors.forms_of(asked_of, [run for run in loaded if run.folder.name in wanted])

    correct_forms = forms_in("validation", forms)
    judged = {number: rows for number, rows in correct_forms.items() if number > forms // 2}
    rows = [errors.errors_of("correct", "what its runs request", judged)]
    for each in BROKEN:
        spoilt = forms_in(each.experiment, broken_forms)
        rows.append(errors.errors_of(each.name, each.says, spoilt))
    calibration = errors.calibration_table(errors.calibrations(correct_forms, forms // 2))
    return ValidationErrors(calibration, errors.errors_table(rows))
