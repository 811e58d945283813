"""From a hand-in to points: the assignment made anew, every run held against it and against its own
raw records, every answer against what it should be.

Nothing earns a point unless the runs are the student's own, whole and good: a prediction counts
only before its runs, an answer only beside them.
"""

import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from statistics import median
from typing import Any

from gostlab.classroom.answers import SEALED, Answers, Sealed, as_number, read_answers, read_sealed
from gostlab.classroom.assignment import STUDENT, Assignment, ticket_of
from gostlab.classroom.expressions import FormulaError, Value, evaluate, filled, rounded, shown
from gostlab.classroom.lab import ANSWERS, CourseLab, Point, RunMetric
from gostlab.classroom.raw_metrics import Records, UnreadableRecord, complaints, figure
from gostlab.results import BROKEN_RECORDS, read_object
from gostlab.spec.run_spec import RunSpec
from gostlab.spec.yaml_source import BadInput

RESULTS = "results"
NAME = re.compile(r"[a-z0-9][a-z0-9.-]{0,63}")
MAX_OWN_FOLDERS = 500
Take = Callable[[list[float]], float]
TAKES: Mapping[str, Take] = {"one": min, "least": min, "most": max, "median": median}


@dataclass(frozen=True)
class Scored:
    """What one point of a lab earned, and why."""

    name: str
    points: int  # earned
    most: int
    says: str
    asked: str  # what it should be
    got: str
    band: str
    source: str  # where the expected value comes from, and which file the other
    why: str  # why not all of it; "" where it is
    because: str = ""  # why the number is what it is, in words

    @property
    def passed(self) -> bool:
        return self.points == self.most


@dataclass(frozen=True)
class ByHand:
    """What a person has to read."""

    name: str
    most: int
    says: str
    text: str


@dataclass(frozen=True)
class Grade:
    """A hand-in's points, each with its reasons."""

    lab: str
    title: str
    student: str
    course: str
    values: Mapping[str, Value]
    scored: tuple[Scored, ...]
    by_hand: tuple[ByHand, ...]
    problems: tuple[str, ...]  # why nothing counts; none where it does
    notes: tuple[str, ...] = ()
    reran: tuple[str, ...] = ()  # what a rerun said

    @property
    def points(self) -> int:
        return sum(each.points for each in self.scored)

    @property
    def most(self) -> int:
        """That can be earned without a person."""
        return sum(each.most for each in self.scored)


@dataclass
class StudentRuns:
    """The student's runs that count, and what they say."""

    records: list[Records] = field(default_factory=list)
    own: list[Records] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)


def grade(assignment: Assignment, folder: Path) -> Grade:
    """A hand-in's grade. `folder`: the hand-in's, safe to read. Raises BadInput for a lab that is
    not whole; what is wrong with a hand-in is in the grade.
    """
    lab = assignment.lab
    try:
        answers, sealed = read_answers(folder / ANSWERS, lab), read_sealed(folder / SEALED, lab)
    except BadInput as error:
        return nothing(assignment, [str(error)])
    problems = wrong_student(assignment, answers, folder)
    found = find_runs(assignment, sealed, folder / RESULTS)
    problems += found.problems
    if problems:
        return nothing(assignment, problems, answers)
    names, lacking = named_values(assignment, found)
    # Sealed is what was predicted; what stands in answers.yaml may have been changed since.
    answers = replace(answers, predictions=sealed.predictions)
    return grade_of(assignment, answers, names, lacking=lacking)


def nothing(
    assignment: Assignment, problems: Sequence[str], answers: Answers | None = None
) -> Grade:
    """The grade of a hand-in that does not count."""
    return grade_of(assignment, answers, assignment.values, problems)


def grade_of(
    assignment: Assignment,
    answers: Answers | None,
    names: Mapping[str, Value],
    problems: Sequence[str] = (),
    lacking: Mapping[str, str] = {},
) -> Grade:
    lab, no_points = assignment.lab, ("", "", "", "the hand-in does not count: see the problems")
    scored = [
        scored_of(point, names, no_points, point.source)
        if problems or answers is None
        else score(point, answers, names, lacking)
        for point in lab.points
        if not point.by_hand
    ]
    return Grade(
        lab.name,
        lab.title,
        assignment.student,
        assignment.course,
        assignment.values,
        tuple(scored),
        by_hand(lab, answers, names) if answers else (),
        tuple(problems),
    )


def by_hand(lab: CourseLab, answers: Answers, names: Mapping[str, Value]) -> tuple[ByHand, ...]:
    return tuple(
        ByHand(point.name, point.points, said(point.says, names), answers.text(*point.answer))
        for point in lab.points
        if point.by_hand and point.answer
    )


