# SPDX-License-Identifier: MIT
"""Parse YAML files strictly, and record the line of every value.

Scalars stay text until a field's own reader takes them, so that `off`, `1e3` or `12:30` are
interpreted by the field and not by YAML's type guessing. Duplicate keys, unknown keys, aliases,
tags, and excessive depth and size are rejected. BadInput is the only error raised, whatever the
text.
"""

from __future__ import annotations

import dataclasses
import difflib
import math
import os
import re
import stat
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from fractions import Fraction
from functools import cache
from pathlib import Path
from typing import Any, Generic, NoReturn, TypeVar

import yaml

from gostlab import errors
from gostlab.errors import BadInput
from gostlab.registry import folders
from gostlab.spec.units import UnitError, quoted

MAX_BYTES = 256 * 1024
MAX_DEPTH = 12
MAX_VALUES = 20_000
NULLS = ("", "~", "null", "Null", "NULL")
# The maximum number of candidates that an error message lists.
MAX_CANDIDATES = 40

T = TypeVar("T")
U = TypeVar("U")


@dataclass(frozen=True)
class Node:
    """Represent a value in a file, and its position."""

    origin: str  # The file as shown to the user, or "--set streams".
    line: int | None  # None if the value is not from a file.
    key: str  # The path of keys to the value: matrices[0].factors.cc
    text: str | None = None  # The text of a scalar; None for mappings, lists and null.
    items: tuple[Node, ...] | None = None  # The items of a list.
    fields: Mapping[str, Node] | None = None  # The values of a mapping.
    keys: Mapping[str, int] = field(default_factory=dict)  # The line of each key of a mapping.

    @property
    def where(self) -> str:
        """Return the position as file:line: key."""
        line = self.origin if self.line is None else f"{self.origin}:{self.line}"
        return f"{line}: {self.key}" if self.key else line

    @property
    def type_phrase(self) -> str:
        """Describe the type of the value, with its article."""
        if self.fields is not None:
            return "a mapping"
        if self.items is not None:
            return "a list"
        return "nothing" if self.text is None else "a value"

    def changed(self, change: Callable[[str, Node], Node]) -> Node:
        """Return the node with changed children; `change` gets a child's key ("" in a list)."""
        fields = self.fields and {key: change(key, child) for key, child in self.fields.items()}
        items = self.items and tuple(change("", child) for child in self.items)
        return dataclasses.replace(self, fields=fields, items=items)

    def to_plain_values(self, scalar: Callable[[str], Any]) -> Any:
        """Return the value as texts, lists and mappings; `scalar` converts the texts."""
        if self.text is not None:
            return scalar(self.text)
        if self.fields is not None:
            return {key: child.to_plain_values(scalar) for key, child in self.fields.items()}
        return [child.to_plain_values(scalar) for child in self.items or ()]

    def bad(self, problem: str) -> BadInput:
        return BadInput(f"{self.where}: {problem}")

    def bad_value(self, problem: str) -> BadInput:
        return BadInput(f"{self.where} {quoted(self.text or '')}: {problem}")


# -- files to nodes


def load_document(path: Path) -> Node:
    """Return the root of a YAML file. Raises BadInput."""
    return parse_document(load_text(path, MAX_BYTES), display_path(path))


def load_text(path: Path, max_bytes: int) -> str:
    """Return a file's text without its byte order mark. Raises BadInput."""
    label = display_path(path)
    try:
        if not stat.S_ISREG(path.stat().st_mode):
            raise BadInput(f"{label}: not a file")
        with path.open("rb") as file:
            data = file.read(max_bytes + 1)
    except (OSError, ValueError) as error:  # A NUL in the path raises ValueError.
        raise BadInput(f"{label}: {getattr(error, 'strerror', None) or error}") from None
    if len(data) > max_bytes:
        raise BadInput(f"{label}: larger than any such file should be ({max_bytes} bytes)")
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise BadInput(f"{label}:{line}: not UTF-8 text") from None


def is_path(name_or_path: str) -> bool:
    """Return whether the text is the path of a file, and not a name in one of gostlab's folders."""
    return "/" in name_or_path or name_or_path.strip().endswith((".yaml", ".yml"))


