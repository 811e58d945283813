# SPDX-License-Identifier: MIT
"""Parse the page's questions by the parser of `./lab try`, and refuse what a page may not ask."""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from gostlab import api
from gostlab.errors import BadInput
from gostlab.spec.adhoc import Question, option_of, to_question
from gostlab.spec.run_spec import RunSpec
from gostlab.spec.settings import known_names
from gostlab.spec.yaml_source import is_path

# Settings that read a file of this machine, take real time, or fill the disk.
REFUSED_SETTINGS: Mapping[str, str] = {
    "machine": "it reads a file",
    "trace": "it reads a file",
    "clock": "a run on the real clock takes as long as it says",
    "acks": "it writes a row per ACK",
}
REFUSED_FLOW_FIELDS = ("server", "client")  # shell commands
REFUSED_KINDS = ("command",)
MAX_TEXT = 8000  # characters of one setting
MAX_SETTINGS = 64
MAX_REPETITIONS = 10
MAX_LENGTH_S = 120.0
MAX_FLOWS = 8
MAX_STREAMS = 64  # all flows together
MAX_BYTES = 4_000_000_000  # in one direction while the load lasts
MAX_PACKETS = 2_000_000
MAX_MEMORY_MIB = 2048
MAX_ROWS = 400_000  # samples of all sockets
MIN_PACKET_BYTES = 64  # an Ethernet frame
OPTION = re.compile(r"--(?:setting\.)?([A-Za-z][\w.-]*)")


@dataclass(frozen=True)
class AskedQuestion:
    """Represent a question of the page: what was given, and the experiment that it is."""

    given: Mapping[str, str]
    question: Question
    experiment: api.Experiment

    @cached_property
    def key(self) -> str:
        """Return what is equal for equal questions: the results folder and the repetitions."""
        return f"{self.question.name}-{self.question.repetitions}"

    @property
    def run(self) -> RunSpec:
        """Return the first run."""
        return self.experiment.runs[0]

    def exports(self) -> dict[str, str]:
        """Return the question as a command, a file and Python."""
        seed, repetitions = self.question.seed, self.question.repetitions
        options = [f"{option_of(name)} {quoted(text)}" for name, text in self.given.items()]
        options += [f"--seed {seed}"] if seed != 1 else []
        options += [f"--repeat {repetitions}"] if repetitions != 1 else []
        keywords = [f"    {python_pair(name, text)}," for name, text in self.given.items()]
        python = [
            "import gostlab",
            "",
            "experiment = gostlab.Experiment.of(",
            *keywords,
            f"    seed={seed}, repeat={repetitions},",
            ")",
            "for result in experiment.run():",
            "    print(result.goodput_mbit, result.verdict)",
        ]
        return {
            "command": " ".join(["./lab try", *options]),
            "file": self.question.text,
            "python": "\n".join(python),
        }


def quoted(text: str) -> str:
    return shlex.quote(text) if re.search(r"[^\w.,=+%/:-]", text) else text


def python_pair(name: str, text: str) -> str:
    """Return a keyword argument; a name that Python cannot write goes through a mapping."""
    return f"{name}={text!r}" if name.isidentifier() else f"**{{{name!r}: {text!r}}}"


def parse_question(body: object) -> AskedQuestion:
    """Return the question of a request's JSON. Raises BadInput, MachineError."""
    if not isinstance(body, Mapping):
        raise BadInput("not a question: an object with settings")
    given = read_settings(body.get("settings"))
    repetitions = read_whole_number(body.get("repeat", 1), "repeat", MAX_REPETITIONS)
    seed = read_whole_number(body.get("seed", 1), "seed", 2**31 - 1)
    for name in given:
        setting = name.rpartition(".")[2] if name not in REFUSED_SETTINGS else name
        if setting in REFUSED_SETTINGS:
            raise BadInput(f"--{name}: not from this page: {REFUSED_SETTINGS[setting]}")
        if name not in known_names() and not name.startswith("cc."):
            raise BadInput(f"--{name:.40}: no setting (./lab settings lists them)")
    question = to_question(given, repetitions=repetitions, seed=seed)
    refuse_files_and_programs(question)
    experiment = api.Experiment.asking(question, "sandbox")
    if question.factors or len(experiment.runs) != repetitions:
        several = next(iter(question.factors), "settings")
        raise BadInput(f"--{several}: one level of each setting here (./lab try compares lists)")
    check_ceilings(experiment.runs)
    return AskedQuestion(given, question, experiment)


