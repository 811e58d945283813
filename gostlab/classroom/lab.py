# SPDX-License-Identifier: MIT
"""Read a lab's folder: an experiment, a template of answers, and check.yaml.

check.yaml declares the values drawn for each student, the metrics, and the points.
"""

import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

from gostlab.classroom.expressions import FORMULA_IN_TEXT, FormulaError, Value, variable_names
from gostlab.registry.folders import LABS
from gostlab.spec.yaml_source import (
    MAX_BYTES,
    NUMBER,
    TEXTS_BY_NAME,
    BadInput,
    Node,
    by_name_reader,
    key,
    list_of,
    load_document,
    load_text,
    mapping_of,
    one_of,
    record_reader,
    suggest_name,
    takes,
    text_of,
    whole_number,
    yes_no,
)

CHECKS, EXPERIMENT, ANSWERS, GUIDE = "check.yaml", "experiment.yaml", "answers.yaml", "README.md"
PLAN = "plan.md"
SECTIONS = ("predictions", "answers")
TO_FILL = re.compile(r"FILL IN: *(.*?)[\"']?$")
NAME = re.compile(r"[a-z][a-z0-9_]{0,40}")


@dataclass(frozen=True)
class Tolerance:
    """The tolerance of an expected value."""

    unit: str  # share | absolute | factor
    size: float

    def holds(self, got: float, expected: float) -> bool:
        if self.unit == "factor":
            return got > 0 < expected and 1 / self.size <= got / expected <= self.size
        size = self.size * abs(expected) if self.unit == "share" else self.size
        return abs(got - expected) <= size * (1 + 1e-9)

    @property
    def text(self) -> str:
        if self.unit == "factor":
            return f"within a factor of {self.size:g}"
        return f"± {100 * self.size:g} %" if self.unit == "share" else f"± {self.size:g}"


# -- parse the values of check.yaml


@takes({})
def read_value(node: Node) -> Value:
    """Return a number if the text is one, else the text. Raises BadInput."""
    text = text_of(node)
    for number_type in (int, float):
        try:
            return number_type(text)
        except ValueError:
            continue
    return text


@takes({"type": "string"})
def read_formula(node: Node) -> str:
    """Parse a formula. Raises BadInput."""
    text = text_of(node)
    try:
        variable_names(text)
    except FormulaError as error:
        raise node.bad(str(error)) from None
    return text


@takes({})
def read_tolerance(node: Node) -> Tolerance:
    """Parse a tolerance: 10%, 0.5, or factor 2. Raises BadInput."""
    match = re.fullmatch(r"(factor )?([0-9]+(?:\.[0-9]+)?)(%)?", text_of(node))
    if match is None or (match[1] and match[3]):
        raise node.bad_value("no tolerance (like 10%, 0.5 or factor 2)")
    size = float(match[2])
    if match[1]:
        return Tolerance("factor", size)
    return Tolerance("share", size / 100) if match[3] else Tolerance("absolute", size)


@takes({})
def read_answer(node: Node) -> tuple[str, str]:
    """Parse predictions.KEY or answers.KEY. Raises BadInput."""
    section, _, name = text_of(node).partition(".")
    if section not in SECTIONS or not NAME.fullmatch(name):
        raise node.bad_value("neither predictions.NAME nor answers.NAME")
    return section, name


DRAWN = by_name_reader(NAME, list_of(read_value, least=1), "value", "{rtt_ms: [20, 40]}", least=0)


# -- the parts of check.yaml


@dataclass(frozen=True)
class RunMetric:
    """A metric of one of the student's runs, computed from its raw records."""

    figure: str = key(text_of, "one of gostlab.classroom.raw_metrics.FIGURES")
    of: Mapping[str, str] = key(
        TEXTS_BY_NAME, "the run: its matrix, and levels, <formulas> filled", default={}
    )
    flow: str | None = key(text_of, "of this flow alone", default=None)
    take: str = key(one_of("one", "median", "least", "most"), "of several runs", default="one")
    own: bool = key(yes_no, "of the student's own runs", default=False)


