# SPDX-License-Identifier: MIT
"""A command on a terminal of its own."""

import io
import os
import pty
import select
import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress

PATIENCE_S = 120.0  # for a machine that is very busy: nothing is measured


class Terminal:
    """What a command shows, and what is typed for it."""

    def __init__(self, descriptor: int) -> None:
        self._file = io.FileIO(descriptor, "r+")
        self._until = time.monotonic() + PATIENCE_S
        self.shown = ""
        self.ended = False

    def read_until(self, text: str | None = None) -> str:
        """What is shown up to some text, or to its end."""
        start = len(self.shown)
        while not self.ended and time.monotonic() < self._until:
            if text is not None and text in self.shown[start:]:
                break
            if not select.select([self._file], [], [], 1)[0]:
                continue
            try:
                self.shown += self._file.read(65536).decode(errors="replace")
            except OSError:  # the command has ended
                self.ended = True
        return self.shown[start:]

    def type(self, line: str) -> None:
        self._file.write(f"{line}\n".encode())

    def hang_up(self) -> None:
        """As when its window is closed or the connection is lost."""
        self._file.close()


@contextmanager
def terminal(
    *words: object, hangups: signal.Handlers = signal.SIG_DFL
) -> Iterator[tuple[int, Terminal]]:
    """A command on a terminal; ended on leaving. hangups: the tests may run under nohup."""
    argv = [str(word) for word in words]
    pid, descriptor = pty.fork()
    if pid == 0:
        signal.signal(signal.SIGHUP, hangups)
        os.execv(argv[0], argv)
    made = Terminal(descriptor)
    try:
        yield pid, made
    finally:
        made.hang_up()
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGTERM)


def exit_code(pid: int) -> int:
    """How a command on a terminal ended."""
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
