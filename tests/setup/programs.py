"""Programs that are none."""

from pathlib import Path


def program(path: Path, says: str) -> Path:
    """A program that prints a line, whatever it is asked."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!/bin/sh\necho '{says}'\n", encoding="utf-8")
    path.chmod(0o755)
    return path
