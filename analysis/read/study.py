"""What an experiment's file says about its runs: title, question, and the study's own numbers to
set beside.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Any

from analysis.read.description import question
from analysis.read.folder import Run
from analysis.read.values import Scalar, flatten, printable
from gostlab.results import is_number

# What a study may have published of a cell, and what a reader calls it.
PUBLISHED_FIGURES: Mapping[str, str] = MappingProxyType(
    {
        "goodput_mbit": "goodput (Mbit/s)",
        "retr": "retransmissions (iperf3's Retr)",
        "window_pkts": "mean window (packets)",
        "convergence_s": "time to converge (s)",
        "jain": "Jain's index",
        "ratio": "goodput, ratio",
        "total_mbit": "all flows together (Mbit/s)",
        "share": "share of the sum",
        "goodput_best3": "goodput, mean of the fastest three (Mbit/s)",
    }
)
# Without a band of its own, a value agrees within this.
TOLERANCE = 0.10


@dataclass(frozen=True)
class Asked:
    """What a lab's figure is held against: a value, a band, or both."""

    figure: str  # one of PUBLISHED_FIGURES
    value: float | None
    least: float | None = None
    most: float | None = None
    flow: str | None = None  # None: of the run as a whole
    versus: str | None = None  # ratio: the congestion control to divide by

    @property
    def band(self) -> tuple[float, float]:
        """From where to where a figure agrees."""
        if self.least is not None or self.most is not None:
            return (
                -math.inf if self.least is None else self.least,
                math.inf if self.most is None else self.most,
            )
        if self.value is None:
            return -math.inf, math.inf
        return tuple(sorted((self.value * (1 - TOLERANCE), self.value * (1 + TOLERANCE))))  # type: ignore[return-value]

    def holds(self, got: float) -> bool:
        """Whether a figure agrees."""
        low, high = self.band
        return low <= got <= high

    @property
    def words(self) -> str:
        """The same for people: "4 to 11", "144 ± 10 %", "0.9 (at least 0.75)"."""
        if self.least is None and self.most is None:
            return (
                f"{self.value:,.6g} ± {100 * TOLERANCE:.0f}\u00a0%"
                if self.value is not None
                else ""
            )
        if self.least is not None and self.most is not None:
            band = f"{self.least:,.6g} to {self.most:,.6g}"
        else:
            band = (
                f"at least {self.least:,.6g}"
                if self.least is not None
                else f"at most {self.most:,.6g}"
            )
        return band if self.value is None else f"{self.value:,.6g} ({band})"

    @property
    def figure_words(self) -> str:
        """The figure's name for people."""
        said = PUBLISHED_FIGURES.get(self.figure, self.figure)
        if self.figure == "ratio" and self.versus:
            said = f"goodput / that of {self.versus}"
        return f"{said}, {self.flow}" if self.flow else said


@dataclass(frozen=True)
class Published:
    """What the study that an experiment repeats says of a cell: goodput, iperf3's Retr, or a figure
    of any kind.
    """

    matrix: str | None
    factors: tuple[tuple[str, Scalar], ...]
    goodput_mbit: float | None
    retr: float | None
    source: str
    figure: str | None = None  # one of PUBLISHED_FIGURES; None: goodput_mbit and retr say it
    value: float | None = None
    least: float | None = None  # the band in which the lab's figure agrees
    most: float | None = None
    flow: str | None = None
    versus: str | None = None
    why: str = ""  # why study and lab differ, where somebody found out

    @property
    def asked(self) -> tuple[Asked, ...]:
        """Everything that it says, one by one."""
        if self.figure is not None:
            return (Asked(self.figure, self.value, self.least, self.most, self.flow, self.versus),)
        return tuple(
            Asked(figure, value)
            for figure, value in (("goodput_mbit", self.goodput_mbit), ("retr", self.retr))
            if value is not None
        )

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
    matrix_draws: tuple[tuple[str, tuple[str, ...]], ...] = ()
    seed: str = ""  # the document that the experiment repeats
    sections: str = ""

    def matrix_title(self, matrix: str) -> str:
        """A matrix's title; its name where it has none."""
        return dict(self.matrix_titles).get(matrix) or matrix

    def matrix_note(self, matrix: str) -> str:
        """What the file says about a matrix."""
        return dict(self.matrix_notes).get(matrix, "")

    def published_for(
        self, run: Run, references: Mapping[str, Run] = MappingProxyType({})
    ) -> Published | None:
        """The study's figure for a run's cell: of its own matrix, else of another that has the same
        levels.

        references: a run of each matrix. A figure of another matrix stands beside a run only on the
        same path.
        """
        numbers = [
            each
            for each in self.published
            if each.goodput_mbit is not None or each.retr is not None
        ]
        own = sorted(
            (each for each in numbers if each.is_about(run)), key=lambda each: -len(each.factors)
        )
        if own:
            return replace(
                own[0],
                goodput_mbit=next(
                    (each.goodput_mbit for each in own if each.goodput_mbit is not None), None
                ),
                retr=next((each.retr for each in own if each.retr is not None), None),
            )
        for each in numbers:
            reference = references.get(each.matrix or "")
            if (
                each.factors
                and each.is_about(run, any_matrix=True)
                and (reference is None or on_same_path(reference, run))
            ):
                return each
        return None

    def published_all_for(self, run: Run) -> tuple[Published, ...]:
        """Everything that the study says of a run's cell, in its own matrix."""
        return tuple(each for each in self.published if each.is_about(run))

    def matrix_draw(self, matrix: str) -> tuple[str, ...]:
        """Which figures the file wants of a matrix; empty: what its factors suggest."""
        return dict(self.matrix_draws).get(matrix, ())


