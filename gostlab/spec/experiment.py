# SPDX-License-Identifier: MIT
"""Read experiments: a YAML file of factors and their levels.

A setting has one value, a factor has a list of levels. Later values override earlier ones:
defaults, the experiment's settings, the matrix's, its quick preset's, --set. gostlab.spec.expand
turns an experiment into runs.
"""

import re
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, replace
from difflib import get_close_matches
from pathlib import Path
from typing import Any, cast

from gostlab.errors import require_bounds
from gostlab.registry.folders import EXPERIMENTS
from gostlab.registry.plot_names import (
    drawing_files,
    format_with_factors,
    load_drawing,
    model_names,
    publishable_metrics,
    split_plot_name,
    takes_factors,
)
from gostlab.spec.expectations import Expectation, read_expectations
from gostlab.spec.run_spec import Levels
from gostlab.spec.settings import (
    FACTORS,
    SETTINGS_BY_NAME,
    Factors,
    Setting,
    Settings,
    field_of,
    read_factor,
    settings_schemas,
    written_value,
)
from gostlab.spec.units import quoted
from gostlab.spec.value_types import BUFFER_PRESETS, BUFFER_SIZES, CC, SHARE
from gostlab.spec.yaml_source import (
    NUMBER,
    TEXTS_BY_NAME,
    BadInput,
    JsonSchema,
    KeySchema,
    Node,
    Reader,
    as_written,
    by_name_reader,
    document_schema,
    find_document,
    key,
    keys_of,
    list_of,
    load_document,
    mapping_of,
    mapping_schema,
    names_in,
    one_of,
    one_of_names,
    read_mapping,
    record_reader,
    suggest_name,
    takes,
    text_matching,
    text_of,
    texts_of,
    unknown_key,
    whole_number,
    yes_no,
)

# A name that is also the name of a folder.
read_name = text_matching(
    r"[a-z0-9][a-z0-9.-]{0,63}",
    "a name has lower-case letters, digits, dots and dashes, 64 at most",
)
ANYTHING = as_written({})
NOWHERE = Node("", None, "")
STOPPING_METRICS = ("goodput",)  # Metrics of all flows together.
MAX_REPETITIONS = 1000
REPETITIONS = whole_number(1, MAX_REPETITIONS)
# The maximum is too large to try all seeds (classroom assignments), and small enough that a number
# derived from a seed, up to a million times as large, fits into the 63 bits that tc and the kernel
# read.
MAX_SEED = 2**43 - 1
# With fewer than six runs no interval of the median reaches 95 %
# (gostlab.analysis.stats.statistics).
MIN_FOR_INTERVAL = 6
ENOUGH = whole_number(MIN_FOR_INTERVAL, 1000)
FORMS = ("both", "quick")
STUDY_FIELDS = {
    "seed": KeySchema(text_of, "document that the experiment repeats"),
    "sections": KeySchema(text_of, "sections of the document"),
    "note": KeySchema(text_of, "further information on the study"),
    "called": KeySchema(text_of, "name of the study in legends", "thesis"),
}


# -- plots


def drawing_schema() -> JsonSchema:
    """Return the JSON Schema of a plot's name, alone or with its two factors."""
    files = drawing_files()
    pair = {"type": "array", "items": {"type": "string"}, "minItems": 2, "maxItems": 2}
    over_two = {
        "type": "object",
        "properties": {
            name: pair for name, file in sorted(files.items()) if takes_factors(name, file)
        },
        "additionalProperties": False,
        "minProperties": 1,
        "maxProperties": 1,
    }
    return {"anyOf": [{"enum": sorted(files)}, over_two]}


@takes(drawing_schema)
def read_drawing(node: Node) -> str:
    """Return an entry of `draw`: `heatmap: [loss, rtt]` is heatmap(loss, rtt). Raises BadInput."""
    if node.fields is not None:
        return read_drawing_over_factors(node)
    text, files = text_of(node), drawing_files()
    if "(" in text:
        name = text.partition("(")[0]
        raise node.bad_value(f"no such drawing (over two factors: {name}: [loss, cc])")
    if text not in files:
        raise node.bad_value(f"no such drawing ({suggest_name(text, files)})")
    try:
        load_drawing(text, files[text])
    except BadInput as error:
        raise node.bad(str(error)) from None
    return text


