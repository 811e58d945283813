"""Mininet's prompt in the lab: on a terminal, in the sandbox."""

import os
import pty
import select
import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from gostlab.machine import CHECKOUT
from tests.offspring import adopt_orphans, all_gone, sandboxes
from tests.sandboxed import Lab

pytestmark = pytest.mark.sandbox

PROMPT = "mininet> "
PATIENCE_S = 120.0  # for a machine that is very busy: nothing is measured


class Terminal:
    """A command on a terminal of its own."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        self._until = time.monotonic() + PATIENCE_S
        self.shown = ""
        self.closed = False

    def read_until(self, text: str) -> str:
        """What is shown up to some text, or to its end."""
        start = len(self.shown)
        while text not in self.shown[start:] and time.monotonic() < self._until:
            if not select.select([self._descriptor], [], [], 1)[0]:
                continue
            try:
                read = os.read(self._descriptor, 4096)
            except OSError:  # the command has ended
                self.closed = True
                break
            self.shown += read.decode(errors="replace")
        return self.shown[start:]

    def type(self, line: str) -> None:
        os.write(self._descriptor, f"{line}\n".encode())


@contextmanager
def terminal(*words: str) -> Iterator[tuple[int, Terminal]]:
    """`./lab WORDS` on a terminal; ended on leaving."""
    pid, descriptor = pty.fork()
    if pid == 0:
        signal.signal(signal.SIGHUP, signal.SIG_DFL)  # the tests may run under nohup
        os.execv(CHECKOUT / "lab", ["lab", *words])
    try:
        yield pid, Terminal(descriptor)
    finally:
        os.close(descriptor)
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGTERM)


def test_the_prompt_greets_runs_commands_on_hosts_and_ends(lab: Lab) -> None:
    with terminal("shell", "--machine", "sandbox", "--profile", "plain-100ms") as (pid, shell):
        greeting = shell.read_until(PROMPT)
        assert "100.0 ms round trip" in greeting and "shaped on wan_a and wan_b" in greeting

        shell.type("client ping -c 1 target")
        assert "1 received, 0% packet loss" in shell.read_until(PROMPT)
        shell.type("client run-gost -V")
        assert lab.handed["tunnel"]["version"].partition(",")[0] in shell.read_until(PROMPT)

        shell.type("exit")
        shell.read_until("this text never comes")
        assert shell.closed
        assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0


@pytest.mark.parametrize("hangups", [signal.SIG_DFL, signal.SIG_IGN], ids=["told", "nohup"])
def test_a_terminal_that_goes_away_leaves_nothing(
    hangups: signal.Handlers, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The whole terminal hangs up, as when its window is closed or the connection is lost."""
    adopt_orphans()
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    pid, descriptor = pty.fork()
    if pid == 0:
        signal.signal(signal.SIGHUP, hangups)
        os.execv(
            CHECKOUT / "lab", ["lab", "shell", "--machine", "sandbox", "--profile", "plain-100ms"]
        )
    Terminal(descriptor).read_until(PROMPT)
    assert any(tmp_path.iterdir()) and sandboxes()

    os.close(descriptor)

    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 130
    assert not all_gone(PATIENCE_S) and list(tmp_path.iterdir()) == []


def test_a_hangup_alone_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    adopt_orphans()
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    with terminal("shell", "--machine", "sandbox", "--profile", "plain-100ms") as (pid, shell):
        shell.read_until(PROMPT)

        os.kill(pid, signal.SIGHUP)
        os.kill(pid, signal.SIGHUP)
        shell.read_until("this text never comes")

        assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 130
        assert not all_gone(PATIENCE_S) and list(tmp_path.iterdir()) == []
