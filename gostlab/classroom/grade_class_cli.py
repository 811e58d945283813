# SPDX-License-Identifier: MIT
"""Implement `./lab grade … --roster` for a whole class, and `./lab lab key`."""

import argparse
import os
import sys
from collections import Counter
from pathlib import Path

from gostlab.atomic_write import write_whole
from gostlab.classroom import gradebooks, lms_downloads, marking_sheets, pages
from gostlab.classroom.batch_grading import (
    GradeRecord,
    GradeRow,
    GradingContext,
    find_similar_answers,
    grade_all,
    make_rows,
)
from gostlab.classroom.expressions import FormulaError, evaluate, format_rounded, format_value
from gostlab.classroom.feedback import expected_text
from gostlab.classroom.grading import fill_or_keep, grade
from gostlab.classroom.lab import CourseLab, load_lab
from gostlab.classroom.lms_downloads import Download
from gostlab.classroom.roster import Roster, read_receipts, read_roster
from gostlab.classroom.safe_extract import only_bad_input, open_upload
from gostlab.classroom.student_assignment import assignment_in_course, read_secret
from gostlab.classroom.workspace import ASSIGNMENT
from gostlab.cli.common import EXIT_FAILED, EXIT_OK
from gostlab.results import read_object
from gostlab.scheduler.summary import plain_table
from gostlab.spec.yaml_source import BadInput

MAX_SAMPLED_HAND_INS = 20  # hand-ins that are read to find out their lab
MIN_REFUSED_HAND_INS = 3  # refused hand-ins from which on the command is taken to be wrong


def grade_class(arguments: argparse.Namespace) -> int:
    """Grade a class; return 1 if a hand-in could not be. Raises BadInput, OSError, ResultsError."""
    reject_single_hand_in_options(arguments)
    jobs = arguments.jobs or len(os.sched_getaffinity(0))
    roster = read_roster(arguments.roster)
    secret = read_secret(arguments.secret)
    path = arguments.submission or Path(arguments.lab)
    download = lms_downloads.read_download(path)
    lab = load_lab(arguments.lab if arguments.submission else detect_lab(download))
    out = arguments.out or Path(f"graded-{lab.name}")
    if out.exists() and not out.is_dir():
        raise BadInput(f"--out {out}: a file (name a folder)")
    receipts = read_receipts(arguments.receipts)
    course = GradingContext(str(lab.folder.resolve()), arguments.course, secret, roster, receipts)
    records = grade_all(download, course, out, jobs)
    refuse_wrong_command(records)
    marks = marking_sheets.read_marks(out / marking_sheets.MARKS, lab)
    refuse_wrong_roster(records, roster)
    lines = [
        marking_sheets.apply_marks(line, marks) for line in make_rows(download, records, roster)
    ]
    alike = list(find_similar_answers(lines, lab))
    index = pages.class_page(lab, arguments.course, str(path), lines, alike, download.passed_over)
    write_class_pages(out, lab, arguments.assignment or lab.title, lines, index)
    texts = pages.marking_page(lab, arguments.course, str(out / marking_sheets.MARKS), lines)
    write_whole(out / pages.MARKING, texts)
    write_whole(out / marking_sheets.MARKS, marking_sheets.texts_by_question(lines, lab))
    print_class(lines, lab)
    for pair in alike:
        print(f"resembling: {pair}")
    for name in download.passed_over:
        print(f"no hand-in: {name}")
    cached = sum(record.is_kept for record in records)
    print(f"{pages.class_summary(lines)}{f' ({cached} already graded)' if cached else ''}")
    to_mark = sum(line.grade.to_mark > 0 for line in lines if line.grade)
    if to_mark:
        print(
            f"{to_mark} students' texts are still to be marked: read {out / pages.MARKING}, write"
            f" points into {out / marking_sheets.MARKS}, and grade again"
        )
    names = ", ".join(gradebooks.GRADEBOOKS)
    print(f"{out / pages.INDEX} · {names} · {pages.FEEDBACK}/ has a page for each student")
    if lab.rank:
        print(f"its ranking: ./lab lab rank {lab.number} {path} --roster {arguments.roster}")
    return EXIT_FAILED if any(line.state == "not graded" for line in lines) else EXIT_OK


def reject_single_hand_in_options(arguments: argparse.Namespace) -> None:
    """Reject options that apply to a single hand-in. Raises BadInput."""
    for name in ("student", "metadata", "rerun"):
        if getattr(arguments, name):
            raise BadInput(f"--{name}: only for one hand-in, not with --roster")
    if arguments.format != "text":
        raise BadInput("--format: only for one hand-in; a class gets a CSV file for each gradebook")


