# SPDX-License-Identifier: MIT
"""Check the form of the pages at the root."""

import re
from itertools import pairwise
from pathlib import Path

import pytest

import gostlab

ROOT = Path(__file__).resolve().parents[1]
CHANGES = ["Added", "Changed", "Deprecated", "Removed", "Fixed", "Security"]
CHECKLISTS = (
    "tunnel queue drawing topology traffic importer kernel setting profile experiment lab number"
).split()


def read(name: str) -> str:
    return (ROOT / name).read_text("utf-8")


@pytest.mark.parametrize("kind", CHECKLISTS)
def test_each_kind_has_a_checklist(kind: str) -> None:
    boxes = re.findall(
        rf"(?im)^\*\*{kind}\b.*\n+((?:- \[ \] .*\n(?:  .*\n)*)+)", read("CONTRIBUTING.md")
    )
    assert len(boxes) == 1, f"CONTRIBUTING.md: **{kind.capitalize()}** needs lines with - [ ]"


def test_the_changelog_keeps_its_form() -> None:
    """Keep a Changelog: what is not released first, then versions by date, by kinds of change."""
    parts = re.split(r"^## ", read("CHANGELOG.md"), flags=re.MULTILINE)[1:]
    heads = [part.splitlines()[0] for part in parts]
    assert heads[0] == "[Unreleased]"
    released = [
        re.fullmatch(r"\[(\d+\.\d+\.\d+)\] - (\d{4}-\d\d-\d\d)", head) for head in heads[1:]
    ]
    dated = [(found[2], found[1]) for found in released if found]
    assert len(dated) == len(released) and dated[0][1] == gostlab.__version__
    assert all(newer >= older for newer, older in pairwise(dated))
    for part in parts:
        kinds = re.findall(r"^### (.*)$", part, flags=re.MULTILINE)
        assert kinds == [kind for kind in CHANGES if kind in kinds]
