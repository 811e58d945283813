# SPDX-License-Identifier: MIT
"""Find runs that duplicate another one: identical samples add no information about their cell."""

import hashlib
import re
from collections.abc import Iterable
from contextlib import suppress
from functools import lru_cache
from pathlib import Path

from gostlab import safe_read

SERIES = ("queues", "sockets", "pings", "fetches", "segments")
# A run's seed determines its ports; no sampled value depends on them.
PORTS = re.compile(rb'"(?:local|peer)": "[^"]*"')


def copies(runs: Iterable[tuple[Path, float | None]]) -> frozenset[Path]:
    """Return the folders of a cell's runs whose goodput and samples equal those of an earlier run.

    runs: the folder and goodput of every run. Samples are read only where goodputs are equal.
    """
    by_goodput: dict[float | None, list[Path]] = {}
    for folder, goodput in runs:
        by_goodput.setdefault(goodput, []).append(folder)
    copied = set()
    for folders in by_goodput.values():
        seen = set()
        for folder in folders if len(folders) > 1 else ():
            digest = samples_digest(folder)
            if digest in seen:
                copied.add(folder)
            elif digest is not None:
                seen.add(digest)
    return frozenset(copied)


def samples_digest(folder: Path) -> int | None:
    """Return a digest of all samples of a run except its ports, or None without samples."""
    files = []
    for name in SERIES:
        with suppress(OSError):
            state = (folder / f"{name}.jsonl").stat()
            files.append((folder / f"{name}.jsonl", state.st_mtime_ns, state.st_size))
    try:
        return digest_of(tuple(files)) if any(size for *_, size in files) else None
    except OSError:
        return None


@lru_cache(maxsize=10_000)
def digest_of(files: tuple[tuple[Path, int, int], ...]) -> int:
    """Return the digest of files, cached by path, time and size. Raises OSError."""
    total = 0
    for path, _, _ in files:
        # Adding digests ignores the order of lines: sockets of one instant are sorted by port.
        for line in safe_read.read_lines(path):
            digest = hashlib.sha256(path.name.encode("ascii") + PORTS.sub(b"", line)).digest()
            total += int.from_bytes(digest, "big")
    return total
