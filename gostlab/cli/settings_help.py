"""What can be asked, for people, from where each word is defined: what `./lab settings` says, and
how a table says it (gostlab.reference makes the pages).
"""

from collections.abc import Iterable
from typing import Any

from gostlab.spec.profile import DIRECTIONS
from gostlab.spec.settings import PATH_FIELDS, SETTINGS, field_of, known_names
from gostlab.spec.yaml_source import BadInput, KeySchema, meant


def say_setting(name: str) -> str:
    """What a setting means, in a few lines. Raises BadInput if there is none of that name."""
    found = field_called(name)
    told = {
        "written as": found.unit,
        "one of": ", ".join(words_of(found)),
        "default": default_of(name, found),
        "like": found.example,
        "one way": ", ".join(f"{way}.{name}" for way in DIRECTIONS) if name in PATH_FIELDS else "",
    }
    lines = [f"  {what:10}  {text}" for what, text in told.items() if text]
    return "\n".join([f"{name}: {found.says}", *lines])


def say_settings() -> str:
    """Every setting in a line, for a terminal."""
    width = max(map(len, SETTINGS))
    lines = [f"{name:{width}}  {each.says}" for name, each in SETTINGS.items()]
    return "\n".join(
        [
            *lines,
            "",
            "One direction of the path alone: forward.loss, reverse.delay. One end's congestion"
            " control:",
            "cc.client. A field of a flow: late.start. More of one: ./lab settings NAME, or"
            " docs/reference/settings.md.",
        ]
    )


def settings_json(name: str | None = None) -> list[dict[str, Any]]:
    """Every setting, or one, for programs. Raises BadInput if there is none of that name."""
    wanted = SETTINGS if name is None else {name: field_called(name)}
    return [
        {
            "name": name,
            "says": each.says,
            "unit": each.unit,
            "words": words_of(each),
            "default": each.default,
            "example": each.example,
        }
        for name, each in wanted.items()
    ]


def field_called(name: str) -> KeySchema:
    """What can be set by a name. Raises BadInput."""
    found = field_of(name)
    if found is None:
        raise BadInput(f"{name}: nothing that can be set ({meant(name, known_names())})")
    return found


def words_of(each: KeySchema) -> list[str]:
    schemas = [each.read.schema, *each.read.schema.get("anyOf", ())]
    words = next((schema["enum"] for schema in schemas if "enum" in schema), ())
    return list(dict.fromkeys(map(str, words))) if len(words) > 1 else []  # 3.9 is "3.9", too


def default_of(name: str, each: KeySchema) -> str:
    """What holds where nobody writes it."""
    if isinstance(each.default, str):
        return each.default
    return "the profile's own" if name.rpartition(".")[2] in PATH_FIELDS else "none"


def meaning(each: KeySchema) -> str:
    """What a field means, with its unit or its words."""
    listed = words_of(each)
    how = f"one of {as_code(listed)}" if listed else each.unit
    return "; ".join(part for part in (each.says, how) if part)


def as_code(names: Iterable[str]) -> str:
    return ", ".join(f"`{name}`" for name in names if name)
