# SPDX-License-Identifier: MIT
"""What is derived from apt's answers, and that the private apt leaves the machine's alone."""

import hashlib
import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from gostlab.install import apt as archive
from gostlab.install.apt import Mirror, PackageCandidate
from tests.lab_command import said_by

# REPO_URI, RELEASE, CODENAME, ORIGIN, COMPONENT, ARCHITECTURE, SIGNED_BY
BOOKWORM = [
    [f"https://m.example/{place}/", suite, suite, "Debian", component, "amd64", signed]
    for place, suite, component, signed in (
        ("security", "bookworm-security", "main", ""),
        ("debian", "bookworm-updates", "main", ""),
        ("debian", "bookworm", "contrib", ""),
        ("debian", "bookworm", "main", "$(SIGNED_BY)"),
    )
]


def targets(rows: list[list[str]]) -> str:
    return "".join("\t".join(row) + "\n" for row in rows)


FILE, NAMED = __file__, archive.__file__  # files, as keyrings are
URI, MAIN = "https://m.example/debian/", BOOKWORM[3][:6]
MIRROR = Mirror(URI, "bookworm", "amd64", Path(FILE))
NO_KEYRING = replace(MIRROR, keyring=None)
UNKNOWN = ["$(CODENAME)", "$(ORIGIN)", "main", "amd64", "$(SIGNED_BY)"]


@pytest.mark.parametrize(
    ("rows", "keyring", "mirror"),
    [
        (BOOKWORM, FILE, MIRROR),  # of the main suite
        ([[*MAIN, NAMED]], FILE, replace(MIRROR, keyring=Path(NAMED))),
        ([[*MAIN, "6D33866EDD8FFA41C0143AEDDCC9EFBF77E11517"]], "/none.gpg", NO_KEYRING),
        # before the first update the codename is the suite's, or the system's
        ([[URI, "trixie", *UNKNOWN]], FILE, replace(MIRROR, codename="trixie")),
        ([[URI, "stable", *UNKNOWN]], FILE, MIRROR),
        ([], FILE, None),
        ([[URI, "noble", "noble", "Ubuntu", "main", "amd64", ""]], FILE, None),
        ([[URI, *["bookworm-backports"] * 2, "Debian", "main", "amd64", ""]], FILE, None),
    ],
)
def test_the_mirror_is_that_of_debians_main_suite(
    rows: list[list[str]], keyring: str, mirror: Mirror | None
) -> None:
    assert archive.parse_mirror(targets(rows), "bookworm", [keyring]) == mirror


def test_a_mirror_without_a_keyring_has_the_machines_keys() -> None:
    assert "signed-by" not in archive.sources_list(NO_KEYRING, ["sid"])
    assert f"signed-by={FILE}" in archive.sources_list(MIRROR, ["sid"])


def test_backports_come_before_newer_releases() -> None:
    groups = archive.suite_groups("bookworm")
    assert groups[0][:2] == ["bookworm-backports", "trixie-backports"]
    assert groups[1:3] == [["bookworm"], ["trixie"]]
    assert groups[-1] == ["sid"]
    assert archive.suite_groups("later") == [["later-backports"], ["later"], ["sid"]]
    assert archive.suite_groups("sid") == [["sid"]]


MADISON = """\
linux-source-6.12 | 6.12.95-1~bpo12+1 | http://m.example/debian bookworm-backports/main amd64 Packages
  iproute2 |    6.1.0-3 | http://m.example/debian bookworm/main amd64 Packages
linux-source-7.3 | 7.3.4-1~bpo13+1 | http://m.example/debian trixie-backports/main amd64 Packages
linux-source-7.3 | 7.3.4-1 | http://m.example/debian sid/main Sources
linux-source-7.10 | 7.10.1-1~bpo13+1 | http://m.example/debian trixie-backports/main amd64 Packages
"""


