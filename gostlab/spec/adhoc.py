# SPDX-License-Identifier: MIT
"""Build the ad-hoc experiment of `./lab try` from settings and lists of levels.

It is an experiment like any other: `--save` writes its text, and the same text is saved with its
results. Its name contains a hash of the question, so that the same question finds its results
again, and more repetitions continue from the existing ones.

Flows are written as in a file, by the name of a set (rrul), or in short form:
a=cubic,b=bbr*2/rtt=80ms/start=10s, with the syntax

    NAME=CC[|CC…][*COUNT][/FIELD=VALUE…]

`*3` makes three such flows, called NAME1 to NAME3; alternative congestion controls are compared.
"""

import hashlib
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import yaml

from gostlab.errors import require_bounds
from gostlab.registry.traffic import kind_of_fields, traffic_kinds
from gostlab.spec.compatible_json import JsonObject
from gostlab.spec.expectations import split_text
from gostlab.spec.experiment import ExperimentFile, read_experiment
from gostlab.spec.labels import cell_label, level_label
from gostlab.spec.run_spec import Levels
from gostlab.spec.settings import FLOW_FIELDS, FLOW_PRESETS, read_override
from gostlab.spec.yaml_source import BadInput, Node, is_path, parse_document, suggest_name

# The defaults of a question; rate, round trip and buffer are the profile's.
TRY_DEFAULTS: Mapping[str, str] = {"profile": "plain-100ms", "cc": "cubic,bbr", "duration": "10s"}
# The defaults where flows compete: each flow has its own hosts, and needs time to reach its share.
CONTEST_DEFAULTS: Mapping[str, str] = {
    "profile": "plain-100ms",
    "topology": "dumbbell",
    "duration": "60s",
}
PATH_DEFAULTS: Mapping[str, str] = {
    "rate": "100mbit",
    "rtt": "100ms",
    "loss": "0%",
    "buffer": "1bdp",
}
MATRIX = "try"
# The options of the command line that are no settings.
OWN_OPTIONS = frozenset(
    "machine results jobs gost seed repeat json csv save help path expect junit".split()
)
# The order of levels in the table, outermost first, so that congestion controls are in adjacent
# rows.
INNERMOST = ("tunnel", "streams", "cc")
FLOW = re.compile(r"([^=/*|]+)=((?:[^=/*(]|\([^)]*\))+?)(?:\*([0-9]+))?((?:/[^/=]+=[^/]*)*)")
MAX_FLOWS = 64  # The maximum number of flows with one name, which is the maximum number of hosts.


@dataclass(frozen=True)
class Question:
    """Represent a question: one level per setting, several per factor, as written."""

    settings: Levels
    factors: Mapping[str, Sequence[Any]]
    repetitions: int
    seed: int
    # Whether flows compete: the question is then who gets how much, not which is faster.
    is_contest: bool = False
    expect: tuple[str, ...] = ()  # expectations, which do not change its name

    @property
    def ranks_flows(self) -> bool:
        """Return whether two or more flows are greedy; udp and ping flows have a fixed rate."""
        if not self.is_contest:
            return False
        greedy = [fields for fields in self.settings["flows"].values() if takes_all_rate(fields)]
        return len(greedy) > 1

    @cached_property
    def name(self) -> str:
        """Return the name of experiment and results folder, which repetitions do not change."""
        inputs = {"settings": self.settings, "factors": self.factors, "seed": self.seed}
        digest = hashlib.sha256(json.dumps(inputs, sort_keys=True).encode()).hexdigest()
        return f"try-{digest[:8]}"

    @property
    def title(self) -> str:
        """Return the comparison in one line: cubic or bbr; 1 or 16 streams."""
        if self.is_contest:
            flows = self.settings["flows"].items()
            labels = (
                f"{name} ({fields['cc']})" if "cc" in fields else name for name, fields in flows
            )
            return f"Who gets how much: {' against '.join(labels)}"
        compared = "; ".join(
            join_alternatives(alternatives(name, levels))
            for name, levels in reversed(list(self.factors.items()))
        )
        return compared or cell_label(self.key_settings) or "One run"

    @property
    def question(self) -> str:
        over = cell_label(self.key_settings) if self.factors or self.is_contest else ""
        if self.is_contest:
            return f"{self.title}{f' ({over})' if over else ''}?"
        return f"How fast, and with what delay: {self.title}{f' ({over})' if over else ''}?"

    @property
    def key_settings(self) -> Levels:
        """Return the settings that identify path and load."""
        omitted = (("duration", None), ("profile", TRY_DEFAULTS["profile"]), ("flows", None))
        return {
            name: level
            for name, level in sorted(
                self.settings.items(), key=lambda pair: sentence_position(pair[0])
            )
            if not any(name == other and value in (None, level) for other, value in omitted)
        }

    @cached_property
    def text(self) -> str:
        """Return the question as an experiment file."""
        return self.text_with(["shares", "series"] if self.is_contest else ["bars", "latency"])

    def text_with(self, plots: Sequence[str]) -> str:
        """Return the question as an experiment file that draws some plots."""
        matrix: JsonObject = {"name": MATRIX}
        if self.factors:
            matrix["factors"] = {name: list(levels) for name, levels in self.factors.items()}
        matrix["repetitions"] = self.repetitions
        if self.expect:
            matrix["expect"] = [dict([split_text(text)]) for text in self.expect]
        matrix["draw"] = list(plots)
        document = {
            "name": self.name,
            "title": self.title,
            "question": self.question,
            "seed": self.seed,
            "settings": dict(self.settings),
            "matrices": [matrix],
        }
        return f"# A question that ./lab try asked.\n{dump_document(document)}"

    def to_experiment(self, path: Path) -> ExperimentFile:
        """Return the experiment with its future path; errors name the option. Raises BadInput."""
        # Reading the name of a plot imports it, and only the report draws.
        return read_experiment(naming_options(parse_document(self.text_with(()), "try")), path)