def read_settings(value: object) -> dict[str, str]:
    """Return settings by name, in their order. Raises BadInput."""
    if not isinstance(value, Mapping) or len(value) > MAX_SETTINGS:
        raise BadInput(f"settings: not an object of at most {MAX_SETTINGS} texts by name")
    given: dict[str, str] = {}
    for name, text in value.items():
        if not isinstance(name, str) or not isinstance(text, str) or len(text) > MAX_TEXT:
            raise BadInput(f"--{name!s:.40}: not a text of at most {MAX_TEXT} characters")
        if not text.isprintable() or not name.isprintable():
            raise BadInput(f"--{ascii(name)[1:-1]:.40}: a character that cannot be printed")
        given[name] = text
    return given


def read_whole_number(value: object, name: str, largest: int) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or not 1 <= value <= largest:
        raise BadInput(f"--{name} {value!r:.40}: not a whole number from 1 to {largest}")
    return value


def refuse_files_and_programs(question: Question) -> None:
    """Reject what names a file or a command, wherever it stands. Raises BadInput."""
    values: dict[str, object] = {**question.settings, **question.factors}
    for name, text in scalar_leaves(values):
        try:
            refuse_leaf(name, text)
        except BadInput as error:
            raise BadInput(f"--{error}") from None


def refuse_leaf(name: str, text: str) -> None:
    """Reject a scalar that names a file or a command, or is one. Raises BadInput."""
    last = name.rpartition(".")[2]
    if last in REFUSED_FLOW_FIELDS or (last == "kind" and text in REFUSED_KINDS):
        raise BadInput(f"{name}: not from this page: it runs a program")
    if is_path(text) or text.endswith((".csv", ".json")):
        raise BadInput(f"{name} {json.dumps(text)[:60]}: not from this page: it reads a file")


def scalar_leaves(value: object, name: str = "") -> Iterator[tuple[str, str]]:
    """Yield every scalar of nested mappings and lists as text, with its dotted name."""
    if isinstance(value, Mapping):
        for key, inner in value.items():
            yield from scalar_leaves(inner, f"{name}.{key}" if name else str(key))
    elif isinstance(value, Sequence) and not isinstance(value, str):
        for inner in value:
            yield from scalar_leaves(inner, name)
    else:
        yield name, str(value)


def check_ceilings(runs: Sequence[RunSpec]) -> None:
    """Reject runs that would occupy this machine for long. Raises BadInput.

    The bytes are what the path can carry, not what the flows will send: an upper bound that is
    known before the run.
    """
    for run in runs:
        length_s = run.length_s
        streams = sum(flow.streams for flow in run.flows)
        carried = max(carried_bytes(run, direction) for direction in ("forward", "reverse"))
        packets = carried / max(MIN_PACKET_BYTES, run.mtu)
        rows = len(run.flows) * streams * length_s / (run.sample_ms / 1000)
        for name, value, largest, unit in (
            ("duration", length_s, MAX_LENGTH_S, "s"),
            ("flows", len(run.flows), MAX_FLOWS, "flows"),
            ("streams", streams, MAX_STREAMS, "streams"),
            ("rate", carried / 1e9, MAX_BYTES / 1e9, "GB in all"),
            ("rate", packets / 1e6, MAX_PACKETS / 1e6, "million packets in all"),
            ("memory", run.memory_mib, MAX_MEMORY_MIB, "MiB"),
            ("sample", rows, MAX_ROWS, "samples"),
        ):
            if not value <= largest:
                raise BadInput(
                    f"--{name}: {value:,.6g} {unit}, and a run of this page has {largest:,.6g} at"
                    " most (./lab try has no such limit)"
                )


def carried_bytes(run: RunSpec, direction: str) -> float:
    """Return the bytes that one direction can carry during the load; infinite without a rate."""
    paths = [run.path, *run.links.values()]
    rates = [path[direction].rate_bps for path in paths]
    if not all(rates):
        return float("inf")
    rates += [change.rate_bps for change in run.changes if change.rate_bps]
    return max(rate for rate in rates if rate) * run.length_s / 8


def setting_named(message: str) -> str | None:
    """Return the setting that an error's line is about, for the page to mark its field."""
    match = OPTION.match(message)
    return match[1] if match else None
