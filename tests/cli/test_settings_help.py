# SPDX-License-Identifier: MIT
"""The manual, the schemas and the reader say the same, of every word that can be asked."""

import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import yaml

from gostlab.cli import settings_help
from gostlab.registry.folders import ROOT
from gostlab.spec import experiment, profile, settings
from gostlab.spec.experiment import read_experiment
from gostlab.spec.profile import read_profile
from gostlab.spec.yaml_source import BadInput, KeySchema, keys_of, parse_document
from tools.reference.pages import EXPERIMENT_SCHEMA, PROFILE_SCHEMA, profile_schema

EXPERIMENTS = sorted((ROOT / "experiments").glob("*.yaml"))
PROFILES = sorted((ROOT / "netem_profiles").glob("*.yaml"))
SHIPPED = [*EXPERIMENTS, *PROFILES]
TABLES: dict[str, Mapping[str, KeySchema]] = {
    "settings": settings.SETTINGS,
    "flow": settings.FLOW_FIELDS,
    "change": settings.CHANGE_FIELDS,
    "experiment": keys_of(experiment.ExperimentFile),
    "matrix": keys_of(experiment.Matrix),
    "published": keys_of(experiment.Published),
    "until": keys_of(experiment.StoppingRule),
    "quick": keys_of(experiment.QuickForm),
    "profile": keys_of(profile.Profile),
    "direction": keys_of(profile.ProfileDirection),
}


class AsEditorsRead(yaml.CSafeLoader):
    """YAML 1.2, as an editor's language server reads it: `on` is a word."""


AsEditorsRead.yaml_implicit_resolvers = {
    first: [
        (tag, re.compile("^(?:true|false)$") if tag.endswith(":bool") else pattern)
        for tag, pattern in resolvers
        if not tag.endswith(":timestamp")
    ]
    for first, resolvers in yaml.SafeLoader.yaml_implicit_resolvers.items()
}


def validator(schema: dict[str, Any]) -> Any:
    return jsonschema.Draft202012Validator(schema)


def schema_of(of: Path | str) -> dict[str, Any]:
    """The schema of a shipped file, or of a text below."""
    is_experiment = of in (*EXPERIMENTS, EXPERIMENT)
    return experiment.experiment_schema() if is_experiment else profile_schema()


@pytest.mark.parametrize(
    ("table", "name"),
    [
        (table, name)
        for table in ("settings", "flow", "change", "direction")
        for name in TABLES[table]
    ],
)
def test_every_quantity_has_a_unit_and_every_word_an_example_that_is_read(
    table: str, name: str
) -> None:
    field = TABLES[table][name]
    assert field.example
    assert field.unit or "pattern" not in field.read.schema or name in NO_UNIT
    examples = parse_document(f"[{field.example}]", "example").items or ()
    first = field.example if len(examples) == 1 else field.example.split(", ", 1)[0]
    for node in examples:
        field.read(node)
        validator(field.read.schema).validate(as_editors_read(first))


NO_UNIT = {"link", "machine", "profile", "trace", "distribution", "see"}


def as_editors_read(text: str) -> Any:
    return yaml.load(text, Loader=AsEditorsRead)


@pytest.mark.parametrize("path", [EXPERIMENT_SCHEMA, PROFILE_SCHEMA])
def test_a_schema_is_one(path: Path) -> None:
    jsonschema.Draft202012Validator.check_schema(json.loads(path.read_text(encoding="utf-8")))


@pytest.mark.parametrize("path", SHIPPED, ids=lambda path: path.stem)
def test_schema_and_reader_take_every_shipped_file(path: Path) -> None:
    validator(schema_of(path)).validate(as_editors_read(path.read_text(encoding="utf-8")))
    if path in EXPERIMENTS:
        experiment.load_experiment(str(path))
    else:
        assert "buffer" in profile.summary(profile.load_profile(str(path)))


