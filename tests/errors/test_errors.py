"""Exactly what is said about a bad input (`make errors` writes the logs anew)."""

from pathlib import Path

import pytest

from tools.remake_errors import ERRORS, read_command, run_command

LOGS = sorted(ERRORS.glob("*.log"))


@pytest.mark.parametrize("log", LOGS, ids=[log.stem for log in LOGS])
def test_a_bad_input_is_refused_in_a_line_that_says_what_to_do(log: Path) -> None:
    text = log.read_text(encoding="utf-8")
    assert run_command(read_command(log)) == text
    _command, message, *end = text.splitlines()
    assert message.startswith("gostlab: ")
    assert end == ["exit code 2"]


def test_every_input_has_a_log() -> None:
    commands = " ".join(read_command(log) for log in LOGS)
    inputs = {path.name for path in ERRORS.iterdir() if ".input" in path.suffixes}
    assert {name for name in inputs if name not in commands} == set()
