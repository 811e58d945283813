# SPDX-License-Identifier: MIT
"""A mirror that moved on: what it had comes from a snapshot archive, else the newer is taken."""

import functools
import shutil
import subprocess
import threading
from collections.abc import Iterator
from hashlib import sha256
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from gostlab.install import apt, locate, rootfs
from gostlab.install.build_env import InstallContext
from gostlab.install.rootfs import PinnedPackage
from tests.install.programs import CONTROL, package

pytestmark = pytest.mark.skipif(
    not all(map(shutil.which, ("apt-get", "dpkg-deb", "gpg"))), reason="no apt or no gpg"
)


class RunObserver(SimpleHTTPRequestHandler):
    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def served(tmp_path: Path) -> Iterator[tuple[Path, str]]:
    """A folder, and its address."""
    folder = tmp_path / "served"
    folder.mkdir()
    handler = functools.partial(RunObserver, directory=str(folder))
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield folder, f"http://127.0.0.1:{server.server_port}"
        server.shutdown()


@pytest.fixture
def gpg(tmp_path: Path) -> Iterator[list[str]]:
    """gpg with a key of its own."""
    home = tmp_path / "gpg"
    home.mkdir(mode=0o700)
    words = ["gpg", "--homedir", str(home), "--batch", "--quiet", "--passphrase", ""]
    subprocess.run([*words, "--quick-gen-key", "x"], check=True)
    subprocess.run([*words, "--output", tmp_path / "keys.gpg", "--export"], check=True)
    yield words
    # It starts an agent, which would stay.
    subprocess.run(["gpgconf", "--homedir", str(home), "--kill", "gpg-agent"], check=True)


def archive_of(folder: Path, version: str, until: int, gpg: list[str]) -> str:
    """A signed archive of one package, with lists that hold until some year; the package's sum."""
    file = package(folder, "a", version)
    hashed = sha256(file.read_bytes()).hexdigest()
    listed = f"Filename: {file.name}\nSize: {file.stat().st_size}\nSHA256: {hashed}\n"
    packages = folder / "dists/bookworm/main/binary-amd64/Packages"
    packages.parent.mkdir(parents=True)
    packages.write_text(CONTROL.format("a", version) + listed)
    content = packages.read_bytes()
    release = folder / "dists/bookworm/Release"
    release.write_text(
        "Origin: Debian\nSuite: bookworm\nCodename: bookworm\nComponents: main\n"
        "Architectures: amd64 all\nDate: Sat, 01 Jan 2022 00:00:00 UTC\n"
        f"Valid-Until: Sun, 02 Jan {until} 00:00:00 UTC\nSHA256:\n"
        f" {sha256(content).hexdigest()} {len(content)} main/binary-amd64/Packages\n"
    )
    signed = ["--output", release.with_name("InRelease"), "--clearsign", release]
    subprocess.run([*gpg, *signed], check=True)
    return hashed


@pytest.mark.slow
def test_what_a_mirror_had_is_fetched_from_a_snapshot_and_else_the_newer_taken(
    tmp_path: Path, served: tuple[Path, str], gpg: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    folder, address = served
    pinned = archive_of(folder / f"archive/debian/{rootfs.snapshot_time()}", "1.0-1", 2022, gpg)
    archive_of(folder / "debian", "1.0-2", 2222, gpg)
    mirror = apt.Mirror(f"{address}/debian", "bookworm", "amd64", tmp_path / "keys.gpg")
    monkeypatch.setattr(apt, "find_mirror", lambda: mirror)
    one = PinnedPackage("root", "bookworm", "a", "1.0-1", pinned)

    monkeypatch.setenv("GOSTLAB_SNAPSHOT", f"{address}/archive/debian")
    bench = InstallContext(tmp_path / "cache", 1, lambda _: None, -1, step="root")
    [(_, file)], newer = rootfs.fetch_packages(bench, [one])
    assert (locate.file_sha256(file), newer) == (pinned, [])

    monkeypatch.setattr(apt, "find_snapshot", lambda: None)
    other = InstallContext(tmp_path / "other", 1, lambda _: None, -1, step="root")
    [(_, file)], newer = rootfs.fetch_packages(other, [one])
    assert file.name == "bookworm_a_1.0-2.deb"
    assert newer == ["a 1.0-1 has gone from the mirror: 1.0-2 taken"]


def test_the_snapshot_is_the_users_or_the_one_that_the_machines_sources_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("GOSTLAB_SNAPSHOT", raising=False)
    text = (
        "Types: deb\n# http://s.example/archive/debian/20250520T000000Z\nURIs: http://m.example\n"
    )
    (tmp_path / "debian.sources").write_text(text)
    assert apt.find_snapshot([str(tmp_path / "*")]) == "http://s.example/archive/debian"
    assert apt.find_snapshot([]) is None
    monkeypatch.setenv("GOSTLAB_SNAPSHOT", "http://u.example/archive/debian/")
    assert apt.find_snapshot([str(tmp_path / "*")]) == "http://u.example/archive/debian"
