"""YAML files that people write, read strictly, every value with its line.

Scalars stay text until a field's own reader takes them, so that `off`, `1e3` or `12:30` mean what
the field says and not what YAML's type guessing says. Duplicate keys, unknown keys, aliases, tags,
depth and size beyond reason are refused. Whatever the text, the only error that comes out is
BadInput.
"""

from __future__ import annotations

import difflib
import os
import re
import stat
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from decimal import Decimal
from pathlib import Path
from typing import Any, Generic, NoReturn, TypeVar

from gostlab.ask.units import UnitError, quoted
from gostlab.declared.errors import BadInput

MAX_BYTES = 256 * 1024
MAX_DEPTH = 12
MAX_VALUES = 20_000

T = TypeVar("T")


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

    def bad(self, problem: str) -> BadInput:
        """The error for this place."""
        return BadInput(f"{self.where}: {problem}")

    def bad_value(self, problem: str) -> BadInput:
        """The error for this place, with what was written there."""
        return BadInput(f"{self.where} {quoted(self.text or '')}: {problem}")


def load_document(path: Path) -> Node:
    """The root of a YAML file. Raises BadInput."""
    shown = shown_path(path)
    try:
        status = path.stat()
        if not stat.S_ISREG(status.st_mode):
            raise BadInput(f"{shown}: not a file")
        if status.st_size > MAX_BYTES:
            raise BadInput(
                f"{shown}: {status.st_size} bytes: larger than any such file should be"
                f" ({MAX_BYTES})"
            )
        data = path.read_bytes()
    except (OSError, ValueError) as error:  # ValueError: a NUL in the path
        raise BadInput(f"{shown}: {getattr(error, 'strerror', None) or error}") from None
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise BadInput(f"{shown}:{line}: not UTF-8 text") from None
    return parse_document(text, shown)


def is_path(name_or_path: str) -> bool:
    """Whether somebody means a file of their own, and not a name in one of the lab's folders."""
    return "/" in name_or_path or name_or_path.strip().endswith((".yaml", ".yml"))


def find_document(name_or_path: str, folder: Path, what: str) -> Path:
    """The file that a name in a folder, or a path, stands for. Raises BadInput saying what there
    is.
    """
    written = name_or_path.strip()
    if is_path(written):
        if not os.path.exists(written.replace("\0", "")):
            raise BadInput(f"{what} {quoted(written)}: no such file")
        return Path(written)
    if written not in names_in(folder):
        raise BadInput(
            f"{what} {quoted(written)}: not in {folder.name}/ ({meant(written, names_in(folder))})"
        )
    return folder / f"{written}.yaml"


def names_in(folder: Path) -> list[str]:
    """The names of the YAML files in a folder, sorted."""
    return sorted(path.stem for path in folder.glob("*.yaml"))


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
    import yaml  # here: a run, which reads no YAML, imports this module too

    # libyaml's parser is ten times faster than the one in Python; Debian has it.
    loader: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    builder = Builder(origin, line_numbers)
    try:
        for event in yaml.parse(text, Loader=loader):
            builder.take(event)
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None) or getattr(error, "context_mark", None)
        problem = getattr(error, "problem", None) or getattr(error, "reason", None) or "not YAML"
        where = f"{origin}:{mark.line + 1}" if mark is not None and line_numbers else origin
        raise BadInput(f"{where}: not YAML: {problem}") from None
    except (ValueError, OverflowError) as error:
        # PyYAML lets some through, as of a character beyond Unicode.
        raise BadInput(f"{origin}: not YAML: {error}") from None
    if builder.root is None:
        raise BadInput(f"{origin}: empty")
    return builder.root


@dataclass
class Open:
    """A list or mapping that is being read."""

    line: int
    key: str
    items: list[Node] | None = None
    fields: dict[str, Node] | None = None
    keys: dict[str, int] = field(default_factory=dict)
    pending: str | None = None  # a mapping's key that waits for its value