def find_document(name_or_path: str, folder: Path, what: str, beside: Path = Path()) -> Path:
    """Return the file that a name in a folder, or a path, refers to. Raises BadInput.

    `beside` is the folder of the file that contains the path: the path may be relative to it.
    """
    name = name_or_path.strip()
    if is_path(name):
        path = first_file(Path(name), beside / name)
        if path is None:
            raise BadInput(f"{what} {quoted(name)}: no such file")
        return path
    path = first_file(*(directory / f"{name}.yaml" for directory in folders.search_paths(folder)))
    if path is None:
        advice = suggest_name(name, names_in(folder))
        raise BadInput(f"{what} {quoted(name)}: not in {folder.name}/ ({advice})")
    return path


def first_file(*paths: Path) -> Path | None:
    """Return the first path that exists; a path that no file can have never does."""
    return next((path for path in paths if os.path.exists(str(path).replace("\0", ""))), None)


def names_in(folder: Path) -> list[str]:
    """Return the names of the YAML files in a folder, sorted."""
    files = [
        path for directory in folders.search_paths(folder) for path in directory.glob("*.yaml")
    ]
    return sorted({path.stem for path in files})


def display_path(path: Path) -> str:
    """Return a path as the user would type it from the current directory."""
    try:
        return os.path.relpath(path) if path.resolve().is_relative_to(Path.cwd()) else str(path)
    except (OSError, ValueError, RuntimeError):
        return quoted(str(path))


def parse_document(text: str, origin: str, *, line_numbers: bool = True) -> Node:
    """Return the root of a YAML text. Raises BadInput."""
    if len(text) > MAX_BYTES:
        raise BadInput(f"{origin}: larger than any such text should be")
    # libyaml's parser is ten times faster than PyYAML's own; Debian packages include it.
    loader: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    try:
        return Parser(yaml.parse(text, Loader=loader), origin, line_numbers).root()
    except yaml.YAMLError as error:
        mark: Any = getattr(error, "problem_mark", None) or getattr(error, "context_mark", None)
        problem = getattr(error, "problem", None) or getattr(error, "reason", None) or "not YAML"
        line = None if mark is None else mark.line + 1
        # The text has a character that YAML forbids.
        if isinstance(error, yaml.reader.ReaderError):
            line = 1 + text[: character_index(text, error)].count("\n")
        where = f"{origin}:{line}" if line is not None and line_numbers else origin
        if mark is not None and text[mark.index : mark.index + 1] == "\t":
            problem = "a tab where spaces should be"
        raise BadInput(f"{where}: not YAML: {problem}") from None
    except (ValueError, OverflowError) as error:
        # PyYAML does not catch some errors, such as those of characters beyond Unicode.
        where = origin
        if isinstance(error, UnicodeEncodeError) and line_numbers:
            line = 1 + text[: error.start].count("\n")
            where = f"{origin}:{line}"
        raise BadInput(f"{where}: not YAML: {error}") from None


def character_index(text: str, error: Any) -> int:
    """Return the index of the character that YAML forbids; libyaml reports it in bytes."""
    if error.encoding == "unicode":
        return int(error.position)
    return len(text.encode("utf-8", "replace")[: error.position].decode("utf-8", "ignore"))


