"""What a student uploads, a folder, a zip or a tar, as a folder that is safe to read.

Nothing is followed and nothing is believed: links, devices, paths that lead out, names twice, more
files or bytes than any lab has, are refused. Bytes are counted as they come, whatever a header
says.
"""

import os
import shutil
import stat
import tarfile
import tempfile
import unicodedata
import zipfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path, PurePosixPath
from typing import IO, Any

from gostlab.classroom.answers import SEALED
from gostlab.classroom.lab import ANSWERS
from gostlab.spec.yaml_source import BadInput

MAX_FILES = 4000
MAX_BYTES = 256 * 2**20
MAX_FILE_BYTES = 32 * 2**20
MAX_ARCHIVE_BYTES = 128 * 2**20
MAX_DEPTH = 8
CHUNK_BYTES = 2**16
# What systems put into archives by themselves.
NOT_HANDED_IN = ("__MACOSX", ".DS_Store", "Thumbs.db", ".git", "__pycache__")
NO_FILE = "a link or a device, not a file"


class NoHandIn(BadInput):
    """Something else than a hand-in: no folder, zip or tar with answers in it."""


@contextmanager
def opened(upload: Path) -> Iterator[Path]:
    """The folder of a hand-in. Raises BadInput."""
    if upload.is_symlink():
        raise NoHandIn(f"{upload}: a link: name the folder or the archive itself")
    if upload.is_dir():
        check_folder(upload)
        yield hand_in_of(upload, upload)
        return
    if not upload.is_file():
        raise NoHandIn(f"{upload}: no such folder, zip or tar")
    if upload.stat().st_size > MAX_ARCHIVE_BYTES:
        raise BadInput(f"{upload}: larger than any hand-in ({MAX_ARCHIVE_BYTES >> 20} MiB)")
    with tempfile.TemporaryDirectory(prefix="gostlab-hand-in-") as scratch:
        unpack(upload, Path(scratch))
        yield hand_in_of(Path(scratch), upload)


@contextmanager
def only_bad_input(place: object) -> Iterator[None]:
    """Turn whatever a stranger's file makes Python raise into BadInput: no list of exceptions is
    complete (an entry without a name is an IndexError in `zipfile`, a password a RuntimeError).
    """
    try:
        yield
    except BadInput:
        raise
    except Exception as error:
        why = getattr(error, "strerror", None) or str(error) or type(error).__name__
        said = f"{place}: cannot be read: {why}"
        raise BadInput(encodable(said)[:300]) from error


def encodable(text: str) -> str:
    """A text that UTF-8 can encode: a name of other bytes has them as \\udcff."""
    return text.encode("utf-8", "backslashreplace").decode("utf-8")


def check_folder(folder: Path) -> None:
    """Only files and folders, not too many, not too large. Raises BadInput."""
    files = total = 0
    for place, folders, names in os.walk(folder, followlinks=False):
        folders[:] = [name for name in folders if name not in NOT_HANDED_IN]
        depth = len(Path(place).relative_to(folder).parts)
        if depth > MAX_DEPTH:
            raise BadInput(f"{folder}: folders more than {MAX_DEPTH} deep")
        for name in (*folders, *names):
            path = Path(place, name)
            status = path.lstat()
            shown = path.relative_to(folder)
            if not (stat.S_ISREG(status.st_mode) or stat.S_ISDIR(status.st_mode)):
                raise BadInput(f"{shown!s:.200}: {NO_FILE}")
            if stat.S_ISREG(status.st_mode):
                files, total = files + 1, total + status.st_size
                check_sizes(str(shown), files, status.st_size, total)


def check_sizes(name: str, files: int, size: int, total: int, most_size: int = 0) -> None:
    """Raises BadInput where there is too much."""
    most_size = most_size or MAX_FILE_BYTES
    if files > MAX_FILES:
        raise BadInput(f"more than {MAX_FILES} files")
    if size > most_size:
        raise BadInput(f"{name:.200}: more than {most_size >> 20} MiB")
    if total > MAX_BYTES:
        raise BadInput(f"more than {MAX_BYTES >> 20} MiB in all")


