"""Experiments: a YAML file of factors and their levels.

What stands under `settings` is one value, what stands under `factors` is a list of levels. A later
word wins: defaults, the experiment's settings, the matrix's, its quick preset's, --set.
gostlab.ask.resolve makes runs of it.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from difflib import get_close_matches
from pathlib import Path
from typing import Any

from gostlab.ask.document import (
    BadInput,
    Field,
    Node,
    Reader,
    decimal,
    field_schema,
    find_document,
    list_of,
    load_document,
    mapping,
    mapping_of,
    mapping_schema,
    meant,
    names_in,
    one_of,
    one_of_names,
    read_mapping,
    takes,
    text_of,
    texts_of,
    unknown_key,
    whole,
    yes_no,
)
from gostlab.ask.profile import SHARE
from gostlab.ask.settings import (
    ALIASES,
    CC_OF_END,
    DIRECTIONS,
    FLOW_FIELDS,
    FLOW_NAME,
    PATH_FIELDS,
    SETTINGS,
    Factors,
    Settings,
    field_of,
    json_text,
    named_factor,
    read_factor,
    read_factors,
    read_settings,
)
from gostlab.ask.units import quoted
from gostlab.ask.values import BUFFER_PRESETS, BUFFER_SIZES, CC, END
from gostlab.declared.drawings import (
    check_drawing,
    drawing_files,
    merit_names,
    model_names,
    parts_of,
    takes_factors,
    with_factors,
)

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
    form: str = "both"  # one of FORMS: where it is part of the experiment

    def is_in(self, *, quick: bool) -> bool:
        """Whether the experiment's quick, or full, form has it."""
        return not self.quick.skip if quick else self.form != "quick"


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
    figure: str | None = None  # a figure of merit, then `value` or a band, least to most
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
    presets: Mapping[str, Node]  # buffers by a name of the file's own
    models: tuple[str, ...]  # drawn beside the points, by name; () the usual ones
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
    presets = read_presets(document)
    reasons = read_reasons(document)
    values = read_mapping(with_presets(document, presets), EXPERIMENT_FIELDS)
    del values["reasons"]
    numbers = [
        (node, replace(number, why=reason_of(node, number.why, reasons)))
        for node, number in values["published"]
    ]
    published = tuple(number for _, number in numbers)
    experiment = Experiment(
        **{**values, "published": published, "presets": presets}, path_on_disk=path
    )
    for index, matrix in enumerate(experiment.matrices):
        if matrix.name in {earlier.name for earlier in experiment.matrices[:index]}:
            raise matrix.node.bad(f"a second matrix called {matrix.name}")
    for node, number in numbers:
        check_published(number, node, experiment.matrices)
    return experiment


def read_presets(document: Node) -> Mapping[str, Node]:
    """Buffers by a name of the file's own. Raises BadInput."""
    written = mapping_of(document).get("presets")
    if written is None:
        return {}
    presets = mapping_of(read_mapping(written, PRESET_FIELDS)["buffers"])
    for name, node in presets.items():
        if name in BUFFER_PRESETS or not PRESET_NAME.fullmatch(name):
            raise node.bad(
                f"no name for a preset (lower-case letters, digits and -, and not"
                f" {', '.join(BUFFER_PRESETS)})"
            )
        BUFFER_SIZES(node)
    return presets


def with_presets(node: Node, presets: Mapping[str, Node], within: str = "") -> Node:
    """A document whose buffers that are called by a preset's name have its sizes. `within`: the
    key that the node stands under.
    """
    is_buffers = within.rpartition(".")[2] == "buffers"
    if is_buffers and node.text is not None and node.text in presets:
        return replace(node, fields=presets[node.text].fields)
    if node.items is not None:
        return replace(
            node, items=tuple(with_presets(item, presets, within) for item in node.items)
        )
    if node.fields is not None:
        fields = {key: with_presets(value, presets, key) for key, value in node.fields.items()}
        return replace(node, fields=fields)
    return node


def read_reasons(document: Node) -> Mapping[str, str]:
    """Why lab and study differ, by a name of the file's own. Raises BadInput."""
    written = mapping_of(document).get("reasons")
    return {} if written is None else REASONS(written)


def reason_of(node: Node, why: str, reasons: Mapping[str, str]) -> str:
    """The sentence that a `why` stands for: a reason's, by its name, or what is written. A single
    word that is nearly a reason's name is a slip. Raises BadInput.
    """
    if why not in reasons and " " not in why and get_close_matches(why, reasons, n=1):
        raise node.bad(f"why: {why}: no such reason ({meant(why, reasons)})")
    return reasons.get(why, why)


