# SPDX-License-Identifier: MIT
"""A reader who follows the README, a tutorial or a how-to page to the letter sees what it shows."""

import re
import shlex
import sys
from pathlib import Path

import pytest

from gostlab.registry.folders import ROOT
from tests.docs.console import NEAR, Command, difference, steps
from tests.lab_command import Typed, said_by

DOCS = ROOT / "docs"
TUTORIALS = sorted((DOCS / "tutorials").glob("*.md"))
FOLLOWED = [DOCS / "how-to" / f"{name}.md" for name in ("path", "queue", "figure")]
# What of a page is done less often, and what it then shows. The first question's 24 runs are all
# made: the figure's are those but for their names, and the README's have its four cells.
INTERVAL = re.compile(r"([\d.]+) – ([\d.]+)")
OF_FEWER = re.compile(r"([\d.]+) +(?:([\d.]+) – ([\d.]+), n = 3|3 identical runs)")
FEWER = {
    "README": [
        ("--repeat 6", "--repeat 3"),
        ("95 % interval", "least – most"),
        (INTERVAL.pattern, "..."),
    ],
    "figure": [("repetitions: 6", "repetitions: 1"), ("24 runs: 24 good", "4 runs: 4 good")],
    "queue": [
        ("repetitions: 2", "repetitions: 1"),
        (r"(queue +)2 ", r"\g<1>1 "),
        ("6 runs: 6 good", "3 runs: 3 good"),
    ],
}


@pytest.mark.sandbox
@pytest.mark.parametrize(
    "page", [ROOT / "README.md", *TUTORIALS, *FOLLOWED], ids=lambda page: page.stem
)
def test_every_command_of_a_page_prints_what_the_page_shows(
    page: Path, here: Path, typed: Typed, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "96")
    for name in ("labs", "netem_profiles"):
        (here / name).symlink_to(ROOT / name)
    text, asked = page.read_text("utf-8"), 0
    for told, done_instead in FEWER.get(page.stem, ()):
        text, replaced = re.subn(told, done_instead, text)
        assert replaced, told
    for step in steps(text):
        if not isinstance(step, Command):
            (here / step.name).write_text(step.text, encoding="utf-8")
            continue
        asked += 1
        if step.words.startswith("./lab "):
            done = typed(*shlex.split(step.words)[1:])
        else:
            line = step.words.replace("./lab", str(ROOT / "lab")).replace("=. ", f"={ROOT} ")
            line = line.replace("~/.cache/gostlab/python/bin/python", sys.executable)
            done = said_by("sh", "-c", line, cwd=here)
        assert done.returncode == 0, f"{step.words}: {done.stderr}"
        assert difference(step.shown, done.stdout) == "", f"{step.words}:\n{done.stdout}"
        if page.stem == "README":
            assert_within(INTERVAL.findall(page.read_text("utf-8")), done.stdout)
    assert asked


def assert_within(shown: list[tuple[str, str]], printed: str) -> None:
    """Of six runs an interval goes from the least to the most: three of them lie in it."""
    for (least, most), (middle, low, high) in zip(shown, OF_FEWER.findall(printed), strict=True):
        assert float(least) * (1 - NEAR) <= float(low or middle)
        assert float(high or middle) <= float(most) * (1 + NEAR)


def test_what_differs_is_found() -> None:
    shown = "cubic  9.24  ok\n...\nkept in results/try-...\n"
    assert difference(shown, "cubic 9.3   ok\nbbr 9 ok\nkept in results/try-123\n") == ""
    assert "cubic" in difference(shown, "reno 9.24 ok\nkept in results/try-1\n")
    assert "cubic" in difference(shown, "cubic 4.24 ok\nkept in results/try-1\n")
    assert "kept" in difference(shown, "cubic 9.24 ok\nbbr 9 ok\n")
    assert "one more" in difference("a\n", "a\none more\n")
    assert difference("bbr 9.2 30 (0.36 %)\n", "bbr 9.2 10 (0.12 %)\n") == ""
