# SPDX-License-Identifier: MIT
"""What a command flow runs is in its run's hash: programs, their libraries, and its own files."""

import os
from pathlib import Path

import pytest

from gostlab.spec.command_files import changed_programs, content_digest, program_digests
from tests.asked import refusal, runs_of

MINE = """
name: mine
title: mine
settings: {{profile: plain-100ms, duration: 2s}}
matrices:
  - name: m
    settings: {{flows: {{mine: {{kind: command, server: '{}', client: '{}'{}}}}}}}
"""


@pytest.fixture(autouse=True)
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GOSTLAB_CACHE", str(tmp_path / "cache"))
    monkeypatch.chdir(tmp_path)


def name_of(server: str, client: str = "true", more: str = "") -> str:
    [run] = runs_of(MINE.format(server, client, more))
    return run.name


def program(path: Path, text: str) -> Path:
    path.write_text(text)
    path.chmod(0o755)
    return path


def test_another_program_at_the_same_path_is_another_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("gostlab.spec.command_files.GUEST_MOUNTS", ())  # pytest's is in /tmp
    mine = program(tmp_path / "server", "#!/bin/sh\nexit 0\n")
    before = name_of(f"{mine} $PORT")
    assert before == name_of(f"{mine} $PORT")

    program(mine, "#!/bin/sh\nexit 1\n")

    assert name_of(f"{mine} $PORT") != before


def test_a_program_on_the_path_counts_with_its_libraries(monkeypatch: pytest.MonkeyPatch) -> None:
    assert set(program_digests(["exec sh -c 'true | no-such-program'"])) == {"sh", "true"}
    sh = Path(os.path.realpath("/bin/sh"))
    before = content_digest(sh)
    monkeypatch.setattr("gostlab.spec.command_files.linked_libraries", lambda path: [])
    assert content_digest(sh) != before


def test_own_files_are_copied_and_identified_by_their_content(tmp_path: Path) -> None:
    program(tmp_path / "server", "1")
    (tmp_path / "conf").mkdir()
    (tmp_path / "conf" / "a").write_text("a")
    (tmp_path / "conf" / ".hidden").write_text("b")

    [run] = runs_of(MINE.format("$FILES/server", "true", ", files: [server, conf]"))

    [flow] = run.flows
    assert set(flow.files) == {"server", "conf/a"}
    [folder] = (tmp_path / "cache" / "files").iterdir()
    assert os.access(folder / "server", os.X_OK) and (folder / "conf" / "a").read_text() == "a"
    assert changed_programs([flow.server, flow.client], flow.programs, flow.files) == ""
    (tmp_path / "conf" / "a").write_text("c")
    assert name_of("$FILES/server", more=", files: [server, conf]") != run.name
    # The copy is what runs, whatever is built meanwhile.
    assert (folder / "conf" / "a").read_text() == "a"


def test_a_run_whose_programs_are_others_here_is_refused() -> None:
    asked = ["cat", "true"]
    assert "cat is not what it was" in changed_programs(asked, {"cat": "0", "true": "1"}, {})
    assert "files (a) are not on this machine" in changed_programs([], {}, {"a": "1"})


@pytest.mark.parametrize(
    ("more", "says"),
    [
        (", files: [missing]", "mine: files: .*missing: no such file, or an empty folder"),
        (", files: [one/a, two/a]", "a second a: "),
        (", files: []", "at least 1"),
        (", files: server", "list"),
    ],
)
def test_files_that_cannot_be_given_are_refused(tmp_path: Path, more: str, says: str) -> None:
    for folder in ("one", "two"):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "a").write_text("")
    message = refusal(lambda: name_of("true", more=more))
    import re

    assert re.search(says, message), message
