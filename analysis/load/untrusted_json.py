# SPDX-License-Identifier: MIT
"""Read values from untrusted files: JSON of any shape, text with any bytes.

Return values have the annotated type: finite numbers, text without control characters, objects. Any
other input raises UnreadableFile, which names the file and the fault.
"""

import json
import math
import zlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any, TypeVar

from gostlab import safe_read
from gostlab.results import is_number
from gostlab.text_safety import replace_controls

Record = TypeVar("Record")
Scalar = str | float | bool | None

# Replace longer values, such as delay tables and change traces, by their checksums.
MAX_SETTING_CHARS = 100
MAX_LOG_TAIL_BYTES = 8_000
MAX_TEXT_BYTES = 40_000


class UnreadableFile(Exception):
    """A missing, truncated or invalid file of a result folder; the message names it."""


def read_json_object(path: Path) -> dict[str, Any]:
    """Return the JSON object in a file. Raises UnreadableFile."""
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


def read_record(path: Path, record_type: type[Record]) -> Record:
    """Return the JSON object in a file as a dataclass, its text without control characters.

    Keys without a field are ignored. Raises UnreadableFile.
    """
    import msgspec

    try:
        return msgspec.convert(clean_json_value(read_json_object(path)), record_type)
    except (msgspec.ValidationError, ArithmeticError) as error:
        raise UnreadableFile(f"{path.name}: {error}") from None


def clean_json_value(value: Any) -> Any:
    """Return a JSON value with control characters replaced in all of its text."""
    if isinstance(value, str):
        return replace_controls(value)
    if isinstance(value, dict):
        return {replace_controls(key): clean_json_value(item) for key, item in value.items()}
    return [clean_json_value(item) for item in value] if isinstance(value, list) else value


def finite_number(value: object) -> float | None:
    return float(value) if is_number(value) else None


def flatten(value: Mapping[str, object], prefix: str = "") -> tuple[tuple[str, Scalar], ...]:
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
