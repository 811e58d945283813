"""Experiments: a YAML file of factors and their levels.

What stands under `settings` is one value, what stands under `factors` is a list of levels. A later
word wins: defaults, the experiment's settings, the matrix's, its quick preset's, --set.
gostlab.ask.resolve makes runs of it.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from gostlab.ask.document import (
    Field,
    Node,
    decimal,
    find_document,
    list_of,
    load_document,
    mapping_of,
    meant,
    names_in,
    one_of,
    quantity,
    read_mapping,
    text_of,
    texts_of,
    unknown_key,
    whole,
    yes_no,
)
from gostlab.ask.settings import (
    CONGESTION_CONTROLS,
    Factors,
    Settings,
    read_factors,
    read_settings,
)
from gostlab.ask.units import share

FOLDER = Path(__file__).resolve().parents[2] / "experiments"


@dataclass(frozen=True)
class Quick:
    """What a matrix's quick preset changes."""

    skip: bool = False
    settings: Settings | None = None
    factors: Factors | None = None
    repetitions: int | None = None


@dataclass(frozen=True)
class Until:
    """When a matrix has enough repetitions: as soon as every cell's interval of the median is
    narrow enough, or there are `most`.

    `repetitions` are the first block; then one more at a time, of the cells that are still too
    wide.
    """

    halfwidth: float  # of the interval of the median, as a share of the median
    of: str  # one of STOPPING_FIGURES
    most: int  # repetitions
    least: int  # runs that count, before a cell is judged


@dataclass(frozen=True)
class Matrix:
    """Every combination of the factors' levels, over fixed settings."""

    name: str
    title: str
    note: str
    settings: Settings
    factors: Factors
    repetitions: int
    until: Until | None  # None: just the repetitions
    draw: tuple[str, ...]  # which figures show it; () as its factors suggest
    quick: Quick
    node: Node


@dataclass(frozen=True)
class Published:
    """A study's own number, for the cells that have these levels: a goodput, iperf3's Retr, or a
    figure by name.
    """

    matrix: str
    factors: Mapping[str, Any]
    goodput_mbit: float | None
    retr: int | None  # iperf3's retransmissions
    source: str
    figure: str | None = None  # one of FIGURES, then `value` or a band, least to most
    value: float | None = None
    least: float | None = None
    most: float | None = None
    flow: str | None = None  # of this flow alone
    versus: str | None = None  # figure ratio: over the same cell with this congestion control
    why: str = ""  # why lab and study differ, where somebody found out


@dataclass(frozen=True)
class Experiment:
    """An experiment file."""

    name: str
    title: str
    question: str
    study: Mapping[str, str]  # seed: the document it repeats; sections; note
    seed: int  # of the order of runs and, with the repetition, of each run
    settings: Settings
    matrices: tuple[Matrix, ...]
    published: tuple[Published, ...]
    path_on_disk: Path


def list_experiments() -> list[str]:
    """The names in experiments/."""
    return names_in(FOLDER)


def load_experiment(name_or_path: str) -> Experiment:
    """Read an experiment by its name in experiments/ or its file's path. Raises BadInput."""
    path = find_document(name_or_path, FOLDER, "experiment")
    return read_experiment(load_document(path), path)


def read_experiment(document: Node, path: Path) -> Experiment:
    """An experiment from a document. Raises BadInput."""
    values = read_mapping(document, EXPERIMENT_FIELDS)
    experiment = Experiment(**values, path_on_disk=path)
    nodes = mapping_of(document)
    for index, matrix in enumerate(experiment.matrices):
        if matrix.name in {earlier.name for earlier in experiment.matrices[:index]}:
            raise matrix.node.bad(f"a second matrix called {matrix.name}")
    if "published" in nodes:
        for published, node in zip(
            experiment.published, nodes["published"].items or (), strict=True
        ):
            check_published(published, node, experiment.matrices)
    return experiment


def check_published(published: Published, node: Node, matrices: Iterable[Matrix]) -> None:
    """A study's number must belong to a matrix and its factors. Raises BadInput."""
    by_name = {matrix.name: matrix for matrix in matrices}
    if published.matrix not in by_name:
        raise mapping_of(node)["matrix"].bad_value(
            f"no such matrix ({meant(published.matrix, by_name)})"
        )
    if "factors" not in mapping_of(node):
        return
    given = mapping_of(node)["factors"]
    for factor in published.factors:
        if factor not in by_name[published.matrix].factors:
            raise unknown_key(given, factor, by_name[published.matrix].factors)


def read_quick(node: Node) -> Quick:
    """A quick preset. Raises BadInput."""
    values = read_mapping(node, QUICK_FIELDS)
    if values["skip"] and len(mapping_of(node)) > 1:
        raise node.bad("skip: true and something else to do instead")
    return Quick(**values)


def read_matrix(node: Node) -> Matrix:
    """One matrix. Raises BadInput."""
    values = read_mapping(node, MATRIX_FIELDS)
    if values["until"] is not None and "repetitions" not in mapping_of(node):
        values["repetitions"] = values["until"].least
    matrix = Matrix(**values, node=node)
    if (
        matrix.until is not None
        and not LEAST_FOR_INTERVAL <= matrix.repetitions <= matrix.until.most
    ):
        raise mapping_of(node)["repetitions"].bad_value(
            f"with until, they are the first block: not within {LEAST_FOR_INTERVAL} and its most,"
            f" {matrix.until.most}"
        )
    for factor, levels in (matrix.quick.factors or {}).items():
        if factor not in matrix.factors:
            raise levels[0].node.bad_value(
                f"quick changes {factor}, which is no factor of {matrix.name}"
            )
    for factor in matrix.factors:
        if factor in matrix.settings:
            raise matrix.settings[factor].node.bad(f"both a setting and a factor of {matrix.name}")
    return matrix


