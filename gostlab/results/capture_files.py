# SPDX-License-Identifier: MIT
"""List the captures of a run's folder, as its env.json describes them."""

from collections.abc import Mapping
from pathlib import Path

from gostlab.results import BROKEN_RECORDS, read_object
from gostlab.spec.run_spec import RunSpec


def captured_files(folder: Path) -> dict[str, Mapping[str, object]]:
    """Return the entry of each capture that exists, by its file's name."""
    try:
        files = dict((read_object(folder / "env.json") or {})["capture"]["files"])
        return {
            name: entry
            for name, entry in sorted(files.items())
            if "/" not in name and (folder / name).is_file() and entry["link"]
        }
    except BROKEN_RECORDS:
        return {}


def main_file(folder: Path, run: RunSpec) -> Path | None:
    """Return the capture nearest to the first flow's sender, or None without one.

    That is the file of the first link in whose direction the data go; it has the connections across
    the path if legs were captured.
    """
    files = captured_files(folder)
    fitting = [
        name for name, entry in files.items() if entry["direction"] == run.data_direction
    ] or list(files)
    crossing = [name for name in fitting if files[name]["link"] in ("wan", "inner")]
    name = next(iter(crossing or fitting), None)
    return None if name is None else folder / name