class Parser:
    """Build nodes from YAML's events, up to a maximum depth and number."""

    def __init__(self, events: Iterator[Any], origin: str, line_numbers: bool) -> None:
        self._events = events
        self._origin = origin
        self._line_numbers = line_numbers
        self._count = 0

    def root(self) -> Node:
        """Return the value of the only document. Raises BadInput."""
        root = None
        while not isinstance(event := self._next(), yaml.StreamEndEvent):
            if isinstance(event, yaml.DocumentStartEvent) and root is not None:
                self._refuse(event, "a second YAML document (one per file)")
            if isinstance(event, yaml.NodeEvent):
                root = self._value(event, "", 0)
        if root is None:
            raise BadInput(f"{self._origin}: empty")
        return root

    def _value(self, event: Any, key: str, depth: int) -> Node:
        line = event.start_mark.line + 1 if self._line_numbers else None
        if isinstance(event, yaml.ScalarEvent):
            is_null = event.implicit[0] and event.value in NULLS
            return Node(self._origin, line, key, text=None if is_null else event.value)
        if depth >= MAX_DEPTH:
            self._refuse(event, f"nested more than {MAX_DEPTH} deep")
        if isinstance(event, yaml.SequenceStartEvent):
            items: list[Node] = []
            while not isinstance(inner := self._next(), yaml.SequenceEndEvent):
                items.append(self._value(inner, f"{key}[{len(items)}]", depth + 1))
            return Node(self._origin, line, key, items=tuple(items))
        fields: dict[str, Node] = {}
        lines: dict[str, int] = {}
        while not isinstance(name := self._next(), yaml.MappingEndEvent):
            if not isinstance(name, yaml.ScalarEvent):
                self._refuse(name, "a mapping or list where a key should be")
            inner_key = join_key_path(key, name.value)
            if name.value in lines:
                first = lines[name.value]
                self._refuse(name, f"{inner_key}: written twice (first in line {first})")
            mark: Any = name.start_mark
            lines[name.value] = mark.line + 1
            fields[name.value] = self._value(self._next(), inner_key, depth + 1)
        return Node(self._origin, line, key, fields=fields, keys=lines)

    def _next(self) -> Any:
        event = next(self._events)
        self._count += 1
        if self._count > MAX_VALUES:
            self._refuse(event, f"more than {MAX_VALUES} values")
        if isinstance(event, yaml.AliasEvent):
            no_alias = "YAML aliases are not read here (write the value out)"
            self._refuse(event, f"*{event.anchor}: {no_alias}")
        if getattr(event, "tag", None) not in (None, "!"):
            no_tag = "YAML tags are not read here (write the plain value)"
            self._refuse(event, f"{quoted(event.tag)}: {no_tag}")
        return event

    def _refuse(self, event: Any, problem: str) -> NoReturn:
        line = f":{event.start_mark.line + 1}" if self._line_numbers else ""
        raise BadInput(f"{self._origin}{line}: {problem}")


def join_key_path(key: str, name: str) -> str:
    field = quoted(name)[1:-1]
    return f"{key}.{field}" if key else field


# -- nodes to values

JsonSchema = dict[str, Any]
# The JSON Schema of a value; a function if it is known only on request.
Schema = JsonSchema | Callable[[], JsonSchema]


class Reader(Generic[T]):
    """Read one type of value from a node, and describe the accepted values as JSON Schema.

    The reader also rejects what a schema cannot express. `unit` tells the user how to write a
    value.
    """

    def __init__(self, take: Callable[[Node], T], schema: Schema, unit: str = "") -> None:
        self._take = take
        self._schema = schema
        self.unit = unit
        self.__doc__ = take.__doc__

    @property
    def schema(self) -> JsonSchema:
        return dict(self._schema() if callable(self._schema) else self._schema)

    def __call__(self, node: Node) -> T:
        """Return the value. Raises BadInput."""
        return self._take(node)

    def of(self, origin: str, text: str) -> T:
        """Return the value of a text from outside a file, such as an option's. Raises BadInput."""
        return self(Node(origin, None, "", text=text))

    def to(self, make: Callable[[T], U]) -> Reader[U]:
        return Reader(lambda node: make(self(node)), self._schema, self.unit)


def takes(schema: Schema, unit: str = "") -> Callable[[Callable[[Node], T]], Reader[T]]:
    """Return a decorator that turns a function of a node into a Reader with this schema."""
    return lambda take: Reader(take, schema, unit)


def as_written(schema: Schema) -> Reader[Node]:
    """Return a reader that returns the node itself, to be read later."""
    return Reader(lambda node: node, schema)


@dataclass(frozen=True)
class KeySchema:
    """Represent a key that a mapping may have: its reader, and its description in the manual."""

    read: Reader[Any]
    says: str = ""  # The description, without the unit.
    example: str = ""  # An example value, as YAML.
    unit: str = ""  # How to write a value; the reader's unit by default.
    default: Any = None
    required: bool = False

    def __post_init__(self) -> None:
        object.__setattr__(self, "unit", self.unit or self.read.unit)


NEEDED: Any = object()


