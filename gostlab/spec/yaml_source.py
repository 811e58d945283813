"""YAML files that people write, read strictly, every value with its line.

Scalars stay text until a field's own reader takes them, so that `off`, `1e3` or `12:30` mean what
the field says and not what YAML's type guessing says. Duplicate keys, unknown keys, aliases, tags,
depth and size beyond reason are refused. Whatever the text, the only error that comes out is
BadInput.
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
# Of the words that could have been meant, so many are named.
MAX_NAMED = 40

T = TypeVar("T")
U = TypeVar("U")


@dataclass(frozen=True)
class Node:
    """A value in a file, and where it stands."""

    origin: str  # the file as shown to people, or "--set streams"
    line: int | None  # None: not in a file
    key: str  # the path of keys to it: matrices[0].factors.cc
    text: str | None = None  # of a scalar; None for mappings, lists and null
    items: tuple[Node, ...] | None = None  # of a list
    fields: Mapping[str, Node] | None = None  # of a mapping
    keys: Mapping[str, int] = field(default_factory=dict)  # of a mapping: the line of each key

    @property
    def where(self) -> str:
        """file:line: key"""
        line = self.origin if self.line is None else f"{self.origin}:{self.line}"
        return f"{line}: {self.key}" if self.key else line

    @property
    def kind(self) -> str:
        """What stands there, in a word."""
        if self.fields is not None:
            return "a mapping"
        if self.items is not None:
            return "a list"
        return "nothing" if self.text is None else "a value"

    def changed(self, change: Callable[[str, Node], Node]) -> Node:
        """The same with each of what is in it changed, which knows its key there ("" in a list)."""
        fields = self.fields and {key: change(key, each) for key, each in self.fields.items()}
        items = self.items and tuple(change("", each) for each in self.items)
        return dataclasses.replace(self, fields=fields, items=items)

    def plain(self, scalar: Callable[[str], Any]) -> Any:
        """What stands there as texts, lists and mappings; scalar: what becomes of a text."""
        if self.text is not None:
            return scalar(self.text)
        if self.fields is not None:
            return {key: each.plain(scalar) for key, each in self.fields.items()}
        return [each.plain(scalar) for each in self.items or ()]

    def bad(self, problem: str) -> BadInput:
        return BadInput(f"{self.where}: {problem}")

    def bad_value(self, problem: str) -> BadInput:
        return BadInput(f"{self.where} {quoted(self.text or '')}: {problem}")


# -- from a file to nodes


def load_document(path: Path) -> Node:
    """The root of a YAML file. Raises BadInput."""
    return parse_document(load_text(path, MAX_BYTES), shown_path(path))


def load_text(path: Path, most_bytes: int) -> str:
    """A file's text, without a byte order mark. Raises BadInput."""
    shown = shown_path(path)
    try:
        if not stat.S_ISREG(path.stat().st_mode):
            raise BadInput(f"{shown}: not a file")
        with path.open("rb") as file:
            data = file.read(most_bytes + 1)
    except (OSError, ValueError) as error:  # ValueError: a NUL in the path
        raise BadInput(f"{shown}: {getattr(error, 'strerror', None) or error}") from None
    if len(data) > most_bytes:
        raise BadInput(f"{shown}: larger than any such file should be ({most_bytes} bytes)")
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise BadInput(f"{shown}:{line}: not UTF-8 text") from None


def is_path(name_or_path: str) -> bool:
    """Whether somebody means a file of their own, and not a name in one of the lab's folders."""
    return "/" in name_or_path or name_or_path.strip().endswith((".yaml", ".yml"))


def find_document(name_or_path: str, folder: Path, what: str, beside: Path = Path()) -> Path:
    """The file that a name in a folder, or a path, stands for; `beside`: the folder of the file
    that says so, from where a path may be too. Raises BadInput.
    """
    written = name_or_path.strip()
    if is_path(written):
        found = first_file(Path(written), beside / written)
        if found is None:
            raise BadInput(f"{what} {quoted(written)}: no such file")
        return found
    found = first_file(*(place / f"{written}.yaml" for place in folders.places(folder)))
    if found is None:
        meant_one = meant(written, names_in(folder))
        raise BadInput(f"{what} {quoted(written)}: not in {folder.name}/ ({meant_one})")
    return found


