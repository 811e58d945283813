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


def key_of(field_: Field[Any]) -> str:
    """Return a field's key in JSON: its name, or what its metadata has as json_key."""
    key: str = field_.metadata.get("json_key", field_.name)
    return key


def to_json(record: Any) -> JsonObject:
    """Return a dataclass as a dict, without its later fields that have their default."""
    cls: Any = type(record)
    return {
        key: to_json_value(value)
        for key, name, default in keys_of(cls)
        if (value := getattr(record, name)) != default
    }


@cache
def keys_of(cls: Any) -> list[tuple[str, str, Any]]:
    """Return (key, name, default) of a dataclass's fields; only later fields have a default."""
    return [
        (key_of(field_), field_.name, default_of(field_) if is_added_later(field_) else NO_DEFAULT)
        for field_ in fields(cls)
    ]


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
    readers, required = readers_of(dataclass_), required_keys(dataclass_)
    keys = set(checked(values, (Mapping,), origin))
    problems = [
        *(f"{key} is missing" for key in sorted(required - keys)),
        *(f"{key}: unknown key" for key in sorted(keys - readers.keys())),
    ]
    if problems:
        raise ValueError(f"{origin}: {'; '.join(problems)}")
    read = {key: (*readers[key], value) for key, value in values.items()}
    return cls(
        **{name: reader(value, f"{origin}: {key}") for key, (name, reader, value) in read.items()}
    )


@cache
def required_keys(cls: Any) -> frozenset[str]:
    return frozenset(key_of(field_) for field_ in fields(cls) if not is_added_later(field_))


@cache
def readers_of(cls: Any) -> dict[str, tuple[str, Callable[[Any, str], Any]]]:
    """Return the name and the reader of each field, by its key in JSON."""
    return {key_of(field_): (field_.name, reader_of(field_.type)) for field_ in fields(cls)}


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
