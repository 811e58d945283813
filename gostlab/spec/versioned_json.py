"""Dataclasses as JSON, with fields that came later than the first files.

A run's name ends in a hash of its run.json. So a new field must not change the run.json of a run
that does not use it: a field made by `later(default)` is left out where it has its default, and
taken to have it where a file lacks it. Every result from before the field stays the answer to
its question.
"""

import copy
from collections.abc import Mapping
from dataclasses import MISSING, Field, field, fields, is_dataclass
from functools import cache
from typing import Any, TypeVar

Record = TypeVar("Record")
NO_DEFAULT = object()


def later(default: Any) -> Any:
    """A dataclass field that files written before it do not have."""
    return field(default_factory=lambda: copy.deepcopy(default), metadata={"later": True})


def to_json(record: Any) -> dict[str, Any]:
    """A dataclass as a dict, without its later fields that have their default."""
    kind: Any = type(record)
    return {
        name: plain(value)
        for name, default in defaults_of(kind).items()
        if (value := getattr(record, name)) != default
    }


@cache
def defaults_of(kind: Any) -> dict[str, Any]:
    """A dataclass's fields, and the default of each that is later: of another one, nothing is."""
    return {each.name: default_of(each) if is_later(each) else NO_DEFAULT for each in fields(kind)}


def from_json(kind: type[Record], values: Mapping[str, Any], origin: str, **nested: Any) -> Record:
    """A dataclass from a dict; `nested`: values that have been read. Raises ValueError naming the
    origin and every field that is missing or not known.
    """
    known: tuple[Field[Any], ...] = fields(kind)  # type: ignore[arg-type]
    names = {each.name for each in known}
    needed = {each.name for each in known if not is_later(each)}
    wrong = [
        *(f"{name} is missing" for name in sorted(needed - set(values))),
        *(f"{name}: unknown key" for name in sorted(set(values) - names)),
    ]
    if wrong:
        raise ValueError(f"{origin}: {'; '.join(wrong)}")
    return kind(**copy.deepcopy({**values, **nested}))


def plain(value: Any) -> Any:
    """A value of a record, every record within it as a dict."""
    if value is None or isinstance(value, str | int | float):
        return value
    if is_dataclass(value) and not isinstance(value, type):
        return to_json(value)
    if isinstance(value, Mapping):
        return {key: plain(each) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return type(value)(plain(each) for each in value)
    return value


def is_later(each: Field[Any]) -> bool:
    return bool(each.metadata.get("later"))


def default_of(each: Field[Any]) -> Any:
    return each.default if each.default_factory is MISSING else each.default_factory()
