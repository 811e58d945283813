"""Keep a `tc` running on a node, which reads its commands from a pipe.

A path that changes fifty times per second would otherwise start a hundred processes per second.
"""

from __future__ import annotations

import os
import re
import shlex
import subprocess
from collections.abc import Callable, Sequence

JSON = ("tc", "-j", "-batch", "-")
TEXT = ("tc", "-s", "-batch", "-")
# The last command of a text: its answer begins as no shaped device's does, and ends so.
LAST = "qdisc show dev lo"
LAST_ANSWER = re.compile(rb"^qdisc noqueue 0: root .*\n Sent .*\n backlog .*\n\Z", re.MULTILINE)
BLOCK_BYTES = 1 << 16


class TcError(Exception):
    """A command that tc refused, or tc's end; the message is tc's."""


class TcPipe:
    """A running `tc -batch`. Commands are argvs that begin with `tc`."""

    def __init__(
        self, start: Callable[..., subprocess.Popen[bytes]], options: Sequence[str] = JSON
    ) -> None:
        """Start tc. `start` is called like subprocess.Popen, on the node."""
        self._process = start(
            list(options), stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE
        )

    def show_after(self, commands: Sequence[Sequence[str]], shows: Sequence[Sequence[str]]) -> str:
        """Execute commands, then some that print one line of JSON each, and return these lines.

        Raises TcError with tc's message if a command was refused; the pipe is then unusable.
        """
        shows = [[arg for arg in show if arg != "-j"] for show in shows]
        lines = [shlex.join(argv[1:]) for argv in (*commands, *shows)]
        stdout = self._process.stdout
        assert stdout is not None
        output = []
        if self._write(lines):
            output = [stdout.readline() for _ in shows]
        if len(output) < len(shows) or not all(output):
            raise TcError(f"{'; '.join(lines)}: {self._last_output_lines()}")
        return b"".join(output).decode(errors="replace")

    def show_text(self, shows: Sequence[Sequence[str]]) -> str:
        """Return what some commands print, of a tc that prints text. Raises TcError."""
        lines = [shlex.join(argv[1:]) for argv in shows]
        stdout = self._process.stdout
        assert stdout is not None
        output = b""
        if self._write([*lines, LAST]):
            while (last := LAST_ANSWER.search(output)) is None:
                block = os.read(stdout.fileno(), BLOCK_BYTES)
                if not block:
                    break
                output += block
            if last is not None:
                return output[: last.start()].decode(errors="replace")
        raise TcError(f"{'; '.join(lines)}: {self._last_output_lines()}")

    def close(self) -> None:
        """End tc, which has nothing left to do."""
        self._process.kill()
        self._process.communicate()

    def _write(self, lines: Sequence[str]) -> bool:
        """Write commands; return whether tc still runs."""
        stdin = self._process.stdin
        assert stdin is not None
        try:
            stdin.write(("\n".join(lines) + "\n").encode())
            stdin.flush()
        except OSError:
            return False
        return True

    def _last_output_lines(self) -> str:
        output = self._process.communicate()[1].decode(errors="replace").strip()
        return output.replace("\n", "; ") or f"tc ended with {self._process.returncode}"
