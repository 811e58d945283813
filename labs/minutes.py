#!/usr/bin/python3
# SPDX-License-Identifier: MIT
"""Estimate how long a student takes for each lab, and write the table of docs/how-to/teaching.md.

    labs/minutes.py [--write]

It counts: the words of the lab's page, predictions, answers, figures, questions, and the CPU time
of its runs as the lab's plan has it. How long each takes are the constants below. They are set
once for all labs, and are assumptions but for the reading speed: nobody has timed a class. The exit
code is 1 if a lab is not within 45 to 60 minutes.
"""

import argparse
import re
import sys
from dataclasses import dataclass, fields
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from gostlab.classroom.lab import GUIDE, PLAN, CourseLab, list_labs, load_lab  # noqa: E402
from gostlab.spec.experiment import load_experiment  # noqa: E402

PAGE = ROOT / "docs/how-to/teaching.md"
MIN_MINUTES, MAX_MINUTES = 45.0, 60.0
# Reading to remember: R. P. Carver, Reading rate (1990), chapter 2.
WORDS_PER_MINUTE = 138
COMPUTED_MIN, CHOSEN_MIN = 2.5, 1.5  # a prediction by a formula, and one by a word
READ_MIN = 1.5  # an answer that is read from a table or a figure
WRITTEN_MIN_PER_POINT = 2.0  # an answer in words
FIGURE_MIN = 3.0
QUESTION_MIN = 3.0  # a question of the page that is not on the sheet: a command, and its outcome
STEPS_MIN = 5.0  # start, predict, run, report and hand-in
EXPERIMENT_MIN = 8.0  # an experiment of the student's own, copied and filled in
MARK = re.compile(r"(?s)(<!-- from: labs/minutes\.py --write -->\n).*?(?=\n\n|\Z)")


@dataclass(frozen=True)
class LabMinutes:
    """The estimated minutes of a lab by what is done in them."""

    read: float
    predict: float
    steps: float
    runs: float  # CPU time: one run at a time on an idle machine
    look: float
    answer: float
    write: float
    questions: float

    @property
    def total(self) -> float:
        return sum(getattr(self, field.name) for field in fields(self))


def estimate(lab: CourseLab) -> LabMinutes:
    """Return the estimate of a lab, without what its page leaves for home (a ranked file)."""
    page = (lab.folder / GUIDE).read_text(encoding="utf-8")
    if lab.rank is not None:
        page = re.sub(r"(?ms)^## How you are ranked$.*?(?=^## )", "", page)
    questions = re.search(r"(?ms)^## Questions$(.*?)(?=^## )", page)
    question_texts = re.split(r"(?m)^- ", questions[1])[1:] if questions else []
    points = [point for point in lab.points if point.answer]
    predicted = [point for point in points if point.is_prediction]
    numbers = sum(point.within is not None for point in predicted)
    read = sum(not point.is_prediction and not point.by_hand for point in points)
    by_hand = sum(point.points for point in points if point.by_hand)
    drawn = load_experiment(str(lab.experiment_path)).matrices
    figures = {name for matrix in drawn for name in matrix.draw if f"*{name}*" in page}
    own_experiment_min = EXPERIMENT_MIN if lab.own else 0.0
    return LabMinutes(
        read=len(page.split()) / WORDS_PER_MINUTE,
        predict=COMPUTED_MIN * numbers + CHOSEN_MIN * (len(predicted) - numbers),
        steps=STEPS_MIN + own_experiment_min,
        runs=machine_s(lab) / 60,
        look=FIGURE_MIN * len(figures),
        answer=READ_MIN * read,
        write=WRITTEN_MIN_PER_POINT * by_hand,
        questions=QUESTION_MIN
        * sum("asked on the" not in " ".join(one.split()) for one in question_texts),
    )


def machine_s(lab: CourseLab) -> float:
    """Return the machine's CPU time from hand-out to hand-in, as labs/times.py wrote it, s."""
    plan = (lab.folder / PLAN).read_text(encoding="utf-8")
    row = re.search(r"^\| CPU time, s \|.* ([0-9.]+) \|$", plan, re.MULTILINE)
    if row is None:
        raise SystemExit(
            f"{lab.folder / PLAN}: no CPU time: labs/times.py {lab.command_word} --write"
        )
    return float(row[1])


def table(labs: list[CourseLab]) -> str:
    """Return the table in Markdown."""
    names = [field.name for field in fields(LabMinutes)]
    lines = [f"| lab | {' | '.join(names)} | minutes |", "|---" * (len(names) + 2) + "|"]
    for lab in labs:
        minutes = estimate(lab)
        cells = [f"{getattr(minutes, name):.1f}" for name in names]
        lines.append(f"| {lab.number} | {' | '.join(cells)} | {minutes.total:.0f} |")
    return "\n".join(lines)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--write", action="store_true", help=f"into {PAGE.name}")
    arguments = parser.parse_args()
    labs = [load_lab(str(folder)) for folder in list_labs()]
    text = table(labs)
    print(text)
    if arguments.write:
        page = PAGE.read_text(encoding="utf-8")
        changed, count = MARK.subn(lambda at: at[1] + text, page)
        if not count:
            sys.exit(f"{PAGE}: no <!-- from: labs/minutes.py --write -->")
        PAGE.write_text(changed, encoding="utf-8")
    return int(any(not MIN_MINUTES <= estimate(lab).total <= MAX_MINUTES for lab in labs))


if __name__ == "__main__":
    sys.exit(main())
