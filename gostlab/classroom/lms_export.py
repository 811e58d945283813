"""What a learning platform hands over: a folder or a zip with everybody's hand-ins.

The layouts, as their own programs write them:

- Moodle (mod/assign, "Download all submissions"): `Full Name_NUMBER_assignsubmission_file_/FILE`,
  or without folders `Full Name_NUMBER_assignsubmission_file_FILE`.
- Canvas (canvas-lms, lib/content_zipper.rb): `lastfirst_USER_FILE_name.zip`, `lastfirst_LATE_…`.
- Gradescope ("Export Submissions"): `submission_NUMBER/…`, unpacked, beside a
  submission_metadata.yml that names the submitters.
- Any other: a folder or an archive for each hand-in.

A name that leads out, a link, more than any hand-in has: refused as in `upload`. Of a zip nothing
is unpacked but the hand-in that is being read.
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
from gostlab.classroom.safe_extract import MAX_ARCHIVE_BYTES, NO_FILE, NOT_HANDED_IN, parts_of
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
LOOKED_INTO = 4  # folders below one another, to know what a folder is


@dataclass(frozen=True)
class Who:
    """Who handed in, as the platform says; "" where it says nothing."""

    name: str = ""
    number: str = ""  # of the platform
    email: str = ""
    sid: str = ""

    @property
    def words(self) -> str:
        return " ".join(each for each in (self.name, self.number, self.email, self.sid) if each)


@dataclass(frozen=True)
class HandedIn:
    label: str  # what the download calls it
    who: Who
    # The later of two of a student counts: by when it came, as far as the platform says that.
    order: tuple[str, int, str]
    place: str  # the folder or the file that it is, in the download
    refused: str = ""


@dataclass(frozen=True)
class Download:
    path: Path
    hand_ins: tuple[HandedIn, ...]
    passed_over: tuple[str, ...]  # files that are no hand-ins


class ArchiveMember(NamedTuple):
    name: str  # with its folders
    time: str  # sorts as the instants do
    refused: str  # why it is not read; "" where it is


@dataclass
class Top:
    """What stands at a download's top, with the files below it."""

    name: str
    is_file: bool
    files: list[ArchiveMember] = field(
        default_factory=list
    )  # named from there; of a file one named ""

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
    """What a folder or a zip holds. Raises BadInput for what is neither, or holds no hand-in."""
    if path.is_symlink():
        raise BadInput(f"{path}: a link: name the folder or the zip itself")
    if not path.exists():
        raise BadInput(f"{path}: no such folder or zip")
    if not path.is_dir() and not path.is_file():
        raise BadInput(f"{path}: neither a folder nor a zip")
    prefix, tops = "", tops_of(files_of_folder(path) if path.is_dir() else files_of_zip(path))
    while len(tops) == 1 and wraps(tops[0]):
        prefix += tops[0].name + "/"
        tops = tops_of(tops[0].files)
    found, passed = sorted_out(path, prefix, tops)
    if not found:
        raise BadInput(
            f"{path}: no hand-in in it (a folder or an archive for each, as Moodle, Canvas and"
            " Gradescope hand them over)"
        )
    if len(found) > MAX_HAND_INS:
        raise BadInput(f"{path}: more than {MAX_HAND_INS} hand-ins")
    return Download(path, tuple(found), tuple(passed))


# -- what there is


def files_of_folder(path: Path) -> Iterator[ArchiveMember]:
    """A folder's files, as deep as it takes to know what it is. No link is followed."""
    for place, folders, names in os.walk(path):
        below = Path(place).relative_to(path)
        links = [each for each in folders if Path(place, each).is_symlink()]
        folders[:] = [each for each in folders if not passed_by(each)]
        if not folders and not names:
            yield ArchiveMember(f"{below.as_posix()}/", "", "")
        if len(below.parts) == LOOKED_INTO:
            folders.clear()
        for name in names + links:
            if not passed_by(name):
                status = Path(place, name).lstat()
                refused = "" if stat.S_ISREG(status.st_mode) else f"{name!r:.200}: {NO_FILE}"
                whole = (below / name).as_posix()
                if whole != safe_extract.encodable(whole):
                    whole = safe_extract.encodable(whole)
                    refused = f"{whole:.200}: its name is not UTF-8"
                yield ArchiveMember(whole, f"{status.st_mtime:020.6f}", refused)


def passed_by(name: str) -> bool:
    """Whether a system put it there, and no person."""
    return name in NOT_HANDED_IN or name.startswith(".")


def files_of_zip(path: Path) -> Iterator[ArchiveMember]:
    """A zip's files. Raises BadInput for one whose own names lead out."""
    what = f"{path}: neither a folder nor a zip"
    with safe_extract.only_bad_input(what), zipfile.ZipFile(path) as opened:
        entries = opened.infolist()
    if len(entries) > MAX_ENTRIES:
        raise BadInput(f"{path}: more than {MAX_ENTRIES} files")
    for entry in entries:
        name, first = entry.filename, entry.filename.partition("/")[0]
        if name.endswith("/") or not set(name.split("/")).isdisjoint(NOT_HANDED_IN):
            continue
        plain = stat.S_IFMT(entry.external_attr >> 16) in (0, stat.S_IFREG)
        refused = "" if plain else f"{name!r:.200}: {NO_FILE}"
        try:
            parts_of(name)
        except BadInput as error:
            refused = str(error)
            if first.partition("\\")[0] in ("", "..", "."):  # a backslash: on Windows
                raise BadInput(f"{path}: {error}") from None
        yield ArchiveMember(name, "".join(f"{part:04d}" for part in entry.date_time), refused)


