"""Numbers in the pages: what was measured has five runs and more, and a command that wrote it.

A table of measured numbers stands between marks that runs fill (analysis.page.marked), or below a
line that names the command which printed it: `<!-- from: ./lab … -->`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from analysis.page.marked import BEGIN, END, LEAST, read_mark
from gostlab.declared.folders import ROOT

PAGES = sorted([ROOT / "README.md", ROOT / "CONTRIBUTING.md", *(ROOT / "docs").glob("*.md")])
NAMES = [str(page.relative_to(ROOT)) for page in PAGES]
# What one run says is no claim.
SINGLE = re.compile(r"\bn\s*=\s*1\b(?![.,]?\d)|\bone run a cell\b")
FROM = re.compile(r"<!-- from: \S.* -->")
# A cell of a table that is a number, with its spread and unit.
NUMBER = re.compile(r"^[†*~≈<>±+-]*\d[\d,.]*(?: \(.*\))?[†*]*(?: ?(?:%|Mbit/s|ms|µs|s|ns))?[*]*$")
# Their tables are timings, bits and counts of bytes, not runs of experiments.
OTHER_TABLES = {
    "docs/kernels.md",
    "docs/speed.md",
    "docs/tried.md",
    "docs/machine-model.md",
    "docs/syscall-cost.md",
    "docs/repeatability.md",
    "docs/cluster.md",
    "docs/result-format.md",
    "docs/settings.md",
    "docs/paths.md",
    "docs/teaching.md",
    "docs/your-own-cc.md",
}
# Pages where single runs still stand.
STILL_SINGLE = {"docs/speed.md"}


def tables(text: str) -> Iterator[tuple[int, list[list[str]]]]:
    """Every table: its first line's number, and its rows below the ruler."""
    lines = text.splitlines()
    start = None
    for number, line in enumerate([*lines, ""]):
        if line.lstrip().startswith("|"):
            start = number if start is None else start
        elif start is not None:
            rows = [
                [cell.strip() for cell in row.strip().strip("|").split("|")]
                for row in lines[start + 2 : number]
            ]
            yield start + 1, rows
            start = None


def is_measured(rows: list[list[str]]) -> bool:
    """Whether most of a table's rows have two numbers and more."""
    several = sum(sum(bool(NUMBER.match(cell)) for cell in row) >= 2 for row in rows)
    return 2 * several > len(rows)


def handwritten(text: str) -> list[int]:
    """The lines of measured tables that no command wrote."""
    lines = text.splitlines()
    found = []
    for number, rows in tables(text):
        above = [line.strip() for line in lines[: number - 1] if line.strip()]
        begun = max((i for i, line in enumerate(above) if BEGIN.fullmatch(line)), default=-1)
        ended = max((i for i, line in enumerate(above) if line == END), default=-1)
        told = bool(above) and FROM.fullmatch(above[-1])
        if is_measured(rows) and begun <= ended and not told:
            found.append(number)
    return found


@pytest.mark.parametrize("name", [name for name in NAMES if name not in STILL_SINGLE])
def test_no_page_says_what_one_run_says(name: str) -> None:
    lines = (ROOT / name).read_text("utf-8").splitlines()
    assert [f"{name}:{n}: {line}" for n, line in enumerate(lines, 1) if SINGLE.search(line)] == []


@pytest.mark.parametrize("name", [name for name in NAMES if name not in OTHER_TABLES])
def test_every_table_of_measured_numbers_was_written_by_a_command(name: str) -> None:
    assert handwritten((ROOT / name).read_text("utf-8")) == []


@pytest.mark.parametrize("name", NAMES)
def test_every_mark_can_be_read_and_its_table_has_runs_enough(name: str) -> None:
    text = (ROOT / name).read_text("utf-8")
    for number, line in enumerate(text.splitlines(), 1):
        if mark := BEGIN.fullmatch(line.strip()):
            read_mark(mark["asked"], f"{name}:{number}", ROOT)
    filled = re.findall(rf"{BEGIN.pattern}\n(.*?){re.escape(END)}", text, re.DOTALL)
    for asked, table in filled:
        for n in re.findall(r"\bn = (\d+)", table):
            assert int(n) >= LEAST, asked


def test_what_is_typed_by_hand_is_found(tmp_path: Path) -> None:
    table = "| a | b |\n|---|---|\n| 1.5 | 2 |\n| 18.8 (18.7–18.9) | 3 % |\n"
    assert handwritten(f"Words.\n\n{table}") == [3]
    assert handwritten(f"<!-- from: ./lab bench -->\n\n{table}") == []
    assert handwritten(f"<!-- runs: a/b -->\n\n{table}\n{END}\n") == []
    assert handwritten(f"<!-- runs: a/b -->\n{END}\n\n{table}") == [4]
    assert handwritten("| key | what |\n|---|---|\n| rate | a rate, like 5mbit |\n") == []
    assert SINGLE.search("medians (n = 1)") and not SINGLE.search("n = 10, and n = 1,000")
