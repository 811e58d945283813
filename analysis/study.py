"""What an experiment's file says about its runs: title, question, and the study's own numbers to set beside."""
from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

from analysis.runs import Run, Scalar, flatten, is_number, printable


@dataclass(frozen=True)
class Published:
    """One figure of the study that an experiment repeats."""
    matrix: str | None
    factors: tuple[tuple[str, Scalar], ...]
    goodput_mbit: float | None
    retr: float | None
    source: str

    def is_about(self, run: Run, *, any_matrix: bool = False) -> bool:
        """Whether a run is an attempt at this figure."""
        if self.matrix not in (None, run.matrix) and not any_matrix:
            return False
        levels = {**dict(run.settings), **dict(run.factors)}
        return all(key in levels and same(levels[key], level) for key, level in self.factors)


@dataclass(frozen=True)
class Study:
    """An experiment, as the report names it."""
    name: str
    title: str
    question: str = ""
    note: str = ""
    matrix_titles: tuple[tuple[str, str], ...] = ()
    matrix_notes: tuple[tuple[str, str], ...] = ()
    published: tuple[Published, ...] = ()

    def matrix_title(self, matrix: str) -> str:
        """A matrix's title; its name where it has none."""
        return dict(self.matrix_titles).get(matrix) or matrix

    def matrix_note(self, matrix: str) -> str:
        """What the file says about a matrix."""
        return dict(self.matrix_notes).get(matrix, "")

    def published_for(self, run: Run, references: Mapping[str, Run] = MappingProxyType({})) -> Published | None:
        """The study's figure for a run's cell: of its own matrix, else of another that has the same levels.

        references: a run of each matrix. A figure of another matrix stands beside a run only on the same path.
        """
        for each in self.published:
            if each.factors and each.is_about(run):
                return each
        for each in self.published:
            reference = references.get(each.matrix or "")
            if each.factors and each.is_about(run, any_matrix=True) and (reference is None or on_same_path(reference, run)):
                return each
        return None


def on_same_path(first: Run, second: Run) -> bool:
    """Whether two runs cross one path the same way; its rate and buffer may be what a matrix varies."""
    return (first.profile, first.rtt_ms, first.placement, first.direction) == \
        (second.profile, second.rtt_ms, second.placement, second.direction)


def same(first: Scalar, second: Scalar) -> bool:
    """Whether two levels are one: 16, 16.0 and "16" are."""
    return level(first) == level(second)


def level(value: Scalar) -> str:
    """A level as people write it: 16, 0.001, gost+ws."""
    return f"{value:.12g}" if isinstance(value, float) else str(value)


def load_study(name: str) -> Study:
    """The experiment of that name. Results without a file (a user's own, since moved) are named after their folder."""
    try:
        from gostlab.document import BadInput
        from gostlab.experiment import load_experiment
    except ImportError:
        return Study(name, name)
    try:
        found = load_experiment(name)
    except (BadInput, OSError):
        return Study(name, name)
    return to_study(name, found)


def to_study(name: str, experiment: Any) -> Study:
    """The part of a gostlab.experiment.Experiment that the report uses."""
    note = part(part(experiment, "study"), "note")
    matrices = part(experiment, "matrices") or ()
    return Study(name=name, title=words(part(experiment, "title")) or name, question=words(part(experiment, "question")),
                 note=words(note),
                 matrix_titles=tuple((words(part(each, "name")), words(part(each, "title"))) for each in matrices),
                 matrix_notes=tuple((words(part(each, "name")), words(part(each, "note"))) for each in matrices),
                 published=tuple(to_published(each) for each in part(experiment, "published") or ()))


def to_published(entry: Any) -> Published:
    """One entry of `published`."""
    numbers = {key: float(part(entry, key)) if is_number(part(entry, key)) else None
               for key in ("goodput_mbit", "retr")}
    return Published(matrix=words(part(entry, "matrix")) or None, factors=flatten(dict(part(entry, "factors") or {})),
                     goodput_mbit=numbers["goodput_mbit"], retr=numbers["retr"], source=words(part(entry, "source")))


def part(holder: Any, name: str) -> Any:
    """A part of a mapping or of a dataclass; None where it has none."""
    return holder.get(name) if isinstance(holder, Mapping) else getattr(holder, name, None)


def words(value: object) -> str:
    """Text of an experiment's file."""
    return printable(str(value)).strip() if value is not None else ""
