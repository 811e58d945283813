# SPDX-License-Identifier: MIT
"""What platforms hand over: whose each hand-in is, which of two is later, and what is refused."""

import os
import stat
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest

from gostlab.classroom import lms_downloads, safe_extract
from gostlab.classroom.lms_downloads import Download, HandIn, read_download
from gostlab.spec.yaml_source import BadInput
from tests.classroom.handins import zipped

INSIDE = {"0-warm-up/answers.yaml": b"student: x\n", "0-warm-up/results/a/b/run.json": b"{}"}


def archive(folder: Path) -> bytes:
    return zipped(INSIDE, folder / "one.zip").read_bytes()


def spread(files: dict[str, bytes], to: Path) -> Path:
    for name, content in files.items():
        path = to / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
    return to


FORMS: dict[str, Callable[[dict[str, bytes], Path], Path]] = {
    "folder": lambda files, to: spread(files, to / "download"),
    "zip": lambda files, to: zipped(files, to / "download.zip"),
}
METADATA = b"""
submission_7:
  :submitters:
  - :name: Alice Smith
    :email: alice@x.org
    :sid: '11'
  :created_at: 2026-11-01 10:00:00 Z
submission_8:
  :submitters:
  - :name: Bob Ott
    :email: bob@x.org
    :sid: '12'
  :created_at: 2026-11-02 10:00:00 Z
"""


NAMED = {"Alice Smith", "Bob Ott"}


def layouts(one: bytes) -> dict[str, tuple[dict[str, bytes], set[str]]]:
    """By layout: its files, and whom it names."""
    moodle = "{}_assignsubmission_file_{}"
    folders = {
        moodle.format("Alice Smith_31", "/0-warm-up-a.zip"): one,
        moodle.format("Bob Ott_32", "/0-warm-up-b.zip"): one,
        moodle.format("Bob Ott_32", "/note.txt"): b"hello",
    }
    files = {moodle.format(who, "0-warm-up.zip"): one for who in ("Alice Smith_31", "Bob Ott_32")}
    canvas = dict.fromkeys(
        ("smithalice_41_900_0-warm-up.zip", "ottbob_LATE_42_901_0-warm-up-1.zip"), one
    )
    gradescope = {"assignment_5_export/submission_metadata.yml": METADATA} | {
        f"assignment_5_export/submission_{number}/{name}": content
        for number in (7, 8)
        for name, content in INSIDE.items()
    }
    plain = {f"{who}/{name}": each for who in ("alice", "bob") for name, each in INSIDE.items()}
    archives = {"all/alice.zip": one, "all/bob.tar.gz": one, "all/readme.txt": b"x"}
    return {
        "Moodle's folders": (folders, NAMED),
        "Moodle's files": (files, NAMED),
        "Canvas": (canvas, {"smithalice", "ottbob"}),
        "Gradescope": (gradescope, NAMED),
        "plain folders": (plain, {""}),
        "plain archives in a folder": (archives, {""}),
    }


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("layout", list(layouts(b"")))
def test_every_layout_is_read_whether_packed_or_not(form: str, layout: str, tmp_path: Path) -> None:
    files, names = layouts(archive(tmp_path))[layout]
    found = read_download(FORMS[form](files, tmp_path))
    assert len(found.hand_ins) == 2
    assert {each.who.name for each in found.hand_ins} == names
    for each in found.hand_ins:
        with lms_downloads.open_hand_in(found.path, each) as folder:
            assert (folder / "answers.yaml").read_bytes() == INSIDE["0-warm-up/answers.yaml"]
            assert (folder / "results/a/b/run.json").is_file()
    assert not any("gostlab-hand-in" in str(path) for path in tmp_path.rglob("*"))


def test_what_the_platform_says_of_time_decides_which_is_later(tmp_path: Path) -> None:
    one = archive(tmp_path)

    def last(path: Path) -> HandIn:
        return max(read_download(path).hand_ins, key=lambda each: each.order)

    canvas = zipped({"a_1_900_x.zip": one, "a_1_89_x-1.zip": one}, tmp_path / "canvas.zip")
    assert last(canvas).label == "a_1_900_x.zip"
    gradescope = zipped(layouts(one)["Gradescope"][0], tmp_path / "g.zip")
    assert last(gradescope).who.sid == "12"
    plain = spread({"a1.zip": one, "a2.zip": one}, tmp_path / "plain")
    os.utime(plain / "a2.zip", (1, 1))
    assert last(plain).label == "a1.zip"