class Builder:
    """Builds nodes from the parser's events, without recursion: depth is the file's choice, not
    ours.
    """

    def __init__(self, origin: str, line_numbers: bool) -> None:
        self._origin = origin
        self._line_numbers = line_numbers
        self._open: list[Open] = []
        self._count = 0
        self.root: Node | None = None

    def take(self, event: Any) -> None:
        """One event of yaml.parse. Raises BadInput."""
        import yaml

        line = event.start_mark.line + 1
        self._count += 1
        if self._count > MAX_VALUES:
            self._refuse(line, f"more than {MAX_VALUES} values")
        if isinstance(event, yaml.AliasEvent):
            self._refuse(
                line, f"*{event.anchor}: YAML aliases are not read here (write the value out)"
            )
        if getattr(event, "tag", None) not in (None, "!"):
            self._refuse(
                line, f"{quoted(event.tag)}: YAML tags are not read here (write the plain value)"
            )
        if isinstance(event, yaml.DocumentStartEvent) and self.root is not None:
            self._refuse(line, "a second YAML document (one per file)")
        if isinstance(event, yaml.ScalarEvent):
            self._take_scalar(event, line)
        elif isinstance(event, (yaml.MappingStartEvent, yaml.SequenceStartEvent)):
            self._start(isinstance(event, yaml.MappingStartEvent), line)
        elif isinstance(event, (yaml.MappingEndEvent, yaml.SequenceEndEvent)):
            done = self._open.pop()
            self._place(
                Node(
                    self._origin,
                    self._shown(done.line),
                    done.key,
                    items=tuple(done.items) if done.items is not None else None,
                    fields=done.fields,
                    keys=done.keys,
                )
            )

    def _take_scalar(self, event: Any, line: int) -> None:
        above = self._open[-1] if self._open else None
        if above is not None and above.fields is not None and above.pending is None:
            name = event.value
            if name in above.fields:
                self._refuse(
                    line,
                    f"{join(above.key, name)}: written twice (first in line {above.keys[name]})",
                )
            above.pending = name
            above.keys[name] = line
            return
        plain_null = event.implicit[0] and event.value in ("", "~", "null", "Null", "NULL")
        self._place(
            Node(
                self._origin,
                self._shown(line),
                self._key(),
                text=None if plain_null else event.value,
            )
        )

    def _start(self, mapping: bool, line: int) -> None:
        above = self._open[-1] if self._open else None
        if above is not None and above.fields is not None and above.pending is None:
            self._refuse(line, "a mapping or list where a key should be")
        if len(self._open) >= MAX_DEPTH:
            self._refuse(line, f"nested more than {MAX_DEPTH} deep")
        self._open.append(
            Open(line, self._key(), items=None if mapping else [], fields={} if mapping else None)
        )

    def _place(self, node: Node) -> None:
        """Put a finished node into what is open."""
        if not self._open:
            self.root = node
            return
        above = self._open[-1]
        if above.items is not None:
            above.items.append(node)
        elif above.fields is not None and above.pending is not None:
            above.fields[above.pending] = node
            above.pending = None

    def _key(self) -> str:
        """The path of keys to the node that comes next."""
        if not self._open:
            return ""
        above = self._open[-1]
        if above.items is not None:
            return f"{above.key}[{len(above.items)}]"
        return join(above.key, above.pending or "")

    def _shown(self, line: int) -> int | None:
        return line if self._line_numbers else None

    def _refuse(self, line: int, problem: str) -> NoReturn:
        raise BadInput(
            f"{self._origin}:{line}: {problem}"
            if self._line_numbers
            else f"{self._origin}: {problem}"
        )


def join(key: str, name: str) -> str:
    """The key path of a field."""
    shown = quoted(name)[1:-1]
    return f"{key}.{shown}" if key else shown


# What a value looks like; a function, where that is known only when somebody asks.
Schema = Mapping[str, Any] | Callable[[], Mapping[str, Any]]


class Reader(Generic[T]):
    """Reads one kind of value from a node, and knows what it takes as JSON Schema.

    What a schema cannot say (a sum, a file that must exist, a range of a quantity) only the reader
    refuses.
    """

    def __init__(self, take: Callable[[Node], T], schema: Schema) -> None:
        self._take = take
        self._schema = schema
        self.__doc__ = take.__doc__

    @property
    def schema(self) -> dict[str, Any]:
        """The JSON Schema of what it takes."""
        return dict(self._schema() if callable(self._schema) else self._schema)

    def __call__(self, node: Node) -> T:
        """The value. Raises BadInput."""
        return self._take(node)


def takes(schema: Schema) -> Callable[[Callable[[Node], T]], Reader[T]]:
    """Makes a function that reads a node into a Reader with this schema."""
    return lambda take: Reader(take, schema)


@dataclass(frozen=True)
class Field:
    """A key that a mapping may have: who reads it, and what a manual says of it."""

    read: Reader[Any]
    required: bool = False
    default: Any = None
    says: str = ""  # what it means, in a sentence without its unit
    unit: str = ""  # how its value is written
    example: str = ""  # a value, as YAML


def mapping(
    fields: Mapping[str, Field], make: Callable[[Node, dict[str, Any]], T] | None = None
) -> Reader[Any]:
    """Reads a mapping by a table of fields: a dict of all of them, or what `make` makes of it."""

    def read_fields(node: Node) -> Any:
        values = read_mapping(node, fields)
        return values if make is None else make(node, values)

    return Reader(read_fields, lambda: mapping_schema(fields))


def mapping_schema(fields: Mapping[str, Field]) -> dict[str, Any]:
    """The JSON Schema of a mapping with these fields and no other."""
    return {
        "type": "object",
        "properties": {name: field_schema(each) for name, each in fields.items()},
        "required": [name for name, each in fields.items() if each.required],
        "additionalProperties": False,
    }


def field_schema(each: Field) -> dict[str, Any]:
    """The JSON Schema of a field's value, with what an editor shows of it."""
    described = ". ".join(part for part in (each.says, each.unit) if part)
    example = f"{described} (like {each.example})" if each.example else described
    return {**each.read.schema, **({"description": example} if described else {})}


