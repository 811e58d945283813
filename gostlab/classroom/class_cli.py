"""`./lab grade … --roster`: a class's hand-ins at once; `./lab lab key`: what would be right."""

import argparse
import os
import sys
from collections import Counter
from pathlib import Path

from rich.text import Text

from gostlab.classroom import gradebooks, lms_export, pages
from gostlab.classroom.assignment import assigned, read_secret
from gostlab.classroom.batch_grading import (
    Course,
    GradeRow,
    Record,
    grade_all,
    lines_of,
    resembling,
)
from gostlab.classroom.expressions import FormulaError, evaluate, rounded, shown
from gostlab.classroom.feedback import asked
from gostlab.classroom.grading import grade, said
from gostlab.classroom.lab import CourseLab, load_lab
from gostlab.classroom.lms_export import Download
from gostlab.classroom.roster import read_roster
from gostlab.classroom.safe_extract import only_bad_input, opened
from gostlab.classroom.workspace import ASSIGNMENT
from gostlab.cli.common import EXIT_FAILED, EXIT_OK
from gostlab.console import Console
from gostlab.results import read_object, write_whole
from gostlab.scheduler.summary import plain_table
from gostlab.spec.yaml_source import BadInput

LOOKED_AT = 20  # hand-ins, to find out which lab they are of
ALL_ALIKE = 3  # hand-ins that are all of another course: the command is wrong, not they


def grade_class(arguments: argparse.Namespace) -> int:
    """Grade a class; 1 if a hand-in could not be graded. Raises BadInput, OSError, ResultsError."""
    check_words(arguments)
    jobs = arguments.jobs or len(os.sched_getaffinity(0))
    roster = read_roster(arguments.roster)
    secret = read_secret(arguments.secret)
    path = arguments.submission or Path(arguments.lab)
    found = lms_export.read_download(path)
    lab = load_lab(arguments.lab if arguments.submission else lab_of(found))
    out = arguments.out or Path(f"graded-{lab.name}")
    if out.exists() and not out.is_dir():
        raise BadInput(f"--out {out}: a file (name a folder)")
    course = Course(str(lab.folder.resolve()), arguments.course, secret, roster)
    records = grade_all(found, course, out, jobs)
    refuse_wrong_command(records)
    lines = lines_of(found, records, roster)
    alike = list(resembling(lines, lab))
    index = pages.class_page(lab, arguments.course, str(path), lines, alike, found.passed_over)
    write(out, lab, arguments.assignment or lab.title, lines, index)
    print_class(lines, lab)
    for each in alike:
        print(f"resembling: {each}")
    for name in found.passed_over:
        print(f"no hand-in: {name}")
    kept = sum(record.is_kept for record in records)
    print(f"{pages.summary(lines)}{f' ({kept} as they were graded before)' if kept else ''}")
    names = ", ".join(gradebooks.GRADEBOOKS)
    print(f"{out / pages.INDEX} · {names} · {pages.FEEDBACK}/ has a page for each student")
    if lab.rank:
        print(f"its ranking: ./lab lab rank {lab.number} {path} --roster {arguments.roster}")
    return EXIT_FAILED if any(line.state == "not graded" for line in lines) else EXIT_OK


def check_words(arguments: argparse.Namespace) -> None:
    """Raises BadInput for options that are of one hand-in."""
    for name in ("student", "metadata", "rerun"):
        if getattr(arguments, name):
            raise BadInput(f"--{name}: of one hand-in; a class has --roster")
    if arguments.format != "text":
        raise BadInput("--format: of one hand-in; a class gets a CSV file for each gradebook")


def lab_of(found: Download) -> str:
    """Which lab the hand-ins say that they are of. Raises BadInput where they say none, or two."""
    names: Counter[str] = Counter()
    for handed in found.hand_ins[:LOOKED_AT]:
        try:
            with only_bad_input(handed.label), lms_export.opened(found.path, handed) as folder:
                told = (read_object(folder / ASSIGNMENT) or {}).get("lab")
        except BadInput:
            continue
        if isinstance(told, str):
            names[told] += 1
    if len(names) != 1:
        among = f"of {' and '.join(sorted(names))}" if names else "of no lab that they name"
        raise BadInput(f"{found.path}: hand-ins {among}: say which: ./lab grade LAB {found.path} …")
    return next(iter(names))


def refuse_wrong_command(records: list[Record]) -> None:
    """Raises BadInput where the command names another lab or course than all hand-ins."""
    refused = [record.refused for record in records if record.refused and record.student]
    kinds = {each.partition(": ")[2] for each in refused}
    if len(refused) == len(records) and (len(kinds) == 1 or len(refused) >= ALL_ALIKE):
        raise BadInput(f"none is graded: {refused[0]}")


def write(out: Path, lab: CourseLab, title: str, lines: list[GradeRow], index: str) -> None:
    """The pages and the gradebooks' files, each whole or not at all. Raises OSError."""
    feedback = out / pages.FEEDBACK
    feedback.mkdir(parents=True, exist_ok=True)
    files = {out / pages.INDEX: index}
    for line in lines:
        if line.grade:
            text = pages.feedback_page(line.grade, line.name or line.student, lab.hidden)
            files[feedback / pages.file_name(line.student)] = text
    for name, make in gradebooks.GRADEBOOKS.items():
        files[out / name] = make(lines, lab, title)
    for old in set(feedback.glob("*.html")) - set(files):
        old.unlink()  # of a student who has left the roster
    for file, text in files.items():
        write_whole(file, text)


def print_class(lines: list[GradeRow], lab: CourseLab) -> None:
    shown_table = plain_table()
    shown_table.add_column("student", overflow="fold")
    shown_table.add_column("name", overflow="fold")
    shown_table.add_column(f"of {lab.most}", justify="right", no_wrap=True)
    shown_table.add_column("", overflow="fold")
    for line in lines:
        state = pages.remark(line)
        shown_table.add_row(
            Text(line.student),
            Text(line.name if line.name != line.student else ""),
            str(line.grade.points) if line.grade else "–",
            Text("" if state == "graded" else state),
        )
    Console(sys.stdout).print(shown_table)


def key(arguments: argparse.Namespace) -> int:
    """What would be right for one student. Raises BadInput."""
    lab = load_lab(arguments.lab)
    if arguments.secret is None:
        raise BadInput("--secret is missing: only a holder of the course's secret gets a key")
    secret = read_secret(arguments.secret)
    assignment = assigned(lab, arguments.student, arguments.course, secret)
    print(f"{lab.title} · {arguments.student} · course {arguments.course}")
    print(f"values: {', '.join(f'{n} {shown(v)}' for n, v in assignment.values.items())}")
    if arguments.hand_in is not None:
        with opened(arguments.hand_in) as folder:
            found = grade(assignment, folder)
        for line in found.problems:
            print(f"problem: {line}")
        if not found.problems:
            for each in found.scored:
                print(f"{each.name}: {asked(each)}   {each.says}")
            return EXIT_OK
    for point in lab.points:
        if point.by_hand or point.answer is None:
            continue
        try:
            value = evaluate(point.expect or "", assignment.values)
            right = rounded(value) if not isinstance(value, str) else f"“{value}”"
            if point.within:
                right += f" ({point.within.words})"
        except FormulaError:
            right = "from the runs of a hand-in (--hand-in)"
        print(f"{point.name}: {right}   {said(point.says, assignment.values)}")
    return EXIT_OK
