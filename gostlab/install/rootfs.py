"""The sandbox's root: a Debian of the lab's own, unpacked as an ordinary user.

`root.lock` beside this module pins each package by version and SHA-256. The machine's own mirror
has them, read by an apt of the lab's own; nothing is installed, and no maintainer script runs. What
the scripts would have done and a guest needs (links, users, the loader's cache, byte code) is done
here. The same lock makes the same files, on any host; one hash over all of them names the root.

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
import tarfile
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache as once
from pathlib import Path
from typing import Any

from gostlab.install import apt as archive
from gostlab.install import deb_extract, locate
from gostlab.install.build_env import (
    HashMismatch,
    SetupError,
    Workbench,
    locked,
    replacing,
    require_space,
    run_logged,
    write_json,
)
from gostlab.install.deb_extract import is_program, libraries_in, needed_libraries
from gostlab.registry.folders import BROUGHT, cache_folder
from gostlab.registry.iperf3_versions import OWN

PACKED = BROUGHT / "root.tar.xz"  # in a package from `make wheel`
LOCK = Path(__file__).with_name("root.lock")
# What the kernel starts in it: it mounts the lab, whose init goes on.
FIRST = Path(__file__).parents[1] / "sandbox" / "guest_stage0.py"
FIRST_IN_ROOT = "/usr/lib/gostlab/first.py"
RECIPE = 3  # another number for another way to make a root of the same packages
MACHINE = "x86_64"
BYTES = 500_000_000  # packages and tree, while it is made
UNPACKED_BYTES = 200_000_000
LIBRARIES = "usr/lib/x86_64-linux-gnu"
LOADER = f"{LIBRARIES}/ld-linux-x86-64.so.2"
PYTHON = "usr/bin/python3.11"

# -- what it is made of

SUITE = "bookworm"
# Programs and Python's modules; the libraries that they need are found when the lock is written.
# libgcc-s1 is none that a program names: glibc opens it where a thread ends (stunnel's).
PACKAGES = (
    "base-files base-passwd bash coreutils dash debianutils diffutils findutils gcc-12-base grep"
    " gzip libgcc-s1 hostname libc-bin mawk mount ncurses-base netbase procps sed tar util-linux"
    " python3 python3-minimal python3.11 python3.11-minimal libpython3-stdlib"
    " libpython3.11-stdlib libpython3.11-minimal python3-distutils python3-lib2to3 python3-yaml"
    " mininet ethtool iputils-ping net-tools wget irtt nginx nginx-common openssl openvpn"
    " wireguard-tools openssh-client openssh-server stunnel4 shadowsocks-libev"
).split()
BACKPORTS = ("iproute2",)  # a newer tc, which sets netem's seed
TOOLS = ("patchelf",)  # with which it is made; not in it
LEFT_OUT = (
    "./usr/share/doc/*/[!c]*",  # of a package's documents its copyright stays
    "./usr/share/doc/*/changelog*",
    *(
        f"./usr/share/{name}"
        for name in "man info locale lintian bug bash-completion menu icons applications pixmaps"
        " perl perl5 python3 zsh fish debhelper reportbug apport".split()
    ),
    "./usr/share/vim",
    *(
        f"{where}/{LIBRARIES.removeprefix('usr/')}/{name}"
        for where in (".", "./usr")
        for name in "gconv perl* security engines-* libdb-* libsqlite3.* libmvec.* libpanelw.*"
        " libmenuw.* libformw.*".split()
    ),
    *(
        f"./usr/lib/python3.11/{name}"
        for name in "test idlelib tkinter turtledemo ensurepip pydoc_data lib2to3"
        " venv wsgiref sqlite3 dbm lib-dynload/_sqlite3.* lib-dynload/_dbm.* lib-dynload/*test*"
        " config-3.11-x86_64-linux-gnu unittest xmlrpc turtle.py pydoc.py doctest.py _pydecimal.py"
        " _pyio.py mailbox.py imaplib.py nntplib.py smtpd.py pickletools.py distutils/[!_v]*"
        " lib-dynload/_codecs_* encodings/big5* encodings/cp[!4]* encodings/euc* encodings/gb*"
        " encodings/hp* encodings/hz* encodings/iso* encodings/johab* encodings/k*"
        " encodings/mac* encodings/pal* encodings/ptcp* encodings/shift* encodings/tis*".split()
    ),
    *("./usr/lib/python3/dist-packages/mininet/examples", "./usr/share/doc-base", "./usr/include"),
    *("./usr/lib/openssh/ssh-*-helper", "./usr/lib/openssh/ssh-keysign"),
    *(f"./usr/lib/x86_64-linux-gnu/{name}" for name in ("krb5", "libexpatw.*")),
    *(  # programs that no run and no tunnel starts
        f"{where}/{name}"
        for where in ("./bin", "./sbin", "./usr/bin", "./usr/sbin")
        for name in "agetty arpd blk* c_rehash chmem ctrlaltdel dcb devlink fsck* fstrim genl"
        " iconvconfig isosize ldattach localedef lsblk lslogins lsmem mkfs* mkswap partx plipconfig"
        " ptx py3clean py3compile pydoc* pygettext* rdma readprofile resizepart rtacct rtcwake"
        " rtmon slattach ss-local ss-manager ss-nat ss-redir ssh-add ssh-agent ssh-copy-id"
        " ssh-keyscan sulogin swap* switch_root tipc tzselect utmpdump vdpa wdctl wipefs zic"
        " zramctl".split()
    ),
    *("./lib/systemd", "./usr/lib/systemd", "./etc/init.d", "./etc/cron*", "./var/cache"),
)
# What no iperf3 opens of its release's C library.
UNOPENED = re.compile(
    r"lib(BrokenLocale|SegFault|anl|c_malloc_debug|memusage|mvec|nsl|pcprofile|thread_db)\b"
)
FOLDERS = "dev etc home mnt opt proc root run srv sys tmp var/tmp usr/lib/gostlab".split()
# What maintainer scripts would have made.
LINKS = {"usr/bin/awk": "mawk", "usr/bin/which": "which.debianutils", "usr/bin/python": "python3"}
# The system's iperf3, which a run without an iperf3 of the lab's own looks for: its Debian's.
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


@dataclass(frozen=True)
class Pinned:
    """A package of the lock. place: root; an iperf3 (iperf3/3.18); tool: what it is made with."""

    place: str
    suite: str
    package: str
    version: str
    sha256: str

    @property
    def file_name(self) -> str:
        """As apt calls it, and no other release's of the same name."""
        return f"{self.suite}_{self.package}_{self.version.replace(':', '%3a')}.deb"

    def __str__(self) -> str:
        return f"{self.package} {self.version}"


