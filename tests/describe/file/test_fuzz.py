"""Spoilt files, ten thousand with GOSTLAB_SOAK=1: each is read or refused in a sentence, none ends
in a traceback or a hang.
"""

import os
import random
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from gostlab.declared.folders import PROFILES
from gostlab.describe.file import experiment as experiments
from gostlab.describe.file import profile as profiles
from gostlab.describe.file.document import BadInput, parse_document
from gostlab.describe.file.settings import SETTINGS
from gostlab.describe.resolve.expand import expand

FILES = 10_000 if os.environ.get("GOSTLAB_SOAK") == "1" else 4_000
PROFILE = (PROFILES / "client-shanghai.yaml").read_text(encoding="utf-8")
# The real one is ten times as long, which only makes each mutation less likely to hit something.
EXPERIMENT = """name: small
title: A small one
question: What then?
study: {seed: thesis, sections: "4.2"}
seed: 3
settings:
  profile: la-hamina
  duration: 10s
  buffers: {rmem: [4KiB, 128KiB, 6MiB], wmem: [4KiB, 16KiB, 4MiB]}
matrices:
  - name: main
    settings: {tunnel: gost+ws, offloads: auto, sample: 100ms, memory: 1GiB, tcp_memory: ample}
    factors:
      cc: [cubic, bbr]
      loss: [0%, {model: gemodel, p: 1%, r: 10%}]
      buffer: [0.1bdp, 100pkts, 150kB]
      syscall_cost: [0us, 5us]
    repetitions: 7
    until: {halfwidth: 5%, of: goodput, most: 30, least: 6}
    quick: {factors: {loss: [0%]}, repetitions: 1, settings: {rate: 100mbit, delay: 5ms}}
  - name: flows
    draw: [series, shares]
    settings:
      topology: dumbbell
      flows: {flow1: {cc: bbr, start: 1s, rtt: 20ms}, back: {kind: udp, rate: 5mbit, receiver: 1}}
      changes: [{at: 1s, rate: 5mbit}, {at: 2s, delay: 9ms, direction: both, loss: 1%}]
      acks: on
    factors: {flow1.rtt: [10ms, 20ms], ordered: [on, off]}
  - {name: real, settings: {clock: real}, factors: {streams: [1, 16]}, quick: {skip: true}}
published:
  - {matrix: main, factors: {cc: cubic, loss: 0%}, goodput_mbit: 144, retr: 63, source: thesis 4.2.1}
"""
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
    """The text with one to four injuries: splinters, lost, doubled or swapped pieces, other
    characters.
    """
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
            text = (
                text[:start]
                + "".join(chr(ord(char) ^ (1 << chance.randrange(7))) for char in piece)
                + text[stop:]
            )
    return text


def read_experiment(text: str) -> None:
    experiment = experiments.read_experiment(
        parse_document(text, "spoilt.yaml"), Path("small.yaml")
    )
    for quick in (False, True):
        expand(experiment, quick=quick)


def read_profile(text: str) -> None:
    profile = profiles.read_profile(
        parse_document(text, "spoilt.yaml"), PROFILES / "client-shanghai.yaml"
    )
    profiles.summary(profile)
    profiles.path_json(profile.forward, profile.reverse)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("read", "text"),
    [(read_experiment, EXPERIMENT), (read_profile, PROFILE)],
    ids=["experiments", "profiles"],
)
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
            raise AssertionError(
                f"mutation {number}: {type(error).__name__}: {error}\n{spoilt}"
            ) from error
        slowest_s = max(slowest_s, time.process_time() - began)
    assert refused > FILES // 4
    assert slowest_s < 2


def test_no_override_gives_anything_but_an_answer_or_a_sentence() -> None:
    experiment = experiments.read_experiment(
        parse_document(EXPERIMENT, "small.yaml"), Path("small.yaml")
    )
    chance = random.Random(7)
    for _ in range(1000):
        name = chance.choice([*SETTINGS, "nothing"])
        text = "".join(
            chance.choice([*SPLINTERS, "1", "5ms", "cubic", ","])
            for _ in range(chance.randint(1, 3))
        )
        try:
            expand(experiment, overrides={name: text})
        except BadInput as error:
            assert str(error).isprintable(), str(error)
