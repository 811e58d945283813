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

from __future__ import annotations

import os
import re
import stat
import tempfile
import zipfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import yaml

from gostlab.apps.course import upload
from gostlab.apps.course.answers import SEALED
from gostlab.apps.course.lab import ANSWERS
from gostlab.apps.course.upload import MOST_ARCHIVE_BYTES, NOT_HANDED_IN, Taken, parts_of
from gostlab.describe.file.document import BadInput

MOODLE = re.compile(
    r"(?P<name>.+)_(?P<number>\d+)_assignsubmission_(?:file|onlinetext)_(?P<file>.*)"
)
CANVAS = re.compile(r"(?P<name>[^_]+)_(?:LATE_)?(?P<number>\d+)_(?P<file_number>\d+)_(?P<file>.+)")
METADATA = "submission_metadata.yml"
MOST_METADATA_BYTES = 64 << 20
MOST_ENTRIES = 400_000
MOST_HAND_INS = 5000
ARCHIVE = re.compile(r".+\.(zip|tar|tgz|tar\.(gz|xz|bz2))", re.IGNORECASE)
OF_A_HAND_IN = (ANSWERS, SEALED)
LOOKED_INTO = 3  # folders below one another, to know what a folder is


@dataclass(frozen=True)
class Who:
    """Who handed in, as the platform says; "" where it says nothing."""

    name: str = ""
    number: str = ""  # of the platform
    email: str = ""
    sid: str = ""


@dataclass(frozen=True)
class HandedIn:
    """One thing that was handed in."""

    label: str  # what the download calls it
    who: Who
    # The later of two of a student counts: by when it came, as far as the platform says that.
    order: tuple[str, int, str]
    place: str  # the folder or the file that it is, in the download
    refused: str = ""


@dataclass(frozen=True)
class Download:
    """All that was handed in."""

    path: Path
    platform: str  # Moodle | Canvas | Gradescope | "" of none of them
    hand_ins: tuple[HandedIn, ...]
    passed_over: tuple[str, ...]  # files that are no hand-ins

    @property
    def is_zip(self) -> bool:
        return self.path.is_file()


@dataclass
class Top:
    """What stands at a download's top, with the names below it."""

    name: str
    is_file: bool
    files: list[str]  # below it, as parts joined by /; of a file [""]
    time: str
    refused: str = ""

    @property
    def is_hand_in(self) -> bool:
        return any(each in self.files for each in OF_A_HAND_IN)

    def whole(self, inside: str = "") -> str:
        return f"{self.name}/{inside}" if inside else self.name


def read_download(path: Path) -> Download:
    """What a folder or a zip holds. Raises BadInput for what is neither, or holds no hand-in."""
    if path.is_symlink():
        raise BadInput(f"{path}: a link: name the folder or the zip itself")
    if path.is_dir():
        tops, prefix = tops_of_folder(path), ""
    elif path.is_file():
        tops, prefix = tops_of_zip(path), ""
    else:
        raise BadInput(f"{path}: no such folder or zip")
    while len(tops) == 1 and wraps(tops[0]):
        prefix += tops[0].name + "/"
        tops = inside(tops[0])
    found, platform, passed = sorted_out(path, prefix, tops)
    if not found:
        raise BadInput(
            f"{path}: no hand-in in it (a folder or an archive for each, as Moodle, Canvas and"
            " Gradescope hand them over)"
        )
    if len(found) > MOST_HAND_INS:
        raise BadInput(f"{path}: more than {MOST_HAND_INS} hand-ins")
    return Download(path, platform, tuple(found), tuple(passed))


# -- what there is


def tops_of_folder(path: Path) -> list[Top]:
    """What stands in a folder."""
    found = []
    for entry in sorted(os.scandir(path), key=lambda each: each.name):
        if entry.name in NOT_HANDED_IN or entry.name.startswith("."):
            continue
        status = entry.stat(follow_symlinks=False)
        time = f"{status.st_mtime:020.6f}"
        if stat.S_ISREG(status.st_mode):
            found.append(Top(entry.name, True, [""], time))
        elif stat.S_ISDIR(status.st_mode):
            found.append(Top(entry.name, False, names_below(Path(entry.path)), time))
        else:
            refused = f"{entry.name!r:.200}: a link or a device, not a file"
            found.append(Top(entry.name, True, [""], time, refused))
    return found


