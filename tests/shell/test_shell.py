# SPDX-License-Identifier: MIT
"""Mininet's prompt in the lab: on a terminal, in the sandbox."""

import os
import signal
from collections.abc import Callable
from pathlib import Path

import pytest

from gostlab.sandbox import CHECKOUT
from tests.offspring import adopt_orphans, all_gone, sandboxes
from tests.sandboxed import Lab
from tests.terminal import PATIENCE_S, Terminal, exit_code, terminal

pytestmark = pytest.mark.sandbox

PROMPT = "mininet> "
SHELL = (CHECKOUT / "lab", "shell", "--machine", "sandbox", "--profile", "plain-100ms")


def test_the_prompt_greets_runs_commands_on_hosts_and_ends(lab: Lab) -> None:
    with terminal(*SHELL) as (pid, shell):
        greeting = shell.read_until(PROMPT)
        assert "100.0 ms round trip" in greeting and "shaped on wan_a and wan_b" in greeting

        shell.type("client ping -c 1 target")
        assert "1 received, 0% packet loss" in shell.read_until(PROMPT)
        shell.type("client run-gost -V")
        assert lab.handed["tunnel"]["version"].partition(",")[0] in shell.read_until(PROMPT)

        shell.type("exit")
        shell.read_until()
        assert shell.ended and exit_code(pid) == 0


def go_away(_pid: int, shell: Terminal) -> None:
    shell.hang_up()


def hang_up_twice(pid: int, shell: Terminal) -> None:
    os.kill(pid, signal.SIGHUP)
    os.kill(pid, signal.SIGHUP)
    shell.read_until()


@pytest.mark.parametrize(
    ("end", "hangups"),
    [(go_away, signal.SIG_DFL), (go_away, signal.SIG_IGN), (hang_up_twice, signal.SIG_DFL)],
    ids=["told", "nohup", "a signal alone"],
)
def test_a_terminal_that_goes_away_leaves_nothing(
    end: Callable[[int, Terminal], None],
    hangups: signal.Handlers,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    adopt_orphans()
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    with terminal(*SHELL, hangups=hangups) as (pid, shell):
        shell.read_until(PROMPT)
        assert any(tmp_path.iterdir()) and sandboxes()

        end(pid, shell)

        assert exit_code(pid) == 130
        assert not all_gone(PATIENCE_S) and list(tmp_path.iterdir()) == []
