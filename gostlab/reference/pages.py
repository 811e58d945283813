"""The pages: tables of what is declared, and the templates that they stand in."""

import argparse
import ast
import json
import re
import textwrap
import tomllib
from collections.abc import Iterable, Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined

from gostlab.analysis.stats.metrics import MERITS
from gostlab.analysis.stats.throughput_model import MODELS
from gostlab.cli import main
from gostlab.cli.common import ArgumentParser, Verb
from gostlab.cli.settings_help import as_code, default_of, meaning
from gostlab.reference import public
from gostlab.registry.congestion_controls import IN_LINUX, shipped_controls
from gostlab.registry.folders import ROOT, from_root
from gostlab.registry.kernels import DECIDING, FEATURES, SHIPPED, declared_kernels
from gostlab.registry.plots import caption_of, drawing_files
from gostlab.registry.qdiscs import BOTTLENECK, QUEUE, qdisc_kinds
from gostlab.registry.static_loader import parse_source
from gostlab.registry.topologies import topologies
from gostlab.registry.traffic import traffic_kinds
from gostlab.registry.tunnels import LEGS, tunnel_kinds
from gostlab.results import format as results_format
from gostlab.spec.experiment import (
    ExperimentFile,
    Matrix,
    Published,
    Quick,
    Until,
    experiment_schema,
)
from gostlab.spec.profile import GEMODEL_FIELDS, PERIODIC_FIELDS, Profile, ProfileDirection
from gostlab.spec.settings import CHANGE_FIELDS, FLOW_FIELDS, PATH_FIELDS, SETTINGS
from gostlab.spec.trace import COLUMN_SAYS
from gostlab.spec.yaml_source import KeySchema, document_schema, keys_of

COMMAND = "python3 -m gostlab.reference"
FOLDER = ROOT / "docs" / "reference"
CONTROLS = Path(__file__).with_name("congestion_controls.toml")
EXPERIMENT_SCHEMA = ROOT / "schemas" / "experiment.json"
PROFILE_SCHEMA = ROOT / "schemas" / "profile.json"
WIDTH = 100
ANY_SETTING = "any other setting"  # a group of options that settings.md has


def generated() -> dict[Path, str]:
    """Every file that is made, with its text."""
    schemas = {EXPERIMENT_SCHEMA: experiment_schema(), PROFILE_SCHEMA: profile_schema()}
    encode = partial(json.dumps, indent=1, ensure_ascii=False)
    made = {path: encode(schema) + "\n" for path, schema in schemas.items()}
    tables = page_tables()
    environment = Environment(
        loader=FileSystemLoader(Path(__file__).parent),
        trim_blocks=True,
        undefined=StrictUndefined,
        keep_trailing_newline=True,
        autoescape=False,
    )
    environment.filters["wrap"] = partial(textwrap.fill, width=WIDTH, break_on_hyphens=False)
    for name in environment.list_templates(extensions=["j2"]):
        page = FOLDER / name.removesuffix(".j2")
        made[page] = environment.get_template(name).render(command=COMMAND, **tables)
    return made


def profile_schema() -> dict[str, Any]:
    return document_schema("A gostlab path", keys_of(Profile))


def page_tables() -> dict[str, Any]:
    fields = {
        "flow": FLOW_FIELDS,
        "change": CHANGE_FIELDS,
        "gemodel": GEMODEL_FIELDS,
        "periodic": PERIODIC_FIELDS,
        "experiment": keys_of(ExperimentFile),
        "matrix": keys_of(Matrix),
        "until": keys_of(Until),
        "quick": keys_of(Quick),
        "published": keys_of(Published),
        "profile": keys_of(Profile),
        "direction": keys_of(ProfileDirection),
    }
    return {
        **{name: fields_table(each) for name, each in fields.items()},
        "settings": settings_table(SETTINGS),
        "columns": table(("column", "what"), ((code(n), says) for n, says in COLUMN_SAYS.items())),
        "path_words": as_code(PATH_FIELDS),
        "legs": as_code(LEGS),
        "figures": table(("figure", "what"), ((code(each.name), each.words) for each in MERITS)),
        "models": table(("model", "curve"), ((code(each.name), each.label) for each in MODELS)),
        "drawings": table(
            ("drawing", "what it shows"), ((code(word), shown_by(word)) for word in drawing_files())
        ),
        "tunnels": tunnels_table(),
        "networks": table(
            ("topology", "what it is"),
            ((code(each.name), each.says) for each in topologies().values()),
        ),
        "bottlenecks": qdiscs_table(BOTTLENECK),
        "queues": qdiscs_table(QUEUE),
        "traffic": table(
            ("kind", "what it is", "fields of its own"),
            (
                (code(each.name), each.says, as_code((*each.must, *each.may)))
                for each in traffic_kinds().values()
            ),
        ),
        "controls": controls_table(),
        "kernels": kernels_table(),
        "kernel_parts": table(
            ("word", "a kernel without it has no"),
            ((code(name), each.says) for name, each in FEATURES.items()),
        ),
        "deciding": as_code(DECIDING),
        "verbs": "\n\n".join(verb_section(each) for each in main.VERBS),
        "python": public.to_markdown(),
        "format": results_format.SCHEMA,
        "files": table(
            ("file", "form", "in which folders", "what"),
            ((code(each.name), each.form, each.when, each.says) for each in results_format.files()),
        ),
        "fields_of_files": [
            (each.name, f"{each.says[0].upper()}{each.says[1:]}", columns_table(each.fields))
            for each in results_format.files()
            if each.fields
        ],
    }


# -- tables


