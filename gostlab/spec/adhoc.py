"""A question from the command line: settings and lists of levels, without a file.

It is an experiment like any other: its text is what `--save` writes, and the same text is kept with
its results. Its name has a hash of what was asked, so the same question finds its answer again, and
more repetitions of it go on from those that there are.

Flows are written as in a file, or in words: a=cubic,b=bbr*2/rtt=80ms/start=10s, which is

    NAME=CC[|CC…][*COUNT][/FIELD=VALUE…]

`*3` makes three of it, called NAME1 to NAME3; alternatives of a congestion control are compared.
"""

import hashlib
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import yaml

from gostlab.errors import bounded
from gostlab.spec.experiment import ExperimentFile, read_experiment
from gostlab.spec.labels import cell_words, level_words
from gostlab.spec.settings import FLOW_FIELDS, read_override
from gostlab.spec.yaml_source import BadInput, Node, is_path, meant, parse_document

# What holds unless the question says otherwise; rate, round trip and buffer are the profile's.
TRY_DEFAULTS: Mapping[str, str] = {"profile": "plain-100ms", "cc": "cubic,bbr", "duration": "10s"}
# The same where flows compete: each has hosts of its own, and needs time to find its share.
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
# What the command line has of its own, besides settings.
OWN_OPTIONS = frozenset(
    {"machine", "results", "jobs", "gost", "seed", "repeat", "json", "csv", "save", "help"}
)
# The table's order of levels, outermost first; congestion controls stand below each other.
INNERMOST = ("tunnel", "streams", "cc")
FLOW = re.compile(r"([^=/*|]+)=((?:[^=/*(]|\([^)]*\))+?)(?:\*([0-9]+))?((?:/[^/=]+=[^/]*)*)")
MAX_FLOWS = 64  # of one kind: as many as there may be hosts


@dataclass(frozen=True)
class Question:
    """What was asked: one level of each setting, several of each factor, as people wrote them."""

    settings: Mapping[str, Any]
    factors: Mapping[str, Sequence[Any]]
    repetitions: int
    seed: int
    is_contest: bool = False  # flows that compete: who gets how much, not which is faster

    @property
    def ranks_flows(self) -> bool:
        """Return whether two flows or more take what the path leaves; udp and ping take a rate."""
        taking = [its for its in self.settings.get("flows", {}).values() if takes_all(its)]
        return self.is_contest and len(taking) > 1

    @property
    def name(self) -> str:
        """The experiment's name, and its results' folder. More repetitions are the same name."""
        asked = {"settings": self.settings, "factors": self.factors, "seed": self.seed}
        sum_of_all = hashlib.sha256(json.dumps(asked, sort_keys=True).encode()).hexdigest()
        return f"try-{sum_of_all[:8]}"

    @property
    def title(self) -> str:
        """What is compared, in a line: cubic or bbr; 1 or 16 streams."""
        if self.is_contest:
            flows = self.settings["flows"].items()
            said = (f"{name} ({its['cc']})" if "cc" in its else name for name, its in flows)
            return f"Who gets how much: {' against '.join(said)}"
        compared = "; ".join(
            listed(alternatives(name, levels))
            for name, levels in reversed(list(self.factors.items()))
        )
        return compared or cell_words(self.shown_settings) or "One run"

    @property
    def question(self) -> str:
        over = cell_words(self.shown_settings) if self.factors or self.is_contest else ""
        if self.is_contest:
            return f"{self.title}{f' ({over})' if over else ''}?"
        return f"How fast, and with what delay: {self.title}{f' ({over})' if over else ''}?"

    @property
    def shown_settings(self) -> Mapping[str, Any]:
        """The settings that say which path and load it is."""
        unsaid = (("duration", None), ("profile", TRY_DEFAULTS["profile"]), ("flows", None))
        return {
            name: level
            for name, level in sorted(self.settings.items(), key=lambda pair: place_of(pair[0]))
            if not any(name == other and only in (None, level) for other, only in unsaid)
        }

    @property
    def text(self) -> str:
        matrix: dict[str, Any] = {"name": MATRIX}
        if self.factors:
            matrix["factors"] = {name: list(levels) for name, levels in self.factors.items()}
        matrix["repetitions"] = self.repetitions
        matrix["draw"] = ["shares", "series"] if self.is_contest else ["bars", "latency"]
        document = {
            "name": self.name,
            "title": self.title,
            "question": self.question,
            "seed": self.seed,
            "settings": dict(self.settings),
            "matrices": [matrix],
        }
        return "# A question that ./lab try asked.\n" + yaml.safe_dump(
            document, sort_keys=False, allow_unicode=True, default_flow_style=None, width=96
        )

    def to_experiment(self, place: Path) -> ExperimentFile:
        """The experiment to stand at `place`; errors name the option. Raises BadInput."""
        return read_experiment(naming_options(parse_document(self.text, "try")), place)


def takes_all(flow: Mapping[str, Any]) -> bool:
    return flow.get("kind") not in ("udp", "ping")


def place_of(name: str) -> int:
    """Where a setting stands in a sentence: the path first."""
    said_first = [*PATH_DEFAULTS, *INNERMOST]
    return said_first.index(name) if name in said_first else len(said_first)


def alternatives(factor: str, levels: Sequence[Any]) -> list[str]:
    """Levels as people say them; what all end in is said once: 1, 4 or 16 streams."""
    if factor == "streams":
        return [*map(str, levels[:-1]), level_words(factor, levels[-1])]
    return [level_words(factor, level) for level in levels]