def read_lock(file: Path = LOCK) -> list[Pinned]:
    """The packages that the root is made of."""
    lines = file.read_text(encoding="utf-8").splitlines()
    return [Pinned(*line.split()) for line in lines if line and not line.startswith("#")]


def moment_of(file: Path = LOCK) -> str:
    """When the mirror had all of them, as snapshot archives say it."""
    return re.findall(r"\b\d{8}T\d{6}Z\b", file.read_text(encoding="utf-8"))[0]


# -- looking


@dataclass(frozen=True)
class Root:
    """A root that is there."""

    tree: Path
    record: dict[str, Any] = field(hash=False)

    @property
    def search_path(self) -> str:
        """Where its programs are, on the host."""
        return os.pathsep.join(str(self.tree / name) for name in ("usr/sbin", "usr/bin"))

    @property
    def hash(self) -> str:
        """SHA-256 over everything in it: which runs have the same bits."""
        return str(self.record["hash"])

    def says(self) -> dict[str, Any]:
        """What a run's record has of it."""
        return {key: self.record[key] for key in ("suite", "hash")}

    def argv(self, program: str, *words: str | Path) -> list[str | Path]:
        """One of its programs on the host, with the loader and libraries of its own."""
        return [
            self.tree / LOADER,
            "--library-path",
            self.tree / LIBRARIES,
            self.tree / program,
            *words,
        ]

    def python(self, *words: str | Path) -> tuple[list[str | Path], dict[str, str]]:
        """Its Python on the host: words and environment."""
        environ = {"PYTHONHOME": str(self.tree / "usr"), "PYTHONHASHSEED": "0", "LC_ALL": "C.UTF-8"}
        return self.argv(PYTHON, *words), environ


