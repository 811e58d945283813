# SPDX-License-Identifier: MIT
"""The sandbox's own root: pinned, fetched in several tries, the same wherever it is made."""

import os
import shutil
import subprocess
from collections.abc import Sequence
from functools import partial
from pathlib import Path

import pytest

from gostlab.install import apt, deb_extract, locate, rootfs
from gostlab.install.apt import PackageCandidate
from gostlab.install.build_env import HashMismatch, InstallContext, SetupError
from gostlab.install.rootfs import PinnedPackage
from tests.asked import refusal
from tests.install.programs import package
from tests.skips import require_root_tree
from tools import root_lock


@pytest.fixture
def made() -> rootfs.GuestRoot:
    return require_root_tree()


class Mirror:
    """apt in front of a mirror that has some files, and gives way after so many."""

    def __init__(self, files: Sequence[Path], gives: int = 99) -> None:
        self.files, self.gives, self.asked = files, gives, 0

    def download_current(self, packages: Sequence[str], into: Path) -> list[Path]:
        into.mkdir(parents=True, exist_ok=True)
        self.asked += len(packages)
        for file in self.files[: self.gives]:
            if any(file.name.startswith(each.replace("=", "_")) for each in packages):
                shutil.copy(file, into)
        if self.gives < len(self.files):
            (into / f"{self.files[self.gives].name}.part").write_bytes(b"half")
            raise apt.ArchiveError("b did not come: Connection reset")
        return sorted(into.glob("*.deb"))


def pinned_of(*files: Path) -> list[PinnedPackage]:
    words = [file.name.split("_") for file in files]
    return [
        PinnedPackage("root", "bookworm", name, version, locate.file_sha256(file))
        for (name, version, _), file in zip(words, files, strict=True)
    ]


def test_every_package_of_the_lock_is_pinned_by_version_and_sum() -> None:
    pinned = rootfs.read_lock()
    iperf3s = {f"iperf3/{version}" for version in ("3.18", "3.12", "3.9")}
    assert {one.destination for one in pinned} == {"root", "tool", *iperf3s}
    assert all(len(one.sha256) == 64 and int(one.sha256, 16) for one in pinned)
    names = [one.package for one in pinned if one.destination == "root"]
    assert len(names) == len(set(names)) and {*root_lock.PACKAGES, *root_lock.BACKPORTS} <= set(
        names
    )


def test_a_download_that_stops_goes_on_where_it_was(bench: InstallContext, tmp_path: Path) -> None:
    files = [package(tmp_path, name, "1.0") for name in "ab"]
    place = tmp_path / "place"
    with pytest.raises(apt.ArchiveError, match="Connection reset"):
        rootfs.download_packages(Mirror(files, gives=1), pinned_of(*files), place)
    assert [path.name for path in place.glob("*.deb")] == ["bookworm_a_1.0.deb"]

    left = pinned_of(files[1])
    rootfs.download_packages(Mirror(files), left, place)

    assert len(list(place.glob("*.deb"))) == 2


def test_another_file_of_a_pinned_version_is_not_taken(
    bench: InstallContext, tmp_path: Path
) -> None:
    file = package(tmp_path, "a", "1.0")
    one = PinnedPackage("root", "bookworm", "a", "1.0", "0" * 64)
    download = partial(rootfs.download_packages, Mirror([file]), [one], tmp_path / "place")
    assert "not the one that" in refusal(download, HashMismatch)
    assert not list((tmp_path / "place").rglob("*.deb"))


def test_a_mirror_that_moved_on_gives_its_newest_of_the_suite() -> None:
    one = PinnedPackage("root", "bookworm", "a", "1.0-1", "0" * 64)
    offered = [
        PackageCandidate("a", version, suite)
        for version, suite in (("1.0-2", "bookworm"), ("1.1-1", "bookworm"), ("2.0-1", "trixie"))
    ]
    taken = rootfs.match_offered(one, offered, [])
    assert (taken.version, taken.sha256) == ("1.1-1", "")
    assert (
        rootfs.match_offered(one, [*offered, PackageCandidate("a", "1.0-1", "bookworm")], []) is one
    )
    with pytest.raises(SetupError, match="bookworm does not have a"):
        rootfs.match_offered(one, offered[2:], ["no network"])


