# SPDX-License-Identifier: MIT
"""Read the log of a guest's kernel."""

import re
from pathlib import Path

from gostlab import safe_read

LOG_BYTES = 1 << 20  # maximum number of bytes read from the end of a log

# Matches the first line of a kernel's error report; registers and a stack trace follow it.
ERROR_REPORT = re.compile(
    r"Kernel panic|BUG: |Oops|Unable to handle|kernel BUG|WARNING: |divide error|Kernel mode fault|"
    r"Kernel tried to access|Segfault with no mm|RIP: "
)


def read_log(folder: Path) -> list[str]:
    """Return the last lines of a run's log, none if there is no log."""
    try:
        tail, _ = safe_read.read_tail(folder / "log.txt", LOG_BYTES)
    except OSError:
        return []
    return tail.decode("utf-8", "replace").splitlines()


def explain_kernel_death(folder: Path) -> str:
    """Return the lines of a log that report a kernel's failure, else its last line."""
    if not (folder / "log.txt").exists():
        return "it left no log"
    lines = [line.strip() for line in read_log(folder) if line.strip()]
    reports = [line for line in lines if ERROR_REPORT.search(line)]
    return "; ".join(reports[:3]) or (lines[-1] if lines else "its log is empty")