def read_until(node: Node) -> Until:
    """A stopping rule. Raises BadInput."""
    values = read_mapping(node, UNTIL_FIELDS)
    if not 0 < values["halfwidth"] < 1:
        raise mapping_of(node)["halfwidth"].bad_value(
            "not between 0% and 100% of the median (like 5%)"
        )
    until = Until(**{**values, "halfwidth": float(values["halfwidth"])})
    if until.least > until.most:
        raise node.bad(f"least is {until.least}, more than most, {until.most}")
    return until


def read_published(node: Node) -> Published:
    """One number of a study. Raises BadInput."""
    values = read_mapping(node, PUBLISHED_FIELDS)
    numbers: dict[str, float | None] = {}
    for name in ("goodput_mbit", "value", "least", "most"):
        number = values.pop(name)
        numbers[name] = None if number is None else float(number)
    if values["figure"] is None:
        if numbers["goodput_mbit"] is None and values["retr"] is None:
            raise node.bad("neither goodput_mbit, retr nor figure: nothing to compare with")
        if any(numbers[name] is not None for name in ("value", "least", "most")):
            raise node.bad("value, least and most belong to a figure")
    elif all(numbers[name] is None for name in ("value", "least", "most")):
        raise node.bad(
            f"figure {values['figure']} without value, least or most: nothing to compare with"
        )
    if (values["figure"] == "ratio") != (values["versus"] is not None):
        raise node.bad(
            "figure ratio needs versus (the congestion control it is a ratio to), and nothing else"
            " has it"
        )
    factors = {name: level.written for name, level in values.pop("factors").items()}
    return Published(**{**values, **numbers}, factors=factors)


def read_draw(node: Node) -> tuple[str, ...]:
    """The figures of a matrix. Raises BadInput."""
    return list_of(one_of(*DRAWINGS))(node)


def read_name(node: Node) -> str:
    """A name that also names a folder. Raises BadInput."""
    text = text_of(node)
    if not re.fullmatch(r"[a-z0-9][a-z0-9.-]{0,63}", text):
        raise node.bad_value("a name has lower-case letters, digits, dots and dashes, 64 at most")
    return text


NO_QUICK = Quick()
# What the report can draw of a matrix, and what a study's number can be of.
DRAWINGS = ("series", "cwnd", "by-loss", "by-rtt", "shares", "bars", "map")
FIGURES = (
    "goodput_mbit",
    "retr",
    "window_pkts",
    "convergence_s",
    "jain",
    "ratio",
    "total_mbit",
    "share",
    "goodput_best3",
)
STOPPING_FIGURES = ("goodput",)  # of all flows together
REPETITIONS = whole(1, 1000)
# Below six runs no interval of the median reaches 95 % (analysis.judge.statistics).
LEAST_FOR_INTERVAL = 6
ENOUGH = whole(LEAST_FOR_INTERVAL, 1000)
UNTIL_FIELDS = {
    "halfwidth": Field(quantity(share), required=True),
    "of": Field(one_of(*STOPPING_FIGURES), default="goodput"),
    "most": Field(ENOUGH, required=True),
    "least": Field(ENOUGH, default=LEAST_FOR_INTERVAL),
}
STUDY_FIELDS = {"seed": Field(text_of), "sections": Field(text_of), "note": Field(text_of)}
QUICK_FIELDS = {
    "skip": Field(yes_no, default=False),
    "settings": Field(read_settings),
    "factors": Field(read_factors),
    "repetitions": Field(REPETITIONS),
}
MATRIX_FIELDS = {
    "name": Field(read_name, required=True),
    "title": Field(text_of, default=""),
    "note": Field(text_of, default=""),
    "settings": Field(read_settings, default={}),
    "factors": Field(read_factors, default={}),
    "repetitions": Field(REPETITIONS, default=1),
    "until": Field(read_until),
    "draw": Field(read_draw, default=()),
    "quick": Field(read_quick, default=NO_QUICK),
}
PUBLISHED_FIELDS = {
    "matrix": Field(text_of, required=True),
    "factors": Field(read_settings, default={}),
    "goodput_mbit": Field(decimal),
    "retr": Field(whole(0, 10**12)),
    "figure": Field(one_of(*FIGURES)),
    "value": Field(decimal),
    "least": Field(decimal),
    "most": Field(decimal),
    "flow": Field(text_of),
    "versus": Field(one_of(*CONGESTION_CONTROLS)),
    "source": Field(text_of, required=True),
    "why": Field(text_of, default=""),
}
EXPERIMENT_FIELDS = {
    "name": Field(read_name, required=True),
    "title": Field(text_of, required=True),
    "question": Field(text_of, default=""),
    "study": Field(texts_of(STUDY_FIELDS), default={}),
    "seed": Field(whole(1, 10**6), default=1),
    "settings": Field(read_settings, default={}),
    "matrices": Field(list_of(read_matrix, least=1), required=True),
    "published": Field(list_of(read_published), default=()),
}


def stopping_rules(experiment: Experiment, *, quick: bool = False) -> dict[str, Until]:
    """The matrices that repeat until their cells are narrow enough, by name. The quick form never
    does.
    """
    return (
        {}
        if quick
        else {
            matrix.name: matrix.until for matrix in experiment.matrices if matrix.until is not None
        }
    )
