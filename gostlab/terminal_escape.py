# SPDX-License-Identifier: MIT
"""Escape control characters in foreign text before it reaches a terminal.

Text from programs, such as a module's log, may otherwise move the cursor, erase a line or hide a
word; here it shows as its escape, \\x1b. All output goes through `Visible`; tables and progress,
which use colours and the cursor on purpose, go through gostlab.console.
"""

import shutil
import sys
import time
from typing import Any, TextIO

from gostlab.text_safety import escape_controls

PLAIN_LINE_S = 30.0  # interval between progress lines if none can be overwritten
CHECKOUTS_COMMAND = "./lab"


class EscapingStream:
    """Represent a stream that escapes control characters.

    `command` replaces ./lab, the command of a checkout, in the text.
    """

    def __init__(self, stream: TextIO, command: str = CHECKOUTS_COMMAND) -> None:
        self.beneath = stream
        self._command = command

    def write(self, text: str) -> int:
        self.beneath.write(escape_controls(text).replace(CHECKOUTS_COMMAND, self._command))
        return len(text)

    def writelines(self, lines: Any) -> None:
        for line in lines:
            self.write(line)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.beneath, name)


def underlying_stream(stream: Any) -> Any:
    """Return the underlying stream, for code that moves the cursor on purpose."""
    return stream.beneath if isinstance(stream, EscapingStream) else stream


class StatusLine:
    """Represent the last line of a stream, which is overwritten on a terminal."""

    def __init__(self, out: TextIO) -> None:
        self.out = out
        self.is_terminal = out.isatty()

    def show(self, text: str) -> None:
        """Show a temporary line, truncated to the width, if the stream is a terminal."""
        if self.is_terminal:
            self.clear()
            width = shutil.get_terminal_size().columns - 1
            print(text[:width], end="", file=self.out, flush=True)

    def keep(self, text: str) -> None:
        """Print a permanent line."""
        self.clear()
        print(text, file=self.out, flush=True)

    def clear(self) -> None:
        if self.is_terminal:
            print("\r\033[K", end="", file=underlying_stream(self.out), flush=True)


class StepOutput(StatusLine):
    """Show the output of a long step: one overwritten line, or a line every 30 s in a file."""

    def __init__(self) -> None:
        super().__init__(sys.stderr)
        self._next = 0.0

    def __call__(self, text: str) -> None:
        self.show(escape_controls(text))
        if not self.is_terminal and time.monotonic() >= self._next:
            self._next = time.monotonic() + PLAIN_LINE_S
            self.keep(text)
