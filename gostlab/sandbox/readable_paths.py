# SPDX-License-Identifier: MIT
"""List what root's sandbox may read if its guest has the host's files.

These are the files that a run needs, and none that an ordinary user could not read. Landlock has no
exceptions below a folder that it allows, so a folder with a secret in it is allowed entry by entry,
without its directory listing.
"""

import stat
from collections.abc import Iterable, Iterator, Sequence
from functools import cache
from pathlib import Path

from gostlab.registry.file_copies import copy_of, digest_of_files
from gostlab.spec.command_files import paths_in
from gostlab.spec.run_spec import RunSpec

# Folders with files of packages, which everybody may read. /usr has too many files to check each.
SYSTEM = tuple(Path(path) for path in ("/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32"))
USR, LOCAL = Path("/usr"), Path("/usr/local")
MIXED = (Path("/etc"), Path("/opt"), LOCAL)


def readable_as_root(needed: Iterable[Path]) -> list[Path]:
    """Return the paths that a guest on the host's files may read when root started it.

    needed  files and folders of the lab and of the run, whatever their modes
    """
    return [*system_paths(), *(path.resolve() for path in needed)]


@cache
def system_paths() -> Sequence[Path]:
    """Return the paths of programs, libraries and settings that every user may read."""
    usr = [path for path in USR.iterdir() if path != LOCAL] if USR.is_dir() else []
    mixed = (path for folder in MIXED for path in public_paths(folder))
    return (*(path.resolve() for path in SYSTEM if path.is_dir()), *usr, *mixed)


def public_paths(path: Path) -> list[Path]:
    """Return the shortest list of paths that has all files below a path readable by others."""
    return list(_walk(path, []))


def _walk(path: Path, secret: list[Path]) -> Iterator[Path]:
    """Yield the public paths, and append those that others may not read to `secret`."""
    try:
        mode = path.lstat().st_mode
        if stat.S_ISLNK(mode):
            return  # the target is checked at its own path
        if stat.S_ISREG(mode) and mode & stat.S_IROTH:
            yield path
            return
        if not stat.S_ISDIR(mode) or not (mode & stat.S_IROTH and mode & stat.S_IXOTH):
            secret.append(path)
            return
        entries = sorted(path.iterdir())
    except OSError:
        secret.append(path)
        return
    before = len(secret)
    public = [child for entry in entries for child in _walk(entry, secret)]
    yield from ([path] if len(secret) == before else public)


def paths_in_commands(run: RunSpec) -> list[Path]:
    """Return a run's own files, and the paths in its commands that an ordinary user may read.

    Programs among them that others may execute count, wherever they lie.
    """
    host_flows = [flow for flow in run.flows if flow.traffic.of_the_host]
    readable = [copy_of(digest_of_files(flow.files)).resolve() for flow in host_flows if flow.files]
    for path in paths_in([text for flow in host_flows for text in (flow.server, flow.client)]):
        if is_reachable(path) or is_program(path):
            readable += public_paths(path)
    return readable


def is_reachable(path: Path) -> bool:
    """Return whether others may enter every folder above a path."""
    return all(folder.stat().st_mode & stat.S_IXOTH for folder in path.parents)


def is_program(path: Path) -> bool:
    """Return whether a path is a file that others may execute."""
    mode = path.stat().st_mode
    return stat.S_ISREG(mode) and bool(mode & stat.S_IXOTH)
