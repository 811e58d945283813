# SPDX-License-Identifier: MIT
"""Spoilt files, ten thousand with GOSTLAB_SOAK=1: each is read, or refused in a sentence."""

import os
import random
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from gostlab.registry.folders import PROFILES
from gostlab.spec import experiment as experiments
from gostlab.spec import profile as profiles
from gostlab.spec.expand import expand
from gostlab.spec.settings import SETTINGS
from gostlab.spec.yaml_source import BadInput, parse_document
from tests.cli.test_settings_help import EXPERIMENT

FILES = 10_000 if os.environ.get("GOSTLAB_SOAK") == "1" else 4_000
PROFILE = (PROFILES / "client-shanghai.yaml").read_text(encoding="utf-8")
# What breaks readers: YAML's own signs, numbers at every edge, words of other types, control
# characters.
SPLINTERS = [
    *"""{ } [ ] : *a ' " # % , ~ null true yes 0 -1 1e999 0x1F 1_000 .inf .nan - + µs mbit bdp
    1e-99bdp 1e99ms 100%% "\\UFFFFFFFF" unlimited auto ../../etc/passwd /dev/zero \\ ! @ ` ٣
    2026-11-21 !!python/name:os.system""".split(),
    *("- ", "&a ", "!!int ", "<<: ", "? ", "| ", "> ", "---\n", "...\n", "\t", "\n", "  "),
    *("%YAML 9.9\n", "\u2028", "\x00", "\x1b[2J", "\ufeff", "\ud7ff"),
    *("9" * 5000, "{" * 50, "[" * 2000, "a: " * 300),
]


def spoil(text: str, chance: random.Random) -> str:
    """The text with one to four injuries: splinters, lost, doubled, swapped or other pieces."""
    for _ in range(chance.randint(1, 4)):
        start = chance.randrange(len(text) + 1)
        stop = min(len(text), start + chance.choice((0, 1, 1, 3, 10, 60)))
        piece = text[start:stop]
        injury = chance.randrange(6)
        if injury == 0:
            text = text[:start] + chance.choice(SPLINTERS) + text[start:]
        elif injury == 1:
            text = text[:start] + chance.choice(SPLINTERS) + text[stop:]
        elif injury == 2:
            text = text[:start] + text[stop:]
        elif injury == 3:
            text = text[:stop] + piece + text[stop:]
        elif injury == 4:
            lines = text.split("\n")
            one, other = chance.randrange(len(lines)), chance.randrange(len(lines))
            lines[one], lines[other] = lines[other], lines[one]
            text = "\n".join(lines)
        elif piece:
            flipped = (chr(ord(char) ^ (1 << chance.randrange(7))) for char in piece)
            text = text[:start] + "".join(flipped) + text[stop:]
    return text


def read_experiment(text: str) -> None:
    document = parse_document(text, "spoilt.yaml")
    experiment = experiments.read_experiment(document, Path("small.yaml"))
    for quick in (False, True):
        expand(experiment, quick=quick)


def read_profile(text: str) -> None:
    document = parse_document(text, "spoilt.yaml")
    profile = profiles.read_profile(document, PROFILES / "client-shanghai.yaml")
    profiles.summary(profile)
    profiles.compile_path(profile.forward, profile.reverse)


@pytest.mark.slow
@pytest.mark.parametrize(("read", "text"), [(read_experiment, EXPERIMENT), (read_profile, PROFILE)])
def test_no_text_gives_anything_but_an_answer_or_a_sentence(
    read: Callable[[str], None], text: str
) -> None:
    read(text)
    chance = random.Random(20261121)
    refused = 0
    slowest_s = 0.0
    for number in range(FILES // 2):
        spoilt = spoil(text, chance)
        began = time.process_time()
        try:
            read(spoilt)
        except BadInput as error:
            refused += 1
            assert str(error).isprintable(), (number, str(error))
            assert len(str(error)) < 600, (number, str(error))
        except Exception as error:
            raise AssertionError(f"mutation {number}: {error!r}\n{spoilt}") from error
        slowest_s = max(slowest_s, time.process_time() - began)
    assert refused > FILES // 4
    assert slowest_s < 2


def test_no_override_gives_anything_but_an_answer_or_a_sentence() -> None:
    document = parse_document(EXPERIMENT, "small.yaml")
    experiment = experiments.read_experiment(document, Path("small.yaml"))
    chance = random.Random(7)
    for _ in range(1000):
        name = chance.choice([*SETTINGS, "nothing"])
        pieces = [*SPLINTERS, "1", "5ms", "cubic", ","]
        text = "".join(chance.choices(pieces, k=chance.randint(1, 3)))
        try:
            expand(experiment, overrides={name: text})
        except BadInput as error:
            assert str(error).isprintable(), str(error)
