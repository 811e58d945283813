# SPDX-License-Identifier: MIT
"""Debian's archive, read privately: packages from newer suites of the machine's own mirror.

The machine's apt says which mirror it uses; an apt with its own lists, cache and configuration, all
in one folder of the lab's, then asks that mirror for other suites. Everything that comes back is
verified by the archive's keyring as always. Nothing is installed; the machine's apt stays as it
was.
"""

from __future__ import annotations

import os
import platform
import re
import shutil
import subprocess
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from glob import glob
from pathlib import Path

from gostlab.install.build_env import SetupError
from gostlab.install.locate import version_tuple

# Codenames in the order of release. A newer one still works, but without its successors.
CODENAMES = ("bullseye", "bookworm", "trixie", "forky", "duke")
KEYRINGS = (
    "/usr/share/keyrings/debian-archive-keyring.gpg",
    "/usr/share/keyrings/debian-archive-keyring.pgp",
)
TARGET_FIELDS = "REPO_URI RELEASE CODENAME ORIGIN COMPONENT ARCHITECTURE SIGNED_BY".split()
SOURCES = ("/etc/apt/sources.list", "/etc/apt/sources.list.d/*")
# A snapshot archive has the mirror's state at any time; Debian's images name it in a comment.
SNAPSHOT = re.compile(r"(https?://\S+/archive/debian)/\d{8}T\d{6}Z")
LIBRARY_SECTIONS = ("libs", "oldlibs")
# The machine's options for reaching its mirror are copied, but nothing else: above all no hooks.
TRANSPORT = re.compile(
    r"^Acquire::(https?|ForceIPv[46]|Check-|Max-ValidTime|Retries|Queue-Mode)", re.I
)


class ArchiveError(SetupError):
    """An error while reading the archive; the message has the reason."""


@dataclass(frozen=True)
class Mirror:
    """A Debian mirror, as this machine's apt knows it."""

    uri: str
    codename: str  # the suite that the machine runs: bookworm
    architecture: str
    keyring: Path | None  # None: the keys that the machine's apt trusts


@dataclass(frozen=True)
class PackageCandidate:
    """A package of a suite."""

    package: str
    version: str
    suite: str

    @property
    def upstream(self) -> tuple[int, ...]:
        """Return the upstream version: 7.3.4-1~bpo13+1 is (7, 3, 4)."""
        return version_tuple(self.version.split(":")[-1])

    def __str__(self) -> str:
        return f"{self.package} {self.version} from {self.suite}"


# -- pure functions: parse apt's output


def targets_argv(*, downloaded: bool) -> list[str]:
    """Ask apt for its package lists (downloaded=False: for those after an update)."""
    fields = "\t".join(f"$({field})" for field in TARGET_FIELDS)
    release_info = [] if downloaded else ["--no-release-info"]
    return ["apt-get", "indextargets", *release_info, "--format", fields, "Created-By: Packages"]


def target_fields(targets: str) -> Iterator[dict[str, str]]:
    """Yield the fields of each line; one unknown to apt (Debian 12's "$(SIGNED_BY)") is empty."""
    for values in (line.split("\t") for line in targets.splitlines()):
        if len(values) == len(TARGET_FIELDS):
            fields = zip(TARGET_FIELDS, values, strict=True)
            yield {name: "" if value == f"$({name})" else value for name, value in fields}


def parse_mirror(
    targets: str, os_codename: str, keyrings: Iterable[str] = KEYRINGS
) -> Mirror | None:
    """Return the mirror in the output of targets_argv, None if it is not Debian's.

    `os_codename` is the release's codename if no list names one.
    """
    for field in target_fields(targets):
        named = field["RELEASE"] if field["RELEASE"] in (*CODENAMES, "sid") else os_codename
        codename = field["CODENAME"] or named
        is_main_suite = "-" not in field["RELEASE"] and "-" not in codename and codename != ""
        if (
            field["ORIGIN"] not in ("", "Debian")
            or field["COMPONENT"] != "main"
            or not is_main_suite
        ):
            continue
        # Signed-By may also be a fingerprint, or a key written out.
        known = [
            path
            for path in (field["SIGNED_BY"], *keyrings)
            if path.startswith("/") and os.path.isfile(path)
        ]
        return Mirror(
            field["REPO_URI"], codename, field["ARCHITECTURE"], Path(known[0]) if known else None
        )
    return None