@once
def inputs_hash() -> str:
    """What a root is made from: the lock, what the kernel starts in it, and the way it is made."""
    total = hashlib.sha256(f"{RECIPE}\n{LEFT_OUT}{LINKS}{COPIES}{FILES}\n".encode())
    for file in (LOCK, FIRST):
        total.update(file.read_bytes())
    return total.hexdigest()[:12]


def find_root(cache: Path | None = None) -> Root | None:
    """The root of today's lock: this package's, the user's or the machine's. Raises MissingPart."""
    return brought_root() if PACKED.is_file() and cache is None else look_for_root(cache)


def look_for_root(cache: Path | None = None) -> Root | None:
    """The root of today's lock that is unpacked."""
    for folder in locate.versions_of("root", inputs_hash(), cache):
        record = locate.read_json(folder / "root.json")
        if record is not None and (folder / "tree").is_dir():
            return Root(folder / "tree", record)
    return None


def is_chosen() -> bool:
    """Whether sandboxes boot on the lab's own root: as GOSTLAB_ROOT says. Raises MissingPart."""
    asked = os.environ.get("GOSTLAB_ROOT", "")
    if asked not in ("", "own", "host") and not re.fullmatch("[0-9a-f]{12,64}", asked):
        raise locate.MissingPart(f"GOSTLAB_ROOT is {asked!r}: write own, host or a root's hash")
    return asked != "host" if asked else os.uname().machine == MACHINE


def chosen_root() -> Root | None:
    """The root that sandboxes boot on; None: the host's files. Raises MissingPart."""
    if not is_chosen():
        return None
    found = find_root()
    if found is None:
        raise locate.MissingPart("the sandbox's root is missing: run ./lab setup --only root")
    asked = os.environ.get("GOSTLAB_ROOT", "")
    if asked not in ("", "own") and not found.hash.startswith(asked):
        raise locate.MissingPart(
            f"GOSTLAB_ROOT asks for the root {asked[:12]}, and this machine has {found.hash[:12]}:"
            " set it up from the same commit"
        )
    return found


def brought_root() -> Root:
    """The root in this package, unpacked in the cache at its first use. Raises MissingPart."""
    cache, wanted = cache_folder(), (locate.read_json(BROUGHT / "root.json") or {}).get("hash")
    try:
        found = look_for_root(cache)
        if found is None or found.hash != wanted:
            cache.mkdir(parents=True, exist_ok=True)
            with locked(cache, lambda _: None, "root.lock"):
                found = look_for_root(cache)  # another process may have been at the same
                if found is None or found.hash != wanted:
                    found = unpack(PACKED, cache, wanted)
        return found
    except SetupError as error:
        raise locate.MissingPart(str(error)) from error
    except OSError as error:
        raise locate.MissingPart(
            f"{cache}: the sandbox's root cannot be unpacked there: {error.strerror}: make"
            " room, or set GOSTLAB_CACHE to a folder elsewhere"
        ) from error


def hash_of(tree: Path) -> str:
    """SHA-256 over all names, contents and rights to execute below a folder."""
    total = hashlib.sha256()
    for at, folders, files in os.walk(tree):
        folders.sort()
        for name in sorted([*files, *(each for each in folders if Path(at, each).is_symlink())]):
            path = Path(at, name)
            if path.is_symlink():
                said = f"-> {os.readlink(path)}"
            else:
                runs = "x" if path.stat().st_mode & stat.S_IXUSR else "-"
                said = f"{runs} {locate.file_sha256(path)}"
            total.update(f"{path.relative_to(tree)} {said}\n".encode())
        if not folders and not files:
            total.update(f"{Path(at).relative_to(tree)}/\n".encode())
    return total.hexdigest()