def key(
    read: Reader[Any],
    says: str = "",
    example: str = "",
    unit: str = "",
    default: Any = NEEDED,
    named: str = "",
) -> Any:
    """Declare a dataclass field as a key of a file, `named`; it is required without a default."""
    needed = default is NEEDED
    value = None if needed else default
    schema = KeySchema(read, says, example, unit, value, required=needed)
    return field(default_factory=lambda: value, metadata={"key": schema, "named": named})


@cache
def key_fields(cls: Any) -> dict[str, dataclasses.Field[Any]]:
    """Return the dataclass fields that are keys of a file, by key, in their order."""
    keyed = [item for item in dataclasses.fields(cls) if "key" in item.metadata]
    return {item.metadata["named"] or item.name: item for item in keyed}


def keys_of(cls: Any) -> dict[str, KeySchema]:
    return {name: field_.metadata["key"] for name, field_ in key_fields(cls).items()}


def record_reader(cls: type[T], check: Callable[[Node, T], None] | None = None) -> Reader[T]:
    """Return a reader of a mapping as a dataclass; `check` rejects inconsistent values."""

    dataclass_: Any = cls

    def take(node: Node) -> T:
        values = read_mapping(node, keys_of(dataclass_))
        named = {field_.name: values[name] for name, field_ in key_fields(dataclass_).items()}
        result: T = cls(**named)
        if check is not None:
            check(node, result)
        return result

    return Reader(take, lambda: mapping_schema(keys_of(dataclass_)))


def mapping_reader(fields: Mapping[str, KeySchema]) -> Reader[dict[str, Any]]:
    """Return a reader of a mapping with a table of fields; the result holds all of them."""
    return Reader(lambda node: read_mapping(node, fields), lambda: mapping_schema(fields))


def mapping_schema(fields: Mapping[str, KeySchema]) -> JsonSchema:
    return {
        "type": "object",
        "properties": {name: field_schema(schema) for name, schema in fields.items()},
        "required": [name for name, schema in fields.items() if schema.required],
        "additionalProperties": False,
    }


def document_schema(title: str, fields: Mapping[str, KeySchema]) -> JsonSchema:
    dialect = "https://json-schema.org/draft/2020-12/schema"
    return {"$schema": dialect, "title": title, **mapping_schema(fields)}


def field_schema(schema: KeySchema) -> JsonSchema:
    """Return the JSON Schema of a field's value, with the description that an editor shows."""
    description = ". ".join(part for part in (schema.says, schema.unit) if part)
    text = f"{description} (like {schema.example})" if schema.example else description
    return {**schema.read.schema, **({"description": text} if description else {})}


def read_mapping(node: Node, fields: Mapping[str, KeySchema]) -> dict[str, Any]:
    """Return a mapping's values by a table of fields, with defaults. Raises BadInput."""
    given = known_fields(node, fields)
    values = {}
    for name, schema in fields.items():
        if name in given:
            values[name] = schema.read(given[name])
        elif schema.required:
            raise node.bad(f"{name} is missing")
        else:
            values[name] = schema.default
    return values


def split_name_values(option: str, pairs: Sequence[str], form: str) -> Iterator[tuple[str, str]]:
    """Yield the names and values of arguments like name=value. Raises BadInput."""
    for pair in pairs:
        name, equals, value = pair.partition("=")
        if not (name and equals and value):
            raise BadInput(f"{option} {quoted(pair)}: not of the form {form}")
        yield name, value


def known_fields(node: Node, known: Iterable[str]) -> Mapping[str, Node]:
    """Return a mapping's nodes by key. Raises BadInput for an unknown key."""
    given = mapping_of(node)
    for name in given:
        if name not in known:
            raise unknown_key(node, name, known)
    return given


def mapping_of(node: Node) -> Mapping[str, Node]:
    """Return a mapping's nodes by key. Raises BadInput."""
    if node.fields is None:
        raise node.bad(f"{node.type_phrase} where a mapping (key: value) should be")
    return node.fields


