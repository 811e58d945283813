"""Keep one `tc` per node running, which reads its commands from a pipe.

A path that changes fifty times per second would otherwise start a hundred processes per second.
"""

from __future__ import annotations

import shlex
import subprocess
from collections.abc import Callable, Sequence

ARGV = ("tc", "-j", "-batch", "-")


class TcError(Exception):
    """A command that tc refused, or tc's end; the message is tc's."""


class TcPipe:
    """A running `tc -batch`. Commands are argvs that begin with `tc`."""

    def __init__(self, start: Callable[..., subprocess.Popen[bytes]]) -> None:
        """Start tc. `start` is called like subprocess.Popen, on the node."""
        self._process = start(
            list(ARGV), stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE
        )

    def show_after(self, commands: Sequence[Sequence[str]], shows: Sequence[Sequence[str]]) -> str:
        """Execute commands, then some that print one line each, and return these lines.

        Raises TcError with tc's message if a command was refused; the pipe is then unusable.
        """
        shows = [[arg for arg in show if arg != "-j"] for show in shows]
        lines = [shlex.join(argv[1:]) for argv in (*commands, *shows)]
        stdin, stdout = self._process.stdin, self._process.stdout
        assert stdin is not None and stdout is not None
        try:
            stdin.write(("\n".join(lines) + "\n").encode())
            stdin.flush()
            output = [stdout.readline() for _ in shows]
        except OSError:  # tc has ended
            output = [b""]
        if not all(output):
            raise TcError(f"{'; '.join(lines)}: {self._last_output_lines()}")
        return b"".join(output).decode(errors="replace")

    def close(self) -> None:
        """Close tc's input, at whose end it exits."""
        self._process.communicate()

    def _last_output_lines(self) -> str:
        output = self._process.communicate()[1].decode(errors="replace").strip()
        return output.replace("\n", "; ") or f"tc ended with {self._process.returncode}"