@dataclass(frozen=True)
class Point:
    """A part of a lab that earns points: an answer near the expected one, or a metric in a band."""

    name: str = key(text_of, "stays the same for ever: gradebooks know it")
    points: int = key(whole_number(1, 100), "how many")
    says: str = key(text_of, "what is asked, in a sentence; <formulas> are filled in")
    source: str = key(text_of, "where the number comes from", named="from")
    answer: tuple[str, str] | None = key(read_answer, "section and key in it", default=None)
    expect: str | None = key(read_formula, "of an answer: what it should be", default=None)
    also: tuple[str, ...] = key(
        list_of(read_formula),
        "what is right as well: the run's own value, a better formula, and all between them",
        default=(),
    )
    within: Tolerance | None = key(
        read_tolerance, "how near; without it a word, the same or not", default=None
    )
    got: str | None = key(read_formula, "a figure of the runs", default=None)
    least: str | None = key(read_formula, "its band", default=None)
    most: str | None = key(read_formula, "its band", default=None)
    because: str = key(text_of, "why it is so, in words; <formulas> are filled in", default="")
    by_hand: bool = key(yes_no, "a person reads it", default=False)
    scheme: tuple[str, ...] = key(
        list_of(text_of), "for who reads it: what earns a point, one line each", default=()
    )

    @property
    def is_prediction(self) -> bool:
        """Return whether the answer had to be written before the runs."""
        return self.answer is not None and self.answer[0] == "predictions"

    @property
    def formulas(self) -> tuple[str, ...]:
        """Return every formula that judges the answer or the runs."""
        written = (self.expect, *self.also, self.got, self.least, self.most)
        return tuple(formula for formula in written if formula is not None)


def check_point(node: Node, point: Point) -> None:
    """Reject a point with a missing or contradictory key. Raises BadInput."""
    if (point.answer is None) == (point.got is None):
        raise node.bad("either answer or got")
    if point.answer and not point.by_hand and point.expect is None:
        raise node.bad("an answer without expect")
    if point.got and point.least is None and point.most is None:
        raise node.bad("got without least or most")
    if point.scheme and not point.by_hand:
        raise node.bad("scheme: only for an answer that a person reads (by_hand)")
    if point.also and point.within is None:
        raise node.bad("also without within")


@dataclass(frozen=True)
class PageClaim:
    """A sentence of the lab's page about its runs, which labs/bands.py checks on many runs."""

    says: str = key(text_of, "the sentence")
    got: str = key(read_formula, "a figure of the runs")
    source: str = key(text_of, "what says so: an RFC, a paper, arithmetic", named="from")
    least: str | None = key(read_formula, "its band", default=None)
    most: str | None = key(read_formula, "its band", default=None)

    @property
    def formulas(self) -> tuple[str, ...]:
        written = (self.got, self.least, self.most)
        return tuple(formula for formula in written if formula is not None)


@dataclass(frozen=True)
class OwnExperiment:
    """The experiment that a student writes, with the runs that it must have."""

    file: str = key(text_of, "the student's experiment")
    reference: str = key(text_of, "the experiment beside check.yaml that it must be")
    sets: Mapping[str, str] = key(TEXTS_BY_NAME, "its settings, with <formulas>")


@dataclass(frozen=True)
class RankingRules:
    """A ranking of students' congestion controls, over paths that a course's secret draws."""

    file: str = key(text_of, "the student's C file")
    start: str = key(text_of, "the file of the checkout that it begins as")
    experiment: str = key(text_of, "the experiment beside check.yaml")
    flow: str = key(text_of, "which of its flows has the student's")
    paths: int = key(whole_number(1, 40), "how many are drawn")
    drawn: Mapping[str, tuple[Value, ...]] = key(
        DRAWN, "of each path a value of each list", named="draw"
    )
    sets: Mapping[str, str] = key(TEXTS_BY_NAME, "settings of a path, with <formulas>")
    beside: tuple[str, ...] = key(
        list_of(text_of), "congestion controls to compare with, which have no rank", default=()
    )


