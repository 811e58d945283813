# SPDX-License-Identifier: MIT
"""Build the sandbox's root: a Debian of the lab's own, unpacked as an ordinary user.

`root.lock` beside this module pins each package by version and SHA-256. A private apt fetches them
from the machine's own mirror; nothing is installed, and no maintainer script runs. The results of
these scripts that a guest needs (links, users, the loader's cache, byte code) are created here. The
same lock makes the same files on any host; one digest over all of them names the root.

    <cache>/root/<hash of lock and recipe>/tree         the root
                                          /root.json    its hash, its packages, its iperf3s
"""

from __future__ import annotations

import contextlib
import hashlib
import lzma
import os
import re
import shutil
import stat
import sys
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cache as once
from pathlib import Path
from typing import TYPE_CHECKING, TypedDict, cast

from gostlab.atomic_write import write_json
from gostlab.install import apt as archive
from gostlab.install import deb_extract, locate
from gostlab.install.build_env import (
    HashMismatch,
    InstallContext,
    SetupError,
    lock_folder,
    replaced_folder,
    require_space,
    run_logged,
)
from gostlab.install.deb_extract import shared_libraries
from gostlab.registry.folders import BROUGHT, FIRST_IN_ROOT, cache_folder

if TYPE_CHECKING:
    import tarfile

PACKED = BROUGHT / "root.tar.xz"  # part of a package from `make wheel`
LOCK = Path(__file__).with_name("root.lock")
# It mounts the lab and continues with the lab's init.
FIRST = Path(__file__).parents[1] / "sandbox" / "guest_stage0.py"
RECIPE = 5  # incremented if the same packages make another root
MACHINE = "x86_64"
BYTES = 500_000_000  # disk space for packages and tree during the build
UNPACKED_BYTES = 200_000_000
LIBRARIES = "usr/lib/x86_64-linux-gnu"
LOADER = f"{LIBRARIES}/ld-linux-x86-64.so.2"
PYTHON = "usr/bin/python3.11"

# -- the packages

SUITE = "bookworm"
EXCLUDE = Path(__file__).with_name("root-exclude.txt")
# Libraries of its release's C library that no iperf3 opens.
UNOPENED = re.compile(
    r"lib(BrokenLocale|SegFault|anl|c_malloc_debug|memusage|mvec|nsl|pcprofile|thread_db)\b"
)
FOLDERS = "dev etc home mnt opt proc root run srv sys tmp var/tmp usr/lib/gostlab".split()
# Files that maintainer scripts would have created.
LINKS = {"usr/bin/awk": "mawk", "usr/bin/which": "which.debianutils", "usr/bin/python": "python3"}
# The system's iperf3, for runs without an iperf3 of the lab's own, is that of the root's Debian.
LINKS["usr/bin/iperf3"] = "../lib/gostlab/iperf3/3.12/iperf3"
COPIES = {
    "etc/passwd": "usr/share/base-passwd/passwd.master",
    "etc/group": "usr/share/base-passwd/group.master",
}
FILES = {
    "etc/hosts": "127.0.0.1 localhost\n::1 localhost\n",
    "etc/hostname": "gostlab\n",
    "etc/nsswitch.conf": "passwd: files\ngroup: files\nshadow: files\nhosts: files\n",
}


def excluded() -> list[str]:
    """Return the patterns of files that the root leaves out."""
    lines = EXCLUDE.read_text(encoding="utf-8").splitlines()
    return [line for line in lines if not line.startswith("#")]


@dataclass(frozen=True)
class PinnedPackage:
    """A package of the lock.

    place: root; an iperf3 (iperf3/3.18); tool: a package with which the root is built.
    """

    destination: str
    suite: str
    package: str
    version: str
    sha256: str

    @property
    def file_name(self) -> str:
        """Return apt's file name with the suite, so that it is unique."""
        return f"{self.suite}_{self.package}_{self.version.replace(':', '%3a')}.deb"

    def __str__(self) -> str:
        return f"{self.package} {self.version}"


