"""What an experiment's file says about its runs: title, question, and the numbers that the study
which it repeats has published.

The file is the copy that is kept with the results. What it publishes is read as it is written, into
gostlab.spec's own `Published`; here is what such an entry means for a run.
"""

import math
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import cache
from itertools import product
from pathlib import Path
from types import MappingProxyType
from typing import Any

from gostlab.analysis.load.json_safe import Scalar, flatten, printable
from gostlab.analysis.load.run_folder import RunFolder
from gostlab.analysis.load.run_json import question
from gostlab.registry.congestion_controls import welcoming_strangers
from gostlab.registry.folders import EXPERIMENTS
from gostlab.results import EXPERIMENT_FILE
from gostlab.spec.expand import expand
from gostlab.spec.experiment import ExperimentFile, Published, load_experiment, with_repetitions
from gostlab.spec.yaml_source import BadInput, find_document

# Without a band of its own, a value agrees within this; a count of what is rare within a factor.
TOLERANCE = 0.10
FACTORS = MappingProxyType({"retr": 1.5})


@dataclass(frozen=True)
class Claim:
    """One figure that a study publishes of a cell: a value, a band, or both."""

    figure: str  # a figure of merit, by name
    value: float | None
    least: float | None = None
    most: float | None = None
    flow: str | None = None  # None: of the run as a whole
    versus: str | None = None  # ratio: the congestion control to divide by

    @property
    def band(self) -> tuple[float, float]:
        """From where to where a figure agrees."""
        low, high = self.least, self.most
        if low is None and high is None and self.value is not None:
            factor = FACTORS.get(self.figure)
            ends = (1 / factor, factor) if factor else (1 - TOLERANCE, 1 + TOLERANCE)
            low, high = sorted(self.value * end for end in ends)
        return -math.inf if low is None else low, math.inf if high is None else high

    def holds(self, got: float) -> bool:
        low, high = self.band
        return low <= got <= high

    @property
    def sentence(self) -> str:
        """The same for people: "4 to 11", "144 ± 10 %", "63 (a factor of 1.5)", "0.9 (at least
        0.75)".
        """
        value, low, high = (
            None if each is None else f"{each:,.6g}" for each in (self.value, self.least, self.most)
        )
        if low is None and high is None:
            factor = FACTORS.get(self.figure)
            within = f" (a factor of {factor:g})" if factor else f" ± {100 * TOLERANCE:.0f}\u00a0%"
            return "" if value is None else f"{value}{within}"
        band = f"at least {low}" if high is None else f"at most {high}"
        if low is not None and high is not None:
            band = f"{low} to {high}"
        return band if value is None else f"{value} ({band})"


def claims_of(published: Published) -> tuple[Claim, ...]:
    """Everything that an entry of `published` says, figure by figure."""
    if published.figure is not None:
        whole = ("figure", "value", "least", "most", "flow", "versus")
        return (Claim(**{name: getattr(published, name) for name in whole}),)
    numbers = (("goodput_mbit", published.goodput_mbit), ("retr", published.retr))
    return tuple(Claim(figure, value) for figure, value in numbers if value is not None)


def is_about(published: Published, run: RunFolder, *, any_matrix: bool = False) -> bool:
    """Whether a run is an attempt at what a study published."""
    if published.matrix not in (None, run.matrix) and not any_matrix:
        return False
    levels = {**dict(run.settings), **dict(run.factors)}
    wanted = flatten(dict(published.factors))
    return all(key in levels and same(levels[key], level) for key, level in wanted)


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
    called: str = "study"  # what legends and sentences call it: "thesis"
    models: tuple[str, ...] = ()  # what its file wants beside the points; () the usual ones
    file_note: str = ""  # where the file is from, unless it is the one kept with the results

    def matrix_title(self, matrix: str) -> str:
        return dict(self.matrix_titles).get(matrix) or matrix

    def matrix_note(self, matrix: str) -> str:
        return dict(self.matrix_notes).get(matrix, "")

    def published_for(
        self, run: RunFolder, references: Mapping[str, RunFolder] = MappingProxyType({})
    ) -> Published | None:
        """The study's figure for a run's cell: of its own matrix, else of another that has the same
        levels.

        references: a run of each matrix. A figure of another matrix stands beside a run only on the
        same path.
        """
        numbers = [
            each for each in self.published if (each.goodput_mbit, each.retr) != (None, None)
        ]
        own = [each for each in numbers if is_about(each, run)]
        if own:
            own.sort(key=lambda each: -len(each.factors))
            return replace(
                own[0],
                goodput_mbit=first_of(each.goodput_mbit for each in own),
                retr=first_of(each.retr for each in own),
            )
        for each in numbers:
            reference = references.get(each.matrix or "")
            here = reference is None or on_same_path(reference, run)
            if each.factors and here and is_about(each, run, any_matrix=True):
                return each
        return None

    def published_all_for(self, run: RunFolder) -> tuple[Published, ...]:
        """Everything that the study says of a run's cell, in its own matrix."""
        return tuple(each for each in self.published if is_about(each, run))

    def matrix_draw(self, matrix: str) -> tuple[str, ...]:
        """Which figures the file wants of a matrix; empty: what its factors suggest."""
        return dict(self.matrix_draws).get(matrix, ())