def first_file(*paths: Path) -> Path | None:
    """The first that is there, if it is a name that a file can have."""
    return next((path for path in paths if os.path.exists(str(path).replace("\0", ""))), None)


def names_in(folder: Path) -> list[str]:
    """The names of the YAML files in a folder, sorted."""
    files = [path for place in folders.places(folder) for path in place.glob("*.yaml")]
    return sorted({path.stem for path in files})


def shown_path(path: Path) -> str:
    """A path as its reader would type it from where they are."""
    try:
        return os.path.relpath(path) if path.resolve().is_relative_to(Path.cwd()) else str(path)
    except (OSError, ValueError, RuntimeError):
        return quoted(str(path))


def parse_document(text: str, origin: str, *, line_numbers: bool = True) -> Node:
    """The root of a YAML text. Raises BadInput."""
    if len(text) > MAX_BYTES:
        raise BadInput(f"{origin}: larger than any such text should be")
    # libyaml's parser is ten times faster than the one in Python; Debian has it.
    loader: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    try:
        return Parser(yaml.parse(text, Loader=loader), origin, line_numbers).root()
    except yaml.YAMLError as error:
        mark: Any = getattr(error, "problem_mark", None) or getattr(error, "context_mark", None)
        problem = getattr(error, "problem", None) or getattr(error, "reason", None) or "not YAML"
        line = None if mark is None else mark.line + 1
        if isinstance(error, yaml.reader.ReaderError):  # a character that no YAML has
            line = 1 + text[: character_index(text, error)].count("\n")
        where = f"{origin}:{line}" if line is not None and line_numbers else origin
        if mark is not None and text[mark.index : mark.index + 1] == "\t":
            problem = "a tab where spaces should be"
        raise BadInput(f"{where}: not YAML: {problem}") from None
    except (ValueError, OverflowError) as error:
        # PyYAML lets some through, as of a character beyond Unicode.
        where = origin
        if isinstance(error, UnicodeEncodeError) and line_numbers:
            line = 1 + text[: error.start].count("\n")
            where = f"{origin}:{line}"
        raise BadInput(f"{where}: not YAML: {error}") from None


def character_index(text: str, error: Any) -> int:
    """Return where in a text a character is that YAML does not allow. libyaml counts bytes."""
    if error.encoding == "unicode":
        return int(error.position)
    return len(text.encode("utf-8", "replace")[: error.position].decode("utf-8", "ignore"))


class Parser:
    """Builds nodes from YAML's events, to a bounded depth and number."""

    def __init__(self, events: Iterator[Any], origin: str, line_numbers: bool) -> None:
        self._events = events
        self._origin = origin
        self._line_numbers = line_numbers
        self._count = 0

    def root(self) -> Node:
        """The one document's value. Raises BadInput."""
        found = None
        while not isinstance(event := self._next(), yaml.StreamEndEvent):
            if isinstance(event, yaml.DocumentStartEvent) and found is not None:
                self._refuse(event, "a second YAML document (one per file)")
            if isinstance(event, yaml.NodeEvent):
                found = self._value(event, "", 0)
        if found is None:
            raise BadInput(f"{self._origin}: empty")
        return found

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
            inner_key = join(key, name.value)
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


def join(key: str, name: str) -> str:
    """The key path of a field."""
    shown = quoted(name)[1:-1]
    return f"{key}.{shown}" if key else shown


# -- from nodes to values

# What a value looks like; a function, where that is known only when somebody asks.
Schema = Mapping[str, Any] | Callable[[], Mapping[str, Any]]


