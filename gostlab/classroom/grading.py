# SPDX-License-Identifier: MIT
"""Grade a hand-in: check its runs against the assignment and their raw records, then its answers.

A hand-in earns points only if the runs are the student's own, complete and valid: a prediction
counts only if it was made before its runs, an answer only with them.
"""

import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from statistics import median

from gostlab.classroom.answers import (
    SEALED,
    Answers,
    SealedPredictions,
    parse_number,
    read_answers,
    read_sealed,
)
from gostlab.classroom.expressions import (
    FormulaError,
    Value,
    evaluate,
    fill_formulas,
    format_rounded,
    format_value,
)
from gostlab.classroom.lab import ANSWERS, CourseLab, Point, RunMetric
from gostlab.classroom.raw_metrics import RawRecords, UnreadableRecord, find_problems, metric_value
from gostlab.classroom.student_assignment import STUDENT, Assignment, ticket_of
from gostlab.results import BROKEN_RECORDS, read_object
from gostlab.spec.run_spec import RunSpec
from gostlab.spec.yaml_source import BadInput

RESULTS = "results"
NAME = re.compile(r"[a-z0-9][a-z0-9.-]{0,63}")
MAX_OWN_FOLDERS = 500
NO_RECEIPT = "no receipt of predictions that were sealed before the runs"
OTHER_RECEIPT = "not the predictions that were sealed first (receipt {})"
Take = Callable[[list[float]], float]
TAKES: Mapping[str, Take] = {"one": min, "least": min, "most": max, "median": median}


@dataclass(frozen=True)
class ScoredPoint:
    """The points earned on one point of a lab, with the reason."""

    name: str
    points: int  # points earned
    most: int
    says: str
    asked: str  # expected value
    got: str
    band: str
    source: str  # source of the expected value, and the file with the student's
    why: str  # reason for a deduction; "" for full points
    because: str = ""  # explanation of the expected value

    @property
    def passed(self) -> bool:
        return self.points == self.most


@dataclass(frozen=True)
class HandMarkedAnswer:
    """An answer that a person has to read."""

    name: str
    most: int
    says: str
    text: str
    scheme: tuple[str, ...] = ()  # The scheme has a line for what earns a point.
    points: int | None = None  # None until a person has marked it


@dataclass(frozen=True)
class Grade:
    """The points of a hand-in with their reasons."""

    lab: str
    title: str
    student: str
    course: str
    values: Mapping[str, Value]
    scored: tuple[ScoredPoint, ...]
    by_hand: tuple[HandMarkedAnswer, ...]
    problems: tuple[str, ...]  # reasons for not counting the hand-in; empty if it counts
    notes: tuple[str, ...] = ()
    reran: tuple[str, ...] = ()  # results of a rerun

    @property
    def points(self) -> int:
        """Return the points so far: the machine's, and those that a person has given."""
        marked = sum(paper.points or 0 for paper in self.by_hand)
        return sum(scored.points for scored in self.scored) + marked

    @property
    def most(self) -> int:
        """Return the maximum number of points without the answers that are still to be marked."""
        marked = sum(paper.most for paper in self.by_hand if paper.points is not None)
        return sum(scored.most for scored in self.scored) + marked

    @property
    def to_mark(self) -> int:
        """Return the points of the answers that a person has still to mark."""
        return sum(paper.most for paper in self.by_hand if paper.points is None)

    @property
    def total(self) -> str:
        """Return a sentence such as "15 of 20 points, and 3 of them still to be marked"."""
        total = self.most + self.to_mark
        if not self.to_mark:
            return f"{self.points} of {total} points"
        return f"{self.points} of {total} points so far: {self.to_mark} are still to be marked"


@dataclass
class StudentRuns:
    """The raw records of the student's runs that count, and the problems of the others."""

    records: list[RawRecords] = field(default_factory=list)
    own_runs: list[RawRecords] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)


