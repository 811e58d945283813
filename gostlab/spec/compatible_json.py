# SPDX-License-Identifier: MIT
"""Convert dataclasses to JSON and back, with fields that are newer than the first files.

A run's name ends in a hash of its run.json. A new field must therefore not change the run.json of a
run that does not use it: a field declared by `added_later(default)` is omitted if it has its
default, and gets the default if a file lacks it. Results from before the field stay valid.
"""

import copy
from collections.abc import Callable, Mapping
from dataclasses import MISSING, Field, field, fields, is_dataclass
from functools import cache, partial
from types import NoneType, UnionType
from typing import Any, TypeVar, get_args, get_origin

JsonObject = dict[str, Any]
Record = TypeVar("Record")
NO_DEFAULT = object()
# The JSON values of a field, by its declared type.
SCALARS: Mapping[Any, tuple[type, ...]] = {
    bool: (bool,),
    float: (int, float),
    int: (int,),
    str: (str,),
}


def added_later(default: Any) -> Any:
    """Declare a dataclass field that older files do not have."""
    return field(default_factory=lambda: copy.deepcopy(default), metadata={"added_later": True})


def to_json(record: Any) -> JsonObject:
    """Return a dataclass as a dict, without its later fields that have their default."""
    cls: Any = type(record)
    return {
        name: to_json_value(value)
        for name, default in defaults_of(cls).items()
        if (value := getattr(record, name)) != default
    }


@cache
def defaults_of(cls: Any) -> JsonObject:
    """Return a dataclass's fields with the default of each later field, else NO_DEFAULT."""
    return {
        field_.name: default_of(field_) if is_added_later(field_) else NO_DEFAULT
        for field_ in fields(cls)
    }


def to_json_value(value: Any) -> Any:
    """Return a value with every record within it as a dict."""
    if value is None or isinstance(value, str | int | float):
        return value
    if is_dataclass(value) and not isinstance(value, type):
        return to_json(value)
    if isinstance(value, Mapping):
        return {key: to_json_value(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [to_json_value(item) for item in value]
    return value


def from_json(cls: type[Record], values: Any, origin: str) -> Record:
    """Return a dataclass from a dict. Raises ValueError with the origin and what is wrong."""
    dataclass_: Any = cls
    readers, required = readers_of(dataclass_), required_fields(dataclass_)
    names = set(checked(values, (Mapping,), origin))
    problems = [
        *(f"{name} is missing" for name in sorted(required - names)),
        *(f"{name}: unknown key" for name in sorted(names - readers.keys())),
    ]
    if problems:
        raise ValueError(f"{origin}: {'; '.join(problems)}")
    return cls(
        **{name: readers[name](value, f"{origin}: {name}") for name, value in values.items()}
    )


@cache
def required_fields(cls: Any) -> frozenset[str]:
    return frozenset(field_.name for field_ in fields(cls) if not is_added_later(field_))


@cache
def readers_of(cls: Any) -> dict[str, Callable[[Any, str], Any]]:
    return {field_.name: reader_of(field_.type) for field_ in fields(cls)}


def reader_of(hint: Any) -> Callable[[Any, str], Any]:
    """Return a function of a JSON value and its position that returns a value of this type.

    It checks and converts records, lists of them and plain values, and copies other containers.
    """
    if is_dataclass(hint):
        record: Any = hint
        return partial(from_json, record)
    if hint in SCALARS:
        return lambda value, where: checked(value, SCALARS[hint], where)
    container, args = get_origin(hint), get_args(hint)
    if container is UnionType and len(args) == 2 and NoneType in args:
        read = reader_of(next(arg for arg in args if arg is not NoneType))
        return lambda value, where: None if value is None else read(value, where)
    if container is tuple:
        read = reader_of(args[0])
        return lambda value, where: tuple(
            [read(item, where) for item in checked(value, (list, tuple), where)]
        )
    if container is list:
        read = reader_of(args[0])
        return lambda value, where: [read(item, where) for item in checked(value, (list,), where)]
    if container is Mapping:
        read = reader_of(args[1])
        return lambda value, where: {
            key: read(item, f"{where}: {key}")
            for key, item in checked(value, (Mapping,), where).items()
        }
    return lambda value, _: copy.deepcopy(value)


def checked(value: Any, types: tuple[type, ...], where: str) -> Any:
    """Return a value of one of these types. Raises ValueError."""
    if not isinstance(value, types) or (isinstance(value, bool) and bool not in types):
        raise ValueError(f"{where}: {type(value).__name__} where {types[-1].__name__} should be")
    return value


def is_added_later(field_: Field[Any]) -> bool:
    return bool(field_.metadata.get("added_later"))


def default_of(field_: Field[Any]) -> Any:
    return field_.default if field_.default_factory is MISSING else field_.default_factory()