def parse_security(targets: str, mirror: Mirror) -> Mirror | None:
    """Return the security archive with the mirror's keys, None if apt has none."""
    for field in target_fields(targets):
        if field["RELEASE"].endswith("-security") and field["COMPONENT"] == "main":
            return replace(mirror, uri=field["REPO_URI"])
    return None


def archives_and_suites(
    folder: Path, mirror: Mirror
) -> Iterator[tuple[PrivateApt, list[list[str]]]]:
    """Yield the archives and suites in which a package of any release may be.

    The security archive comes first, which supports a release longest, then the mirror; old
    releases are included.
    """
    targets = subprocess.run(targets_argv(downloaded=True), capture_output=True, text=True).stdout
    security = parse_security(targets, mirror)
    if security is not None:
        suites = [f"{name}-security" for name in CODENAMES]
        yield PrivateApt(folder, security), [suites]
    older = [[name] for name in CODENAMES if [name] not in suite_groups(mirror.codename)]
    yield PrivateApt(folder, mirror), [*suite_groups(mirror.codename), *older]


def suite_groups(codename: str) -> list[list[str]]:
    """Return the suites that may have something newer; those of a group are read at once.

    Backports, built for a stable release, come before whole newer releases.
    """
    later = list(CODENAMES[CODENAMES.index(codename) :]) if codename in CODENAMES else [codename]
    if codename == "sid":
        return [["sid"]]
    return [[f"{name}-backports" for name in later], *([name] for name in later), ["sid"]]


def parse_madison(text: str) -> list[PackageCandidate]:
    """Parse the output of `apt-cache madison`: package, version and suite per line."""
    lines = re.findall(
        r"^\s*(\S+) \|\s+(\S+) \|\s+\S+ ([^\s/]+)/\S+ .*Packages$", text, re.MULTILINE
    )
    return [PackageCandidate(*line) for line in lines]


def newest_first(
    candidates: Iterable[PackageCandidate], oldest: tuple[int, ...]
) -> list[PackageCandidate]:
    """Return candidates of at least version `oldest`, the newest upstream version first."""
    return sorted(
        (one for one in candidates if one.upstream >= oldest),
        key=lambda one: (one.upstream, one.version),
        reverse=True,
    )


def apt_configuration(folder: Path, machine_dump: str) -> str:
    """Return the private apt's configuration, given the machine's (`apt-config dump`)."""
    options = {
        # The machine's own configuration files are not read on top of this one.
        "Dir::Etc::main": "/dev/null",
        "Dir::Etc::parts": "/dev/null",
        "Dir::Etc::sourcelist": str(folder / "sources.list"),
        "Dir::Etc::sourceparts": "/dev/null",
        "Dir::Etc::preferences": "/dev/null",
        "Dir::Etc::preferencesparts": "/dev/null",
        "Dir::State": str(folder / "state"),
        "Dir::State::status": str(folder / "state/status"),
        "Dir::Cache": str(folder / "cache"),
        "Dir::Log": str(folder / "log"),
        # The download methods run as the caller: the _apt user may not enter a home folder.
        "APT::Sandbox::User": "root" if os.geteuid() == 0 else "",
        "Acquire::Languages": "none",
        "Acquire::AllowInsecureRepositories": "false",
        "Acquire::AllowWeakRepositories": "false",
        "Acquire::AllowDowngradeToInsecureRepositories": "false",
        "APT::Get::AllowUnauthenticated": "false",
    }
    transport = [line for line in machine_dump.splitlines() if TRANSPORT.match(line)]
    patience = ['Acquire::Retries "3";', 'Acquire::http::Timeout "20";']
    lines = [*patience, *transport, *(f'{key} "{value}";' for key, value in options.items())]
    return "".join(f"{line}\n" for line in lines)