class Reader(Generic[T]):
    """Reads one kind of value from a node, and knows what it takes as JSON Schema; what a schema
    cannot say, only the reader refuses. `unit`: how people write its values.
    """

    def __init__(self, take: Callable[[Node], T], schema: Schema, unit: str = "") -> None:
        self._take = take
        self._schema = schema
        self.unit = unit
        self.__doc__ = take.__doc__

    @property
    def schema(self) -> dict[str, Any]:
        return dict(self._schema() if callable(self._schema) else self._schema)

    def __call__(self, node: Node) -> T:
        """The value. Raises BadInput."""
        return self._take(node)

    def of(self, origin: str, text: str) -> T:
        """The value of a text that stands in no file, but after --rate. Raises BadInput."""
        return self(Node(origin, None, "", text=text))

    def to(self, make: Callable[[T], U]) -> Reader[U]:
        """Reads the same, and makes another value of it."""
        return Reader(lambda node: make(self(node)), self._schema, self.unit)


def takes(schema: Schema, unit: str = "") -> Callable[[Callable[[Node], T]], Reader[T]]:
    """Makes a function that reads a node into a Reader with this schema."""
    return lambda take: Reader(take, schema, unit)


def as_written(schema: Schema) -> Reader[Node]:
    """Takes a node as it is, to be read later."""
    return Reader(lambda node: node, schema)


@dataclass(frozen=True)
class KeySchema:
    """A key that a mapping may have: who reads it, and what a manual says of it."""

    read: Reader[Any]
    says: str = ""  # what it means, in a sentence without its unit
    example: str = ""  # a value, as YAML
    unit: str = ""  # how its value is written; the reader's
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
    """A dataclass's field that is a key of a file (`named`); without a default it must be there."""
    needed = default is NEEDED
    value = None if needed else default
    each = KeySchema(read, says, example, unit, value, required=needed)
    return field(default_factory=lambda: value, metadata={"key": each, "named": named})


@cache
def key_fields(kind: Any) -> dict[str, dataclasses.Field[Any]]:
    """A dataclass's fields that are keys of a file, by the key, in its order."""
    made = [each for each in dataclasses.fields(kind) if "key" in each.metadata]
    return {each.metadata["named"] or each.name: each for each in made}


def keys_of(kind: Any) -> dict[str, KeySchema]:
    return {name: each.metadata["key"] for name, each in key_fields(kind).items()}


def record(kind: type[T], check: Callable[[Node, T], None] | None = None) -> Reader[T]:
    """Reads a mapping as a dataclass of its keys; `check` refuses what does not go together."""

    made: Any = kind

    def take(node: Node) -> T:
        values = read_mapping(node, keys_of(made))
        named = {each.name: values[name] for name, each in key_fields(made).items()}
        found: T = kind(**named)
        if check is not None:
            check(node, found)
        return found

    return Reader(take, lambda: mapping_schema(keys_of(made)))


def mapping(fields: Mapping[str, KeySchema]) -> Reader[dict[str, Any]]:
    """Reads a mapping by a table of fields: a dict of all of them."""
    return Reader(lambda node: read_mapping(node, fields), lambda: mapping_schema(fields))


def mapping_schema(fields: Mapping[str, KeySchema]) -> dict[str, Any]:
    return {
        "type": "object",
        "properties": {name: field_schema(each) for name, each in fields.items()},
        "required": [name for name, each in fields.items() if each.required],
        "additionalProperties": False,
    }


def document_schema(title: str, fields: Mapping[str, KeySchema]) -> dict[str, Any]:
    dialect = "https://json-schema.org/draft/2020-12/schema"
    return {"$schema": dialect, "title": title, **mapping_schema(fields)}


def field_schema(each: KeySchema) -> dict[str, Any]:
    """The JSON Schema of a field's value, with what an editor shows of it."""
    described = ". ".join(part for part in (each.says, each.unit) if part)
    example = f"{described} (like {each.example})" if each.example else described
    return {**each.read.schema, **({"description": example} if described else {})}


def read_mapping(node: Node, fields: Mapping[str, KeySchema]) -> dict[str, Any]:
    """A mapping's values by a table of fields; every field is in the answer. Raises BadInput."""
    given = known_fields(node, fields)
    found = {}
    for name, wanted in fields.items():
        if name in given:
            found[name] = wanted.read(given[name])
        elif wanted.required:
            raise node.bad(f"{name} is missing")
        else:
            found[name] = wanted.default
    return found


