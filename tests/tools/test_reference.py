"""docs/reference and the schemas are what the generator makes."""

from pathlib import Path

import pytest

from gostlab.cli.main import VERBS
from tools.reference.pages import COMMAND, FOLDER, generated

# Not from the code: speed.md is what `make bench` measured.
BY_HAND = {"glossary.md", "speed.md"}
MADE = generated()


@pytest.mark.parametrize("path", list(MADE), ids=lambda path: path.name)
def test_a_page_is_what_the_generator_makes(path: Path) -> None:
    assert path.read_text(encoding="utf-8") == MADE[path], f"{COMMAND} writes it"


def test_every_other_page_of_the_reference_is_made() -> None:
    made = {path.name for path in MADE if path.parent == FOLDER}
    assert {path.name for path in FOLDER.glob("*.md")} == made | BY_HAND


def test_every_verb_has_its_example_and_its_words() -> None:
    page = MADE[FOLDER / "verbs.md"]
    for verb in VERBS:
        assert f"## {verb.name}\n" in page
    assert "`--repeat REPEAT`" in page and "`add FILE`" in page and "%(" not in page
