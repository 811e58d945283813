"""rich's console for the lab's tables and progress: its own colours and cursor, visible text."""

import sys
from collections.abc import Iterator
from typing import Any

from rich.console import Console as RichConsole
from rich.segment import Segment

from gostlab.terminal_escape import beneath, visible


class Console(RichConsole):
    """A console on a stream; on standard error where none is given."""

    def __init__(self, file: Any = None, **how: Any) -> None:
        super().__init__(file=beneath(file or sys.stderr), **how)

    def render(self, renderable: Any, options: Any = None) -> Iterator[Segment]:
        for each in super().render(renderable, options):
            yield each if each.control else Segment(visible(each.text), each.style)
