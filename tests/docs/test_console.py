"""A reader who follows the README, a tutorial or a how-to page to the letter sees what it shows."""

import shlex
from pathlib import Path

import pytest

from gostlab.declared.folders import ROOT
from tests.docs.console import Command, difference, steps
from tests.lab_command import Typed, said_by

DOCS = ROOT / "docs"
TUTORIALS = sorted((DOCS / "tutorials").glob("*.md"))
FOLLOWED = [DOCS / "how-to" / f"{name}.md" for name in ("path", "queue", "figure")]
# What of a page is done less often. The figure's 24 runs are the first question's but for their
# names, and there all are made.
FEWER = {"figure": {"repetitions: 6": "repetitions: 2", "24 runs: 24 good": "8 runs: 8 good"}}


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
    for told, done_instead in FEWER.get(page.stem, {}).items():
        assert told in text
        text = text.replace(told, done_instead)
    for step in steps(text):
        if not isinstance(step, Command):
            (here / step.name).write_text(step.text, encoding="utf-8")
            continue
        asked += 1
        if step.words.startswith("./lab "):
            done = typed(*shlex.split(step.words)[1:])
        else:
            done = said_by("sh", "-c", step.words.replace("./lab", str(ROOT / "lab")), cwd=here)
        assert done.returncode == 0, f"{step.words}: {done.stderr}"
        assert difference(step.shown, done.stdout) == "", f"{step.words}:\n{done.stdout}"
    assert asked


def test_what_differs_is_found() -> None:
    shown = "cubic  9.24  ok\n...\nkept in results/try-...\n"
    assert difference(shown, "cubic 9.3   ok\nbbr 9 ok\nkept in results/try-123\n") == ""
    assert "cubic" in difference(shown, "reno 9.24 ok\nkept in results/try-1\n")
    assert "cubic" in difference(shown, "cubic 4.24 ok\nkept in results/try-1\n")
    assert "kept" in difference(shown, "cubic 9.24 ok\nbbr 9 ok\n")
    assert "one more" in difference("a\n", "a\none more\n")
    assert difference("bbr 9.2 30 (0.36 %)\n", "bbr 9.2 10 (0.12 %)\n") == ""
