# SPDX-License-Identifier: MIT
"""A process of its own: `./lab`, or any other, and what it came to."""

import runpy
import subprocess
import sys
from collections.abc import Callable
from contextlib import redirect_stderr, redirect_stdout
from io import StringIO
from pathlib import Path
from typing import Any
from unittest.mock import patch

from gostlab.cli.main import main
from gostlab.install.locate import TunnelBinary

# The fixture `typed`: ./lab's words in this process.
Typed = Callable[..., subprocess.CompletedProcess[str]]
# The fixture `refused`: the one line that ./lab's words are refused with.
Refused = Callable[..., str]
# The fixture `gost`: a real GOST by its version.
Gost = Callable[[str], TunnelBinary]
ROOT = Path(__file__).resolve().parents[1]


def said_by(*words: object, **more: Any) -> subprocess.CompletedProcess[str]:
    """What a command came to, in the checkout; more: what subprocess.run takes."""
    usual = {"cwd": ROOT, "capture_output": True, "text": True, "check": False, "timeout": 600}
    return subprocess.run([*map(str, words)], **usual | more)


def run_lab(*words: object, **more: Any) -> subprocess.CompletedProcess[str]:
    """What ./lab came to."""
    return said_by(sys.executable, "-m", "gostlab", *words, **more)


def run_here(*words: object) -> subprocess.CompletedProcess[str]:
    """What ./lab's words come to in this process, which has read by then what they need."""
    with redirect_stdout(StringIO()) as printed, redirect_stderr(StringIO()) as told:
        status = main([str(word) for word in words])
    return subprocess.CompletedProcess(words, status, printed.getvalue(), told.getvalue())


def script_here(path: Path, *words: object) -> subprocess.CompletedProcess[str]:
    """What a script in Python comes to in this process, which has read pandas and matplotlib."""
    status: object = 0
    argv = patch.object(sys, "argv", [str(path), *map(str, words)])
    with argv, redirect_stdout(StringIO()) as printed, redirect_stderr(StringIO()) as told:
        try:
            runpy.run_path(str(path), run_name="__main__")
        except SystemExit as end:
            status = end.code or 0
    if not isinstance(status, int):
        told.write(f"{status}\n")
        status = 1
    return subprocess.CompletedProcess(words, status, printed.getvalue(), told.getvalue())