def detect_lab(download: Download) -> str:
    """Return the lab that the hand-ins name. Raises BadInput if they name none, or several."""
    names: Counter[str] = Counter()
    for handed in download.hand_ins[:MAX_SAMPLED_HAND_INS]:
        try:
            with (
                only_bad_input(handed.label),
                lms_downloads.open_hand_in(download.path, handed) as folder,
            ):
                name = (read_object(folder / ASSIGNMENT) or {}).get("lab")
        except BadInput:
            continue
        if isinstance(name, str):
            names[name] += 1
    if len(names) != 1:
        among = f"of {' and '.join(sorted(names))}" if names else "of no lab that they name"
        raise BadInput(
            f"{download.path}: hand-ins {among}: say which: ./lab grade LAB {download.path} …"
        )
    return next(iter(names))


def refuse_wrong_command(records: list[GradeRecord]) -> None:
    """Reject a command that names another lab or course than all hand-ins. Raises BadInput."""
    refused = [record.refused for record in records if record.refused and record.student]
    reasons = {reason.partition(": ")[2] for reason in refused}
    if len(refused) == len(records) and (len(reasons) == 1 or len(refused) >= MIN_REFUSED_HAND_INS):
        raise BadInput(f"none is graded: {refused[0]}")


def refuse_wrong_roster(records: list[GradeRecord], roster: Roster) -> None:
    """Reject a roster that has none of the students of all hand-ins. Raises BadInput."""
    named = [record.student for record in records if record.student]
    if len(named) >= MIN_REFUSED_HAND_INS and not any(
        roster.find_by_identifier(student) for student in named
    ):
        raise BadInput(
            f"--roster: none of its students (like {roster.pupils[0].primary_identifier}) handed in"
            f" anything, and the hand-ins are of others (like {named[0]}): add a column `student`"
            " with the names that they started with"
        )


def write_class_pages(
    out: Path, lab: CourseLab, title: str, lines: list[GradeRow], index: str
) -> None:
    """Write the pages and the gradebook files, each atomically. Raises OSError."""
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
        old.unlink()  # The student has left the roster.
    for file, text in files.items():
        write_whole(file, text)


def print_class(lines: list[GradeRow], lab: CourseLab) -> None:
    from rich.text import Text

    from gostlab.console import Console

    shown_table = plain_table()
    shown_table.add_column("student", overflow="fold")
    shown_table.add_column("name", overflow="fold")
    shown_table.add_column(f"of {lab.points_with_texts}", justify="right", no_wrap=True)
    shown_table.add_column("to mark", justify="right", no_wrap=True)
    shown_table.add_column("", overflow="fold")
    for line in lines:
        state = pages.describe_hand_in(line)
        shown_table.add_row(
            Text(line.student),
            Text(line.name if line.name != line.student else ""),
            str(line.grade.points) if line.grade else "–",
            str(line.grade.to_mark or "") if line.grade else "",
            Text("" if state == "graded" else state),
        )
    Console(sys.stdout).print(shown_table)


def print_answer_key(arguments: argparse.Namespace) -> int:
    """Print the right answers of one student. Raises BadInput."""
    lab = load_lab(arguments.lab)
    secret = read_secret(arguments.secret)
    assignment = assignment_in_course(lab, arguments.student, arguments.course, secret)
    print(f"{lab.title} · {arguments.student} · course {arguments.course}")
    print(f"values: {', '.join(f'{n} {format_value(v)}' for n, v in assignment.values.items())}")
    if arguments.hand_in is not None:
        with open_upload(arguments.hand_in) as folder:
            result = grade(assignment, folder)
        for line in result.problems:
            print(f"problem: {line}")
        if not result.problems:
            for scored in result.scored:
                print(f"{scored.name}: {expected_text(scored)}   {scored.says}")
            return EXIT_OK
    for point in lab.points:
        if point.by_hand or point.answer is None:
            continue
        try:
            value = evaluate(point.expect or "", assignment.values)
            right = format_rounded(value) if not isinstance(value, str) else f"“{value}”"
            if point.within:
                right += f" ({point.within.text})"
        except FormulaError:
            right = "from the runs of a hand-in (--hand-in)"
        print(f"{point.name}: {right}   {fill_or_keep(point.says, assignment.values)}")
    return EXIT_OK
