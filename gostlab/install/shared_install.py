# SPDX-License-Identifier: MIT
"""Check and seal the parts that root built for all users of the machine (`./lab setup --system`).

They are programs, and a kernel, that every user runs. So no part is trusted that anybody but root
could have written: each component of the path, and every file below, must be root's and writable by
nobody else.
"""

import os
import stat
from collections.abc import Iterator
from pathlib import Path

DEFAULT = Path("/usr/local/lib/gostlab")
PARTS = ("kernel", "iproute2", "relay", "gost", "iperf3", "programs", "root", "python")
WRITABLE_BY_OTHERS = stat.S_IWGRP | stat.S_IWOTH


def system_folder() -> Path | None:
    """Return $GOSTLAB_SYSTEM, else DEFAULT; None if the variable is empty."""
    variable = os.environ.get("GOSTLAB_SYSTEM")
    if variable is None:
        return DEFAULT
    return Path(variable).absolute() if variable else None


def trusted_folder(part: str) -> Path | None:
    """Return the machine's folder of a part (`kernel`), None if missing or not trusted."""
    system = system_folder()
    if system is None or not (system / part).is_dir() or why_not_trusted(system / part):
        return None
    return system / part


def why_not_trusted(folder: Path) -> str | None:
    """Return why the content of a folder may not be run, None if it may.

    The whole path of a symbolic link's target must be trusted, too. A sticky folder that all may
    write (/tmp) protects root's entries.
    """
    try:
        real = Path(os.path.realpath(folder, strict=True))
        components = [*path_components(folder), *path_components(real)]
        complaints = (
            complaint_of(path, is_above=path not in (folder, real)) for path in components
        )
        return next(
            (complaint for complaint in (*complaints, *complaints_below(real)) if complaint), None
        )
    except OSError as error:
        return f"{error.filename or folder}: {error.strerror}"


def path_components(path: Path) -> list[Path]:
    """Return a path and its parents as far as they exist, from the root on."""
    return [
        component for component in reversed([path, *path.parents]) if os.path.lexists(component)
    ]


def complaints_below(folder: Path) -> Iterator[str | None]:
    """Yield the complaints on everything in a folder. Raises OSError."""
    for at, folders, files in os.walk(folder, onerror=raise_error):
        for name in (*folders, *files):
            path = Path(at, name)
            yield complaint_of(path)
            if path.is_symlink() and not path.resolve().is_relative_to(folder):
                # Debian's packages have such links: usr/sbin/ip is /bin/ip.
                for target in path_components(path.resolve()):
                    yield complaint_of(target, is_above=target != path.resolve())


def complaint_of(path: Path, *, is_above: bool = False) -> str | None:
    """Return why one file or folder is not to be trusted. Raises OSError."""
    status = path.lstat()
    if status.st_uid != 0:
        return f"{path} is not root's"
    if stat.S_ISLNK(status.st_mode):
        return None  # a link's own mode is irrelevant; its target is checked
    shielded = is_above and bool(status.st_mode & stat.S_ISVTX)
    if status.st_mode & WRITABLE_BY_OTHERS and not shielded:
        return f"{path} can be written by others than root"
    return None


def raise_error(error: OSError) -> None:
    """Raise an error of os.walk, which would ignore unreadable folders."""
    raise error


def seal_folder(system: Path) -> None:
    """Make the parts readable by all and writable by nobody, root included. Raises OSError."""
    system.chmod(0o755)
    for part in PARTS:
        for at, _, files in os.walk(system / part, topdown=False):
            for name in files:
                path = Path(at, name)
                if not path.is_symlink():
                    mode = path.stat().st_mode
                    path.chmod(0o555 if mode & stat.S_IXUSR else 0o444)
            # Root may still write the folders: a later set-up adds a version beside the others.
            Path(at).chmod(0o755)
