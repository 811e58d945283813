# SPDX-License-Identifier: MIT
"""docs/reference and the schemas are what the generator makes."""

import re
import shutil
from pathlib import Path

import pytest

from gostlab.cli.environment_variables import INTERNAL, VARIABLES
from gostlab.cli.main import VERBS
from gostlab.registry import folders
from tests.lab_command import said_by
from tools.reference.pages import COMMAND, FOLDER, generated

# Not from the code: speed.md is what `make bench` measured.
BY_HAND = {"glossary.md", "speed.md"}
MADE = generated()
# C macros that the code names; GOSTLAB_ALLOW is the start of a name.
MACROS = {"GOSTLAB_ALLOW", "GOSTLAB_SHOW"}
VARIABLE = re.compile(r"\bGOSTLAB_[A-Z_]*[A-Z]\b")


@pytest.mark.parametrize("path", list(MADE), ids=lambda path: path.name)
def test_a_page_is_what_the_generator_makes(path: Path) -> None:
    assert path.read_text(encoding="utf-8") == MADE[path], f"{COMMAND} writes it"


def test_every_variable_of_the_code_is_declared() -> None:
    files = [*folders.ROOT.glob("gostlab/**/*.py"), folders.ROOT / "lab"]
    read = {name for file in files for name in VARIABLE.findall(file.read_text("utf-8"))}
    assert read - INTERNAL - MACROS == {n for n in VARIABLES if n.startswith("GOSTLAB")}


def test_the_man_page_names_every_verb_and_groff_takes_it(tmp_path: Path) -> None:
    page = MADE[FOLDER / "gostlab.1"]
    assert [verb.name for verb in VERBS if f".SS {verb.name}\n" not in page] == []
    if shutil.which("groff") is None:
        pytest.skip("no groff")
    done = said_by("groff", "-man", "-Tutf8", "-ww", "-Wbreak", FOLDER / "gostlab.1")
    assert done.returncode == 0 and done.stderr == ""


def test_every_other_page_of_the_reference_is_made() -> None:
    made = {path.name for path in MADE if path.parent == FOLDER}
    assert {path.name for path in FOLDER.iterdir()} == made | BY_HAND


def test_every_verb_has_its_example_and_its_words() -> None:
    page = MADE[FOLDER / "verbs.md"]
    for verb in VERBS:
        assert f"## {verb.name}\n" in page
    assert "`--repeat REPEAT`" in page and "`add FILE`" in page and "%(" not in page