# -- making


def provide_root(bench: Workbench) -> str:
    """The sandbox's own root, made of Debian's packages. Raises SetupError."""
    found = find_root(bench.cache)
    if found is not None:
        return f"{named(found)} (made before)"
    if os.uname().machine != MACHINE:
        raise SetupError(f"the lab's own root is for {MACHINE}, this machine {os.uname().machine}")
    pinned = read_lock()
    require_space(bench.cache, BYTES, "the sandbox's root while it is made")
    got, newer = fetch(bench, pinned)
    bench.say("unpacking")
    folder = bench.cache / "root" / inputs_hash()
    with replacing(folder) as finished:
        tree = finished / "tree"
        record = make(bench, got, tree)
        record |= {"suite": SUITE, "hash": hash_of(tree), "newer": newer}
        write_json(finished / "root.json", record)
    shutil.rmtree(bench.cache / "build" / "root", ignore_errors=True)
    made = find_root(bench.cache)
    assert made is not None
    where = ["GOSTLAB_SNAPSHOT=URL/archive/debian gives the pinned ones"] if newer else []
    return "; ".join([named(made), *newer, *where])


def named(root: Root) -> str:
    """A root in a few words."""
    return f"Debian {root.record['suite']}, {root.hash[:12]}"


def fetch(
    bench: Workbench, pinned: Sequence[Pinned]
) -> tuple[list[tuple[Pinned, Path]], list[str]]:
    """The files of all packages, and a line for each that is to be had in a newer version alone.
    What has come stays until the root is made: the next try goes on. Raises SetupError.
    """
    place = bench.cache / "build" / "root"
    place.mkdir(parents=True, exist_ok=True)

    def left() -> list[Pinned]:
        return [one for one in pinned if not (place / one.file_name).is_file()]

    newer: dict[Pinned, Pinned] = {}
    if left():
        apt = archive.private_apt(bench.apt_folder, "the sandbox's root")
        suites = list(dict.fromkeys(one.suite for one in pinned))
        offered = fetch_from(apt, suites, left(), place, bench)
        before = archive.apt_at(apt, moment_of()) if left() else None
        if before is not None:
            fetch_from(before, suites, left(), place, bench)
        newer = {one: as_offered(one, offered, apt.complaints) for one in left()}
        download(apt, list(newer.values()), place)
    said = [
        f"{one} has gone from the mirror: {other.version} taken"
        for one, other in newer.items()
        if other is not one
    ]
    return [(one, place / newer.get(one, one).file_name) for one in pinned], said


def fetch_from(
    apt: archive.PrivateApt,
    suites: Sequence[str],
    wanted: Sequence[Pinned],
    place: Path,
    bench: Workbench,
) -> list[archive.Candidate]:
    """Packages that an archive has as pinned, as they come; its offers. Raises HashMismatch."""
    bench.say(f"fetching {len(wanted)} packages")
    apt.read_suites(suites)
    offered = apt.versions(dict.fromkeys(one.package for one in wanted))
    has = {(each.package, each.suite, each.version) for each in offered}
    with contextlib.suppress(archive.ArchiveError):  # the next to ask may have it
        download(
            apt, [one for one in wanted if (one.package, one.suite, one.version) in has], place
        )
    return offered


def as_offered(
    one: Pinned, offered: Iterable[archive.Candidate], complaints: Sequence[str]
) -> Pinned:
    """A pinned package, or what its suite has in its place. Raises SetupError."""
    found = [each for each in offered if (each.package, each.suite) == (one.package, one.suite)]
    if any(each.version == one.version for each in found):
        return one
    if not found:
        why = f" ({complaints[-1]})" if complaints else ""
        raise SetupError(f"the mirror's {one.suite} does not have {one.package}{why}")
    newest = archive.newest_first(found, ())[0]
    return Pinned(one.place, one.suite, one.package, newest.version, "")