def read_drawing_over_factors(node: Node) -> str:
    """Return a plot with its two factors. Raises BadInput."""
    given = mapping_of(node)
    if len(given) != 1:
        raise node.bad(f"{len(given)} keys where one drawing should be (like heatmap: [loss, cc])")
    ((name, written),) = given.items()
    plot_name = read_drawing(replace(written, text=name, items=None, fields=None))
    if not takes_factors(plot_name, drawing_files()[plot_name]):
        raise written.bad(f"{plot_name} takes no factors (write {plot_name} alone)")
    factors = list_of(text_of)(written)
    if len(factors) != 2 or factors[0] == factors[1]:
        raise written.bad("not two factors, across and down (like [loss, cc])")
    return format_with_factors(plot_name, *factors)


# -- matrices


@dataclass(frozen=True)
class QuickForm:
    """Represent the changes of a matrix in the quick form."""

    skip: bool = key(yes_no, "omit the matrix", "true", default=False)
    settings: Settings | None = key(
        SETTINGS_BY_NAME, "settings that override the matrix's", default=None
    )
    # Nodes by name, until the matrix is known.
    factors: Factors | None = key(
        Reader(
            mapping_of, {"type": "object", "additionalProperties": {"type": "array", "minItems": 1}}
        ),
        "fewer levels of the matrix's factors",
        default=None,
    )
    repetitions: int | None = key(REPETITIONS, "fewer repetitions", "1", default=None)


NO_QUICK = QuickForm()


@dataclass(frozen=True)
class StoppingRule:
    """Represent the stopping rule of a matrix.

    A matrix has enough repetitions as soon as every cell's interval of the median is narrow enough,
    or there are `most`. After the first block, cells with a wide interval are repeated one run at a
    time.
    """

    halfwidth: float = key(
        SHARE.to(float), "maximum half-width of the median's 95 % interval", "5%", "% of the median"
    )
    of: str = key(
        one_of(*STOPPING_METRICS), "metric that the rule applies to", "goodput", default="goodput"
    )
    most: int = key(ENOUGH, "maximum number of repetitions", "30")
    least: int = key(
        ENOUGH, "minimum number of good runs before a cell is judged", "6", default=MIN_FOR_INTERVAL
    )


def check_until(node: Node, until: StoppingRule) -> None:
    """Reject a stopping rule that cannot be met. Raises BadInput."""
    if not 0 < until.halfwidth < 1:
        raise mapping_of(node)["halfwidth"].bad_value(
            "not between 0% and 100% of the median (like 5%)"
        )
    if until.least > until.most:
        raise node.bad(f"least is {until.least}, more than most, {until.most}")


@dataclass(frozen=True)
class Matrix:
    """Represent every combination of the factors' levels, over fixed settings."""

    name: str = key(read_name, "name of the matrix, with which its runs' names begin", "loss")
    title: str = key(text_of, "heading in the report", default="")
    note: str = key(text_of, "note for readers of the report", default="")
    settings: Settings = key(SETTINGS_BY_NAME, "settings of all runs of the matrix", default={})
    factors: Factors = key(
        FACTORS,
        "factors and their levels; every combination of the levels is a cell",
        "{cc: [cubic, bbr], loss: [0%, 1%]}",
        default={},
    )
    repetitions: int = key(REPETITIONS, "number of runs of each cell", "6", default=1)
    until: StoppingRule | None = key(
        record_reader(StoppingRule, check_until),
        "stopping rule: repeat a cell until its median is known this precisely",
        "{halfwidth: 5%, most: 30}",
        default=None,
    )
    expect: tuple[Expectation, ...] = key(
        read_expectations,
        "what metrics of the cells must be; `./lab run` fails if one is not",
        '{goodput: ">= 8 Mbit/s", verdict: ok}',
        default=(),
    )
    draw: tuple[str, ...] = key(
        list_of(read_drawing),
        "plots of the matrix (default: suggested by its factors); a heatmap may name its "
        "two factors, across and down",
        "[bars, heatmap: [loss, cc]]",
        default=(),
    )
    form: str = key(
        one_of(*FORMS),
        "quick: only --quick runs the matrix, as a better one belongs to the full form",
        "quick",
        default="both",
    )
    quick: QuickForm = key(
        record_reader(QuickForm),
        "short form of the matrix, for --quick",
        "{settings: {duration: 5s}, repetitions: 1}",
        default=NO_QUICK,
    )
    node: Node = NOWHERE

    def is_in(self, *, quick: bool) -> bool:
        """Return whether the experiment's quick, or full, form includes the matrix."""
        return not self.quick.skip if quick else self.form != "quick"

    def factors_of(self, *, quick: bool) -> dict[str, tuple[Setting, ...]]:
        return {**self.factors, **((self.quick.factors or {}) if quick else {})}


