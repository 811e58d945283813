"""`./lab validate`: the experiment `validation`, run, held against what is known; and how often
that errs.
"""

from __future__ import annotations

import argparse
import sys
from typing import TYPE_CHECKING

from analysis.judge import cells, targets
from analysis.read import runs as answers
from analysis.read import study
from gostlab import api, results
from gostlab.apps import command
from gostlab.apps.validate import broken, errors
from gostlab.declared.errors import BadInput
from gostlab.machine import cpus
from gostlab.runs import progress, schedule
from gostlab.setup import parts

if TYPE_CHECKING:
    from analysis.judge.table import Table


def validate_arguments(verb: argparse.ArgumentParser) -> None:
    command.add_flag(verb, "--quick", "the short form")
    verb.add_argument(
        "--errors",
        type=int,
        metavar="N",
        help="how often the short form errs: run it with N users' seeds, and on labs that are"
        " broken on purpose (results go to RESULTS-errors; N = 40 takes hours)",
    )
    verb.add_argument(
        "--broken", type=int, default=3, help="with --errors: forms of each broken lab (default: 3)"
    )
    command.add_jobs(verb)
    command.add_results(verb, "where results go")
    command.add_json(verb)


@command.verb(
    "validate",
    "does the lab do what is known of Linux's congestion controls?",
    validate_arguments,
    "./lab validate --quick",
)
def validate_verb(arguments: argparse.Namespace) -> int:
    """`./lab validate`: target, lab and verdict; 1 if one disagrees, or a run does not count."""
    if arguments.errors is not None:
        tables = tables_of_errors(arguments)
        text = "\n\n".join(each.to_markdown() for each in tables)
        command.print_either(arguments, {each.name: each.rows for each in tables}, text)
        return command.EXIT_OK
    asked = api.Experiment.from_file("validation", quick=arguments.quick, machine="sandbox")
    with progress.progress_on_stderr("validation", quiet=False) as told:
        outcome = asked.run(arguments.results, jobs=arguments.jobs, progress=told).wait()
    questions = study.questions("validation", quick=arguments.quick)
    loaded = answers.load_results(arguments.results, "validation", questions).runs
    known = study.load_study("validation", arguments.results)
    matrices = {run.matrix for run in asked.runs}
    judged = targets.target_rows(known, cells.to_matrices(loaded))
    rows = [row for row in judged if row.matrix in matrices]
    for line in outcome.complaints:
        command.complain(line)
    counts = f"{outcome.counts_line} · {arguments.results}"
    print(counts, file=sys.stderr if arguments.json else sys.stdout)
    table = targets.to_table(rows, "validation", "Target, lab, verdict")
    command.print_either(arguments, [vars(row) for row in rows], table.to_markdown())
    spoilt = outcome.broke or outcome.those("invalid")
    holds = not spoilt and targets.validation_verdict(rows)
    return command.EXIT_OK if holds else command.EXIT_FAILED


def tables_of_errors(arguments: argparse.Namespace) -> tuple[Table, Table]:
    """How often validate's quick form errs: run it with the seeds of so many users on this lab, and
    of so many on each lab that is broken on purpose, and judge every one. Where each target's band
    comes from; how often the correct lab and each broken one was complained of.

    The first half of the correct lab's forms calibrates the targets' bands, the other half is
    judged by them. Raises what run() does.
    """
    folder = arguments.results.with_name(f"{arguments.results.name}-errors")
    forms, broken_forms = arguments.errors, arguments.broken
    if forms < 4 or broken_forms < 1:
        raise BadInput(f"{forms} and {broken_forms} forms: at least 4 and 1")
    asked = api.Experiment.from_file("validation", quick=True, machine="sandbox")
    correct = asked.described({run.cell: forms for run in asked.runs})
    runs = [*correct, *broken.broken_runs(correct, broken_forms)]
    start = api.starter("sandbox", parts.find_parts())
    folder.mkdir(parents=True, exist_ok=True)
    with (
        progress.progress_on_stderr("validation", quiet=False) as told,
        results.owned(folder, asked.name),
        cpus.claimed_cpus(arguments.jobs) as slots,
    ):
        schedule.run_all(runs, folder.resolve(), slots, start, told)
    known = study.to_study("validation", asked.file)

    def forms_in(experiment: str, most: int) -> dict[int, list[targets.Target]]:
        wanted = {run.name for run in runs if run.repetition <= most}
        loaded = answers.load_results(folder, experiment).runs
        return errors.forms_of(known, [run for run in loaded if run.folder.name in wanted])

    correct_forms = forms_in("validation", forms)
    judged = {number: rows for number, rows in correct_forms.items() if number > forms // 2}
    rows = [errors.errors_of("correct", "what its runs request", judged)]
    for each in broken.BROKEN:
        spoilt = forms_in(each.experiment, broken_forms)
        rows.append(errors.errors_of(each.name, each.says, spoilt))
    calibration = errors.calibration_table(errors.calibrations(correct_forms, forms // 2))
    return calibration, errors.errors_table(rows)
