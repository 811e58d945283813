"""Foreign text, an answer or a module's last words, as a terminal may have it: what would move the
cursor, erase a line or hide a word stands there as its escape, \\x1b.

All that the lab prints goes through `Visible`; its own tables and progress, whose colours and
cursor are meant, through gostlab.console.
"""

import re
import shutil
import sys
import time
from typing import Any, TextIO

PLAIN_LINE_S = 30.0  # between two lines of one thing that is under way, where none is overwritten
# Control characters but tab and the end of a line, and what turns the direction of writing.
CHECKOUTS_COMMAND = "./lab"
UNSEEN = re.compile(
    "[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069\ud800-\udfff]"
    "|\r(?!\n)"
)


def visible(text: str) -> str:
    """A text whose control characters can be seen and do nothing."""
    return UNSEEN.sub(lambda found: found[0].encode("unicode_escape").decode("ascii"), text)


class Visible:
    """A stream that shows control characters; `command`: what a checkout's ./lab is called here."""

    def __init__(self, stream: TextIO, command: str = CHECKOUTS_COMMAND) -> None:
        self.beneath = stream
        self._command = command

    def write(self, text: str) -> int:
        self.beneath.write(visible(text).replace(CHECKOUTS_COMMAND, self._command))
        return len(text)

    def writelines(self, lines: Any) -> None:
        for line in lines:
            self.write(line)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.beneath, name)


def beneath(stream: Any) -> Any:
    """The stream itself, for code that moves the cursor on purpose and writes no foreign text."""
    return stream.beneath if isinstance(stream, Visible) else stream


class OneLine:
    """A stream's last line, which on a terminal the next one overwrites."""

    def __init__(self, out: TextIO) -> None:
        self.out = out
        self.is_terminal = out.isatty()

    def show(self, text: str) -> None:
        """On a terminal alone, as much as it has room for."""
        if self.is_terminal:
            self.clear()
            width = shutil.get_terminal_size().columns - 1
            print(text[:width], end="", file=self.out, flush=True)

    def keep(self, text: str) -> None:
        """A line that stays."""
        self.clear()
        print(text, file=self.out, flush=True)

    def clear(self) -> None:
        if self.is_terminal:
            print("\r\033[K", end="", file=beneath(self.out), flush=True)


class StepOutput(OneLine):
    """What a long step says: overwritten on a terminal; elsewhere a line in half a minute."""

    def __init__(self) -> None:
        super().__init__(sys.stderr)
        self._next = 0.0

    def __call__(self, text: str) -> None:
        self.show(visible(text))
        if not self.is_terminal and time.monotonic() >= self._next:
            self._next = time.monotonic() + PLAIN_LINE_S
            self.keep(text)
