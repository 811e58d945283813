# SPDX-License-Identifier: MIT
"""What a student uploads: it ends as a folder that is safe to read, or in a line."""

import io
import os
import random
import shutil
import stat
import tarfile
import zipfile
from contextlib import suppress
from pathlib import Path

import pytest

from gostlab.classroom import safe_extract
from gostlab.classroom.autograder_zip import write_bundle
from gostlab.classroom.grade_formats import format_grade
from gostlab.classroom.lab import load_lab
from gostlab.classroom.teacher_cli import grade_submission
from gostlab.cli.main import build_parser
from gostlab.spec.yaml_source import BadInput
from tests.classroom.handins import NOW, asked_of, make_hand_in, zipped
from tests.classroom.test_course import warm_up
from tests.lab_command import said_by


@pytest.fixture(scope="module")
def hand_in(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Alice's, of lab 0."""
    return make_hand_in(tmp_path_factory.mktemp("a") / "0-warm-up", asked_of(warm_up()))


def points(submission: Path, *words: str) -> int:
    """What `./lab grade` gives; never an exception but for what is no hand-in at all."""
    arguments = build_parser().parse_args(
        ["grade", "0", str(submission), "--student", "alice", *words]
    )
    try:
        found = grade_submission(arguments)
    except safe_extract.NoHandIn as error:
        assert str(submission) in str(error)
        return 0
    format_grade(found, "json", {}, NOW)
    assert found.points == 0 or not found.problems
    return int(found.points)


def content_of(hand_in: Path) -> dict[str, bytes]:
    """A hand-in's files by name."""
    return {
        path.relative_to(hand_in.parent).as_posix(): path.read_bytes()
        for path in hand_in.rglob("*")
        if path.is_file()
    }


def test_a_folder_a_zip_and_a_tar_are_worth_the_same(hand_in: Path, tmp_path: Path) -> None:
    safe_extract.pack_hand_in(hand_in, tmp_path / "a.zip")
    with tarfile.open(tmp_path / "a.tar.gz", "w:gz") as made:
        made.add(hand_in, "0-warm-up")
    for each in (hand_in, tmp_path / "a.zip", tmp_path / "a.tar.gz"):
        assert points(each) == warm_up().most


OUTSIDE = ["../answers.yaml", "/etc/answers.yaml", "a/../../b", "a\\..\\b", "C:/b", "a\nb"]


@pytest.mark.parametrize("name", [*OUTSIDE, "x" * 300, "/".join("abcdefghijkl")])
def test_a_name_that_leads_elsewhere_is_refused(name: str, hand_in: Path, tmp_path: Path) -> None:
    archive = zipped({**content_of(hand_in), name: b"x"}, tmp_path / "a.zip")
    before = sorted(tmp_path.rglob("*"))
    with pytest.raises(BadInput), safe_extract.open_upload(archive):
        pass
    assert points(archive) == 0
    assert sorted(tmp_path.rglob("*")) == before


def test_links_and_devices_are_refused_in_every_form(hand_in: Path, tmp_path: Path) -> None:
    link = zipfile.ZipInfo("0-warm-up/passwd")
    link.external_attr = (stat.S_IFLNK | 0o777) << 16
    with zipfile.ZipFile(tmp_path / "a.zip", "w") as made:
        made.writestr(link, "/etc/passwd")
    kinds = (tarfile.SYMTYPE, tarfile.LNKTYPE, tarfile.FIFOTYPE, tarfile.CHRTYPE)
    for number, kind in enumerate(kinds):
        entry = tarfile.TarInfo("0-warm-up/x")
        entry.type, entry.linkname = kind, "/etc/passwd"
        with tarfile.open(tmp_path / f"{number}.tar", "w") as made_tar:
            made_tar.addfile(entry)
    for name in ("folder", "fifo"):
        shutil.copytree(hand_in, tmp_path / name)
    (tmp_path / "folder/results/link").symlink_to("/etc")
    os.mkfifo(tmp_path / "fifo/pipe")
    for each in sorted(tmp_path.iterdir()):
        with pytest.raises(BadInput, match="a link or a device"), safe_extract.open_upload(each):
            pass
        assert points(each) == 0
    (tmp_path / "direct").symlink_to(hand_in)
    assert points(tmp_path / "direct") == 0


def test_bombs_end_where_a_hand_in_would(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(safe_extract, "MAX_FILE_BYTES", 10**6)
    monkeypatch.setattr(safe_extract, "MAX_BYTES", 5 * 10**6)
    monkeypatch.setattr(safe_extract, "MAX_FILES", 50)
    with pytest.warns(UserWarning), zipfile.ZipFile(tmp_path / "twice.zip", "w") as made:
        made.writestr("a/answers.yaml", "x")
        made.writestr("a/answers.yaml", "y")
    bombs = {
        "MiB": {"0-warm-up/answers.yaml": b"0" * (10**6 + 1)},
        "files": {f"a{n}": b"" for n in range(51)},
        "in all": {f"a{n}": b"0" * (10**6 - 1) for n in range(9)},
        "there twice": {"a/answers.yaml": b"x", "a/ANSWERS.yaml": b"y"},
        "twice": None,
    }
    for said, files in bombs.items():
        each = tmp_path / f"{said}.zip"
        if files:
            assert zipped(files, each).stat().st_size < 10**5
        with pytest.raises(BadInput, match=said), safe_extract.open_upload(each):
            pass
        assert points(each) == 0


def test_a_header_that_lies_about_a_length_gains_nothing(tmp_path: Path) -> None:
    archive = zipped({"a/answers.yaml": b"0" * 100_000}, tmp_path / "a.zip")
    data = archive.read_bytes().replace((100_000).to_bytes(4, "little"), (10).to_bytes(4, "little"))
    archive.write_bytes(data)
    assert points(archive) == 0


def test_what_is_no_archive_is_said_to_be_none(tmp_path: Path) -> None:
    for number, data in enumerate(
        (b"", b"PK", b"\x1f\x8b" + b"0" * 99, os.urandom(4000), b"PK\x05\x06" + b"\0" * 18)
    ):
        (tmp_path / str(number)).write_bytes(data)
        assert points(tmp_path / str(number)) == 0
        with pytest.raises(safe_extract.NoHandIn), safe_extract.open_upload(tmp_path / str(number)):
            pass
    with pytest.raises(BadInput, match="no such"):
        points(tmp_path / "nothing")


@pytest.mark.slow
def test_six_hundred_spoilt_archives_end_in_a_grade(hand_in: Path, tmp_path: Path) -> None:
    rng = random.Random(5)
    safe_extract.pack_hand_in(hand_in, tmp_path / "a.zip")
    stream = io.BytesIO()
    with tarfile.open(fileobj=stream, mode="w:gz") as made:
        made.add(hand_in, "0-warm-up")
    for good in ((tmp_path / "a.zip").read_bytes(), stream.getvalue()):
        for _ in range(300):
            data = bytearray(good)
            # headers stand at the ends, and between files
            for _ in range(rng.choice([1, 2, 5])):
                at = rng.choice([rng.randrange(len(data)), -1 - rng.randrange(600)])
                data[at] = rng.randrange(256)
            cut_at = rng.choice([len(data), rng.randrange(len(data))])
            (tmp_path / "spoilt").write_bytes(data[:cut_at])
            with suppress(BadInput), safe_extract.open_upload(tmp_path / "spoilt"):
                pass


@pytest.mark.slow
@pytest.mark.parametrize("form", ["gradescope", "classroom50"])
def test_an_autograders_zip_grades_by_itself(form: str, hand_in: Path, tmp_path: Path) -> None:
    write_bundle(load_lab("0"), form, "public", None, tmp_path / "grader.zip")
    source = tmp_path / "autograder/source"
    shutil.unpack_archive(tmp_path / "grader.zip", source)
    (source.parent / "results").mkdir()
    shutil.copytree(hand_in, source.parent / "submission")
    metadata = '{"users": [{"email": "alice", "id": 1}]}'
    (source.parent / "submission_metadata.json").write_text(metadata, encoding="utf-8")
    environ = {"PATH": os.environ["PATH"], "AUTOGRADER": str(source.parent), "OWNER": "alice"}
    words, result = {
        "gradescope": (["bash", source / "run_autograder"], "results/results.json"),
        "classroom50": (["/usr/bin/python3", source / "autograder.py"], "submission/result.json"),
    }[form]
    done = said_by(*words, cwd=source.parent / "submission", env=environ)
    assert done.returncode == 0, done.stderr
    assert f'"score": {warm_up().most}' in (source.parent / result).read_text("utf-8")


def test_a_secret_is_not_put_where_students_can_read_it(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match=r"--secret: .* reads the secret"):
        write_bundle(load_lab("0"), "classroom50", "c", b"0" * 32, tmp_path / "a.zip")
