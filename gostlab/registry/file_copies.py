# SPDX-License-Identifier: MIT
"""Copy files of the user's to the cache, to folders that are named by their content's digest.

What a run was asked for is then still there when a file was changed meanwhile, and at a path that
does not depend on where the user has it.
"""

import hashlib
import os
import shutil
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from functools import cache
from pathlib import Path

from gostlab.errors import BadInput
from gostlab.registry.folders import cache_folder

DIGITS = 16  # The hexadecimal digits of a digest.
MAX_FILES, MAX_BYTES = 1000, 256 * 2**20
UNUSED_AFTER_S = 30 * 86400.0


def digest_of_files(digests: Mapping[str, str]) -> str:
    listed = "".join(f"{name}\0{digest}\0" for name, digest in sorted(digests.items()))
    return hashlib.sha256(listed.encode("utf-8", "surrogateescape")).hexdigest()[:DIGITS]


def file_digest(path: Path) -> str:
    """Return the digest of a file; one that cannot be read here, no guest can read either."""
    try:
        stat = path.stat()
        return _file_digest(path, stat.st_ino, stat.st_mtime_ns, stat.st_ctime_ns, stat.st_size)
    except OSError:
        return "unreadable"


@cache
def _file_digest(path: Path, *_state: int) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()[:DIGITS]


def files_below(folder: Path) -> Iterator[tuple[str, Path]]:
    """Yield the files below a folder with their relative paths, without hidden and cached ones."""
    for parent, folders, names in os.walk(folder):
        folders[:] = sorted(name for name in folders if name[0] != "." and name != "__pycache__")
        for name in sorted(name for name in names if name[0] != "."):
            path = Path(parent, name)
            if path.is_file():
                yield str(path.relative_to(folder)), path


def copy_of(digest: str) -> Path:
    """Return the folder with the files of a digest."""
    return cache_folder() / "files" / digest


def files_by_name(paths: Sequence[Path]) -> dict[str, Path]:
    """Return files, and those below folders, by their names in a copy. Raises BadInput."""
    sources: dict[str, Path] = {}
    for path in paths:
        files = {path.name: path} if path.is_file() else {}
        if path.is_dir():
            files = {f"{path.name}/{name}": file for name, file in files_below(path)}
        if not files:
            raise BadInput(f"{path}: no such file, or an empty folder")
        if twice := next(iter(files.keys() & sources.keys()), None):
            raise BadInput(f"{path}: a second {twice}: there is one of a name")
        sources |= files
    total = sum(path.stat().st_size for path in sources.values())
    if len(sources) > MAX_FILES or total > MAX_BYTES:
        raise BadInput(
            f"{len(sources)} files of {total >> 20} MiB: {MAX_FILES} files of {MAX_BYTES >> 20}"
            " MiB at most: name those that are needed"
        )
    return sources


def provide_copy(paths: Sequence[Path]) -> dict[str, str]:
    """Copy files and folders, and return the digest of each file by its name in the copy.

    The copy is at `copy_of(digest_of(digests))`. Raises BadInput or OSError.
    """
    sources = files_by_name(paths)
    contents = {name: path.read_bytes() for name, path in sources.items()}
    programs = {name for name, path in sources.items() if os.access(path, os.X_OK)}
    digests = {
        name: hashlib.sha256(content).hexdigest()[:DIGITS] + "x" * (name in programs)
        for name, content in contents.items()
    }
    folder = copy_of(digest_of_files(digests))
    if not folder.is_dir():
        part = folder.with_name(f".{folder.name}.{os.getpid()}")
        shutil.rmtree(part, ignore_errors=True)
        for name, content in contents.items():
            (part / name).parent.mkdir(parents=True, exist_ok=True)
            (part / name).write_bytes(content)
            (part / name).chmod(0o755 if name in programs else 0o644)
        with suppress(OSError):  # another process was first
            part.rename(folder)
        shutil.rmtree(part, ignore_errors=True)
        remove_unused(folder.parent)
    os.utime(folder)
    return digests


def remove_unused(folder: Path) -> None:
    """Remove the copies that no run was compiled with for UNUSED_AFTER_S."""
    for other in folder.iterdir():
        with suppress(OSError):
            if time.time() - other.stat().st_mtime > UNUSED_AFTER_S:
                shutil.rmtree(other, ignore_errors=True)
