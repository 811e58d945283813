# SPDX-License-Identifier: MIT
"""Write down what is said about each bad input, so that a diff is the review of a message.

    python3 -m tools.remake_errors

Each tests/errors/NAME.log begins with its command, `$ ./lab …`; below it is what that prints, in
the folder of its inputs (NAME.input, …), and its exit code. To add one, write the input and a log
of the first line alone. tests/errors/test_errors.py compares.
"""

import os
import shlex
import sys
from contextlib import chdir, redirect_stderr, redirect_stdout
from io import StringIO
from pathlib import Path
from tempfile import TemporaryDirectory

from gostlab.cli import main
from gostlab.registry.folders import ROOT

ERRORS = ROOT / "tests/errors"
PROMPT = "$ ./lab "


def read_command(log: Path) -> str:
    """Return the command of a log, its first line."""
    line = log.read_text(encoding="utf-8").partition("\n")[0]
    if not line.startswith(PROMPT):
        sys.exit(f"{log}: does not begin with {PROMPT}…")
    return line.removeprefix(PROMPT)


def run_command(command: str) -> str:
    """Return the log of a command: itself, what it prints, and its exit code."""
    printed = StringIO()
    with TemporaryDirectory() as out, chdir(ERRORS), redirect_stdout(printed):
        with redirect_stderr(printed):
            command_words = [
                *shlex.split(command),
                *(["--out", out] if " import " in command else []),
            ]
            status = main.main(command_words)
        left = os.listdir(out)
    text = f"{PROMPT}{command}\n{printed.getvalue()}exit code {status}\n"
    return text + "".join(f"wrote {name}\n" for name in sorted(left))


def write_logs() -> None:
    """Write every log anew."""
    for log in sorted(ERRORS.glob("*.log")):
        log.write_text(run_command(read_command(log)), encoding="utf-8")


if __name__ == "__main__":
    write_logs()