@pytest.mark.parametrize("path", SHIPPED, ids=lambda path: path.stem)
def test_an_editor_finds_the_schema_of_every_shipped_file(path: Path) -> None:
    [line] = re.findall(r"^# yaml-language-server: \$schema=(.*)$", path.read_text(), re.MULTILINE)
    expected = EXPERIMENT_SCHEMA if path in EXPERIMENTS else PROFILE_SCHEMA
    assert (path.parent / line).resolve() == expected


EXPERIMENT = """
name: small
title: A small one
question: What then?
study: {seed: thesis, sections: "4.2"}
seed: 3
presets:
  buffers:
    large: {rmem: [4KiB, 128KiB, 64MB], wmem: [4KiB, 16KiB, 64MB]}
settings: {profile: la-hamina, duration: 20s, buffers: large, reverse.loss: 1%}
matrices:
  - name: main
    factors:
      cc: [cubic, bbr]
      buffer: [1bdp, 300ms]
      loss: [0%, {model: gemodel, p: 1%, r: 10%}]
      ends: {sets: cc.target, levels: [bbr]}
    repetitions: 6
    until: {halfwidth: 5%, most: 30}
    draw: [bars, heatmap, heatmap: [cc, buffer]]
    quick: {factors: {cc: [bbr]}, repetitions: 1}
  - name: late
    settings:
      topology: dumbbell
      flows: {first: {cc: bbr}, late: {start: 5s, rtt: 50ms}, noise: {kind: udp, rate: 20mbit}}
      changes: [{at: 10s, rate: 50mbit, direction: both}]
    factors: {late.rtt: [10ms, 50ms], acks: [on, off]}
  - {name: real, settings: {clock: real}, factors: {streams: [1, 16]}, quick: {skip: true}}
reasons: {machine: It is another machine.}
published:
  - {matrix: main, factors: {cc: bbr}, goodput_mbit: 12.5, source: here, why: machine}
  - {matrix: main, source: there, columns: [cc, retr], rows: [[bbr, 1], [cubic, 2]]}
"""
PROFILE = """
name: p
title: A path
source: {seed: mine, table: 4.1}
measured: [{cc: cubic, upload_mbit: 10.5, download_mbit: 20, rtt_ms: 100}]
assumptions: [None of this was measured.]
forward: {rate: 100mbit, delay: 20ms, jitter: 1ms, loss: 0.1%, buffer: 1bdp, ordered: true}
reverse: {rate: unlimited, delay: 20ms, buffer: 100pkts, loss: {model: periodic, packets: 100}}
"""
DRAW = "draw: [bars, heatmap, heatmap: [cc, buffer]]"
# What stands there, and what is written in its place: nobody may take it.
SPOILT = [
    (EXPERIMENT, old, new)
    for old, new in (
        ("name: small\n", ""),
        ("name: small", "name: Small One"),
        ("title: A small one", "titel: A small one"),
        ("duration: 20s", "duration: 20"),
        ("duration: 20s", "duration: soon"),
        ("duration: 20s", "duraton: 20s"),
        ("reverse.loss: 1%", "reverse.los: 1%"),
        ("reverse.loss: 1%", "reverse.loss: 0.01"),
        ("reverse.loss: 1%", "reverse.loss: {model: bursts}"),
        ("reverse.loss: 1%", "sideways.loss: 1%"),
        ("rmem: [4KiB, 128KiB, 64MB]", "rmem: [4KiB, 128KiB]"),
        ("wmem: [4KiB, 16KiB, 64MB]", "wmen: [4KiB, 16KiB, 64MB]"),
        ("cc: [cubic, bbr]", "cc: cubic"),
        ("cc: [cubic, bbr]", "cc: []"),
        ("cc: [cubic, bbr]", "cc: [cubic, war p]"),
        ("cc: [cubic, bbr]", "cc: [{client: war p}]"),
        ("cc: [cubic, bbr]", "ccs: [cubic, bbr]"),
        ("buffer: [1bdp, 300ms]", "buffer: [1bdp, 300]"),
        ("buffer: [1bdp, 300ms]", "buffer: [1 furlong]"),
        ("sets: cc.target, levels: [bbr]", "sets: cc.target"),
        ("repetitions: 6", "repetitions: 0"),
        ("repetitions: 6", "repetitions: many"),
        ("halfwidth: 5%", "halfwidth: 5"),
        (DRAW, "draw: [pie]"),
        (DRAW, "draw: bars"),
        (DRAW, "draw: [bars: [cc, buffer]]"),
        (DRAW, "draw: [heatmap: [cc]]"),
        (DRAW, "draw: [heatmap: cc]"),
        (DRAW, "draw: [{heatmap: [cc, buffer], bars: [cc, buffer]}]"),
        ("quick: {factors", "quick: {factor"),
        ("topology: dumbbell", "topology: ring-of-roses"),
        ("first: {cc: bbr}", "first: {cc: bbr, colour: red}"),
        ("first: {cc: bbr}", "First: {cc: bbr}"),
        ("first: {cc: bbr}", "cc: {cc: bbr}"),
        ("kind: udp", "kind: sctp"),
        ("at: 10s, rate", "rate"),
        ("direction: both", "direction: sideways"),
        ("late.rtt: [10ms", "late.rtt: [10"),
        ("acks: [on, off]", "acks: [yes, no]"),
        ("goodput_mbit: 12.5", "goodput_mbit: much"),
        ("goodput_mbit: 12.5", "goodput: 12.5"),
        ("source: here, ", ""),
        ("columns: [cc, retr], ", ""),
        ("reasons: {machine: It is another machine.}", "reasons: [machine]"),
        ("matrices:", "matrix:"),
    )
] + [
    (PROFILE, old, new)
    for old, new in (
        ("name: p\n", ""),
        ("title: A path", "heading: A path"),
        ("seed: mine", "seeds: mine"),
        ("upload_mbit: 10.5", "upload_mbit: fast"),
        ("upload_mbit: 10.5", "upload_mbits: 10.5"),
        ("rate: 100mbit", "rate: 100"),
        ("rate: 100mbit", "rate: none"),
        ("delay: 20ms, jitter", "jitter"),
        ("jitter: 1ms", "jitter: little"),
        ("loss: 0.1%", "loss: 0.1"),
        ("buffer: 1bdp", "buffer: 1"),
        ("ordered: true", "ordered: maybe"),
        ("rate: unlimited", "rate: infinite"),
        ("packets: 100}", "packets: 1}"),
        ("packets: 100}", "p: 1%}"),
        ("assumptions: [None of this was measured.]", "assumptions: {no: none}"),
        ("reverse:", "backward:"),
    )
]


