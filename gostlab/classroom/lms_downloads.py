# SPDX-License-Identifier: MIT
"""Find the hand-ins in a folder or a zip that a learning platform exports.

The platforms' programs write these layouts:

- Moodle (mod/assign, "Download all submissions"): `Full Name_NUMBER_assignsubmission_file_/FILE`,
    or without folders `Full Name_NUMBER_assignsubmission_file_FILE`.
- Canvas (canvas-lms, lib/content_zipper.rb): `lastfirst_USER_FILE_name.zip`, `lastfirst_LATE_…`.
- Gradescope ("Export Submissions"): `submission_NUMBER/…`, unpacked, beside a
    submission_metadata.yml that names the submitters.
- Any other: a folder or an archive for each hand-in.

A path outside the folder, a link, and a hand-in that is too large are refused as in `safe_extract`.
Only the hand-in that is being read is unpacked from a zip.
"""

import os
import re
import stat
import tempfile
import zipfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, NamedTuple

import yaml

from gostlab import safe_read
from gostlab.classroom import safe_extract
from gostlab.classroom.answers import SEALED
from gostlab.classroom.lab import ANSWERS
from gostlab.classroom.safe_extract import (
    MAX_ARCHIVE_BYTES,
    NO_FILE,
    NOT_HANDED_IN,
    split_member_path,
)
from gostlab.spec.yaml_source import BadInput

MOODLE = re.compile(
    r"(?P<name>.+)_(?P<number>\d+)_assignsubmission_(?:file|onlinetext)_(?P<file>.*)"
)
CANVAS = re.compile(r"(?P<name>[^_]+)_(?:LATE_)?(?P<number>\d+)_(?P<file_number>\d+)_(?P<file>.+)")
METADATA = "submission_metadata.yml"
MAX_METADATA_BYTES = 64 << 20
MAX_ENTRIES = 400_000
MAX_HAND_INS = 5000
ARCHIVE = re.compile(r".+\.(zip|tar|tgz|tar\.(gz|xz|bz2))", re.IGNORECASE)
OF_A_HAND_IN = (ANSWERS, SEALED)
MAX_SCAN_DEPTH = 4  # depth of folders that are scanned to recognise a layout


@dataclass(frozen=True)
class Submitter:
    """The submitter according to the platform; "" for unknown fields."""

    name: str = ""
    number: str = ""  # user number of the platform
    email: str = ""
    sid: str = ""

    @property
    def label(self) -> str:
        return " ".join(text for text in (self.name, self.number, self.email, self.sid) if text)


@dataclass(frozen=True)
class HandIn:
    label: str  # name in the download
    who: Submitter
    # The last hand-in of a student counts, by the submission time if the platform reports it.
    order: tuple[str, int, str]
    path: str  # path of the folder or file in the download
    refused: str = ""


@dataclass(frozen=True)
class Download:
    path: Path
    hand_ins: tuple[HandIn, ...]
    passed_over: tuple[str, ...]  # files that are not hand-ins


class ArchiveMember(NamedTuple):
    name: str  # path in the archive
    time: str  # modification time in an order-preserving format
    refused: str  # reason for refusing the hand-in; "" if accepted


@dataclass
class TopEntry:
    """An entry at the top level of a download, with the files below it."""

    name: str
    is_file: bool
    # Paths are relative to the entry; an entry that is a file has one member named "".
    files: list[ArchiveMember] = field(default_factory=list)

    @property
    def names(self) -> set[str]:
        return {file.name for file in self.files}

    @property
    def is_hand_in(self) -> bool:
        return not self.names.isdisjoint(OF_A_HAND_IN)

    @property
    def refused(self) -> str:
        return next((file.refused for file in self.files if file.refused), "")