def read_matrix(node: Node) -> Matrix:
    """Return one matrix. Raises BadInput."""
    matrix = replace(record_reader(Matrix)(node), node=node)
    given = mapping_of(node)
    if matrix.until is not None and "repetitions" not in given:
        matrix = replace(matrix, repetitions=matrix.until.least)
    if "quick" in given:
        matrix = replace(matrix, quick=with_levels(matrix.quick, given["quick"], matrix))
    if matrix.until and not MIN_FOR_INTERVAL <= matrix.repetitions <= matrix.until.most:
        raise given["repetitions"].bad_value(
            f"with until, they are the first block: not within {MIN_FOR_INTERVAL} and its most,"
            f" {matrix.until.most}"
        )
    set_by: dict[str, str] = {}
    for factor, levels in matrix.factors.items():
        setting = levels[0].name
        if setting in matrix.settings:
            raise matrix.settings[setting].node.bad(f"both a setting and a factor of {matrix.name}")
        if setting in set_by:
            raise levels[0].node.bad(f"{setting} is set by the factor {set_by[setting]} already")
        set_by[setting] = factor
    check_drawn_factors(matrix)
    return matrix


def with_levels(quick: QuickForm, node: Node, matrix: Matrix) -> QuickForm:
    """Return a quick preset whose factors are read like the matrix's. Raises BadInput."""
    if quick.skip and len(mapping_of(node)) > 1:
        raise node.bad("skip: true and something else to do instead")
    written: Mapping[str, Node] = cast(Any, quick.factors) or {}
    for name, levels in written.items():
        if name not in matrix.factors:
            label = quoted(name)[1:-1]
            raise levels.bad(f"quick changes {label}, which is no factor of {matrix.name}")
    factors = {
        name: read_factor(name, levels, matrix.factors[name][0].name)
        for name, levels in written.items()
    }
    return replace(quick, factors=factors)


def check_drawn_factors(matrix: Matrix) -> None:
    """Reject plots over factors that the matrix does not have. Raises BadInput."""
    for entry in matrix.draw:
        name, factors = split_plot_name(entry)
        for factor in factors or ():
            if factor not in matrix.factors:
                raise mapping_of(matrix.node)["draw"].bad(
                    f"{name} over {quoted(factor)}: no factor of {matrix.name}"
                    f" ({suggest_name(factor, matrix.factors)})"
                )


# -- published numbers of a study


def read_written_levels(node: Node) -> Levels:
    """Return levels of a matrix's factors, as the user wrote them. Raises BadInput."""
    levels: Levels = {}
    for name, level in mapping_of(node).items():
        field = field_of(name)
        value = None if field is None else field.read(level)
        is_count = name.rpartition(".")[2] == "streams"
        levels[name] = value if is_count else written_value(level)
    return levels


@dataclass(frozen=True)
class Published:
    """Represent a study's published value, or a metric's band, of the cells with these levels."""

    matrix: str = key(text_of, "matrix that it belongs to")
    factors: Levels = key(
        Reader(read_written_levels, {"type": "object"}),
        "cells that it belongs to: all with these levels",
        "{cc: bbr}",
        default={},
    )
    goodput_mbit: float | None = key(NUMBER, "goodput", "41.2", "Mbit/s", default=None)
    retr: int | None = key(whole_number(0, 10**12), "iperf3's retransmissions", "210", default=None)
    source: str = key(text_of, "table or section of the study")
    figure: str | None = key(
        one_of_names(publishable_metrics),
        "another metric; it has value, least or most",
        "jain",
        default=None,
    )
    value: float | None = key(NUMBER, "value of the metric", "0.9", default=None)
    least: float | None = key(NUMBER, "lower end of a band", "0.8", default=None)
    most: float | None = key(NUMBER, "upper end of a band", "1", default=None)
    flow: str | None = key(text_of, "flow that it belongs to", "flow1", default=None)
    versus: str | None = key(
        CC,
        "for figure ratio: congestion control of the cell that it is relative to",
        "cubic",
        default=None,
    )
    why: str = key(
        text_of, "why the measured value differs: the name of a reason, or the reason", default=""
    )