def read(text: str) -> None:
    """Read a document as what it is."""
    document = parse_document(text, "p.yaml")
    if "forward: {rate" in text:
        read_profile(document, ROOT / "netem_profiles" / "p.yaml")
    else:
        read_experiment(document, Path("small.yaml"))


@pytest.mark.parametrize("base", [EXPERIMENT, PROFILE], ids=["experiment", "profile"])
def test_schema_and_reader_take_what_is_whole(base: str) -> None:
    read(base)
    validator(schema_of(base)).validate(as_editors_read(base))


@pytest.mark.parametrize(("base", "old", "new"), SPOILT)
def test_schema_and_reader_refuse_what_is_spoilt(base: str, old: str, new: str) -> None:
    assert base.count(old) >= 1
    spoilt = base.replace(old, new, 1)
    with pytest.raises(BadInput):
        read(spoilt)
    assert not validator(schema_of(base)).is_valid(as_editors_read(spoilt))


def test_the_verb_says_every_setting_and_each_of_its_parts() -> None:
    said = settings_help.list_settings()
    assert all(re.search(rf"^{name}\b", said, re.MULTILINE) for name in settings.SETTINGS)
    buffer = settings_help.describe_setting("buffer")
    assert "300ms" in buffer and "forward.buffer, reverse.buffer" in buffer
    assert "default     the profile's own" in buffer
    assert "congestion control of one end" in settings_help.describe_setting("cc.client")
    with pytest.raises(BadInput, match=r"bufer: nothing that can be set \(did you mean buffer\?\)"):
        settings_help.describe_setting("bufer")
