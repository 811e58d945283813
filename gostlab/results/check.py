"""A result folder against the format: what is in it and not in the tables, and the reverse."""

from __future__ import annotations

import csv
import gzip
import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

from gostlab.results.format import KINDS, Field, File, files


@dataclass
class Expected:
    """What a place in JSON may hold."""

    leaf: Field | None = None
    keys: dict[str, Expected] = field(default_factory=dict)

    @property
    def any_key(self) -> Expected | None:
        """What stands under a key that is a name."""
        return self.keys.get("*")


def complaints(folder: Path) -> list[str]:
    """What is in a finished folder and not in the format, or the other way round: a line each.
    Values inside iperf3's own reports are iperf3's.
    """
    names = sorted(path.name for path in folder.iterdir())
    found = []
    for name in names:
        file = file_of(name)
        if file is None:
            found.append(f"{name}: no file of the format")
        else:
            found += [f"{name}: {line}" for line in dict.fromkeys(wrong_in(folder / name, file))]
    needed = [file.name for file in files() if file.needed] if ended_ok(folder) else ["run.json"]
    return found + [f"{name} is missing" for name in needed if name not in names]


def ended_ok(folder: Path) -> bool:
    try:
        return bool(json.loads((folder / "status.json").read_bytes())["outcome"] == "ok")
    except (OSError, ValueError, KeyError, TypeError):
        return False


def file_of(name: str) -> File | None:
    """Which file of the format a name is."""
    return next((file for file in files() if re.fullmatch(file.pattern, name)), None)


def wrong_in(path: Path, file: File) -> Iterator[str]:
    if not file.fields:
        return
    expected = tree_of(file.fields)
    try:
        if file.form == "JSON":
            yield from wrong_at(json.loads(path.read_bytes()), expected, "")
        elif file.form == "JSON lines":
            for line in path.read_text(encoding="utf-8").splitlines():
                yield from wrong_at(json.loads(line), expected, "")
        else:
            with gzip.open(path, "rt", encoding="utf-8", newline="") as rows:
                yield from wrong_columns(next(csv.reader(rows), []), file.fields)
    except (OSError, ValueError) as error:
        yield f"cannot be read ({error})"


def wrong_columns(heading: Sequence[str], fields: Sequence[Field]) -> Iterator[str]:
    known = {each.path for each in fields}
    yield from (f"{name}: no field of the format" for name in heading if name not in known)
    yield from (
        f"{each.path} is missing" for each in fields if each.always and each.path not in heading
    )


@cache
def tree_of(fields: tuple[Field, ...]) -> Expected:
    """Fields as a tree of the keys that lead to them; a list's elements stand under "[]"."""
    root = Expected()
    for each in fields:
        at = root
        for key in each.path.replace("[]", ".[]").split("."):
            at = at.keys.setdefault(key, Expected())
        at.leaf = each
    return root


def wrong_at(value: Any, expected: Expected, path: str) -> Iterator[str]:
    """What is wrong with a value and all inside it."""
    said = expected.leaf
    if value is None:
        if said is None or not said.null:
            yield f"{path or 'all of it'} is null"
        return
    if said is not None and not is_kind(value, said.kind):
        yield f"{path} is no {said.kind}"
    elif isinstance(value, list) and "[]" in expected.keys:
        for each in value:
            yield from wrong_at(each, expected.keys["[]"], f"{path}[]")
    elif isinstance(value, dict) and expected.keys:
        yield from wrong_keys(value, expected, path)
    elif said is None:
        yield f"{path or 'all of it'} is no {'list' if '[]' in expected.keys else 'object'}"


def wrong_keys(value: dict[str, Any], expected: Expected, path: str) -> Iterator[str]:
    """What is wrong with an object's keys and what they hold."""
    for key, inner in value.items():
        there = expected.keys.get(key) or expected.any_key
        where = f"{path}.{key}" if path else key
        if there is None:
            yield f"{where}: no field of the format"
        else:
            yield from wrong_at(inner, there, where)
    for key, there in expected.keys.items():
        if key not in value and key not in ("*", "[]") and is_always(there):
            yield f"{path}.{key} is missing" if path else f"{key} is missing"


def is_always(expected: Expected) -> bool:
    """Whether a key must be there: unless all that it leads to may be absent."""
    if expected.leaf is not None:
        return expected.leaf.always
    return any(is_always(each) for each in expected.keys.values())


def is_kind(value: Any, kind: str) -> bool:
    """Whether a value is of a kind; a truth value is no number, a whole number may be a float."""
    if kind == "any":
        return True
    if isinstance(value, bool):
        return kind == "yes/no"
    if kind == "count" and isinstance(value, float):
        return value.is_integer()
    return isinstance(value, KINDS[kind])