@pytest.mark.parametrize(
    ("name", "says"),
    [
        ("empty.zip", "no hand-in in it"),
        ("none.zip", "neither a folder nor a zip"),
        ("nothing.zip", "neither a folder nor a zip"),
        ("empty", "no hand-in in it"),
        ("missing", "no such folder"),
        ("link", "a link"),
    ],
)
def test_what_is_no_download_is_refused(name: str, says: str, tmp_path: Path) -> None:
    zipped({}, tmp_path / "empty.zip")
    (tmp_path / "none.zip").write_bytes(b"hello")
    (tmp_path / "nothing.zip").write_bytes(b"")
    (tmp_path / "empty").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "empty")
    with pytest.raises(BadInput, match=says):
        read_download(tmp_path / name)


def refused(found: Download, label: str) -> str:
    """Why a hand-in cannot be opened."""
    handed = next(each for each in found.hand_ins if each.label.startswith(label))
    with pytest.raises(BadInput) as caught, lms_downloads.open_hand_in(found.path, handed):
        pass
    return str(caught.value)


@pytest.mark.parametrize("around", ["", "export/"])
def test_one_hostile_hand_in_is_refused_and_the_others_are_read(
    around: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(safe_extract, "MAX_FILE_BYTES", 100_000)
    one = archive(tmp_path)
    to = tmp_path / "download.zip"
    with zipfile.ZipFile(to, "w", zipfile.ZIP_DEFLATED) as made:
        made.writestr(around + "good.zip", one)
        made.writestr(around + "leads-out/../../answers.yaml", b"x")
        made.writestr(around + "backslash/a\\..\\answers.yaml", b"x")
        made.writestr(around + "bomb/answers.yaml", b"0" * 100_001)
        link = zipfile.ZipInfo(around + "link/answers.yaml")
        link.external_attr = (stat.S_IFLNK | 0o777) << 16
        made.writestr(link, "/etc/passwd")
    before = sorted(tmp_path.rglob("*"))
    found = read_download(to)
    good = next(each for each in found.hand_ins if each.label == "good.zip")
    with lms_downloads.open_hand_in(to, good) as folder:
        assert (folder / "answers.yaml").is_file()
    for label, says in (
        ("leads-out", "no name of a file"),
        ("backslash", "no name of a file"),
        ("bomb", "MiB"),
        ("link", "a link or a device"),
    ):
        assert says in refused(found, label)
    assert sorted(tmp_path.rglob("*")) == before


@pytest.mark.parametrize("name", ["../alice.zip", "/etc/alice.zip", "..\\alice.zip"])
def test_a_download_whose_own_names_lead_out_is_refused_whole(name: str, tmp_path: Path) -> None:
    to = zipped({"good.zip": b"x", name: b"x"}, tmp_path / "download.zip")
    with pytest.raises(BadInput, match="no name of a file"):
        read_download(to)


def test_a_folder_with_a_link_for_a_hand_in_is_not_followed(tmp_path: Path) -> None:
    spread({"good/answers.yaml": b"x"}, tmp_path / "all")
    (tmp_path / "all/evil").symlink_to("/etc")
    spread({"inner/answers.yaml": b"x"}, tmp_path / "all")
    (tmp_path / "all/inner/results").symlink_to("/etc")
    found = read_download(tmp_path / "all")
    assert "a link" in refused(found, "evil")
    assert "a link" in refused(found, "inner")
    assert not any("passwd" in each.label for each in found.hand_ins)


def test_gradescopes_file_of_people_that_is_spoilt_is_refused(tmp_path: Path) -> None:
    for content in (b"[", b"- a\n", b"!!python/object:os.system {}", b"\xff\xfe"):
        files = {"e/submission_metadata.yml": content, "e/submission_7/answers.yaml": b"x"}
        with pytest.raises(BadInput, match=r"submission_metadata\.yml"):
            read_download(zipped(files, tmp_path / "g.zip"))
    spread({"e/submission_7/answers.yaml": b"x"}, tmp_path)
    os.mkfifo(tmp_path / "e/submission_metadata.yml")
    with pytest.raises(BadInput, match=r"submission_metadata\.yml: cannot be read: not a plain"):
        read_download(tmp_path / "e")
