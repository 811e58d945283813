# SPDX-License-Identifier: MIT
"""Generate the tables of declarations and fill them into the pages' templates."""

import json
import textwrap
import tomllib
from collections.abc import Iterable, Mapping
from functools import partial
from pathlib import Path

from jinja2 import Environment, FileSystemLoader, StrictUndefined

from gostlab.analysis.stats.metrics import METRICS
from gostlab.analysis.stats.throughput_model import MODELS
from gostlab.cli import main, user_config
from gostlab.cli.common import EXIT_CODES, ArgumentParser
from gostlab.cli.environment_variables import VARIABLES
from gostlab.cli.settings_help import as_code, default_of, format_meaning
from gostlab.registry.congestion_controls import IN_LINUX, shipped_controls
from gostlab.registry.folders import ROOT, from_root
from gostlab.registry.kernels import DECIDING, FEATURES, SHIPPED, declared_kernels
from gostlab.registry.plot_names import drawing_files, load_drawing
from gostlab.registry.qdiscs import BOTTLENECK, QUEUE, qdisc_kinds
from gostlab.registry.topologies import topologies
from gostlab.registry.traffic import traffic_kinds
from gostlab.registry.tunnels import LEGS, tunnel_kinds
from gostlab.results import format as results_format
from gostlab.spec.experiment import (
    ExperimentFile,
    Matrix,
    Published,
    QuickForm,
    StoppingRule,
    experiment_schema,
)
from gostlab.spec.impairments import (
    DISTRIBUTED_SLOT_FIELDS,
    OUTAGE_FIELDS,
    POLICER_FIELDS,
    REORDER_FIELDS,
    SHARE_FIELDS,
    SLOT_FIELDS,
)
from gostlab.spec.profile import (
    GEMODEL_FIELDS,
    PERIODIC_FIELDS,
    RANDOM_FIELDS,
    STATE_FIELDS,
    Profile,
    ProfileDirection,
)
from gostlab.spec.settings import CHANGE_FIELDS, FLOW_FIELDS, PATH_FIELDS, SETTINGS
from gostlab.spec.trace import COLUMN_SAYS
from gostlab.spec.yaml_source import KeySchema, document_schema, keys_of
from tools.reference import public
from tools.reference.arguments import list_arguments, sentence
from tools.reference.man_page import man_page

COMMAND = "python3 -m tools.reference"
FOLDER = ROOT / "docs" / "reference"
CONTROLS = Path(__file__).with_name("congestion_controls.toml")
EXPERIMENT_SCHEMA = ROOT / "schemas" / "experiment.json"
PROFILE_SCHEMA = ROOT / "schemas" / "profile.json"
WIDTH = 100


def generated() -> dict[Path, str]:
    """Return the path and text of every generated file."""
    schemas = {EXPERIMENT_SCHEMA: experiment_schema(), PROFILE_SCHEMA: profile_schema()}
    encode = partial(json.dumps, indent=1, ensure_ascii=False)
    files = {path: encode(schema) + "\n" for path, schema in schemas.items()}
    files[FOLDER / "gostlab.1"] = man_page()
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
        files[page] = environment.get_template(name).render(command=COMMAND, **tables)
    return files


def profile_schema() -> dict[str, object]:
    return document_schema("A gostlab path", keys_of(Profile))


def page_tables() -> dict[str, object]:
    fields = {
        "flow": FLOW_FIELDS,
        "change": CHANGE_FIELDS,
        "gemodel": GEMODEL_FIELDS,
        "periodic": PERIODIC_FIELDS,
        "state": STATE_FIELDS,
        "random": RANDOM_FIELDS,
        "policer": POLICER_FIELDS,
        "reorder": REORDER_FIELDS,
        "share": SHARE_FIELDS,
        "slot": SLOT_FIELDS,
        "distributed_slot": DISTRIBUTED_SLOT_FIELDS,
        "outage": OUTAGE_FIELDS,
        "experiment": keys_of(ExperimentFile),
        "matrix": keys_of(Matrix),
        "until": keys_of(StoppingRule),
        "quick": keys_of(QuickForm),
        "published": keys_of(Published),
        "profile": keys_of(Profile),
        "direction": keys_of(ProfileDirection),
    }
    return {
        **{name: fields_table(fields_of_file) for name, fields_of_file in fields.items()},
        "settings": settings_table(SETTINGS),
        "columns": table(("column", "what"), ((code(n), says) for n, says in COLUMN_SAYS.items())),
        "path_fields": as_code(PATH_FIELDS),
        "legs": as_code(LEGS),
        "figures": table(
            ("figure", "what"), ((code(metric.name), metric.heading) for metric in METRICS)
        ),
        "models": table(("model", "curve"), ((code(model.name), model.label) for model in MODELS)),
        "drawings": table(
            ("drawing", "what it shows"),
            (
                (code(word), capitalised(load_drawing(word, file).caption))
                for word, file in drawing_files().items()
            ),
        ),
        "tunnels": tunnels_table(),
        "networks": table(
            ("topology", "what it is"),
            ((code(topology.name), topology.says) for topology in topologies().values()),
        ),
        "bottlenecks": qdiscs_table(BOTTLENECK),
        "queues": qdiscs_table(QUEUE),
        "traffic": table(
            ("kind", "what it is", "fields of its own"),
            (
                (code(traffic.name), traffic.says, as_code((*traffic.must, *traffic.may)))
                for traffic in traffic_kinds().values()
            ),
        ),
        "controls": controls_table(),
        "kernels": kernels_table(),
        "kernel_parts": table(
            ("word", "a kernel without it has no"),
            ((code(name), feature.says) for name, feature in FEATURES.items()),
        ),
        "deciding": as_code(DECIDING),
        "verbs": "\n\n".join(verb_section(entry) for entry in main.VERBS),
        "exit_codes": table(
            ("code", "what"), ((code(str(status)), says) for status, says in EXIT_CODES.items())
        ),
        "variables": table(
            ("variable", "what"), ((code(n), says) for n, says in VARIABLES.items())
        ),
        "defaults": table(
            ("key", "what"), ((code(name), says) for name, says in user_config.OPTIONS.items())
        ),
        "python": public.to_markdown(),
        "format": results_format.SCHEMA,
        "files": table(
            ("file", "form", "in which folders", "what"),
            ((code(file.name), file.form, file.when, file.says) for file in results_format.files()),
        ),
        "fields_of_files": [
            (file.name, f"{file.says[0].upper()}{file.says[1:]}", columns_table(file.fields))
            for file in results_format.files()
            if file.fields
        ],
    }