def names_below(folder: Path) -> list[str]:
    """A folder's files, as deep as it takes to know what it is. No link is followed."""
    found = []
    for place, folders, names in os.walk(folder):
        below = Path(place).relative_to(folder)
        folders[:] = sorted(each for each in folders if each not in NOT_HANDED_IN)
        if len(below.parts) == LOOKED_INTO:
            folders.clear()
        found += [(below / name).as_posix() for name in sorted(names) if name not in NOT_HANDED_IN]
    return found


def tops_of_zip(path: Path) -> list[Top]:
    """What stands in a zip. Raises BadInput."""
    try:
        with zipfile.ZipFile(path) as opened:
            entries = opened.infolist()
    except (zipfile.BadZipFile, OSError, ValueError, NotImplementedError, EOFError) as error:
        raise BadInput(f"{path}: neither a folder nor a zip: {error}"[:300]) from None
    if len(entries) > MOST_ENTRIES:
        raise BadInput(f"{path}: more than {MOST_ENTRIES} files")
    tops: dict[str, Top] = {}
    for entry in entries:
        if entry.is_dir():
            continue
        name, refused = entry.filename, ""
        if any(part in NOT_HANDED_IN for part in name.split("/")):
            continue
        kind = stat.S_IFMT(entry.external_attr >> 16)
        if kind not in (0, stat.S_IFREG):
            refused = f"{name!r:.200}: a link or a device, not a file"
        first, slash, rest = name.partition("/")
        try:
            parts_of(name)
        except BadInput as error:
            refused = str(error)
            if first in ("", "..", ".") or "\\" in first or not first.isprintable():
                raise BadInput(f"{path}: {error}") from None
        top = tops.setdefault(first, Top(first, not slash, [], ""))
        if top.is_file == bool(slash):
            refused = f"{first!r:.200}: a file and a folder of one name"
        top.files.append(rest)
        top.time = max(top.time, "".join(f"{part:04d}" for part in entry.date_time))
        top.refused = top.refused or refused
    return [tops[name] for name in sorted(tops)]


def wraps(top: Top) -> bool:
    """Whether a folder is only around the others."""
    if top.is_file or top.is_hand_in or top.refused or MOODLE.fullmatch(top.name):
        return False
    below = {
        each.rpartition("/")[0]
        for each in top.files
        if each.split("/")[1:2] and (each.split("/")[1] in OF_A_HAND_IN and each.count("/") == 1)
    }
    return METADATA in top.files or len(below) != 1


def inside(top: Top) -> list[Top]:
    """What stands in a folder that is around all."""
    found: dict[str, Top] = {}
    for each in top.files:
        first, slash, rest = each.partition("/")
        one = found.setdefault(first, Top(first, not slash, [], top.time))
        one.files.append(rest)
    return [found[name] for name in sorted(found)]


# -- whose it is


def sorted_out(
    path: Path, prefix: str, tops: Sequence[Top]
) -> tuple[list[HandedIn], str, list[str]]:
    """The hand-ins, the platform, and what is no hand-in. Raises BadInput."""
    told = next((top for top in tops if top.name == METADATA), None)
    if told is not None:
        people = read_metadata(text_in(path, prefix + METADATA), path)
        folders = [top for top in tops if top.name in people or not top.is_file]
        others = [top.name for top in tops if top not in folders and top is not told]
        of_all = (of_gradescope(prefix, top, people.get(top.name, {})) for top in folders)
        return [each for some in of_all for each in some], "Gradescope", others
    found: list[HandedIn] = []
    passed: list[str] = []
    platform = ""
    for top in tops:
        moodle, canvas = MOODLE.fullmatch(top.name), CANVAS.fullmatch(top.name)
        if moodle:
            platform = "Moodle"
            found += handed_in_by(prefix, top, Who(moodle["name"], moodle["number"]))
        elif canvas and top.is_file:
            platform = "Canvas"
            who = Who(name=canvas["name"], number=canvas["number"])
            found.append(handed_in(prefix, top, who, number=int(canvas["file_number"])))
        elif top.is_file and not ARCHIVE.fullmatch(top.name) and not top.refused:
            passed.append(top.name)
        else:
            found += handed_in_by(prefix, top, Who())
    return found, platform, passed


