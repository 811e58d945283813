# SPDX-License-Identifier: MIT
"""A lab's page in parts: what stands beside each answer, and commands as questions with knobs."""

import shutil
from dataclasses import replace
from pathlib import Path
from urllib.parse import parse_qsl

import pytest

from gostlab.classroom.lab import SECTIONS, CourseLab, list_labs, load_lab
from gostlab.classroom.student_assignment import assignment_in_course
from gostlab.serve.class_work import knob_settings
from gostlab.serve.lab_guide import knobs_address, split_guide
from gostlab.serve.question_parser import parse_question
from tests.labs.test_pages import commands

FLOWS = "{flow: {cc: cubic}}"
STUDENTS = [f"student-{number}" for number in range(8)]  # among them every trap of lab 8
LABS = [load_lab(str(folder)) for folder in list_labs()]


def keys_of(lab: CourseLab) -> set[str]:
    return {f"{section}.{key}" for section in SECTIONS for key in lab.keys(section)}


@pytest.mark.parametrize("lab", LABS, ids=lambda lab: lab.name)
def test_every_answer_has_how_it_is_got_and_stands_once(lab: CourseLab) -> None:
    guide = split_guide(lab)
    assert set(guide.instructions) == keys_of(lab) and all(guide.instructions.values())
    assert not any(f"<code>{key}</code>" in guide.read for key in keys_of(lab))
    assert "<h2>Goal</h2>" in guide.read and "<h2>Questions</h2>" not in guide.read
    assert "./lab lab start" not in guide.read and "<li>" in guide.questions


@pytest.mark.parametrize("lab", LABS, ids=lambda lab: lab.name)
def test_every_drawn_value_says_what_it_is(lab: CourseLab) -> None:
    drawn = set(lab.drawn) - set(lab.hidden)
    assert drawn <= set(split_guide(lab).meanings)


@pytest.mark.parametrize("lab", LABS, ids=lambda lab: lab.name)
def test_the_page_with_knobs_takes_the_path_of_every_lab(lab: CourseLab) -> None:
    for student in STUDENTS:
        settings = knob_settings(assignment_in_course(lab, student, "a course", b"secret" * 6))
        parse_question({"settings": {**settings, "flows": FLOWS}, "seed": 1, "repeat": 1})


def test_a_variable_keeps_its_letter() -> None:
    hows = [how for lab in LABS for how in split_guide(lab).instructions.values()]
    assert any(how.startswith("p = ") for how in hows)
    assert not any(how.startswith("P = ") for how in hows)


def test_the_questions_name_no_sheet_that_the_page_does_not_have() -> None:
    assert not any("sheet" in split_guide(lab).questions for lab in LABS)


def test_files_that_an_answer_is_read_from_are_named_below_the_answers() -> None:
    notes = {lab.number: split_guide(lab).notes for lab in LABS}
    assert {number for number, text in notes.items() if text} == {0, 6}
    assert "fidelity.json" in notes[0] and "sockets.jsonl" in notes[6]


def test_a_page_whose_answers_stand_otherwise_is_left_whole(tmp_path: Path) -> None:
    lab = LABS[0]
    folder = Path(shutil.copytree(lab.folder, tmp_path / lab.name))
    page = folder / "README.md"
    page.write_text(page.read_text("utf-8").replace("- `answers.goodput_mbit`", "- The goodput"))
    guide = split_guide(replace(lab, folder=folder))
    assert guide.instructions == {} and "<code>answers.idle_rtt_ms</code>" in guide.read


def test_the_table_of_answers_of_a_new_lab_is_read_as_well(tmp_path: Path) -> None:
    rows = "\n".join(f"| `{key}` | what | *how* of {key} |" for key in sorted(keys_of(LABS[0])))
    text = f"# A\n\n## What is asked\n\n| key | what it is | how |\n|---|---|---|\n{rows}\n"
    (tmp_path / "README.md").write_text(text, "utf-8")
    guide = split_guide(replace(LABS[0], folder=tmp_path))
    assert guide.instructions["answers.goodput_mbit"] == "<em>how</em> of answers.goodput_mbit"


@pytest.mark.parametrize("lab", LABS, ids=lambda lab: lab.name)
def test_each_try_of_a_page_is_a_question_that_the_page_with_knobs_takes(lab: CourseLab) -> None:
    tries = [
        command
        for command in commands((lab.folder / "README.md").read_text("utf-8"))
        if command.startswith("./lab try")
    ]
    assert split_guide(lab).questions.count("Turn its knobs") == len(tries)
    for command in tries:
        address = knobs_address(command)
        assert address is not None
        settings = dict(parse_qsl(address.removeprefix("/?")))
        # As requestSettings() of state.js: a flow without a control takes the run's.
        if any(name.startswith("cc.") for name in settings):
            settings["flows"] = settings["flows"].replace("cc: cubic", "")
        if "cc:" not in settings["flows"] or "kind:" in settings["flows"]:
            settings["cc"] = "cubic"
        question = parse_question({"settings": settings})
        assert len(question.experiment.runs) == 1


@pytest.mark.parametrize(
    ("command", "query"),
    [
        (
            "./lab try --cc bbr,cubic --for 5s --live",
            {"duration": "5s", "flows": "{flow: {cc: bbr}}"},
        ),
        (
            "./lab try --flows a=bbr3,b=reno --rate=1mbit,2mbit --acks on --capture wan",
            {"rate": "1mbit", "flows": "{a: {cc: bbr3}, b: {cc: reno}}"},
        ),
    ],
)
def test_a_command_becomes_the_first_of_its_questions(command: str, query: dict[str, str]) -> None:
    assert dict(parse_qsl((knobs_address(command) or "").removeprefix("/?"))) == query


def test_only_try_is_a_question_with_knobs() -> None:
    assert knobs_address("./lab run labs/3-random-loss/experiment.yaml") is None
    assert knobs_address("./lab try --rate 1mbit\n./lab try --rate 2mbit") is None
    assert knobs_address("./lab trysomething") is None