def read_lock() -> list[PinnedPackage]:
    """Return the packages of the root."""
    lines = LOCK.read_text(encoding="utf-8").splitlines()
    return [PinnedPackage(*line.split()) for line in lines if line and not line.startswith("#")]


def snapshot_time() -> str:
    """Return the time at which the mirror had all packages, in the format of snapshot archives."""
    return re.findall(r"\b\d{8}T\d{6}Z\b", LOCK.read_text(encoding="utf-8"))[0]


# -- locate a root


class RootRecord(TypedDict, total=False):
    """The contents of root.json."""

    suite: str
    hash: str
    newer: object
    packages: list[str]
    iperf3: dict[str, dict[str, str]]
    sources: dict[str, list[str]]


@dataclass(frozen=True)
class GuestRoot:
    """An existing root."""

    tree: Path
    record: RootRecord = field(hash=False)

    @property
    def search_path(self) -> str:
        """Return the host's PATH of the root's programs."""
        return os.pathsep.join(str(self.tree / name) for name in ("usr/sbin", "usr/bin"))

    @property
    def hash(self) -> str:
        """Return the SHA-256 over the whole root: runs with the same digest have the same files."""
        return str(self.record["hash"])

    def says(self) -> dict[str, str]:
        """Return the root's entry in a run's record."""
        return {"suite": self.record["suite"], "hash": self.record["hash"]}

    def argv(self, program: str, *args: str | Path) -> list[str | Path]:
        """Return the host's command for one of the root's programs, with its own loader."""
        return [
            self.tree / LOADER,
            "--library-path",
            self.tree / LIBRARIES,
            self.tree / program,
            *args,
        ]

    def python(self, *args: str | Path) -> tuple[list[str | Path], dict[str, str]]:
        """Return the host's command for the root's Python, and its environment."""
        environ = {"PYTHONHOME": str(self.tree / "usr"), "PYTHONHASHSEED": "0", "LC_ALL": "C.UTF-8"}
        return self.argv(PYTHON, *args), environ


@once
def inputs_hash() -> str:
    """Return the digest of a root's inputs: the lock, its init program, and the recipe."""
    total = hashlib.sha256(f"{RECIPE}\n{LINKS}{COPIES}{FILES}\n".encode())
    for file in (EXCLUDE, LOCK, FIRST):
        total.update(file.read_bytes())
    return total.hexdigest()[:12]


def find_root(cache: Path | None = None) -> GuestRoot | None:
    """Return the root of today's lock: this package's, user's or machine's. Raises MissingPart."""
    return bundled_root() if PACKED.is_file() and cache is None else find_unpacked_root(cache)


def find_unpacked_root(cache: Path | None = None) -> GuestRoot | None:
    """Return an unpacked root of today's lock, None if there is none."""
    for folder in locate.versions_of("root", inputs_hash(), cache):
        record = locate.read_json(folder / "root.json")
        if record is not None and (folder / "tree").is_dir():
            return GuestRoot(folder / "tree", cast("RootRecord", record))
    return None


def require_root() -> GuestRoot:
    """Return the root that sandboxes boot on: that of GOSTLAB_ROOT's hash. Raises MissingPart."""
    requested = os.environ.get("GOSTLAB_ROOT", "")
    if requested and not re.fullmatch("[0-9a-f]{12,64}", requested):
        raise locate.MissingPart(f"GOSTLAB_ROOT is {requested!r}: write a root's hash")
    root = find_root()
    if root is None:
        raise locate.MissingPart("the sandbox's root is missing: run ./lab setup --only root")
    if not root.hash.startswith(requested):
        raise locate.MissingPart(
            f"GOSTLAB_ROOT asks for the root {requested[:12]}, and this machine has"
            f" {root.hash[:12]}: set it up from the same commit"
        )
    return root


