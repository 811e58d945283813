"""A lab's folder: an experiment, a template of answers, and check.yaml, which says what is drawn
for each student, what is measured, and what earns points.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from gostlab.ask.document import (
    BadInput,
    Field,
    Node,
    Reader,
    list_of,
    load_document,
    mapping,
    mapping_of,
    meant,
    one_of,
    read_mapping,
    text_of,
    whole,
    yes_no,
)
from gostlab.course.formula import FormulaError, Value, names_in

FOLDER = Path(__file__).resolve().parents[2] / "labs"
CHECKS, EXPERIMENT, ANSWERS, GUIDE = "check.yaml", "experiment.yaml", "answers.yaml", "README.md"
SECTIONS = ("predictions", "answers")
NAME = re.compile(r"[a-z][a-z0-9_]{0,40}")


@dataclass(frozen=True)
class Measured:
    """A figure of one of the student's runs, taken from its raw records."""

    figure: str  # one of gostlab.course.evidence.FIGURES
    of: Mapping[str, str]  # the run: its matrix, and levels as people write them, <formulas> filled
    flow: str | None  # of this flow alone
    take: str  # one run, or of several: median, least, most
    own: bool  # of the student's own runs


@dataclass(frozen=True)
class Tolerance:
    """How far a value may lie from the one that is expected."""

    kind: str  # share | absolute | factor
    size: float

    def holds(self, got: float, expected: float) -> bool:
        """Whether a value is near enough."""
        if self.kind == "factor":
            return got > 0 < expected and 1 / self.size <= got / expected <= self.size
        return abs(got - expected) <= (
            self.size * abs(expected) if self.kind == "share" else self.size
        ) * (1 + 1e-9)

    @property
    def words(self) -> str:
        """For people."""
        if self.kind == "share":
            return f"± {100 * self.size:g} %"
        return (
            f"± {self.size:g}" if self.kind == "absolute" else f"within a factor of {self.size:g}"
        )


@dataclass(frozen=True)
class Point:
    """One thing that earns points: an answer near what is expected, or a run's figure in a band."""

    name: str
    points: int
    says: str  # what is asked, in a sentence; <formulas> are filled in
    source: str  # where the number comes from
    answer: tuple[str, str] | None  # section and key in answers.yaml
    expect: str | None  # a formula: of the answer
    within: Tolerance | None  # None: a word, the same or not
    got: str | None  # a formula: of the run
    least: str | None
    most: str | None
    by_hand: bool = False

    @property
    def is_prediction(self) -> bool:
        """Whether it had to be written before the runs."""
        return self.answer is not None and self.answer[0] == "predictions"


@dataclass(frozen=True)
class Own:
    """Runs of an experiment that the student wrote: what they must be, as experiment.yaml's."""

    file: str
    reference: str  # the experiment beside check.yaml that describes them
    sets: Mapping[str, str]  # its settings


@dataclass(frozen=True)
class Lab:
    """A lab's folder, read."""

    number: int
    name: str  # as its folder
    title: str
    goals: tuple[str, ...]
    minutes: float  # that its runs take on two cores
    folder: Path
    drawn: Mapping[str, tuple[Value, ...]]
    hidden: tuple[str, ...]  # of those, what the student is to find out
    sets: Mapping[str, str]
    verdicts: tuple[str, ...]
    measured: Mapping[str, Measured]
    points: tuple[Point, ...]
    own: Own | None
    waits_for: str

    @property
    def experiment_path(self) -> Path:
        """What is run."""
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


def list_labs() -> list[Path]:
    """The folders of the labs that come with gostlab, in order."""
    return sorted((path.parent for path in FOLDER.glob(f"*/{CHECKS}")), key=lambda path: path.name)


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


def load_lab(word: str) -> Lab:
    """Read a lab by its number, name or folder. Raises BadInput."""
    folder = find_lab(word)
    node = load_document(folder / CHECKS)
    values = read_mapping(node, LAB_FIELDS)
    lab = Lab(
        number=values["lab"],
        name=folder.resolve().name,
        title=values["title"],
        goals=values["goals"],
        minutes=float(values["minutes"]),
        folder=folder,
        drawn=values["draw"],
        hidden=values["hidden"],
        sets=values["sets"],
        verdicts=values["verdicts"],
        measured=values["measured"],
        points=values["points"],
        own=values["own"],
        waits_for=values["waits_for"],
    )
    check_names(lab, node)
    return lab


def check_names(lab: Lab, node: Node) -> None:
    """Every formula's names must be drawn or measured, every point's name its own. Raises
    BadInput.
    """
    known = {*lab.drawn, *lab.measured}
    seen: set[str] = set()
    for point in lab.points:
        if point.name in seen:
            raise node.bad(f"points: {point.name} is there twice")
        seen.add(point.name)
        for text in (point.expect, point.got, point.least, point.most):
            unknown = names_in(text) - known if text is not None else set()
            if unknown:
                raise node.bad(
                    f"points: {point.name}: {meant(sorted(unknown)[0], known)}: neither drawn nor"
                    " measured"
                )


# -- how check.yaml is read