def by_name_reader(
    name: re.Pattern[str], read: Reader[T], what: str, example: str, *, least: int = 1
) -> Reader[dict[str, T]]:
    """Return a reader of a mapping from user-chosen names to values; `what` describes a value."""

    def read_named(node: Node) -> dict[str, T]:
        given = mapping_of(node)
        if len(given) < least:
            raise node.bad(f"no {what} (like {example})")
        for key_ in given:
            if not name.fullmatch(key_):
                raise node.bad(f"{quoted(key_)}: no name of a {what} (like {example})")
        return {key_: read(value) for key_, value in given.items()}

    return Reader(
        read_named,
        lambda: {
            "type": "object",
            "patternProperties": {f"^({name.pattern})$": read.schema},
            "additionalProperties": False,
            "minProperties": least,
        },
    )


def scalar_or_mapping(scalar: Reader[T], table: Reader[U]) -> Reader[T | U]:
    """Return a reader that reads a mapping with `table`, and any other value with `scalar`."""

    def read_either(node: Node) -> T | U:
        return scalar(node) if node.fields is None else table(node)

    def schema() -> JsonSchema:
        parts = (scalar.schema, table.schema)
        return {"anyOf": [inner for part in parts for inner in part.get("anyOf", [part])]}

    return Reader(read_either, schema, scalar.unit)


def list_of(read: Reader[T], *, least: int = 0) -> Reader[tuple[T, ...]]:

    def read_list(node: Node) -> tuple[T, ...]:
        if node.items is None:
            raise node.bad(f"{node.type_phrase} where a list ([a, b]) should be")
        if len(node.items) < least:
            raise node.bad(f"at least {least} should be in this list")
        return tuple(read(item) for item in node.items)

    return Reader(
        read_list, lambda: {"type": "array", "items": read.schema, "minItems": least}, read.unit
    )


def unknown_key(node: Node, name: str, known: Iterable[str]) -> BadInput:
    """Return the error for an unknown key, with the most similar known one."""
    line = node.keys.get(name, node.line)
    where = f"{node.origin}:{line}" if line is not None and node.line is not None else node.origin
    return BadInput(
        f"{where}: {join_key_path(node.key, name)}: unknown key ({suggest_name(name, known)})"
    )


# The terms of Mininet, tc and iperf3 for gostlab's settings.
NAMES_ELSEWHERE = {
    "bandwidth": "rate",
    "bw": "rate",
    "congestion": "cc",
    "latency": "delay",
    "limit": "buffer",
    "max_queue_size": "buffer",
    "parallel": "streams",
    "qdisc": "queue",
    "queue_size": "buffer",
    "time": "duration",
}


def closest(name: str, known: Sequence[str]) -> str | None:
    """Return the known name that is most similar to an unknown one, ignoring dashes, or None."""
    lowered = name[:60].lower()
    synonym = NAMES_ELSEWHERE.get(lowered.lstrip("-").replace("-", "_"))
    translated = [candidate for candidate in known if candidate.lstrip("-") == synonym]
    return next(iter(translated or difflib.get_close_matches(lowered, known, n=1)), None)


def suggest_name(name: str, known: Iterable[str]) -> str:
    """Return the advice for an unknown name: the most similar name, or all names."""
    names = [str(name_) for name_ in known]
    if close := closest(name, names):
        return f"did you mean {close}?"
    beginnings = list(dict.fromkeys(re.sub(r"\..*", ".…", name_) for name_ in names))
    omitted = len(beginnings) - MAX_CANDIDATES
    listed = [*beginnings[:MAX_CANDIDATES], f"and {omitted} more"] if omitted > 0 else beginnings
    return f"known: {', '.join(listed)}"


def texts_of(fields: Mapping[str, KeySchema]) -> Reader[dict[str, str]]:
    """Return a reader of a mapping of texts, which omits absent ones."""
    return mapping_reader(fields).to(
        lambda given: {key: text for key, text in given.items() if text}
    )


@takes({"type": ["string", "number"], "pattern": r"\S"})
def text_of(node: Node) -> str:
    """Return a scalar's text, which may not be empty. Raises BadInput."""
    if node.text is None or not node.text.strip():
        given = "an empty text" if node.text is not None else node.type_phrase
        raise node.bad(f"{given} where a value should be")
    return node.text.strip()


