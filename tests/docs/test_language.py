# SPDX-License-Identifier: MIT
"""Check that pages have no measured number typed by hand, and agree with each other."""

import re
from pathlib import Path

import pytest

from gostlab.registry.folders import ROOT
from tests.docs.test_numbers import GENERATED, prose

DOCS = ROOT / "docs"
SITE = ROOT / "tools/results_pages/site_pages"
PAGES = sorted([*DOCS.rglob("*.md"), *SITE.glob("*.md")])
BY_HAND = [page for page in PAGES if not GENERATED.search(page.read_text("utf-8")[:400])]
MAX_PICTURE_BYTES = 2_000_000
# The pages at the root.
TOP = [ROOT / name for name in ("README.md", "CONTRIBUTING.md", "CHANGELOG.md", "SECURITY.md")]
# Numbers with a unit, outside of code: what a reader takes for measured.
MEASURED = re.compile(
    r"(?<![\w.`/-])\d[\d,.]*(?:[–-]\d[\d,.]*)?"
    r"[ \n]?(?:%|(?:[kMG]bit|[kMG]i?B)(?:/s)?\b|ms\b|µs\b|us\b|s\b|times\b|Mbit\b"
    r"|(?:second|minute|hour)s?\b|of \d+ published\b)"
)
# Those that are definitions: of a tolerance, a coverage, an example's path, a limit, a tick.
DEFINED = {
    "explanation/repeatability.md": {"1 %", "10 %"},
    "how-to/replay.md": {"5 %", "30 %", "10 %"},
    "how-to/fit.md": {"95 %"},
    "how-to/path.md": {"10 ms", "100 ms"},
    "how-to/teaching.md": {"90 minutes"},
    "how-to/lab.md": {"10%"},
    "tutorials/first-run.md": {"10 Mbit/s", "40 ms", "95 %"},
    "tutorials/first-lab.md": {"20 Mbit/s", "65 ms"},
    # what the lab sets, and a test compares with a page that a command wrote
    "SECURITY.md": {"2 GiB", "120 s", "512 MiB", "20 s", "40 MB"},
    "README.md": {"148 of 154 published"},
}
# What runs wrote between marks.
OF_RUNS = re.compile(r"(?s)<!-- runs: .*?<!-- end of runs -->")
# One table of what was tried, by turns.
TABLE_OF_TRIALS = "explanation/tried.md"


def name_of(page: Path) -> str:
    inside = next((each for each in (DOCS, SITE, ROOT) if each in page.parents), page.parent)
    return str(page.relative_to(inside))


def words_of(text: str) -> str:
    """A page's words, without tables, blocks and spans of code."""
    lines = prose(text).splitlines()
    kept = [line for line in lines if not line.startswith(("|", "    ", "<!--", "!["))]
    return re.sub(r"`[^`]*`", "", "\n".join(kept))


@pytest.mark.parametrize("page", [*TOP, *BY_HAND], ids=name_of)
def test_no_number_in_prose_was_typed_by_hand(page: Path) -> None:
    """A measured one stands in a table that a command wrote (test_numbers), or in code."""
    allowed = DEFINED.get(name_of(page), set())
    # what a command wrote says so: the foot of a marked table
    text = OF_RUNS.sub("", page.read_text("utf-8"))
    plain = "" if name_of(page) == TABLE_OF_TRIALS else words_of(text)
    assert sorted({each.strip() for each in MEASURED.findall(plain)} - allowed) == []


def test_the_pictures_are_small_together() -> None:
    assert sum(picture.stat().st_size for picture in DOCS.rglob("*.png")) <= MAX_PICTURE_BYTES


def test_the_readme_says_what_the_page_of_results_says() -> None:
    said = re.findall(r"\d+ of \d+ published numbers agree", TOP[0].read_text("utf-8"))
    results = " ".join((DOCS / "results.md").read_text("utf-8").split())
    section = results.partition('id="results-validation"')[2].partition("<a id=")[0]
    assert said and all(each in section for each in said)


def test_every_word_of_the_glossary_is_said_once() -> None:
    text = (DOCS / "reference/glossary.md").read_text("utf-8")
    words = re.findall(r"^\*\*(.+?)\.\*\*", text, re.MULTILINE)
    assert words == sorted(words) and len(words) == len(set(words))
    assert {"Leg", "Placement", "Verdict", "Degraded", "Draw", "Cell", "Shipped"} <= set(words)


def test_what_is_typed_by_hand_is_found() -> None:
    for said, found in (
        ("it took 4.2 s and 18.6 Mbit/s, by 5 %", ["4.2 s", "18.6 Mbit/s", "5 %"]),
        ("3 times more, 9 minutes", ["3 times", "9 minutes"]),
        ("and 3 of 4 published numbers", ["3 of 4 published"]),
    ):
        assert MEASURED.findall(words_of(f"# A page\n\n{said}\n")) == found
    assert MEASURED.findall("RFC 9438, section 5, Linux 7.3") == []
