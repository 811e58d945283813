"""What a guest's kernel said before it died."""

import re
from pathlib import Path

# A line of a kernel in trouble; what follows it is registers and a stack.
TROUBLE = re.compile(
    r"Kernel panic|BUG: |Oops|Unable to handle|kernel BUG|WARNING: |divide error|Kernel mode fault|"
    r"Kernel tried to access|Segfault with no mm|RIP: "
)


def last_kernel_words(folder: Path, most: int = 3) -> str:
    """The lines of a run's log that say what its kernel died of, else the last one."""
    try:
        text = (folder / "log.txt").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return "it left no log"
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    telling = [line for line in lines if TROUBLE.search(line)]
    return "; ".join(telling[:most]) or (lines[-1] if lines else "its log is empty")