def bundled_root() -> GuestRoot:
    """Return this package's root, unpacked into the cache at its first use. Raises MissingPart."""
    cache, wanted = cache_folder(), (locate.read_json(BROUGHT / "root.json") or {}).get("hash")
    try:
        root = find_unpacked_root(cache)
        if root is None or root.hash != wanted:
            cache.mkdir(parents=True, exist_ok=True)
            with lock_folder(cache, lambda _: None, "root.lock"):
                root = find_unpacked_root(cache)  # another process may have unpacked it
                if root is None or root.hash != wanted:
                    root = unpack_root(PACKED, cache, wanted)
        return root
    except SetupError as error:
        raise locate.MissingPart(str(error)) from error
    except OSError as error:
        raise locate.MissingPart(
            f"{cache}: the sandbox's root cannot be unpacked there: {error.strerror}: make"
            " room, or set GOSTLAB_CACHE to a folder elsewhere"
        ) from error


def hash_of(tree: Path) -> str:
    """Return the SHA-256 over names, contents and execute permissions below a folder."""
    total = hashlib.sha256()
    for folder, folders, files in os.walk(tree):
        folders.sort()
        for name in sorted(
            [
                *files,
                *(folder_name for folder_name in folders if Path(folder, folder_name).is_symlink()),
            ]
        ):
            path = Path(folder, name)
            if path.is_symlink():
                entry = f"-> {os.readlink(path)}"
            else:
                mode = "x" if path.stat().st_mode & stat.S_IXUSR else "-"
                entry = f"{mode} {locate.file_sha256(path)}"
            total.update(f"{path.relative_to(tree)} {entry}\n".encode())
        if not folders and not files:
            total.update(f"{Path(folder).relative_to(tree)}/\n".encode())
    return total.hexdigest()


# -- build a root


def provide_root(bench: InstallContext) -> str:
    """Build the sandbox's own root from Debian's packages. Raises SetupError."""
    existing = find_root(bench.cache)
    if existing is not None:
        return f"{root_label(existing)} (made before)"
    if os.uname().machine != MACHINE:
        raise SetupError(f"the lab's own root is for {MACHINE}, this machine {os.uname().machine}")
    pinned = read_lock()
    require_space(bench.cache, BYTES, "the sandbox's root while it is made")
    files, newer = fetch_packages(bench, pinned)
    bench.say("unpacking")
    folder = bench.cache / "root" / inputs_hash()
    with replaced_folder(folder) as finished:
        tree = finished / "tree"
        record = build_root(bench, files, tree)
        record |= {"suite": SUITE, "hash": hash_of(tree), "newer": newer}
        write_json(finished / "root.json", record)
    shutil.rmtree(bench.cache / "build" / "root", ignore_errors=True)
    root = find_root(bench.cache)
    assert root is not None
    advice = ["GOSTLAB_SNAPSHOT=URL/archive/debian gives the pinned ones"] if newer else []
    return "; ".join([root_label(root), *newer, *advice])


def root_label(root: GuestRoot) -> str:
    """Return a short label of a root."""
    return f"Debian {root.record['suite']}, {root.hash[:12]}"


def fetch_packages(
    bench: InstallContext, pinned: Sequence[PinnedPackage]
) -> tuple[list[tuple[PinnedPackage, Path]], list[str]]:
    """Fetch all packages; return their files and messages on those replaced by newer versions.

    Fetched files stay until the root is built, and the next call resumes. Raises SetupError.
    """
    packages_folder = bench.cache / "build" / "root"
    packages_folder.mkdir(parents=True, exist_ok=True)

    def missing() -> list[PinnedPackage]:
        return [one for one in pinned if not (packages_folder / one.file_name).is_file()]

    newer: dict[PinnedPackage, PinnedPackage] = {}
    if missing():
        apt = archive.private_apt(bench.apt_folder, "the sandbox's root")
        suites = list(dict.fromkeys(one.suite for one in pinned))
        offered = fetch_from(apt, suites, missing(), packages_folder, bench)
        snapshot_apt = archive.apt_of_snapshot(apt, snapshot_time()) if missing() else None
        if snapshot_apt is not None:
            fetch_from(snapshot_apt, suites, missing(), packages_folder, bench)
        newer = {one: match_offered(one, offered, apt.complaints) for one in missing()}
        download_packages(apt, list(newer.values()), packages_folder)
    messages = [
        f"{one} has gone from the mirror: {other.version} taken"
        for one, other in newer.items()
        if other is not one
    ]
    return [(one, packages_folder / newer.get(one, one).file_name) for one in pinned], messages


