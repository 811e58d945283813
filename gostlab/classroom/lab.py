"""A lab's folder: an experiment, a template of answers, and check.yaml, which says what is drawn
for each student, what is measured, and what earns points.
"""

import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

from gostlab.classroom.expressions import FORMULA_IN_TEXT, FormulaError, Value, names_in
from gostlab.registry.folders import LABS
from gostlab.spec.yaml_source import (
    MAX_BYTES,
    NUMBER,
    TEXTS_BY_NAME,
    BadInput,
    Node,
    by_name,
    key,
    list_of,
    load_document,
    load_text,
    mapping_of,
    meant,
    one_of,
    record,
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
    """How far a value may lie from the one that is expected."""

    kind: str  # share | absolute | factor
    size: float

    def holds(self, got: float, expected: float) -> bool:
        if self.kind == "factor":
            return got > 0 < expected and 1 / self.size <= got / expected <= self.size
        size = self.size * abs(expected) if self.kind == "share" else self.size
        return abs(got - expected) <= size * (1 + 1e-9)

    @property
    def words(self) -> str:
        if self.kind == "factor":
            return f"within a factor of {self.size:g}"
        return f"± {100 * self.size:g} %" if self.kind == "share" else f"± {self.size:g}"


# -- how check.yaml is read


@takes({})
def read_value(node: Node) -> Value:
    """A number where it looks like one, else a word. Raises BadInput."""
    text = text_of(node)
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            continue
    return text


@takes({"type": "string"})
def read_formula(node: Node) -> str:
    """A formula. Raises BadInput."""
    text = text_of(node)
    try:
        names_in(text)
    except FormulaError as error:
        raise node.bad(str(error)) from None
    return text


@takes({})
def read_tolerance(node: Node) -> Tolerance:
    """10%, 0.5, or factor 2. Raises BadInput."""
    found = re.fullmatch(r"(factor )?([0-9]+(?:\.[0-9]+)?)(%)?", text_of(node))
    if found is None or (found[1] and found[3]):
        raise node.bad_value("no tolerance (like 10%, 0.5 or factor 2)")
    size = float(found[2])
    if found[1]:
        return Tolerance("factor", size)
    return Tolerance("share", size / 100) if found[3] else Tolerance("absolute", size)


@takes({})
def read_answer(node: Node) -> tuple[str, str]:
    """predictions.KEY or answers.KEY. Raises BadInput."""
    section, _, name = text_of(node).partition(".")
    if section not in SECTIONS or not NAME.fullmatch(name):
        raise node.bad_value("neither predictions.NAME nor answers.NAME")
    return section, name


DRAWN = by_name(NAME, list_of(read_value, least=1), "value", "{rtt_ms: [20, 40]}", least=0)


# -- what is read


@dataclass(frozen=True)
class RunMetric:
    """A figure of one of the student's runs, taken from its raw records."""

    figure: str = key(text_of, "one of gostlab.classroom.raw_metrics.FIGURES")
    of: Mapping[str, str] = key(
        TEXTS_BY_NAME, "the run: its matrix, and levels, <formulas> filled", default={}
    )
    flow: str | None = key(text_of, "of this flow alone", default=None)
    take: str = key(one_of("one", "median", "least", "most"), "of several runs", default="one")
    own: bool = key(yes_no, "of the student's own runs", default=False)


@dataclass(frozen=True)
class Point:
    """One thing that earns points: an answer near what is expected, or a run's figure in a band."""

    name: str = key(text_of, "stays the same for ever: gradebooks know it")
    points: int = key(whole_number(1, 100), "how many")
    says: str = key(text_of, "what is asked, in a sentence; <formulas> are filled in")
    source: str = key(text_of, "where the number comes from", named="from")
    answer: tuple[str, str] | None = key(read_answer, "section and key in it", default=None)
    expect: str | None = key(read_formula, "of an answer: what it should be", default=None)
    within: Tolerance | None = key(
        read_tolerance, "how near; without it a word, the same or not", default=None
    )
    got: str | None = key(read_formula, "a figure of the runs", default=None)
    least: str | None = key(read_formula, "its band", default=None)
    most: str | None = key(read_formula, "its band", default=None)
    because: str = key(text_of, "why it is so, in words; <formulas> are filled in", default="")
    by_hand: bool = key(yes_no, "a person reads it", default=False)

    @property
    def is_prediction(self) -> bool:
        """Whether it had to be written before the runs."""
        return self.answer is not None and self.answer[0] == "predictions"


def check_point(node: Node, point: Point) -> None:
    """Raises BadInput."""
    if (point.answer is None) == (point.got is None):
        raise node.bad("either answer or got")
    if point.answer and not point.by_hand and point.expect is None:
        raise node.bad("an answer without expect")
    if point.got and point.least is None and point.most is None:
        raise node.bad("got without least or most")


@dataclass(frozen=True)
class Own:
    """Runs of an experiment that the student wrote: what they must be, as experiment.yaml's."""

    file: str = key(text_of, "the student's experiment")
    reference: str = key(text_of, "the experiment beside check.yaml that it must be")
    sets: Mapping[str, str] = key(TEXTS_BY_NAME, "its settings, with <formulas>")


@dataclass(frozen=True)
class Rank:
    """How students' congestion controls are ranked: over paths that a course's secret draws."""

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
    own: Own | None = key(record(Own), "the student's own runs", default=None)
    measured: Mapping[str, RunMetric] = key(
        by_name(NAME, record(RunMetric), "value", "{got: {figure: goodput_mbit}}", least=0),
        "figures of the runs",
        default={},
    )
    rank: Rank | None = key(record(Rank), "how congestion controls are ranked", default=None)
    points: tuple[Point, ...] = key(list_of(record(Point, check_point), least=1), "what earns them")
    folder: Path = Path()

    @property
    def name(self) -> str:
        return self.folder.resolve().name

    @property
    def is_own(self) -> bool:
        """Whether it is a teacher's own, and none of those that come with gostlab."""
        return self.folder.resolve().parent != LABS.resolve()

    @property
    def word(self) -> str:
        """What names it on the command line."""
        return str(self.folder) if self.is_own else str(self.number)

    @property
    def experiment_path(self) -> Path:
        return self.folder / EXPERIMENT

    @property
    def most(self) -> int:
        """The points that the grader can give."""
        return sum(point.points for point in self.points if not point.by_hand)

    def keys(self, section: str) -> tuple[str, ...]:
        """What answers.yaml must have in a section."""
        return tuple(
            point.answer[1] for point in self.points if point.answer and point.answer[0] == section
        )


def check_names(node: Node, lab: CourseLab) -> None:
    """A formula's names are drawn or measured, a point's name is its own. Raises BadInput."""
    known = {*lab.drawn, *lab.measured}
    seen: set[str] = set()
    nodes = mapping_of(node)["points"].items or ()
    for point, place in zip(lab.points, nodes, strict=True):
        if point.name in seen:
            raise place.bad(f"{point.name} is there twice")
        seen.add(point.name)
        formulas = (point.expect, point.got, point.least, point.most)
        for text in (*formulas, *FORMULA_IN_TEXT.findall(point.because)):
            unknown = names_in(text) - known if text is not None else set()
            if unknown:
                name = sorted(unknown)[0]
                raise place.bad(
                    f"{point.name}: {name}: neither drawn nor measured ({meant(name, known)})"
                )


READ_LAB = record(CourseLab, check_names)


def check_filled(folder: Path) -> None:
    """Raises BadInput for what `./lab new lab` left to be written."""
    for path in sorted(folder.iterdir()):
        if path.suffix in (".md", ".yaml") and path.is_file():
            text = load_text(path, MAX_BYTES)
            for number, line in enumerate(text.splitlines(), 1):
                if found := TO_FILL.search(line):
                    raise BadInput(f"{path}:{number}: still to be written: {found[1]}")


@contextmanager
def formulas_of(lab: CourseLab) -> Iterator[None]:
    """Make a formula without a value the lab's fault: BadInput."""
    try:
        yield
    except FormulaError as error:
        raise BadInput(f"{lab.folder}: {error}") from None


def load_lab(word: str) -> CourseLab:
    """Read a lab by its number, name or folder. Raises BadInput."""
    folder = find_lab(word)
    check_filled(folder)
    return replace(READ_LAB(load_document(folder / CHECKS)), folder=folder)


def list_labs() -> list[Path]:
    """The folders of the labs that come with gostlab, in order."""
    return sorted((path.parent for path in LABS.glob(f"*/{CHECKS}")), key=lambda path: path.name)


def find_lab(word: str) -> Path:
    """The folder that a number, a name, labs/NUMBER or a path stands for. Raises BadInput."""
    own = Path(word)
    if (own / CHECKS).is_file():
        return own
    wanted = own.name.lower()
    known = {path.name: path for path in list_labs()}
    for name, path in known.items():
        number, _, rest = name.partition("-")
        if wanted in (name, number, rest):
            return path
    raise BadInput(f"lab {word!r:.80}: there is no such lab ({meant(wanted, known)})")