def said(text: str, names: Mapping[str, Value]) -> str:
    """A sentence with its <formulas> filled in, or as it is written where one has no value."""
    try:
        return filled(text, names)
    except FormulaError:
        return text


# -- whose runs


def lacks(
    assignment: Assignment, told: Mapping[str, Any], key: bytes | None, submission: object
) -> str:
    """What the teacher's command has to say for this hand-in to be judged; "" for nothing."""
    lab, course = (str(told.get(name, ""))[:80] for name in ("lab", "course"))
    if told and lab != assignment.lab.name:
        return f"{submission}: a hand-in of lab {lab!r}, not of {assignment.lab.name}"
    if told and course != assignment.course:
        return (
            f"{submission}: work of course {course!r}, and the command says"
            f" {assignment.course!r}: grade it with its --course (and that course's --secret)"
        )
    named = str(told.get("student", ""))
    begun_by = named if STUDENT.fullmatch(named) else assignment.student
    public = ticket_of(assignment.lab, begun_by, assignment.course, None)
    if told and key is None and told.get("ticket") != public:
        return (
            f"{submission}: begun with a ticket of course {course!r}: grade it with that"
            " course's --secret"
        )
    return ""


def wrong_student(assignment: Assignment, answers: Answers, folder: Path) -> list[str]:
    """What says that a hand-in is somebody else's."""
    found = []
    told = read_object(folder / "assignment.json") or {}
    for where, name in ((ANSWERS, answers.student), ("assignment.json", told.get("student"))):
        if name != assignment.student:
            found.append(f"{where}: of student {str(name)!r:.80}, not {assignment.student}")
    if told.get("ticket") != assignment.ticket:
        found.append(
            "assignment.json: its ticket is not this student's of course"
            f" {assignment.course}: ask him to start with the ticket that he was given"
        )
    return found


def find_runs(assignment: Assignment, sealed: Sealed, results: Path) -> StudentRuns:
    """The runs of a hand-in that should be there, and why those that do not count do not."""
    found = StudentRuns()
    seed = assignment.seed(sealed.predictions)
    wanted, own = assignment.runs(seed), assignment.own_runs(seed)
    places = [(results / run.experiment / run.name, run, found.records) for run in wanted]
    theirs = dict(index_runs_by_description(results, wanted[0].experiment)) if own else {}
    for run in own:
        nowhere = results / "not there", run
        places.append((*theirs.get(what_was_asked(run.to_json()), nowhere), found.own))
    there = [place for place in places if place[0].is_dir()]
    if missing := len(places) - len(there):
        others = sum(1 for _ in results.glob("*/*/run.json")) if results.is_dir() else 0
        why = f" (./lab lab run {assignment.lab.word})"
        if others > len(there):
            why = (
                f", though {others} others are: they belong to other predictions, another student,"
                " another lab, or other settings"
            )
        found.problems.append(f"{RESULTS}: {missing} of {len(places)} runs are not there{why}")
    for folder, run, into in there:
        records = Records(folder, run)
        wrong = list(complaints(records, assignment.lab.verdicts, sealed.at))
        found.problems += [f"{folder.name:.120}: {line}" for line in wrong[:3]]
        into.extend([] if wrong else [records])
    return found


def index_runs_by_description(
    results: Path, experiment: str
) -> Iterator[tuple[str, tuple[Path, RunSpec]]]:
    """The runs of other experiments in a hand-in, by what was asked of them but for its names."""
    for folder in sorted(results.glob("*/*"))[:MAX_OWN_FOLDERS]:
        values = read_object(folder / "run.json")
        if values is None or folder.parent.name == experiment:
            continue
        try:
            run = RunSpec.from_json(values)
            # its names become names of folders in a rerun
            plain = NAME.fullmatch(run.experiment) and NAME.fullmatch(run.matrix)
            if plain and run.to_json() == values:
                yield what_was_asked(values), (folder, run)
        except (BadInput, *BROKEN_RECORDS):
            continue


def what_was_asked(values: Mapping[str, Any]) -> str:
    """A run's description without what a student may call it."""
    named = ("experiment", "matrix", "factors")
    return json.dumps(
        {key: each for key, each in values.items() if key not in named}, sort_keys=True
    )


# -- what they say


def named_values(
    assignment: Assignment, found: StudentRuns
) -> tuple[dict[str, Value], dict[str, str]]:
    """What is drawn and what the runs measured; of what they do not tell, why."""
    names: dict[str, Value] = dict(assignment.values)
    lacking: dict[str, str] = {}
    for name, wanted in assignment.lab.measured.items():
        try:
            names[name] = measured(wanted, assignment, found)
        except (UnreadableRecord, FormulaError) as error:
            lacking[name] = str(error)
    return names, lacking