def handed_in(
    prefix: str, top: Top, who: Who, *, number: int = 0, time: str = "", only: str = ""
) -> HandedIn:
    """A hand-in; only: the one file of a folder that it is."""
    # A number of the platform says more than the time at which it made the zip.
    order = ("", number, top.name) if number else (time or top.time, 0, top.name + only)
    place = top.whole(only)
    return HandedIn(place, who, order, prefix + place, top.refused)


def handed_in_by(prefix: str, top: Top, who: Who, time: str = "") -> list[HandedIn]:
    """A student's files: each archive is a hand-in, or all of them together are one."""
    archives = [each for each in top.files if ARCHIVE.fullmatch(each) and "/" not in each]
    if top.is_file or top.is_hand_in or not archives:
        return [handed_in(prefix, top, who, time=time)]
    return [handed_in(prefix, top, who, time=time, only=each) for each in archives]


def of_gradescope(prefix: str, top: Top, told: Mapping[str, Any]) -> list[HandedIn]:
    people = told.get(":submitters")
    people = [each for each in people if isinstance(each, dict)] if isinstance(people, list) else []
    name, email, sid = (
        str(people[0].get(key) or "") if len(people) == 1 else ""
        for key in (":name", ":email", ":sid")
    )
    who = Who(name=name, email=email, sid=sid)
    found = handed_in_by(prefix, top, who, str(told.get(":created_at", "")))
    if len(people) > 1:
        refused = f"{top.name}: {len(people)} submitters: a lab is one student's"
        found = [replace(each, refused=each.refused or refused) for each in found]
    return found


def text_in(path: Path, name: str) -> str:
    """A file of the download. Raises BadInput."""
    try:
        if path.is_dir():
            file = path / name
            if file.is_symlink() or file.stat().st_size > MOST_METADATA_BYTES:
                raise BadInput(f"{file}: a link, or larger than any such file")
            return file.read_text(encoding="utf-8")
        with zipfile.ZipFile(path) as opened, opened.open(name) as content:
            data = content.read(MOST_METADATA_BYTES + 1)
    except (zipfile.BadZipFile, OSError, ValueError, NotImplementedError, RuntimeError) as error:
        raise BadInput(f"{path}: {name}: cannot be read: {error}"[:300]) from None
    if len(data) > MOST_METADATA_BYTES:
        raise BadInput(f"{path}: {name}: larger than any such file")
    return data.decode("utf-8", "replace")


def read_metadata(text: str, path: Path) -> dict[str, dict[str, Any]]:
    """Gradescope's submission_metadata.yml: a folder's name, and what is said of it. Raises
    BadInput.
    """
    loader: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    try:
        found = yaml.load(text, Loader=loader)  # a safe loader
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        raise BadInput(f"{path}: {METADATA}: not YAML: {error}"[:300]) from None
    if not isinstance(found, dict):
        raise BadInput(f"{path}: {METADATA}: names no submissions")
    return {str(name): each for name, each in found.items() if isinstance(each, dict)}


# -- reading one


@contextmanager
def opened(download: Path, handed: HandedIn) -> Iterator[Path]:
    """The folder of one hand-in, safe to read. Raises BadInput."""
    if handed.refused:
        raise BadInput(handed.refused)
    if download.is_dir():
        with upload.opened(download / handed.place) as folder:
            yield folder
        return
    with tempfile.TemporaryDirectory(prefix="gostlab-hand-in-") as scratch:
        place = unpack(download, handed, Path(scratch))
        with upload.opened(place) as folder:
            yield folder


def unpack(archive: Path, handed: HandedIn, to: Path) -> Path:
    """One hand-in's files out of the zip, in an empty folder. Raises BadInput."""
    below = handed.place + "/"
    taken = Taken(to, most_file_bytes=MOST_ARCHIVE_BYTES)
    try:
        with zipfile.ZipFile(archive) as opened_zip:
            for entry in opened_zip.infolist():
                is_its = entry.filename == handed.place or entry.filename.startswith(below)
                if is_its and not entry.is_dir():
                    with opened_zip.open(entry) as content:
                        taken.take(entry.filename, content)
    except upload.BROKEN_ARCHIVE as error:
        raise BadInput(f"{handed.label}: cannot be unpacked: {error}"[:300]) from None
    return to / handed.place