def download(apt: archive.PrivateApt, wanted: Sequence[Pinned], place: Path) -> None:
    """Fetch packages, each named once its sum is right. Raises HashMismatch, ArchiveError."""
    for suite in dict.fromkeys(one.suite for one in wanted):
        of_suite = [one for one in wanted if one.suite == suite]
        scratch = place / suite
        complaint = None
        try:
            apt.download_current([f"{one.package}={one.version}" for one in of_suite], scratch)
        except archive.ArchiveError as error:
            complaint = error
        for one in of_suite:
            version = one.version.replace(":", "%3a")
            for file in scratch.glob(f"{one.package}_{version}_*.deb"):
                sha256 = locate.file_sha256(file)
                if one.sha256 not in ("", sha256):
                    file.unlink()
                    raise HashMismatch(
                        f"{one}: the mirror's file is not the one that {LOCK.name} pins: its"
                        f" SHA-256 is {sha256}, not {one.sha256} (it has been deleted)"
                    )
                file.rename(place / one.file_name)
        if complaint is not None:
            raise complaint
        missing = [str(one) for one in of_suite if not (place / one.file_name).is_file()]
        if missing:
            raise archive.ArchiveError(f"{', '.join(missing)} did not come: run it again")


def make(bench: Workbench, got: Sequence[tuple[Pinned, Path]], tree: Path) -> dict[str, Any]:
    """A root of unpacked packages; what is to be said of it. Raises SetupError, OSError."""
    log = bench.log("root")
    for name in FOLDERS:
        (tree / name).mkdir(parents=True, exist_ok=True)
    deb_extract.unpack([file for one, file in got if one.place == "root"], tree, log, LEFT_OUT)
    root = Root(tree, {})
    iperf3s = keep_iperf3s(got, tree, log)
    finish(tree, log)
    bench.say("compiling its Python")
    compile_python(root, log)
    packages = [f"{file.name.removesuffix('.deb')}" for _, file in got]
    return {
        "packages": sorted(packages),
        "iperf3": iperf3s,
        "sources": sources_of((one, file) for one, file in got if one.place != "tool"),
    }


def sources_of(got: Iterable[tuple[Pinned, Path]]) -> dict[str, list[str]]:
    """What packages were built from (`gcc-12 12.2.0-14`), and the folders of their copyright."""
    found: dict[str, list[str]] = {}
    for one, file in got:
        form = "${source:Package} ${source:Version}"
        said = locate.output_of(["dpkg-deb", "--show", "--showformat", form, file]).strip()
        documents = "usr/share/doc" if one.place == "root" else f"usr/lib/gostlab/{one.place}/doc"
        found.setdefault(said, []).append(f"{documents}/{one.package}")
    return found


def keep_iperf3s(
    got: Sequence[tuple[Pinned, Path]], tree: Path, log: Path
) -> dict[str, dict[str, str]]:
    """The lab's own iperf3s, each with the loader and the libraries of its own release, and their
    copyright; what a run's record has of them. Raises SetupError.
    """
    scratch = tree.with_name("scratch")
    for one, file in got:
        if one.place != "root":
            deb_extract.unpack([file], scratch / one.place, log)
    tool = scratch / "tool"
    libraries = ":".join(str(top / LIBRARIES) for top in (tree, tool))
    patchelf: list[str | Path] = [tree / LOADER, "--library-path", libraries]
    patchelf.append(tool / "usr/bin/patchelf")
    found = {}
    for one, _ in got:
        if one.package != "iperf3" or one.place == "root":
            continue
        folder = tree / "usr/lib/gostlab" / one.place
        sha256 = deb_extract.keep_iperf3(scratch / one.place, folder)
        came = list(libraries_in(scratch / one.place))
        # A library is opened by the name that links to it.
        linked = {each.resolve().name for each in came if each.name != each.resolve().name}
        for each in list((folder / "lib").iterdir()):
            if each.name in linked or UNOPENED.match(each.name):
                each.unlink()
        for each in (scratch / one.place / "usr/share/doc").glob("*/copyright"):
            if each.is_file() and not each.parent.is_symlink():
                place = folder / "doc" / each.parent.name
                place.mkdir(parents=True, exist_ok=True)
                shutil.copy2(each, place)
        inside = f"/{folder.relative_to(tree)}/lib"
        loader = next((folder / "lib").glob("ld-linux-*.so.*")).name
        words = ["--set-interpreter", f"{inside}/{loader}", "--force-rpath", "--set-rpath", inside]
        run_logged([*patchelf, *words, folder / "iperf3"], log)
        found[folder.name] = {
            "path": f"/{folder.relative_to(tree)}/iperf3",
            "version": one.version,
            "sha256": sha256,
        }
    shutil.rmtree(scratch)
    return found


