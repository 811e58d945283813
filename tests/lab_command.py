"""`./lab` as a process of its own."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]


def run_lab(*words: object, timeout: float = 60, **more: Any) -> subprocess.CompletedProcess[str]:
    """What a command came to; more: what subprocess.run takes."""
    command = [sys.executable, "-m", "gostlab", *map(str, words)]
    return subprocess.run(
        command, cwd=ROOT, capture_output=True, text=True, check=False, timeout=timeout, **more
    )