def tops_of(files: Iterable[ArchiveMember]) -> list[Top]:
    """What stands at the top of some files' folders, by name."""
    found: dict[str, Top] = {}
    for file in files:
        first, slash, rest = file.name.partition("/")
        top = found.setdefault(first, Top(first, not slash))
        twice = f"{first!r:.200}: a file and a folder of one name"
        refused = twice if top.is_file == bool(slash) else file.refused
        top.files.append(ArchiveMember(rest, file.time, refused))
    return [found[name] for name in sorted(found)]


def wraps(top: Top) -> bool:
    """Whether a folder is only around the others."""
    if top.is_file or top.is_hand_in or MOODLE.fullmatch(top.name):
        return False
    hand_ins = [each for each in tops_of(top.files) if each.is_hand_in]
    return METADATA in top.names or len(hand_ins) != 1


# -- whose it is


def sorted_out(path: Path, prefix: str, tops: Sequence[Top]) -> tuple[list[HandedIn], list[str]]:
    """The hand-ins, and what is none. Raises BadInput."""
    found: list[HandedIn] = []
    passed: list[str] = []
    is_gradescopes = any(top.name == METADATA for top in tops)
    people = read_metadata(path, prefix + METADATA) if is_gradescopes else None
    for top in tops:
        moodle, canvas = MOODLE.fullmatch(top.name), CANVAS.fullmatch(top.name)
        if people is not None:
            if top.name in people or not top.is_file:
                found += of_gradescope(prefix, top, people.get(top.name, {}))
            elif top.name != METADATA:
                passed.append(top.name)
        elif moodle:
            found += handed_in_by(prefix, top, Who(moodle["name"], moodle["number"]))
        elif canvas and top.is_file:
            who = Who(canvas["name"], canvas["number"])
            found += handed_in_by(prefix, top, who, number=int(canvas["file_number"]))
        elif top.is_file and not ARCHIVE.fullmatch(top.name) and not top.refused:
            passed.append(top.name)
        else:
            found += handed_in_by(prefix, top, Who())
    return found, passed


def handed_in_by(
    prefix: str, top: Top, who: Who, *, number: int = 0, time: str = ""
) -> list[HandedIn]:
    """A student's files: each archive is a hand-in, or all of them together are one."""
    archives = sorted(each for each in top.names if ARCHIVE.fullmatch(each) and "/" not in each)
    time = time or max(file.time for file in top.files)
    found = []
    for only in archives if archives and not (top.is_file or top.is_hand_in) else [""]:
        place = f"{top.name}/{only}" if only else top.name
        # A number of the platform says more than the time at which it made the zip.
        order = ("", number, top.name) if number else (time, 0, place)
        found.append(HandedIn(place, who, order, prefix + place, top.refused))
    return found


def of_gradescope(prefix: str, top: Top, told: Mapping[str, Any]) -> list[HandedIn]:
    people = told.get(":submitters")
    people = [each for each in people if isinstance(each, dict)] if isinstance(people, list) else []
    who = Who()
    if len(people) == 1:
        said = {name: str(people[0].get(f":{name}") or "") for name in ("name", "email", "sid")}
        who = Who(**said)
    found = handed_in_by(prefix, top, who, time=str(told.get(":created_at", "")))
    if len(people) > 1:
        refused = f"{top.name}: {len(people)} submitters: a lab is one student's"
        found = [replace(each, refused=each.refused or refused) for each in found]
    return found


def read_metadata(path: Path, name: str) -> dict[str, dict[str, Any]]:
    """Gradescope's submission_metadata.yml, what it says by a folder's name. Raises BadInput."""
    loader: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    with safe_extract.only_bad_input(f"{path}: {name}"):
        if path.is_file():
            with zipfile.Path(path, name).open("rb") as file:
                data = file.read(MAX_METADATA_BYTES + 1)
        else:
            data = safe_read.read_bytes(path / name, MAX_METADATA_BYTES + 1)
        if len(data) > MAX_METADATA_BYTES:
            raise BadInput(f"{path}: {name}: larger than any such file")
        found = yaml.load(data.decode("utf-8"), Loader=loader)  # a safe loader
    if not isinstance(found, dict):
        raise BadInput(f"{path}: {name}: names no submissions")
    return {str(place): each for place, each in found.items() if isinstance(each, dict)}


# -- reading one


@contextmanager
def opened(download: Path, handed: HandedIn) -> Iterator[Path]:
    """The folder of one hand-in, safe to read. Raises BadInput."""
    if handed.refused:
        raise BadInput(handed.refused)
    with tempfile.TemporaryDirectory(prefix="gostlab-hand-in-") as scratch:
        if download.is_file():
            safe_extract.unpack(download, Path(scratch), handed.place, MAX_ARCHIVE_BYTES)
        place = Path(download if download.is_dir() else scratch, handed.place)
        with safe_extract.opened(place) as folder:
            yield folder
