"""The parts that a machine's root built for all of its users (`./lab setup --system`).

They are programs, and a kernel, that every user runs. So nothing of them is believed that anybody
but root could have put there: each component of the path, and every file below, must be root's and
writable by nobody else.
"""

import os
import stat
from collections.abc import Iterator
from pathlib import Path

DEFAULT = Path("/usr/local/lib/gostlab")
PARTS = ("kernel", "iproute2", "relay", "gost", "iperf3", "programs", "root")
WRITABLE_BY_OTHERS = stat.S_IWGRP | stat.S_IWOTH


def system_folder() -> Path | None:
    """Where the machine's parts are: $GOSTLAB_SYSTEM, else DEFAULT; None: it is set to nothing."""
    named = os.environ.get("GOSTLAB_SYSTEM")
    if named is None:
        return DEFAULT
    return Path(named).absolute() if named else None


def trusted_folder(part: str) -> Path | None:
    """The machine's folder of a part (`kernel`); None: there is none, or not to be trusted."""
    system = system_folder()
    if system is None or not (system / part).is_dir() or why_not_trusted(system / part):
        return None
    return system / part


def why_not_trusted(folder: Path) -> str | None:
    """Why what is in a folder may not be run; None if it may. A link must lead to what is trusted,
    too, all the way. A sticky folder that all may write (/tmp) keeps root's entries.
    """
    try:
        real = Path(os.path.realpath(folder, strict=True))
        above = [*way_to(folder), *way_to(real)]
        found = (complaint_of(path, is_above=path not in (folder, real)) for path in above)
        return next((each for each in (*found, *complaints_below(real)) if each), None)
    except OSError as error:
        return f"{error.filename or folder}: {error.strerror}"


def way_to(path: Path) -> list[Path]:
    """A path and all above it, as far as they are there, from the root on."""
    return [each for each in reversed([path, *path.parents]) if os.path.lexists(each)]


def complaints_below(folder: Path) -> Iterator[str | None]:
    """What is wrong with everything in a folder. Raises OSError."""
    for at, folders, files in os.walk(folder, onerror=raise_it):
        for name in (*folders, *files):
            path = Path(at, name)
            yield complaint_of(path)
            if path.is_symlink() and not path.resolve().is_relative_to(folder):
                # Debian's packages have such: usr/sbin/ip is /bin/ip
                for target in way_to(path.resolve()):
                    yield complaint_of(target, is_above=target != path.resolve())


def complaint_of(path: Path, *, is_above: bool = False) -> str | None:
    """Why one file or folder is not to be trusted. Raises OSError."""
    found = path.lstat()
    if found.st_uid != 0:
        return f"{path} is not root's"
    if stat.S_ISLNK(found.st_mode):
        return None  # its own mode says nothing; where it leads is looked at
    shielded = is_above and bool(found.st_mode & stat.S_ISVTX)
    if found.st_mode & WRITABLE_BY_OTHERS and not shielded:
        return f"{path} can be written by others than root"
    return None


def raise_it(error: OSError) -> None:
    """For os.walk, which passes over what it cannot read."""
    raise error


def seal(system: Path) -> None:
    """Make the parts readable by all and writable by nobody, root included. Raises OSError."""
    system.chmod(0o755)
    for part in PARTS:
        for at, _, files in os.walk(system / part, topdown=False):
            for name in files:
                path = Path(at, name)
                if not path.is_symlink():
                    mode = path.stat().st_mode
                    path.chmod(0o555 if mode & stat.S_IXUSR else 0o444)
            # (its folders stay root's to write: a later set-up adds a version beside the others)
            Path(at).chmod(0o755)
