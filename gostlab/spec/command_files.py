# SPDX-License-Identifier: MIT
"""Identify what a command flow runs: the programs in its commands, and the files it is given.

A run's hash covers the digests, so that a changed program is another run. The digest of a program
covers the libraries that it is linked with. What a program opens besides (a script's imports, say)
is covered if it is among the flow's `files`, which are copied (registry.file_copies): the commands
find them at $FILES, and no later build changes them.
"""

import os
import re
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path

from gostlab.registry.file_copies import (
    MAX_FILES,
    copy_of,
    digest_of_files,
    file_digest,
    files_below,
)

# The folders in which a guest on the host's files looks for programs.
GUEST_PATH = "/usr/sbin:/usr/bin:/sbin:/bin"
SEPARATORS = str.maketrans(dict.fromkeys("'\"`$();|&<>={},", " "))
# A guest has its own mounts at these paths; paths below them in a command are ignored.
GUEST_MOUNTS = ("/proc", "/sys", "/dev", "/run", "/tmp", "/var/tmp")
LIBRARY = re.compile(r"^\s*(?:\S+ => )?(/\S+) \(0x", re.MULTILINE)


def split_commands(commands: Sequence[str]) -> list[str]:
    """Return the words of shell commands, without quotes and operators."""
    return " ".join(commands).translate(SEPARATORS).split()


def paths_in(commands: Sequence[str]) -> list[Path]:
    """Return the host's files and folders that commands name by absolute path, links resolved."""
    paths = {Path(os.path.realpath(word)) for word in split_commands(commands) if word[0] == "/"}
    return sorted(
        path
        for path in paths
        if path.exists() and path != Path("/") and not any(map(path.is_relative_to, GUEST_MOUNTS))
    )


def program_digests(commands: Sequence[str]) -> dict[str, str]:
    """Return the digest of every program and path that commands name, by its word."""
    named = {str(path): path for path in paths_in(commands)}
    for word in split_commands(commands):
        if "/" not in word and (program := shutil.which(word, path=GUEST_PATH)):
            named[word] = Path(program)
    return {word: content_digest(path) for word, path in sorted(named.items())}


def content_digest(path: Path) -> str:
    """Return the digest of a file and the libraries it is linked with, or of a folder's files."""
    if path.is_dir():
        files = dict(files_below(path))
        identify = file_digest if len(files) <= MAX_FILES else time_and_size
        return digest_of_files({name: identify(file) for name, file in files.items()})
    libraries = {str(library): file_digest(library) for library in linked_libraries(path)}
    return digest_of_files({"": file_digest(path), **libraries})


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
    loaders = [*Path("/lib64").glob("ld-linux-*.so.*"), *Path("/lib").glob("ld-linux-*.so.*")]
    if not loaders:
        return []
    argv = [str(loaders[0]), "--list", str(path)]
    done = subprocess.run(argv, capture_output=True, text=True, errors="replace", check=False)
    return [Path(library) for library in LIBRARY.findall(done.stdout)]


def changed_programs(
    commands: Sequence[str], programs: Mapping[str, str], files: Mapping[str, str]
) -> str:
    """Return what of a flow's programs and files is not here as it was compiled, or ""."""
    digests = program_digests(commands)
    for word in sorted({*digests, *programs}):
        if digests.get(word) != programs.get(word):
            return f"{word} is not what it was when the run was asked for"
    if files and not copy_of(digest_of_files(files)).is_dir():
        return f"its files ({', '.join(list(files)[:3])}) are not on this machine"
    return ""