def listed(words: Sequence[str]) -> str:
    """a; a or b; a, b or c."""
    return " or ".join([*([", ".join(words[:-1])] if words[:-1] else []), *words[-1:]])


def to_question(
    given: Mapping[str, str],
    *,
    repetitions: int = 1,
    seed: int = 1,
    own: tuple[str | None, str | None] = (None, None),
) -> Question:
    """A question from options by name; `own`: the user's server and client. Raises BadInput."""
    bounded(f"--repeat {repetitions}", repetitions, 1, 1000)
    flows, of_flows = flows_asked(given.get("flows", ""))
    if any(own):
        if not all(own) or flows:
            raise BadInput(
                "--run-server and --run-client belong together, and no --flows beside them"
            )
        flows = {"mine": {"kind": "command", "server": own[0], "client": own[1]}}
    is_contest = len(flows) > 1
    every_flow_has_its_own = is_contest and all(
        "cc" in fields or f"{name}.cc" in of_flows for name, fields in flows.items()
    )
    if every_flow_has_its_own and "cc" in given:
        raise BadInput("--cc: every flow has its own (--flows a=cubic,b=bbr)")
    defaults = CONTEST_DEFAULTS if is_contest else TRY_DEFAULTS
    if is_contest and not every_flow_has_its_own:
        defaults = {**TRY_DEFAULTS, **defaults}
    words = {**defaults, **{name: text for name, text in given.items() if name != "flows"}}
    levels = {name: levels_of(name, text) for name, text in words.items()} | of_flows
    if flows:
        levels["flows"] = [flows]
    varied = [name for name, found in levels.items() if len(found) > 1]
    outer = [name for name in varied if name not in INNERMOST]
    order = [*outer, *(name for name in INNERMOST if name in varied)]
    return Question(
        settings={name: found[0] for name, found in levels.items() if len(found) == 1},
        factors={name: levels[name] for name in order},
        repetitions=repetitions,
        seed=seed,
        is_contest=is_contest,
    )


def flows_asked(text: str) -> tuple[Mapping[str, Any], dict[str, list[Any]]]:
    """The flows that an option asks for, and the compared levels of their cc. Raises BadInput."""
    if not text:
        return {}, {}
    factors: dict[str, list[Any]] = {}
    if not text.lstrip().startswith("{"):
        flows, factors = read_flows_words(text)
        text = json.dumps(flows)
    (level, *more) = levels_of("flows", text)
    if more:
        raise BadInput("--flows: more than one set of flows")
    return level, factors


def read_flows_words(text: str) -> tuple[dict[str, dict[str, str]], dict[str, list[Any]]]:
    """Each flow's fields, and by `FLOW.cc` what is compared. Raises BadInput."""
    flows: dict[str, dict[str, str]] = {}
    factors: dict[str, list[Any]] = {}
    # A comma within brackets is one of a congestion control's parameters.
    for part in filter(str.strip, re.split(r",(?![^()]*\))", text)):
        found = FLOW.fullmatch(part.strip())
        if found is None:
            raise BadInput(
                f"--flows {part.strip()!r:.80}: not like a=cubic, or b=bbr*2/rtt=80ms/start=10s"
            )
        name, cc, count, more = found.groups()
        numbers = range(1, int(count) + 1) if count else [""]
        bounded(f"--flows {name}: {count} of it", len(numbers), 1, MAX_FLOWS)
        fields = dict(field.split("=", 1) for field in more.split("/")[1:])
        for field in fields:
            if field not in FLOW_FIELDS or field == "cc":
                advice = meant(field, sorted(FLOW_FIELDS))
                raise BadInput(f"--flows {name}: {field}: no field of a flow ({advice})")
        ccs = [each.strip() for each in cc.split("|")]
        for number in numbers:
            called = f"{name.strip()}{number}"
            if called in flows:
                raise BadInput(f"--flows {called}: named twice")
            flows[called] = fields if len(ccs) > 1 else {"cc": ccs[0], **fields}
            if len(ccs) > 1:
                factors[f"{called}.cc"] = ccs
    if len(flows) < 2:
        raise BadInput(f"--flows {text.strip()!r:.80}: one flow has no competitor (a=cubic,b=bbr)")
    return flows, factors


def option_of(name: str) -> str:
    """The option that asks for a setting: --NAME, unless that means something else there."""
    if name == "machine":  # --machine says where to run, as in every verb
        return "--measured-machine"
    return f"--setting.{name}" if name in OWN_OPTIONS else f"--{name}"


def levels_of(name: str, text: str) -> list[Any]:
    """An option's levels, as a file would have them. Raises BadInput."""
    found = read_override(name, text, origin=option_of(name))
    return [
        str(Path(level.node.text).resolve())
        if name in ("profile", "trace") and level.node.text and is_path(level.node.text)
        else level.node.plain(whole_or_text)
        for level in found
    ]


def whole_or_text(text: str) -> int | str:
    """A scalar for a YAML file: a whole number goes without quotes."""
    written = " ".join(text.split())
    return int(written) if written.isdigit() and str(int(written)) == written else written


def naming_options(node: Node, option: str = "") -> Node:
    """A document whose settings and levels are called by their options: `--rate`, not a line."""
    # What stands below is by option: the settings, and the factors of the one matrix.
    named = node.key.rpartition(".")[2] in ("settings", "factors")
    changed = node.changed(
        lambda key, each: naming_options(each, option or (option_of(key) if named else ""))
    )
    return replace(changed, origin=option, line=None, key="") if option else changed
