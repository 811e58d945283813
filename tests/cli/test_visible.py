# SPDX-License-Identifier: MIT
"""Foreign text reaches no terminal raw: whichever way it takes, its control characters are seen."""

import io
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from rich.table import Table

from gostlab import results
from gostlab.classroom.answers import Answers, sheet_of
from gostlab.classroom.student_assignment import Assignment
from gostlab.cli.common import print_error
from gostlab.console import Console
from gostlab.scheduler.progress import ProgressBoard
from gostlab.spec.expand import expand
from gostlab.spec.experiment import load_experiment
from gostlab.terminal_escape import EscapingStream
from gostlab.text_safety import escape_controls
from tests.classroom.handins import asked_of, make_hand_in
from tests.classroom.test_course import warm_up
from tests.lab_command import Typed

# Goes a line up, erases it, and goes on unseen.
EVIL = "\x1b[1A\x1b[2K17 of 17\x1b[8m\x9b2J\u202e\r\b"
HARMFUL = set(EVIL) - set("[1A2K7 of8mJ")


def harmless(text: str) -> bool:
    return not HARMFUL & set(text)


def test_control_characters_become_their_escapes_and_lines_stay_lines() -> None:
    assert escape_controls("a\tb\nc\r\nd") == "a\tb\nc\r\nd"
    assert escape_controls("\x1b[2K\r") == "\\x1b[2K\\r"
    assert harmless(escape_controls(EVIL))


@pytest.mark.parametrize(
    "way",
    [
        lambda: print(EVIL),
        lambda: print(EVIL, file=sys.stderr),
        lambda: print_error(f"x: failed: {EVIL}"),
        lambda: sys.stdout.writelines([EVIL, EVIL]),
    ],
)
def test_what_a_verb_prints_is_escape_controls(
    way: Callable[[], object], monkeypatch: pytest.MonkeyPatch, typed: Typed
) -> None:
    def verb(_argv: object) -> int:
        way()
        return 0

    monkeypatch.setattr("gostlab.cli.main.run_verb_with_errors", verb)
    told = typed("labs")
    assert told.returncode == 0 and "17 of 17" in told.stdout + told.stderr
    assert harmless(told.stdout) and harmless(told.stderr)
    assert not isinstance(sys.stdout, EscapingStream)


def test_tables_and_progress_keep_their_own_colours_alone() -> None:
    out = io.StringIO()
    console = Console(out, force_terminal=True, width=100, color_system="standard")
    console.print("good", style="red")
    ours = out.getvalue()
    table = Table(EVIL, title=EVIL)
    table.add_row(EVIL, style="red")
    console.print(table)
    run = expand(load_experiment("thesis-tunnel"), quick=True)[0]
    ProgressBoard("a title", console).say(f"{run.name}: failed: {EVIL}")
    written = out.getvalue()
    assert "\x1b[31m" in ours and "17 of 17" in written
    for raw in ("\x1b[1A", "\x1b[2K", "\x1b[8m", "\x9b", "\u202e", "\b"):
        assert raw not in written


def test_an_answer_and_a_file_of_a_hand_in_are_shown_to_the_teacher(
    tmp_path: Path, typed: Typed
) -> None:
    asked: Assignment = asked_of(warm_up())
    folder = make_hand_in(tmp_path / "alice", asked)
    point = next(each for each in asked.lab.points if each.by_hand and each.answer)
    keys = {section: asked.lab.keys(section) for section in ("predictions", "answers")}
    answers = dict.fromkeys(keys["answers"], EVIL)
    predictions = (results.read_object(folder / "predictions.json") or {})["predictions"]
    sheet = sheet_of(Answers("alice", predictions, answers))
    (folder / "answers.yaml").write_text(sheet, encoding="utf-8")
    assert point.answer is not None

    told = typed("grade", 0, folder, "--student", "alice")

    assert told.returncode == 0 and "17 of 17" in told.stdout
    assert harmless(told.stdout) and harmless(told.stderr)
