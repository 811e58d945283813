# SPDX-License-Identifier: MIT
"""A tunnel's end that dies says why in one line, its own last words included."""

import subprocess
from pathlib import Path

import pytest

from gostlab.guest.tunnel_context import TunnelError, TunnelProcesses, last_line_note


@pytest.mark.parametrize(
    ("said", "last"),
    [
        ("starting\nOptions error: no such cipher\n\n", " (Options error: no such cipher)"),
        ('{"level":"fatal","msg":"listen tcp :443: in use"}\n', " (listen tcp :443: in use)"),
        ("", ""),
    ],
)
def test_the_last_line_that_says_anything_is_its_last_words(
    tmp_path: Path, said: str, last: str
) -> None:
    (tmp_path / "log").write_text(said)

    assert last_line_note(tmp_path / "log") == last


def test_an_end_that_died_is_named_with_what_it_said(tmp_path: Path) -> None:
    ends = TunnelProcesses(tmp_path)
    with ends.log_of("client").open("wb") as log:
        ends["client"] = subprocess.Popen(["/bin/sh", "-c", "echo no route; exit 3"], stdout=log)
        ends["client"].wait()

    with pytest.raises(TunnelError) as died:
        ends.check_alive()

    assert str(died.value) == (
        "the tunnel's end on client died (exit status 3) (no route);"
        " its output is in tunnel-client.log"
    )
