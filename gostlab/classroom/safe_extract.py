# SPDX-License-Identifier: MIT
"""Open a student's upload, a folder, a zip or a tar, as a folder that is safe to read.

Links, devices, paths that lead out of the folder, duplicate names, and uploads with too many files
or bytes are refused. Bytes are counted while reading, and sizes in headers are not trusted.
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
# Operating systems and tools add these files to archives.
NOT_HANDED_IN = ("__MACOSX", ".DS_Store", "Thumbs.db", ".git", "__pycache__")
NO_FILE = "a link or a device, not a file"


class NoHandIn(BadInput):
    """An upload that is not a hand-in: no folder, zip or tar with answers."""


@contextmanager
def open_upload(upload: Path) -> Iterator[Path]:
    """Check and unpack an upload and yield the folder of the hand-in. Raises BadInput."""
    if upload.is_symlink():
        raise NoHandIn(f"{upload}: a link: name the folder or the archive itself")
    if upload.is_dir():
        reject_unsafe_folder(upload)
        yield find_hand_in_folder(upload, upload)
        return
    if not upload.is_file():
        raise NoHandIn(f"{upload}: no such folder, zip or tar")
    if upload.stat().st_size > MAX_ARCHIVE_BYTES:
        raise BadInput(f"{upload}: larger than any hand-in ({MAX_ARCHIVE_BYTES >> 20} MiB)")
    with tempfile.TemporaryDirectory(prefix="gostlab-hand-in-") as scratch:
        unpack(upload, Path(scratch))
        yield find_hand_in_folder(Path(scratch), upload)


@contextmanager
def only_bad_input(source: object) -> Iterator[None]:
    """Convert any exception that reading an untrusted file raises into BadInput.

    No list of exceptions is complete: an entry without a name raises IndexError in `zipfile`, a
    password raises RuntimeError.
    """
    try:
        yield
    except BadInput:
        raise
    except Exception as error:
        why = getattr(error, "strerror", None) or str(error) or type(error).__name__
        message = f"{source}: cannot be read: {why}"
        raise BadInput(encodable(message)[:300]) from error


def encodable(text: str) -> str:
    """Return a text that UTF-8 can encode, with undecodable bytes as \udcff."""
    return text.encode("utf-8", "backslashreplace").decode("utf-8")


def reject_unsafe_folder(folder: Path) -> None:
    """Reject a folder with links, devices, or too many or too large files. Raises BadInput."""
    files = total = 0
    for parent, folders, names in os.walk(folder, followlinks=False):
        folders[:] = [name for name in folders if name not in NOT_HANDED_IN]
        depth = len(Path(parent).relative_to(folder).parts)
        if depth > MAX_DEPTH:
            raise BadInput(f"{folder}: folders more than {MAX_DEPTH} deep")
        for name in (*folders, *names):
            path = Path(parent, name)
            status = path.lstat()
            inside = path.relative_to(folder)
            if not (stat.S_ISREG(status.st_mode) or stat.S_ISDIR(status.st_mode)):
                raise BadInput(f"{inside!s:.200}: {NO_FILE}")
            if stat.S_ISREG(status.st_mode):
                files, total = files + 1, total + status.st_size
                reject_oversized(str(inside), files, status.st_size, total)


def reject_oversized(name: str, files: int, size: int, total: int, max_size: int = 0) -> None:
    """Reject an upload with too many or too large files. Raises BadInput."""
    max_size = max_size or MAX_FILE_BYTES
    if files > MAX_FILES:
        raise BadInput(f"more than {MAX_FILES} files")
    if size > max_size:
        raise BadInput(f"{name:.200}: more than {max_size >> 20} MiB")
    if total > MAX_BYTES:
        raise BadInput(f"more than {MAX_BYTES >> 20} MiB in all")


def unpack(archive: Path, to: Path, member: str = "", max_file_bytes: int = 0) -> None:
    """Extract a zip or tar, or only one of its members, into an empty folder. Raises BadInput."""
    names: set[str] = set()
    files = total = 0
    with only_bad_input(member or archive):
        for name, is_folder, content in entries_of(archive):
            if member and name != member and not name.startswith(f"{member}/"):
                continue
            files += 1
            reject_oversized(name, files, 0, total)
            if is_folder:
                continue
            if content is None:
                raise BadInput(f"{name!r:.200}: {NO_FILE}")
            parts = split_member_path(name)
            if not set(parts).isdisjoint(NOT_HANDED_IN):
                continue
            # Names that are equal on some file system (by case or normalization) are duplicates.
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
                    reject_oversized(name, files, size, total, max_file_bytes)
                    file.write(chunk)


def entries_of(archive: Path) -> Iterator[tuple[str, bool, Callable[[], IO[bytes]] | None]]:
    """Yield the name of each archive entry, whether it is a folder, and a function that opens it.

    The function is None if the entry is neither a file nor a folder. Raises NoHandIn for a file
    that is not an archive, and the exceptions of `zipfile` and `tarfile`.
    """
    if not archive.is_file():
        raise NoHandIn(f"{archive}: not a file")
    if zipfile.is_zipfile(archive):
        with zipfile.ZipFile(archive) as opened_zip:
            for member in opened_zip.infolist():
                is_regular = stat.S_IFMT(member.external_attr >> 16) in (
                    0,
                    stat.S_IFREG,
                    stat.S_IFDIR,
                )
                content: Any = partial(opened_zip.open, member) if is_regular else None
                yield member.filename, is_regular and member.filename.endswith("/"), content
    elif tarfile.is_tarfile(archive):
        with tarfile.open(archive, mode="r:*") as opened_tar:
            for entry in opened_tar:
                is_regular = entry.isreg() and not entry.issparse()
                content = partial(opened_tar.extractfile, entry) if is_regular else None
                yield entry.name, entry.isdir(), content
    else:
        raise NoHandIn(f"{archive}: neither a folder nor a zip nor a tar")


def split_member_path(name: str) -> tuple[str, ...]:
    """Split the path of an archive member. Raises BadInput if it leads out of the folder."""
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


def find_hand_in_folder(folder: Path, upload: Path) -> Path:
    """Return the folder with the answers, at most two levels down. Raises NoHandIn."""
    for depth in range(3):
        folders = sorted(
            path.parent
            for name in (ANSWERS, SEALED)
            for path in folder.glob("/".join([*["*"] * depth, name]))
        )
        if folders:
            return folders[0]
    raise NoHandIn(f"{upload}: no {ANSWERS} in it: hand in the folder that ./lab lab start made")


def pack_hand_in(folder: Path, archive: Path) -> None:
    """Pack a hand-in's folder into a zip, without files that no grader reads. Raises OSError."""
    partial_zip = archive.with_name(archive.name + ".part")
    with zipfile.ZipFile(partial_zip, "w", zipfile.ZIP_DEFLATED) as zip_file:
        for path in sorted(folder.rglob("*")):
            inside = path.relative_to(folder)
            hidden = any(name[0] == "." for name in inside.parts)
            unread = hidden or inside.parts[0] == "report"
            if path.is_file() and not path.is_symlink() and not unread:
                zip_file.write(path, Path(folder.name) / inside)
    shutil.move(partial_zip, archive)
