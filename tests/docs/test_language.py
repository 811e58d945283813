"""How the pages are written: short lines, plain words, no page too long, no number by hand."""

import re
from pathlib import Path

import pytest

from gostlab.declared.folders import ROOT
from tests.docs.test_numbers import GENERATED, prose

DOCS = ROOT / "docs"
SITE = ROOT / "analysis/page/site_pages"
PAGES = sorted([*DOCS.rglob("*.md"), *SITE.glob("*.md")])
BY_HAND = [page for page in PAGES if not GENERATED.search(page.read_text("utf-8")[:400])]
MOST_OF_HOW_TO = 500
MOST_BY_HAND, MOST_RESULTS, MOST_PICTURES = 12_000, 1_500, 2_000_000
# The pages at the top, which count among what is written by hand.
TOP = [ROOT / name for name in ("README.md", "CONTRIBUTING.md", "CHANGELOG.md", "SECURITY.md")]
WORDS_OF_RIDDLES = re.compile(
    r"\b(?:taken back|asked for|that does not say|whoever|what was said here)\b", re.IGNORECASE
)
RIDDLES = re.compile(
    WORDS_OF_RIDDLES.pattern + r"|\bby itself\b"
    r"|(?:^|[.:;] )(?:Who|He who) (?!are\b|is\b)",
    re.IGNORECASE,
)
# A sentence that begins so and is no question.
OF_WHO = re.compile(r"(?:^|[.;] )(?:Who|He who) [^?.;]*[.;]", re.MULTILINE)
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
# A table below the command that printed it.
PRINTED = re.compile(r"<!-- from: .* -->\n\n(?:\|.*\n)+")
# What a command prints, below it in its block (test_console).
OUTPUT = re.compile(r"(?m)^(?!\$ ).*$")
CONSOLE = re.compile(r"(?ms)^```console\n(.*?)^```$")
# One table of what was tried, by turns.
TABLE_OF_TRIALS = "explanation/tried.md"


def name_of(page: Path) -> str:
    inside = next((each for each in (DOCS, SITE, ROOT) if each in page.parents), page.parent)
    return str(page.relative_to(inside))


def written(text: str) -> str:
    """What a person wrote of a page: all but what runs and commands print."""
    text = PRINTED.sub("", OF_RUNS.sub("", text))
    return CONSOLE.sub(lambda block: OUTPUT.sub("", block[1]), text)


def count_of(text: str) -> int:
    """How many words a person wrote: not the rules and bars of tables, nor a list's marks."""
    return sum(bool(re.search(r"\w", each)) for each in written(text).split())


def words_of(text: str) -> str:
    """A page's words, without tables, blocks and spans of code."""
    lines = prose(text).splitlines()
    kept = [line for line in lines if not line.startswith(("|", "    ", "<!--", "!["))]
    return re.sub(r"`[^`]*`", "", "\n".join(kept))


@pytest.mark.parametrize("page", [*TOP, *BY_HAND], ids=name_of)
def test_words_are_plain(page: Path) -> None:
    assert RIDDLES.findall(words_of(page.read_text("utf-8"))) == []


@pytest.mark.parametrize("page", sorted((ROOT / "labs").rglob("*.md")), ids=str)
def test_a_hand_out_has_no_riddle(page: Path) -> None:
    words = words_of(page.read_text("utf-8"))
    assert OF_WHO.findall(" ".join(words.split())) == []
    assert WORDS_OF_RIDDLES.findall(words) == []


def test_what_else_people_read_is_plain() -> None:
    """Labs, notes of experiments and profiles, templates, docstrings, messages and comments."""
    folders = ("analysis", "experiments", "gostlab", "labs", "measurements", "netem_profiles")
    files = [
        path
        for folder in folders
        for path in (ROOT / folder).rglob("*")
        if path.suffix in {".md", ".py", ".txt", ".yaml"} and "vendor" not in path.parts
    ]
    said = {path: WORDS_OF_RIDDLES.findall(path.read_text("utf-8")) for path in files}
    assert len(files) > 100 and {path: words for path, words in said.items() if words} == {}


@pytest.mark.parametrize("page", [*TOP, *BY_HAND], ids=name_of)
def test_no_number_in_prose_was_typed_by_hand(page: Path) -> None:
    """A measured one stands in a table that a command wrote (test_numbers), or in code."""
    allowed = DEFINED.get(name_of(page), set())
    # what a command wrote says so: the foot of a marked table
    text = OF_RUNS.sub("", page.read_text("utf-8"))
    plain = "" if name_of(page) == TABLE_OF_TRIALS else words_of(text)
    assert sorted({each.strip() for each in MEASURED.findall(plain)} - allowed) == []


@pytest.mark.parametrize("page", sorted((DOCS / "how-to").glob("*.md")), ids=name_of)
def test_a_how_to_page_is_one_task(page: Path) -> None:
    assert count_of(prose(page.read_text("utf-8"))) <= MOST_OF_HOW_TO


def test_the_pages_are_short_together() -> None:
    """All that a person wrote, which is all that a person has to keep true."""
    pages = [*TOP, *(page for page in BY_HAND if DOCS in page.parents)]
    counts = {str(page.relative_to(ROOT)): count_of(page.read_text("utf-8")) for page in pages}
    assert sum(counts.values()) <= MOST_BY_HAND, counts
    assert len((DOCS / "results.md").read_text("utf-8").split()) <= MOST_RESULTS
    assert sum(picture.stat().st_size for picture in DOCS.rglob("*.png")) <= MOST_PICTURES


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
    assert RIDDLES.search("Who changes it runs it again.") and not RIDDLES.search("A user who asks")
