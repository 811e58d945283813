# SPDX-License-Identifier: MIT
"""The Chinese pages: the commands and numbers of the English ones."""

import re
from pathlib import Path

import pytest

from gostlab.registry.folders import ROOT

COMMAND = re.compile(r"`(\./lab [^`]+)`")
BLOCK = re.compile(r"(?ms)^```\w*\n(.*?)^```$")
TYPED = re.compile(r"(?m)^    (make \w+)")
NUMBER = re.compile(r"\d+(?:\.\d+)*")
RUNS = re.compile(r"(?ms)^<!-- runs: .*?^<!-- end of runs -->$")
LINK = re.compile(r"\]\(([^)#]+)")
PAGES = ("README", "docs/which-tunnel")


def both(name: str) -> tuple[str, str]:
    """A page and its translation, each on lines that a paragraph's end alone breaks."""
    english, chinese = (
        (ROOT / f"{name}{ending}").read_text("utf-8") for ending in (".md", ".zh.md")
    )
    return english, chinese


@pytest.mark.parametrize("name", PAGES)
def test_the_commands_are_those_of_the_english_page(name: str) -> None:
    english, chinese = both(name)
    for pattern in (COMMAND, BLOCK, TYPED):
        told = [found.replace("\n", " ") for found in pattern.findall(chinese)]
        known = {found.replace("\n", " ") for found in pattern.findall(english)}
        assert set(told) <= known
    assert COMMAND.search(chinese)


@pytest.mark.parametrize("name", PAGES)
def test_the_numbers_are_those_of_the_english_page(name: str) -> None:
    english, chinese = both(name)
    assert RUNS.findall(chinese) == RUNS.findall(english)
    prose = [LINK.sub("", RUNS.sub("", text)) for text in (chinese, english)]
    told, known = (set(NUMBER.findall(text)) for text in prose)
    assert told - known - {"2"} == set()


@pytest.mark.parametrize("name", PAGES)
def test_a_page_leads_to_its_translation_and_to_pages_that_there_are(name: str) -> None:
    english, chinese = both(name)
    folder = (ROOT / name).parent
    assert f"]({Path(name).name}.md)" in chinese and f"]({Path(name).name}.zh.md)" in english
    linked = [link for link in LINK.findall(chinese) if not link.startswith("http")]
    assert [link for link in linked if not (folder / link).exists()] == []