def read_mapping(node: Node, fields: Mapping[str, Field]) -> dict[str, Any]:
    """A mapping's values by a table of fields; every field is in the answer. Raises BadInput."""
    given = mapping_of(node)
    for name in given:
        if name not in fields:
            raise unknown_key(node, name, fields)
    found = {}
    for name, wanted in fields.items():
        if name in given:
            found[name] = wanted.read(given[name])
        elif wanted.required:
            raise node.bad(f"{name} is missing")
        else:
            found[name] = wanted.default
    return found


def mapping_of(node: Node) -> Mapping[str, Node]:
    """A mapping's nodes by key. Raises BadInput."""
    if node.fields is None:
        raise node.bad(f"{node.kind} where a mapping (key: value) should be")
    return node.fields


def list_of(read: Reader[T], *, least: int = 0) -> Reader[tuple[T, ...]]:
    """Reads a list of one kind of value."""

    def read_list(node: Node) -> tuple[T, ...]:
        if node.items is None:
            raise node.bad(f"{node.kind} where a list ([a, b]) should be")
        if len(node.items) < least:
            raise node.bad(f"at least {least} should be in this list")
        return tuple(read(item) for item in node.items)

    return Reader(read_list, lambda: {"type": "array", "items": read.schema, "minItems": least})


def unknown_key(node: Node, name: str, known: Iterable[str]) -> BadInput:
    """The error for a key that nobody reads, with the likeliest one that was meant."""
    line = node.keys.get(name, node.line)
    where = f"{node.origin}:{line}" if line is not None and node.line is not None else node.origin
    return BadInput(f"{where}: {join(node.key, name)}: unknown key ({meant(name, known)})")


def meant(name: str, known: Iterable[str]) -> str:
    """The advice for an unknown word. Of those with a dot, like forward.rate, a list has each
    beginning once.
    """
    words = [str(word) for word in known]
    close = difflib.get_close_matches(name[:60].lower(), words, n=1)
    if close:
        return f"did you mean {close[0]}?"
    beginnings = dict.fromkeys(re.sub(r"\..*", ".…", word) for word in words)
    return f"known: {', '.join(beginnings)}"


def texts_of(fields: Mapping[str, Field]) -> Reader[dict[str, str]]:
    """Reads a mapping of texts, keeping those that are there."""

    def read_texts(node: Node) -> dict[str, str]:
        return {key: text for key, text in read_mapping(node, fields).items() if text}

    return Reader(read_texts, lambda: mapping_schema(fields))


@takes({"type": ["string", "number"], "pattern": r"\S"})
def text_of(node: Node) -> str:
    """A scalar's text, not empty. Raises BadInput."""
    if node.text is None or not node.text.strip():
        raise node.bad(
            f"{'an empty text' if node.text is not None else node.kind} where a value should be"
        )
    return node.text.strip()


def quantity(read: Callable[[str], T], pattern: str) -> Reader[T]:
    """Reads a scalar by one of gostlab.ask.units' readers; `pattern`: what its text looks like."""

    def read_quantity(node: Node) -> T:
        text = text_of(node)
        try:
            return read(text)
        except UnitError as error:
            raise node.bad_value(error.problem) from None

    return Reader(read_quantity, {"type": "string", "pattern": pattern})


def whole(least: int, most: int) -> Reader[int]:
    """Reads a whole number within bounds."""

    def read_whole(node: Node) -> int:
        text = text_of(node)
        digits = text.removeprefix("-")
        if len(text) > 19 or not digits.isascii() or not digits.isdigit():
            raise node.bad_value("not a whole number")
        if not least <= int(text) <= most:
            raise node.bad_value(f"not within {least} to {most}")
        return int(text)

    return Reader(read_whole, {"type": "integer", "minimum": least, "maximum": most})


def one_of(*words: str) -> Reader[str]:
    """Reads one of a few words."""
    return one_of_names(lambda: words)


def one_of_names(names: Callable[[], Iterable[str]]) -> Reader[str]:
    """Reads one of the words that are known by then."""

    def read_word(node: Node) -> str:
        text, known = text_of(node), list(names())
        if text not in known:
            raise node.bad_value(f"not known here ({meant(text, known)})")
        return text

    return Reader(read_word, lambda: {"enum": list(names())})


@takes({"type": "number", "minimum": 0})
def decimal(node: Node) -> Decimal:
    """Reads a number with a point, exactly as written: 1673.54. Raises BadInput."""
    text = text_of(node)
    if not re.fullmatch(r"[0-9]{1,12}(\.[0-9]{1,12})?", text):
        raise node.bad_value("not a plain number like 1673.54")
    return Decimal(text)


@takes({"type": "boolean"})
def yes_no(node: Node) -> bool:
    """Reads true or false. Raises BadInput."""
    return one_of("true", "false")(node) == "true"