def check_number(node: Node, number: Published) -> None:
    """Require exactly one thing to compare a published number with. Raises BadInput."""
    has_metric = any(metric is not None for metric in (number.value, number.least, number.most))
    if number.figure is None:
        if number.goodput_mbit is None and number.retr is None:
            raise node.bad("neither goodput_mbit, retr nor figure: nothing to compare with")
        if has_metric:
            raise node.bad("value, least and most belong to a figure")
    elif not has_metric:
        raise node.bad(
            f"figure {number.figure} without value, least or most: nothing to compare with"
        )
    if (number.figure == "ratio") != (number.versus is not None):
        raise node.bad(
            "figure ratio needs versus (the congestion control it is a ratio to), and nothing else"
            " has it"
        )


PUBLISHED = record_reader(Published, check_number)


def rows_of(table: Node, keys: Collection[str] | None = None) -> list[Node]:
    """Return a table's rows, each as the mapping that it stands for. Raises BadInput.

    A column is one of `keys`, or a factor; keys of the table besides columns and rows apply to
    every row.
    """
    given = dict(mapping_of(table))
    columns = list_of(text_of, least=1)(given.pop("columns"))
    if "rows" not in given:
        raise table.bad("rows is missing")
    rows = list_of(ANYTHING, least=1)(given.pop("rows"))
    levels = mapping_of(given.pop("factors")) if "factors" in given else {}
    known = keys_of(Published) if keys is None else keys
    mappings = []
    for row in rows:
        cells = list_of(ANYTHING)(row)
        if len(cells) != len(columns):
            raise row.bad(f"{len(cells)} values under {len(columns)} columns")
        pairs = zip(columns, cells, strict=True)
        named = {column: cell for column, cell in pairs if cell.type_phrase != "nothing"}
        fields = {name: cell for name, cell in named.items() if name in known}
        of_cell = {**levels, **{name: named[name] for name in named if name not in known}}
        factors = replace(row, key=f"{row.key}.factors", items=None, fields=of_cell)
        mappings.append(replace(row, items=None, fields={**given, **fields, "factors": factors}))
    return mappings


def published_schema() -> JsonSchema:
    """Return the JSON Schema of a list of single numbers and tables."""
    columns, lists = (
        list_of(reader, least=1) for reader in (text_of, as_written({"type": "array"}))
    )
    rows = {
        "columns": {**columns.schema, "description": "Keys of a number, or factors"},
        "rows": {**lists.schema, "description": "A value under each column"},
    }
    table = {
        "type": "object",
        "properties": {**PUBLISHED.schema["properties"], **rows},
        "required": list(rows),
        "additionalProperties": False,
    }
    return {"type": "array", "items": {"anyOf": [PUBLISHED.schema, table]}}


@takes(published_schema)
def read_published(node: Node) -> tuple[tuple[Node, Published], ...]:
    """Return a study's numbers, single or in tables, each with its node. Raises BadInput."""
    numbers: list[tuple[Node, Published]] = []
    for entry in list_of(ANYTHING)(node):
        rows = rows_of(entry) if "columns" in mapping_of(entry) else [entry]
        numbers += [(row, PUBLISHED(row)) for row in rows]
    return tuple(numbers)


def check_published(published: Published, node: Node, matrices: Iterable[Matrix]) -> None:
    """Reject a study's number that belongs to no matrix or factor. Raises BadInput."""
    by_name = {matrix.name: matrix for matrix in matrices}
    if published.matrix not in by_name:
        raise mapping_of(node)["matrix"].bad_value(
            f"no such matrix ({suggest_name(published.matrix, by_name)})"
        )
    for factor in published.factors:
        if factor not in by_name[published.matrix].factors:
            given = mapping_of(node)["factors"]
            raise unknown_key(given, factor, by_name[published.matrix].factors)


# -- files


PRESET_NAME = re.compile(rf"(?!({'|'.join(BUFFER_PRESETS)})$)[a-z][a-z0-9-]{{0,31}}")
PRESET_SIZES = by_name_reader(
    PRESET_NAME, as_written(BUFFER_SIZES.schema), "preset", "{large: {rmem: […], wmem: […]}}"
)
PRESET_FIELDS = {
    "buffers": KeySchema(
        PRESET_SIZES,
        "TCP buffers by name",
        "{large: {rmem: [4KiB, 128KiB, 64MB], wmem: [4KiB, 16KiB, 64MB]}}",
        required=True,
    )
}


@takes(mapping_schema(PRESET_FIELDS))
def PRESETS(node: Node) -> Mapping[str, Node]:
    """Return the file's named buffer presets. Raises BadInput."""
    presets: Mapping[str, Node] = read_mapping(node, PRESET_FIELDS)["buffers"]
    for preset in presets.values():
        BUFFER_SIZES(preset)
    return presets


