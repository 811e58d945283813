"""What can be asked, for people and for editors, from where each word is defined.

python3 -m gostlab.describe.file.manual     writes docs/reference/settings.md and schemas/
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from jinja2 import Template

from gostlab.declared.drawings import caption_of, drawing_files
from gostlab.declared.folders import ROOT
from gostlab.declared.qdiscs import BOTTLENECK, QUEUE, qdisc_kinds
from gostlab.declared.topologies import topologies
from gostlab.declared.traffic import traffic_kinds
from gostlab.declared.tunnels import LEGS, tunnel_kinds
from gostlab.describe.file.document import BadInput, Field, document_schema, keys_of, meant
from gostlab.describe.file.experiment import (
    Experiment,
    Matrix,
    Published,
    Quick,
    Until,
    experiment_schema,
)
from gostlab.describe.file.profile import (
    DIRECTIONS,
    GEMODEL_FIELDS,
    PERIODIC_FIELDS,
    Direction,
    Profile,
)
from gostlab.describe.file.settings import (
    CHANGE_FIELDS,
    FLOW_FIELDS,
    PATH_FIELDS,
    SETTINGS,
    field_of,
    known_names,
)
from gostlab.describe.file.trace import COLUMN_SAYS

TEMPLATE = Path(__file__).with_name("settings.md.j2")
PAGE = ROOT / "docs/reference/settings.md"
EXPERIMENT_SCHEMA = ROOT / "schemas" / "experiment.json"
PROFILE_SCHEMA = ROOT / "schemas" / "profile.json"


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


def field_called(name: str) -> Field:
    """What can be set by a name. Raises BadInput."""
    found = field_of(name)
    if found is None:
        raise BadInput(f"{name}: nothing that can be set ({meant(name, known_names())})")
    return found


def words_of(each: Field) -> list[str]:
    schemas = [each.read.schema, *each.read.schema.get("anyOf", ())]
    words = next((schema["enum"] for schema in schemas if "enum" in schema), ())
    return [str(word) for word in words] if len(words) > 1 else []


def default_of(name: str, each: Field) -> str:
    """What holds where nobody writes it."""
    if isinstance(each.default, str):
        return each.default
    return "the profile's own" if name.rpartition(".")[2] in PATH_FIELDS else "none"


def settings_page() -> str:
    tables = {
        "flow": FLOW_FIELDS,
        "change": CHANGE_FIELDS,
        "gemodel": GEMODEL_FIELDS,
        "periodic": PERIODIC_FIELDS,
        **{
            kind.__name__.lower(): keys_of(kind)
            for kind in (Experiment, Matrix, Until, Quick, Published, Profile, Direction)
        },
    }
    columns = [(f"`{name}`", says) for name, says in COLUMN_SAYS.items()]
    template = Template(TEMPLATE.read_text(encoding="utf-8"), keep_trailing_newline=True)
    return template.render(
        **{name: fields_table(fields) for name, fields in tables.items()},
        settings=settings_table(SETTINGS),
        columns=table(("column", "what"), columns),
        kinds=kinds_table(),
        path_words=as_code(PATH_FIELDS),
        legs=as_code(LEGS),
    )


def kinds_table() -> str:
    """Every tunnel, topology, queue, kind of traffic and drawing, by its own declaration."""
    kinds: dict[str, Iterable[Any]] = {
        "tunnel": dict.fromkeys(tunnel_kinds().values()),
        "topology": topologies().values(),
        "bottleneck": (kind for kind in qdisc_kinds().values() if kind.use == BOTTLENECK),
        "queue": (kind for kind in qdisc_kinds().values() if kind.use == QUEUE),
        "traffic": traffic_kinds().values(),
    }
    rows = [(kind, f"`{each.name}`", each.says) for kind, all in kinds.items() for each in all]
    rows += [("drawing", f"`{word}`", caption_of(word)) for word in drawing_files()]
    return table(("kind", "name", "what it is"), rows)


def settings_table(fields: Mapping[str, Field]) -> str:
    """Settings as a table, with what holds where nobody writes them."""
    rows = (
        (f"`{name}`", meaning(each), default_of(name, each), as_code([each.example]))
        for name, each in fields.items()
    )
    return table(("setting", "what", "default", "like"), rows)


def fields_table(fields: Mapping[str, Field]) -> str:
    rows = (
        (
            f"`{name}`" + (" (needed)" if each.required else ""),
            meaning(each),
            as_code([each.example]),
        )
        for name, each in fields.items()
    )
    return table(("key", "what", "like"), rows)


def meaning(each: Field) -> str:
    """What a field means, with its unit or its words."""
    listed = words_of(each)
    how = f"one of {as_code(listed)}" if listed else each.unit
    return "; ".join(part for part in (each.says, how) if part)


def as_code(names: Iterable[str]) -> str:
    return ", ".join(f"`{name}`" for name in names if name)


def table(header: tuple[str, ...], rows: Iterable[tuple[str, ...]]) -> str:
    lines = [header, tuple("---" for _ in header), *rows]
    escaped = ([cell.replace("|", "\\|") for cell in line] for line in lines)
    return "\n".join(f"| {' | '.join(line)} |" for line in escaped)


def profile_schema() -> dict[str, Any]:
    return document_schema("A gostlab path", keys_of(Profile))


def generated() -> dict[Path, str]:
    schemas = {EXPERIMENT_SCHEMA: experiment_schema(), PROFILE_SCHEMA: profile_schema()}
    texts = {
        path: json.dumps(schema, indent=1, ensure_ascii=False) + "\n"
        for path, schema in schemas.items()
    }
    return {PAGE: settings_page(), **texts}


def main() -> None:
    for path, text in generated().items():
        path.parent.mkdir(exist_ok=True)
        path.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
