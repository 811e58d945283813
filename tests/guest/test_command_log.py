# SPDX-License-Identifier: MIT
"""commands.sh: what a reader runs makes the same files again."""

import subprocess
from pathlib import Path

import pytest

from gostlab.guest.command_log import CommandLog, ScriptRequirements, with_environ


@pytest.mark.parametrize(
    "content",
    [b"[tunnel]\nkey = $HOME `x` 'y'\n", b"no newline at the end", b"\x00\xff\n", b"END_OF_FILE\n"],
)
def test_a_file_written_into_it_is_the_same_file(tmp_path: Path, content: bytes) -> None:
    made = tmp_path / "a folder" / "made.conf"
    empty, script = tmp_path / "empty.sh", tmp_path / "commands.sh"
    CommandLog(empty, "a run", ScriptRequirements()).close()
    log = CommandLog(script, "a run", ScriptRequirements())
    log.write_file(made, content, 0o600)
    log.close()
    written = script.read_text().removeprefix(empty.read_text())
    written = 'make_folder() { mkdir -p "$1"; }\n' + written

    subprocess.run(["sh", "-c", written], check=True, cwd=tmp_path)

    assert made.read_bytes() == content
    assert made.stat().st_mode & 0o777 == 0o600


def test_a_program_s_own_environment_stands_before_it() -> None:
    assert with_environ(["ping", "a"], {"X": "1 2"}) == ["env", "X=1 2", "ping", "a"]
    assert with_environ(["ping", "a"], {}) == ["ping", "a"]