def dump_document(document: JsonObject) -> str:
    """Return a document as YAML.

    libyaml writes it in a seventh of the time. Its text is the same but for characters that JSON
    escapes, those that cannot be printed, and those beyond the Basic Multilingual Plane.
    """
    text = json.dumps(document, ensure_ascii=False, default=str)
    is_alike = text.isprintable() and "\\" not in text and max(text) < "\ud800"
    dumper: Any = getattr(yaml, "CSafeDumper", yaml.SafeDumper) if is_alike else yaml.SafeDumper
    return yaml.dump(
        document,
        Dumper=dumper,
        sort_keys=False,
        allow_unicode=True,
        default_flow_style=None,
        width=96,
    )


def takes_all_rate(flow: Mapping[str, object]) -> bool:
    """Return whether a flow, as written, takes all of the rate that it gets."""
    declaration = traffic_kinds().get(str(flow.get("kind"))) or kind_of_fields(flow)
    return declaration.is_greedy and "rate" not in flow


def sentence_position(name: str) -> int:
    """Return the position of a setting in a sentence: the path comes first."""
    ordered = [*PATH_DEFAULTS, *INNERMOST]
    return ordered.index(name) if name in ordered else len(ordered)


def alternatives(factor: str, levels: Sequence[Any]) -> list[str]:
    """Return levels as text; a common ending appears once: 1, 4 or 16 streams."""
    if factor == "streams":
        return [*map(str, levels[:-1]), level_label(factor, levels[-1])]
    return [level_label(factor, level) for level in levels]


def join_alternatives(items: Sequence[str]) -> str:
    """Join alternatives as text: a; a or b; a, b or c."""
    return " or ".join([*([", ".join(items[:-1])] if items[:-1] else []), *items[-1:]])


def to_question(
    given: Mapping[str, str],
    *,
    repetitions: int = 1,
    seed: int = 1,
    own: tuple[str | None, str | None] = (None, None),
    expect: Sequence[str] = (),
) -> Question:
    """Return a question from options by name; `own` is the user's server and client command.

    Raises BadInput.
    """
    require_bounds(f"--repeat {repetitions}", repetitions, 1, 1000)
    flows, of_flows = parse_flows(given.get("flows", ""))
    if any(own):
        if not all(own) or flows:
            raise BadInput(
                "--run-server and --run-client belong together, and no --flows beside them"
            )
        flows = {"mine": {"kind": "command", "server": own[0], "client": own[1]}}
    by_name = flows if isinstance(flows, dict) else {}
    is_contest = len(by_name) > 1
    every_flow_has_cc = bool(by_name) and all(
        "cc" in fields or f"{name}.cc" in of_flows for name, fields in by_name.items()
    )
    if every_flow_has_cc and "cc" in given:
        raise BadInput("--cc: every flow has its own (--flows a=cubic,b=bbr)")
    defaults = CONTEST_DEFAULTS if is_contest else TRY_DEFAULTS
    if is_contest and not every_flow_has_cc:
        defaults = {**TRY_DEFAULTS, **defaults}
    if every_flow_has_cc:
        defaults = {name: text for name, text in defaults.items() if name != "cc"}
    texts = {**defaults, **{name: text for name, text in given.items() if name != "flows"}}
    levels = {name: levels_of(name, text) for name, text in texts.items()} | of_flows
    if flows:
        levels["flows"] = [flows]
    varied = [name for name, values in levels.items() if len(values) > 1]
    outer = [name for name in varied if name not in INNERMOST]
    order = [*outer, *(name for name in INNERMOST if name in varied)]
    return Question(
        settings={name: values[0] for name, values in levels.items() if len(values) == 1},
        factors={name: levels[name] for name in order},
        repetitions=repetitions,
        seed=seed,
        is_contest=is_contest,
        expect=tuple(expect),
    )


