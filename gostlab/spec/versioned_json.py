"""Convert dataclasses to JSON and back, with fields that are newer than the first files.

A run's name ends in a hash of its run.json. A new field must therefore not change the run.json of a
run that does not use it: a field declared by `later(default)` is omitted if it has its default, and
gets the default if a file lacks it. Results from before the field stay valid.
"""

import copy
from collections.abc import Mapping
from dataclasses import MISSING, Field, field, fields, is_dataclass
from functools import cache
from typing import Any, TypeVar

Record = TypeVar("Record")
NO_DEFAULT = object()


def later(default: Any) -> Any:
    """Declare a dataclass field that older files do not have."""
    return field(default_factory=lambda: copy.deepcopy(default), metadata={"later": True})


def to_json(record: Any) -> dict[str, Any]:
    """Return a dataclass as a dict, without its later fields that have their default."""
    cls: Any = type(record)
    return {
        name: to_json_value(value)
        for name, default in defaults_of(cls).items()
        if (value := getattr(record, name)) != default
    }


@cache
def defaults_of(cls: Any) -> dict[str, Any]:
    """Return a dataclass's fields with the default of each later field, else NO_DEFAULT."""
    return {
        field_.name: default_of(field_) if is_later(field_) else NO_DEFAULT
        for field_ in fields(cls)
    }


def from_json(cls: type[Record], values: Mapping[str, Any], origin: str, **nested: Any) -> Record:
    """Return a dataclass from a dict; `nested` are values already read.

    Raises ValueError with the origin and every missing or unknown field.
    """
    known: tuple[Field[Any], ...] = fields(cls)  # type: ignore[arg-type]
    names = {field_.name for field_ in known}
    required = {field_.name for field_ in known if not is_later(field_)}
    problems = [
        *(f"{name} is missing" for name in sorted(required - set(values))),
        *(f"{name}: unknown key" for name in sorted(set(values) - names)),
    ]
    if problems:
        raise ValueError(f"{origin}: {'; '.join(problems)}")
    return cls(**copy.deepcopy({**values, **nested}))


def to_json_value(value: Any) -> Any:
    """Return a value with every record within it as a dict."""
    if value is None or isinstance(value, str | int | float):
        return value
    if is_dataclass(value) and not isinstance(value, type):
        return to_json(value)
    if isinstance(value, Mapping):
        return {key: to_json_value(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return type(value)(to_json_value(item) for item in value)
    return value


def is_later(field_: Field[Any]) -> bool:
    return bool(field_.metadata.get("later"))


def default_of(field_: Field[Any]) -> Any:
    return field_.default if field_.default_factory is MISSING else field_.default_factory()