def finish(tree: Path, log: Path) -> None:
    """What a guest needs of what the packages' scripts would do. Raises SetupError, OSError."""
    for name, target in LINKS.items():
        (tree / name).unlink(missing_ok=True)
        (tree / name).symlink_to(target)
    for name, source in COPIES.items():
        shutil.copyfile(tree / source, tree / name)
    for name, text in FILES.items():
        (tree / name).write_text(text, encoding="utf-8")
    shutil.copyfile(FIRST, tree / FIRST_IN_ROOT.lstrip("/"))
    (tree / FIRST_IN_ROOT.lstrip("/")).chmod(0o755)
    # Who cannot change his root has the same done path by path.
    run_logged([tree / "usr/sbin/ldconfig", "-X", "-r", tree], log)
    (tree / "usr/sbin/ldconfig").unlink()
    shutil.rmtree(tree / "var/cache", ignore_errors=True)
    # The same under any umask: to be read by all, and no program gains rights.
    for at, _, files in os.walk(tree):
        Path(at).chmod(0o755)
        for path in (Path(at, name) for name in files):
            if not path.is_symlink():
                path.chmod(0o755 if path.stat().st_mode & stat.S_IXUSR else 0o644)


def compile_python(root: Root, log: Path) -> None:
    """Byte code beside its Python's modules, the same wherever it is made. Raises SetupError."""
    folders = [root.tree / "usr/lib/python3.11", root.tree / "usr/lib/python3/dist-packages"]
    words: list[str | Path] = ["-S", "-m", "compileall", "-q", "-f"]
    words += ["--invalidation-mode", "unchecked-hash", "-s", root.tree, "-p", "/", *folders]
    argv, environ = root.python(*words)
    with links_within(root.tree, (path for folder in folders for path in folder.rglob("*.py"))):
        run_logged(argv, log, environment=environ)


@contextlib.contextmanager
def links_within(tree: Path, paths: Iterable[Path]) -> Iterator[None]:
    """Links of a root to absolute paths lead to its own files meanwhile, not to the host's."""
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


# -- as one file

AGAIN = "install or fetch it again"
# Programs shrink by the first; copies of a library lie further apart than xz looks back by itself.
FILTERS = [{"id": lzma.FILTER_X86}, {"id": lzma.FILTER_LZMA2, "preset": 9, "dict_size": 1 << 27}]


def pack(root: Root, file: Path) -> None:
    """A root as one .tar.xz, for `unpack`. Raises OSError."""

    def plain(member: tarfile.TarInfo) -> tarfile.TarInfo:
        member.uid = member.gid = member.mtime = 0
        member.uname = member.gname = ""
        return member

    part = file.with_name(file.name + ".part")
    with lzma.open(part, "wb", filters=FILTERS) as xz, tarfile.open(fileobj=xz, mode="w") as packed:
        for name in ("root.json", "tree"):
            packed.add(root.tree.with_name(name), name, filter=plain)
    part.replace(file)


