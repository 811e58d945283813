# SPDX-License-Identifier: MIT
"""What a student meets first: the folder that `start` writes, and what comes next."""

import re
import shutil
from pathlib import Path

import pytest

from gostlab.classroom.lab import load_lab
from gostlab.classroom.workspace import create_coursework, open_coursework, task_of
from gostlab.errors import BadInput
from tests.classroom.handins import asked_of
from tests.lab_command import Refused, Typed


@pytest.fixture
def begun(here: Path, typed: Typed) -> Path:
    """Lab 3, begun by Alice where she stands."""
    assert typed("lab", "start", 3, "--student", "alice").returncode == 0
    assert [path.name for path in here.iterdir()] == ["coursework"]
    return here / "coursework/3-random-loss"


def test_a_report_before_a_run_names_the_command_that_comes_first(
    begun: Path, refused: Refused, typed: Typed
) -> None:
    for step in ("report", "hand-in"):
        assert "./lab lab predict 3" in refused("lab", step, 3)
    sheet = begun / "answers.yaml"  # a number everywhere
    text = re.sub(r"^(  \w+:).*", r"\1 1", sheet.read_text("utf-8"), flags=re.MULTILINE)
    sheet.write_text(text, encoding="utf-8")
    assert typed("lab", "predict", 3).returncode == 0
    line = refused("lab", "report", 3)
    assert "./lab lab run 3" in line and "coursework/3-random-loss" in line


def test_the_page_of_the_lab_lies_beside_the_task(begun: Path) -> None:
    """gostlab itself may be an image, or another account's."""
    task = (begun / "TASK.md").read_text("utf-8")
    assert "](README.md)" in task
    assert (begun / "README.md").read_bytes() == (load_lab("3").folder / "README.md").read_bytes()
    assert (begun / "figure.png").is_file()


def test_the_task_has_fixed_settings_and_drawn_ones() -> None:
    lab = load_lab("4")
    asked = asked_of(lab)
    rows = dict(re.findall(r"^\| (\S+) \| `(.+)` \|$", task_of(asked), re.MULTILINE))
    assert rows["duration"] == "40s"  # as the file has it
    assert rows["rate"] == f"{asked.values['rate_mbit']}mbit"  # not the file's
    nested = load_lab("1")
    asked = asked_of(nested)
    assert f"| buffers | `{{rmem: [4KiB, 128KiB, {asked.values['rmem_kib']}KiB]" in task_of(asked)


def test_a_formula_without_a_value_in_a_labs_sheet_is_a_sentence(
    here: Path, refused: Refused
) -> None:
    shutil.copytree(load_lab("0").folder, here / "mine")
    with (here / "mine/answers.yaml").open("a") as sheet:
        sheet.write("# <no_s>\n")

    said = refused("lab", "start", "mine", "--student", "alice")

    assert "mine: no_s: there is no such value" in said
    assert not (here / "coursework").exists()


def test_a_labs_page_of_any_size_is_a_sentence(here: Path, refused: Refused) -> None:
    shutil.copytree(load_lab("0").folder, here / "mine")
    with (here / "mine/README.md").open("a") as page:
        page.truncate(1 << 40)
    said = refused("lab", "start", "mine", "--student", "alice")
    assert "mine/README.md: larger than any such file" in said


def test_a_lab_of_ones_own_is_found_again_from_its_folder(here: Path) -> None:
    own = here / "course/mine"
    shutil.copytree(load_lab("0").folder, own)
    asked = asked_of(load_lab("course/mine"))
    create_coursework(asked, here / "work")

    assert open_coursework(here / "work").lab.folder.resolve() == own
    assert "./lab lab predict course/mine" in task_of(asked)
    own.rename(here / "course/moved")
    with pytest.raises(BadInput, match=r"course/mine: not there"):
        open_coursework(here / "work")