def fetch_from(
    apt: archive.PrivateApt,
    suites: Sequence[str],
    wanted: Sequence[PinnedPackage],
    packages_folder: Path,
    bench: InstallContext,
) -> list[archive.PackageCandidate]:
    """Fetch the pinned packages that an archive has; return its offers. Raises HashMismatch."""
    bench.say(f"fetching {len(wanted)} packages")
    apt.read_suites(suites)
    offered = apt.versions(dict.fromkeys(one.package for one in wanted))
    available = {(candidate.package, candidate.suite, candidate.version) for candidate in offered}
    with contextlib.suppress(archive.ArchiveError):  # the next archive may have the package
        download_packages(
            apt,
            [one for one in wanted if (one.package, one.suite, one.version) in available],
            packages_folder,
        )
    return offered


def match_offered(
    one: PinnedPackage, offered: Iterable[archive.PackageCandidate], complaints: Sequence[str]
) -> PinnedPackage:
    """Return a pinned package, or its replacement in the suite. Raises SetupError."""
    matching = [
        candidate
        for candidate in offered
        if (candidate.package, candidate.suite) == (one.package, one.suite)
    ]
    if any(candidate.version == one.version for candidate in matching):
        return one
    if not matching:
        reason = f" ({complaints[-1]})" if complaints else ""
        raise SetupError(f"the mirror's {one.suite} does not have {one.package}{reason}")
    newest = archive.newest_first(matching, ())[0]
    return PinnedPackage(one.destination, one.suite, one.package, newest.version, "")


def download_packages(
    apt: archive.PrivateApt, wanted: Sequence[PinnedPackage], packages_folder: Path
) -> None:
    """Download packages and verify their digests. Raises HashMismatch, ArchiveError."""
    for suite in dict.fromkeys(one.suite for one in wanted):
        suite_packages = [one for one in wanted if one.suite == suite]
        scratch = packages_folder / suite
        complaint = None
        try:
            apt.download_current(
                [f"{one.package}={one.version}" for one in suite_packages], scratch
            )
        except archive.ArchiveError as error:
            complaint = error
        for one in suite_packages:
            version = one.version.replace(":", "%3a")
            for file in scratch.glob(f"{one.package}_{version}_*.deb"):
                sha256 = locate.file_sha256(file)
                if one.sha256 not in ("", sha256):
                    file.unlink()
                    raise HashMismatch(
                        f"{one}: the mirror's file is not the one that {LOCK.name} pins: its"
                        f" SHA-256 is {sha256}, not {one.sha256} (it has been deleted)"
                    )
                file.rename(packages_folder / one.file_name)
        if complaint is not None:
            raise complaint
        missing = [
            str(one) for one in suite_packages if not (packages_folder / one.file_name).is_file()
        ]
        if missing:
            raise archive.ArchiveError(f"{', '.join(missing)} did not come: run it again")


def build_root(
    bench: InstallContext, files: Sequence[tuple[PinnedPackage, Path]], tree: Path
) -> RootRecord:
    """Build a root from packages and return its record. Raises SetupError, OSError."""
    log = bench.log("root")
    for name in FOLDERS:
        (tree / name).mkdir(parents=True, exist_ok=True)
    deb_extract.unpack(
        [file for one, file in files if one.destination == "root"], tree, log, excluded()
    )
    root = GuestRoot(tree, {})
    iperf3s = save_iperf3s(files, tree, log)
    run_maintainer_steps(tree, log)
    bench.say("compiling its Python")
    compile_python(root, log)
    packages = [f"{file.name.removesuffix('.deb')}" for _, file in files]
    return {
        "packages": sorted(packages),
        "iperf3": iperf3s,
        "sources": sources_of((one, file) for one, file in files if one.destination != "tool"),
    }


