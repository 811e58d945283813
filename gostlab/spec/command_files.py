"""Identify what a command flow runs: the programs in its commands, and the files it is given.

A run's hash covers the digests, so that a changed program is another run. The digest of a program
covers the libraries that it is linked with. What a program opens besides (a script's imports, say)
is covered if it is among the flow's `files`: they are copied to a folder named by their digest,
which the commands find at $FILES, and which no later build changes.
"""

import hashlib
import os
import re
import shutil
import subprocess
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
# The folders in which a guest on the host's files looks for programs.
GUEST_PATH = "/usr/sbin:/usr/bin:/sbin:/bin"
SEPARATORS = str.maketrans(dict.fromkeys("'\"`$();|&<>={},", " "))
# A guest has its own mounts at these paths; paths below them in a command are ignored.
GUEST_MOUNTS = ("/proc", "/sys", "/dev", "/run", "/tmp", "/var/tmp")
LIBRARY = re.compile(r"^\s*(?:\S+ => )?(/\S+) \(0x", re.MULTILINE)


def words_of(commands: Sequence[str]) -> list[str]:
    """Return the words of shell commands, without quotes and operators."""
    return " ".join(commands).translate(SEPARATORS).split()


def paths_in(commands: Sequence[str]) -> list[Path]:
    """Return the host's files and folders that commands name by absolute path, links resolved."""
    paths = {Path(os.path.realpath(word)) for word in words_of(commands) if word[0] == "/"}
    return sorted(
        path
        for path in paths
        if path.exists() and path != Path("/") and not any(map(path.is_relative_to, GUEST_MOUNTS))
    )


def program_digests(commands: Sequence[str]) -> dict[str, str]:
    """Return the digest of every program and path that commands name, by its word."""
    named = {str(path): path for path in paths_in(commands)}
    for word in words_of(commands):
        if "/" not in word and (found := shutil.which(word, path=GUEST_PATH)):
            named[word] = Path(found)
    return {word: content_digest(path) for word, path in sorted(named.items())}


def content_digest(path: Path) -> str:
    """Return the digest of a file and the libraries it is linked with, or of a folder's files."""
    if path.is_dir():
        files = dict(files_below(path))
        identify = file_digest if len(files) <= MAX_FILES else time_and_size
        return digest_of({name: identify(file) for name, file in files.items()})
    libraries = {str(library): file_digest(library) for library in linked_libraries(path)}
    return digest_of({"": file_digest(path), **libraries})


def digest_of(digests: Mapping[str, str]) -> str:
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


def time_and_size(path: Path) -> str:
    """Return what a change of a file changes, too: a large folder, as /usr/lib, is not read."""
    stat = path.stat()
    return f"{stat.st_mtime_ns} {stat.st_size}"


def linked_libraries(path: Path) -> list[Path]:
    """Return the shared libraries that the host's loader finds for a program; it is not run."""
    try:
        stat = path.stat()
        with path.open("rb") as file:
            if file.read(4) != b"\x7fELF":
                return []
    except OSError:
        return []
    return _linked_libraries(path, stat.st_mtime_ns, stat.st_size)


@cache
def _linked_libraries(path: Path, _mtime_ns: int, _size: int) -> list[Path]:
    loader = next(iter(sorted(Path("/lib64").glob("ld-linux-*.so.*"))), None) or next(
        iter(sorted(Path("/lib").glob("ld-linux-*.so.*"))), None
    )
    if loader is None:
        return []
    done = subprocess.run(
        [loader, "--list", path], capture_output=True, text=True, errors="replace", check=False
    )
    return [Path(found) for found in LIBRARY.findall(done.stdout)]


def files_below(folder: Path) -> Iterator[tuple[str, Path]]:
    """Yield the files below a folder with their relative paths, without hidden and cached ones."""
    for parent, folders, names in os.walk(folder):
        folders[:] = sorted(name for name in folders if name[0] != "." and name != "__pycache__")
        for name in sorted(name for name in names if name[0] != "."):
            path = Path(parent, name)
            if path.is_file():
                yield str(path.relative_to(folder)), path


def cached_folder(files: Mapping[str, str]) -> Path:
    """Return the folder that the commands of a flow with these files find at $FILES."""
    return cache_folder() / "files" / digest_of(files)


def provide_files(paths: Sequence[Path]) -> dict[str, str]:
    """Copy files and folders to the cache, and return the digest of each file by its name there.

    Raises BadInput.
    """
    sources: dict[str, Path] = {}
    for path in paths:
        found = {path.name: path} if path.is_file() else {}
        if path.is_dir():
            found = {f"{path.name}/{name}": file for name, file in files_below(path)}
        if not found:
            raise BadInput(f"{path}: no such file, or an empty folder")
        if twice := next(iter(found.keys() & sources.keys()), None):
            raise BadInput(f"{path}: a second {twice}: $FILES has one of a name")
        sources |= found
    total = sum(path.stat().st_size for path in sources.values())
    if len(sources) > MAX_FILES or total > MAX_BYTES:
        raise BadInput(
            f"{len(sources)} files of {total >> 20} MiB: {MAX_FILES} files of {MAX_BYTES >> 20}"
            " MiB at most: name those that the commands need"
        )
    contents = {name: path.read_bytes() for name, path in sources.items()}
    digests = {
        name: hashlib.sha256(content).hexdigest()[:DIGITS] for name, content in contents.items()
    }
    modes = {name: 0o755 if os.access(path, os.X_OK) else 0o644 for name, path in sources.items()}
    digests = {name: digest + "x" * (modes[name] == 0o755) for name, digest in digests.items()}
    folder = cached_folder(digests)
    if not folder.is_dir():
        part = folder.with_name(f".{folder.name}.{os.getpid()}")
        shutil.rmtree(part, ignore_errors=True)
        for name, content in contents.items():
            (part / name).parent.mkdir(parents=True, exist_ok=True)
            (part / name).write_bytes(content)
            (part / name).chmod(modes[name])
        with suppress(OSError):  # another process was first
            part.rename(folder)
        shutil.rmtree(part, ignore_errors=True)
        remove_unused(folder.parent)
    os.utime(folder)
    return digests


def remove_unused(folder: Path) -> None:
    """Remove the cached files that no run was compiled with for UNUSED_AFTER_S."""
    for other in folder.iterdir():
        with suppress(OSError):
            if time.time() - other.stat().st_mtime > UNUSED_AFTER_S:
                shutil.rmtree(other, ignore_errors=True)


def changed_programs(
    commands: Sequence[str], programs: Mapping[str, str], files: Mapping[str, str]
) -> str:
    """Return what of a flow's programs and files is not here as it was compiled, or ""."""
    found = program_digests(commands)
    for word in sorted({*found, *programs}):
        if found.get(word) != programs.get(word):
            return f"{word} is not what it was when the run was asked for"
    if files and not cached_folder(files).is_dir():
        return f"its files ({', '.join(list(files)[:3])}) are not on this machine"
    return ""
