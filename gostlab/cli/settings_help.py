# SPDX-License-Identifier: MIT
"""Format the settings for `./lab settings` and for tables of the reference pages."""

from collections.abc import Iterable

from gostlab.spec.profile import DIRECTIONS
from gostlab.spec.settings import PATH_FIELDS, SETTINGS, field_of, known_names
from gostlab.spec.yaml_source import BadInput, KeySchema, suggest_name


def describe_setting(name: str) -> str:
    """Describe a setting in a few lines. Raises BadInput if there is none of that name."""
    field = find_setting(name)
    properties = {
        "written as": field.unit,
        "one of": ", ".join(values_of(field)),
        "default": default_of(name, field),
        "like": field.example,
        "one way": ", ".join(f"{direction}.{name}" for direction in DIRECTIONS)
        if name in PATH_FIELDS
        else "",
    }
    lines = [f"  {label:10}  {text}" for label, text in properties.items() if text]
    return "\n".join([f"{name}: {field.says}", *lines])


def list_settings() -> str:
    """List every setting in a line, for a terminal."""
    width = max(map(len, SETTINGS))
    lines = [f"{name:{width}}  {field.says}" for name, field in SETTINGS.items()]
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


def settings_json(name: str | None = None) -> list[dict[str, object]]:
    """Return every setting, or one, as JSON. Raises BadInput for an unknown name."""
    fields = SETTINGS if name is None else {name: find_setting(name)}
    return [
        {
            "name": name,
            "says": field.says,
            "unit": field.unit,
            "words": values_of(field),
            "default": field.default,
            "example": field.example,
        }
        for name, field in fields.items()
    ]


def find_setting(name: str) -> KeySchema:
    """Return the schema of a setting. Raises BadInput."""
    field = field_of(name)
    if field is None:
        raise BadInput(f"{name}: nothing that can be set ({suggest_name(name, known_names())})")
    return field


def values_of(field: KeySchema) -> list[str]:
    schemas = [field.read.schema, *field.read.schema.get("anyOf", ())]
    values = next((schema["enum"] for schema in schemas if "enum" in schema), ())
    return list(dict.fromkeys(map(str, values))) if len(values) > 1 else []  # 3.9 is "3.9", too


def default_of(name: str, field: KeySchema) -> str:
    """Format the default of a setting."""
    if isinstance(field.default, str):
        return field.default
    return "the profile's own" if name.rpartition(".")[2] in PATH_FIELDS else "none"


def format_meaning(field: KeySchema) -> str:
    """Format the meaning of a field, with its unit or its values."""
    listed = values_of(field)
    values = f"one of {as_code(listed)}" if listed else field.unit
    return "; ".join(part for part in (field.says, values) if part)


def as_code(names: Iterable[str]) -> str:
    return ", ".join(f"`{name}`" for name in names if name)