def read_download(path: Path) -> Download:
    """Return the hand-ins in a folder or a zip. Raises BadInput if there are none."""
    if path.is_symlink():
        raise BadInput(f"{path}: a link: name the folder or the zip itself")
    if not path.exists():
        raise BadInput(f"{path}: no such folder or zip")
    if not path.is_dir() and not path.is_file():
        raise BadInput(f"{path}: neither a folder nor a zip")
    prefix, tops = "", group_by_top(files_of_folder(path) if path.is_dir() else files_of_zip(path))
    while len(tops) == 1 and is_wrapper(tops[0]):
        prefix += tops[0].name + "/"
        tops = group_by_top(tops[0].files)
    hand_ins, passed_over = classify(path, prefix, tops)
    if not hand_ins:
        raise BadInput(
            f"{path}: no hand-in in it (a folder or an archive for each, as Moodle, Canvas and"
            " Gradescope hand them over)"
        )
    if len(hand_ins) > MAX_HAND_INS:
        raise BadInput(f"{path}: more than {MAX_HAND_INS} hand-ins")
    return Download(path, tuple(hand_ins), tuple(passed_over))


# -- list the files


def files_of_folder(path: Path) -> Iterator[ArchiveMember]:
    """Yield a folder's files, down to the depth that identifies its layout, following no links."""
    for parent, folders, names in os.walk(path):
        below = Path(parent).relative_to(path)
        links = [folder for folder in folders if Path(parent, folder).is_symlink()]
        folders[:] = [folder for folder in folders if not is_system_file(folder)]
        if not folders and not names:
            yield ArchiveMember(f"{below.as_posix()}/", "", "")
        if len(below.parts) == MAX_SCAN_DEPTH:
            folders.clear()
        for name in names + links:
            if not is_system_file(name):
                status = Path(parent, name).lstat()
                refused = "" if stat.S_ISREG(status.st_mode) else f"{name!r:.200}: {NO_FILE}"
                member_path = (below / name).as_posix()
                if member_path != safe_extract.encodable(member_path):
                    member_path = safe_extract.encodable(member_path)
                    refused = f"{member_path:.200}: its name is not UTF-8"
                yield ArchiveMember(member_path, f"{status.st_mtime:020.6f}", refused)


def is_system_file(name: str) -> bool:
    """Return whether an operating system, and not the student, added the file."""
    return name in NOT_HANDED_IN or name.startswith(".")


def files_of_zip(path: Path) -> Iterator[ArchiveMember]:
    """Yield a zip's files. Raises BadInput if a top-level path leads out of the folder."""
    what = f"{path}: neither a folder nor a zip"
    with safe_extract.only_bad_input(what), zipfile.ZipFile(path) as open_hand_in:
        entries = open_hand_in.infolist()
    if len(entries) > MAX_ENTRIES:
        raise BadInput(f"{path}: more than {MAX_ENTRIES} files")
    for entry in entries:
        name, first = entry.filename, entry.filename.partition("/")[0]
        if name.endswith("/") or not set(name.split("/")).isdisjoint(NOT_HANDED_IN):
            continue
        is_regular = stat.S_IFMT(entry.external_attr >> 16) in (0, stat.S_IFREG)
        refused = "" if is_regular else f"{name!r:.200}: {NO_FILE}"
        try:
            split_member_path(name)
        except BadInput as error:
            refused = str(error)
            # Windows treats a backslash as a separator.
            if first.partition("\\")[0] in ("", "..", "."):
                raise BadInput(f"{path}: {error}") from None
        yield ArchiveMember(name, "".join(f"{part:04d}" for part in entry.date_time), refused)


def group_by_top(files: Iterable[ArchiveMember]) -> list[TopEntry]:
    """Group files by the first component of their paths, sorted by name."""
    tops: dict[str, TopEntry] = {}
    for file in files:
        first, slash, rest = file.name.partition("/")
        top = tops.setdefault(first, TopEntry(first, not slash))
        twice = f"{first!r:.200}: a file and a folder of one name"
        refused = twice if top.is_file == bool(slash) else file.refused
        top.files.append(ArchiveMember(rest, file.time, refused))
    return [tops[name] for name in sorted(tops)]


def is_wrapper(top: TopEntry) -> bool:
    """Return whether a folder only encloses the hand-ins."""
    if top.is_file or top.is_hand_in or MOODLE.fullmatch(top.name):
        return False
    hand_ins = [top for top in group_by_top(top.files) if top.is_hand_in]
    return METADATA in top.names or len(hand_ins) != 1


# -- identify the submitters


