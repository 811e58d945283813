# SPDX-License-Identifier: MIT
"""Read an experiment's file for its report: title, question, published values.

The report uses the copy of the file in the results folder. Published entries are parsed to
gostlab.spec.Published; this module applies them to runs.
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

from gostlab.analysis.load.run_folder import RunFolder
from gostlab.analysis.load.run_json import question_key
from gostlab.analysis.load.untrusted_json import Scalar, flatten
from gostlab.registry.congestion_controls import accept_unknown_controls
from gostlab.registry.folders import EXPERIMENTS
from gostlab.results import EXPERIMENT_FILE
from gostlab.spec.expand import expand
from gostlab.spec.expectations import Expectation
from gostlab.spec.experiment import ExperimentFile, Published, load_experiment, with_repetitions
from gostlab.spec.yaml_source import BadInput, find_document
from gostlab.text_safety import replace_controls

# Default bands of published values: a relative tolerance, or a factor for counts of rare events.
TOLERANCE = 0.10
TOLERANCE_FACTORS = MappingProxyType({"retr": 1.5})


@dataclass(frozen=True)
class PublishedClaim:
    """A published value, a band, or both, of one metric of a cell."""

    figure: str  # name of a metric
    value: float | None
    least: float | None = None
    most: float | None = None
    flow: str | None = None  # None: the whole run
    versus: str | None = None  # ratio: the congestion control to divide by

    @property
    def band(self) -> tuple[float, float]:
        """Return the lower and upper end of the agreeing values."""
        low, high = self.least, self.most
        if low is None and high is None and self.value is not None:
            factor = TOLERANCE_FACTORS.get(self.figure)
            ends = (1 / factor, factor) if factor else (1 - TOLERANCE, 1 + TOLERANCE)
            low, high = sorted(self.value * end for end in ends)
        return -math.inf if low is None else low, math.inf if high is None else high

    def holds(self, measured: float) -> bool:
        low, high = self.band
        return low <= measured <= high

    @property
    def sentence(self) -> str:
        """Format the value and band: "4 to 11", "144 ± 10 %", "0.9 (at least 0.75)"."""
        value, low, high = (
            None if bound is None else f"{bound:,.6g}"
            for bound in (self.value, self.least, self.most)
        )
        if low is None and high is None:
            factor = TOLERANCE_FACTORS.get(self.figure)
            within = f" (a factor of {factor:g})" if factor else f" ± {100 * TOLERANCE:.0f}\u00a0%"
            return "" if value is None else f"{value}{within}"
        band = f"at least {low}" if high is None else f"at most {high}"
        if low is not None and high is not None:
            band = f"{low} to {high}"
        return band if value is None else f"{value} ({band})"


def claims_of(published: Published) -> tuple[PublishedClaim, ...]:
    """Return the claims of a `published` entry, one per metric."""
    if published.figure is not None:
        fields = ("figure", "value", "least", "most", "flow", "versus")
        return (PublishedClaim(**{name: getattr(published, name) for name in fields}),)
    numbers = (("goodput_mbit", published.goodput_mbit), ("retr", published.retr))
    return tuple(PublishedClaim(figure, value) for figure, value in numbers if value is not None)


def applies_to_run(published: Published, run: RunFolder, *, any_matrix: bool = False) -> bool:
    """Return whether a published entry applies to a run."""
    if published.matrix not in (None, run.matrix) and not any_matrix:
        return False
    run_levels = {**dict(run.settings), **dict(run.factors)}
    requested = flatten(dict(published.factors))
    return all(
        key in run_levels and levels_equal(run_levels[key], level) for key, level in requested
    )


@dataclass(frozen=True)
class Study:
    """An experiment as presented by the report."""

    name: str
    title: str
    question: str = ""
    note: str = ""
    matrix_titles: tuple[tuple[str, str], ...] = ()
    matrix_notes: tuple[tuple[str, str], ...] = ()
    published: tuple[Published, ...] = ()
    matrix_draws: tuple[tuple[str, tuple[str, ...]], ...] = ()
    seed: str = ""  # the source document
    sections: str = ""
    called: str = "study"  # name in legends and sentences: "thesis"
    models: tuple[str, ...] = ()  # models to plot; () for the defaults
    matrix_expectations: tuple[tuple[str, tuple[Expectation, ...]], ...] = ()
    file_note: str = ""  # origin of the file if it is not the saved copy

    def matrix_title(self, matrix: str) -> str:
        return dict(self.matrix_titles).get(matrix) or matrix

    def matrix_note(self, matrix: str) -> str:
        return dict(self.matrix_notes).get(matrix, "")

    def published_for(
        self, run: RunFolder, references: Mapping[str, RunFolder] = MappingProxyType({})
    ) -> Published | None:
        """Return the published values of a run's cell.

        Entries for the run's matrix take precedence over those of another matrix with the same
        levels. references: a run of each matrix; a value of another matrix is used only if both
        runs have the same path.
        """
        numbers = [
            entry for entry in self.published if (entry.goodput_mbit, entry.retr) != (None, None)
        ]
        matching = [entry for entry in numbers if applies_to_run(entry, run)]
        if matching:
            matching.sort(key=lambda entry: -len(entry.factors))
            return replace(
                matching[0],
                goodput_mbit=first_known(entry.goodput_mbit for entry in matching),
                retr=first_known(entry.retr for entry in matching),
            )
        for entry in numbers:
            reference = references.get(entry.matrix or "")
            here = reference is None or have_same_path_but_rate(reference, run)
            if entry.factors and here and applies_to_run(entry, run, any_matrix=True):
                return entry
        return None

    def published_all_for(self, run: RunFolder) -> tuple[Published, ...]:
        """Return all published entries of a run's cell in its own matrix."""
        return tuple(entry for entry in self.published if applies_to_run(entry, run))

    def expectations_of(self, matrix: str) -> tuple[Expectation, ...]:
        return dict(self.matrix_expectations).get(matrix, ())

    def requested_plots(self, matrix: str) -> tuple[str, ...]:
        """Return the plots requested for a matrix; empty: select by its factors."""
        return dict(self.matrix_draws).get(matrix, ())


