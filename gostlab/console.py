# SPDX-License-Identifier: MIT
"""Provide rich's console with control characters in foreign text escaped."""

import sys
from collections.abc import Iterator
from typing import Any

from rich.console import Console as RichConsole
from rich.segment import Segment

from gostlab.terminal_escape import underlying_stream
from gostlab.text_safety import escape_controls


class Console(RichConsole):
    """Represent a console on a stream, by default on standard error."""

    def __init__(self, file: Any = None, **options: Any) -> None:
        super().__init__(file=underlying_stream(file or sys.stderr), **options)

    def render(self, renderable: Any, options: Any = None) -> Iterator[Segment]:
        for segment in super().render(renderable, options):
            yield (
                segment
                if segment.control
                else Segment(escape_controls(segment.text), segment.style)
            )
