"""Mininet's prompt in the lab."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path

from gostlab import machine
from gostlab.describe.file.document import BadInput
from gostlab.describe.resolve.expand import single_run
from gostlab.machine import terminal
from gostlab.setup import parts


def shell(
    profile: str,
    cc: str,
    *,
    on: str,
    clock: str,
    gost: Path | None,
    needs_terminal: bool,
    say: Callable[[str], object],
) -> int:
    """Hand the terminal over to a prompt on a path with a congestion control; its exit status.
    Raises BadInput, MachineError, MissingPart.
    """
    choice = machine.choose(on)
    native_kernel = choice.name == "native"
    run = single_run(
        profile=profile, cc=cc, machine=choice.name, clock="real" if native_kernel else clock
    )
    if needs_terminal and not native_kernel and not sys.stdin.isatty():
        raise BadInput("shell needs a terminal to talk to (standard input is not one)")
    found = parts.find_parts(gost)
    say(f"machine: {choice.name} ({choice.reason})")
    return terminal.open_shell(run, found)