def settings_table(fields: Mapping[str, KeySchema]) -> str:
    """Settings, with what holds where nobody writes them."""
    rows = (
        (code(name), meaning(each), default_of(name, each), as_code([each.example]))
        for name, each in fields.items()
    )
    return table(("setting", "what", "default", "like"), rows)


def fields_table(fields: Mapping[str, KeySchema]) -> str:
    rows = []
    for name, each in fields.items():
        key = code(name) + (" (needed)" if each.required else "")
        rows.append((key, meaning(each), as_code([each.example])))
    return table(("key", "what", "like"), rows)


def columns_table(fields: Iterable[results_format.FormatField]) -> str:
    """The fields of a result's file."""
    rows = ((code(each.path), each.kind_words, each.unit, each.says) for each in fields)
    return table(("field", "kind", "unit", "what"), rows)


def shown_by(word: str) -> str:
    """What a drawing shows: its caption; of one that is composed, its file's first sentence."""
    caption = caption_of(word)
    if caption[:1].isupper():
        return caption
    said = ast.get_docstring(parse_source(drawing_files()[word])) or ""
    return re.sub(r"\s+", " ", said.partition("\n\n")[0])


def tunnels_table() -> str:
    """Every tunnel once, with its other names."""
    rows = (
        (
            as_code((each.name, *each.spellings)),
            each.says,
            ", ".join(each.legs),
            each.over or "–",
            "yes" if each.one_connection else "no",
            ", ".join(each.carries),
            "yes" if each.chain or each.is_direct else "no",
            each.sent_by,
            each.since,
        )
        for each in dict.fromkeys(tunnel_kinds().values())
    )
    heading = ("tunnel", "what it is", "legs", "over", "one connection", "carries", "chain")
    return table((*heading, "sends", "GOST from"), rows)


def qdiscs_table(use: str) -> str:
    rows = (
        (
            as_code((each.name, *each.spellings)),
            each.says,
            "yes" if each.marks else "no",
            ".".join(map(str, each.since)) or "every kernel",
        )
        for each in dict.fromkeys(qdisc_kinds().values())
        if each.use == use
    )
    return table((use, "what it is", "marks (ECN)", "Linux from"), rows)


def controls_table() -> str:
    """Every congestion control: what it reacts to, how, from where."""
    told = tomllib.loads(CONTROLS.read_text(encoding="utf-8"))
    own = {name: each.source for name, each in shipped_controls().items()}
    rows = []
    for name in (*IN_LINUX, *own):
        each = told[name]
        file = from_root(own[name]) if name in own else f"net/ipv4/{each['file']}"
        rows.append((code(name), each["reacts_to"], each["how"], str(file), each["source"]))
    return table(("`cc`", "reacts to", "how", "file", "paper"), rows)


def kernels_table() -> str:
    rows = [(code(SHIPPED), "Debian's newest source", "nothing")]
    for name, each in declared_kernels().items():
        lacks = as_code(each.lacks) or "nothing"
        rows.append((code(name), each.package, lacks))
    return table(("`kernel`", "from", "lacks"), rows)


def table(header: Iterable[str], rows: Iterable[Iterable[str]]) -> str:
    head = tuple(header)
    escaped = ([cell.replace("|", "\\|") for cell in line] for line in (head, *rows))
    lines = [f"| {' | '.join(line)} |" for line in escaped]
    return "\n".join([lines[0], f"|{'---|' * len(head)}", *lines[1:]])


def code(word: str) -> str:
    return f"`{word}`"


# -- verbs


def verb_section(verb: Verb) -> str:
    """A verb: what it does, an example, its words."""
    parser = ArgumentParser(prog="./lab")
    made = verb.add_to(parser.add_subparsers())
    says = textwrap.fill(sentence(verb.says), WIDTH, break_on_hyphens=False)
    lines = [f"## {verb.name}", "", says]
    if verb.example:
        lines += ["", f"    {verb.example}"]
    lines += ["", table(("word", "what"), words_of(made, ""))]
    return "\n".join(lines)


def words_of(parser: argparse.ArgumentParser, before: str) -> Iterator[tuple[str, str]]:
    """Every word that a verb takes; of a verb with actions, each action and its words."""
    for group in parser._action_groups:
        if (group.title or "").startswith(ANY_SETTING):
            yield "`--SETTING`", "any other setting: [settings](settings.md)"
            continue
        for action in group._group_actions:
            if isinstance(action, argparse._HelpAction) or action.help == argparse.SUPPRESS:
                continue
            if isinstance(action, argparse._SubParsersAction):
                says = {each.dest: each.help for each in action._choices_actions}
                for name, inner in action.choices.items():
                    yield code(f"{before}{name}"), plain(says.get(name), action)
                    yield from words_of(inner, f"{before}{name} ")
                continue
            yield code(before + written(action)), plain(action.help, action)


def written(action: argparse.Action) -> str:
    """How an option or a word is written."""
    value = action.metavar or (
        "|".join(map(str, action.choices)) if action.choices else action.dest.upper()
    )
    if isinstance(value, tuple):
        value = " ".join(value)
    if not action.option_strings:
        return str(value)
    names = ", ".join(action.option_strings)
    if action.nargs == 0:
        return names
    return f"{names} [{value}]" if action.nargs == "?" else f"{names} {value}"


def plain(text: str | None, action: argparse.Action) -> str:
    """A help text as argparse shows it, on one line."""
    said = re.sub(r"\s+", " ", text or "").replace(", ".join(SETTINGS), "[settings](settings.md)")
    return said % {**vars(action), "prog": "./lab"} if "%" in said else said


def sentence(words: str) -> str:
    return f"{words[0].upper()}{words[1:]}".rstrip("?.") + ("?" if words.endswith("?") else ".")