def unpack(file: Path, cache: Path, wanted: str | None) -> Root:
    """A packed root in the cache. Raises SetupError for a file that is cut short, is not what its
    record says, or has another hash than is wanted; OSError.
    """
    require_space(cache, UNPACKED_BYTES, "the sandbox's root")
    with replacing(cache / "root" / inputs_hash()) as finished:
        try:
            with tarfile.open(file) as packed:
                packed.extraction_filter = lambda member, _: member  # each as it is
                packed.extractall(finished)
        except (tarfile.TarError, EOFError, lzma.LZMAError) as error:
            raise SetupError(f"{file} is not a whole root ({error}): {AGAIN}") from error
        record = locate.read_json(finished / "root.json") or {}
        if {hash_of(finished / "tree"), wanted} != {record.get("hash")}:
            raise SetupError(f"{file}: its content is not what its hash names: {AGAIN}")
    return Root(cache / "root" / inputs_hash() / "tree", record)


# -- the lock


def write_lock(bench: Workbench) -> None:
    """Pin what the mirror has now. Raises SetupError."""
    apt = archive.private_apt(bench.apt_folder, "the packages to pin")
    place = bench.cache / "build" / "lock"
    shutil.rmtree(place, ignore_errors=True)
    lines: set[str] = set()

    def pin(where: str, suite: str, packages: Sequence[str]) -> None:
        """Pin packages as the suite read last has them."""
        for file in apt.download_current(packages, place / where / suite):
            name, version, _ = file.name.split("_")
            version = version.replace("%3a", ":")
            lines.add(f"{where} {suite} {name} {version} {locate.file_sha256(file)}")

    backports = f"{SUITE}-backports"
    apt.read_suites([backports])
    pin("root", backports, BACKPORTS)
    apt.read_suites([SUITE])
    pin("root", SUITE, PACKAGES)
    libraries = [
        each for each in apt.with_libraries([*PACKAGES, *BACKPORTS]) if each not in PACKAGES
    ]
    libraries = [each for each in libraries if each not in BACKPORTS]
    files = {
        each.name.split("_")[0]: each for each in apt.download_current(libraries, place / "all")
    }
    pin("root", SUITE, needed_packages(bench, place, files))
    pin("tool", SUITE, [*TOOLS, "libstdc++6"])
    for kind in OWN.values():
        apt.read_suites([kind.suite])
        pin(f"iperf3/{kind.version}", kind.suite, ["iperf3", *kind.libraries])
    now = time.strftime("%Y%m%dT%H%M%SZ", time.gmtime())
    head = (
        f"# What the sandbox's root is made of, at {now}: python3 -m gostlab.install.rootfs lock\n"
    )
    LOCK.write_text(head + "".join(f"{line}\n" for line in sorted(lines)), encoding="utf-8")


def needed_packages(bench: Workbench, place: Path, files: Mapping[str, Path]) -> list[str]:
    """Those packages whose libraries programs, Python's modules or libraries need."""
    log = bench.log("root-lock")
    deb_extract.unpack((place / "root").rglob("*.deb"), place / "programs", log, LEFT_OUT)
    owner = {}
    libraries = {}
    for name, file in files.items():
        deb_extract.unpack([file], place / "libraries" / name, log, LEFT_OUT)
        for path in libraries_in(place / "libraries" / name):
            owner[path.name] = name
            libraries[path.name] = path
    programs = [path for path in (place / "programs").rglob("*") if is_program(path)]
    return sorted({owner[name] for name in needed_libraries(programs, libraries)})


def main() -> int:
    """lock: pin what the mirror has; make; pack FILE."""
    bench = Workbench(cache_folder(), 1, print, -1, step="root")
    (bench.cache / "log").mkdir(parents=True, exist_ok=True)
    try:
        match sys.argv[1:]:
            case ["lock"]:
                write_lock(bench)
            case ["make"]:
                print(provide_root(bench))
            case ["pack", file] if (found := find_root()) is not None:
                pack(found, Path(file))
            case _:
                print("root: lock, make or (once it is made) pack FILE", file=sys.stderr)
                return 2
    except (SetupError, OSError) as error:
        print(f"root: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
