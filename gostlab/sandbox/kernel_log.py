"""What a guest's kernel said before it died."""

import re
from pathlib import Path

from gostlab import safe_read

LOG_BYTES = 1 << 20  # of a log's end

# A line of a kernel in trouble; what follows it is registers and a stack.
TROUBLE = re.compile(
    r"Kernel panic|BUG: |Oops|Unable to handle|kernel BUG|WARNING: |divide error|Kernel mode fault|"
    r"Kernel tried to access|Segfault with no mm|RIP: "
)


def read_log(folder: Path) -> list[str]:
    """Return the last lines of a run's log; none where it left none."""
    try:
        tail, _ = safe_read.read_tail(folder / "log.txt", LOG_BYTES)
    except OSError:
        return []
    return tail.decode("utf-8", "replace").splitlines()


def last_kernel_words(folder: Path, most: int = 3) -> str:
    """The lines of a run's log that say what its kernel died of, else the last one."""
    if not (folder / "log.txt").exists():
        return "it left no log"
    lines = [line.strip() for line in read_log(folder) if line.strip()]
    telling = [line for line in lines if TROUBLE.search(line)]
    return "; ".join(telling[:most]) or (lines[-1] if lines else "its log is empty")
