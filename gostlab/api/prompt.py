"""Mininet's prompt in the lab."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from pathlib import Path

from gostlab import machine
from gostlab.describe.file.document import BadInput
from gostlab.describe.resolve.expand import single_run
from gostlab.describe.resolve.run_description import RunDescription
from gostlab.machine import terminal
from gostlab.setup import parts


@dataclass(frozen=True)
class Shell:
    """Mininet's prompt in the lab, ready to be opened."""

    machine: machine.Choice
    run: RunDescription
    parts: parts.Parts

    def open(self) -> int:
        """Hand the terminal over; the prompt's exit status. Raises MissingPart, MachineError."""
        return terminal.open_shell(self.run, self.parts)


def shell(
    profile: str = "la-hamina",
    cc: str = "cubic",
    *,
    on: str = "auto",
    clock: str = "real",
    gost: Path | None = None,
    needs_terminal: bool = True,
) -> Shell:
    """A prompt on a path with a congestion control. Raises BadInput, MachineError, MissingPart."""
    choice = machine.choose(on)
    native_kernel = choice.name == "native"
    run = single_run(
        profile=profile, cc=cc, machine=choice.name, clock="real" if native_kernel else clock
    )
    if needs_terminal and not native_kernel and not sys.stdin.isatty():
        raise BadInput("shell needs a terminal to talk to (standard input is not one)")
    return Shell(choice, run, parts.find_parts(gost))
