# SPDX-License-Identifier: MIT
"""No line of code, of a page or of a file that people write is wider than 100 columns."""

import re
import subprocess
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
MAX = 100
DATA = set(".csv .diff .gz .input .json .jsonl .lock .patch .png .svg .txt .xz".split())
# Of measurements a fit's name is the hash: a line more is another fit.
OTHERS = ("measurements/", "analysis/vendor/", "schemas/", "docs/notebooks/")
# What tests compare, and scripts that they run, may be wide; what they say may not.
SAID_BY_TESTS = re.compile(r'\s*(?:# |""")')
# A row of a table, a mark, and what cannot be broken: an address, a path, a link, a string.
UNBROKEN = re.compile(r"\|.*\||^<!--|^\s*\S+$|^\s*\"[^\"]*\",?$|https?://\S{40}|\]\(\S+\)\S*$")


def too_wide(name: str) -> list[str]:
    path = ROOT / name
    if path.suffix in DATA or name.startswith(OTHERS) or not path.is_file():
        return []
    lines = path.read_text("utf-8", errors="replace").splitlines()
    return [
        f"{name}:{number}"
        for number, line in enumerate(lines, 1)
        if len(line) > MAX and not UNBROKEN.search(line)
        if not name.startswith("tests/") or SAID_BY_TESTS.match(line)
    ]


def test_no_line_is_too_wide() -> None:
    git = ["git", "-c", f"safe.directory={ROOT}", "-C", str(ROOT), "ls-files"]
    names = subprocess.run(git, capture_output=True, text=True, check=True).stdout.splitlines()
    assert len(names) > 500
    assert [place for name in names for place in too_wide(name)] == []
