# SPDX-License-Identifier: MIT
"""Pages as scripts: the commands that a page shows, and whether their output is what it shows.

A block ```console has lines `$ COMMAND`, each followed by its standard output. A block of another
kind whose first line is `# FILE` is that file, written before what follows it. A line `...`, or the
end of a line behind `...`, stands for anything. A number may differ by NEAR: another glibc makes
other samples (docs/explanation/repeatability.md). How many segments were sent again, and which
share, is chance of few losses: any count is near another.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass

BLOCK = re.compile(r"^```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
FILE = re.compile(r"# (\S+\.(?:yaml|py))\n")
NUMBER = re.compile(r"\d+(?:\.\d+)?")
SENT_AGAIN = re.compile(r"\d+ \([\d.]+ %\)")
RULE = re.compile("─+")
NEAR = 0.15
ANY = "..."


@dataclass(frozen=True)
class WrittenFile:
    """A file that a reader copies."""

    name: str
    text: str


@dataclass(frozen=True)
class Command:
    """A command that a reader types, and what the page says it prints."""

    words: str
    shown: str


def steps(page: str) -> Iterator[WrittenFile | Command]:
    """What a reader of a page's text does, in order."""
    for kind, text in BLOCK.findall(page):
        if kind == "console":
            for part in re.split(r"^\$ ", text, flags=re.MULTILINE)[1:]:
                words, _, shown = part.partition("\n")
                yield Command(words, shown)
        elif named := FILE.match(text):
            yield WrittenFile(named[1], text[named.end() :])


def difference(shown: str, said: str) -> str:
    """Where what was printed is not what a page shows; "" where it is."""
    left = [line for each in said.splitlines() if (line := tidy(each))]
    skipping = False
    for line in filter(None, map(tidy, shown.splitlines())):
        if line == ANY:
            skipping = True
            continue
        while skipping and left and not alike(line, left[0]):
            left.pop(0)
        if not left or not alike(line, left[0]):
            return f"the page has {line!r}, the command printed {left[0] if left else ''!r}"
        left.pop(0)
        skipping = False
    return f"not on the page: {left[0]!r}" if left and not skipping else ""


def tidy(line: str) -> str:
    """A line by its words; a rule is as wide as its table."""
    return RULE.sub("─", SENT_AGAIN.sub("0 (0 %)", " ".join(line.split())))


def alike(shown: str, said: str) -> bool:
    """Whether a line is what a page shows, but for `...` and near numbers."""
    parts = [map(re.escape, NUMBER.split(part)) for part in shown.split(ANY)]
    found = re.fullmatch(".*?".join(f"({NUMBER.pattern})".join(part) for part in parts), said)
    if found is None:
        return False
    pairs = zip(NUMBER.findall(shown), found.groups(), strict=True)
    return all(near(float(one), float(other)) for one, other in pairs)


def near(one: float, other: float) -> bool:
    """Whether two numbers are the same for a reader; small counts may differ by five."""
    return abs(one - other) <= max(NEAR * max(one, other), 5 if one == int(one) else 0.1)