@takes({"type": "object", "additionalProperties": text_of.schema})
def TEXTS_BY_NAME(node: Node) -> dict[str, str]:
    """Return texts by user-chosen names. Raises BadInput."""
    return {name: text_of(value) for name, value in mapping_of(node).items()}


def text_matching(pattern: str, problem: str) -> Reader[str]:
    """Return a reader of a text that matches a pattern; `problem` is the error for other texts."""

    def read_text(node: Node) -> str:
        text = text_of(node)
        if not re.fullmatch(pattern, text):
            raise node.bad_value(problem)
        return text

    return Reader(read_text, {"type": "string", "pattern": rf"^\s*({pattern})\s*$"})


def quantity_reader(read: Callable[[str], T], pattern: str, unit: str = "") -> Reader[T]:
    """Return a reader of a scalar by a function of spec.units; `pattern` matches its text."""

    def read_quantity(node: Node) -> T:
        text = text_of(node)
        try:
            return read(text)
        except UnitError as error:
            raise node.bad_value(str(error)) from None

    return Reader(read_quantity, {"type": "string", "pattern": pattern}, unit)


def bounded_quantity(
    read: Reader[Any],
    least: str,
    most: str,
    to: Callable[[Any], T],
    *,
    per: int | Fraction = 1,
    step: str = "",
    words: Mapping[str, Any] = {},
    unit: str = "",
) -> Reader[T]:
    r"""Return a reader of a quantity from `least` to `most`, both written as the user would.

    to converts the value, of which `per` are one unit.
    step: the value must be a multiple of it.
    words: texts that are accepted instead, and their values.
    """
    bounds = f"between {least} and {most}" + (f", or finer than {step}" if step else "")
    problem = f"not {' or '.join([*words, bounds])}"
    low, high, fineness = (
        Fraction(read.of("", text)) if text else Fraction(0) for text in (least, most, step)
    )

    def take(node: Node) -> T:
        if node.text is not None and node.text in words:
            value: T = words[node.text]
            return value
        exact = Fraction(read(node))
        if not low <= exact <= high or (fineness and (exact / fineness).denominator != 1):
            raise node.bad_value(problem)
        return to(exact * per)

    pattern = "|".join([*(rf"^\s*{word}\s*$" for word in words), read.schema["pattern"]])
    return Reader(take, {"type": "string", "pattern": pattern}, unit or read.unit)


def whole_number(least: int, most: int) -> Reader[int]:

    def read_whole(node: Node) -> int:
        text = text_of(node)
        digits = text.removeprefix("-")
        if len(text) > 19 or not digits.isascii() or not digits.isdigit():
            raise node.bad_value("not a whole number")
        return errors.require_bounds(
            f"{node.where} {quoted(node.text or '')}", int(text), least, most
        )

    return Reader(read_whole, {"type": "integer", "minimum": least, "maximum": most})


def one_of(*words: str) -> Reader[str]:
    return one_of_names(lambda: words)


def one_of_names(names: Callable[[], Iterable[str]]) -> Reader[str]:
    """Return a reader of one of the names that are known when it reads."""

    def read_name(node: Node) -> str:
        text, known = text_of(node), list(names())
        if text not in known:
            raise node.bad_value(f"not known here ({suggest_name(text, known)})")
        return text

    return Reader(read_name, lambda: {"enum": list(names())})


def number_reader(least: float, most: float) -> Reader[Decimal]:
    """Return a reader of a decimal number, exactly as written: 1673.54."""

    def read_number(node: Node) -> Decimal:
        text = text_of(node)
        if not re.fullmatch(r"-?[0-9]{1,12}(\.[0-9]{1,12})?", text):
            raise node.bad_value("not a plain number like 1673.54")
        return errors.require_bounds(f"{node.where} {quoted(text)}", Decimal(text), least, most)

    bounds = {"minimum": least, "maximum": most}
    finite = {name: bound for name, bound in bounds.items() if bound != math.inf}
    return Reader(read_number, {"type": "number", **finite})


decimal = number_reader(0, math.inf)
NUMBER = decimal.to(float)
COUNT = whole_number(0, 10**9)


yes_no = Reader(one_of("true", "false").to(lambda word: word == "true"), {"type": "boolean"})