def measured(wanted: RunMetric, assignment: Assignment, found: StudentRuns) -> float:
    """A figure of the runs. Raises Unreadable or FormulaError."""
    known = found.own if wanted.own else found.records
    named = runs_named(wanted, assignment, [records.run for records in known])
    fitting = [records for records in known if records.run in named]
    return TAKES[wanted.take]([figure(each, wanted.figure, wanted.flow) for each in fitting])


def runs_named(wanted: RunMetric, assignment: Assignment, runs: Sequence[RunSpec]) -> list[RunSpec]:
    """Of some runs those that a figure is of. Raises Unreadable for none, and for several where it
    is of one, or FormulaError.
    """
    levels = {name: filled(text, assignment.values) for name, text in wanted.of.items()}
    fitting = [
        run
        for run in runs
        if all(level_of(run, name) == squeezed(level) for name, level in levels.items())
    ]
    if not fitting or (wanted.take == "one" and len(fitting) > 1):
        raise UnreadableRecord(f"{wanted.figure}: {len(fitting)} runs with {levels}")
    return fitting


def level_of(run: RunSpec, name: str) -> str | None:
    """A run's matrix, or its level of a factor, as people write it."""
    value = run.matrix if name == "matrix" else run.factors.get(name)
    if isinstance(value, Mapping):
        value = "{" + ",".join(f"{key}:{each}" for key, each in value.items()) + "}"
    return None if value is None else squeezed(str(value))


def squeezed(text: str) -> str:
    """A level without the blanks that mean nothing."""
    return "".join(text.split())


def plain_word(text: str) -> str:
    """A word without capitals, blanks and a full stop at its end."""
    return squeezed(text).removesuffix(".").casefold()


# -- points


Judged = tuple[str, str, str, str]  # what was asked, got, the band, and why it earns nothing


def score(
    point: Point, answers: Answers, names: Mapping[str, Value], lacking: Mapping[str, str]
) -> Scored:
    file = f"{SEALED if point.is_prediction else ANSWERS}" if point.answer else "raw records"
    try:
        judged = (
            score_run(point, names)
            if point.answer is None
            else score_answer(point, answers.text(*point.answer), names)
        )
    except FormulaError as error:
        # What a formula is stays with the teacher: the student reads what his runs lack.
        lacks = [text for name, text in lacking.items() if name in str(error)]
        judged = "", "", "", f"cannot be judged: {'; '.join(lacks) or 'a value has no number'}"
    return scored_of(point, names, judged, f"{point.source}; {file}")


def scored_of(point: Point, names: Mapping[str, Value], judged: Judged, source: str) -> Scored:
    """A point with what it earned: all or nothing."""
    asked, got, band, why = judged
    says, earned = said(point.says, names), 0 if why else point.points
    try:
        because = filled(point.because, names, rounded)
    except FormulaError:  # of runs that do not count
        because = ""
    return Scored(point.name, earned, point.points, says, asked, got, band, source, why, because)


def score_run(point: Point, names: Mapping[str, Value]) -> Judged:
    """A figure of the runs. Raises FormulaError."""
    got, inside, band = number_of(point.got or "", names), True, []
    for words, end, sign in (("at least", point.least, 1), ("at most", point.most, -1)):
        if end is not None:
            bound = number_of(end, names)
            inside &= sign * (got - bound) >= 0
            band.append(f"{words} {shown(bound)}")
    asked = " and ".join(band)
    return asked, rounded(got), asked, "" if inside else "outside its band"


def score_answer(point: Point, text: str, names: Mapping[str, Value]) -> Judged:
    """An answer. Raises FormulaError."""
    expected = evaluate(point.expect or "", names)
    band = point.within.words if point.within else "the same word"
    if not text.strip():
        return shown(expected), "", band, "no answer"
    if point.within is None:
        same = plain_word(text) == plain_word(str(expected))
        return shown(expected), text[:80], band, "" if same else "another was right"
    got = as_number(text)
    if got is None:
        return shown(expected), text[:80], band, "not a number (like 41.2, without a unit)"
    near = point.within.holds(got, float(expected))
    return shown(expected), shown(got), band, "" if near else "outside its band"


def number_of(formula: str, names: Mapping[str, Value]) -> float:
    """A formula's number. Raises FormulaError."""
    value = evaluate(formula, names)
    if isinstance(value, str):
        raise FormulaError(f"{formula}: a word where a number should be")
    return float(value)