def grade(assignment: Assignment, folder: Path, receipt: str | None = None) -> Grade:
    """Grade the hand-in in a folder that is safe to read.

    `receipt` is that of the predictions which the student sealed first ("": of none); None if
    nobody collected it. Problems of the hand-in are part of its grade. Raises BadInput for an
    incomplete lab.
    """
    lab = assignment.lab
    try:
        answers, sealed = read_answers(folder / ANSWERS, lab), read_sealed(folder / SEALED, lab)
    except BadInput as error:
        return grade_nothing(assignment, [str(error)])
    problems = find_wrong_student(assignment, answers, folder)
    runs = find_runs(assignment, sealed, folder / RESULTS)
    problems += runs.problems
    if problems:
        return grade_nothing(assignment, problems, answers)
    names, lacking = collect_values(assignment, runs)
    # The sealed predictions count: answers.yaml may have been changed later.
    answers = replace(answers, predictions=sealed.predictions)
    is_first = receipt in (None, assignment.receipt(sealed.predictions))
    unsealed = "" if is_first else NO_RECEIPT if not receipt else OTHER_RECEIPT.format(receipt)
    return grade_of(assignment, answers, names, lacking=lacking, unsealed=unsealed)


def grade_nothing(
    assignment: Assignment, problems: Sequence[str], answers: Answers | None = None
) -> Grade:
    """Return the grade of a hand-in that does not count."""
    return grade_of(assignment, answers, assignment.values, problems)


def grade_of(
    assignment: Assignment,
    answers: Answers | None,
    names: Mapping[str, Value],
    problems: Sequence[str] = (),
    lacking: Mapping[str, str] = {},
    unsealed: str = "",
) -> Grade:
    """Return the grade of these answers; `unsealed` says why the predictions earn nothing."""
    lab, no_points = assignment.lab, ("", "", "", "the hand-in does not count: see the problems")
    scored = [
        to_scored_point(point, names, no_points, point.source)
        if problems or answers is None
        else to_scored_point(point, names, ("", "", "", unsealed), SEALED)
        if unsealed and point.is_prediction
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
        hand_marked_answers(lab, answers, names, is_lost=bool(problems)),
        tuple(problems),
    )


def hand_marked_answers(
    lab: CourseLab, answers: Answers | None, names: Mapping[str, Value], *, is_lost: bool
) -> tuple[HandMarkedAnswer, ...]:
    """Return the answers that a person marks: 0 points if nothing is there, or nothing counts."""
    texts = {
        point.name: answers.text(*point.answer) for point in lab.points if point.answer and answers
    }
    return tuple(
        HandMarkedAnswer(
            point.name,
            point.points,
            fill_or_keep(point.says, names),
            text,
            point.scheme,
            0 if is_lost or not text.strip() else None,
        )
        for point in lab.points
        if point.by_hand
        for text in [texts.get(point.name, "")]
    )


def fill_or_keep(text: str, names: Mapping[str, Value]) -> str:
    """Return a sentence with its <formulas> filled in, or unchanged if a formula has no value."""
    try:
        return fill_formulas(text, names)
    except FormulaError:
        return text


# -- find the student's runs


def find_mismatch(
    assignment: Assignment, metadata: Mapping[str, object], key: bytes | None, submission: object
) -> str:
    """Return an error if a hand-in is of another lab, course or secret, else ""."""
    lab, course = (str(metadata.get(name, ""))[:80] for name in ("lab", "course"))
    if metadata and lab != assignment.lab.name:
        return f"{submission}: a hand-in of lab {lab!r}, not of {assignment.lab.name}"
    if metadata and course != assignment.course:
        return (
            f"{submission}: work of course {course!r}, and the command says"
            f" {assignment.course!r}: grade it with its --course (and that course's --secret)"
        )
    named = str(metadata.get("student", ""))
    begun_by = named if STUDENT.fullmatch(named) else assignment.student
    public = ticket_of(assignment.lab, begun_by, assignment.course, None)
    if metadata and key is None and metadata.get("ticket") != public:
        return (
            f"{submission}: begun with a ticket of course {course!r}: grade it with that"
            " course's --secret"
        )
    return ""


def find_wrong_student(assignment: Assignment, answers: Answers, folder: Path) -> list[str]:
    """Return the reasons for which a hand-in belongs to another student."""
    problems = []
    metadata = read_object(folder / "assignment.json") or {}
    for where, name in ((ANSWERS, answers.student), ("assignment.json", metadata.get("student"))):
        if name != assignment.student:
            problems.append(f"{where}: of student {str(name)!r:.80}, not {assignment.student}")
    if metadata.get("ticket") != assignment.ticket:
        problems.append(
            "assignment.json: its ticket is not this student's of course"
            f" {assignment.course}: it must be started with the ticket that the teacher gave"
        )
    return problems