def test_versions_are_compared_as_numbers_and_old_ones_left_out() -> None:
    found = archive.newest_first(archive.parse_madison(MADISON), (6, 16))
    assert found == [
        PackageCandidate("linux-source-7.10", "7.10.1-1~bpo13+1", "trixie-backports"),
        PackageCandidate("linux-source-7.3", "7.3.4-1~bpo13+1", "trixie-backports"),
    ]


def test_an_epoch_is_no_part_of_the_upstream_version() -> None:
    assert PackageCandidate("x", "2:1.19~1", "sid").upstream == (1, 19)


def test_the_private_configuration_takes_over_the_transport_and_no_hook(tmp_path: Path) -> None:
    dump = "\n".join(
        [
            'APT::Update::Post-Invoke:: "rm -f /var/cache/apt/archives/*.deb";',
            'DPkg::Post-Invoke:: "true";',
            'Acquire::http::Proxy "http://proxy.example:3128";',
            'Acquire::Languages:: "en";',
            'Dir::State "var/lib/apt";',
        ]
    )
    text = archive.apt_configuration(tmp_path, dump)
    assert 'Acquire::http::Proxy "http://proxy.example:3128";' in text
    assert "Invoke" not in text
    assert '"var/lib/apt"' not in text
    assert 'AllowInsecureRepositories "false"' in text


def fingerprint(folder: Path) -> str:
    """Names, modes, times and contents of everything under a folder."""
    total = hashlib.sha256()
    for path in sorted(folder.rglob("*")):
        status = path.lstat()
        total.update(f"{path} {status.st_mode} {status.st_mtime_ns} {status.st_size}\n".encode())
        if path.is_file():
            try:
                total.update(path.read_bytes())
            except PermissionError:
                continue
    return total.hexdigest()


@pytest.fixture
def mirror() -> Mirror:
    """Where this machine has its packages from."""
    found = archive.find_mirror() if shutil.which("apt-get") else None
    return found or pytest.skip("no Debian mirror")


@pytest.mark.slow
@pytest.mark.network
def test_a_private_look_leaves_the_machines_apt_byte_identical(
    tmp_path: Path, mirror: Mirror
) -> None:
    # The smallest suite there is: the point is what the look leaves behind, not what it finds.
    suites = [f"{mirror.codename}-backports"]
    watched = [Path("/etc/apt"), Path("/var/lib/apt"), Path("/var/cache/apt")]
    before = [fingerprint(folder) for folder in watched]
    apt = archive.PrivateApt(tmp_path / "apt with a space", mirror)
    found = list(apt.find_matching("iproute2", (6,), [suites]))
    after = [fingerprint(folder) for folder in watched]
    assert after == before
    if apt.complaints:
        pytest.skip("the Debian mirror did not answer")
    assert [candidate.package for candidate in found[:1]] in ([], ["iproute2"])


@pytest.mark.skipif(shutil.which("apt-get") is None, reason="no apt-get")
def test_the_private_apt_reads_no_configuration_of_the_machines(tmp_path: Path) -> None:
    mirror = Mirror("http://m.example/debian", "bookworm", "amd64", None)
    private = archive.PrivateApt(tmp_path, mirror)
    environ = {"APT_CONFIG": str(private.folder / "apt.conf"), "PATH": "/usr/bin:/bin"}
    done = said_by("apt-config", "dump", env=environ, check=True)
    assert "Post-Invoke" not in done.stdout
    assert f'Dir::State::status "{tmp_path}/state/status";' in done.stdout
    assert 'Dir::Etc::sourceparts "/dev/null";' in done.stdout


@pytest.mark.slow
@pytest.mark.network
def test_lists_that_the_keyring_does_not_verify_are_refused(tmp_path: Path, mirror: Mirror) -> None:
    nobodys = tmp_path / "nobodys.gpg"
    nobodys.write_bytes(b"")
    apt = archive.PrivateApt(tmp_path / "apt", replace(mirror, keyring=nobodys))
    assert list(apt.find_matching("iproute2", (), [[f"{mirror.codename}-backports"]])) == []
    assert apt.complaints
