# SPDX-License-Identifier: MIT
"""Implement the student's commands: `./lab labs`, `./lab lab start`, `predict`, `run` and so on."""

import argparse
import sys

from gostlab import api
from gostlab.classroom.answers import SEALED, TIME
from gostlab.classroom.grading import RESULTS, grade
from gostlab.classroom.lab import ANSWERS, list_labs, load_lab
from gostlab.classroom.lint_lab import check_lab
from gostlab.classroom.safe_extract import pack_hand_in, reject_unsafe_folder
from gostlab.classroom.student_assignment import (
    assignment_from_ticket,
    read_secret,
    read_ticket,
    ticket_of,
)
from gostlab.classroom.workspace import (
    FOLDER,
    TASK,
    create_coursework,
    find_coursework,
    find_unfinished,
    seal_predictions,
    seed_of_predictions,
    setting_differences,
)
from gostlab.cli.common import EXIT_FAILED, EXIT_OK, print_error, print_json
from gostlab.scheduler import summary
from gostlab.spec.yaml_source import BadInput


def labs_verb(arguments: argparse.Namespace) -> int:
    labs = [load_lab(str(folder)) for folder in list_labs()]
    if arguments.json:
        fields = ("name", "title", "goals", "minutes")
        rows = [
            {
                "lab": lab.number,
                **{key: getattr(lab, key) for key in fields},
                "points": lab.points_with_texts,
            }
            | {"folder": str(lab.folder)}
            for lab in labs
        ]
        print_json(rows)
        return EXIT_OK
    for lab in labs:
        print(
            f"{lab.number}  {lab.title} ({lab.minutes:g} min of runs,"
            f" {lab.points_with_texts} points)"
        )
        for goal in lab.goals:
            print(f"     {goal}")
    print("begin: ./lab lab start 0 --student NAME · labs/README.md")
    return EXIT_OK


def start(arguments: argparse.Namespace) -> int:
    lab = load_lab(arguments.lab)
    if lab.is_own:
        check_lab(lab)
    secret = read_secret(arguments.secret)
    who = arguments.student, arguments.course
    ticket = (
        read_ticket(lab, *who, arguments.ticket)
        if arguments.ticket
        else ticket_of(lab, *who, secret)
    )
    assignment = assignment_from_ticket(lab, *who, ticket)
    folder = arguments.folder or FOLDER / lab.name
    create_coursework(assignment, folder)
    print(f"{lab.title}: {folder}")
    for name, text in assignment.sets.items():
        print(f"  {name}: {text}")
    print(f"read {folder / TASK}, fill in the predictions of {folder / ANSWERS}")
    print(f"next: ./lab lab predict {arguments.folder or lab.command_word}")
    return EXIT_OK


def predict(arguments: argparse.Namespace) -> int:
    folder, assignment = find_coursework(arguments.lab)
    sealed = seal_predictions(folder, assignment)
    for key in assignment.lab.keys("predictions"):
        print(f"  {key}: {sealed.predictions[key]}")
    print(f"sealed {sealed.at.strftime(TIME)}: the seed of your runs is made of them")
    print(f"receipt: {assignment.receipt(sealed.predictions)} (your teacher may ask for it)")
    print(f"next: ./lab lab run {arguments.lab}")
    return EXIT_OK


def run(arguments: argparse.Namespace) -> int:
    folder, assignment = find_coursework(arguments.lab)
    seed = seed_of_predictions(folder, assignment)
    plans = [
        api.Experiment.from_file(
            assignment.lab.experiment_path, settings=assignment.sets, machine="sandbox", seed=seed
        )
    ]
    experiment = assignment.lab.own
    if experiment and (folder / experiment.file).is_file():
        plans.append(
            api.Experiment.from_file(folder / experiment.file, machine="sandbox", seed=seed)
        )
        other = setting_differences(list(plans[-1].runs), assignment, seed)
        if other:
            print_error(f"{folder / experiment.file}: not what is asked yet: {', '.join(other)}")
    elif experiment:
        print_error(
            f"{folder / experiment.file}: not there yet, and {assignment.lab.title} needs it"
        )
    status = EXIT_OK
    for plan in plans:
        outcome = plan.run(folder / RESULTS, jobs=arguments.jobs, progress=True).wait()
        for line in outcome.complaints:
            print_error(line)
        summary.print_summary(api.cell_results(outcome), outcome.first_cc, sys.stdout)
        print(f"{outcome.counts_line} · {folder / RESULTS}")
        if outcome.broke or outcome.in_state("invalid"):
            status = EXIT_FAILED
    print(f"next: ./lab lab report {arguments.lab}, then ./lab lab hand-in {arguments.lab}")
    return status


def report(arguments: argparse.Namespace) -> int:
    folder, _ = find_coursework(arguments.lab)
    if not any((folder / RESULTS).glob("*/*/status.json")):
        first = "run" if (folder / SEALED).exists() else "predict"
        raise BadInput(f"{folder}: no runs yet: ./lab lab {first} {arguments.lab}")
    print(api.report(folder / RESULTS, out=folder / "report"))
    return EXIT_OK


def hand_in(arguments: argparse.Namespace) -> int:
    folder, assignment = find_coursework(arguments.lab)
    left = find_unfinished(folder, assignment)
    reject_unsafe_folder(folder)
    left += grade(assignment, folder).problems
    for line in left:
        print_error(line)
    archive = arguments.out or folder.with_name(f"{folder.name}-{assignment.student}.zip")
    pack_hand_in(folder, archive)
    print(f"{'packed as it is' if left else 'complete'}: {archive}")
    return EXIT_FAILED if left else EXIT_OK
