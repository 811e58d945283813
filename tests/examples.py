# SPDX-License-Identifier: MIT
"""The examples of docs/how-to/experiment.md as files: what a reader copies is what is tested."""

import re
from pathlib import Path

PAGE = Path(__file__).resolve().parents[1] / "docs/how-to/experiment.md"
BLOCK = re.compile(r"```(?:yaml|python)\n# (\S+)\n(.*?)```", re.DOTALL)


def examples() -> dict[str, str]:
    """Every block of the page that is a file, by its name."""
    return dict(BLOCK.findall(PAGE.read_text(encoding="utf-8")))


def experiments() -> list[str]:
    """The names of those that are experiments."""
    return [name for name, text in examples().items() if "\nmatrices:" in text]


def write_examples(folder: Path) -> None:
    """Put them all into a folder, as a reader would."""
    for name, text in examples().items():
        (folder / name).write_text(text, encoding="utf-8")