def first_of(values: Iterable[Any]) -> Any:
    """The first that is known; None if none is."""
    return next((value for value in values if value is not None), None)


def on_same_path(first: RunFolder, second: RunFolder) -> bool:
    """Whether two runs cross one path the same way, whatever its rate and buffer."""
    names = ("profile", "rtt_ms", "placement", "direction", "loss_p", "jitter_ms", "ordered")

    def way(run: RunFolder) -> Any:
        buffers = [pair for pair in run.settings if pair[0].startswith("buffers")]
        return [getattr(run, name) for name in names], len(run.flows), buffers

    return bool(way(first) == way(second))


def same(first: Scalar, second: Scalar) -> bool:
    """Whether two levels are one: 16, 16.0 and "16" are."""
    return level(first) == level(second)


def level(value: Scalar) -> str:
    """A level as people write it: 16, 0.001, gost+ws."""
    return f"{value:.12g}" if isinstance(value, float) else str(value)


def load_study(name: str, results: Path | None = None) -> Study:
    """The experiment of that name, from the copy of its file in the results folder.

    Results that were made before a copy was kept are read with the file in experiments/ as it
    stands now, and those without a file at all are named after their folder; `file_note` says so in
    a line. Nothing is raised for what a file holds.
    """
    copy = None if results is None else results / name / EXPERIMENT_FILE
    if copy is not None and copy.is_file():
        try:
            with welcoming_strangers():
                return to_study(name, load_experiment(str(copy)))
        except (BadInput, OSError) as error:
            said = printable(str(error))
            note = f"{EXPERIMENT_FILE} beside these results cannot be read by this lab ({said})."
            return Study(name, name, file_note=note)
    try:
        path = find_document(name, EXPERIMENTS, "experiment")
        found = study_of(name, path, path.stat().st_mtime_ns)
        note = (
            "An older lab made these results and kept no copy of the experiment's file: titles and"
            f" the study's numbers are those of experiments/{name}.yaml as it is now."
        )
    except (BadInput, OSError):
        found = Study(name, name)
        note = f"No experiment file was kept with these results, and experiments/ has no {name}."
    return replace(found, file_note=note if results else "")


@cache
def study_of(name: str, path: Path, changed_ns: int) -> Study:
    """What a file says, as it stood then: every table of a page is of one. Raises BadInput."""
    return to_study(name, load_experiment(str(path)))


def questions(name: str, *, quick: bool = False) -> frozenset[str] | None:
    """What the runs of an experiment's full (or quick) form ask, as its file in experiments/ stands
    now, in either machine; None without a file.

    Results of an earlier file, or of one's own --set, ask something else.
    """
    try:
        path = find_document(name, EXPERIMENTS, "experiment")
        return questions_of(path, path.stat().st_mtime_ns, quick)
    except (BadInput, OSError):
        return None


@cache
def questions_of(path: Path, changed_ns: int, quick: bool) -> frozenset[str]:
    """What a file asks, as it stood then: every page wants to know. Raises BadInput, OSError."""
    found = with_repetitions(load_experiment(str(path)), 1)
    asked: set[str] = set()
    for machine, matrix in product(("sandbox", "native"), found.matrices):
        clock = None if machine == "sandbox" else "real"
        with suppress(BadInput):  # of a matrix that asks for what this machine does not have: none
            runs = expand(found, quick=quick, machine=machine, clock=clock, matrices=(matrix.name,))
            asked |= {question(run.to_json()) for run in runs}
    return frozenset(asked)


def to_study(name: str, experiment: ExperimentFile) -> Study:
    """The part of an experiment that the report uses."""
    told = {key: clean(experiment.study.get(key)) for key in ("note", "seed", "sections")}
    matrices = experiment.matrices
    return Study(
        **told,
        name=name,
        title=clean(experiment.title) or name,
        question=clean(experiment.question),
        called=clean(experiment.study.get("called")) or "study",
        models=tuple(experiment.models),
        matrix_titles=tuple((each.name, clean(each.title)) for each in matrices),
        matrix_notes=tuple((each.name, clean(each.note)) for each in matrices),
        matrix_draws=tuple((each.name, tuple(each.draw)) for each in matrices),
        published=tuple(map(of_the_run, experiment.published)),
    )


def of_the_run(published: Published) -> Published:
    """An entry with clean texts; the whole run's goodput or Retr under its own name."""
    published = replace(published, source=clean(published.source), why=clean(published.why))
    if published.flow or published.figure not in ("goodput_mbit", "retr"):
        return published
    return replace(published, **{published.figure: published.value})  # type: ignore[arg-type]


def clean(value: str | None) -> str:
    """Text of an experiment's file, fit for a page."""
    return printable(value or "").strip()