def parse_flows(text: str) -> tuple[Levels | str, dict[str, list[Any]]]:
    """Return the flows of an option, and the compared levels of their cc. Raises BadInput.

    Flows that have a name together, like rrul, are that name.
    """
    if text.strip() in ("", *FLOW_PRESETS):
        return text.strip(), {}
    factors: dict[str, list[Any]] = {}
    if not text.lstrip().startswith("{"):
        flows, factors = read_short_flows(text)
        text = json.dumps(flows)
    (level, *others) = levels_of("flows", text)
    if others:
        raise BadInput("--flows: more than one set of flows")
    return level, factors


def read_short_flows(text: str) -> tuple[dict[str, dict[str, str]], dict[str, list[Any]]]:
    """Return each flow's fields, and the compared levels by `FLOW.cc`. Raises BadInput."""
    flows: dict[str, dict[str, str]] = {}
    factors: dict[str, list[Any]] = {}
    # A comma within brackets separates a congestion control's parameters.
    for part in filter(str.strip, re.split(r",(?![^()]*\))", text)):
        match = FLOW.fullmatch(part.strip())
        if match is None:
            raise BadInput(
                f"--flows {part.strip()!r:.80}: not like a=cubic, or b=bbr*2/rtt=80ms/start=10s,"
                f" and no name of a set ({', '.join(FLOW_PRESETS)})"
            )
        name, cc, count, more = match.groups()
        suffixes = range(1, int(count) + 1) if count else [""]
        require_bounds(f"--flows {name}: {count} of it", len(suffixes), 1, MAX_FLOWS)
        fields = dict(field.split("=", 1) for field in more.split("/")[1:])
        for field in fields:
            if field not in FLOW_FIELDS or field == "cc":
                advice = suggest_name(field, sorted(FLOW_FIELDS))
                raise BadInput(f"--flows {name}: {field}: no field of a flow ({advice})")
        ccs = [control.strip() for control in cc.split("|")]
        for suffix in suffixes:
            flow_name = f"{name.strip()}{suffix}"
            if flow_name in flows:
                raise BadInput(f"--flows {flow_name}: named twice")
            flows[flow_name] = fields if len(ccs) > 1 else {"cc": ccs[0], **fields}
            if len(ccs) > 1:
                factors[f"{flow_name}.cc"] = ccs
    if len(flows) < 2 and not any(fields.keys() - {"cc"} for fields in flows.values()):
        raise BadInput(f"--flows {text.strip()!r:.80}: one flow has no competitor (a=cubic,b=bbr)")
    return flows, factors


def option_of(name: str) -> str:
    """Return the option of a setting: --NAME, unless that option has another meaning."""
    if name == "machine":  # --machine chooses where to run, as in every command.
        return "--measured-machine"
    return f"--setting.{name}" if name in OWN_OPTIONS else f"--{name}"


def levels_of(name: str, text: str) -> list[Any]:
    """Return an option's levels, as a file would have them. Raises BadInput."""
    levels = read_override(name, text, origin=option_of(name))
    return [
        str(Path(level.node.text).resolve())
        if name in ("profile", "trace") and level.node.text and is_path(level.node.text)
        else level.node.to_plain_values(whole_or_text)
        for level in levels
    ]


def whole_or_text(text: str) -> int | str:
    """Return a scalar for a YAML file; a whole number needs no quotes."""
    normalized = " ".join(text.split())
    return (
        int(normalized)
        if normalized.isdigit() and str(int(normalized)) == normalized
        else normalized
    )


def naming_options(node: Node, option: str = "") -> Node:
    """Return a document whose settings and levels name their option, such as `--rate`."""
    # The settings, and the factors of the only matrix, each come from an option.
    field = node.key.rpartition(".")[2]
    has_options = field in ("settings", "factors")
    of_children = option or ("--expect" if field == "expect" else "")
    changed = node.changed(
        lambda key, child: naming_options(child, of_children or (option_of(key) * has_options))
    )
    return replace(changed, origin=option, line=None, key="") if option else changed