def classify(path: Path, prefix: str, tops: Sequence[TopEntry]) -> tuple[list[HandIn], list[str]]:
    """Return the hand-ins, and the files that are not hand-ins. Raises BadInput."""
    hand_ins: list[HandIn] = []
    passed_over: list[str] = []
    is_gradescopes = any(top.name == METADATA for top in tops)
    people = read_metadata(path, prefix + METADATA) if is_gradescopes else None
    for top in tops:
        moodle, canvas = MOODLE.fullmatch(top.name), CANVAS.fullmatch(top.name)
        if people is not None:
            if top.name in people or not top.is_file:
                hand_ins += gradescope_hand_ins(prefix, top, people.get(top.name, {}))
            elif top.name != METADATA:
                passed_over.append(top.name)
        elif moodle:
            hand_ins += hand_ins_of(prefix, top, Submitter(moodle["name"], moodle["number"]))
        elif canvas and top.is_file:
            who = Submitter(canvas["name"], canvas["number"])
            hand_ins += hand_ins_of(prefix, top, who, number=int(canvas["file_number"]))
        elif top.is_file and not ARCHIVE.fullmatch(top.name) and not top.refused:
            passed_over.append(top.name)
        else:
            hand_ins += hand_ins_of(prefix, top, Submitter())
    return hand_ins, passed_over


def hand_ins_of(
    prefix: str, top: TopEntry, who: Submitter, *, number: int = 0, time: str = ""
) -> list[HandIn]:
    """Return a student's hand-ins: one per archive, or one of all files together."""
    archives = sorted(name for name in top.names if ARCHIVE.fullmatch(name) and "/" not in name)
    time = time or max(file.time for file in top.files)
    hand_ins = []
    for only in archives if archives and not (top.is_file or top.is_hand_in) else [""]:
        path = f"{top.name}/{only}" if only else top.name
        # The platform's file number is more reliable than the time of the zip entry.
        order = ("", number, top.name) if number else (time, 0, path)
        hand_ins.append(HandIn(path, who, order, prefix + path, top.refused))
    return hand_ins


def gradescope_hand_ins(prefix: str, top: TopEntry, metadata: Mapping[str, object]) -> list[HandIn]:
    people = metadata.get(":submitters")
    people = (
        [person for person in people if isinstance(person, dict)]
        if isinstance(people, list)
        else []
    )
    who = Submitter()
    if len(people) == 1:
        fields = {name: str(people[0].get(f":{name}") or "") for name in ("name", "email", "sid")}
        who = Submitter(**fields)
    hand_ins = hand_ins_of(prefix, top, who, time=str(metadata.get(":created_at", "")))
    if len(people) > 1:
        refused = f"{top.name}: {len(people)} submitters: a lab is one student's"
        hand_ins = [replace(hand_in, refused=hand_in.refused or refused) for hand_in in hand_ins]
    return hand_ins


def read_metadata(path: Path, name: str) -> dict[str, dict[str, object]]:
    """Return Gradescope's submission_metadata.yml by folder name. Raises BadInput."""
    loader: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    with safe_extract.only_bad_input(f"{path}: {name}"):
        if path.is_file():
            with zipfile.Path(path, name).open("rb") as file:
                data = file.read(MAX_METADATA_BYTES + 1)
        else:
            data = safe_read.read_bytes(path / name, MAX_METADATA_BYTES + 1)
        if len(data) > MAX_METADATA_BYTES:
            raise BadInput(f"{path}: {name}: larger than any such file")
        # The loader is always a safe one.
        metadata = yaml.load(data.decode("utf-8"), Loader=loader)
    if not isinstance(metadata, dict):
        raise BadInput(f"{path}: {name}: names no submissions")
    return {str(folder): fields for folder, fields in metadata.items() if isinstance(fields, dict)}


# -- read one hand-in


@contextmanager
def open_hand_in(download: Path, handed: HandIn) -> Iterator[Path]:
    """Unpack one hand-in and yield its folder, which is safe to read. Raises BadInput."""
    if handed.refused:
        raise BadInput(handed.refused)
    with tempfile.TemporaryDirectory(prefix="gostlab-hand-in-") as scratch:
        if download.is_file():
            safe_extract.unpack(download, Path(scratch), handed.path, MAX_ARCHIVE_BYTES)
        location = Path(download if download.is_dir() else scratch, handed.path)
        with safe_extract.open_upload(location) as folder:
            yield folder