def check_published(published: Published, node: Node, matrices: Iterable[Matrix]) -> None:
    """A study's number must belong to a matrix and its factors. Raises BadInput."""
    by_name = {matrix.name: matrix for matrix in matrices}
    if published.matrix not in by_name:
        raise mapping_of(node)["matrix"].bad_value(
            f"no such matrix ({meant(published.matrix, by_name)})"
        )
    for factor in published.factors:
        if factor not in by_name[published.matrix].factors:
            given = mapping_of(node)["factors"]
            raise unknown_key(given, factor, by_name[published.matrix].factors)


def read_matrix(node: Node, values: dict[str, Any]) -> Matrix:
    """One matrix. Raises BadInput."""
    if values["until"] is not None and "repetitions" not in mapping_of(node):
        values["repetitions"] = values["until"].least
    quick = values.pop("quick")
    matrix = Matrix(
        **values, quick=read_quick(quick, values) if quick is not None else NO_QUICK, node=node
    )
    first_block = matrix.repetitions
    if matrix.until is not None and not LEAST_FOR_INTERVAL <= first_block <= matrix.until.most:
        raise mapping_of(node)["repetitions"].bad_value(
            f"with until, they are the first block: not within {LEAST_FOR_INTERVAL} and its most,"
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


def read_quick(node: Node, matrix: Mapping[str, Any]) -> Quick:
    """The quick preset of a matrix whose other values are read. Raises BadInput."""
    values = read_mapping(node, QUICK_FIELDS)
    if values["skip"] and len(mapping_of(node)) > 1:
        raise node.bad("skip: true and something else to do instead")
    factors: dict[str, Any] = {}
    for name, levels in (values["factors"] or {}).items():
        if name not in matrix["factors"]:
            raise levels.bad(f"quick changes {name}, which is no factor of {matrix['name']}")
        factors[name] = read_factor(name, levels, matrix["factors"][name][0].name)
    return Quick(**{**values, "factors": factors})


def read_until(node: Node, values: Mapping[str, Any]) -> Until:
    """A stopping rule. Raises BadInput."""
    if not 0 < values["halfwidth"] < 1:
        raise mapping_of(node)["halfwidth"].bad_value(
            "not between 0% and 100% of the median (like 5%)"
        )
    until = Until(**{**values, "halfwidth": float(values["halfwidth"])})
    if until.least > until.most:
        raise node.bad(f"least is {until.least}, more than most, {until.most}")
    return until


def read_number(node: Node, values: dict[str, Any]) -> Published:
    """One number of a study. Raises BadInput."""
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
    return Published(**{**values, **numbers})


def rows_of(table: Node, keys: Collection[str] | None = None) -> list[Node]:
    """A table's rows, each as the mapping that it stands for: a column is a key of a number, or a
    factor; what stands beside columns and rows is every row's. keys: those of a number (default:
    of one that a study published). Raises BadInput.
    """
    given = dict(mapping_of(table))
    columns = list_of(text_of, least=1)(given.pop("columns"))
    if "rows" not in given:
        raise table.bad("rows is missing")
    rows = list_of(AS_WRITTEN, least=1)(given.pop("rows"))
    common = dict(mapping_of(given.pop("factors"))) if "factors" in given else {}
    known = PUBLISHED_FIELDS if keys is None else keys
    return [row_of(row, columns, given, common, known) for row in rows]


def row_of(
    row: Node,
    columns: Sequence[str],
    common: Mapping[str, Node],
    levels: Mapping[str, Node],
    keys: Collection[str],
) -> Node:
    """One row as a mapping. An empty cell says nothing. Raises BadInput."""
    cells = list_of(AS_WRITTEN)(row)
    if len(cells) != len(columns):
        raise row.bad(f"{len(cells)} values under {len(columns)} columns")
    named = {
        column: cell for column, cell in zip(columns, cells, strict=True) if cell.kind != "nothing"
    }
    factors = {name: cell for name, cell in named.items() if name not in keys}
    fields = {name: cell for name, cell in named.items() if name in keys}
    own = replace(row, key=f"{row.key}.factors", items=None, fields={**levels, **factors})
    return replace(row, items=None, fields={**common, **fields, "factors": own})


def read_written_levels(node: Node) -> dict[str, Any]:
    """Levels of a matrix's factors, as people write them. Raises BadInput."""
    levels: dict[str, Any] = {}
    for name, level in mapping_of(node).items():
        found = field_of(name)
        value = None if found is None else found.read(level)
        counts = name.rpartition(".")[2] == "streams"
        levels[name] = value if counts else json_text(level)
    return levels


def drawing_schema() -> dict[str, Any]:
    """A drawing's word, or the word with the two factors that it is wanted over."""
    words = drawing_files()
    pair = {"type": "array", "items": {"type": "string"}, "minItems": 2, "maxItems": 2}
    over_two = {
        "type": "object",
        "properties": {word: pair for word, path in sorted(words.items()) if takes_factors(path)},
        "additionalProperties": False,
        "minProperties": 1,
        "maxProperties": 1,
    }
    return {"anyOf": [{"enum": sorted(words)}, over_two]}


@takes(drawing_schema)
def read_drawing(node: Node) -> str:
    """One entry of a matrix's `draw`: a word, or `heatmap: [loss, rtt]`, which becomes the word
    heatmap(loss, rtt). Raises BadInput, also for a drawing that is not whole.
    """
    if node.fields is not None:
        return read_drawing_over_factors(node)
    word, files = text_of(node), drawing_files()
    if "(" in word:
        name = word.partition("(")[0]
        raise node.bad_value(f"no such drawing (over two factors: {name}: [loss, cc])")
    if word not in files:
        raise node.bad_value(f"no such drawing ({meant(word, files)})")
    try:
        check_drawing(word, files[word])
    except BadInput as error:
        raise node.bad(str(error)) from None
    return word


def read_drawing_over_factors(node: Node) -> str:
    """A drawing with the two factors that it is wanted over. Raises BadInput."""
    given = mapping_of(node)
    if len(given) != 1:
        raise node.bad(f"{len(given)} keys where one drawing should be (like heatmap: [loss, cc])")
    ((name, written),) = given.items()
    word = read_drawing(replace(written, text=name, items=None, fields=None))
    if not takes_factors(drawing_files()[word]):
        raise written.bad(f"{word} takes no factors (write {word} alone)")
    factors = list_of(text_of)(written)
    if len(factors) != 2 or factors[0] == factors[1]:
        raise written.bad("not two factors, across and down (like [loss, cc])")
    return with_factors(word, *factors)


def check_drawn_factors(matrix: Matrix) -> None:
    """Drawings are wanted over factors that the matrix has. Raises BadInput."""
    for word in matrix.draw:
        name, factors = parts_of(word)
        for factor in factors or ():
            if factor not in matrix.factors:
                raise mapping_of(matrix.node)["draw"].bad(
                    f"{name} over {quoted(factor)}: no factor of {matrix.name}"
                    f" ({meant(factor, matrix.factors)})"
                )


@takes({"type": "string", "pattern": r"^\s*[a-z0-9][a-z0-9.-]{0,63}\s*$"})
def read_name(node: Node) -> str:
    """A name that also names a folder. Raises BadInput."""
    text = text_of(node)
    if not re.fullmatch(r"[a-z0-9][a-z0-9.-]{0,63}", text):
        raise node.bad_value("a name has lower-case letters, digits, dots and dashes, 64 at most")
    return text


NO_QUICK = Quick()
STOPPING_FIGURES = ("goodput",)  # of all flows together
REPETITIONS = whole(1, 1000)
# So large that nobody tries them all (gostlab.course.assignment), and so small that no number that
# is made of one, up to a million times as large, leaves the 63 bits that tc and the kernel read.
MAX_SEED = 2**43 - 1
# Below six runs no interval of the median reaches 95 % (analysis.judge.statistics).
LEAST_FOR_INTERVAL = 6
ENOUGH = whole(LEAST_FOR_INTERVAL, 1000)
PRESET_NAME = re.compile(r"[a-z][a-z0-9-]{0,31}")

# What settings and factors may be called, for editors.
NAMES_OF_PARTS = {
    **{f"^{way}\\.{name}$": each for way in DIRECTIONS for name, each in PATH_FIELDS.items()},
    f"^cc\\.({END.pattern})$": CC_OF_END,
    **{
        f"^(?!({'|'.join(DIRECTIONS)}|cc)\\.){FLOW_NAME.pattern}\\.{name}$": each
        for name, each in FLOW_FIELDS.items()
    },
}


def settings_schema(of_value: Any) -> dict[str, Any]:
    """The JSON Schema of settings by name; `of_value` makes a value's from its field."""
    return {
        "type": "object",
        "properties": {
            **{name: of_value(each) for name, each in SETTINGS.items()},
            **{alias: of_value(SETTINGS[name]) for alias, name in ALIASES.items()},
        },
        "patternProperties": {name: of_value(each) for name, each in NAMES_OF_PARTS.items()},
        "additionalProperties": False,
    }


def experiment_schema() -> dict[str, Any]:
    """The JSON Schema of an experiment's file."""
    factors = {**settings_schema(levels_schema), "additionalProperties": named_factor.schema}
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "A gostlab experiment",
        **mapping_schema(EXPERIMENT_FIELDS),
        "$defs": {"settings": settings_schema(field_schema), "factors": factors},
    }