def on_same_path(first: Run, second: Run) -> bool:
    """Whether two runs cross one path the same way; its rate and buffer may be what a matrix
    varies.
    """

    def way(run: Run) -> Any:
        buffers = tuple(pair for pair in run.settings if pair[0].startswith("buffers"))
        return (
            run.profile,
            run.rtt_ms,
            run.placement,
            run.direction,
            run.loss_p,
            run.jitter_ms,
            run.ordered,
            len(run.flows),
            buffers,
        )

    return bool(way(first) == way(second))


def same(first: Scalar, second: Scalar) -> bool:
    """Whether two levels are one: 16, 16.0 and "16" are."""
    return level(first) == level(second)


def level(value: Scalar) -> str:
    """A level as people write it: 16, 0.001, gost+ws."""
    return f"{value:.12g}" if isinstance(value, float) else str(value)


def load_study(name: str) -> Study:
    """The experiment of that name. Results without a file (a user's own, since moved) are named
    after their folder.
    """
    try:
        from gostlab.ask.document import BadInput
        from gostlab.ask.experiment import load_experiment
    except ImportError:
        return Study(name, name)
    try:
        found = load_experiment(name)
    except (BadInput, OSError):
        return Study(name, name)
    return to_study(name, found)


def questions(name: str, *, quick: bool = False) -> frozenset[str] | None:
    """What the runs of an experiment's full (or quick) form ask, as its file stands now, in either
    machine; None without a file.

    Results of an earlier file, or of one's own --set, ask something else.
    """
    try:
        from gostlab.ask.document import BadInput
        from gostlab.ask.experiment import load_experiment
        from gostlab.ask.resolve import expand
    except ImportError:
        return None
    try:
        found = load_experiment(name)
    except (BadInput, OSError):
        return None
    return frozenset(
        question(run.to_json())
        for machine in ("sandbox", "native")
        for run in expand(
            found, quick=quick, machine=machine, clock=None if machine == "sandbox" else "real"
        )
    )


def to_study(name: str, experiment: Any) -> Study:
    """The part of a gostlab.ask.experiment.Experiment that the report uses."""
    source = part(experiment, "study")
    matrices = part(experiment, "matrices") or ()
    return Study(
        name=name,
        title=words(part(experiment, "title")) or name,
        question=words(part(experiment, "question")),
        note=words(part(source, "note")),
        seed=words(part(source, "seed")),
        sections=words(part(source, "sections")),
        matrix_titles=tuple(
            (words(part(each, "name")), words(part(each, "title"))) for each in matrices
        ),
        matrix_notes=tuple(
            (words(part(each, "name")), words(part(each, "note"))) for each in matrices
        ),
        matrix_draws=tuple(
            (words(part(each, "name")), to_draw(part(each, "draw"))) for each in matrices
        ),
        published=tuple(to_published(each) for each in part(experiment, "published") or ()),
    )


def to_draw(named: Any) -> tuple[str, ...]:
    """The words of a matrix's `draw`."""
    return (words(named),) if isinstance(named, str) else tuple(words(each) for each in named or ())


def to_published(entry: Any) -> Published:
    """One entry of `published`. A goodput or Retr of the whole run is that, however it is
    written.
    """
    numbers = {
        key: float(part(entry, key)) if is_number(part(entry, key)) else None
        for key in ("goodput_mbit", "retr", "value", "least", "most")
    }
    named = {key: words(part(entry, key)) or None for key in ("figure", "flow", "versus")}
    if named["figure"] in ("goodput_mbit", "retr") and not named["flow"]:
        numbers[named["figure"]] = numbers["value"]
    return Published(
        matrix=words(part(entry, "matrix")) or None,
        factors=flatten(dict(part(entry, "factors") or {})),
        source=words(part(entry, "source")),
        why=words(part(entry, "why")),
        **named,  # type: ignore[arg-type]
        **numbers,  # type: ignore[arg-type]
    )


def part(holder: Any, name: str) -> Any:
    """A part of a mapping or of a dataclass; None where it has none."""
    return holder.get(name) if isinstance(holder, Mapping) else getattr(holder, name, None)


def words(value: object) -> str:
    """Text of an experiment's file."""
    return printable(str(value)).strip() if value is not None else ""