# -- tables


def settings_table(fields: Mapping[str, KeySchema]) -> str:
    """Return a table of the settings with their defaults."""
    rows = (
        (code(name), format_meaning(field), default_of(name, field), as_code([field.example]))
        for name, field in fields.items()
    )
    return table(("setting", "what", "default", "like"), rows)


def fields_table(fields: Mapping[str, KeySchema]) -> str:
    rows = []
    for name, field in fields.items():
        key = code(name) + (" (needed)" if field.required else "")
        rows.append((key, format_meaning(field), as_code([field.example])))
    return table(("key", "what", "like"), rows)


def columns_table(fields: Iterable[results_format.FormatField]) -> str:
    """Return a table of the fields of a result file."""
    rows = ((code(field.path), field.kind_words, field.unit, field.says) for field in fields)
    return table(("field", "kind", "unit", "what"), rows)


def capitalised(text: str) -> str:
    return text[:1].upper() + text[1:]


def tunnels_table() -> str:
    """Return a table of all tunnels with their aliases."""
    rows = (
        (
            as_code((tunnel.name, *tunnel.spellings)),
            tunnel.says,
            ", ".join(tunnel.legs),
            tunnel.over or "–",
            "yes" if tunnel.one_connection else "no",
            ", ".join(tunnel.carries),
            "yes" if tunnel.chain or tunnel.is_direct else "no",
            tunnel.sent_by,
            tunnel.since,
        )
        for tunnel in dict.fromkeys(tunnel_kinds().values())
    )
    heading = ("tunnel", "what it is", "legs", "over", "one connection", "carries", "chain")
    return table((*heading, "sends", "GOST from"), rows)


def qdiscs_table(use: str) -> str:
    rows = (
        (
            as_code((qdisc.name, *qdisc.spellings)),
            qdisc.says,
            "yes" if qdisc.marks else "no",
            ".".join(map(str, qdisc.since)) or "every kernel",
        )
        for qdisc in dict.fromkeys(qdisc_kinds().values())
        if qdisc.use == use
    )
    return table((use, "what it is", "marks (ECN)", "Linux from"), rows)


def controls_table() -> str:
    """Return a table of all congestion controls: signal, reaction and source."""
    descriptions = tomllib.loads(CONTROLS.read_text(encoding="utf-8"))
    sources = {name: control.source for name, control in shipped_controls().items()}
    rows = []
    for name in (*IN_LINUX, *sources):
        description = descriptions[name]
        file = from_root(sources[name]) if name in sources else f"net/ipv4/{description['file']}"
        rows.append(
            (
                code(name),
                description["reacts_to"],
                description["how"],
                str(file),
                description["source"],
            )
        )
    return table(("`cc`", "reacts to", "how", "file", "paper"), rows)


def kernels_table() -> str:
    rows = [(code(SHIPPED), "Debian's newest source", "nothing")]
    for name, kernel in declared_kernels().items():
        lacks = as_code(kernel.lacks) or "nothing"
        rows.append((code(name), kernel.package, lacks))
    return table(("`kernel`", "from", "lacks"), rows)


def table(header: Iterable[str], rows: Iterable[Iterable[str]]) -> str:
    head = tuple(header)
    escaped = ([cell.replace("|", "\\|") for cell in line] for line in (head, *rows))
    lines = [f"| {' | '.join(line)} |" for line in escaped]
    return "\n".join([lines[0], f"|{'---|' * len(head)}", *lines[1:]])


def code(word: str) -> str:
    return f"`{word}`"


# -- commands


def verb_section(entry: main.VerbEntry) -> str:
    """Return a command's section: description, example and arguments."""
    parser = ArgumentParser(prog="./lab")
    verb = entry.declared()
    parser_of_verb = verb.add_to(parser.add_subparsers(), entry.name, entry.says)
    says = textwrap.fill(sentence(entry.says), WIDTH, break_on_hyphens=False)
    lines = [f"## {entry.name}", "", says]
    if verb.example:
        lines += ["", f"    {verb.example}"]
    lines += ["", table(("word", "what"), list_arguments(parser_of_verb, ""))]
    return "\n".join(lines)