def unpack(archive: Path, to: Path, place: str = "", most_file_bytes: int = 0) -> None:
    """A zip's or tar's files, or one place's in it, into an empty folder. Raises BadInput."""
    names: set[str] = set()
    files = total = 0
    with only_bad_input(place or archive):
        for name, is_folder, content in entries_of(archive):
            if place and name != place and not name.startswith(f"{place}/"):
                continue
            files += 1
            check_sizes(name, files, 0, total)
            if is_folder:
                continue
            if content is None:
                raise BadInput(f"{name!r:.200}: {NO_FILE}")
            parts = parts_of(name)
            if not set(parts).isdisjoint(NOT_HANDED_IN):
                continue
            # Two names that one file system takes for the same are one.
            key = unicodedata.normalize("NFC", "/".join(parts)).casefold()
            if key in names:
                raise BadInput(f"{name!r:.200}: there twice")
            names.add(key)
            path = to.joinpath(*parts)
            path.parent.mkdir(parents=True, exist_ok=True)
            size = 0
            with content() as source, path.open("xb") as file:
                while chunk := source.read(CHUNK_BYTES):
                    size, total = size + len(chunk), total + len(chunk)
                    check_sizes(name, files, size, total, most_file_bytes)
                    file.write(chunk)


def entries_of(archive: Path) -> Iterator[tuple[str, bool, Callable[[], IO[bytes]] | None]]:
    """Of each entry of a zip or a tar its name, whether it is a folder, and what opens it; None: it
    is no file. Raises NoHandIn for what is neither, and what its readers raise.
    """
    if not archive.is_file():
        raise NoHandIn(f"{archive}: not a file")
    if zipfile.is_zipfile(archive):
        with zipfile.ZipFile(archive) as opened_zip:
            for each in opened_zip.infolist():
                plain = stat.S_IFMT(each.external_attr >> 16) in (0, stat.S_IFREG, stat.S_IFDIR)
                content: Any = partial(opened_zip.open, each) if plain else None
                yield each.filename, plain and each.filename.endswith("/"), content
    elif tarfile.is_tarfile(archive):
        with tarfile.open(archive, mode="r:*") as opened_tar:
            for entry in opened_tar:
                plain = entry.isreg() and not entry.issparse()
                content = partial(opened_tar.extractfile, entry) if plain else None
                yield entry.name, entry.isdir(), content
    else:
        raise NoHandIn(f"{archive}: neither a folder nor a zip nor a tar")


def parts_of(name: str) -> tuple[str, ...]:
    """A name in an archive, in parts. Raises BadInput for one that leads anywhere else."""
    parts = PurePosixPath(name).parts
    if (
        not parts
        or name.startswith("/")
        or "\\" in name
        or any(part in ("..", ".") or not part.isprintable() for part in parts)
        or len(parts) > MAX_DEPTH
        or any(len(part.encode("utf-8", "replace")) > 200 for part in parts)
        or (len(parts[0]) == 2 and parts[0][1] == ":")
    ):
        raise BadInput(f"{name!r:.200}: no name of a file in a hand-in")
    return parts


def hand_in_of(folder: Path, upload: Path) -> Path:
    """The folder that has the answers: this one, or one inside. Raises NoHandIn by `upload`."""
    for depth in range(3):
        found = sorted(
            path.parent
            for name in (ANSWERS, SEALED)
            for path in folder.glob("/".join([*["*"] * depth, name]))
        )
        if found:
            return found[0]
    raise NoHandIn(f"{upload}: no {ANSWERS} in it: hand in the folder that ./lab lab start made")


def pack(folder: Path, archive: Path) -> None:
    """A hand-in's folder as a zip, without what no grader reads. Raises OSError."""
    part = archive.with_name(archive.name + ".part")
    with zipfile.ZipFile(part, "w", zipfile.ZIP_DEFLATED) as made:
        for path in sorted(folder.rglob("*")):
            inside = path.relative_to(folder)
            unread = inside.parts[0] == "report" or any(each[0] == "." for each in inside.parts)
            if path.is_file() and not path.is_symlink() and not unread:
                made.write(path, Path(folder.name) / inside)
    shutil.move(part, archive)