def sources_of(files: Iterable[tuple[PinnedPackage, Path]]) -> dict[str, list[str]]:
    """Return the sources of packages (`gcc-12 12.2.0-14`) with their copyright folders."""
    documents_by_source: dict[str, list[str]] = {}
    for one, file in files:
        form = "${source:Package} ${source:Version}"
        source = locate.read_output(["dpkg-deb", "--show", "--showformat", form, file]).strip()
        documents = (
            "usr/share/doc"
            if one.destination == "root"
            else f"usr/lib/gostlab/{one.destination}/doc"
        )
        documents_by_source.setdefault(source, []).append(f"{documents}/{one.package}")
    return documents_by_source


def save_iperf3s(
    files: Sequence[tuple[PinnedPackage, Path]], tree: Path, log: Path
) -> dict[str, dict[str, str]]:
    """Save the lab's own iperf3s, each with the loader and libraries of its release.

    Their copyright files are saved, too. Returns their entries in a run's record. Raises
    SetupError.
    """
    scratch = tree.with_name("scratch")
    for one, file in files:
        if one.destination != "root":
            deb_extract.unpack([file], scratch / one.destination, log)
    tool = scratch / "tool"
    libraries = ":".join(str(top / LIBRARIES) for top in (tree, tool))
    patchelf: list[str | Path] = [tree / LOADER, "--library-path", libraries]
    patchelf.append(tool / "usr/bin/patchelf")
    records = {}
    for one, _ in files:
        if one.package != "iperf3" or one.destination == "root":
            continue
        folder = tree / "usr/lib/gostlab" / one.destination
        sha256 = deb_extract.save_iperf3(scratch / one.destination, folder)
        libraries_found = list(shared_libraries(scratch / one.destination))
        # Programs open a library by its symbolic link's name, so the target's name is not needed.
        linked_names = {
            path.resolve().name for path in libraries_found if path.name != path.resolve().name
        }
        for path in list((folder / "lib").iterdir()):
            if path.name in linked_names or UNOPENED.match(path.name):
                path.unlink()
        for path in (scratch / one.destination / "usr/share/doc").glob("*/copyright"):
            if path.is_file() and not path.parent.is_symlink():
                target = folder / "doc" / path.parent.name
                target.mkdir(parents=True, exist_ok=True)
                shutil.copy2(path, target)
        inside = Path("/", folder.relative_to(tree), "lib")
        deb_extract.set_loader(folder / "iperf3", folder / "lib", inside, log, patchelf)
        records[folder.name] = {
            "path": f"/{folder.relative_to(tree)}/iperf3",
            "version": one.version,
            "sha256": sha256,
        }
    shutil.rmtree(scratch)
    return records


def run_maintainer_steps(tree: Path, log: Path) -> None:
    """Create the files of maintainer scripts that a guest needs. Raises SetupError, OSError."""
    for name, target in LINKS.items():
        (tree / name).unlink(missing_ok=True)
        (tree / name).symlink_to(target)
    for name, source in COPIES.items():
        shutil.copyfile(tree / source, tree / name)
    for name, text in FILES.items():
        (tree / name).write_text(text, encoding="utf-8")
    shutil.copyfile(FIRST, tree / FIRST_IN_ROOT.lstrip("/"))
    (tree / FIRST_IN_ROOT.lstrip("/")).chmod(0o755)
    # With -X -r ldconfig works as an ordinary user, too: without chroot it prefixes each path.
    run_logged([tree / "usr/sbin/ldconfig", "-X", "-r", tree], log)
    (tree / "usr/sbin/ldconfig").unlink()
    shutil.rmtree(tree / "var/cache", ignore_errors=True)
    # Permissions do not depend on the umask: readable by all, without set-user-ID.
    for at, _, files in os.walk(tree):
        Path(at).chmod(0o755)
        for path in (Path(at, name) for name in files):
            if not path.is_symlink():
                path.chmod(0o755 if path.stat().st_mode & stat.S_IXUSR else 0o644)