@dataclass(frozen=True)
class CourseLab:
    number: int = key(whole_number(0, 99), "its number", named="lab")
    title: str = key(text_of, "its title")
    goals: tuple[str, ...] = key(list_of(text_of, least=1), "what a student can do then")
    minutes: float = key(NUMBER, "wall time of its runs on two cores")
    drawn: Mapping[str, tuple[Value, ...]] = key(DRAWN, "a value of each list", named="draw")
    hidden: tuple[str, ...] = key(
        list_of(text_of), "drawn values that the student is to find out", default=()
    )
    sets: Mapping[str, str] = key(TEXTS_BY_NAME, "settings of the experiment, with <formulas>")
    verdicts: tuple[str, ...] = key(
        list_of(one_of("ok", "degraded"), least=1), "of its runs", default=("ok",)
    )
    own: OwnExperiment | None = key(
        record_reader(OwnExperiment), "the student's own runs", default=None
    )
    measured: Mapping[str, RunMetric] = key(
        by_name_reader(
            NAME, record_reader(RunMetric), "value", "{got: {figure: goodput_mbit}}", least=0
        ),
        "figures of the runs",
        default={},
    )
    rank: RankingRules | None = key(
        record_reader(RankingRules), "how congestion controls are ranked", default=None
    )
    claims: tuple[PageClaim, ...] = key(
        list_of(record_reader(PageClaim)),
        "what the page claims of the runs; earns nothing",
        default=(),
    )
    points: tuple[Point, ...] = key(
        list_of(record_reader(Point, check_point), least=1), "what earns them"
    )
    folder: Path = Path()

    @property
    def name(self) -> str:
        return self.folder.resolve().name

    @property
    def is_own(self) -> bool:
        """Return whether it is a teacher's lab and not one that comes with gostlab."""
        return self.folder.resolve().parent != LABS.resolve()

    @property
    def command_word(self) -> str:
        """Return the lab's name on the command line."""
        return str(self.folder) if self.is_own else str(self.number)

    @property
    def experiment_path(self) -> Path:
        return self.folder / EXPERIMENT

    @property
    def most(self) -> int:
        """Return the number of points that the grader can give."""
        return sum(point.points for point in self.points if not point.by_hand)

    @property
    def points_with_texts(self) -> int:
        """Return the number of points with those of the answers that a person reads."""
        return sum(point.points for point in self.points)

    def keys(self, section: str) -> tuple[str, ...]:
        """Return the keys that a section of answers.yaml must have."""
        return tuple(
            point.answer[1] for point in self.points if point.answer and point.answer[0] == section
        )


def check_names(node: Node, lab: CourseLab) -> None:
    """Reject formulas with unknown names, and point names that occur twice. Raises BadInput."""
    known = {*lab.drawn, *lab.measured}
    seen: set[str] = set()
    nodes = mapping_of(node)["points"].items or ()
    for point, point_node in zip(lab.points, nodes, strict=True):
        if point.name in seen:
            raise point_node.bad(f"{point.name} is there twice")
        seen.add(point.name)
        for text in (*point.formulas, *FORMULA_IN_TEXT.findall(point.because)):
            unknown = variable_names(text) - known
            if unknown:
                name = sorted(unknown)[0]
                raise point_node.bad(
                    f"{point.name}: {name}: neither drawn nor measured"
                    f" ({suggest_name(name, known)})"
                )
    for claim in lab.claims:
        unknown = {name for text in claim.formulas for name in variable_names(text)} - known
        if unknown:
            name = sorted(unknown)[0]
            raise node.bad(
                f"claims: {name}: neither drawn nor measured ({suggest_name(name, known)})"
            )


READ_LAB = record_reader(CourseLab, check_names)


def reject_placeholders(folder: Path) -> None:
    """Reject a lab with text that `./lab new lab` left to be written. Raises BadInput."""
    for path in sorted(folder.iterdir()):
        if path.suffix in (".md", ".yaml") and path.is_file():
            text = load_text(path, MAX_BYTES)
            for number, line in enumerate(text.splitlines(), 1):
                if match := TO_FILL.search(line):
                    raise BadInput(f"{path}:{number}: still to be written: {match[1]}")


@contextmanager
def formula_errors(lab: CourseLab) -> Iterator[None]:
    """Convert a formula without a value into an error of the lab, BadInput."""
    try:
        yield
    except FormulaError as error:
        raise BadInput(f"{lab.folder}: {error}") from None


def load_lab(word: str) -> CourseLab:
    """Read a lab by its number, name or folder. Raises BadInput."""
    folder = find_lab(word)
    reject_placeholders(folder)
    return replace(READ_LAB(load_document(folder / CHECKS)), folder=folder)


def list_labs() -> list[Path]:
    """Return the folders of the labs that come with gostlab, in order."""
    return sorted((path.parent for path in LABS.glob(f"*/{CHECKS}")), key=lambda path: path.name)


def find_lab(word: str) -> Path:
    """Return the folder of a number, a name, labs/NUMBER or a path. Raises BadInput."""
    path = Path(word)
    if (path / CHECKS).is_file():
        return path
    wanted = path.name.lower()
    known = {folder.name: folder for folder in list_labs()}
    for name, folder in known.items():
        number, _, rest = name.partition("-")
        if wanted in (name, number, rest):
            return folder
    raise BadInput(f"lab {word!r:.80}: there is no such lab ({suggest_name(wanted, known)})")
