# SPDX-License-Identifier: MIT
"""docs/how-to/experiment.md: its examples are files that can be run as they stand."""

import re
import shlex
from itertools import takewhile
from pathlib import Path

import pytest

from gostlab.spec.expand import expand
from gostlab.spec.experiment import load_experiment
from gostlab.spec.preflight import survey_traps
from tests.examples import PAGE, examples, experiments, write_examples
from tests.lab_command import Typed
from tests.labs.test_pages import can_be_typed, commands

ROOT = PAGE.parents[2]
README, SITE = ROOT / "README.md", ROOT / "tools/results_pages/site_pages"


def test_there_are_three_examples() -> None:
    assert experiments() == ["mine.yaml", "two-buffers.yaml", "five-controls.yaml"]
    assert set(examples()) == {*experiments(), "my-path.yaml", "five-controls.py"}


@pytest.mark.parametrize("name", experiments())
def test_an_example_can_be_run(name: str, tmp_path: Path) -> None:
    write_examples(tmp_path)
    experiment = load_experiment(str(tmp_path / name))

    full, quick = (expand(experiment, quick=form) for form in (False, True))

    assert experiment.question.endswith("?") and experiment.name == Path(name).stem
    assert survey_traps(full)[0] == survey_traps(quick)[0] == []
    assert sum(run.length_s for run in quick) <= 60


def test_the_question_of_the_readme_can_be_asked(typed: Typed) -> None:
    text = README.read_text("utf-8")
    (question,) = re.findall(r"^\$ \./lab (try .*)$", text, re.MULTILINE)
    runs = typed(*question.split(), "--dry-run").stdout.split()
    assert len(runs) >= 4 * 5  # a claim rests on five runs and more


QUESTION = re.compile(r"^(?:    |\$ )\./lab (try [^#\n]*)", re.MULTILINE)
# What a reader has made before: a control, a profile, a GOST.
MADE_BEFORE = re.compile(r"mine|my-path")


def questions() -> list[str]:
    pages = sorted((PAGE.parents[1]).rglob("*.md"))
    asked = [each.strip() for page in pages for each in QUESTION.findall(page.read_text("utf-8"))]
    return [each for each in dict.fromkeys(asked) if not MADE_BEFORE.search(each)]


@pytest.mark.parametrize("question", questions())
def test_every_question_of_a_page_can_be_asked(question: str, here: Path, typed: Typed) -> None:
    assert typed(*shlex.split(question), "--dry-run").returncode == 0


# Pages whose commands people type: README and the like, docs/, labs/, the site.
FOLDERS = (ROOT / "docs", ROOT / "labs")
TYPED = sorted(
    [*ROOT.glob("*.md"), *SITE.glob("*.md"), *(p for f in FOLDERS for p in f.rglob("*.md"))]
)
# KIND, and one|other: words that stand for others.
STANDS_FOR = re.compile(r"\b(?:KIND|VERB)\b|\w\|\w")
AFTER = {"|", "&&", ">"}  # what follows is the shell's


@pytest.mark.parametrize("page", TYPED, ids=lambda page: str(page.relative_to(ROOT)))
def test_every_command_of_a_page_can_be_typed(page: Path) -> None:
    text = re.sub(r"(?m)^\$ (?=\./lab)", "    ", page.read_text("utf-8"))
    for command in commands(text):
        if STANDS_FOR.search(command):
            continue
        words = shlex.split(command, comments=True)[1:]
        words = list(takewhile(lambda word: word not in AFTER, words))
        words = [word for word in words if word != "…"]
        if words[0] not in ("setup", "doctor"):
            assert can_be_typed(words) or can_be_typed([*words, "--help"]), command


@pytest.mark.slow
def test_the_grid_is_what_its_heading_says(tmp_path: Path) -> None:
    write_examples(tmp_path)
    runs = expand(load_experiment(str(tmp_path / "five-controls.yaml")))

    assert len({run.cc for run in runs}) == 5
    assert len(runs) == 5 * 4 * 3 * 6