def compile_python(root: GuestRoot, log: Path) -> None:
    """Compile the root's Python modules reproducibly to byte code. Raises SetupError."""
    folders = [root.tree / "usr/lib/python3.11", root.tree / "usr/lib/python3/dist-packages"]
    args: list[str | Path] = ["-S", "-m", "compileall", "-q", "-f"]
    args += ["--invalidation-mode", "unchecked-hash", "-s", root.tree, "-p", "/", *folders]
    argv, environ = root.python(*args)
    with links_within(root.tree, (path for folder in folders for path in folder.rglob("*.py"))):
        run_logged(argv, log, environment=environ)


@contextlib.contextmanager
def links_within(tree: Path, paths: Iterable[Path]) -> Iterator[None]:
    """Redirect a root's absolute symbolic links into the root until the block ends."""
    links = {path: os.readlink(path) for path in paths if path.is_symlink()}
    links = {path: target for path, target in links.items() if target.startswith("/")}
    for path, target in links.items():
        path.unlink()
        path.symlink_to(f"{tree}{target}")
    try:
        yield
    finally:
        for path, target in links.items():
            path.unlink()
            path.symlink_to(target)


# -- pack a root as one file

AGAIN = "install or fetch it again"
# The first filter shrinks programs. The large dictionary is for copies of a library, which are
# further apart than xz's default dictionary.
FILTERS = [{"id": lzma.FILTER_X86}, {"id": lzma.FILTER_LZMA2, "preset": 9, "dict_size": 1 << 27}]


def pack_root(root: GuestRoot, file: Path) -> None:
    """Pack a root as one .tar.xz for `unpack`. Raises OSError."""
    import tarfile

    def reset_metadata(member: tarfile.TarInfo) -> tarfile.TarInfo:
        member.uid = member.gid = member.mtime = 0
        member.uname = member.gname = ""
        return member

    partial = file.with_name(file.name + ".part")
    with (
        lzma.open(partial, "wb", filters=FILTERS) as xz,
        tarfile.open(fileobj=xz, mode="w") as packed,
    ):
        for name in ("root.json", "tree"):
            packed.add(root.tree.with_name(name), name, filter=reset_metadata)
    partial.replace(file)


def unpack_root(file: Path, cache: Path, wanted: str | None) -> GuestRoot:
    """Unpack a packed root into the cache.

    Raises SetupError for a file that is truncated, differs from its record, or has another digest
    than `wanted`; OSError.
    """
    import tarfile

    require_space(cache, UNPACKED_BYTES, "the sandbox's root")
    with replaced_folder(cache / "root" / inputs_hash()) as finished:
        try:
            with tarfile.open(file) as packed:
                packed.extraction_filter = lambda member, _: member  # extract members unchanged
                packed.extractall(finished)
        except (tarfile.TarError, EOFError, lzma.LZMAError) as error:
            raise SetupError(f"{file} is not a whole root ({error}): {AGAIN}") from error
        record = cast("RootRecord", locate.read_json(finished / "root.json") or {})
        if {hash_of(finished / "tree"), wanted} != {record.get("hash")}:
            raise SetupError(f"{file}: its content is not what its hash names: {AGAIN}")
    return GuestRoot(cache / "root" / inputs_hash() / "tree", record)


def main() -> int:
    """Run a command: make, or pack FILE."""
    bench = InstallContext(cache_folder(), 1, print, -1, step="root")
    (bench.cache / "log").mkdir(parents=True, exist_ok=True)
    try:
        match sys.argv[1:]:
            case ["make"]:
                print(provide_root(bench))
            case ["pack", file] if (root := find_root()) is not None:
                pack_root(root, Path(file))
            case _:
                print("root: make or (once it is made) pack FILE", file=sys.stderr)
                return 2
    except (SetupError, OSError) as error:
        print(f"root: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