def named_values(option: str, pairs: Sequence[str], form: str) -> Iterator[tuple[str, str]]:
    """Names and values of words like name=value. Raises BadInput for what is not of the form."""
    for pair in pairs:
        name, equals, value = pair.partition("=")
        if not (name and equals and value):
            raise BadInput(f"{option} {quoted(pair)}: not of the form {form}")
        yield name, value


def known_fields(node: Node, known: Iterable[str]) -> Mapping[str, Node]:
    """A mapping's nodes by key. Raises BadInput for a key that is not known."""
    given = mapping_of(node)
    for name in given:
        if name not in known:
            raise unknown_key(node, name, known)
    return given


def mapping_of(node: Node) -> Mapping[str, Node]:
    """A mapping's nodes by key. Raises BadInput."""
    if node.fields is None:
        raise node.bad(f"{node.kind} where a mapping (key: value) should be")
    return node.fields


def by_name(
    name: re.Pattern[str], read: Reader[T], what: str, like: str, *, least: int = 1
) -> Reader[dict[str, T]]:
    """Reads a mapping of one kind of value under names that people choose: `what` is named."""

    def read_named(node: Node) -> dict[str, T]:
        given = mapping_of(node)
        if len(given) < least:
            raise node.bad(f"no {what} (like {like})")
        for each in given:
            if not name.fullmatch(each):
                raise node.bad(f"{quoted(each)}: no name of a {what} (like {like})")
        return {each: read(value) for each, value in given.items()}

    return Reader(
        read_named,
        lambda: {
            "type": "object",
            "patternProperties": {f"^({name.pattern})$": read.schema},
            "additionalProperties": False,
            "minProperties": least,
        },
    )


def either(scalar: Reader[T], table: Reader[U]) -> Reader[T | U]:
    """Reads a mapping as one thing, and anything else as another."""

    def read_either(node: Node) -> T | U:
        return scalar(node) if node.fields is None else table(node)

    def schema() -> dict[str, Any]:
        parts = (scalar.schema, table.schema)
        return {"anyOf": [inner for each in parts for inner in each.get("anyOf", [each])]}

    return Reader(read_either, schema, scalar.unit)


def list_of(read: Reader[T], *, least: int = 0) -> Reader[tuple[T, ...]]:

    def read_list(node: Node) -> tuple[T, ...]:
        if node.items is None:
            raise node.bad(f"{node.kind} where a list ([a, b]) should be")
        if len(node.items) < least:
            raise node.bad(f"at least {least} should be in this list")
        return tuple(read(item) for item in node.items)

    return Reader(
        read_list, lambda: {"type": "array", "items": read.schema, "minItems": least}, read.unit
    )


def unknown_key(node: Node, name: str, known: Iterable[str]) -> BadInput:
    """The error for a key that nobody reads, with the likeliest one that was meant."""
    line = node.keys.get(name, node.line)
    where = f"{node.origin}:{line}" if line is not None and node.line is not None else node.origin
    return BadInput(f"{where}: {join(node.key, name)}: unknown key ({meant(name, known)})")


# What Mininet, tc and iperf3 call what the lab's settings have by another name.
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
    """Return the known name that an unknown one, with or without dashes, was probably meant for."""
    plain = name[:60].lower()
    other = NAMES_ELSEWHERE.get(plain.lstrip("-").replace("-", "_"))
    translated = [each for each in known if each.lstrip("-") == other]
    return next(iter(translated or difflib.get_close_matches(plain, known, n=1)), None)


def meant(name: str, known: Iterable[str]) -> str:
    """The advice for an unknown word: the likeliest, or all, of which forward.… stands once."""
    words = [str(word) for word in known]
    if close := closest(name, words):
        return f"did you mean {close}?"
    beginnings = list(dict.fromkeys(re.sub(r"\..*", ".…", word) for word in words))
    more = len(beginnings) - MAX_NAMED
    shown = [*beginnings[:MAX_NAMED], f"and {more} more"] if more > 0 else beginnings
    return f"known: {', '.join(shown)}"


