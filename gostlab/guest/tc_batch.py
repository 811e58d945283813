"""One `tc` per node that stays and takes its commands from a pipe: a path that changes fifty times
a second would otherwise start a hundred processes a second.
"""

from __future__ import annotations

import shlex
import subprocess
from collections.abc import Callable, Sequence

ARGV = ("tc", "-j", "-batch", "-")


class TcError(Exception):
    """tc refused a command, or ended; in its own words."""


class TcPipe:
    """A running `tc -batch`. Commands are argvs that begin with `tc`."""

    def __init__(self, start: Callable[..., subprocess.Popen[bytes]]) -> None:
        """start: like subprocess.Popen, on the node."""
        self._process = start(
            list(ARGV), stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE
        )

    def show_after(self, commands: Sequence[Sequence[str]], shows: Sequence[Sequence[str]]) -> str:
        """Carry out commands, then some that each print a line; returns those lines.

        Raises TcError with tc's words if one was refused; the pipe is of no use from then on.
        """
        shows = [[word for word in show if word != "-j"] for show in shows]
        lines = [shlex.join(argv[1:]) for argv in (*commands, *shows)]
        into, out = self._process.stdin, self._process.stdout
        assert into is not None and out is not None
        try:
            into.write(("\n".join(lines) + "\n").encode())
            into.flush()
            said = [out.readline() for _ in shows]
        except OSError:  # it has ended
            said = [b""]
        if not all(said):
            raise TcError(f"{'; '.join(lines)}: {self._last_words()}")
        return b"".join(said).decode(errors="replace")

    def close(self) -> None:
        """Let it end: at the end of its input it does."""
        self._process.communicate()

    def _last_words(self) -> str:
        said = self._process.communicate()[1].decode(errors="replace").strip()
        return said.replace("\n", "; ") or f"tc ended with {self._process.returncode}"