def find_runs(assignment: Assignment, sealed: SealedPredictions, results: Path) -> StudentRuns:
    """Return the records of a hand-in's expected runs, and the problems of the others."""
    student_runs = StudentRuns()
    seed = assignment.seed(sealed.predictions)
    wanted, own_wanted = assignment.runs(seed), assignment.own_runs(seed)
    locations = [(results / run.experiment / run.name, run, student_runs.records) for run in wanted]
    theirs = dict(index_runs_by_description(results, wanted[0].experiment)) if own_wanted else {}
    for run in own_wanted:
        missing_run = results / "not there", run
        key = settings_key(run.to_json())
        locations.append((*theirs.get(key, missing_run), student_runs.own_runs))
    there = [location for location in locations if location[0].is_dir()]
    if missing := len(locations) - len(there):
        others = sum(1 for _ in results.glob("*/*/run.json")) if results.is_dir() else 0
        why = f" (./lab lab run {assignment.lab.command_word})"
        if others > len(there):
            why = (
                f", though {others} others are: they belong to other predictions, another student,"
                " another lab, or other settings"
            )
        student_runs.problems.append(
            f"{RESULTS}: {missing} of {len(locations)} runs are not there{why}"
        )
    for folder, run, into in there:
        records = RawRecords(folder, run)
        wrong = list(find_problems(records, assignment.lab.verdicts, sealed.at))
        student_runs.problems += [f"{folder.name:.120}: {line}" for line in wrong[:3]]
        into.extend([] if wrong else [records])
    return student_runs


def index_runs_by_description(
    results: Path, experiment: str
) -> Iterator[tuple[str, tuple[Path, RunSpec]]]:
    """Yield the runs of other experiments in a hand-in, keyed by their settings without names."""
    for folder in sorted(results.glob("*/*"))[:MAX_OWN_FOLDERS]:
        values = read_object(folder / "run.json")
        if values is None or folder.parent.name == experiment:
            continue
        try:
            run = RunSpec.from_json(values)
            # The names become folder names in a rerun.
            is_safe = NAME.fullmatch(run.experiment) and NAME.fullmatch(run.matrix)
            if is_safe and run.to_json() == values:
                yield settings_key(values), (folder, run)
        except (BadInput, *BROKEN_RECORDS):
            continue


def settings_key(values: Mapping[str, object]) -> str:
    """Return the settings of a run as JSON, without the names that a student may choose."""
    named = ("experiment", "matrix", "factors")
    return json.dumps(
        {key: value for key, value in values.items() if key not in named}, sort_keys=True
    )


# -- evaluate the runs


def collect_values(
    assignment: Assignment, runs: StudentRuns
) -> tuple[dict[str, Value], dict[str, str]]:
    """Return the drawn and measured values by name, and the reasons for values that are missing."""
    names: dict[str, Value] = dict(assignment.values)
    lacking: dict[str, str] = {}
    for name, wanted in assignment.lab.measured.items():
        try:
            names[name] = compute_metric(wanted, assignment, runs)
        except (UnreadableRecord, FormulaError) as error:
            lacking[name] = str(error)
    return names, lacking


def compute_metric(wanted: RunMetric, assignment: Assignment, student_runs: StudentRuns) -> float:
    """Return a metric of the student's runs. Raises UnreadableRecord or FormulaError."""
    known = student_runs.own_runs if wanted.own else student_runs.records
    named = select_runs(wanted, assignment, [records.run for records in known])
    fitting = [records for records in known if records.run in named]
    return TAKES[wanted.take](
        [metric_value(records, wanted.figure, wanted.flow) for records in fitting]
    )


def select_runs(
    wanted: RunMetric, assignment: Assignment, runs: Sequence[RunSpec]
) -> list[RunSpec]:
    """Return the runs to which a metric applies.

    Raises UnreadableRecord if there are none, or several for a metric of one run, and FormulaError.
    """
    levels = {name: fill_formulas(text, assignment.values) for name, text in wanted.of.items()}
    fitting = [
        run
        for run in runs
        if all(level_of(run, name) == strip_blanks(level) for name, level in levels.items())
    ]
    if not fitting or (wanted.take == "one" and len(fitting) > 1):
        raise UnreadableRecord(f"{wanted.figure}: {len(fitting)} runs with {levels}")
    return fitting