def levels_schema(each: Field) -> dict[str, Any]:
    """The JSON Schema of a factor: its levels, or those of another setting."""
    return {
        "anyOf": [
            {"type": "array", "items": each.read.schema, "minItems": 1},
            named_factor.schema,
        ],
        "description": each.says,
    }


AS_WRITTEN: Reader[Node] = Reader(lambda node: node, {})
SETTINGS_BY_NAME = Reader(read_settings, {"$ref": "#/$defs/settings"})
FACTORS = Reader(read_factors, {"$ref": "#/$defs/factors"})
REASONS = Reader(
    lambda node: {name: text_of(each) for name, each in mapping_of(node).items()},
    {"type": "object", "additionalProperties": text_of.schema},
)
PRESET_FIELDS = {
    "buffers": Field(
        Reader(
            lambda node: node,
            {
                "type": "object",
                "patternProperties": {f"^{PRESET_NAME.pattern}$": BUFFER_SIZES.schema},
                "additionalProperties": False,
            },
        ),
        required=True,
        says="TCP buffers by name",
        example="{large: {rmem: [4KiB, 128KiB, 64MB], wmem: [4KiB, 16KiB, 64MB]}}",
    )
}
UNTIL_FIELDS = {
    "halfwidth": Field(
        SHARE,
        required=True,
        says="how wide the 95 % interval of the median may be, each way",
        unit="% of the median",
        example="5%",
    ),
    "of": Field(
        one_of(*STOPPING_FIGURES), default="goodput", says="of which figure", example="goodput"
    ),
    "most": Field(ENOUGH, required=True, says="repetitions at most", example="30"),
    "least": Field(
        ENOUGH, default=LEAST_FOR_INTERVAL, says="good runs before a cell is judged", example="6"
    ),
}
STUDY_FIELDS = {
    "seed": Field(text_of, says="the document that it repeats"),
    "sections": Field(text_of, says="which parts of it"),
    "note": Field(text_of, says="what else to know of it"),
    "called": Field(text_of, says="what legends call it", example="thesis"),
}
QUICK_FIELDS = {
    "skip": Field(yes_no, default=False, says="leave the matrix out", example="true"),
    "settings": Field(SETTINGS_BY_NAME, says="in place of the matrix's"),
    "factors": Field(
        Reader(
            mapping_of,
            {"type": "object", "additionalProperties": {"type": "array", "minItems": 1}},
        ),
        says="fewer levels of the matrix's factors",
    ),
    "repetitions": Field(REPETITIONS, says="fewer of them", example="1"),
}
FORMS = ("both", "quick")
MATRIX_FIELDS = {
    "name": Field(
        read_name, required=True, says="its name, and the beginning of its runs'", example="loss"
    ),
    "title": Field(text_of, default="", says="its heading in the report"),
    "note": Field(text_of, default="", says="what to know before reading it"),
    "settings": Field(SETTINGS_BY_NAME, default={}, says="what all of its runs have"),
    "factors": Field(
        FACTORS,
        default={},
        says="what varies: every combination of the levels is a cell",
        example="{cc: [cubic, bbr], loss: [0%, 1%]}",
    ),
    "repetitions": Field(REPETITIONS, default=1, says="runs of each cell", example="6"),
    "until": Field(
        mapping(UNTIL_FIELDS, read_until),
        says="more repetitions of a cell until its median is known so well",
        example="{halfwidth: 5%, most: 30}",
    ),
    "draw": Field(
        list_of(read_drawing),
        default=(),
        says="its figures; without it, as its factors suggest. A heatmap may name its two factors,"
        " across and down",
        example="[bars, heatmap: [loss, cc]]",
    ),
    "form": Field(
        one_of(*FORMS),
        default="both",
        says="quick: only --quick runs it, as the full form has something better",
        example="quick",
    ),
    "quick": Field(
        Reader(lambda node: node, lambda: mapping_schema(QUICK_FIELDS)),
        says="the short form, for --quick",
        example="{settings: {duration: 5s}, repetitions: 1}",
    ),
}
PUBLISHED_FIELDS = {
    "matrix": Field(text_of, required=True, says="which matrix it is of"),
    "factors": Field(
        Reader(read_written_levels, {"type": "object"}),
        default={},
        says="which cells: all that have these levels",
        example="{cc: bbr}",
    ),
    "goodput_mbit": Field(decimal, says="goodput", unit="Mbit/s", example="41.2"),
    "retr": Field(whole(0, 10**12), says="iperf3's retransmissions", example="210"),
    "figure": Field(
        one_of_names(merit_names),
        says="another figure; then value, least or most",
        example="jain",
    ),
    "value": Field(decimal, says="the figure's value", example="0.9"),
    "least": Field(decimal, says="the lower end of a band", example="0.8"),
    "most": Field(decimal, says="the upper end of a band", example="1"),
    "flow": Field(text_of, says="of this flow alone", example="flow1"),
    "versus": Field(CC, says="of figure ratio: to the same cell with this one", example="cubic"),
    "source": Field(text_of, required=True, says="where it stands in the study"),
    "why": Field(text_of, default="", says="why the lab differs: a reason's name, or the reason"),
}
NUMBER = mapping(PUBLISHED_FIELDS, read_number)