def first_known(values: Iterable[Any]) -> Any:
    """Return the first value that is not None, or None."""
    return next((value for value in values if value is not None), None)


def have_same_path_but_rate(first: RunFolder, second: RunFolder) -> bool:
    """Return whether two runs have the same path except for rate and buffer."""
    names = ("profile", "rtt_ms", "placement", "direction", "loss_p", "jitter_ms", "ordered")

    def path_key(run: RunFolder) -> Any:
        buffers = [pair for pair in run.settings if pair[0].startswith("buffers")]
        return [getattr(run, name) for name in names], len(run.flows), buffers

    return bool(path_key(first) == path_key(second))


def levels_equal(first: Scalar, second: Scalar) -> bool:
    """Return whether two levels are equal, as 16, 16.0 and "16" are."""
    return format_level(first) == format_level(second)


def format_level(value: Scalar) -> str:
    """Format a level: 16, 0.001, gost+ws."""
    return f"{value:.12g}" if isinstance(value, float) else str(value)


def load_study(name: str, results: Path | None = None) -> Study:
    """Return an experiment, read from the copy of its file in the results folder.

    Results without a copy are read with the current file in experiments/; without any file the
    experiment is named after its folder. `file_note` then states the origin. Invalid files raise
    nothing.
    """
    copy = None if results is None else results / name / EXPERIMENT_FILE
    if copy is not None and copy.is_file():
        try:
            with accept_unknown_controls():
                return to_study(name, load_experiment(str(copy)))
        except (BadInput, OSError) as error:
            text = replace_controls(str(error))
            note = f"{EXPERIMENT_FILE} beside these results cannot be read by this lab ({text})."
            return Study(name, name, file_note=note)
    try:
        path = find_document(name, EXPERIMENTS, "experiment")
        study = read_study(name, path, path.stat().st_mtime_ns)
        note = (
            "An older lab made these results and kept no copy of the experiment's file: titles and"
            f" the study's numbers are those of experiments/{name}.yaml as it is now."
        )
    except (BadInput, OSError):
        study = Study(name, name)
        note = f"No experiment file was kept with these results, and experiments/ has no {name}."
    return replace(study, file_note=note if results else "")


@cache
def read_study(name: str, path: Path, changed_ns: int) -> Study:
    """Return the content of a file, cached by modification time. Raises BadInput."""
    return to_study(name, load_experiment(str(path)))


def question_keys(name: str, *, quick: bool = False) -> frozenset[str] | None:
    """Return the questions of an experiment's full (or quick) form.

    They follow from the current file in experiments/, for both machines; None without a file.
    Results of an earlier file, or with --set, have other questions.
    """
    try:
        path = find_document(name, EXPERIMENTS, "experiment")
        return question_keys_of_file(path, path.stat().st_mtime_ns, quick)
    except (BadInput, OSError):
        return None


@cache
def question_keys_of_file(path: Path, changed_ns: int, quick: bool) -> frozenset[str]:
    """Return the questions of a file, cached by modification time. Raises BadInput, OSError."""
    experiment = with_repetitions(load_experiment(str(path)), 1)
    keys: set[str] = set()
    for machine, matrix in product(("sandbox", "native"), experiment.matrices):
        clock = None if machine == "sandbox" else "real"
        with suppress(BadInput):  # skip a matrix that this machine does not support
            runs = expand(
                experiment, quick=quick, machine=machine, clock=clock, matrices=(matrix.name,)
            )
            keys |= {question_key(run.to_json()) for run in runs}
    return frozenset(keys)


def to_study(name: str, experiment: ExperimentFile) -> Study:
    """Return the parts of an experiment that the report uses."""
    texts = {key: clean_text(experiment.study.get(key)) for key in ("note", "seed", "sections")}
    matrices = experiment.matrices
    return Study(
        **texts,
        name=name,
        title=clean_text(experiment.title) or name,
        question=clean_text(experiment.question),
        called=clean_text(experiment.study.get("called")) or "study",
        models=tuple(experiment.models),
        matrix_titles=tuple((matrix.name, clean_text(matrix.title)) for matrix in matrices),
        matrix_notes=tuple((matrix.name, clean_text(matrix.note)) for matrix in matrices),
        matrix_draws=tuple((matrix.name, tuple(matrix.draw)) for matrix in matrices),
        matrix_expectations=tuple((matrix.name, matrix.expect) for matrix in matrices),
        published=tuple(map(normalise_entry, experiment.published)),
    )


def normalise_entry(published: Published) -> Published:
    """Clean an entry's texts; store the whole run's goodput or Retr under its own name."""
    published = replace(
        published, source=clean_text(published.source), why=clean_text(published.why)
    )
    if published.flow or published.figure not in ("goodput_mbit", "retr"):
        return published
    return replace(published, **{published.figure: published.value})  # type: ignore[arg-type]


def clean_text(value: str | None) -> str:
    """Return replace_controls, stripped text."""
    return replace_controls(value or "").strip()
