# SPDX-License-Identifier: MIT
"""A result folder against the format: what is in it and not in the tables, and the reverse."""

import csv
import gzip
import json
import re
from collections.abc import Iterator, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import jsonschema

from gostlab.results.format import FormatField, FormatFile, files

# What a field is called, and how JSON Schema calls it; it may be null, and it may be absent.
KINDS: dict[str, tuple[str, ...]] = {
    "text": ("string",),
    "number": ("number",),
    "count": ("integer",),
    "yes/no": ("boolean",),
    "object": ("object",),
    "list": ("array",),
    "text or object": ("string", "object"),
    "any": ("string", "number", "boolean", "object", "array"),
}


def kind_of(field: FormatField) -> str:
    return field.kind_words.removesuffix(", may be absent").removesuffix(" or null")


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


def wrong_in(path: Path, file: FormatFile) -> Iterator[str]:
    try:
        if not file.fields:
            return
        if file.form == "JSON":
            values = [json.loads(path.read_bytes())]
        elif file.form == "JSON lines":
            values = list(map(json.loads, path.read_text(encoding="utf-8").splitlines()))
        else:
            with gzip.open(path, "rt", encoding="utf-8", newline="") as rows:
                values = [dict.fromkeys(next(csv.reader(rows), []), "any")]
        for value in values:
            for error in schema_of(file.fields).iter_errors(value):
                if file.form != "CSV, gzip" or not error.path:  # of a table, only its columns
                    yield f"{error.json_path}: {error.message}"
    except (OSError, ValueError) as error:
        yield f"cannot be read ({error})"


@cache
def schema_of(fields: Sequence[FormatField]) -> Any:
    """A table of fields as a schema's validator. Fields first become a tree of the keys that lead
    to them, a list's elements below "[]", a field itself below "".
    """
    root: dict[str, Any] = {}
    for each in fields:
        at = root
        for key in each.path.replace("[]", ".[]").split("."):
            at = at.setdefault(key, {})
        at[""] = each
    return jsonschema.Draft202012Validator(schema_at(root))


def schema_at(tree: dict[str, Any]) -> dict[str, Any]:
    said = tree.get("")
    types = list(KINDS[kind_of(said)]) if said else ["array" if "[]" in tree else "object"]
    if said and " or null" in said.kind_words:
        types.append("null")
    inner = {key: schema_at(each) for key, each in tree.items() if key}
    if "[]" in inner:
        return {"type": types, "items": inner["[]"]}
    others = inner.pop("*", not inner)
    needed = [key for key in inner if is_always(tree[key])]
    found = {"properties": inner, "required": needed, "additionalProperties": others}
    return {"type": types, **found}


def is_always(tree: dict[str, Any]) -> bool:
    """Whether a key must be there: unless all that it leads to may be absent."""
    if leaf := tree.get(""):
        return not leaf.kind_words.endswith(", may be absent")
    return any(is_always(each) for each in tree.values())