@dataclass(frozen=True)
class ExperimentFile:
    """Represent an experiment file."""

    name: str = key(read_name, "name of the experiment and of its results' folder", "mine")
    title: str = key(text_of, "heading in the report")
    question: str = key(text_of, "question of the experiment, in one sentence", default="")
    study: Mapping[str, str] = key(
        texts_of(STUDY_FIELDS), "study that the experiment repeats", default={}
    )
    seed: int = key(
        whole_number(1, MAX_SEED),
        "seed of the order of runs and, with the repetition, of each run",
        "1",
        default=1,
    )
    presets: Mapping[str, Node] = key(PRESETS, "buffer presets by name", default={})
    settings: Settings = key(SETTINGS_BY_NAME, "settings of all runs", default={})
    matrices: tuple[Matrix, ...] = key(
        list_of(Reader(read_matrix, lambda: record_reader(Matrix).schema), least=1),
        "factors that are varied together",
    )
    reasons: Mapping[str, str] = key(
        TEXTS_BY_NAME, "reasons by name why measured and published values differ", default={}
    )
    # Each number has its node, until the matrices are known.
    published: tuple[Published, ...] = key(
        read_published, "published values of the study", default=()
    )
    models: tuple[str, ...] = key(
        list_of(one_of_names(model_names)),
        "model curves in plots (default: the usual ones)",
        "[rfc9438, bbr]",
        default=(),
    )
    path_on_disk: Path = Path()


def list_experiments() -> list[str]:
    return names_in(EXPERIMENTS)


def load_experiment(name_or_path: str) -> ExperimentFile:
    """Read an experiment by its name in experiments/ or its file's path. Raises BadInput."""
    path = find_document(name_or_path, EXPERIMENTS, "experiment")
    return read_experiment(load_document(path), path)


def read_experiment(document: Node, path: Path) -> ExperimentFile:
    """Return an experiment from a document. Raises BadInput."""
    written = mapping_of(document).get("presets")
    presets = {} if written is None else PRESETS(written)
    experiment = record_reader(ExperimentFile)(with_presets(document, presets))
    for index, matrix in enumerate(experiment.matrices):
        if matrix.name in {earlier.name for earlier in experiment.matrices[:index]}:
            raise matrix.node.bad(f"a second matrix called {matrix.name}")
    numbers: Any = experiment.published
    published = []
    for node, number in numbers:
        check_published(number, node, experiment.matrices)
        why, reasons = number.why, experiment.reasons
        # A single word that is nearly a reason's name is probably a typing error.
        if why not in reasons and " " not in why and get_close_matches(why, reasons, n=1):
            raise node.bad(f"why: {why}: no such reason ({suggest_name(why, reasons)})")
        published.append(replace(number, why=reasons.get(why, why)))
    return replace(experiment, published=tuple(published), path_on_disk=path)


def with_presets(node: Node, presets: Mapping[str, Node], within: str = "") -> Node:
    """Replace presets' names in a document with their sizes; `within` is the parent's key."""
    is_buffers = within.rpartition(".")[2] == "buffers"
    if is_buffers and node.text is not None and node.text in presets:
        return replace(node, fields=presets[node.text].fields)
    return node.changed(lambda key, child: with_presets(child, presets, key or within))


def experiment_schema() -> JsonSchema:
    return {
        **document_schema("A gostlab experiment", keys_of(ExperimentFile)),
        "$defs": settings_schemas(),
    }


def with_seed(experiment: ExperimentFile, seed: int | None) -> ExperimentFile:
    """Return the experiment with another seed, as of --seed; None keeps it. Raises BadInput."""
    if seed is None:
        return experiment
    return replace(experiment, seed=require_bounds(f"--seed {seed}", seed, 1, MAX_SEED))


def with_repetitions(experiment: ExperimentFile, count: int | None) -> ExperimentFile:
    """Return the experiment with --repeat's runs of each cell, in both forms. Raises BadInput."""
    if count is None:
        return experiment
    require_bounds(f"--repeat {count}", count, 1, MAX_REPETITIONS)
    matrices = tuple(
        replace(
            matrix, repetitions=count, until=None, quick=replace(matrix.quick, repetitions=count)
        )
        for matrix in experiment.matrices
    )
    return replace(experiment, matrices=matrices)


def stopping_rules(experiment: ExperimentFile, *, quick: bool = False) -> dict[str, StoppingRule]:
    """Return the stopping rules of matrices that have one; none in the quick form."""
    if quick:
        return {}
    return {matrix.name: matrix.until for matrix in experiment.matrices if matrix.until}