def sources_list(mirror: Mirror, suites: Iterable[str], kind: str = "deb") -> str:
    """Return the sources.list for some suites of a mirror, of packages or (deb-src) sources."""
    options = f"arch={mirror.architecture}"
    if mirror.keyring is not None:
        options += f" signed-by={mirror.keyring}"
    return "".join(f"{kind} [{options}] {mirror.uri} {suite} main\n" for suite in suites)


# -- reading


def find_mirror() -> Mirror | None:
    """Return the mirror of this machine's apt; None without apt, or if it is not Debian's."""
    if shutil.which("apt-get") is None:
        return None
    try:
        os_release = platform.freedesktop_os_release()
    except OSError:
        return None
    if os_release["ID"] != "debian":
        return None
    for downloaded in (True, False):
        targets = subprocess.run(
            targets_argv(downloaded=downloaded), capture_output=True, text=True
        ).stdout
        mirror = parse_mirror(targets, os_release.get("VERSION_CODENAME", ""))
        if mirror is not None:
            return mirror
    return None


def private_apt(folder: Path, what: str, instead: str = "") -> PrivateApt:
    """Return an apt for the machine's mirror. Raises ArchiveError with an alternative."""
    mirror = find_mirror()
    if mirror is None:
        raise ArchiveError(f"there is no Debian mirror to take {what} from{instead}")
    return PrivateApt(folder, mirror)


def find_snapshot(sources: Iterable[str] = SOURCES) -> str | None:
    """Return a snapshot archive's URL: GOSTLAB_SNAPSHOT, or that in sources.list, or None."""
    variable = os.environ.get("GOSTLAB_SNAPSHOT")
    if variable:
        return variable.rstrip("/")
    files = [Path(path) for pattern in sources for path in sorted(glob(pattern))]
    texts = (file.read_text(encoding="utf-8", errors="replace") for file in files)
    return next((match[1] for text in texts if (match := SNAPSHOT.search(text))), None)


def apt_of_snapshot(apt: PrivateApt, moment: str) -> PrivateApt | None:
    """Return an apt for a time (20261125T000000Z), None without a snapshot archive."""
    snapshot = find_snapshot()
    if snapshot is None:
        return None
    folder = apt.folder.with_name(f"{apt.folder.name}-{moment}")
    return PrivateApt(folder, replace(apt.mirror, uri=f"{snapshot}/{moment}"), is_current=False)


