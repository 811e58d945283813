"""A result folder against the format: what is in it and not in the tables, and the reverse."""

import csv
import gzip
import json
import re
from collections.abc import Iterator, Sequence
from functools import cache
from pathlib import Path
from typing import Any

from gostlab.results.format import Field, File, files

# What a field is called, and what JSON has then; it may be null, and it may be absent.
KINDS: dict[str, tuple[type, ...]] = {
    "text": (str,),
    "number": (int, float),
    "count": (int,),
    "yes/no": (bool,),
    "object": (dict,),
    "list": (list,),
    "text or object": (str, dict),
    "any": (object,),
}


def kind_of(field: Field) -> str:
    return field.kind_words.removesuffix(", may be absent").removesuffix(" or null")


def is_always(expected: dict[str, Any]) -> bool:
    """Whether a key must be there: unless all that it leads to may be absent."""
    if leaf := expected.get(""):
        return not leaf.kind_words.endswith(", may be absent")
    return any(is_always(each) for each in expected.values())


def complaints(folder: Path) -> list[str]:
    """What is in a finished folder and not in the format, or the other way round: a line each.
    Values inside iperf3's own reports are iperf3's.
    """
    names = sorted(path.name for path in folder.iterdir())
    found = []
    for name in names:
        file = next((file for file in files() if re.fullmatch(file.pattern, name)), None)
        wrong = ["no file of the format"] if file is None else wrong_in(folder / name, file)
        found += [f"{name}: {line}" for line in dict.fromkeys(wrong)]
    try:
        ended_ok = json.loads((folder / "status.json").read_bytes())["outcome"] == "ok"
    except (OSError, ValueError, KeyError, TypeError):
        ended_ok = False
    needed = [file.name for file in files() if file.needed] if ended_ok else ["run.json"]
    return found + [f"{name} is missing" for name in needed if name not in names]


def wrong_in(path: Path, file: File) -> Iterator[str]:
    try:
        if not file.fields:
            return
        if file.form == "JSON":
            yield from wrong_at(json.loads(path.read_bytes()), tree_of(file.fields), "")
        elif file.form == "JSON lines":
            for line in path.read_text(encoding="utf-8").splitlines():
                yield from wrong_at(json.loads(line), tree_of(file.fields), "")
        else:
            with gzip.open(path, "rt", encoding="utf-8", newline="") as rows:
                heading = dict.fromkeys(next(csv.reader(rows), []))
            yield from wrong_keys(heading, tree_of(file.fields), "")
    except (OSError, ValueError) as error:
        yield f"cannot be read ({error})"


@cache
def tree_of(fields: Sequence[Field]) -> dict[str, Any]:
    """Fields as a tree of the keys that lead to them; a list's elements stand under "[]", a field
    itself under "".
    """
    root: dict[str, Any] = {}
    for each in fields:
        at = root
        for key in each.path.replace("[]", ".[]").split("."):
            at = at.setdefault(key, {})
        at[""] = each
    return root


def wrong_at(value: Any, expected: dict[str, Any], path: str) -> Iterator[str]:
    """What is wrong with a value and all inside it."""
    said = expected.get("")
    if value is None:
        if said is None or " or null" not in said.kind_words:
            yield f"{path or 'all of it'} is null"
    elif said is not None and not is_kind(value, kind_of(said)):
        yield f"{path} is no {kind_of(said)}"
    elif isinstance(value, list) and "[]" in expected:
        for each in value:
            yield from wrong_at(each, expected["[]"], f"{path}[]")
    elif isinstance(value, dict) and expected.keys() - {""}:
        yield from wrong_keys(value, expected, path)
        for key in value.keys() & expected.keys() if "*" not in expected else value:
            inside = expected.get(key) or expected["*"]
            yield from wrong_at(value[key], inside, f"{path}.{key}".removeprefix("."))
    elif said is None:
        yield f"{path or 'all of it'} is no {'list' if '[]' in expected else 'object'}"


def wrong_keys(value: dict[str, Any], expected: dict[str, Any], path: str) -> Iterator[str]:
    """Which keys of an object, or columns of a table, are unknown or missing."""
    before = f"{path}." if path else ""
    if "*" not in expected:
        yield from (
            f"{before}{key}: no field of the format" for key in value if key not in expected
        )
    for key in expected.keys() - {"", "*", "[]"}:
        if key not in value and is_always(expected[key]):
            yield f"{before}{key} is missing"


def is_kind(value: Any, kind: str) -> bool:
    """Whether a value is of a kind; a truth value is no number, a whole number may be a float."""
    if isinstance(value, bool):
        return kind in ("any", "yes/no")
    if kind == "count" and isinstance(value, float):
        return value.is_integer()
    return isinstance(value, KINDS[kind])
