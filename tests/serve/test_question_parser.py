# SPDX-License-Identifier: MIT
"""What the page may ask: what `./lab try` takes, without files, programs and long runs."""

from __future__ import annotations

import random
import shlex
from typing import Any

import pytest

from gostlab import api
from gostlab.errors import BadInput, Complaint
from gostlab.serve.declarations import declarations
from gostlab.serve.question_parser import parse_question, setting_named
from gostlab.spec.adhoc import to_question
from gostlab.spec.settings import SETTINGS as DECLARED
from tests.serve.serving import SETTINGS, asked


def test_a_question_has_the_runs_of_the_command_that_it_shows() -> None:
    question = asked(repeat=2, seed=7, loss="1%")
    words = shlex.split(question.exports()["command"])[2:]
    options = dict(zip(words[::2], words[1::2], strict=True))
    assert (options.pop("--seed"), options.pop("--repeat")) == ("7", "2")

    given = {name.removeprefix("--"): text for name, text in options.items()}
    same = api.Experiment.asking(to_question(given, repetitions=2, seed=7), "sandbox")

    assert [run.name for run in same.runs] == [run.name for run in question.experiment.runs]


def test_a_question_has_the_runs_of_the_python_that_it_shows(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    question = asked(repeat=2, seed=7, **{"forward.loss": "1%"})
    made: list[Any] = []
    monkeypatch.setattr(api.Experiment, "run", lambda self: made.extend(self.runs) or [])

    exec(question.exports()["python"], {})

    assert [run.name for run in made] == [run.name for run in question.experiment.runs]


@pytest.mark.parametrize(
    ("settings", "key"),
    [
        ({"rate": "20mbi"}, "rate"),
        ({"nonsense": "1"}, "nonsense"),
        ({"profile": "/etc/passwd"}, "profile"),
        ({"profile": "../../x.yaml"}, "profile"),
        ({"trace": "x.csv"}, "trace"),
        ({"machine": "development"}, "machine"),
        ({"clock": "real"}, "clock"),
        ({"acks": "on"}, "acks"),
        ({"topology": "tunnel", "links": "{hop2: {profile: /etc/passwd}}"}, "links"),
        ({"flows": "{a: {kind: command, server: 'id', client: 'id'}}", "cc": "bbr"}, "flows"),
        ({"rate": "10mbit,20mbit"}, "rate"),
        ({"duration": "3600s"}, "duration"),
        ({"rate": "100gbit"}, "rate"),
        ({"flows": "{a: {cc: bbr, streams: 100}}"}, "streams"),
        ({"memory": "64GiB"}, "memory"),
    ],
)
def test_what_a_page_may_not_ask_is_refused_in_one_line_on_its_field(
    settings: dict[str, str], key: str
) -> None:
    with pytest.raises(BadInput) as refused:
        asked(**settings)
    line = str(refused.value)
    assert "\n" not in line and (setting_named(line) or "").startswith(key), line


@pytest.mark.parametrize(
    "body",
    [
        None,
        [],
        {},
        {"settings": []},
        {"settings": {"rate": 1}},
        {"settings": {"rate": "1" * 9000}},
        {"settings": {"rate": "1\0"}},
        {"settings": SETTINGS, "seed": 0},
        {"settings": SETTINGS, "seed": True},
        {"settings": SETTINGS, "repeat": 11},
        {"settings": SETTINGS, "repeat": "5"},
        {"settings": {f"x{i}": "1" for i in range(100)}},
    ],
)
def test_what_is_no_question_is_refused(body: object) -> None:
    with pytest.raises(BadInput):
        parse_question(body)


def test_random_texts_are_a_question_or_a_complaint() -> None:
    draw = random.Random(58)
    letters = "{}[]:,'\"%/.0123456789abcmsit -*&!|>\\é\u202e"
    for _ in range(300):
        name = draw.choice([*DECLARED, "forward.loss", "cc.wan", "x", ""])
        text = "".join(draw.choices(letters, k=draw.randrange(20)))
        try:
            asked(**{name: text})
        except Complaint as error:
            assert "\n" not in str(error)


def test_every_preset_can_be_asked() -> None:
    for preset in declarations()["presets"]:
        flows = preset["flows"]
        texts = {
            name: "{" + ", ".join(f"{key}: {value}" for key, value in fields.items()) + "}"
            for name, fields in flows.items()
        }
        settings = dict(preset["settings"])
        settings["flows"] = "{" + ", ".join(f"{n}: {text}" for n, text in texts.items()) + "}"
        if not all("cc" in fields for fields in flows.values()):
            settings["cc"] = next(fields["cc"] for fields in flows.values() if "cc" in fields)
        assert parse_question({"settings": settings}).run.length_s <= 30, preset["title"]