def read_value(node: Node) -> Value:
    """A number where it looks like one, else a word. Raises BadInput."""
    text = text_of(node)
    try:
        return int(text)
    except ValueError:
        pass
    try:
        return float(text)
    except ValueError:
        return text


def read_formula(node: Node) -> str:
    """A formula. Raises BadInput."""
    text = text_of(node)
    try:
        names_in(text)
    except FormulaError as error:
        raise node.bad(str(error)) from None
    return text


def read_tolerance(node: Node) -> Tolerance:
    """10%, 0.5, or factor 2. Raises BadInput."""
    text = text_of(node)
    found = re.fullmatch(r"(factor )?([0-9]+(?:\.[0-9]+)?)(%)?", text)
    if found is None or (found[1] and found[3]):
        raise node.bad_value("no tolerance (like 10%, 0.5 or factor 2)")
    size = float(found[2])
    if found[1]:
        return Tolerance("factor", size)
    return Tolerance("share", size / 100) if found[3] else Tolerance("absolute", size)


def read_answer(node: Node) -> tuple[str, str]:
    """predictions.KEY or answers.KEY. Raises BadInput."""
    section, _, key = text_of(node).partition(".")
    if section not in SECTIONS or not NAME.fullmatch(key):
        raise node.bad_value("neither predictions.NAME nor answers.NAME")
    return section, key


def read_point(node: Node, values: dict[str, Any]) -> Point:
    """One entry of `points`. Raises BadInput."""
    source = values.pop("from")
    point = Point(**values, source=source)
    if (point.answer is None) == (point.got is None):
        raise node.bad("either answer or got")
    if point.answer and not point.by_hand and point.expect is None:
        raise node.bad("an answer without expect")
    if point.got and point.least is None and point.most is None:
        raise node.bad("got without least or most")
    return point


def texts(node: Node) -> dict[str, str]:
    """A mapping of texts. Raises BadInput."""
    return {name: text_of(each) for name, each in mapping_of(node).items()}


def by_name(read: Reader[Any]) -> Reader[Any]:
    """Reads a mapping of names to one kind of value."""

    def read_all(node: Node) -> dict[str, Any]:
        for name in mapping_of(node):
            if not NAME.fullmatch(name):
                raise node.bad(f"{name}: no name for a value (small letters, digits and _)")
        return {name: read(each) for name, each in mapping_of(node).items()}

    return Reader(read_all, {"type": "object"})


VALUE, FORMULA = Reader(read_value, {}), Reader(read_formula, {"type": "string"})
TEXTS = Reader(texts, {"type": "object"})
MEASURED_FIELDS = {
    "figure": Field(text_of, required=True, says="which figure"),
    "of": Field(TEXTS, default={}, says="of which run: matrix, and levels"),
    "flow": Field(text_of, says="of which flow"),
    "take": Field(one_of("one", "median", "least", "most"), default="one", says="of several runs"),
    "own": Field(yes_no, default=False, says="of the student's own runs"),
}
POINT_FIELDS = {
    "name": Field(text_of, required=True, says="stays the same for ever: gradebooks know it"),
    "points": Field(whole(1, 100), required=True, says="how many"),
    "says": Field(text_of, required=True, says="what is asked"),
    "from": Field(text_of, required=True, says="where the number comes from"),
    "answer": Field(Reader(read_answer, {}), says="the student's, in answers.yaml"),
    "expect": Field(FORMULA, says="what it should be"),
    "within": Field(Reader(read_tolerance, {}), says="how near"),
    "got": Field(FORMULA, says="a figure of the runs"),
    "least": Field(FORMULA, says="its band"),
    "most": Field(FORMULA, says="its band"),
    "by_hand": Field(yes_no, default=False, says="a person reads it"),
}
OWN_FIELDS = {
    "file": Field(text_of, required=True, says="the student's experiment"),
    "reference": Field(text_of, required=True, says="the experiment that it must be"),
    "sets": Field(TEXTS, required=True, says="its settings, with <formulas>"),
}
LAB_FIELDS = {
    "lab": Field(whole(0, 99), required=True, says="its number"),
    "title": Field(text_of, required=True, says="its title"),
    "goals": Field(list_of(text_of, least=1), required=True, says="what a student can do then"),
    "minutes": Field(VALUE, required=True, says="wall time of its runs on two cores"),
    "waits_for": Field(text_of, default="", says="what it will have and has not yet"),
    "draw": Field(by_name(list_of(VALUE, least=1)), required=True, says="a value of each list"),
    "hidden": Field(list_of(text_of), default=(), says="drawn values that nobody tells a student"),
    "sets": Field(TEXTS, required=True, says="settings of the experiment, with <formulas>"),
    "verdicts": Field(
        list_of(one_of("ok", "degraded"), least=1), default=("ok",), says="of its runs"
    ),
    "own": Field(
        mapping(OWN_FIELDS, lambda _node, values: Own(**values)), says="the student's own runs"
    ),
    "measured": Field(
        by_name(mapping(MEASURED_FIELDS, lambda _node, values: Measured(**values))),
        default={},
        says="figures of the runs, by name",
    ),
    "points": Field(
        list_of(mapping(POINT_FIELDS, read_point), least=1), required=True, says="what earns points"
    ),
}