def texts_of(fields: Mapping[str, KeySchema]) -> Reader[dict[str, str]]:
    """Reads a mapping of texts, keeping those that are there."""
    return mapping(fields).to(lambda given: {key: text for key, text in given.items() if text})


@takes({"type": ["string", "number"], "pattern": r"\S"})
def text_of(node: Node) -> str:
    """A scalar's text, not empty. Raises BadInput."""
    if node.text is None or not node.text.strip():
        raise node.bad(
            f"{'an empty text' if node.text is not None else node.kind} where a value should be"
        )
    return node.text.strip()


@takes({"type": "object", "additionalProperties": text_of.schema})
def TEXTS_BY_NAME(node: Node) -> dict[str, str]:
    """Texts under any names. Raises BadInput."""
    return {name: text_of(each) for name, each in mapping_of(node).items()}


def text_like(pattern: str, problem: str) -> Reader[str]:
    """Reads a text of a pattern; another is refused with the problem."""

    def read_text(node: Node) -> str:
        text = text_of(node)
        if not re.fullmatch(pattern, text):
            raise node.bad_value(problem)
        return text

    return Reader(read_text, {"type": "string", "pattern": rf"^\s*({pattern})\s*$"})


def quantity(read: Callable[[str], T], pattern: str, unit: str = "") -> Reader[T]:
    """Reads a scalar by one of file.units' readers; `pattern`: what its text looks like."""

    def read_quantity(node: Node) -> T:
        text = text_of(node)
        try:
            return read(text)
        except UnitError as error:
            raise node.bad_value(str(error)) from None

    return Reader(read_quantity, {"type": "string", "pattern": pattern}, unit)


def bounded(
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
    """Reads a quantity from `least` to `most`, both as people write them.

    to     what is made of it, in units of which there are `per` to one
    step   it is so many of these
    words  what may stand there instead, and what it means
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
        found = Fraction(read(node))
        if not low <= found <= high or (fineness and (found / fineness).denominator != 1):
            raise node.bad_value(problem)
        return to(found * per)

    pattern = "|".join([*(rf"^\s*{word}\s*$" for word in words), read.schema["pattern"]])
    return Reader(take, {"type": "string", "pattern": pattern}, unit or read.unit)


def whole_number(least: int, most: int) -> Reader[int]:

    def read_whole(node: Node) -> int:
        text = text_of(node)
        digits = text.removeprefix("-")
        if len(text) > 19 or not digits.isascii() or not digits.isdigit():
            raise node.bad_value("not a whole number")
        return errors.bounded(f"{node.where} {quoted(node.text or '')}", int(text), least, most)

    return Reader(read_whole, {"type": "integer", "minimum": least, "maximum": most})


def one_of(*words: str) -> Reader[str]:
    return one_of_names(lambda: words)


def one_of_names(names: Callable[[], Iterable[str]]) -> Reader[str]:
    """Reads one of the words that are known by then."""

    def read_word(node: Node) -> str:
        text, known = text_of(node), list(names())
        if text not in known:
            raise node.bad_value(f"not known here ({meant(text, known)})")
        return text

    return Reader(read_word, lambda: {"enum": list(names())})


def number(least: float, most: float) -> Reader[Decimal]:
    """Reads a number with a point, exactly as written: 1673.54."""

    def read_number(node: Node) -> Decimal:
        text = text_of(node)
        if not re.fullmatch(r"-?[0-9]{1,12}(\.[0-9]{1,12})?", text):
            raise node.bad_value("not a plain number like 1673.54")
        return errors.bounded(f"{node.where} {quoted(text)}", Decimal(text), least, most)

    bounds = {"minimum": least, "maximum": most}
    finite = {name: bound for name, bound in bounds.items() if bound != math.inf}
    return Reader(read_number, {"type": "number", **finite})


decimal = number(0, math.inf)
NUMBER = decimal.to(float)
COUNT = whole_number(0, 10**9)


yes_no = Reader(one_of("true", "false").to(lambda word: word == "true"), {"type": "boolean"})