def level_of(run: RunSpec, name: str) -> str | None:
    """Return a run's matrix or level of a factor, in the syntax of an experiment."""
    value = run.matrix if name == "matrix" else run.factors.get(name)
    if isinstance(value, Mapping):
        value = "{" + ",".join(f"{key}:{level}" for key, level in value.items()) + "}"
    return None if value is None else strip_blanks(str(value))


def strip_blanks(text: str) -> str:
    """Return a level without blanks."""
    return "".join(text.split())


def normalize_word(text: str) -> str:
    """Return a word without capitals, blanks and a trailing full stop."""
    return strip_blanks(text).removesuffix(".").casefold()


# -- score points


Judged = tuple[str, str, str, str]  # expected, actual, band, reason for no points


def score(
    point: Point, answers: Answers, names: Mapping[str, Value], lacking: Mapping[str, str]
) -> ScoredPoint:
    file = f"{SEALED if point.is_prediction else ANSWERS}" if point.answer else "raw records"
    try:
        judged = (
            score_run(point, names)
            if point.answer is None
            else score_answer(point, answers.text(*point.answer), names)
        )
    except FormulaError as error:
        # A formula is not shown to the student, who reads only what the runs lack.
        find_mismatch = [text for name, text in lacking.items() if name in str(error)]
        judged = (
            "",
            "",
            "",
            f"cannot be judged: {'; '.join(find_mismatch) or 'a value has no number'}",
        )
    return to_scored_point(point, names, judged, f"{point.source}; {file}")


def to_scored_point(
    point: Point, names: Mapping[str, Value], judged: Judged, source: str
) -> ScoredPoint:
    """Return a point with its score, which is all or nothing."""
    expected, got, band, why = judged
    says, earned = fill_or_keep(point.says, names), 0 if why else point.points
    try:
        because = fill_formulas(point.because, names, format_rounded)
    except FormulaError:  # The runs do not count.
        because = ""
    return ScoredPoint(
        point.name, earned, point.points, says, expected, got, band, source, why, because
    )


def score_run(point: Point, names: Mapping[str, Value]) -> Judged:
    """Score a metric of the runs against its band. Raises FormulaError."""
    got, inside, band = evaluate_number(point.got or "", names), True, []
    for bound_name, end, sign in (("at least", point.least, 1), ("at most", point.most, -1)):
        if end is not None:
            bound = evaluate_number(end, names)
            inside &= sign * (got - bound) >= 0
            band.append(f"{bound_name} {format_value(bound)}")
    expected = " and ".join(band)
    return expected, format_rounded(got), expected, "" if inside else "outside its band"


def score_answer(point: Point, text: str, names: Mapping[str, Value]) -> Judged:
    """Score an answer against its expected value. Raises FormulaError.

    Where several values are right, so is each one between them.
    """
    expected = evaluate(point.expect or "", names)
    band = point.within.text if point.within else "the same word"
    if not text.strip():
        return format_value(expected), "", band, "no answer"
    if point.within is None:
        same = normalize_word(text) == normalize_word(str(expected))
        return format_value(expected), text[:80], band, "" if same else "another was right"
    got = parse_number(text)
    if got is None:
        return format_value(expected), text[:80], band, "not a number (like 41.2, without a unit)"
    right = [float(expected), *other_right_values(point, names)]
    nearest = min(max(got, min(right)), max(right))
    near = point.within.holds(got, nearest)
    if len(right) > 1:
        lowest, highest = (format_rounded(end) for end in (min(right), max(right)))
        band += f", or between {lowest} and {highest}" if lowest != highest else ""
    return format_value(expected), format_value(got), band, "" if near else "outside its band"


def other_right_values(point: Point, names: Mapping[str, Value]) -> Iterator[float]:
    """Yield the other right values of a point, without those of runs that do not count."""
    for formula in point.also:
        with suppress(FormulaError):
            yield evaluate_number(formula, names)


def evaluate_number(formula: str, names: Mapping[str, Value]) -> float:
    """Return the number that a formula evaluates to. Raises FormulaError."""
    value = evaluate(formula, names)
    if isinstance(value, str):
        raise FormulaError(f"{formula}: a word where a number should be")
    return float(value)
