# SPDX-License-Identifier: MIT
"""GOSTs of several versions, side by side; what is none is one line."""

import os
import time
from pathlib import Path

import pytest

from gostlab.errors import BadInput
from gostlab.install import gost_versions, locate
from tests.install.programs import GOST, packed_gost, script


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("GOSTLAB_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("GOSTLAB_SYSTEM", "")
    monkeypatch.delenv("GOSTLAB_GOST", raising=False)
    return tmp_path / "cache"


def test_a_program_that_does_not_end_says_no_version(tmp_path: Path) -> None:
    began_s = time.monotonic()

    assert locate.read_output([script(tmp_path / "gost", "#!/bin/sh\nsleep 20\n"), "-V"], 0.1) == ""
    assert time.monotonic() - began_s < 10


@pytest.mark.parametrize("form", ["plain", "xz", "tar.gz"])
def test_a_gost_is_kept_by_its_version_however_it_is_packed_gost(tmp_path: Path, form: str) -> None:
    added = gost_versions.add_gost(str(packed_gost(form, tmp_path)))

    assert added.version == "gost 3.2.6, go1.26.8"
    assert locate.find_gosts() == {"3.2.6": added}
    assert added.sha256 == locate.file_sha256(added.path)
    assert locate.tunnel_binary(locate.find_parts(), "3.2.6").path == added.path


def test_two_of_one_version_stand_side_by_side_and_one_can_go(tmp_path: Path) -> None:
    for name in (None, "mine"):
        gost_versions.add_gost(str(packed_gost("plain", tmp_path)), name)
    assert list(locate.find_gosts()) == ["3.2.6", "mine"]

    gost_versions.remove_gost("mine")

    assert list(locate.find_gosts()) == ["3.2.6"]


@pytest.mark.parametrize(
    ("text", "says"),
    [
        (b"#!/bin/sh\necho a relay 0.2\n", "not a GOST"),
        (b"\x7fELF" + bytes(14) + (183).to_bytes(2, "little") + bytes(44), "another processor"),
        (b"", "not a GOST"),
        (b"#!/bin/sh\necho 'gost 2.8.1 (go1.13 linux/amd64)'\n", r"gost 2\.8\.1.* too old.*2\.11"),
    ],
)
def test_another_program_is_refused(tmp_path: Path, cache: Path, text: bytes, says: str) -> None:
    (tmp_path / "gost").write_bytes(text)

    kept = gost_versions.add_gost(str(packed_gost("xz", tmp_path))).path
    (tmp_path / "gost").chmod(0o755)

    with pytest.raises(BadInput, match=says):
        gost_versions.add_gost(str(tmp_path / "gost"))
    with pytest.raises(locate.MissingPart, match=says):  # of --gost
        locate.find_parts(tmp_path / "gost")
    assert [path for path in cache.rglob("gost") if path.is_file()] == [kept]


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (("9.9.9", None), "neither a file nor a release"),
        (("FILE", "relay"), "not a name"),
        (("FILE", "../out"), "not a name"),
        (("SPOILT", None), "cannot be unpacked"),
    ],
)
def test_a_version_or_a_name_that_cannot_be_is_refused(
    tmp_path: Path, words: tuple[str, str | None], says: str
) -> None:
    (tmp_path / "gost.xz").write_bytes(b"no xz at all")
    files = {"FILE": packed_gost("plain", tmp_path), "SPOILT": tmp_path / "gost.xz"}

    with pytest.raises(BadInput, match=says):
        gost_versions.add_gost(str(files.get(words[0], words[0])), words[1])


def test_which_one_is_taken_and_why(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/usr/bin:/bin")
    assert "there is no GOST" in locate.find_parts().tunnel_why
    added = gost_versions.add_gost(str(packed_gost("plain", tmp_path)))
    assert locate.find_parts().gost == added.path
    named = script(tmp_path / "mine", GOST.replace("3.2.6", "3.3.0"))
    monkeypatch.setenv("GOSTLAB_GOST", str(named))
    found = locate.find_parts()
    assert (found.gost, found.tunnel_why) == (named, "GOSTLAB_GOST names it")
    assert locate.find_parts(Path("3.2.6")).gost == added.path
    assert locate.find_parts(Path("relay")).gost is None


@pytest.mark.parametrize(
    ("asked", "says"),
    [
        ("9.9", r"9\.9 \(--gost\): neither a file nor .*added \(3\.2\.6\)"),
        ("3.2.6,relay", r"\(--gost\): .*levels of gost: --set gost="),
    ],
)
def test_what_gost_cannot_be_is_said_with_what_there_is(
    tmp_path: Path, asked: str, says: str
) -> None:
    gost_versions.add_gost(str(packed_gost("plain", tmp_path)))

    with pytest.raises(locate.MissingPart, match=says):
        locate.find_parts(Path(asked))
    with pytest.raises(locate.MissingPart, match=r"gost: 4\.0: not there .*gost add"):
        locate.tunnel_binary(locate.find_parts(), "4.0")


def test_of_several_the_newest_is_taken_whatever_others_are_called(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", "/usr/bin:/bin")
    for version, name in (("3.9.0", None), ("3.10.0", None), ("3.0.0-rc8", "mine")):
        gost_versions.add_gost(str(script(tmp_path / "gost", GOST.replace("3.2.6", version))), name)

    assert str(locate.find_parts().gost_says).startswith("gost 3.10.0")


def test_a_program_is_asked_for_its_version_once_as_long_as_it_stays(tmp_path: Path) -> None:
    asked = tmp_path / "asked"
    gost = script(tmp_path / "gost", f"#!/bin/sh\necho >>{asked}; echo gost 3.2.6\n")
    assert {str(locate.read_gost_version(gost)) for _ in range(3)} == {"gost 3.2.6"}
    assert asked.read_text() == "\n"
    script(gost, "#!/bin/sh\necho gost 3.0.0-rc8\n")
    assert str(locate.read_gost_version(gost)) == "gost 3.0.0-rc8"


def test_a_gost_that_was_added_is_not_asked_again_while_its_file_is_as_it_was(
    tmp_path: Path,
) -> None:
    gost = script(tmp_path / "gost", "#!/bin/sh\necho gost 3.9\n")
    assert locate.recorded_gost_version(gost) is None
    (tmp_path / "gost.json").write_text('{"version": "3.2.6", "go": "go1.26.8"}')
    assert str(locate.recorded_gost_version(gost)) == "gost 3.2.6, go1.26.8"
    gost.chmod(0o644)
    assert locate.recorded_gost_version(gost) is None
    gost.chmod(0o755)
    later_ns = gost.with_name("gost.json").stat().st_mtime_ns + 1
    os.utime(gost, ns=(later_ns, later_ns))
    assert locate.recorded_gost_version(gost) is None