def published_schema() -> dict[str, Any]:
    """A list of single numbers and of tables."""
    rows = {
        "columns": {
            "type": "array",
            "items": text_of.schema,
            "minItems": 1,
            "description": "Keys of a number, or factors",
        },
        "rows": {
            "type": "array",
            "items": {"type": "array"},
            "minItems": 1,
            "description": "A value under each column",
        },
    }
    table = {
        "type": "object",
        "properties": {**NUMBER.schema["properties"], **rows},
        "required": list(rows),
        "additionalProperties": False,
    }
    return {"type": "array", "items": {"anyOf": [NUMBER.schema, table]}}


@takes(published_schema)
def read_published(node: Node) -> tuple[tuple[Node, Published], ...]:
    """A study's numbers, each with where it stands: single ones, or tables of several. Raises
    BadInput.
    """
    found: list[tuple[Node, Published]] = []
    for entry in list_of(AS_WRITTEN)(node):
        rows = rows_of(entry) if "columns" in mapping_of(entry) else [entry]
        found += [(row, NUMBER(row)) for row in rows]
    return tuple(found)


EXPERIMENT_FIELDS = {
    "name": Field(
        read_name, required=True, says="its name, and its results' folder", example="mine"
    ),
    "title": Field(text_of, required=True, says="its heading in the report"),
    "question": Field(text_of, default="", says="what it asks, in a sentence"),
    "study": Field(texts_of(STUDY_FIELDS), default={}, says="the study that it repeats"),
    "seed": Field(
        whole(1, MAX_SEED),
        default=1,
        says="of the order of runs and, with the repetition, of each run",
        example="1",
    ),
    "presets": Field(mapping(PRESET_FIELDS), says="buffers by a name of the file's own"),
    "settings": Field(SETTINGS_BY_NAME, default={}, says="what all of its runs have"),
    "matrices": Field(
        list_of(mapping(MATRIX_FIELDS, read_matrix), least=1),
        required=True,
        says="what is varied together",
    ),
    "reasons": Field(REASONS, says="why lab and study differ, by a name of the file's own"),
    "published": Field(read_published, default=(), says="the study's own numbers"),
    "models": Field(
        list_of(one_of_names(model_names)),
        default=(),
        says="the curves beside the points; without it, the usual ones",
        example="[rfc9438, bbr]",
    ),
}


def with_seed(experiment: Experiment, seed: int | None) -> Experiment:
    """The experiment with another seed, as --seed says; None: with its own. Raises BadInput."""
    if seed is None:
        return experiment
    if not 1 <= seed <= MAX_SEED:
        raise BadInput(f"--seed {seed}: not within 1 to {MAX_SEED}")
    return replace(experiment, seed=seed)


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
