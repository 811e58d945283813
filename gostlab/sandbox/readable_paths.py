"""What root's sandbox may read where its guest has the host's files: what a run needs, and no file
that an ordinary user could not read.

Landlock has no exceptions below a folder that it allows: a folder with a secret in it is allowed
entry by entry, without its own list of names.
"""

import os
import stat
from collections.abc import Iterable, Iterator, Sequence
from functools import cache
from pathlib import Path

from gostlab.spec.run_spec import RunSpec

# Of packages, so of everybody. /usr has too many files to ask each.
SYSTEM = tuple(Path(each) for each in ("/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32"))
USR, LOCAL = Path("/usr"), Path("/usr/local")
MIXED = (Path("/etc"), Path("/opt"), LOCAL)
# A guest has its own of these (and of what lies there no path is named by a command).
GUESTS_OWN = ("/proc", "/sys", "/dev", "/run", "/tmp", "/var/tmp")
SEPARATORS = str.maketrans(dict.fromkeys("'\"`$();|&<>={},", " "))


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
    """Return the fewest paths that have all files below one that others may read, and no more."""
    return list(_walk(path, []))


def _walk(path: Path, secret: list[Path]) -> Iterator[Path]:
    """Yield the public paths; `secret` gets what others may not read."""
    try:
        mode = path.lstat().st_mode
        if stat.S_ISLNK(mode):
            return  # its target counts, where that lies
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
    found = [each for entry in entries for each in _walk(entry, secret)]
    yield from ([path] if len(secret) == before else found)


def named_by_commands(run: RunSpec) -> list[Path]:
    """Return the paths in the words of a run's own programs that an ordinary user may read, and
    the programs among them that others may execute, wherever they lie.
    """
    own = [flow for flow in run.flows if flow.traffic.of_the_host]
    text = " ".join(f"{flow.server} {flow.client}" for flow in own).translate(SEPARATORS)
    found: list[Path] = []
    for path in {Path(os.path.realpath(word)) for word in text.split() if word[0] == "/"}:
        if not path.exists() or path == Path("/") or any(map(path.is_relative_to, GUESTS_OWN)):
            continue
        if is_reachable(path) or is_program(path):
            found += public_paths(path)
    return found


def is_reachable(path: Path) -> bool:
    """Return whether others may enter every folder above a path."""
    return all(folder.stat().st_mode & stat.S_IXOTH for folder in path.parents)


def is_program(path: Path) -> bool:
    """Return whether a path is a file that others may execute."""
    mode = path.stat().st_mode
    return stat.S_ISREG(mode) and bool(mode & stat.S_IXOTH)
