"""Read values from untrusted files: JSON of any shape, text with any bytes.

Return values have the annotated type: finite numbers, text without control characters, objects. Any
other input raises UnreadableFile, which names the file and the fault.
"""

import json
import math
import zlib
from collections.abc import Callable, Mapping
from dataclasses import fields
from functools import cache
from pathlib import Path
from typing import Any, TypeVar, get_type_hints

from gostlab import safe_read
from gostlab.results import is_number
from gostlab.text_safety import replace_controls

Record = TypeVar("Record")
Value = TypeVar("Value")
Read = Callable[[Mapping[str, Any], str, str], Value]  # (object, key, file name) -> value
Scalar = str | float | bool | None

# Replace longer values, such as delay tables and change traces, by their checksums.
MAX_SETTING_CHARS = 100
MAX_LOG_TAIL_BYTES = 8_000
MAX_TEXT_BYTES = 40_000


class UnreadableFile(Exception):
    """A missing, truncated or invalid file of a result folder; the message names it."""


def read_object(path: Path) -> dict[str, Any]:
    """Return the JSON object in a file.

    Raises UnreadableFile.
    """
    try:
        data = safe_read.read_bytes(path)
    except OSError as error:
        raise UnreadableFile(f"{path.name}: {error.strerror or error}") from error
    try:
        value = safe_read.decode(data)
    except ValueError as error:
        wrong = f"not JSON ({replace_controls(str(error))})" if data else "it is empty"
        raise UnreadableFile(f"{path.name}: {wrong}") from error
    if not isinstance(value, dict):
        raise UnreadableFile(f"{path.name}: not an object")
    return value


def mapping(holder: Mapping[str, Any], key: str, file: str) -> Mapping[str, Any]:
    """Return the object under a key.

    Raises UnreadableFile.
    """
    value = holder.get(key)
    if not isinstance(value, dict):
        raise UnreadableFile(f"{file}: {key} is missing")
    return value


def objects(holder: Mapping[str, Any], key: str, file: str) -> list[dict[str, Any]]:
    """Return the list of objects under a key.

    Raises UnreadableFile.
    """
    rows = holder.get(key)
    if not isinstance(rows, list) or not all(isinstance(row, dict) for row in rows):
        raise UnreadableFile(f"{file}: {key}: not a list of {key}")
    return rows


def text(holder: Mapping[str, Any], key: str, file: str) -> str:
    """Return the string under a key.

    Raises UnreadableFile.
    """
    value = holder.get(key)
    if not isinstance(value, str):
        raise UnreadableFile(f"{file}: {key} is missing")
    return replace_controls(value)


def number(holder: Mapping[str, Any], key: str, file: str) -> float:
    """Return the finite number under a key.

    Raises UnreadableFile.
    """
    value = holder.get(key)
    if not is_number(value):
        raise UnreadableFile(f"{file}: {key} is missing or no number")
    return float(value)  # type: ignore[arg-type]


def count(holder: Mapping[str, Any], key: str, file: str) -> int:
    """Return the integer under a key.

    Raises UnreadableFile.
    """
    return int(number(holder, key, file))


def optional_number(holder: Mapping[str, Any], key: str, _file: str = "") -> float | None:
    """Return the finite number under a key, or None."""
    value = holder.get(key)
    return float(value) if is_number(value) else None  # type: ignore[arg-type]


def optional(read: Read[Value]) -> Read[Value | None]:
    """Return a reader that maps null and absent keys to None.

    The reader raises UnreadableFile for any other invalid value.
    """
    return lambda holder, key, file: None if holder.get(key) is None else read(holder, key, file)


optional_count: Read[int | None] = optional(count)
READERS: Mapping[Any, Read[Any]] = {
    str: text,
    float: number,
    int: count,
    str | None: optional(text),
    float | None: optional_number,
    int | None: optional_count,
}


def record(record_type: type[Record], row: Mapping[str, Any], file: str, **own: Any) -> Record:
    """Construct a dataclass from the values of an object.

    Each value is read under its field's name by the reader of the field's type. Values in `own`
    take precedence; fields of other types keep their defaults. Raises UnreadableFile.
    """
    values = {
        name: read(row, name, file)
        for name, read in readers(record_type).items()  # type: ignore[arg-type]
        if name not in own
    }
    return record_type(**values, **own)


@cache
def readers(record_type: Any) -> Mapping[str, Read[Any]]:
    """Return the reader of each field of a dataclass, by field name."""
    types = get_type_hints(record_type)
    names = (field.name for field in fields(record_type))
    return {name: READERS[types[name]] for name in names if types[name] in READERS}


def flatten(value: Mapping[str, Any], prefix: str = "") -> tuple[tuple[str, Scalar], ...]:
    """Flatten nested objects to sorted (dotted key, value) pairs for comparison."""
    pairs: list[tuple[str, Scalar]] = []
    for key, inner in value.items():
        name = f"{prefix}{replace_controls(str(key))}"
        if isinstance(inner, Mapping):
            pairs += flatten(inner, f"{name}.")
        elif isinstance(inner, str):
            pairs.append((name, replace_controls(inner)))
        elif inner is None or isinstance(inner, bool | int | float):
            pairs.append((name, float(inner) if inner is not None and is_number(inner) else inner))
        else:
            encoded = replace_controls(json.dumps(inner, sort_keys=True))
            pairs.append(
                (name, encoded if len(encoded) <= MAX_SETTING_CHARS else describe_long_value(inner))
            )
    return tuple(sorted(pairs, key=lambda pair: pair[0]))


def describe_long_value(values: Any) -> str:
    """Return a long list as its length and its CRC-32 checksum."""
    encoded = json.dumps(values, sort_keys=True, default=str)
    return f"{len(values)} values, {zlib.crc32(encoded.encode('utf-8', 'replace')):08x}"


def format_value(value: object, missing: str = "") -> str:
    """Format a JSON value for people."""
    if value is None:
        return missing
    if isinstance(value, list):
        return ", ".join(format_value(item) for item in value)
    if isinstance(value, float) and math.isfinite(value):
        return f"{value:g}" if abs(value) < 1e6 else f"{value:.0f}"
    return replace_controls(str(value))


def read_text_head(path: Path) -> str:
    """Return the first bytes of a text file; "" if it does not exist."""
    try:
        data = safe_read.read_bytes(path, MAX_TEXT_BYTES + 1)
    except OSError:
        return ""
    content = replace_controls(data[:MAX_TEXT_BYTES].decode("utf-8", errors="replace"))
    return content + ("\n[cut: the rest is in the folder]" if len(data) > MAX_TEXT_BYTES else "")


def read_log_tail(path: Path) -> str:
    """Return the last lines of a log; "" if it does not exist."""
    try:
        data, cut = safe_read.read_tail(path, MAX_LOG_TAIL_BYTES)
    except OSError:
        return ""
    lines = replace_controls(data.decode("utf-8", errors="replace")).rstrip().split("\n")
    return "\n".join((["[…]"] if cut else []) + lines[1 if cut else 0 :][-40:])
