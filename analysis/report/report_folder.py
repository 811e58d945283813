# SPDX-License-Identifier: MIT
"""Write a report's folder, and recognise one that another report would only write again.

Its manifest has the digest of the state of all that the report was made from, the lines that were
printed, and each file's SHA-256. A report is not made again while its inputs and its files are
unchanged; delete its folder to have it made anyway.
"""

from __future__ import annotations

import hashlib
import json
import os
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from gostlab.atomic_write import write_whole
from gostlab.errors import PACKAGE, BadInput
from gostlab.registry.folders import (
    ANALYSIS,
    CONTROLS,
    EXPERIMENTS,
    KERNELS,
    MACHINES,
    MEASUREMENTS,
    PROFILES,
    ROOT,
    TOPOLOGY_FILE,
    own_cc_folder,
    own_kernels_folder,
    search_paths,
)
from gostlab.registry.installed_plugins import all_installed

PAGE = "report.html"
MANIFEST = ".written.json"
# A file that is written twice within a tick of the file system's clock has one time for both.
CLOCK_TICK_NS = 100_000_000


class ReportFolder:
    """The folder of a report. inputs: what digest_inputs returned before anything was read."""

    def __init__(self, folder: Path, inputs: str | None = None) -> None:
        self._folder = folder
        self._inputs = inputs
        self._written: dict[str, str] = {}  # SHA-256 of each file's content

    def write_bytes(self, name: str, content: bytes) -> Path:
        """Write a file atomically."""
        self._written[name] = hashlib.sha256(content).hexdigest()
        return write_whole(self._folder / name, content)

    def write_text(self, name: str, content: str) -> Path:
        """Write text; characters that UTF-8 cannot encode become question marks."""
        return self.write_bytes(name, content.encode("utf-8", "replace"))

    def finish(self, lines: Sequence[str]) -> None:
        """Delete what the previous report alone wrote, and write the manifest.

        lines: what was printed. Raises OSError.
        """
        for name in read_manifest(self._folder)["files"]:
            path = self._folder / name
            if name not in self._written and self._folder.resolve() in path.resolve().parents:
                path.unlink(missing_ok=True)
        manifest = {"inputs": self._inputs, "lines": list(lines), "files": self._written}
        write_whole(self._folder / MANIFEST, json.dumps(manifest, indent=1))


def lines_of_current(folder: Path, inputs: str | None) -> list[str] | None:
    """Return the lines that were printed with a folder's report if it is current; else None."""
    manifest = read_manifest(folder)
    if inputs is None or manifest["inputs"] != inputs or PAGE not in manifest["files"]:
        return None
    try:
        current = all(sha256_of(folder / name) == was for name, was in manifest["files"].items())
    except OSError:
        return None
    return list(map(str, manifest["lines"])) if current else None


def read_manifest(folder: Path) -> dict[str, Any]:
    """Return the manifest of the last report in a folder; an empty one if there is none."""
    empty: dict[str, Any] = {"inputs": None, "lines": [], "files": {}}
    try:
        manifest = json.loads((folder / MANIFEST).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return empty
    is_valid = isinstance(manifest, dict) and all(
        isinstance(manifest.get(key), type(value))
        for key, value in empty.items()
        if value is not None
    )
    return empty | manifest if is_valid else empty


def sha256_of(path: Path) -> str:
    """Return the SHA-256 of a file's content. Raises OSError."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


# -- what a report is made from


def digest_inputs(results: Path, experiments: Sequence[str]) -> str | None:
    """Return a digest of the state of everything that a report of some experiments depends on.

    Of the results, the lab's files and the installed plugins these are the path, size and times of
    every file; of other packages, their folders' times, which an installation changes. None if a
    file changed just now, so that its time would not tell another change.
    """
    begun_ns = time.time_ns()
    latest_ns = 0
    digest = hashlib.sha256(repr((str(results), *experiments, sys.version)).encode())
    try:
        for path, state in states_of_inputs(results, experiments):
            times = state.st_mtime_ns, state.st_ctime_ns
            digest.update(repr((path, state.st_size, *times)).encode("utf-8", "surrogateescape"))
            latest_ns = max(latest_ns, state.st_ctime_ns)
    except OSError:  # a file went away meanwhile
        return None
    return digest.hexdigest() if begun_ns - latest_ns > CLOCK_TICK_NS else None


def states_of_inputs(
    results: Path, experiments: Sequence[str]
) -> Iterator[tuple[str, os.stat_result]]:
    """Yield the path and state of all that a report depends on, in a fixed order."""
    for name in experiments:
        # one folder after another: a run's may be a link
        for path in sorted((results / name).glob("[!.]*")):
            yield from states_below(path)
    lab = (PACKAGE, ANALYSIS.resolve(), CONTROLS, KERNELS, MEASUREMENTS, TOPOLOGY_FILE)
    users = [path for top in (EXPERIMENTS, MACHINES, PROFILES) for path in search_paths(top)]
    for folder in (*lab, *users, own_cc_folder()):
        yield from states_below(folder)
    for plugin in all_installed():
        try:
            yield from states_below(plugin.top)
        except BadInput:  # the report says so, if it needs the plugin
            continue
    own_kernels = sorted(own_kernels_folder().glob("*/"))
    settings = [folder / "matplotlibrc" for folder in (Path(), matplotlib_folder())]
    # A checkout's own folder changes with what is written beside the lab's files, as results are.
    packages = [path for path in map(Path, sys.path) if path.resolve() != ROOT]
    for path in (*packages, *own_kernels, *settings):
        if path.exists():
            yield str(path), path.stat()


def states_below(top: Path) -> Iterator[tuple[str, os.stat_result]]:
    """Yield the path and state of a file, or of all files below a folder without byte code."""
    if not top.is_dir():
        if top.exists():
            yield str(top), top.stat()
        return
    for folder, folders, files in os.walk(top):
        folders[:] = sorted(name for name in folders if name != "__pycache__")
        for name in sorted(files):
            path = os.path.join(folder, name)
            yield path, os.lstat(path)


def matplotlib_folder() -> Path:
    """Return the folder of the user's settings of matplotlib."""
    base = os.environ.get("XDG_CONFIG_HOME") or Path.home() / ".config"
    return Path(os.environ.get("MPLCONFIGDIR") or Path(base, "matplotlib"))
