"""Find runs that are copies of another one: the same samples say nothing new of their cell."""

import hashlib
import re
from collections.abc import Iterable
from contextlib import suppress
from functools import lru_cache
from pathlib import Path

from gostlab import safe_read

SERIES = ("queues", "sockets", "pings", "fetches")
# A run's seed draws its ports, and they decide nothing that is sampled.
PORTS = re.compile(rb'"(?:local|peer)": "[^"]*"')


def copies(runs: Iterable[tuple[Path, float | None]]) -> frozenset[Path]:
    """Return the folders of a cell's runs whose goodput and samples an earlier run has.

    runs: each one's folder and goodput. Samples are read only where goodputs are equal.
    """
    by_goodput: dict[float | None, list[Path]] = {}
    for folder, goodput in runs:
        by_goodput.setdefault(goodput, []).append(folder)
    found = set()
    for folders in by_goodput.values():
        seen = set()
        for folder in folders if len(folders) > 1 else ():
            digest = samples_digest(folder)
            if digest in seen:
                found.add(folder)
            elif digest is not None:
                seen.add(digest)
    return frozenset(found)


def samples_digest(folder: Path) -> int | None:
    """Return a digest of all that was sampled of a run but its ports; None of no samples."""
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
    """Return the digest of files by path, time and size: each is read once. Raises OSError."""
    found = 0
    for path, _, _ in files:
        # A sum: the sockets of one instant are listed by their ports.
        for line in safe_read.read_lines(path):
            digest = hashlib.sha256(path.name.encode("ascii") + PORTS.sub(b"", line)).digest()
            found += int.from_bytes(digest, "big")
    return found
