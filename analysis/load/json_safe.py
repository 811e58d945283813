"""Values from files that anybody may have written: JSON of any shape, text with any bytes.

What these functions return is what its type says: finite numbers, text without control characters,
objects. What cannot be had so is `Unreadable`, with the file's name and what is wrong.
"""

import json
import math
import re
import zlib
from collections.abc import Callable, Mapping
from dataclasses import fields
from functools import cache
from pathlib import Path
from typing import Any, TypeVar, get_type_hints

from gostlab import safe_read
from gostlab.results import is_number

Record = TypeVar("Record")
Value = TypeVar("Value")
Read = Callable[[Mapping[str, Any], str, str], Value]  # an object's key, in a file
Scalar = str | float | bool | None

# A value with more text than this is named by its sum: a delay table, a trace of changes.
LONGEST_SETTING = 100
LOG_TAIL_BYTES = 8_000
TEXT_BYTES = 40_000


class UnreadableFile(Exception):
    """A file of a result folder is missing, cut short or wrong; the message names it."""


def read_object(path: Path) -> dict[str, Any]:
    """A JSON object. Raises Unreadable."""
    try:
        data = safe_read.read_bytes(path)
    except OSError as error:
        raise UnreadableFile(f"{path.name}: {error.strerror or error}") from error
    try:
        value = safe_read.decode(data)
    except ValueError as error:
        wrong = f"not JSON ({printable(str(error))})" if data else "it is empty"
        raise UnreadableFile(f"{path.name}: {wrong}") from error
    if not isinstance(value, dict):
        raise UnreadableFile(f"{path.name}: not an object")
    return value


def mapping(holder: Mapping[str, Any], key: str, file: str) -> Mapping[str, Any]:
    """An object inside one. Raises Unreadable."""
    value = holder.get(key)
    if not isinstance(value, dict):
        raise UnreadableFile(f"{file}: {key} is missing")
    return value


def objects(holder: Mapping[str, Any], key: str, file: str) -> list[dict[str, Any]]:
    """A list of objects inside one. Raises Unreadable."""
    rows = holder.get(key)
    if not isinstance(rows, list) or not all(isinstance(row, dict) for row in rows):
        raise UnreadableFile(f"{file}: {key}: not a list of {key}")
    return rows


def text(holder: Mapping[str, Any], key: str, file: str) -> str:
    """A string inside an object. Raises Unreadable."""
    value = holder.get(key)
    if not isinstance(value, str):
        raise UnreadableFile(f"{file}: {key} is missing")
    return printable(value)


def number(holder: Mapping[str, Any], key: str, file: str) -> float:
    """A finite number inside an object. Raises Unreadable."""
    value = holder.get(key)
    if not is_number(value):
        raise UnreadableFile(f"{file}: {key} is missing or no number")
    return float(value)  # type: ignore[arg-type]


def count(holder: Mapping[str, Any], key: str, file: str) -> int:
    """A whole number inside an object. Raises Unreadable."""
    return int(number(holder, key, file))


def optional_number(holder: Mapping[str, Any], key: str, _file: str = "") -> float | None:
    """A finite number inside an object, or None."""
    value = holder.get(key)
    return float(value) if is_number(value) else None  # type: ignore[arg-type]


def optional(read: Read[Value]) -> Read[Value | None]:
    """Reads what may be null or absent: then None. Raises Unreadable for anything else."""
    return lambda holder, key, file: None if holder.get(key) is None else read(holder, key, file)


optional_count = optional(count)
READERS: Mapping[Any, Read[Any]] = {
    str: text,
    float: number,
    int: count,
    str | None: optional(text),
    float | None: optional_number,
    int | None: optional_count,
}


def record(kind: type[Record], row: Mapping[str, Any], file: str, **own: Any) -> Record:
    """A dataclass from an object's values of the same names, each read by its field's type; but
    those in `own`, and those of other types, which have their default. Raises Unreadable.
    """
    told = {
        name: read(row, name, file)
        for name, read in readers(kind).items()  # type: ignore[arg-type]
        if name not in own
    }
    return kind(**told, **own)


@cache
def readers(kind: Any) -> Mapping[str, Read[Any]]:
    """What reads a dataclass's fields, by their names."""
    types = get_type_hints(kind)
    names = (each.name for each in fields(kind))
    return {name: READERS[types[name]] for name in names if types[name] in READERS}


def flatten(value: Mapping[str, Any], prefix: str = "") -> tuple[tuple[str, Scalar], ...]:
    """Nested objects as sorted (dotted key, value) pairs, to be compared."""
    pairs: list[tuple[str, Scalar]] = []
    for key, inner in value.items():
        name = f"{prefix}{printable(str(key))}"
        if isinstance(inner, Mapping):
            pairs += flatten(inner, f"{name}.")
        elif isinstance(inner, str):
            pairs.append((name, printable(inner)))
        elif inner is None or isinstance(inner, bool | int | float):
            pairs.append((name, float(inner) if inner is not None and is_number(inner) else inner))
        else:
            said = printable(json.dumps(inner, sort_keys=True))
            pairs.append((name, said if len(said) <= LONGEST_SETTING else summed(inner)))
    return tuple(sorted(pairs, key=lambda pair: pair[0]))


def summed(values: Any) -> str:
    """A long list as a short word that no other list has: how many values, and a sum of them."""
    said = json.dumps(values, sort_keys=True, default=str)
    return f"{len(values)} values, {zlib.crc32(said.encode('utf-8', 'replace')):08x}"


def shown(value: object, missing: str = "") -> str:
    """A value of JSON as a person reads it."""
    if value is None:
        return missing
    if isinstance(value, list):
        return ", ".join(shown(each) for each in value)
    if isinstance(value, float) and math.isfinite(value):
        return f"{value:g}" if abs(value) < 1e6 else f"{value:.0f}"
    return printable(str(value))


ESCAPES = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")
UNPRINTABLE = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\ud800-\udfff\u2028\u2029\u202a-\u202e\u2066-\u2069\ufffe\uffff]"
)


def printable(said: str) -> str:
    """Text without what would break a page, a figure or a terminal."""
    return UNPRINTABLE.sub("\ufffd", ESCAPES.sub("", said.replace("\r\n", "\n")))


def head_of(path: Path) -> str:
    """The first bytes of a text file; empty where it is not there."""
    try:
        data = safe_read.read_bytes(path, TEXT_BYTES + 1)
    except OSError:
        return ""
    said = printable(data[:TEXT_BYTES].decode("utf-8", errors="replace"))
    return said + ("\n[cut: the rest is in the folder]" if len(data) > TEXT_BYTES else "")


def read_log_tail(path: Path) -> str:
    """The last lines of a text file; empty where it is not there."""
    try:
        data, cut = safe_read.read_tail(path, LOG_TAIL_BYTES)
    except OSError:
        return ""
    lines = printable(data.decode("utf-8", errors="replace")).rstrip().split("\n")
    return "\n".join((["[…]"] if cut else []) + lines[1 if cut else 0 :][-40:])