class PrivateApt:
    """A private apt in one folder; is_current: its lists must not have expired."""

    def __init__(self, folder: Path, mirror: Mirror, *, is_current: bool = True) -> None:
        self.folder = folder
        self.mirror = mirror
        self.complaints: list[str] = []
        for name in ("state/lists/partial", "cache/archives/partial", "log"):
            (folder / name).mkdir(parents=True, exist_ok=True)
        (folder / "state/status").touch()
        dump = subprocess.run(["apt-config", "dump"], capture_output=True, text=True).stdout
        if not is_current:
            dump += '\nAcquire::Check-Valid-Until "false";'
        (folder / "apt.conf").write_text(apt_configuration(folder, dump), encoding="utf-8")

    def find_matching(
        self,
        package: str,
        oldest: tuple[int, ...],
        groups: Iterable[Sequence[str]],
        say: Callable[[str], None] = lambda _: None,
    ) -> Iterator[PackageCandidate]:
        """Yield the packages that match a name pattern and a minimum version.

        The newest of a group of suites comes first; the next group is read only if the caller goes
        on. `complaints` collects apt's messages except those on suites that do not exist yet.
        """
        for suites in groups:
            say(f"looking in {', '.join(suites)}")
            self.read_suites(suites)
            known = self._run("apt-cache", "pkgnames").stdout.split()
            names = [name for name in known if re.fullmatch(package, name)]
            yield from newest_first(self.versions(names) if names else (), oldest)

    def download(self, candidate: PackageCandidate, into: Path) -> Path:
        """Fetch a package file, verified against the signed lists. Raises ArchiveError."""
        self.download_current([f"{candidate.package}={candidate.version}"], into)
        return sorted(into.glob(f"{candidate.package}_*.deb"))[-1]

    def download_current(self, packages: Sequence[str], into: Path) -> list[Path]:
        """Fetch package files from the suites read last. Raises ArchiveError."""
        into.mkdir(parents=True, exist_ok=True)
        process = self._run("apt-get", "--quiet=2", "download", *packages, cwd=into)
        if process.returncode != 0:
            raise ArchiveError(
                f"{', '.join(packages)} did not come: {_last_line(process.stderr.splitlines())}"
            )
        return sorted(into.glob("*.deb"))

    def download_sources(self, sources: Iterable[str], suites: Sequence[str], into: Path) -> None:
        """Fetch the sources (`bash=5.2.15-2`) that the mirror has; files of failed ones stay."""
        into.mkdir(parents=True, exist_ok=True)
        self.read_suites(suites, "deb-src")
        argv = ("apt-get", "--quiet=2", "source", "--download-only", "--only-source")
        self._run(*argv, *sources, cwd=into)

    def versions(self, packages: Iterable[str]) -> list[PackageCandidate]:
        """Return the versions of packages in the suites read last."""
        return parse_madison(self._run("apt-cache", "madison", *packages).stdout)

    def with_libraries(self, packages: Sequence[str], more: str = "$.") -> list[str]:
        """Return packages, their library dependencies, and what matches. Raises ArchiveError."""
        options = [
            f"--no-{relation}"
            for relation in (
                "recommends",
                "suggests",
                "conflicts",
                "breaks",
                "replaces",
                "enhances",
            )
        ]
        depends = self._run("apt-cache", "depends", "--recurse", *options, *packages)
        names = [line for line in depends.stdout.splitlines() if re.match(r"[a-z0-9]", line)]
        missing = [name for name in packages if name not in names]
        if missing:
            raise ArchiveError(f"the mirror does not have {', '.join(missing)}")
        records = self._run("apt-cache", "show", "--no-all-versions", *names).stdout
        sections = dict(re.findall(r"^Package: (\S+)$.*?^Section: (\S+)$", records, re.M | re.S))
        matching = (
            name
            for name in names
            if sections.get(name) in LIBRARY_SECTIONS or re.fullmatch(more, name)
        )
        return list(dict.fromkeys([*packages, *matching]))

    def read_suites(self, suites: Sequence[str], kind: str = "deb") -> None:
        """Read the lists of some suites, which later queries refer to."""
        (self.folder / "sources.list").write_text(
            sources_list(self.mirror, suites, kind), encoding="utf-8"
        )
        errors = self._run("apt-get", "--quiet=2", "update").stderr.splitlines()
        # Not every release has backports yet.
        errors = [line for line in errors if "does not have a Release file" not in line]
        if errors:
            self.complaints.append(f"apt said of {', '.join(suites)}: {_last_line(errors)}")

    def _run(self, *argv: str, cwd: Path | None = None) -> subprocess.CompletedProcess[str]:
        environment = {
            **os.environ,
            "APT_CONFIG": str(self.folder / "apt.conf"),
            "LC_ALL": "C.UTF-8",
        }
        return subprocess.run(
            argv, env=environment, cwd=cwd, capture_output=True, text=True, stdin=subprocess.DEVNULL
        )


def _last_line(output: Sequence[str]) -> str:
    lines = [line for line in output if line.strip()]
    return lines[-1].removeprefix("E: ") if lines else "apt gave no reason"