def test_a_full_disk_is_said_before_anything_is_fetched(
    bench: InstallContext, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rootfs, "BYTES", 1 << 60)
    with pytest.raises(SetupError, match="make room"):
        rootfs.provide_root(bench)
    assert not (bench.cache / "build/root").exists()


def test_the_hash_is_of_names_contents_links_and_rights(tmp_path: Path) -> None:
    def tree(name: str) -> Path:
        made = tmp_path / name
        (made / "bin").mkdir(parents=True)
        (made / "bin/a").write_text("a")
        (made / "bin/b").symlink_to("a")
        (made / "empty").mkdir()
        return made

    first, second = rootfs.hash_of(tree("1")), tree("2")
    os.utime(second / "bin/a", (1, 1))
    (second / "bin/a").chmod(0o600)
    assert rootfs.hash_of(second) == first
    (second / "bin/a").chmod(0o755)
    assert rootfs.hash_of(second) != first


def test_its_programs_run_on_the_host_and_its_python_is_its_own(made: rootfs.GuestRoot) -> None:
    words, environ = made.python(
        "-c", "import mininet, sys; print(mininet.__cached__, sys.version_info[:2])"
    )
    said = subprocess.run(words, env=environ, capture_output=True, text=True, check=True).stdout
    assert said.startswith(str(made.tree)) and "(3, 11)" in said


@pytest.mark.slow
def test_its_byte_code_is_of_its_own_modules_and_of_no_hosts(
    made: rootfs.GuestRoot, tmp_path: Path
) -> None:
    """Debian's sitecustomize.py is a link to an absolute path, and so is one of no host here."""
    tree, lib = tmp_path / "tree", "usr/lib/python3.11"
    shutil.copytree(
        made.tree / lib, tree / lib, symlinks=True, ignore=shutil.ignore_patterns("__pycache__")
    )
    for name in ("usr/bin", rootfs.LIBRARIES):
        (tree / name).parent.mkdir(exist_ok=True)
        (tree / name).symlink_to(made.tree / name)
    own = f"etc/{tmp_path.name}/sitecustomize.py"
    (tree / own).parent.mkdir(parents=True)
    (tree / own).write_text("OF_ITS_OWN = 1\n")
    (link := tree / lib / "sitecustomize.py").unlink()
    link.symlink_to(f"/{own}")

    rootfs.compile_python(rootfs.GuestRoot(tree, {}), tmp_path / "log")

    assert os.readlink(link) == f"/{own}"
    [code] = (tree / lib / "__pycache__").glob("sitecustomize.*.pyc")
    assert b"OF_ITS_OWN" in code.read_bytes() and str(tmp_path).encode() not in code.read_bytes()


def test_what_it_says_of_itself_is_so(made: rootfs.GuestRoot) -> None:
    assert rootfs.hash_of(made.tree) == made.hash
    rights = [
        path.stat().st_mode & 0o7777 for path in made.tree.rglob("*") if not path.is_symlink()
    ]
    assert set(rights) <= {0o755, 0o644, 0o555, 0o444}


@pytest.mark.skipif(not shutil.which("patchelf"), reason="patchelf is missing")
@pytest.mark.parametrize("version", ["3.18", "3.12", "3.9"])
def test_its_iperf3s_name_their_libraries_by_path(made: rootfs.GuestRoot, version: str) -> None:
    """So no look for the CPU's variant of a library takes virtual time."""
    lib = made.tree / "usr/lib/gostlab/iperf3" / version / "lib"

    named = deb_extract.named_libraries(lib.parent / "iperf3", ["patchelf"])

    assert {Path(name).parent for name in named} == {Path("/", lib.relative_to(made.tree))}
    names = {Path(name).name for name in named}
    libraries = {path.name: path for path in lib.iterdir()}
    needed = deb_extract.needed_libraries([libraries[name] for name in names], libraries)
    assert {*needed} - names == {path.name for path in lib.glob(deb_extract.LOADER)}
